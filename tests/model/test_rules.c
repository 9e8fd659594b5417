/* Every rule broken once and kept once, under every framework it holds for. */
#include "tests/model/rules_case.h"

#include "base/file.h"
#include "model/framework_read.h"
#include "model/values.h"

static const char *const shipped[] = {"axolotl",     "deepspeed",      "fsdp2",    "llama-factory",
                                      "megatron-lm", "megatron-swift", "ms-swift", "spplan",
                                      "torchtitan",  "verl",           "vllm",     "xtuner"};
enum { SHIPPED = sizeof shipped / sizeof shipped[0] };

struct world {
  struct spp_arch arch;
  struct spp_gpu gpu;
  struct spp_framework framework;
  struct spp_job job;
  struct spp_layout layout;
};

/* 32 query and 8 KV heads, 8 layers, 8 GPUs, plain data parallel training in bf16. */
static void neutral(struct world *w, const struct spp_framework *framework) {
  w->arch = *case_heads(32, 8);
  w->arch.layers = 8;
  snprintf(w->arch.model_type, sizeof w->arch.model_type, "llama");
  w->framework = *framework;
  memset(&w->gpu, 0, sizeof w->gpu);
  for (int i = 0; i < SPP_DTYPE_COUNT; i++)
    w->gpu.flops_per_s[i] = 1e15;
  w->gpu.compute_capability = 90;
  w->job = case_job(&w->arch, framework->name, 8, 4096);
  w->job.framework = &w->framework;
  w->job.arch = &w->arch;
  w->job.gpu = &w->gpu;
  w->layout = case_layout(&w->job, 1, 1, 1);
}

