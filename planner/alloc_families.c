/* Where candidates for an allocation come from: the ledger of the prediction, and families of tensors whose
 * size is known up to one dimension. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/units.h"
#include "planner/alloc_internal.h"

/* ---- ledger ---- */

static const char *phase_of(unsigned live) {
  if (live == SPP_LIVE_ALWAYS) return "always";
  for (int m = 0; m < SPP_MOMENT_COUNT; m++)
    if (live & SPP_LIVE(m)) return spp_phase_name(spp_moment_phase((enum spp_moment)m));
  return "never";
}

static void offer_entry(struct spp_alloc_hunt *hunt, const struct spp_ledger_entry *entry, int64_t copies,
                        int64_t bytes, double entries) {
  struct spp_alloc_match match = {.dtype = entry->dtype, .bytes = bytes};
  const char *name = entry->tensor->name, *why = entry->tensor->why ? entry->tensor->why : "";
  if (copies > 1) {
    snprintf(match.tensor, sizeof match.tensor, "%.70s, all %lld", name, (long long)copies);
    match.shape[match.dims++] = copies;
  } else {
    snprintf(match.tensor, sizeof match.tensor, "%s", name);
  }
  match.shape[match.dims++] = entry->rows;
  if (entry->cols != 1) match.shape[match.dims++] = entry->cols;
  snprintf(match.when, sizeof match.when, "%s", phase_of(entry->live));
  snprintf(match.why, sizeof match.why, "%s", why);
  /* the context and what the allocator holds back are nobody's one request */
  bool asked_for = entry->tensor->part != SPP_PART_CONTEXT && entry->tensor->part != SPP_PART_ALLOCATOR;
  spp_alloc_offer(hunt, &match, entries, asked_for ? 1 : 64);
}

void spp_alloc_try_ledger(struct spp_alloc_hunt *hunt, struct spp_ledger *ledger) {
  struct spp_memory memory;
  spp_memory_predict(hunt->job, hunt->layout, &hunt->geometry, ledger, &memory);
  for (int i = 0; i < ledger->count; i++) {
    const struct spp_ledger_entry *entry = &ledger->entries[i];
    if (entry->copies < 1 || entry->bytes <= 0) continue;
    offer_entry(hunt, entry, 1, entry->bytes / entry->copies, ledger->count);
    if (entry->copies > 1) offer_entry(hunt, entry, entry->copies, entry->bytes, 2.0 * ledger->count);
  }
}

/* ---- families ---- */

/* Rows of tokens that the job itself knows of. */
struct known_tokens {
  int64_t tokens;
  const char *words;
};
enum { KNOWN_MAX = 5 };

static int known_tokens(const struct spp_alloc_hunt *hunt, struct known_tokens *known) {
  const struct spp_geometry *g = &hunt->geometry;
  int count = 0;
  known[count++] = (struct known_tokens){g->tokens, "the tokens of one rank"};
  if (g->attention_tokens != g->tokens && g->sr > 1)
    known[count++] = (struct known_tokens){g->attention_tokens, "the tokens of one rank inside attention"};
  if (g->sp > 1)
    known[count++] = (struct known_tokens){spp_sat_mul(g->tokens, g->sp),
                                           "the whole sequence: sequence parallelism did not divide it"};
  if (g->sequences > 1) known[count++] = (struct known_tokens){g->padded_tokens, "one sequence alone"};
  if (hunt->job->global_batch > g->sequences)
    known[count++] = (struct known_tokens){spp_sat_mul(hunt->job->global_batch, g->padded_tokens),
                                           "every sequence of the step at once"};
  return count;
}

/* tokens x width of dtype: what is wide in a transformer. */
struct row_family {
  const char *name;
  enum spp_dtype dtype;
  double prior; /* 1: what six threads in ten asked about */
  const char *when;
};

