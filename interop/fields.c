/* The fields of a job and its layout that a person can set, one by one: what two of them differ in. */
#include "interop/fields.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "model/setting.h"
#include "model/words.h"

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
  return spp_job_quantises(job);
}
static bool projected(const struct spp_job *job, const struct spp_layout *layout) {
  (void)layout;
  return spp_job_has_projected_gradients(job);
}
static bool in_fp8(const struct spp_job *job, const struct spp_layout *layout) {
  (void)layout;
  return job->dtype == SPP_DTYPE_FP8;
}
static bool in_chunks(const struct spp_job *job, const struct spp_layout *layout) {
  (void)layout;
  return job->loss == SPP_LOSS_CHOICE_CHUNKED;
}
static bool generates(const struct spp_job *job, const struct spp_layout *layout) {
  (void)layout;
  return job->mode == SPP_MODE_INFER;
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
static bool some_away(const struct spp_job *job, const struct spp_layout *layout) {
  (void)job;
  return layout->offload_layers > 0;
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
static bool graphed(const struct spp_job *job, const struct spp_layout *layout) {
  (void)layout;
  return job->graphs != 0;
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
    OF_JOB("allocator", AS_INT, allocator, SPP_WORDS_ALLOCATOR, NULL),
    OF_JOB("cuda-graphs", AS_UNSIGNED, graphs, -1, graphed),
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
    OF_JOB("prompt", AS_I64, prompt_tokens, -1, generates),
    OF_JOB("no-reference", AS_BOOL, no_reference, -1, NULL),
    OF_JOB("reference", AS_BOOL, own_reference, -1, NULL),
    OF_JOB("completions", AS_I64, grpo_completions, -1, sampled),
    OF_JOB("overlap", AS_INT, overlap, -1, NULL),
    OF_JOB("grads-dtype", AS_INT, grads_bytes, -1, NULL),
    OF_JOB("fp8-params", AS_INT, fp8_params, -1, in_fp8),
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
    OF_LAYOUT("offload-layers", AS_I64, offload_layers, -1, some_away),
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
const char spp_field_unset[] = "as the framework does";

/* Bits as the words an option takes: "q,v"; one word for all of them first. */
static const char *words_of(spp_word_function *word, int64_t bits, struct spp_arena *arena) {
  const char *name, *all = "";
  int value;
  for (int i = 0; (name = word(i, &value)) != NULL; i++)
    if ((unsigned)value == (unsigned)bits) return name;
  for (int i = 0; all && (name = word(i, &value)) != NULL; i++)
    if (value > 0 && (bits & value) == value)
      all = spp_arena_printf(arena, "%s%s%s", all, *all ? "," : "", name);
  return all;
}

static const char *text_of(const struct field *f, const void *at, struct spp_arena *arena) {
  char number[32];
  if (f->kind == AS_REAL) return spp_arena_strdup(arena, spp_decimal_print(*(const double *)at, 6, number));
  int64_t n = whole(f, at);
  if (f->words >= 0 && n >= 0) return spp_words_name((enum spp_words_table)f->words, (int)n);
  if (strcmp(f->option, "lora-targets") == 0) return words_of(spp_lora_target_word, n, arena);
  if (strcmp(f->option, "cuda-graphs") == 0) return words_of(spp_graph_word, n, arena);
  if (strcmp(f->option, "recompute-modules") == 0) return words_of(spp_recompute_module_word, n, arena);
  if (strcmp(f->option, "grads-dtype") == 0 && n > 0) return n == 4 ? "fp32" : "bf16";
  return n < 0 ? spp_field_unset : spp_arena_printf(arena, "%" PRId64, n);
}

enum spp_status spp_fields_compare(const struct spp_job *a_job, const struct spp_layout *a_layout,
                                   const struct spp_job *b_job, const struct spp_layout *b_layout,
                                   struct spp_arena *arena, struct spp_field_pair *pairs, int max, int *count,
                                   struct spp_diag *diag) {
  *count = 0;
  for (size_t i = 0; i < sizeof fields / sizeof fields[0] && *count < max; i++) {
    const struct field *f = &fields[i];
    const void *a = field_at(f, a_job, a_layout), *b = field_at(f, b_job, b_layout);
    bool applies = !f->applies || f->applies(a_job, a_layout) || f->applies(b_job, b_layout);
    if (same(f, a, b) || !applies) continue;
    struct spp_field_pair *pair = &pairs[*count];
    *pair = (struct spp_field_pair){f->option, text_of(f, a, arena), text_of(f, b, arena)};
    if (!pair->a || !pair->b) return spp_diag_oom(diag);
    (*count)++;
  }
  return SPP_OK;
}