/* id, how to break it, how to keep it nearby. */
#define CASES(X)                                                                                             \
  X("degree-positive", l->tp = 0, l->tp = 1)                                                                 \
  X("world-product", l->dp = 4, l->dp = 4; l->tp = 2)                                                        \
  X("tp-support", f->tp = false; l->tp = 2, f->tp = true; l->tp = 2)                                         \
  X("pp-support", f->pp = false; l->pp = 2, f->pp = true; l->pp = 2)                                         \
  X("vpp-support", f->vpp = false; l->vpp = 2, f->vpp = true; l->vpp = 2)                                    \
  X("ep-support", f->ep = false; l->ep = 2, f->ep = true; l->ep = 2)                                         \
  X("etp-support", f->etp = false; l->etp = 2, f->etp = true; l->etp = 2)                                    \
  X("megatron-sp-support", f->megatron_sp = false; l->megatron_sp = true, f->megatron_sp = true;             \
    l->megatron_sp = true)                                                                                   \
  X("megatron-sp-tp", l->megatron_sp = true, l->megatron_sp = true; l->tp = 2)                               \
  X("sp-kind-support", f->sp_kinds[SPP_SP_RING] = false; ring(l, 2), f->sp_kinds[SPP_SP_RING] = true;        \
    ring(l, 2))                                                                                              \
  X("sp-kind-degrees", ring(l, 2); l->sp_kind = SPP_SP_ULYSSES, ulysses(l, 2))                               \
  X("hybrid-levels", hybrid(l, 4, 1), hybrid(l, 2, 2))                                                       \
  X("sp-split", f->sp_split = SPP_SPLIT_GCD_KV; ring(l, 8), f->sp_split = SPP_SPLIT_GCD_KV; ulysses(l, 8))   \
  X("ring-packing", f->ring_needs_packing = true; ring(l, 2), f->ring_needs_packing = true; ring(l, 2);      \
    j->packing = true)                                                                                       \
  X("sp-model-type", type(w, "qwen3_5_moe"); ulysses(l, 2), type(w, "qwen3_5_moe"))                          \
  X("ring-model-type", type(w, "qwen3_5"); ring(l, 2), type(w, "qwen3_5"); ulysses(l, 2))                    \
  X("heads-tp", l->tp = 3, l->tp = 4)                                                                        \
  X("ffn-tp", a->ffn = 100; l->tp = 8, a->ffn = 96; l->tp = 8)                                               \
  X("ep-experts", l->ep = 2, l->ep = 2; a->experts = 8)                                                      \
  X("experts-ep", a->experts = 9; l->ep = 2, a->experts = 10; l->ep = 2)                                     \
  X("ep-world", a->experts = 16; l->ep = 16, a->experts = 16; l->ep = 8)                                     \
  X("stage-empty", l->pp = 4; l->vpp = 4, l->pp = 4; l->vpp = 2)                                             \
  X("uneven-support", f->stage_uneven = false; l->pp = 2; l->first_stage_layers = 3, f->stage_uneven = true; \
    l->pp = 2; l->first_stage_layers = 3)                                                                    \
  X("uneven-stages", f->stage_uneven = true; l->pp = 4; l->first_stage_layers = 3, f->stage_uneven = true;   \
    l->pp = 4; l->first_stage_layers = 2)                                                                    \
  X("vpp-pp", l->vpp = 2, l->vpp = 2; l->pp = 2)                                                             \
  X("schedule-support", l->pp = 2; l->schedule = SPP_SCHEDULE_ZB_H2, l->pp = 2)                              \
  X("schedule-degrees", l->pp = 2; l->vpp = 2, l->pp = 2; l->vpp = 2;                                        \
    l->schedule = SPP_SCHEDULE_INTERLEAVED)                                                                  \
  X("zero-support", l->zero = 4, l->zero = 0)                                                                \
  X("hsdp-support", f->hsdp = false; l->dp_replicate = 2, f->hsdp = true; l->dp_replicate = 2)               \
  X("hsdp-divides", l->dp_replicate = 3, l->dp_replicate = 4)                                                \
  X("recompute-support", f->recomputes[SPP_RECOMPUTE_FULL] = false;                                          \
    l->recompute = SPP_RECOMPUTE_FULL, l->recompute = SPP_RECOMPUTE_NONE)                                    \
  X("recompute-unit", l->recompute = SPP_RECOMPUTE_NONE;                                                     \
    l->recompute_unit = 2, l->recompute = SPP_RECOMPUTE_FULL; l->recompute_unit = 2)                         \
  X("cuda-graphs-recompute", j->graphs = SPP_GRAPH_MLP;                                                      \
    l->recompute = SPP_RECOMPUTE_FULL, j->graphs = SPP_GRAPH_MLP; l->recompute = SPP_RECOMPUTE_NONE)         \
  X("recompute-chunks", l->recompute = SPP_RECOMPUTE_FULL; l->pp = 2; l->vpp = 2;                            \
    l->recompute_layers = 3, l->recompute = SPP_RECOMPUTE_FULL; l->pp = 2; l->vpp = 2;                       \
    l->recompute_layers = 4)                                                                                 \
  X("offload-support", f->offloads[SPP_OFFLOAD_OPTIMIZER] = false;                                           \
    l->offload = SPP_OFFLOAD_OPTIMIZER, l->offload = SPP_OFFLOAD_NONE)                                       \
  X("fpdt-support", f->fpdt = false; l->fpdt_chunk = 1024, f->fpdt = true; l->fpdt_chunk = 1024)             \
  X("fpdt-divides", f->fpdt = true; l->fpdt_chunk = 1000, f->fpdt = true; l->fpdt_chunk = 1024)              \
  X("fpdt-ring", f->fpdt = true; l->fpdt_chunk = 1024; ring(l, 2), f->fpdt = true; l->fpdt_chunk = 1024;     \
    ulysses(l, 2))                                                                                           \
  X("fpdt-attention", f->fpdt = true; l->fpdt_chunk = 1024; j->packing = true, f->fpdt = true;               \
    l->fpdt_chunk = 1024; j->packing = false; j->attention = SPP_ATTN_FA2)                                   \
  X("fpdt-method", f->fpdt = true; l->fpdt_chunk = 1024; j->method = SPP_METHOD_LORA, f->fpdt = true;        \
    l->fpdt_chunk = 1024; j->method = SPP_METHOD_FULL; j->mode = SPP_MODE_TRAIN)                             \
  X("offload-layers", l->recompute = SPP_RECOMPUTE_FULL; l->offload = SPP_OFFLOAD_ACTIVATIONS;               \
    l->offload_layers = 2, f->sharding = SPP_SHARDING_MEGATRON; l->recompute = SPP_RECOMPUTE_NONE;           \
    l->offload = SPP_OFFLOAD_ACTIVATIONS; l->offload_layers = 2)                                             \
  X("batch-divides", l->micro_batch = 3, j->global_batch = 24; l->micro_batch = 3)                           \
  X("mode-support", f->modes[SPP_MODE_DPO] = false; j->mode = SPP_MODE_DPO, f->modes[SPP_MODE_DPO] = true;   \
    j->mode = SPP_MODE_DPO)                                                                                  \
  X("method-support", f->methods[SPP_METHOD_QLORA] = false;                                                  \
    j->method = SPP_METHOD_QLORA, j->method = SPP_METHOD_FULL)                                               \
  X("dtype-support", f->dtypes[SPP_DTYPE_FP8] = false;                                                       \
    j->dtype = SPP_DTYPE_FP8, f->dtypes[SPP_DTYPE_FP8] = true; j->dtype = SPP_DTYPE_FP8)                     \
  X("attention-support", f->attentions[SPP_ATTN_EAGER] = false;                                              \
    j->attention = SPP_ATTN_EAGER, f->attentions[SPP_ATTN_EAGER] = true; j->attention = SPP_ATTN_EAGER)      \
  X("loss-support", f->losses[SPP_LOSS_CHOICE_FUSED] = false;                                                \
    j->loss = SPP_LOSS_CHOICE_FUSED, f->losses[SPP_LOSS_CHOICE_FUSED] = true;                                \
    j->loss = SPP_LOSS_CHOICE_FUSED)                                                                         \
  X("gpu-dtype", w->gpu.flops_per_s[SPP_DTYPE_BF16] = 0;                                                     \
    j->dtype = SPP_DTYPE_BF16, j->dtype = SPP_DTYPE_BF16)                                                    \
  X("gpu-attention", w->gpu.compute_capability = 80;                                                         \
    j->attention = SPP_ATTN_FA3, w->gpu.compute_capability = 80; j->attention = SPP_ATTN_FA2)                \
  X("infer-layout", j->mode = SPP_MODE_INFER; l->zero = 3, infer(w))                                         \
  X("ulysses-heads", a->kv_heads = 32; ulysses(l, 3), a->kv_heads = 32; ulysses(l, 4))                       \
  X("ulysses-kv", ulysses(l, 16), ulysses(l, 8))                                                             \
  X("ulysses-kv-repeat", a->heads = 24; ulysses(l, 12), ulysses(l, 16))                                      \
  X("kv-tp", a->heads = 24; l->tp = 12, l->tp = 16)                                                          \
  X("kv-tp-strict", l->tp = 16, l->tp = 8)                                                                   \
  X("seq-multiple", j->seq_tokens = 4094; split4(w), split4(w))                                              \
  X("layers-pp", l->pp = 3, l->pp = 4)                                                                       \
  X("micro-batches-pp", interleaved(l, 3), interleaved(l, 4))                                                \
  X("moe-tp-sp", a->experts = 8; l->tp = 2, a->experts = 8; l->tp = 2; l->megatron_sp = true)                \
  X("ep-shard", a->experts = 16; l->ep = 16, a->experts = 16; l->ep = 8)                                     \
  X("world-with-ep", a->experts = 16; l->ep = 16, a->experts = 16; l->ep = 8)                                \
  X("tied-pp", a->tied = true; l->pp = 2, l->pp = 2)                                                         \
  X("window-ring", a->kinds[0].window_tokens = 1024; ring(l, 2), a->kinds[0].window_tokens = 1024;           \
    ulysses(l, 2))                                                                                           \
  X("sinks-a2a", a->attention_sinks = true; ring(l, 2), a->attention_sinks = true; ulysses(l, 2))            \
  X("mla-flash-p2p", mla(w); j->attention = SPP_ATTN_FA2; ulysses(l, 2), mla(w);                             \
    j->attention = SPP_ATTN_FA2; ring(l, 2))                                                                 \
  X("fp8-thd", j->dtype = SPP_DTYPE_FP8; j->packing = true; ring(l, 2), j->dtype = SPP_DTYPE_FP8;            \
    ring(l, 2))                                                                                              \
  X("allgather-thd", j->packing = true; gather(l, 2); j->attention = SPP_ATTN_FA2, j->packing = true;        \
    gather(l, 2); j->attention = SPP_ATTN_FA3)                                                               \
  X("ring-flash", ring(l, 2); j->attention = SPP_ATTN_SDPA, ulysses(l, 2); j->attention = SPP_ATTN_SDPA)     \
  X("sp-flash", ulysses(l, 2); j->attention = SPP_ATTN_SDPA, ulysses(l, 2); j->attention = SPP_ATTN_FA2)     \
  X("sp-fa2", ulysses(l, 2); j->attention = SPP_ATTN_FA3, ulysses(l, 2); j->attention = SPP_ATTN_FA2)        \
  X("sp-not-eager", ulysses(l, 2); j->attention = SPP_ATTN_EAGER, ulysses(l, 2);                             \
    j->attention = SPP_ATTN_SDPA)                                                                            \
  X("packing-flash", j->packing = true; j->attention = SPP_ATTN_SDPA, j->packing = true;                     \
    j->attention = SPP_ATTN_FA2)                                                                             \
  X("cp-sdpa", gather(l, 2); j->attention = SPP_ATTN_FA2, gather(l, 2); j->attention = SPP_ATTN_SDPA)        \
  X("cp-fsdp", gather(l, 2); l->zero = 0, gather(l, 2); l->zero = 3)                                         \
  X("cp-unpacked", gather(l, 2); j->packing = true, ulysses(l, 2); j->packing = true)                        \
  X("replicas-need-shards", l->dp = 4; l->tp = 2; l->dp_replicate = 4, l->dp = 4; l->tp = 2;                 \
    l->dp_replicate = 2)                                                                                     \
  X("zero-pp", l->pp = 2; l->zero = 2, l->pp = 2; l->zero = 1)                                               \
  X("sp-zero3", ulysses(l, 2); l->zero = 3, ulysses(l, 2); l->zero = 2)                                      \
  X("offload-params-zero3", l->offload = SPP_OFFLOAD_OPTIMIZER_PARAMS;                                       \
    l->zero = 2, l->offload = SPP_OFFLOAD_OPTIMIZER_PARAMS; l->zero = 3)                                     \
  X("offload-sharding", l->offload = SPP_OFFLOAD_OPTIMIZER; l->zero = 0, l->offload = SPP_OFFLOAD_OPTIMIZER; \
    l->zero = 1)                                                                                             \
  X("fp8-params-zero", j->fp8_params = 1; j->dtype = SPP_DTYPE_FP8; l->zero = 0, j->fp8_params = 1;          \
    j->dtype = SPP_DTYPE_FP8; l->zero = 1)                                                                   \
  X("offload-activations-plain", l->offload = SPP_OFFLOAD_ACTIVATIONS;                                       \
    l->recompute = SPP_RECOMPUTE_FULL, l->offload = SPP_OFFLOAD_ACTIVATIONS;                                 \
    l->recompute = SPP_RECOMPUTE_NONE)                                                                       \
  X("offload-activations-recompute", l->offload = SPP_OFFLOAD_ACTIVATIONS;                                   \
    l->recompute = SPP_RECOMPUTE_NONE, l->offload = SPP_OFFLOAD_ACTIVATIONS;                                 \
    l->recompute = SPP_RECOMPUTE_FULL)                                                                       \
  X("selective-layers", l->recompute = SPP_RECOMPUTE_SELECTIVE;                                              \
    l->recompute_layers = 2, l->recompute = SPP_RECOMPUTE_FULL; l->recompute_layers = 2)                     \
  X("torch-fsdp2", l->zero = 3; l->pp = 2, l->zero = 3)                                                      \
  X("grpo-groups", j->mode = SPP_MODE_GRPO; j->grpo_completions = 5, j->mode = SPP_MODE_GRPO;                \
    j->grpo_completions = 4)                                                                                 \
  X("grpo-fused-sp", j->mode = SPP_MODE_GRPO; j->loss = SPP_LOSS_CHOICE_FUSED;                               \
    ulysses(l, 2), j->loss = SPP_LOSS_CHOICE_FUSED; ulysses(l, 2))                                           \
  X("fused-sp", j->loss = SPP_LOSS_CHOICE_FUSED; ulysses(l, 2), j->loss = SPP_LOSS_CHOICE_FUSED)             \
  X("fused-tp", j->loss = SPP_LOSS_CHOICE_FUSED; l->tp = 2, j->loss = SPP_LOSS_CHOICE_FUSED)                 \
  X("packing-micro-batch", j->packing = true; ring(l, 2); l->micro_batch = 2, j->packing = true; ring(l, 2)) \
  X("packing-train", j->packing = true; j->mode = SPP_MODE_DPO, j->packing = true; j->mode = SPP_MODE_TRAIN) \
  X("tp-8bit", j->optimizer = SPP_OPTIMIZER_ADAMW_8BIT; l->tp = 2, j->optimizer = SPP_OPTIMIZER_ADAMW_8BIT)  \
  X("galore-zero", j->method = SPP_METHOD_GALORE; l->zero = 2, j->method = SPP_METHOD_GALORE; l->zero = 0)

