#include "report/json_parts.h"

#include <stdio.h>

#include "base/version.h"
#include "planner/advise.h"
#include "report/facts.h"

static void text_or_null(struct spp_jo *jo, const char *key, const char *text) {
  spp_jo_str(jo, key, text && *text ? text : NULL);
}

void spp_jp_echo(struct spp_jo *jo, const char *key, const struct spp_echo *echo) {
  switch (echo->kind) {
  case SPP_ECHO_NULL: spp_jo_null(jo, key); break;
  case SPP_ECHO_I64: spp_jo_i64(jo, key, echo->i64); break;
  case SPP_ECHO_REAL: spp_jo_real_exact(jo, key, echo->real); break;
  case SPP_ECHO_BOOL: spp_jo_bool(jo, key, echo->i64 != 0); break;
  case SPP_ECHO_TEXT: spp_jo_str(jo, key, echo->text); break;
  case SPP_ECHO_TEXTS:
    spp_jo_arr(jo, key);
    for (int i = 0; i < echo->text_count; i++)
      spp_jo_str(jo, NULL, echo->texts[i]);
    spp_jo_end(jo);
    break;
  case SPP_ECHO_REALS:
    spp_jo_arr(jo, key);
    for (int i = 0; i < echo->text_count; i++)
      spp_jo_real_exact(jo, NULL, echo->reals[i]);
    spp_jo_end(jo);
    break;
  }
}

void spp_jp_open(struct spp_jo *jo, struct spp_str *out, const char *schema,
                 const struct spp_report *report) {
  spp_jo_begin(jo, out, true);
  spp_jo_obj(jo, NULL);
  spp_jo_str(jo, "schema", schema);
  spp_jo_str(jo, "version", spp_version());
  if (!report) return;
  spp_jo_obj(jo, "inputs");
  for (int i = 0; i < report->input_count; i++)
    spp_jp_echo(jo, report->inputs[i].key, &report->inputs[i]);
  spp_jo_end(jo);
  spp_jo_arr(jo, "given");
  for (int i = 0; i < report->input_count; i++)
    if (report->inputs[i].given) spp_jo_str(jo, NULL, report->inputs[i].key);
  spp_jo_end(jo);
}

void spp_jp_model(struct spp_jo *jo, const struct spp_job *job) {
  const struct spp_arch *arch = job->arch;
  spp_jo_obj(jo, "model");
  spp_jo_str(jo, "name", arch->name);
  spp_jo_str(jo, "display", arch->display);
  text_or_null(jo, "hf_id", arch->hf_id);
  spp_jo_i64(jo, "params_total", job->params.total);
  spp_jo_i64(jo, "params_active", job->params.active);
  spp_jo_i64(jo, "layers", arch->layers);
  spp_jo_i64(jo, "hidden", arch->hidden);
  spp_jo_i64(jo, "heads", arch->heads);
  spp_jo_i64(jo, "kv_heads", arch->kv_heads);
  spp_jo_i64(jo, "head_dim", arch->head_dim);
  spp_jo_i64(jo, "vocab", arch->vocab);
  spp_jo_i64(jo, "ffn", arch->ffn);
  spp_jo_i64(jo, "experts", arch->experts);
  spp_jo_i64(jo, "experts_per_token", arch->experts_per_token);
  spp_jo_i64_if(jo, "max_positions", arch->max_positions, arch->max_positions > 0);
  spp_jo_end(jo);
}

static void recompute_modules(struct spp_jo *jo, const struct spp_layout *layout) {
  spp_jo_arr(jo, "recompute_modules");
  for (int bit = 0; bit < SPP_FACT_MODULES; bit++)
    if (layout->recompute == SPP_RECOMPUTE_SELECTIVE && (layout->recompute_modules >> bit & 1u))
      spp_jo_str(jo, NULL, spp_recompute_module_name(bit));
  spp_jo_end(jo);
}

