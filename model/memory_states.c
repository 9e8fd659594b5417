#include "model/memory_parts.h"

#define ROW(id, text, part, reason) static const struct spp_tensor id = {text, part, reason}
ROW(weights, "weights", SPP_PART_WEIGHTS, "trained parameters as the framework stores them");
ROW(frozen, "frozen weights", SPP_PART_WEIGHTS, "base model, as it is");
ROW(scales, "scales of quantised weights", SPP_PART_WEIGHTS,
    "whole on every rank unless they are part of a parameter");
ROW(weights_low, "8-bit weight copies", SPP_PART_WEIGHTS, "FP8 training keeps 16-bit weights beside them");
ROW(weights_codes, "4-bit weights", SPP_PART_WEIGHTS, "row by row and column by column, with their scales");
ROW(weights_cast, "16-bit weight copies", SPP_PART_WEIGHTS, "autocast cache, until the forward region ends");
ROW(head_cast, "16-bit copy of the head", SPP_PART_WEIGHTS, "autocast: gradient of the head's input");
ROW(reference, "reference model", SPP_PART_WEIGHTS,
    "DPO / GRPO compare with it; adapters switch off instead");
ROW(load_packed, "packed model at load", SPP_PART_WEIGHTS, "on every rank until the last of it is sharded");
ROW(reward, "reward model", SPP_PART_WEIGHTS, "scores what the policy answers; as large as it");
ROW(critic_weights, "critic", SPP_PART_WEIGHTS,
    "predicts the reward; as large as the policy, trained beside it");
ROW(critic_grads, "gradients of the critic", SPP_PART_GRADIENTS, "kept for the whole run, as the policy's");
ROW(critic_master, "fp32 master weights of the critic", SPP_PART_MASTER, "mixed-precision optimizer");
ROW(critic_moments, "optimizer states of the critic", SPP_PART_OPTIMIZER, "moments of its optimizer");
ROW(load_whole, "rest of the model at load", SPP_PART_WEIGHTS, "read on every rank before it is sharded");
ROW(gradients, "gradients", SPP_PART_GRADIENTS, "of the trained parameters");
ROW(head_grads, "gradient of the head", SPP_PART_GRADIENTS, "first gradient of the backward");
ROW(master, "fp32 master weights", SPP_PART_MASTER, "mixed-precision optimizer");
ROW(moments, "optimizer states", SPP_PART_OPTIMIZER, "moments of the optimizer");
ROW(step_grads, "fp32 gradients of the partition", SPP_PART_TRANSIENT, "made for the optimizer step");
ROW(step_flat, "flat gradients of the partition", SPP_PART_TRANSIENT, "joined before they are cast");
ROW(step_list, "square roots of the second moments", SPP_PART_TRANSIENT, "torch foreach AdamW");
ROW(step_denominators, "denominators of the update", SPP_PART_TRANSIENT, "AdamW of torch before 2.1");
ROW(step_muon, "Newton-Schulz work", SPP_PART_TRANSIENT, "three 16-bit matrices of the largest weight");
ROW(step_svd, "GaLore projector work", SPP_PART_TRANSIENT, "fp32 gradient and its singular vectors");

ROW(step_cast, "16-bit casts of the master weights", SPP_PART_TRANSIENT,
    "all there before the first becomes FP8");

ROW(overflow, "overflow check", SPP_PART_TRANSIENT, "absolute values and flags of all gradients");
ROW(overflow_pool, "blocks of the overflow check", SPP_PART_ALLOCATOR, "belong to the reduction's stream");

static const unsigned not_load = SPP_LIVE_ALWAYS & ~SPP_LIVE(SPP_MOMENT_LOAD);

static enum spp_dtype bytes_dtype(int bytes, enum spp_dtype act) {
  if (bytes == 4) return SPP_DTYPE_FP32;
  if (bytes == 1) return SPP_DTYPE_FP8;
  return act == SPP_DTYPE_FP32 ? SPP_DTYPE_BF16 : act;
}

static void add_elements(const struct spp_memory_view *v, struct spp_memory_sum *sum,
                         const struct spp_tensor *t, unsigned live, int bytes, int64_t elements) {
  if (bytes == 8)
    spp_memory_add(sum, t, live, SPP_DTYPE_FP32, elements, 1, 2);
  else if (bytes > 0)
    spp_memory_add(sum, t, live, bytes_dtype(bytes, v->act), elements, 1, 1);
}

