/* What an export does not say: it is imported again, and the job that comes out is compared with the one that
 * went in. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "base/json_out.h"
#include "interop/export_internal.h"
#include "interop/import.h"
#include "model/setting.h"
#include "model/words.h"

/* ---- fields ---- */

enum field_kind { AS_I64, AS_INT, AS_BOOL, AS_UNSIGNED, AS_REAL };
struct field {
  const char *option;
  enum field_kind kind;
  bool of_layout;
  size_t offset;
  int words; /* table of model/words.h, or -1 */
  bool (*applies)(const struct spp_job *job, const struct spp_layout *layout);
};

static bool adapters(const struct spp_job *job, const struct spp_layout *layout) {
  (void)layout;
  return spp_job_has_adapters(job);
}
static bool quantised(const struct spp_job *job, const struct spp_layout *layout) {
  (void)layout;
  return job->method == SPP_METHOD_QLORA;
}
static bool projected(const struct spp_job *job, const struct spp_layout *layout) {
  (void)layout;
  return spp_job_has_projected_gradients(job);
}
static bool in_chunks(const struct spp_job *job, const struct spp_layout *layout) {
  (void)layout;
  return job->loss == SPP_LOSS_CHOICE_CHUNKED;
}
static bool sampled(const struct spp_job *job, const struct spp_layout *layout) {
  (void)layout;
  return job->mode == SPP_MODE_GRPO;
}
static bool cached(const struct spp_job *job, const struct spp_layout *layout) {
  (void)layout;
  return spp_job_has_kv_cache(job);
}
static bool sees(const struct spp_job *job, const struct spp_layout *layout) {
  (void)layout;
  return job->arch->vision.kind != SPP_VISION_NONE;
}
static bool has_experts(const struct spp_job *job, const struct spp_layout *layout) {
  (void)layout;
  return job->arch->experts > 0;
}
static bool in_stages(const struct spp_job *job, const struct spp_layout *layout) {
  (void)job;
  return layout->pp > 1;
}
static bool selective(const struct spp_job *job, const struct spp_layout *layout) {
  (void)job;
  return layout->recompute == SPP_RECOMPUTE_SELECTIVE;
}
static bool full(const struct spp_job *job, const struct spp_layout *layout) {
  (void)job;
  return layout->recompute == SPP_RECOMPUTE_FULL;
}
static bool shares(const struct spp_job *job, const struct spp_layout *layout) {
  (void)job;
  return layout->zero > 0;
}
static bool in_ring(const struct spp_job *job, const struct spp_layout *layout) {
  (void)job;
  return layout->ring > 1;
}

#define OF_JOB(option, kind, member, words, applies)                                                         \
  { option, kind, false, offsetof(struct spp_job, member), words, applies }
#define OF_LAYOUT(option, kind, member, words, applies)                                                      \
  { option, kind, true, offsetof(struct spp_layout, member), words, applies }