static void interleaved(struct spp_layout *l, int64_t micro_batches) {
  l->pp = 4, l->vpp = 2, l->schedule = SPP_SCHEDULE_INTERLEAVED, l->grad_accum = micro_batches;
}
/* The framework's own kind at degree 4. */
static void split4(struct world *w) {
  if (w->framework.sp_kinds[SPP_SP_ULYSSES])
    ulysses(&w->layout, 4);
  else
    gather(&w->layout, 4);
}
static void type(struct world *w, const char *model_type) {
  snprintf(w->arch.model_type, sizeof w->arch.model_type, "%s", model_type);
  snprintf(w->framework.sp_refused_types[0], 32, "qwen3_5_");
  snprintf(w->framework.ring_refused_types[0], 32, "qwen3_5");
}
static void mla(struct world *w) {
  w->arch.attention = SPP_ATTENTION_MLA;
}
static void infer(struct world *w) {
  w->job.mode = SPP_MODE_INFER;
  w->layout.zero = 0;
  w->layout.recompute = SPP_RECOMPUTE_NONE;
}

#define SHORTHAND                                                                                            \
  struct spp_arch *a = &w->arch;                                                                             \
  struct spp_framework *f = &w->framework;                                                                   \
  struct spp_job *j = &w->job;                                                                               \
  struct spp_layout *l = &w->layout;                                                                         \
  (void)a, (void)f, (void)j, (void)l;