static bool scaled_weights(const struct spp_job *job) {
  return job->dtype == SPP_DTYPE_FP8 && job->mode != SPP_MODE_INFER;
}

/* TransformerEngine keeps a row-wise and, before Blackwell, a transposed 8-bit copy of each GEMM weight.
 * NVFP4 scales blocks of one direction, so that it keeps both ways on Blackwell too (transformer-engine 2.9.0
 * common/recipe/__init__.py NVFP4BlockScaling). */
/* Elements of GEMM weights that a rank holds: all, or its share where weights are sharded and have no 16-bit
 * copy that each rank casts for itself (megatron-core 0.16.1 distributed/fsdp/src/megatron_fsdp/
 * param_and_grad_buffer.py: FP8 parameters have sharded buffers of bytes; megatron-bridge 0.6.2's FSDP
 * recipes set keep_fp8_transpose_cache False). */
static int64_t low_share(const struct spp_memory_stage *s) {
  const struct spp_state_counts *c = &s->states;
  bool cut = s->view->regime.shard_weights && spp_job_keeps_fp8_only(s->view->job);
  int64_t experts = spp_min64(c->linear, c->expert_elements);
  return spp_memory_share(s->view->g, cut, c->linear - experts, experts);
}

static void add_low_weights(const struct spp_memory_stage *s, struct spp_memory_sum *sum) {
  const struct spp_job *job = s->view->job;
  int64_t linear = low_share(s), copies = job->fp4 || job->gpu->compute_capability < 100 ? 2 : 1;
  if (!scaled_weights(job) || !spp_job_runs_te(job)) return;
  if (job->fp4)
    spp_memory_add_bytes(sum, &weights_codes, not_load,
                         spp_sat_mul(copies, spp_job_narrow_bytes(job, linear)));
  else
    spp_memory_add(sum, &weights_low, not_load, SPP_DTYPE_FP8, linear, 1, copies);
}

static int64_t unit_share(const struct spp_geometry *g, const struct spp_state_counts *c, int64_t units) {
  return spp_sat_mul(units, spp_memory_share(g, true, c->trainable, c->trainable_expert));
}

/* Where units are sharded one by one, each rounds up for itself. */
int64_t spp_memory_trained(const struct spp_memory_stage *s, bool sharded) {
  const struct spp_memory_view *v = s->view;
  if (!sharded || v->job->framework->sharding != SPP_SHARDING_UNITS || !v->regime.shard_grads)
    return spp_memory_share(v->g, sharded, s->states.trainable, s->states.trainable_expert);
  int64_t elements = 0;
  for (int k = 0; k < v->job->arch->kind_count; k++)
    elements = spp_sat_add(elements, unit_share(v->g, &v->kinds[k], s->stage->kind_layers[k]));
  if (s->stage->first) elements = spp_sat_add(elements, unit_share(v->g, &v->embedding, 1));
  if (s->stage->first) elements = spp_sat_add(elements, unit_share(v->g, &v->position, 1));
  if (!s->stage->last) return elements;
  struct spp_state_counts tail = v->other;
  spp_states_accumulate(&tail, &v->head, 1);
  elements = spp_sat_add(elements, unit_share(v->g, &tail, 1));
  bool copy = v->job->arch->tied && !s->stage->first;
  return copy ? spp_sat_add(elements, unit_share(v->g, &v->embedding, 1)) : elements;
}

/* 16-bit copies that autocast makes of fp32 weights: its cache goes when the forward's region ends, what the
 * graph has saved of them for the gradients of inputs stays; a recomputed layer has saved nothing. */
static void add_casts(const struct spp_memory_stage *s, const struct spp_states *r,
                      struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  const struct spp_state_counts *c = &s->states;
  bool casts = spp_job_casts_weights(v->job), again = casts && v->layout->recompute == SPP_RECOMPUTE_FULL;
  bool cached = v->job->framework->sharding == SPP_SHARDING_NONE || casts;
  unsigned live = SPP_LIVE(SPP_MOMENT_FORWARD) | (again ? 0u : SPP_LIVE_LOSS);
  if (v->trains && r->weight_bytes == 4 && v->act != SPP_DTYPE_FP32 && cached && c->trainable >= c->linear)
    spp_memory_add(sum, &weights_cast, live, v->act, c->linear, 1, 1);
  if (v->trains && casts && s->stage->last)
    spp_memory_add(sum, &head_cast, SPP_LIVE_LOSS, v->act, spp_memory_head(v)->elements, 1, 1);
}