void spp_jp_layout(struct spp_jo *jo, const struct spp_job *job, const struct spp_layout *layout) {
  bool partial = layout->recompute == SPP_RECOMPUTE_FULL && layout->recompute_layers >= 0;
  spp_jo_obj(jo, "layout");
  spp_jo_i64(jo, "tp", layout->tp);
  spp_jo_i64(jo, "pp", layout->pp);
  spp_jo_i64(jo, "vpp", layout->vpp);
  spp_jo_i64(jo, "dp", layout->dp);
  spp_jo_i64(jo, "ep", layout->ep);
  spp_jo_i64(jo, "sp", spp_layout_sp(layout));
  spp_jo_str(jo, "sp_kind", spp_sp_kind_name(layout->sp_kind));
  spp_jo_i64(jo, "ulysses", layout->ulysses);
  spp_jo_i64(jo, "ring", layout->ring);
  spp_jo_str(jo, "ring_impl", spp_fact_has_ring(layout) ? spp_ring_impl_name(job->ring_impl) : NULL);
  spp_jo_str(jo, "ring_order", layout->ring > 1 ? spp_ring_order_name(job->ring_order) : NULL);
  spp_jo_bool(jo, "megatron_sp", layout->megatron_sp);
  spp_jo_i64(jo, "zero", layout->zero);
  spp_jo_str(jo, "recompute", spp_recompute_name(layout->recompute));
  spp_jo_str(jo, "offload", spp_offload_name(layout->offload));
  spp_jo_i64(jo, "micro_batch", layout->micro_batch);
  spp_jo_i64(jo, "grad_accum", layout->grad_accum);
  spp_jo_i64(jo, "global_batch", job->global_batch);
  spp_jo_i64(jo, "etp", layout->etp);
  spp_jo_i64(jo, "dp_replicate", layout->dp_replicate);
  recompute_modules(jo, layout);
  spp_jo_i64_if(jo, "recompute_layers", layout->recompute_layers, partial);
  spp_jo_i64_if(jo, "offload_layers", layout->offload_layers, layout->offload_layers > 0);
  spp_jo_str(jo, "schedule", layout->pp > 1 ? spp_schedule_name(layout->schedule) : NULL);
  spp_jo_i64_if(jo, "first_stage_layers", layout->first_stage_layers, layout->first_stage_layers > 0);
  spp_jo_i64_if(jo, "last_stage_layers", layout->last_stage_layers, layout->last_stage_layers > 0);
  spp_jo_i64_if(jo, "fpdt_chunk_tokens", layout->fpdt_chunk, layout->fpdt_chunk > 0);
  spp_jo_bool(jo, "fpdt_offload", layout->fpdt_offload);
  spp_jo_str(jo, "attention", spp_attention_impl_name(job->attention));
  spp_jo_str(jo, "kernels", spp_kernels_name(job->kernels));
  spp_jo_str(jo, "loss",
             job->loss_path_forced >= 0 ? spp_loss_path_name((enum spp_loss_path)job->loss_path_forced)
                                        : spp_loss_choice_name(job->loss));
  spp_jo_end(jo);
}

static void parts(struct spp_jo *jo, const char *name, const int64_t *bytes, int first, int last) {
  char key[48];
  spp_jo_obj(jo, name);
  for (int i = first; i <= last; i++) {
    snprintf(key, sizeof key, "%s_bytes", spp_part_name((enum spp_part)i));
    spp_jo_i64(jo, key, bytes[i]);
  }
  spp_jo_end(jo);
}

static void layer_kinds(struct spp_jo *jo, const struct spp_arch *arch, const struct spp_memory *memory) {
  int common = spp_fact_common_kind(arch);
  spp_jo_obj(jo, "per_layer");
  spp_jo_i64(jo, "kept_bytes", memory->kept_bytes[common]);
  spp_jo_i64(jo, "checkpoint_bytes", memory->checkpoint_bytes[common]);
  spp_jo_end(jo);
  spp_jo_arr(jo, "per_layer_kinds");
  for (int i = 0; i < arch->kind_count; i++) {
    const struct spp_layer_kind *kind = &arch->kinds[i];
    spp_jo_obj(jo, NULL);
    spp_jo_i64(jo, "layers", kind->count);
    spp_jo_bool(jo, "moe", kind->moe);
    spp_jo_i64_if(jo, "window_tokens", kind->window_tokens, kind->window_tokens > 0);
    spp_jo_i64(jo, "kept_bytes", memory->kept_bytes[i]);
    spp_jo_i64(jo, "checkpoint_bytes", memory->checkpoint_bytes[i]);
    spp_jo_end(jo);
  }
  spp_jo_end(jo);
}

