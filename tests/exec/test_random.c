/* Layouts that no one thought of: legal ones drawn at random, each run on threads and held to one rank and to
 * the prediction, exactly; memory where dense layers and experts share a stage to an upper bound
 * (docs/validate.md, "What it runs"). SPPLAN_RANDOM_CASES says how many (default 120), SPPLAN_RANDOM_SEED
 * where to begin. */
#include <string.h>

#include "exec/validate.h"
#include "tests/exec/ranks.h"

enum { CASES = 120, SEED = 99, STEPS = 2, MOST_RANKS = 8, DRAWS_A_CASE = 2000 };

struct dice {
  uint64_t state;
};
/* splitmix64 (Steele, Lea, Flood, 2014). */
static int64_t below(struct dice *d, int64_t n) {
  uint64_t z = d->state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  z ^= z >> 31;
  return (int64_t)(z % (uint64_t)n);
}
static int64_t one_of(struct dice *d, const int64_t *list, int64_t count) {
  return list[below(d, count)];
}
#define PICK(dice, ...)                                                                                      \
  one_of(dice, (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* What families differ in, over the sizes that are drawn. */
static const struct {
  const char *type, *more;
  bool moe, mixed;
} families[] = {
    {"llama", "", false, false},
    {"llama", "\"attention_bias\":true,\"mlp_bias\":true,", false, false},
    {"qwen2", "", false, false},
    {"qwen3", "", false, false},
    {"phi3", "\"sliding_window\":9,", false, false},
    {"qwen", "", false, false},
    {"gpt2", "", false, false},
    {"opt", "", false, false},
    {"starcoder2", "", false, false},
    {"nemotron", "", false, false},
    {"gptj", "", false, false},
    {"gpt_neox", "", false, false},
    {"cohere", "\"logit_scale\":0.25,", false, false},
    {"olmo", "", false, false},
    {"gemma", "", false, false},
    {"glm4", "", false, false},
    {"gemma2", "\"final_logit_softcapping\":3.0,", false, false},
    {"exaone4", "", false, false},
    {"granite", "\"residual_multiplier\":0.3,\"logits_scaling\":2.0,", false, false},
    {"glm", "", false, false},
    {"smollm3", "\"no_rope_layer_interval\":2,\"partial_rotary_factor\":0.5,", false, false},
    {"baichuan", "", false, false},
    {"llama",
     "\"attn_logit_softcapping\":2.0,\"attention_multiplier\":0.5,\"rope_local_base_freq\":50.0,"
     "\"sliding_window\":9,",
     false, false},
    {"minimax_m2", "", true, false},
    {"cohere", "\"use_qk_norm\":true,", false, false},
    {"llama",
     "\"q_lora_rank\":24,\"kv_lora_rank\":16,\"qk_nope_head_dim\":16,\"qk_rope_head_dim\":8,"
     "\"v_head_dim\":16,",
     false, false},
    {"llama", "\"kv_lora_rank\":40,\"qk_nope_head_dim\":8,\"qk_rope_head_dim\":8,\"v_head_dim\":32,", false,
     false},
    {"deepseek_v3",
     "\"n_shared_experts\":1,\"first_k_dense_replace\":1,\"q_lora_rank\":24,\"kv_lora_rank\":16,"
     "\"qk_nope_head_dim\":16,\"qk_rope_head_dim\":8,\"v_head_dim\":16,",
     true, true},
    {"mixtral", "", true, false},
    {"qwen3_moe", "", true, false},
    {"qwen2_moe", "\"mlp_only_layers\":[1],\"shared_expert_intermediate_size\":24,\"norm_topk_prob\":false,",
     true, true},
    {"glm4_moe",
     "\"n_shared_experts\":1,\"first_k_dense_replace\":1,\"n_group\":2,\"topk_group\":1,\"routed_scaling_"
     "factor\":2.5,",
     true, true},
    {"gpt_oss", "\"sliding_window\":9,", true, false},
    {"llama4_text",
     "\"use_qk_norm\":false,\"interleave_moe_layer_step\":2,\"intermediate_size_mlp\":48,\"attention_chunk_"
     "size\":9,"
     "\"no_rope_layer_interval\":3,",
     true, true},
};
enum { FAMILIES = sizeof families / sizeof families[0] };

struct draw {
  char model[768];
  bool mixed; /* dense layers and experts */
  struct spp_exec_setting setting;
};

static void draw_model(struct dice *d, struct draw *c, bool *moe) {
  int64_t family = below(d, FAMILIES), kv = PICK(d, 1, 2, 4, 8);
  int64_t experts = PICK(d, 2, 4, 8);
  *moe = families[family].moe;
  c->mixed = families[family].mixed;
  snprintf(c->model, sizeof c->model,
           "{\"model_type\":\"%s\",%s\"hidden_size\":%lld,\"intermediate_size\":%lld,"
           "\"num_hidden_layers\":%lld,\"num_attention_heads\":8,\"num_key_value_heads\":%lld,"
           "\"head_dim\":%lld,\"max_position_embeddings\":72,\"vocab_size\":%lld,\"num_experts\":%lld,\"num_"
           "local_experts\":%lld,"
           "\"n_routed_experts\":%lld,\"num_experts_per_tok\":%lld,\"moe_intermediate_size\":%lld,"
           "\"tie_word_embeddings\":%s}",
           families[family].type, families[family].more, (long long)(8 * (3 + below(d, 6))),
           (long long)(16 * (1 + below(d, 8))), (long long)(1 + below(d, 6)), (long long)kv,
           (long long)PICK(d, 8, 16), (long long)(32 + below(d, 800)), (long long)(*moe ? experts : 0),
           (long long)(*moe ? experts : 0), (long long)(*moe ? experts : 0), (long long)PICK(d, 1, 2),
           (long long)(8 * (1 + below(d, 6))), below(d, 2) ? "true" : "false");
}

static void draw_sequence_parallel(struct dice *d, struct spp_layout *l) {
  l->sp_kind = (enum spp_sp_kind)below(d, SPP_SP_KIND_COUNT);
  if (l->sp_kind == SPP_SP_ULYSSES || l->sp_kind == SPP_SP_HYBRID) l->ulysses = PICK(d, 2, 4, 8);
  if (l->sp_kind == SPP_SP_RING || l->sp_kind == SPP_SP_HYBRID || l->sp_kind == SPP_SP_ALLGATHER)
    l->ring = PICK(d, 2, 3, 4);
}

static void draw_recompute(struct dice *d, struct spp_layout *l, bool moe) {
  static const unsigned modules[] = {SPP_RC_CORE_ATTN, SPP_RC_LAYERNORM, SPP_RC_MLP,
                                     SPP_RC_MOE,       SPP_RC_MOE_ACT,   SPP_RC_SHARED_EXPERTS};
  l->recompute = (enum spp_recompute)below(d, SPP_RECOMPUTE_COUNT);
  l->recompute_layers = SPP_UNSET;
  for (int i = 0; l->recompute == SPP_RECOMPUTE_SELECTIVE && i < (moe ? 6 : 3); i++)
    if (below(d, 2)) l->recompute_modules |= modules[i];
  if (l->recompute == SPP_RECOMPUTE_SELECTIVE && l->recompute_modules == 0)
    l->recompute_modules = SPP_RC_CORE_ATTN;
  if (l->recompute == SPP_RECOMPUTE_FULL && below(d, 3) == 0) l->recompute_layers = 1 + below(d, 3);
}

static void draw_layout(struct dice *d, bool moe, struct spp_layout *l) {
  *l = spp_layout_plain();
  l->tp = PICK(d, 1, 1, 2, 4);
  l->pp = PICK(d, 1, 1, 2, 3);
  l->dp = PICK(d, 1, 1, 2, 3);
  if (below(d, 3) > 0) draw_sequence_parallel(d, l);
  l->megatron_sp = l->tp > 1 && (moe || below(d, 2));
  l->ep = moe ? PICK(d, 1, 2, 4) : 1;
  l->zero = (int)below(d, 4);
  l->micro_batch = 1 + below(d, 3);
  l->grad_accum = 1 + below(d, 4);
  if (l->pp > 1 && below(d, 3) == 0) {
    l->vpp = 2;
    l->schedule = SPP_SCHEDULE_INTERLEAVED;
  }
  draw_recompute(d, l, moe);
}

static void draw_case(struct dice *d, struct draw *c) {
  static const int64_t documents[] = {20, 7, 13, 40, 3, 33};
  bool moe;
  memset(c, 0, sizeof *c);
  draw_model(d, c, &moe);
  draw_layout(d, moe, &c->setting.layout);
  c->setting.seq_tokens = PICK(d, 24, 31, 48, 50, 64);
  c->setting.dtype = below(d, 4) == 0 ? SPP_DTYPE_BF16 : SPP_DTYPE_FP32;
  c->setting.contiguous = below(d, 3) == 0;
  c->setting.expert_capacity = moe && below(d, 2) ? (double)PICK(d, 1, 2, 4) : 0;
  if (below(d, 4) == 0 && c->setting.seq_tokens >= 48) {
    c->setting.doc_lengths = documents;
    c->setting.doc_count = (int64_t)(sizeof documents / sizeof documents[0]);
  }
}

/* False: not legal, or more than a small machine should run. */
static bool runs(const struct draw *c, struct spp_validate_result *result) {
  struct spp_arena arena;
  struct spp_diag diag = {.status = SPP_OK};
  struct spp_validate_case v = {.name = "drawn", .setting = c->setting, .steps = STEPS};
  if (spp_layout_world(&c->setting.layout) > MOST_RANKS) return false;
  spp_arena_init(&arena);
  expect_status(spp_arch_parse(c->model, strlen(c->model), "drawn", &arena, &v.setting.arch, &diag), SPP_OK,
                &diag);
  enum spp_status status = spp_validate_run(SPP_SOURCE_DIR "/configs", &spp_backend_self, &v, result, &diag);
  spp_arena_free(&arena);
  if (status != SPP_ERR_USAGE && status != SPP_ERR_ABSENT) expect_status(status, SPP_OK, &diag);
  return status == SPP_OK;
}

static void print_case(const struct draw *c, const struct spp_validate_result *r) {
  const struct spp_layout *l = &c->setting.layout;
  print_message("%s\n", c->model);
  print_message(
      "tp %d pp %d vpp %d dp %d ep %d sp %s u %d r %d%s%s zero %d recompute %d:%x:%d mb %d x %d seq "
      "%d%s%s capacity %g\n",
      (int)l->tp, (int)l->pp, (int)l->vpp, (int)l->dp, (int)l->ep, spp_sp_kind_name(l->sp_kind),
      (int)l->ulysses, (int)l->ring, l->megatron_sp ? " +SP" : "", c->setting.contiguous ? " contiguous" : "",
      l->zero, (int)l->recompute, l->recompute_modules, (int)l->recompute_layers, (int)l->micro_batch,
      (int)l->grad_accum, (int)c->setting.seq_tokens, c->setting.dtype == SPP_DTYPE_BF16 ? " bf16" : "",
      c->setting.doc_count ? " packed" : "", c->setting.expert_capacity);
  print_message("loss %g gradients %g weights %g of %g\n", r->numerics.loss_rel_error,
                r->numerics.grad_rel_error, r->numerics.output_rel_error, r->numerics.tolerance);
  for (int p = 0; p < SPP_PART_COUNT; p++)
    if (r->memory.predicted_parts[p] != r->memory.measured_parts[p])
      print_message("%s: predicted %lld, measured %lld\n", spp_part_name((enum spp_part)p),
                    (long long)r->memory.predicted_parts[p], (long long)r->memory.measured_parts[p]);
  print_message("moment predicted %d, measured %d; peak %lld, %lld\n", (int)r->memory.predicted_moment,
                (int)r->memory.measured_moment, (long long)r->memory.predicted_bytes,
                (long long)r->memory.measured_bytes);
  for (int i = 0; i < r->comm.count; i++) {
    const struct spp_validate_traffic *t = &r->comm.rows[i];
    if (t->predicted_bytes != t->measured_bytes || t->predicted_messages != t->measured_messages)
      print_message("%s: bytes %lld, %lld; messages %lld, %lld\n", t->what, (long long)t->predicted_bytes,
                    (long long)t->measured_bytes, (long long)t->predicted_messages,
                    (long long)t->measured_messages);
  }
}

static int64_t setting_of(const char *variable, int64_t otherwise) {
  const char *text = getenv(variable);
  return text && *text ? strtoll(text, NULL, 10) : otherwise;
}

static void drawn_layouts_train_like_one_rank_and_use_what_is_predicted(void **state) {
  struct dice dice = {(uint64_t)setting_of("SPPLAN_RANDOM_SEED", SEED)};
  int64_t wanted = setting_of("SPPLAN_RANDOM_CASES", CASES), run = 0, wrong = 0;
  (void)state;
  for (int64_t i = 0; i < wanted * DRAWS_A_CASE && run < wanted; i++) {
    static struct draw c;
    static struct spp_validate_result result;
    draw_case(&dice, &c);
    if (!runs(&c, &result)) continue;
    run++;
    if (result.numerics.ok && result.memory.ok && result.comm.ok) continue;
    print_case(&c, &result);
    wrong++;
  }
  expect_i64(run, wanted);
  expect_i64(wrong, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(drawn_layouts_train_like_one_rank_and_use_what_is_predicted)};
  return test_end(cmocka_run_group_tests(tests, NULL, NULL));
}