static void add_weights(const struct spp_memory_stage *s, const struct spp_states *r,
                        struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  const struct spp_job *job = v->job;
  const struct spp_state_counts *c = &s->states;
  bool away = spp_offload_params(v->layout->offload), sharded = r->shard_weights;
  int weight_bytes = job->method == SPP_METHOD_Q_GALORE ? 1 : r->weight_bytes;
  int64_t trained = spp_memory_trained(s, sharded);
  int64_t frozen_bytes = spp_memory_share(v->g, sharded, c->frozen_bytes, c->frozen_expert_bytes);
  bool low_only = spp_job_keeps_fp8_only(job) && scaled_weights(job);
  if (low_only && sharded)
    trained = spp_max64(0, trained - low_share(s));
  else if (low_only && trained >= c->linear)
    trained -= c->linear;
  else if (low_only && spp_job_has_adapters(job))
    frozen_bytes = spp_max64(0, frozen_bytes - 2 * c->linear);
  if (!away) {
    add_elements(v, sum, &weights, SPP_LIVE_ALWAYS, weight_bytes, trained);
    spp_memory_add_bytes(sum, &frozen, SPP_LIVE_ALWAYS, frozen_bytes);
  }
  bool cut = sharded && job->framework->shards_scales;
  if (!(cut && away))
    spp_memory_add_bytes(sum, &scales, SPP_LIVE_ALWAYS, spp_memory_share(v->g, cut, c->scale_bytes, 0));
  add_low_weights(s, sum);
  add_casts(s, r, sum);
}

/* A full fine-tune needs a second copy of the weights to compare with. */
/* Shards are cut unit by unit, and each unit is freed: the rank's own share is among the weights. */
static void add_whole(const struct spp_memory_stage *s, struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  const struct spp_state_counts *c = &s->states;
  int64_t own = spp_memory_share(v->g, true, c->elements, c->expert_elements);
  spp_memory_add(sum, &load_whole, SPP_LIVE(SPP_MOMENT_LOAD), v->act,
                 spp_max64(0, spp_sat_add(c->elements, c->expert_elements) - own), 1, 1);
}

/* A packed model is loaded onto the GPU, and its tensors live on until the last shard is cut. */
static void add_packed_whole(const struct spp_memory_stage *s, struct spp_memory_sum *sum) {
  const struct spp_state_counts *c = &s->states;
  int64_t bytes = spp_sat_add(c->frozen_bytes, c->frozen_expert_bytes);
  spp_memory_add_bytes(sum, &load_packed, SPP_LIVE(SPP_MOMENT_LOAD), bytes);
}

static void add_reference(const struct spp_memory_stage *s, const struct spp_states *r,
                          struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  if (!spp_job_has_reference_copy(v->job) || spp_offload_params(v->layout->offload)) return;
  int64_t elements = spp_memory_share(v->g, r->shard_weights, s->states.elements, s->states.expert_elements);
  spp_memory_add(sum, &reference, SPP_LIVE_ALWAYS, v->act, elements, 1, 1);
}

/* PPO's other models: a reward model, frozen, and a critic with an optimizer of its own (huggingface/trl
 * 0.23.0 trainer/ppo_trainer.py PPOTrainer.__init__; hpcaitech/ColossalAI
 * applications/ColossalChat/examples/training_scripts/train_ppo.py [recalled]), each as large as the policy.
 * Their passes come before and after the policy's. */