void spp_jp_memory(struct spp_jo *jo, const struct spp_job *job, const struct spp_memory *memory) {
  char key[48];
  spp_jo_obj(jo, "memory");
  spp_jo_i64(jo, "peak_bytes", memory->peak_bytes);
  spp_jo_i64(jo, "reserved_bytes", memory->reserved_bytes);
  spp_jo_i64(jo, "device_bytes", memory->device_bytes);
  spp_jo_i64(jo, "low_bytes", memory->low_bytes);
  spp_jo_i64(jo, "high_bytes", memory->high_bytes);
  spp_jo_i64(jo, "capacity_bytes", memory->capacity_bytes);
  spp_jo_bool(jo, "fits", memory->fits);
  spp_jo_real(jo, "fit_probability", memory->fit_probability);
  spp_jo_i64(jo, "worst_rank", memory->worst_rank);
  spp_jo_i64(jo, "headroom_bytes", memory->headroom_bytes);
  spp_jo_i64(jo, "reclaimable_bytes", memory->reclaimable_bytes);
  spp_jo_str(jo, "peak_phase", spp_phase_name(spp_moment_phase(memory->peak_moment)));
  spp_jo_i64(jo, "host_bytes_per_node", memory->host_bytes_per_node);
  parts(jo, "parts", memory->parts, 0, SPP_PART_COUNT - 1);
  spp_jo_obj(jo, "phases");
  for (int i = 0; i < SPP_PHASE_COUNT; i++) {
    snprintf(key, sizeof key, "%s_bytes", spp_phase_name((enum spp_phase)i));
    spp_jo_i64(jo, key, memory->phase_bytes[i]);
  }
  spp_jo_end(jo);
  layer_kinds(jo, job->arch, memory);
  parts(jo, "resident", memory->resident, SPP_PART_WEIGHTS, SPP_PART_OPTIMIZER);
  spp_jo_i64(jo, "logits_peak_bytes", memory->logits_bytes);
  spp_jo_i64_if(jo, "host_capacity_bytes_per_node", memory->host_capacity_bytes,
                memory->host_capacity_bytes > 0);
  spp_jo_bool(jo, "host_fits", memory->host_fits);
  spp_jo_end(jo);
}

static void comm_op(struct spp_jo *jo, const struct spp_comm_op *op) {
  spp_jo_obj(jo, NULL);
  spp_jo_str(jo, "op", spp_collective_name(op->op));
  spp_jo_str(jo, "what", op->what);
  spp_jo_str(jo, "group", spp_group_name(op->group));
  spp_jo_i64(jo, "ranks", op->ranks);
  spp_jo_str(jo, "pass", spp_pass_name(op->pass));
  spp_jo_str(jo, "per", spp_per_name(op->per));
  spp_jo_i64(jo, "count_per_step", op->count_per_step);
  spp_jo_i64(jo, "sent_bytes", op->sent_bytes);
  spp_jo_i64(jo, "messages", op->messages);
  spp_jo_i64(jo, "message_bytes", op->message_bytes);
  spp_jo_str(jo, "overlap", spp_overlap_name(op->overlap));
  spp_jo_real(jo, "time_s", op->time_s);
  spp_jo_real(jo, "exposed_s", op->exposed_s);
  spp_jo_end(jo);
}

/* Ring and all-gather share a group in the model; the layout says which of the two it is. */
static void layer_bytes(struct spp_jo *jo, const char *name, const struct spp_comm *comm,
                        enum spp_group group, bool is) {
  char key[48];
  snprintf(key, sizeof key, "%s_forward", name);
  spp_jo_i64(jo, key, is ? comm->layer_forward_bytes[group] : 0);
  snprintf(key, sizeof key, "%s_backward", name);
  spp_jo_i64(jo, key, is ? comm->layer_backward_bytes[group] : 0);
}