static const struct field fields[] = {
    OF_JOB("gpus", AS_I64, gpus, -1, NULL),
    OF_JOB("seq", AS_I64, seq_tokens, -1, NULL),
    OF_JOB("global-batch", AS_I64, global_batch, -1, NULL),
    OF_JOB("mode", AS_INT, mode, SPP_WORDS_MODE, NULL),
    OF_JOB("method", AS_INT, method, SPP_WORDS_METHOD, NULL),
    OF_JOB("optimizer", AS_INT, optimizer, SPP_WORDS_OPTIMIZER, NULL),
    OF_JOB("dtype", AS_INT, dtype, SPP_WORDS_DTYPE, NULL),
    OF_JOB("kv-dtype", AS_INT, kv_dtype, SPP_WORDS_DTYPE, cached),
    OF_JOB("attention", AS_INT, attention, SPP_WORDS_ATTENTION, NULL),
    OF_JOB("kernels", AS_INT, kernels, SPP_WORDS_KERNELS, NULL),
    OF_JOB("ring-impl", AS_INT, ring_impl, SPP_WORDS_RING_IMPL, in_ring),
    OF_JOB("ring-order", AS_INT, ring_order, SPP_WORDS_RING_ORDER, in_ring),
    OF_JOB("moe-capacity", AS_REAL, expert_capacity, -1, has_experts),
    OF_JOB("loss", AS_INT, loss, SPP_WORDS_LOSS_CHOICE, NULL),
    OF_JOB("loss-path", AS_INT, loss_path_forced, SPP_WORDS_LOSS_PATH, NULL),
    OF_JOB("loss-chunk", AS_I64, loss_chunk_tokens, -1, in_chunks),
    OF_JOB("lora-rank", AS_I64, lora_rank, -1, adapters),
    OF_JOB("lora-dropout", AS_REAL, lora_dropout, -1, adapters),
    OF_JOB("lora-targets", AS_UNSIGNED, lora_targets, -1, adapters),
    OF_JOB("train-embeddings", AS_BOOL, train_embeddings, -1, adapters),
    OF_JOB("quant", AS_INT, quant, SPP_WORDS_QUANT, quantised),
    OF_JOB("galore-rank", AS_I64, galore_rank, -1, projected),
    OF_JOB("packing", AS_BOOL, packing, -1, NULL),
    OF_JOB("train-vision", AS_BOOL, vision_trainable, -1, sees),
    OF_JOB("completions", AS_I64, grpo_completions, -1, sampled),
    OF_JOB("overlap", AS_INT, overlap, -1, NULL),
    OF_JOB("grads-dtype", AS_INT, grads_bytes, -1, NULL),
    OF_JOB("bucket-elements", AS_I64, bucket_elements, -1, NULL),
    OF_LAYOUT("tp", AS_I64, tp, -1, NULL),
    OF_LAYOUT("pp", AS_I64, pp, -1, NULL),
    OF_LAYOUT("vpp", AS_I64, vpp, -1, NULL),
    OF_LAYOUT("dp", AS_I64, dp, -1, NULL),
    OF_LAYOUT("ep", AS_I64, ep, -1, NULL),
    OF_LAYOUT("etp", AS_I64, etp, -1, has_experts),
    OF_LAYOUT("sp-kind", AS_INT, sp_kind, SPP_WORDS_SP_KIND, NULL),
    OF_LAYOUT("ulysses", AS_I64, ulysses, -1, NULL),
    OF_LAYOUT("ring", AS_I64, ring, -1, NULL),
    OF_LAYOUT("megatron-sp", AS_BOOL, megatron_sp, -1, NULL),
    OF_LAYOUT("zero", AS_INT, zero, -1, NULL),
    OF_LAYOUT("dp-replicate", AS_I64, dp_replicate, -1, shares),
    OF_LAYOUT("recompute", AS_INT, recompute, SPP_WORDS_RECOMPUTE, NULL),
    OF_LAYOUT("recompute-modules", AS_UNSIGNED, recompute_modules, -1, selective),
    OF_LAYOUT("recompute-layers", AS_I64, recompute_layers, -1, full),
    OF_LAYOUT("recompute-unit", AS_I64, recompute_unit, -1, full),
    OF_LAYOUT("offload", AS_INT, offload, SPP_WORDS_OFFLOAD, NULL),
    OF_LAYOUT("schedule", AS_INT, schedule, SPP_WORDS_SCHEDULE, in_stages),
    OF_LAYOUT("first-stage-layers", AS_I64, first_stage_layers, -1, in_stages),
    OF_LAYOUT("last-stage-layers", AS_I64, last_stage_layers, -1, in_stages),
    OF_LAYOUT("micro-batch", AS_I64, micro_batch, -1, NULL),
};

static const void *field_at(const struct field *f, const struct spp_job *job,
                            const struct spp_layout *layout) {
  return (f->of_layout ? (const char *)layout : (const char *)job) + f->offset;
}
static int64_t whole(const struct field *f, const void *at) {
  switch (f->kind) {
  case AS_I64: return *(const int64_t *)at;
  case AS_INT: return *(const int *)at;
  case AS_BOOL: return *(const bool *)at;
  case AS_UNSIGNED: return *(const unsigned *)at;
  default: return 0;
  }
}
static bool same(const struct field *f, const void *a, const void *b) {
  if (f->kind != AS_REAL) return whole(f, a) == whole(f, b);
  double x = *(const double *)a, y = *(const double *)b;
  return !(x < y || x > y);
}
static const char *text_of(const struct field *f, const void *at, struct spp_arena *arena) {
  char number[32];
  if (f->kind == AS_REAL) return spp_arena_strdup(arena, spp_decimal_print(*(const double *)at, 6, number));
  int64_t n = whole(f, at);
  if (f->words >= 0 && n >= 0) return spp_words_name((enum spp_words_table)f->words, (int)n);
  if (f->kind == AS_UNSIGNED) return spp_arena_printf(arena, "0x%" PRIx64, (uint64_t)n);
  return n < 0 ? "as the framework does" : spp_arena_printf(arena, "%" PRId64, n);
}

