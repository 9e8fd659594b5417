#include "model/states.h"

#include "base/num.h"

enum {
  NF4_BLOCK = 64,        /* bitsandbytes Params4bit default blocksize */
  NF4_SCALE_BLOCK = 256, /* second quantisation of the scales */
  GPTQ_GROUP = 128,      /* AutoGPTQ default group_size */
  ADAM8_MIN = 4096,      /* bitsandbytes min_8bit_size */
  ADAM8_BLOCK = 256      /* bitsandbytes blockwise optimizers */
};

static int64_t product(int64_t a, int64_t b) {
  return spp_sat_mul(a, b);
}

int64_t spp_quant_bytes(enum spp_quant quant, int64_t rows, int64_t cols) {
  int64_t n = product(rows, cols), blocks = spp_ceil_div(n, NF4_BLOCK),
          groups = spp_ceil_div(cols, GPTQ_GROUP);
  switch (quant) {
  case SPP_QUANT_NF4: return n / 2 + 4 * blocks;
  case SPP_QUANT_NF4_DOUBLE: return n / 2 + blocks + 4 * spp_ceil_div(blocks, NF4_SCALE_BLOCK) + 4;
  case SPP_QUANT_GPTQ4: return n / 2 + 2 * rows * groups + rows * groups / 2 + 4 * cols;
  case SPP_QUANT_GPTQ8: return n + 3 * rows * groups + 4 * cols;
  case SPP_QUANT_INT8: return n + 4 * rows;
  default: return 2 * n;
  }
}

int64_t spp_adam8_bytes(int64_t elements) {
  if (elements < ADAM8_MIN) return 8 * elements;
  return 2 * elements + 2 * 4 * spp_ceil_div(elements, ADAM8_BLOCK);
}

int64_t spp_galore_bytes(int64_t rows, int64_t cols, int64_t rank, int grad_bytes) {
  int64_t shorter = spp_min64(rows, cols), longer = spp_max64(rows, cols), q = spp_min64(rank, shorter);
  return q * (2 * longer + shorter) * grad_bytes;
}

int64_t spp_qgalore_bytes(int64_t rows, int64_t cols, int64_t rank) {
  int64_t shorter = spp_min64(rows, cols), longer = spp_max64(rows, cols), q = spp_min64(rank, shorter);
  return q * shorter / 2 + spp_adam8_bytes(q * longer);
}

int64_t spp_optimizer_bytes(const struct spp_job *job, int moment_bytes, int64_t rows, int64_t cols,
                            bool hidden) {
  int64_t n = product(rows, cols);
  int grad_bytes = job->dtype == SPP_DTYPE_FP32 ? 4 : 2;
  if (hidden && job->method == SPP_METHOD_GALORE)
    return spp_galore_bytes(rows, cols, job->galore_rank, grad_bytes);
  if (hidden && job->method == SPP_METHOD_Q_GALORE) return spp_qgalore_bytes(rows, cols, job->galore_rank);
  switch (job->optimizer) {
  case SPP_OPTIMIZER_ADAMW_BF16: return product(4, n);
  case SPP_OPTIMIZER_ADAMW_8BIT: return spp_adam8_bytes(n);
  case SPP_OPTIMIZER_ADAFACTOR:
    return cols > 1 ? 4 * (rows + cols) : 4 * n; /* torch Adafactor, no momentum */
  case SPP_OPTIMIZER_MUON:
    return hidden ? product(4, n) : product(8, n); /* fp32 momentum; AdamW for the rest */
  case SPP_OPTIMIZER_SGD: return 0;                /* torch default: no momentum */
  default: return product(moment_bytes, n);
  }
}

/* NVIDIA/Megatron-LM megatron/core/optimizer/distrib_optimizer.py _copy_model_grads_to_main_grads: the shard
 * of 16-bit gradients is copied to fp32 for the step; fp32 gradients are used as they are, and the
 * precision-aware optimizer (which 16-bit moments need) reads the 16-bit ones. */
static bool copies_gradients(const struct spp_job *job, const struct spp_states *regime) {
  return job->framework->sharding == SPP_SHARDING_MEGATRON && regime->grad_bytes == 2 &&
         regime->master_bytes == 4 && regime->step_extra_bytes < 4 &&
         job->optimizer != SPP_OPTIMIZER_ADAMW_BF16;
}