static void add_companions(const struct spp_memory_stage *s, const struct spp_states *r,
                           struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  const struct spp_state_counts *c = &s->states;
  if (v->job->mode != SPP_MODE_PPO) return;
  if (!spp_offload_params(v->layout->offload)) {
    int64_t elements = spp_memory_share(v->g, r->shard_weights, c->elements, c->expert_elements);
    spp_memory_add(sum, &reward, SPP_LIVE_ALWAYS, v->act, elements, 1, 1);
    add_elements(v, sum, &critic_weights, SPP_LIVE_ALWAYS, r->weight_bytes,
                 spp_memory_trained(s, r->shard_weights));
    spp_memory_add_bytes(sum, &critic_weights, SPP_LIVE_ALWAYS,
                         spp_memory_share(v->g, r->shard_weights, c->frozen_bytes, c->frozen_expert_bytes));
  }
  if (v->grads_persist && !spp_memory_gradients_away(v))
    add_elements(v, sum, &critic_grads, not_load, r->grad_bytes, spp_memory_trained(s, r->shard_grads));
  if (spp_offload_optimizer(v->layout->offload)) return;
  add_elements(v, sum, &critic_master, not_load, r->master_bytes, spp_memory_trained(s, r->shard_optimizer));
  spp_memory_add_bytes(
      sum, &critic_moments, not_load,
      spp_memory_share(v->g, r->shard_optimizer, c->optimizer_bytes, c->optimizer_expert_bytes));
}

/* A gradient is freed once its parameter has been stepped (pytorch/torchtune training/memory.py
 * register_optim_in_bwd_hooks): one layer's at a time, the head's before the layers'; tied to the embedding
 * it is complete at the end only. */
static void add_passing_gradients(const struct spp_memory_stage *s, const struct spp_states *r,
                                  struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  unsigned until =
      SPP_LIVE(SPP_MOMENT_BACKWARD_HEAD) | (v->job->arch->tied ? (unsigned)SPP_LIVE_BACKWARD : 0u);
  int64_t unit = spp_memory_share(v->g, r->shard_grads, s->unit.trainable, s->unit.trainable_expert);
  add_elements(v, sum, &gradients, SPP_LIVE_BACKWARD, r->grad_bytes, unit);
  if (s->stage->last)
    add_elements(v, sum, &head_grads, until, r->grad_bytes,
                 spp_memory_share(v->g, r->shard_grads, spp_memory_head(v)->trainable, 0));
}

static void add_gradients(const struct spp_memory_stage *s, const struct spp_states *r,
                          struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  if (spp_memory_gradients_away(v)) return;
  if (v->job->framework->steps_in_backward && !v->grads_persist) {
    add_passing_gradients(s, r, sum);
    return;
  }
  int64_t elements = spp_memory_trained(s, r->shard_grads);
  const unsigned tower = SPP_LIVE(SPP_MOMENT_BACKWARD_VISION); /* last to run: all gradients are there */
  unsigned live = not_load;
  if (!v->grads_persist) {
    live = tower | SPP_LIVE(SPP_MOMENT_STEP) | (s->late ? SPP_LIVE_BACKWARD : 0);
    if (!s->late && s->stage->last)
      add_elements(v, sum, &head_grads, (SPP_LIVE_BACKWARD & ~tower) | SPP_LIVE(SPP_MOMENT_BACKWARD_HEAD),
                   r->grad_bytes, spp_memory_share(v->g, r->shard_grads, spp_memory_head(v)->trainable, 0));
  }
  add_elements(v, sum, &gradients, live, r->grad_bytes, elements);
}

static void add_optimizer(const struct spp_memory_stage *s, const struct spp_states *r,
                          struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  const struct spp_state_counts *c = &s->states;
  if (spp_offload_optimizer(v->layout->offload)) return;
  int64_t local = spp_memory_trained(s, r->shard_optimizer);
  add_elements(v, sum, &master, not_load, r->master_bytes, local);
  bool whole = v->job->framework->sharding == SPP_SHARDING_UNITS && v->job->optimizer == SPP_OPTIMIZER_ADAMW;
  if (whole) /* both moments are cut alike, in elements */
    add_elements(v, sum, &moments, not_load, r->moment_bytes, local);
  else
    spp_memory_add_bytes(
        sum, &moments, not_load,
        spp_memory_share(v->g, r->shard_optimizer, c->optimizer_bytes, c->optimizer_expert_bytes));
}

static void add_step_copies(const struct spp_memory_view *v, struct spp_memory_sum *sum, int bytes,
                            int64_t elements) {
  const unsigned step = SPP_LIVE(SPP_MOMENT_STEP);
  add_elements(v, sum, &step_grads, step, bytes == 6 ? 4 : bytes, elements);
  if (bytes != 6) return; /* not joined: as small as the weights */
  add_elements(v, sum, &step_flat, step, 2, elements);
  sum->step_block_bytes = spp_sat_mul(elements, 4);
  sum->step_made_bytes = sum->step_rows_bytes = spp_sat_mul(elements, bytes);
}