static enum spp_status compare(const struct spp_job *job, const struct spp_layout *layout,
                               const struct spp_job *back, const struct spp_layout *back_layout,
                               struct spp_arena *arena, struct spp_exported *e, struct spp_diag *diag) {
  e->lost_count = 0;
  for (size_t i = 0; i < sizeof fields / sizeof fields[0] && e->lost_count < SPP_MAX_EXPORT_LOST; i++) {
    const struct field *f = &fields[i];
    const void *a = field_at(f, job, layout), *b = field_at(f, back, back_layout);
    if (same(f, a, b) || (f->applies && !f->applies(job, layout))) continue;
    struct spp_export_lost *lost = &e->lost[e->lost_count];
    *lost = (struct spp_export_lost){f->option, text_of(f, a, arena), text_of(f, b, arena)};
    if (!lost->value || !lost->read_back) return spp_diag_oom(diag);
    e->lost_count++;
  }
  return SPP_OK;
}

/* ---- there and back ---- */

static bool is_setting(const char *name) {
  for (int i = 0; i < spp_setting_count(); i++)
    if (strcmp(spp_setting_name(i), name) == 0) return true;
  return false;
}

static enum spp_status complete(const struct spp_imported *in, const struct spp_job *job,
                                struct spp_job *back, struct spp_layout *layout, struct spp_diag *diag) {
  struct spp_job_spec spec;
  struct spp_request request;
  enum spp_status status = SPP_OK;
  spp_job_spec_clear(&spec);
  spp_request_clear(&request);
  spec.arch = job->arch, spec.gpu = job->gpu, spec.cluster = job->cluster, spec.calib = job->calib;
  spec.max_memory_bytes = job->max_memory_bytes;
  for (int i = 0; i < in->setting_count && status == SPP_OK; i++)
    if (is_setting(in->settings[i].name))
      status = spp_setting_apply(in->settings[i].name, in->settings[i].value, &spec, &request, diag);
  if (status == SPP_OK) status = spp_job_resolve(&spec, job->framework, back, diag);
  return status == SPP_OK ? spp_layout_complete(back, &request, layout, diag) : status;
}

enum spp_status spp_export_read_back(const struct spp_format *format, const char *config_dir,
                                     const struct spp_job *job, const struct spp_layout *layout,
                                     struct spp_arena *arena, struct spp_exported *exported,
                                     struct spp_diag *diag) {
  const struct spp_import_options options = {
      .config_dir = config_dir, .format = format, .model = job->arch->name};
  const struct spp_export_file *file = &exported->files[0];
  const struct spp_imported *in;
  struct spp_layout back_layout;
  struct spp_job *back = spp_arena_alloc(arena, sizeof *back);
  struct spp_diag fault = {0};
  if (!back) return spp_diag_oom(diag);
  enum spp_status status =
      spp_import_text(file->text, strlen(file->text), file->name, &options, arena, &in, &fault);
  if (status == SPP_OK) status = complete(in, job, back, &back_layout, &fault);
  if (status != SPP_OK) /* ours, not the user's: what we write we read */
    return spp_diag_set(diag, SPP_ERR_INTERNAL, fault.where, fault.hint,
                        "the export cannot be read back: %.200s", fault.what);
  return compare(job, layout, back, &back_layout, arena, exported, diag);
}

/* ---- a DeepSpeed configuration ---- */

static void offload(struct spp_jo *jo, const char *key) {
  spp_jo_obj(jo, key);
  spp_jo_str(jo, "device", "cpu");
  spp_jo_bool(jo, "pin_memory", true);
  spp_jo_end(jo);
}

void spp_export_deepspeed(struct spp_str *out, const struct spp_layout *layout) {
  static const char *const left[] = {"gradient_accumulation_steps", "gradient_clipping", "train_batch_size",
                                     "train_micro_batch_size_per_gpu"};
  struct spp_jo jo;
  spp_jo_begin(&jo, out, true);
  spp_jo_obj(&jo, NULL);
  for (int i = 0; i < 2; i++) {
    spp_jo_obj(&jo, i ? "fp16" : "bf16");
    spp_jo_str(&jo, "enabled", "auto");
    spp_jo_end(&jo);
  }
  spp_jo_obj(&jo, "zero_optimization");
  spp_jo_i64(&jo, "stage", layout->zero);
  if (spp_offload_optimizer(layout->offload)) offload(&jo, "offload_optimizer");
  if (spp_offload_params(layout->offload)) offload(&jo, "offload_param");
  spp_jo_end(&jo);
  for (size_t i = 0; i < sizeof left / sizeof left[0]; i++)
    spp_jo_str(&jo, left[i], "auto");
  spp_jo_end(&jo);
}