static void try_rows(struct spp_alloc_hunt *hunt, const struct row_family *family, int64_t width) {
  struct known_tokens known[KNOWN_MAX];
  char count[32], columns[32];
  int64_t element = spp_dtype_bytes(family->dtype), unit = spp_sat_mul(width, element);
  int known_count = known_tokens(hunt, known);
  struct spp_alloc_match match = {.dims = 2, .dtype = family->dtype};
  if (width <= 0) return;
  match.shape[1] = width;
  snprintf(match.tensor, sizeof match.tensor, "%s", family->name);
  snprintf(match.when, sizeof match.when, "%s", family->when);
  spp_int_print(width, columns);
  for (int i = 0; i < known_count; i++) {
    match.shape[0] = known[i].tokens;
    match.bytes = spp_sat_mul(known[i].tokens, unit);
    snprintf(match.why, sizeof match.why, "%s tokens x %s x %lld B: %s",
             spp_int_print(known[i].tokens, count), columns, (long long)element, known[i].words);
    spp_alloc_offer(hunt, &match, known_count, family->prior);
  }
  double chance = 1;
  match.shape[0] = spp_alloc_solve(hunt, unit, &chance);
  match.bytes = spp_sat_mul(match.shape[0], unit);
  if (match.shape[0] == 0) return;
  int64_t expected = spp_max64(1, hunt->geometry.tokens);
  snprintf(match.why, sizeof match.why,
           "%s tokens x %s x %lld B: %.2f times the %lld tokens a rank should hold",
           spp_int_print(match.shape[0], count), columns, (long long)element,
           (double)match.shape[0] / (double)expected, (long long)expected);
  /* a count that nobody knows of is a weaker reason than one the job states, and ever weaker as it grows */
  double beyond = fmax(1, (double)match.shape[0] / (double)expected / 8);
  spp_alloc_offer_solved(hunt, &match, chance, family->prior * 6 * beyond);
}

static void try_token_rows(struct spp_alloc_hunt *hunt) {
  static const struct row_family fp32 = {"logits, fp32 copy", SPP_DTYPE_FP32, 1, "loss"};
  static const struct row_family half = {"logits, 16-bit", SPP_DTYPE_BF16, 2, "loss"};
  static const struct row_family input = {"layer input", SPP_DTYPE_BF16, 8, "backward"};
  static const struct row_family upcast = {"hidden states upcast to fp32", SPP_DTYPE_FP32, 16, "backward"};
  static const struct row_family mlp = {"MLP intermediate", SPP_DTYPE_BF16, 16, "backward"};
  static const struct row_family q = {"query or attention output", SPP_DTYPE_BF16, 16, "backward"};
  const struct spp_arch *arch = hunt->job->arch;
  const struct spp_geometry *g = &hunt->geometry;
  try_rows(hunt, &fp32, g->vocab_local);
  try_rows(hunt, &half, g->vocab_local);
  if (arch->vocab != g->vocab_local) {
    struct row_family whole = fp32;
    whole.name = "logits, fp32 copy over the whole vocabulary";
    whole.prior = 4;
    try_rows(hunt, &whole, arch->vocab);
  }
  try_rows(hunt, &input, arch->hidden);
  try_rows(hunt, &upcast, arch->hidden);
  if (arch->ffn > 0) try_rows(hunt, &mlp, spp_ceil_div(arch->ffn, g->tp));
  if (g->q_width != arch->hidden) try_rows(hunt, &q, g->q_width);
}

/* Training keeps no KV cache; GRPO's rollouts do. */
static double cache_prior(enum spp_mode mode) {
  return mode == SPP_MODE_INFER ? 1 : mode == SPP_MODE_GRPO ? 4 : 256;
}

/* All layers' inputs together, and the KV cache: layers x tokens x width. */
static void try_stacks(struct spp_alloc_hunt *hunt) {
  const struct spp_arch *arch = hunt->job->arch;
  int64_t kv_width = arch->attention == SPP_ATTENTION_MLA ? arch->kv_lora_rank + arch->qk_rope_dim
                                                          : spp_arch_k_width(arch) + spp_arch_v_width(arch);
  struct known_tokens known[KNOWN_MAX];
  int known_count = known_tokens(hunt, known);
  char count[32], width[32];
  for (int i = 0; i < known_count; i++)
    for (int kind = 0; kind < 3; kind++) {
      enum spp_dtype dtype = kind == 2 ? SPP_DTYPE_FP8 : SPP_DTYPE_BF16;
      struct spp_alloc_match match = {.dims = 3, .dtype = dtype};
      match.shape[0] = arch->layers;
      match.shape[1] = known[i].tokens;
      match.shape[2] = kind == 0 ? arch->hidden : kv_width;
      match.bytes = spp_sat_mul(spp_sat_mul(match.shape[0], match.shape[1]),
                                spp_sat_mul(match.shape[2], spp_dtype_bytes(dtype)));
      snprintf(match.tensor, sizeof match.tensor, "%s",
               kind == 0 ? "layer inputs, all layers" : "KV cache, all layers");
      snprintf(match.when, sizeof match.when, "%s", kind == 0 ? "backward" : "always");
      snprintf(match.why, sizeof match.why, "%lld layers x %s tokens x %s x %lld B: %s",
               (long long)arch->layers, spp_int_print(known[i].tokens, count),
               spp_int_print(match.shape[2], width), (long long)spp_dtype_bytes(dtype), known[i].words);
      spp_alloc_offer(hunt, &match, 3.0 * known_count, kind == 0 ? 2 : cache_prior(hunt->job->mode));
    }
}