void spp_jp_comm(struct spp_jo *jo, const struct spp_layout *layout, const struct spp_comm *comm) {
  bool gathers = layout->sp_kind == SPP_SP_ALLGATHER;
  spp_jo_obj(jo, "comm");
  spp_jo_arr(jo, "ops");
  for (int i = 0; i < comm->count; i++)
    comm_op(jo, &comm->ops[i]);
  spp_jo_end(jo);
  spp_jo_obj(jo, "sent_bytes_per_layer");
  layer_bytes(jo, "ulysses", comm, SPP_GROUP_ULYSSES, true);
  layer_bytes(jo, "ring", comm, SPP_GROUP_RING, !gathers);
  layer_bytes(jo, "allgather", comm, SPP_GROUP_RING, gathers);
  layer_bytes(jo, "tp", comm, SPP_GROUP_TP, true);
  layer_bytes(jo, "ep", comm, SPP_GROUP_EP, true);
  spp_jo_end(jo);
  spp_jo_i64(jo, "sent_bytes_per_step", comm->sent_bytes_per_step);
  spp_jo_end(jo);
}

/* With --mtbf; else null. */
static void goodput(struct spp_jo *jo, const struct spp_report *report, const struct spp_job *job,
                    const struct spp_layout *layout, const struct spp_time *time, double epoch_s) {
  struct spp_goodput g;
  if (!spp_goodput_predict(&report->failures, job, layout, time, &g)) {
    spp_jo_null(jo, "goodput");
    return;
  }
  spp_jo_obj(jo, "goodput");
  spp_jo_real(jo, "share", g.share);
  spp_jo_real(jo, "tokens_per_s", g.tokens_per_s);
  spp_jo_real(jo, "job_mtbf_s", g.job_mtbf_s);
  spp_jo_i64(jo, "checkpoint_bytes", g.checkpoint_bytes);
  spp_jo_real(jo, "checkpoint_s", g.checkpoint_s);
  spp_jo_real(jo, "checkpoint_interval_s", g.interval_s);
  spp_jo_i64(jo, "checkpoint_interval_steps", g.interval_steps);
  spp_jo_real(jo, "restart_s", g.restart_s);
  spp_jo_real_if(jo, "epoch_s", epoch_s / g.share, epoch_s > 0 && g.share > 0);
  spp_jo_end(jo);
}

static void log_members(struct spp_jo *jo, const struct spp_log_figures *log) {
  spp_jo_str(jo, "convention", log->convention);
  spp_jo_str(jo, "field", log->field);
  spp_jo_real(jo, "tflops_per_gpu", log->tflops_per_gpu);
  spp_jo_real_if(jo, "mfu", log->mfu, log->mfu > 0);
}

/* "log": what the framework of the job prints; "conventions": what every known log would. */
static void logs(struct spp_jo *jo, const struct spp_job *job, const struct spp_layout *layout,
                 const struct spp_prediction *prediction) {
  struct spp_log_figures log;
  enum spp_reporter own = job->mode == SPP_MODE_INFER ? SPP_REPORTER_NONE : job->framework->reports;
  if (own == SPP_REPORTER_NONE) {
    spp_jo_null(jo, "log");
  } else {
    spp_log_figures(own, job, layout, &prediction->geometry, &prediction->time, &log);
    spp_jo_obj(jo, "log");
    log_members(jo, &log);
    spp_jo_end(jo);
  }
  spp_jo_arr(jo, "conventions");
  for (int i = SPP_REPORTER_NONE + 1; i < SPP_REPORTER_COUNT; i++) {
    spp_log_figures((enum spp_reporter)i, job, layout, &prediction->geometry, &prediction->time, &log);
    spp_jo_obj(jo, NULL);
    log_members(jo, &log);
    spp_jo_end(jo);
  }
  spp_jo_end(jo);
}

void spp_jp_time(struct spp_jo *jo, const struct spp_report *report, const struct spp_job *job,
                 const struct spp_layout *layout, const struct spp_prediction *prediction) {
  const struct spp_time *time = &prediction->time;
  double epoch_s = spp_fact_epoch_s(report, prediction);
  spp_jo_obj(jo, "time");
  spp_jo_real(jo, "step_s", time->step_s);
  spp_jo_real(jo, "low_s", time->low_s);
  spp_jo_real(jo, "high_s", time->high_s);
  spp_jo_obj(jo, "parts");
  for (int i = 0; i < spp_time_part_count; i++) {
    char key[48];
    snprintf(key, sizeof key, "%s_s", spp_time_parts[i].name);
    spp_jo_real(jo, key, spp_fact_time_part(time, i));
  }
  spp_jo_end(jo);
  spp_jo_real(jo, "tokens_per_s_per_gpu", time->tokens_per_s_per_gpu);
  spp_jo_real(jo, "tokens_per_s", time->tokens_per_s);
  spp_jo_real(jo, "samples_per_s", time->samples_per_s);
  spp_jo_real(jo, "mfu_causal", time->mfu_causal);
  spp_jo_real(jo, "mfu_full", time->mfu_full);
  spp_jo_real(jo, "hfu", time->hfu);
  spp_jo_real(jo, "model_tflops_per_gpu_causal", time->tflops_per_gpu_causal);
  spp_jo_real(jo, "model_tflops_per_gpu_full", time->tflops_per_gpu_full);
  spp_jo_real_if(jo, "epoch_s", epoch_s, epoch_s > 0);
  goodput(jo, report, job, layout, time, epoch_s);
  logs(jo, job, layout, prediction);
  spp_jo_end(jo);
}