/* The file describes training in bf16. In fp32 weights are their own master (NVIDIA/Megatron-LM
 * docs/user-guide/ features/dist_optimizer.md: 16 bytes a parameter, 8 + 8/d distributed), but ZeRO's
 * partition stays a copy (deepspeedai/DeepSpeed runtime/zero/stage_1_and_2.py: clone().float()). In fp16
 * Megatron accumulates gradients in fp16 and makes fp32 ones for the step (the same page: 20 bytes, 4 + 16/d
 * distributed). */
struct spp_states spp_states_in_dtype(const struct spp_job *job, int zero) {
  struct spp_states s = job->framework->states[zero];
  enum spp_sharding sharding = job->framework->sharding;
  if (job->dtype == SPP_DTYPE_FP32) {
    bool copies = sharding == SPP_SHARDING_DEEPSPEED && zero > 0;
    s.weight_bytes = s.grad_bytes = 4;
    if (s.gather_bytes > 0) s.gather_bytes = 4;
    if (s.reduce_bytes > 0) s.reduce_bytes = 4;
    s.moment_bytes = 8;
    if (!copies) s.master_bytes = s.step_extra_bytes = 0;
  } else if (job->dtype == SPP_DTYPE_FP16 && sharding == SPP_SHARDING_MEGATRON && s.grad_bytes == 4 &&
             job->grads_bytes != 4) {
    s.grad_bytes = 2;
    s.step_extra_bytes = 4;
  }
  return s;
}

struct spp_states spp_states_regime(const struct spp_job *job, const struct spp_layout *layout) {
  const struct spp_framework *f = job->framework;
  struct spp_states regime = spp_states_in_dtype(job, layout->zero);
  bool adapters = spp_job_has_adapters(job);
  bool engine_casts = f->sharding == SPP_SHARDING_DEEPSPEED && layout->zero > 0;
  if (job->grads_bytes > 0) regime.grad_bytes = job->grads_bytes;
  if (copies_gradients(job, &regime)) regime.step_extra_bytes = 4;
  if (f->grads_reuse_weights && layout->zero == 3 && layout->grad_accum <= 1) regime.grad_bytes = 0;
  if (adapters && f->lora_fp32_adapters && !engine_casts) {
    /* peft autocast_adapter_dtype: fp32 adapters are their own master */
    regime.weight_bytes = 4;
    regime.grad_bytes = 4;
    regime.master_bytes = 0;
    regime.moment_bytes = 8;
  }
  return regime;
}

/* Optimizers whose state is a constant per element need no walk over the rows. */
static bool state_is_per_element(const struct spp_job *job) {
  return job->method != SPP_METHOD_GALORE && job->method != SPP_METHOD_Q_GALORE &&
         (job->optimizer == SPP_OPTIMIZER_ADAMW || job->optimizer == SPP_OPTIMIZER_ADAMW_BF16 ||
          job->optimizer == SPP_OPTIMIZER_SGD);
}

struct local_weight {
  int64_t rows, cols, copies;
  bool expert, hidden, quantised;
};

static struct local_weight localise(const struct spp_geometry *g, const struct spp_weight *w) {
  struct local_weight l = {w->rows, w->cols, w->copies, w->role == SPP_ROLE_EXPERT, false, false};
  int64_t ranks = l.expert ? g->etp : g->tp;
  if (w->split == SPP_SPLIT_OUTPUT) l.rows = spp_ceil_div(l.rows, ranks);
  if (w->split == SPP_SPLIT_INPUT) l.cols = spp_ceil_div(l.cols, ranks);
  if (l.expert) l.copies = spp_ceil_div(l.copies, g->ep);
  if (w->role == SPP_ROLE_EMBEDDING || w->role == SPP_ROLE_HEAD) l.rows = g->vocab_local;
  l.hidden = w->linear && w->role != SPP_ROLE_HEAD && w->role != SPP_ROLE_EMBEDDING;
  l.quantised = l.hidden && w->role != SPP_ROLE_ROUTER && w->role != SPP_ROLE_VISION;
  return l;
}

/* Walk the rows of a layer for what depends on single matrices. */
static void walk_optimizer(const struct spp_job *job, const struct spp_geometry *g, int moment_bytes,
                           const struct spp_weight *weights, int count, struct spp_state_counts *c) {
  for (int i = 0; i < count; i++) {
    struct local_weight l = localise(g, &weights[i]);
    int64_t bytes = product(l.copies, spp_optimizer_bytes(job, moment_bytes, l.rows, l.cols, l.hidden));
    if (l.expert)
      c->optimizer_expert_bytes += bytes;
    else
      c->optimizer_bytes += bytes;
  }
}

/* bitsandbytes nn/modules.py Params4bit: the packed values are the parameter, the scales an attribute of it
 * (quant_state) that FSDP and ZeRO neither shard nor move (0.43.0; 0.50.2 the same). */