/* InternLM/InternEvo hybrid_zero_optim.py step, utils.py reduce_grads: fp32 copies of the gradients in all
 * buckets but the last, whose joined copy is on its way, then of those in the last. */
static int64_t norm_bytes(const struct spp_memory_view *v, const struct spp_states *r, int64_t elements) {
  int64_t full = spp_max64(1, v->job->framework->reduce_bucket_elements);
  int64_t former = elements / full * full, last = elements - former;
  if (!v->job->framework->norm_copies_grads) return 0;
  return spp_max64(spp_sat_mul(former, 4) + spp_sat_mul(last, r->grad_bytes), spp_sat_mul(last, 4));
}

/* Are gradients joined into one tensor before they are cast to fp32? Then what the step makes is that copy
 * and fp32's 4 bytes. */
static bool joins_gradients(const struct spp_states *r) {
  return r->step_extra_bytes == r->grad_bytes + 4;
}

/* Lists as wide as one moment: torch 2.0.1 optim/adamw.py _multi_tensor_adamw has square roots and
 * denominators, 2.1.2 one list of both; so has _single_tensor_adamw for its one parameter. When gradients
 * were joined and cast (InternLM/InternEvo hybrid_zero_optim.py _step), the 16-bit ones and their joined copy
 * are gone by then: what the lists need more than those 4 bytes is counted. All parameters are one tensor
 * there, so are the lists. */
static void add_lists(const struct spp_memory_view *v, struct spp_memory_sum *sum, const struct spp_states *r,
                      int64_t elements) {
  const unsigned step = SPP_LIVE(SPP_MOMENT_STEP);
  int lists = v->job->framework->optimizer_lists > 1 ? v->job->framework->optimizer_lists : 1;
  int width = v->job->optimizer == SPP_OPTIMIZER_ADAMW_BF16 ? 2 : r->moment_bytes / 2;
  bool joined = joins_gradients(r);
  if (joined) {
    sum->step_made_bytes = spp_sat_add(sum->step_made_bytes, spp_sat_mul(elements, lists * width));
    if (width > 0) lists -= (r->grad_bytes + 2) / width;
  }
  if (joined && lists > 0)
    sum->step_rows_bytes = spp_sat_add(sum->step_rows_bytes, spp_sat_mul(elements, lists * width));
  if (lists > 0) add_elements(v, sum, &step_list, step, width, elements);
  for (int i = 1; i < lists; i++)
    add_elements(v, sum, &step_denominators, step, width, elements);
}

enum { SUB_GROUP_ELEMENTS = 1000000000 }; /* DeepSpeed runtime/zero/config.py sub_group_size */

/* DeepSpeed stage3.py step: one sub-group after the other. */
static int64_t stepped_at_once(const struct spp_memory_view *v, int64_t local) {
  bool by_groups = v->job->framework->sharding == SPP_SHARDING_DEEPSPEED && v->layout->zero == 3;
  return by_groups ? spp_min64(local, SUB_GROUP_ELEMENTS) : local;
}

/* fp16 is checked before the step: isinf of the whole partition makes its absolute values in 16 bit and a
 * flag each (deepspeed 0.12.3 and 0.19.8 runtime/zero/stage3.py has_overflow; torch ATen TensorCompare.cpp
 * isinf), on the reduction's stream, whose blocks serve no other. */
static void add_overflow_check(const struct spp_memory_view *v, int64_t local, int64_t step_bytes,
                               struct spp_memory_sum *sum) {
  const int64_t each = 3;
  const struct spp_job *job = v->job;
  if (job->dtype != SPP_DTYPE_FP16 || job->framework->sharding != SPP_SHARDING_DEEPSPEED ||
      v->layout->zero != 3)
    return;
  int64_t bytes = spp_sat_mul(each, local), beyond = spp_max64(0, bytes - step_bytes);
  const unsigned step = SPP_LIVE(SPP_MOMENT_STEP);
  spp_memory_add_bytes(sum, &overflow, step, beyond);
  spp_memory_add_bytes(sum, &overflow_pool, step, bytes - beyond);
  spp_memory_add_bytes(sum, &overflow_pool, not_load & ~step, bytes);
}