#define APPLY(id, broken, kept)                                                                              \
  if (strcmp(rule, id) == 0) {                                                                               \
    if (breaking) {                                                                                          \
      broken;                                                                                                \
    } else {                                                                                                 \
      kept;                                                                                                  \
    }                                                                                                        \
    return true;                                                                                             \
  }
/* False when no row speaks of the rule. */
static bool apply(const char *rule, bool breaking, struct world *w) {
  SHORTHAND
  CASES(APPLY)
  return false;
}

static const struct spp_violation *violation_of(const struct world *w, const char *rule) {
  static struct spp_violation found[MANY];
  int count = spp_rules_check(&w->job, &w->layout, found, MANY);
  for (int i = 0; i < count && i < MANY; i++)
    if (strcmp(found[i].rule, rule) == 0) return &found[i];
  return NULL;
}

static void check_rule(const struct spp_framework *framework, const char *rule, const char *version) {
  static struct world w;
  expect_note("%s under %s", rule, framework->name);
  neutral(&w, framework);
  expect_true(apply(rule, true, &w));
  const struct spp_violation *v = violation_of(&w, rule);
  expect_true(v != NULL);
  expect_true(strlen(v->text) > 10);
  expect_has(v->text, version);
  expect_true(v->source[0] != '\0');
  expect_true(strchr(v->text, '{') == NULL); /* every placeholder was known */
  expect_true(spp_rules_check(&w.job, &w.layout, NULL, 0) > 0);
  neutral(&w, framework);
  expect_true(apply(rule, false, &w));
  expect_true(violation_of(&w, rule) == NULL);
}