static int64_t scale_bytes(enum spp_quant quant, int64_t rows, int64_t cols) {
  if (quant != SPP_QUANT_NF4 && quant != SPP_QUANT_NF4_DOUBLE) return 0;
  return spp_quant_bytes(quant, rows, cols) - product(rows, cols) / 2;
}

static void walk_frozen(const struct spp_job *job, const struct spp_geometry *g,
                        const struct spp_weight *weights, int count, int plain_bytes,
                        struct spp_state_counts *c) {
  for (int i = 0; i < count; i++) {
    struct local_weight l = localise(g, &weights[i]);
    bool quantised = l.quantised && spp_job_quantises(job) && !(l.expert && job->framework->unpacked_experts);
    int64_t scales = quantised ? scale_bytes(job->quant, l.rows, l.cols) : 0;
    int64_t one = quantised ? spp_quant_bytes(job->quant, l.rows, l.cols) - scales
                            : product(plain_bytes, product(l.rows, l.cols));
    c->scale_bytes += product(l.copies, scales);
    if (l.expert)
      c->frozen_expert_bytes += product(l.copies, one);
    else
      c->frozen_bytes += product(l.copies, one);
  }
}

static void keep_larger(struct spp_state_counts *c, int64_t rows, int64_t cols) {
  if (product(rows, cols) <= product(c->largest_rows, c->largest_cols)) return;
  c->largest_rows = rows;
  c->largest_cols = cols;
}

static void walk_largest(const struct spp_geometry *g, const struct spp_weight *weights, int count,
                         struct spp_state_counts *c) {
  for (int i = 0; i < count; i++) {
    struct local_weight l = localise(g, &weights[i]);
    if (l.hidden) keep_larger(c, l.rows, l.cols);
  }
}

/* Frozen weights are stored in the compute type, or in that of the hidden states. */
static int plain_bytes(const struct spp_job *job) {
  if (spp_job_hidden_fp32(job) || spp_job_casts_weights(job)) return 4;
  return job->dtype == SPP_DTYPE_FP32 || job->dtype == SPP_DTYPE_TF32 ? 4 : 2;
}

/* Elements of c are set; fill the rest for a group of rows whose every weight is trained. */
static void count_trained(const struct spp_job *job, const struct spp_geometry *g,
                          const struct spp_states *regime, const struct spp_weight *weights, int count,
                          struct spp_state_counts *c) {
  c->trainable = c->elements;
  c->trainable_expert = c->expert_elements;
  if (state_is_per_element(job)) {
    c->optimizer_bytes = spp_optimizer_bytes(job, regime->moment_bytes, c->trainable, 1, false);
    c->optimizer_expert_bytes = spp_optimizer_bytes(job, regime->moment_bytes, c->trainable_expert, 1, false);
    return;
  }
  walk_optimizer(job, g, regime->moment_bytes, weights, count, c);
  walk_largest(g, weights, count, c);
}

static void count_frozen(const struct spp_job *job, const struct spp_geometry *g,
                         const struct spp_weight *weights, int count, struct spp_state_counts *c) {
  if (spp_job_quantises(job)) {
    walk_frozen(job, g, weights, count, plain_bytes(job), c);
    walk_largest(g, weights, count, c);
    return;
  }
  c->frozen_bytes = product(plain_bytes(job), c->elements);
  c->frozen_expert_bytes = product(plain_bytes(job), c->expert_elements);
  if (job->mode == SPP_MODE_INFER && job->dtype == SPP_DTYPE_FP8) c->frozen_bytes -= c->linear;
}

static void count_adapters(const struct spp_job *job, const struct spp_geometry *g,
                           const struct spp_states *regime, const struct spp_weight_sums *sums,
                           struct spp_state_counts *c) {
  c->trainable = spp_sums_lora_dense(sums, g->tp, job->lora_rank);
  c->trainable_expert =
      spp_sums_lora_expert(sums, g->ep, g->etp, job->lora_rank, job->framework->shared_expert_adapters);
  c->optimizer_bytes = spp_optimizer_bytes(job, regime->moment_bytes, c->trainable, 1, false);
  c->optimizer_expert_bytes = spp_optimizer_bytes(job, regime->moment_bytes, c->trainable_expert, 1, false);
}