/* FP8 weights without a 16-bit copy: the step casts every shard of the master weights to 16 bit and keeps the
 * list until each is FP8 (transformer_engine 2.9.0 pytorch/tensor/utils.py cast_master_weights_to_fp8).
 * MXFP8, the recipe of Blackwell, goes through the gradient buffer instead (megatron-core 0.16.1
 * optimizer/optimizer.py reuse_grad_buf_for_mxfp8_param_ag). */
static void add_step_casts(const struct spp_memory_stage *s, const struct spp_states *r,
                           struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  const struct spp_job *job = v->job;
  const struct spp_state_counts *c = &s->states;
  bool low_only = spp_job_keeps_fp8_only(job) && scaled_weights(job) && !r->shard_weights;
  if (!low_only || spp_job_has_adapters(job) || job->gpu->compute_capability >= 100) return;
  int64_t experts = spp_min64(c->linear, c->trainable_expert);
  spp_memory_add(sum, &step_cast, SPP_LIVE(SPP_MOMENT_STEP), SPP_DTYPE_BF16,
                 spp_memory_share(v->g, r->shard_optimizer, c->linear - experts, experts), 1, 1);
}

/* Peak of the step itself. torch foreach AdamW makes one list as wide as one moment, DeepSpeed a flat 16-bit
 * copy of the partition's gradients and one in fp32 (stage_1_and_2.py, stage3.py), after which the gradients
 * are free again: a foreach list of its optimizer takes their place. */
static void add_step(const struct spp_memory_stage *s, const struct spp_states *r,
                     struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  const struct spp_job *job = v->job;
  const struct spp_state_counts *c = &s->states;
  const unsigned step = SPP_LIVE(SPP_MOMENT_STEP);
  if (spp_offload_optimizer(v->layout->offload)) return;
  int64_t local = spp_memory_share(v->g, r->shard_optimizer, c->trainable, c->trainable_expert);
  int64_t at_once = stepped_at_once(v, local);
  add_step_copies(v, sum, r->step_extra_bytes, at_once);
  add_overflow_check(v, local, spp_sat_mul(at_once, r->step_extra_bytes), sum);
  add_step_casts(s, r, sum);
  if (joins_gradients(r)) sum->norm_bytes = norm_bytes(v, r, local);
  bool engine = job->framework->sharding == SPP_SHARDING_DEEPSPEED && v->layout->zero > 0;
  bool galore = job->method == SPP_METHOD_GALORE || job->method == SPP_METHOD_Q_GALORE;
  bool adamw = job->optimizer == SPP_OPTIMIZER_ADAMW || job->optimizer == SPP_OPTIMIZER_ADAMW_BF16;
  if (adamw && job->framework->optimizer_foreach && !job->framework->optimizer_fused && !engine && !galore)
    add_lists(v, sum, r, local);
  if (job->optimizer == SPP_OPTIMIZER_MUON)
    spp_memory_add(sum, &step_muon, step, SPP_DTYPE_BF16, c->largest_rows, c->largest_cols, 3);
  if (galore) {
    int64_t shorter = spp_min64(c->largest_rows, c->largest_cols);
    spp_memory_add(sum, &step_svd, step, SPP_DTYPE_FP32, c->largest_rows, c->largest_cols, 1);
    spp_memory_add(sum, &step_svd, step, SPP_DTYPE_FP32, c->largest_rows + c->largest_cols, shorter, 1);
  }
}

void spp_memory_add_states(const struct spp_memory_stage *s, struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  const struct spp_states *r = &v->regime;
  add_weights(s, r, sum);
  if (v->job->framework->loads_whole_model && r->shard_weights) add_whole(s, sum);
  if (v->job->framework->loads_packed_whole && r->shard_weights && v->job->method == SPP_METHOD_QLORA &&
      v->g->shard_group > 1)
    add_packed_whole(s, sum);
  if (!v->trains) return;
  add_reference(s, r, sum);
  add_companions(s, r, sum);
  add_gradients(s, r, sum);
  add_optimizer(s, r, sum);
  add_step(s, r, sum);
}