/* How unlikely a dense square is in this job. Megatron's data loader makes a mask of bytes from one of fp32;
 * eager and sdpa attention take one in the type they compute in; scores are kept by eager attention alone. */
static double square_prior(const struct spp_job *job, bool scores, enum spp_dtype dtype) {
  static const double rare = 64; /* somebody else's settings */
  bool dense = job->attention == SPP_ATTN_EAGER || job->attention == SPP_ATTN_SDPA;
  if (scores) return job->attention == SPP_ATTN_EAGER ? 2 : rare;
  if (job->framework->sharding == SPP_SHARDING_MEGATRON) return dtype == SPP_DTYPE_BF16 ? rare : 1;
  return dense ? 1 : rare;
}

/* Dense attention masks and scores: tokens x tokens, once or per head. */
static void try_squares(struct spp_alloc_hunt *hunt) {
  static const enum spp_dtype dtypes[] = {SPP_DTYPE_BOOL, SPP_DTYPE_BF16, SPP_DTYPE_FP32};
  const struct spp_geometry *g = &hunt->geometry;
  char count[32];
  for (int scores = 0; scores < 2; scores++)
    for (size_t d = 0; d < 3; d++) {
      if (scores && dtypes[d] == SPP_DTYPE_BOOL) continue;
      int64_t s = g->padded_tokens, copies = scores ? spp_max64(1, g->heads_local / g->su) : 1;
      struct spp_alloc_match match = {.dims = scores ? 3 : 2, .dtype = dtypes[d]};
      match.shape[0] = copies;
      match.shape[scores] = match.shape[scores + 1] = s;
      match.bytes = spp_sat_mul(spp_sat_mul(s, s), copies * spp_dtype_bytes(dtypes[d]));
      snprintf(match.tensor, sizeof match.tensor, "%s", scores ? "attention scores" : "attention mask");
      snprintf(match.when, sizeof match.when, "%s", scores ? "forward" : "data loading");
      snprintf(match.why, sizeof match.why, "%s x %s tokens x %lld B%s", spp_int_print(s, count), count,
               (long long)(copies * spp_dtype_bytes(dtypes[d])),
               scores ? ": eager attention keeps them; flash attention never does"
                      : ": a dense mask; causal needs none");
      spp_alloc_offer(hunt, &match, 5, square_prior(hunt->job, scores != 0, dtypes[d]));
    }
}

/* Elements of the model on one rank before ZeRO / FSDP sharding. */
static int64_t rank_elements(const struct spp_alloc_hunt *hunt) {
  const struct spp_arch *arch = hunt->job->arch;
  const struct spp_layout *l = hunt->layout;
  int64_t layers = 0, outer = 0;
  for (int k = 0; k < arch->kind_count; k++)
    for (int w = 0; w < arch->kinds[k].weight_count; w++)
      layers = spp_sat_add(
          layers, spp_sat_mul(arch->kinds[k].count,
                              spp_weight_elements(&arch->kinds[k].weights[w], l->tp, l->ep, l->etp)));
  for (int w = 0; w < arch->outer_weight_count; w++)
    outer = spp_sat_add(outer, spp_weight_elements(&arch->outer_weights[w], l->tp, l->ep, l->etp));
  return layers / spp_max64(1, l->pp) + (l->pp > 1 ? outer / 2 : outer);
}