static bool is_general(const char *rule) {
  static struct spp_framework none;
  static struct world w;
  neutral(&w, case_framework("ms-swift"));
  none = w.framework;
  none.rule_count = 0;
  w.framework = none;
  return apply(rule, true, &w) && violation_of(&w, rule) != NULL;
}

static void every_rule_is_broken_once_and_kept_once_under_every_framework(void **state) {
  static struct spp_framework listing;
  int listed_somewhere = 0;
  (void)state;
  for (int r = 0; r < spp_rule_count(); r++) {
    const char *rule = spp_rule_id(r);
    bool used = false;
    if (is_general(rule)) {
      for (int i = 0; i < SHIPPED; i++) {
        const struct spp_framework *f = case_framework(shipped[i]);
        check_rule(f, rule, f->version);
      }
      continue;
    }
    for (int i = 0; i < SHIPPED; i++) {
      const struct spp_framework *f = case_framework(shipped[i]);
      for (int k = 0; k < f->rule_count; k++)
        if (f->rules[k].index == r) {
          check_rule(f, rule, f->rules[k].version);
          used = true;
        }
    }
    listed_somewhere += used;
    if (used) continue;
    listing = *case_framework("ms-swift"); /* only older versions have it: a user's file may list it */
    struct spp_framework_rule row = {.index = r, .version = "of 2024", .source = "a user's file"};
    snprintf(row.id, sizeof row.id, "%s", rule);
    listing.rules[listing.rule_count++] = row;
    check_rule(&listing, rule, "of 2024");
  }
  expect_note("%s", "");
  expect_true(listed_somewhere > 30);
}