static void count_rows(const struct spp_job *job, const struct spp_layout *layout,
                       const struct spp_geometry *g, const struct spp_weight_sums *sums,
                       const struct spp_weight *weights, int count, struct spp_state_counts *c) {
  struct spp_states regime = spp_states_regime(job, layout);
  c->elements = spp_sums_dense(sums, g->tp);
  c->expert_elements = spp_sums_expert(sums, g->ep, g->etp);
  c->linear = sums->quantised / g->tp + sums->quantised_expert / (g->ep * g->etp);
  if (!spp_job_has_adapters(job) && job->mode != SPP_MODE_INFER) {
    count_trained(job, g, &regime, weights, count, c);
    return;
  }
  count_frozen(job, g, weights, count, c);
  if (job->mode != SPP_MODE_INFER) count_adapters(job, g, &regime, sums, c);
}

void spp_states_count_layer(const struct spp_job *job, const struct spp_layout *layout,
                            const struct spp_geometry *g, int kind, struct spp_state_counts *counts) {
  const struct spp_layer_kind *k = &job->arch->kinds[kind];
  *counts = (struct spp_state_counts){0};
  count_rows(job, layout, g, &job->sums.kinds[kind], k->weights, k->weight_count, counts);
}

static const struct spp_weight_sums *outer_sums(const struct spp_model_sums *sums, enum spp_outer which) {
  switch (which) {
  case SPP_OUTER_EMBEDDING: return &sums->embedding;
  case SPP_OUTER_POSITION: return &sums->position;
  case SPP_OUTER_HEAD: return &sums->head;
  case SPP_OUTER_VISION: return &sums->vision;
  default: return &sums->other;
  }
}

/* Outer weights are few and large: one pseudo row stands for each group. The embedding and the head hold the
 * padded vocabulary of one tensor-parallel rank. */
void spp_states_count_outer(const struct spp_job *job, const struct spp_layout *layout,
                            const struct spp_geometry *g, enum spp_outer which,
                            struct spp_state_counts *counts) {
  const struct spp_weight_sums *sums = outer_sums(&job->sums, which);
  struct spp_states regime = spp_states_regime(job, layout);
  struct spp_state_counts *c = counts;
  *c = (struct spp_state_counts){0};
  c->elements = spp_sums_dense(sums, g->tp);
  bool vocabulary = which == SPP_OUTER_EMBEDDING || which == SPP_OUTER_HEAD;
  int64_t columns =
      vocabulary ? sums->split / spp_max64(1, job->arch->vocab) : 1; /* the head's bias is one */
  if (vocabulary) c->elements = product(g->vocab_local, columns);
  bool trained = job->mode != SPP_MODE_INFER && !spp_job_has_adapters(job) &&
                 (which != SPP_OUTER_VISION || job->vision_trainable);
  if (!trained) c->frozen_bytes = product(plain_bytes(job), c->elements);
  if (which == SPP_OUTER_HEAD && spp_job_quantises(job) && job->framework->quantises_head) {
    c->scale_bytes = scale_bytes(job->quant, g->vocab_local, job->arch->hidden);
    c->frozen_bytes = spp_quant_bytes(job->quant, g->vocab_local, job->arch->hidden) - c->scale_bytes;
  }
  /* huggingface/peft utils/other.py ModulesToSaveWrapper: a deep copy in the model's type is trained, the
   * original stays (peft 0.21). Where adapters are fp32, two 16-bit elements count as one of theirs in
   * weights, gradients and moments. */
  bool saved =
      spp_job_has_adapters(job) && job->train_embeddings && vocabulary && job->mode != SPP_MODE_INFER;
  if (!trained && !saved) return;
  c->trainable = c->elements;
  if (saved && regime.weight_bytes == 2 * plain_bytes(job)) {
    c->trainable = spp_ceil_div(c->elements, 2);
    c->optimizer_bytes = spp_optimizer_bytes(job, regime.moment_bytes, c->trainable, 1, false);
    return;
  }
  int64_t rows = vocabulary ? g->vocab_local : c->elements, cols = columns;
  if (c->elements > 0) c->optimizer_bytes = spp_optimizer_bytes(job, regime.moment_bytes, rows, cols, false);
}

void spp_states_accumulate(struct spp_state_counts *total, const struct spp_state_counts *part,
                           int64_t times) {
  if (times == 0) return;
#define ADD(field) total->field = spp_sat_add(total->field, spp_sat_mul(part->field, times))
  ADD(trainable);
  ADD(trainable_expert);
  ADD(optimizer_bytes);
  ADD(optimizer_expert_bytes);
  ADD(frozen_bytes);
  ADD(frozen_expert_bytes);
  ADD(scale_bytes);
  ADD(elements);
  ADD(expert_elements);
  ADD(linear);
#undef ADD
  keep_larger(total, part->largest_rows, part->largest_cols);
}