void spp_jp_cost(struct spp_jo *jo, const struct spp_time *time) {
  spp_jo_obj(jo, "cost");
  spp_jo_real_if(jo, "usd_per_million_tokens", time->usd_per_million_tokens,
                 time->usd_per_million_tokens > 0);
  spp_jo_end(jo);
}

void spp_jp_plan(struct spp_jo *jo, const struct spp_report *report, const struct spp_plan *plan) {
  spp_jp_layout(jo, &plan->job, &plan->layout);
  spp_jp_memory(jo, &plan->job, &plan->prediction.memory);
  spp_jp_comm(jo, &plan->layout, &plan->prediction.comm);
  spp_jp_time(jo, report, &plan->job, &plan->layout, &plan->prediction);
  spp_jp_cost(jo, &plan->prediction.time);
}

void spp_jp_sensitivity(struct spp_jo *jo, const struct spp_sensitivity *rows, int count) {
  if (!rows) {
    spp_jo_null(jo, "sensitivity");
    return;
  }
  spp_jo_arr(jo, "sensitivity");
  for (int i = 0; i < count; i++) {
    const struct spp_sensitivity *row = &rows[i];
    double usd = row->usd_per_million_tokens;
    spp_jo_obj(jo, NULL);
    spp_jo_str(jo, "code", row->code);
    spp_jo_str(jo, "text", row->what);
    spp_jo_bool(jo, "searched", row->searched);
    spp_jo_bool(jo, "possible", row->possible);
    text_or_null(jo, "why_not", row->why_not);
    spp_jo_real_if(jo, "speed_change", row->speed, row->possible);
    spp_jo_real_if(jo, "tokens_per_s", row->tokens_per_s, row->possible);
    spp_jo_i64_if(jo, "device_bytes", row->device_bytes, row->possible);
    spp_jo_real_if(jo, "usd_per_million_tokens", usd, row->possible && usd > 0);
    spp_jo_bool_if(jo, "same_layout", row->same_layout, row->possible);
    text_or_null(jo, "layout", row->layout);
    spp_jo_end(jo);
  }
  spp_jo_end(jo);
}

void spp_jp_no_plan(struct spp_jo *jo) {
  static const char *const keys[] = {"layout", "memory", "comm", "time", "cost"};
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
    spp_jo_null(jo, keys[i]);
}

static void advice_list(struct spp_jo *jo, const char *key, const struct spp_advice *advice, int count) {
  spp_jo_arr(jo, key);
  for (int i = 0; i < count; i++) {
    spp_jo_obj(jo, NULL);
    spp_jo_str(jo, "code", advice[i].code);
    spp_jo_str(jo, "text", advice[i].text);
    spp_jo_end(jo);
  }
  spp_jo_end(jo);
}

void spp_jp_warnings(struct spp_jo *jo, const struct spp_report *report) {
  struct spp_advice advice[SPP_MAX_ADVICE];
  advice_list(jo, "warnings", advice, spp_fact_warnings(report, NULL, advice, SPP_MAX_ADVICE));
}

void spp_jp_words(struct spp_jo *jo, const struct spp_report *report, const struct spp_plan *plan) {
  struct spp_advice advice[SPP_MAX_ADVICE];
  advice_list(jo, "warnings", advice, spp_fact_warnings(report, plan, advice, SPP_MAX_ADVICE));
  advice_list(jo, "assumed", advice, plan ? spp_fact_assumed(report, plan, true, advice, SPP_MAX_ADVICE) : 0);
}