/* One list of states, k bytes a parameter, over d ranks: the job's own shard group, then powers of two. */
static void try_states(struct spp_alloc_hunt *hunt) {
  static const struct {
    int64_t bytes;
    const char *name;
    enum spp_dtype dtype;
    double prior;
  } kinds[] = {
      {4, "fp32 state shard: master, one moment or the gradients", SPP_DTYPE_FP32, 1},
      {2, "16-bit weights or gradients", SPP_DTYPE_BF16, 1},
      {8, "both fp32 moments", SPP_DTYPE_FP32, 2},
  };
  int64_t elements = rank_elements(hunt), own = spp_max64(1, hunt->geometry.shard_group);
  char count[32];
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    for (int64_t d = 0; d <= 1024; d = d ? 2 * d : 1) {
      int64_t ranks = d ? d : own;
      if (d == own) continue;
      struct spp_alloc_match match = {.dims = 1, .dtype = kinds[k].dtype};
      match.bytes = spp_sat_mul(spp_ceil_div(elements, ranks), kinds[k].bytes);
      match.shape[0] = match.bytes / spp_dtype_bytes(kinds[k].dtype);
      snprintf(match.tensor, sizeof match.tensor, "%s", kinds[k].name);
      snprintf(match.when, sizeof match.when, "%s", kinds[k].bytes == 2 ? "always" : "step");
      snprintf(
          match.why, sizeof match.why, "%s parameters x %lld B / %lld rank%s%s",
          spp_int_print(elements, count), (long long)kinds[k].bytes, (long long)ranks, ranks == 1 ? "" : "s",
          d == 0 ? ": first made in the first optimizer step" : ", another shard group than this layout's");
      spp_alloc_offer(hunt, &match, d == 0 ? 3 : 33, kinds[k].prior);
    }
}

/* Single matrices: ZeRO-3 and FSDP gather them whole. */
static void try_weights(struct spp_alloc_hunt *hunt) {
  const struct spp_arch *arch = hunt->job->arch;
  for (int k = -1; k < arch->kind_count; k++) {
    const struct spp_weight *weights = k < 0 ? arch->outer_weights : arch->kinds[k].weights;
    int weight_count = k < 0 ? arch->outer_weight_count : arch->kinds[k].weight_count;
    for (int w = 0; w < weight_count; w++)
      for (int element = 2; element <= 4; element += 2) {
        if (weights[w].cols <= 1) continue;
        struct spp_alloc_match match = {.dims = 2, .dtype = element == 2 ? SPP_DTYPE_BF16 : SPP_DTYPE_FP32};
        match.shape[0] = spp_sat_mul(weights[w].rows, spp_max64(1, weights[w].copies));
        match.shape[1] = weights[w].cols;
        match.bytes = spp_sat_mul(spp_sat_mul(match.shape[0], match.shape[1]), element);
        snprintf(match.tensor, sizeof match.tensor, "%.60s %s", weights[w].name,
                 element == 2 ? "gathered whole" : "in fp32");
        snprintf(match.when, sizeof match.when, "forward");
        snprintf(match.why, sizeof match.why, "%lld x %lld x %d B", (long long)match.shape[0],
                 (long long)match.shape[1], element);
        spp_alloc_offer(hunt, &match, 20, element == 2 ? 1 : 2);
      }
  }
}

/* NVIDIA/nccl#2363: on B300 NCCL 2.28.9 takes 512 MiB for a process group, one of a single rank too. Parts of
 * before Blackwell (compute capability 10) do not. */
static void try_communicators(struct spp_alloc_hunt *hunt) {
  struct spp_alloc_match match = {.dims = 1, .dtype = SPP_DTYPE_INT8, .bytes = INT64_C(512) << 20};
  if (!hunt->job->gpu || hunt->job->gpu->compute_capability < 100) return;
  match.shape[0] = match.bytes;
  snprintf(match.tensor, sizeof match.tensor, "NCCL communicator");
  snprintf(match.when, sizeof match.when, "always");
  snprintf(match.why, sizeof match.why,
           "what one process group takes here, one of a single rank too (NCCL 2.28.9)");
  spp_alloc_offer(hunt, &match, 1, 1);
}

void spp_alloc_try_families(struct spp_alloc_hunt *hunt) {
  try_token_rows(hunt);
  try_stacks(hunt);
  try_squares(hunt);
  try_states(hunt);
  try_weights(hunt);
  try_communicators(hunt);
}