static void the_neutral_job_is_legal_everywhere(void **state) {
  static struct world w;
  (void)state;
  for (int i = 0; i < SHIPPED; i++) {
    neutral(&w, case_framework(shipped[i]));
    expect_note("%s: %s", shipped[i], spp_rule_id(spp_rules_first(&w.job, &w.layout)));
    expect_i64(spp_rules_first(&w.job, &w.layout), -1);
  }
  expect_note("%s", "");
}

static void ids_are_unique_and_found(void **state) {
  (void)state;
  for (int i = 0; i < spp_rule_count(); i++)
    expect_i64(spp_rule_find(spp_rule_id(i)), i);
  expect_i64(spp_rule_find("no-such-rule"), -1);
}

static void expect_in_manual(const char *manual, const char *word) {
  char quoted[64];
  snprintf(quoted, sizeof quoted, "`%s`", word);
  expect_note("docs/frameworks.md and %s", quoted);
  expect_true(strstr(manual, quoted) != NULL);
}

/* docs/frameworks.md names every rule, every value a launch word may use, and every key of a framework file.
 */
static void the_manual_names_every_rule_value_and_key(void **state) {
  char *manual = NULL;
  int count;
  struct spp_diag diag;
  const char *const *values = spp_value_names(&count);
  (void)state;
  expect_status(spp_file_read(SPP_SOURCE_DIR "/docs/frameworks.md", 1 << 20, &manual, NULL, &diag), SPP_OK,
                &diag);
  for (int i = 0; i < spp_rule_count(); i++)
    expect_in_manual(manual, spp_rule_id(i));
  for (int i = 0; i < count; i++)
    expect_in_manual(manual, values[i]);
  for (int i = 0; spp_framework_key(i); i++)
    expect_in_manual(manual, spp_framework_key(i));
  free(manual);
  expect_note("%s", "");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, case_setup, case_teardown)
  const struct CMUnitTest tests[] = {
      TEST(every_rule_is_broken_once_and_kept_once_under_every_framework),
      TEST(the_neutral_job_is_legal_everywhere),
      TEST(ids_are_unique_and_found),
      TEST(the_manual_names_every_rule_value_and_key),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
