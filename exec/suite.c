#include "exec/suite.h"

#include <stddef.h>
#include <stdio.h>

#define SHAPE                                                                                                \
  "\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":4,\"num_attention_heads\":8,"           \
  "\"num_key_value_heads\":4,\"head_dim\":16,\"vocab_size\":128,"
/* Grouped queries and biases; as many KV heads as query heads, no biases; one KV head, norms of q and k,
 * tied; five layers with norms of q and k; two KV heads, tied, a vocabulary larger than a layer, in four and
 * in eight layers; two of eight and of four experts. */
const char spp_suite_model[] = "{\"model_type\":\"qwen2\"," SHAPE "\"tie_word_embeddings\":false}";
static const char mha[] =
    "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":128,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":8,\"head_dim\":8,\"vocab_size\":96,"
    "\"tie_word_embeddings\":false}";
static const char mqa[] =
    "{\"model_type\":\"qwen3\",\"hidden_size\":48,\"intermediate_size\":80,\"num_hidden_layers\":4,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":1,\"head_dim\":16,\"vocab_size\":128,"
    "\"tie_word_embeddings\":true}";

static const char four[] =
    "{\"model_type\":\"qwen2\",\"hidden_size\":48,\"intermediate_size\":80,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":2,\"head_dim\":8,\"vocab_size\":96,"
    "\"tie_word_embeddings\":false}";
static const char five[] =
    "{\"model_type\":\"qwen3\",\"hidden_size\":48,\"intermediate_size\":80,\"num_hidden_layers\":5,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":16,\"vocab_size\":96,"
    "\"tie_word_embeddings\":false}";
static const char tied[] =
    "{\"model_type\":\"qwen3\",\"hidden_size\":48,\"intermediate_size\":80,\"num_hidden_layers\":4,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":2,\"head_dim\":16,\"vocab_size\":1024,"
    "\"tie_word_embeddings\":true}";
static const char odd[] =
    "{\"model_type\":\"qwen2\",\"hidden_size\":48,\"intermediate_size\":80,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":8,\"vocab_size\":101,"
    "\"tie_word_embeddings\":true}";
static const char narrow[] =
    "{\"model_type\":\"qwen3\",\"hidden_size\":48,\"intermediate_size\":80,\"num_hidden_layers\":8,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":2,\"head_dim\":16,\"vocab_size\":1024,"
    "\"tie_word_embeddings\":true}";

static const char mixture[] =
    "{\"model_type\":\"qwen3_moe\",\"hidden_size\":64,\"intermediate_size\":96,\"moe_intermediate_size\":32,"
    "\"num_hidden_layers\":2,\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":16,"
    "\"vocab_size\":128,\"num_experts\":8,\"num_experts_per_tok\":2,\"tie_word_embeddings\":false}";
static const char top1[] =
    "{\"model_type\":\"mixtral\",\"hidden_size\":40,\"intermediate_size\":56,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":8,\"vocab_size\":130,"
    "\"num_local_experts\":4,\"num_experts_per_tok\":1,\"tie_word_embeddings\":true}";
static const char mixtral[] =
    "{\"model_type\":\"mixtral\",\"hidden_size\":48,\"intermediate_size\":80,\"num_hidden_layers\":3,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":1,\"head_dim\":16,\"vocab_size\":96,"
    "\"num_local_experts\":4,\"num_experts_per_tok\":2,\"tie_word_embeddings\":false}";

/* A dense layer before the experts, a shared expert behind a gate, weights not made to sum to 1; sigmoids, a
 * shared expert without a gate, gate and up joined; windows in every other layer; blocks of attention. */
static const char shared[] =
    "{\"model_type\":\"qwen2_moe\",\"hidden_size\":48,\"intermediate_size\":112,\"moe_intermediate_size\":40,"
    "\"num_hidden_layers\":3,\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":8,"
    "\"vocab_size\":96,\"num_experts\":8,\"num_experts_per_tok\":2,\"norm_topk_prob\":false,"
    "\"shared_expert_intermediate_size\":56,\"mlp_only_layers\":[0],\"tie_word_embeddings\":false}";
static const char sigmoids[] =
    "{\"model_type\":\"glm4_moe\",\"hidden_size\":48,\"intermediate_size\":80,\"moe_intermediate_size\":32,"
    "\"num_hidden_layers\":4,\"num_attention_heads\":8,\"num_key_value_heads\":2,\"head_dim\":16,"
    "\"vocab_size\":96,\"n_routed_experts\":4,\"num_experts_per_tok\":2,\"n_shared_experts\":1,"
    "\"first_k_dense_replace\":2,\"attention_bias\":true,\"tie_word_embeddings\":false}";
static const char windows[] =
    "{\"model_type\":\"phi3\",\"hidden_size\":48,\"intermediate_size\":80,\"num_hidden_layers\":4,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":8,\"vocab_size\":96,"
    "\"sliding_window\":11,\"layer_types\":[\"sliding_attention\",\"full_attention\",\"sliding_attention\","
    "\"full_attention\"],\"tie_word_embeddings\":false}";
static const char biases[] =
    "{\"model_type\":\"llama\",\"hidden_size\":48,\"intermediate_size\":80,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":8,\"vocab_size\":96,"
    "\"attention_bias\":true,\"mlp_bias\":true,\"tie_word_embeddings\":false}";

/* LayerNorms, learned positions and no gate; one norm for parallel branches, one KV head, biases nowhere; a
 * norm each for them, gelu; one norm without bias, scaled logits; norms before and behind, a scaled embedding
 * and capped logits; norms behind alone; norms without weights. */
static const char gpt2[] =
    "{\"model_type\":\"gpt2\",\"hidden_size\":48,\"num_hidden_layers\":4,\"num_attention_heads\":8,"
    "\"head_dim\":8,\"vocab_size\":96,\"n_positions\":64}";
static const char falcon[] =
    "{\"model_type\":\"falcon\",\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":8,"
    "\"head_dim\":8,\"vocab_size\":96,\"alibi\":false}";
static const char neox[] =
    "{\"model_type\":\"gpt_neox\",\"hidden_size\":48,\"intermediate_size\":112,\"num_hidden_layers\":4,"
    "\"num_attention_heads\":8,\"head_dim\":8,\"vocab_size\":96,\"tie_word_embeddings\":false}";
static const char cohere[] =
    "{\"model_type\":\"cohere\",\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":4,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":4,\"vocab_size\":96,\"logit_scale\":0.25}";
static const char gemma[] =
    "{\"model_type\":\"gemma2\",\"hidden_size\":48,\"intermediate_size\":80,\"num_hidden_layers\":4,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":8,\"vocab_size\":96,"
    "\"sliding_window\":4096,\"final_logit_softcapping\":5.0,\"attn_logit_softcapping\":null}";
static const char behind[] =
    "{\"model_type\":\"exaone4\",\"hidden_size\":48,\"intermediate_size\":80,\"num_hidden_layers\":4,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":8,\"vocab_size\":96,"
    "\"tie_word_embeddings\":false}";
static const char bare[] =
    "{\"model_type\":\"olmo\",\"hidden_size\":48,\"intermediate_size\":80,\"num_hidden_layers\":4,"
    "\"num_attention_heads\":8,\"head_dim\":8,\"vocab_size\":96,\"tie_word_embeddings\":false}";
/* Linear biases of positions; half of a head turned in neighbours, every second layer without; capped scores,
 * other angles in the layers with a window; norms over all of q and k. */
#define ATTENTION                                                                                            \
  "\"hidden_size\":48,\"intermediate_size\":80,\"num_hidden_layers\":4,\"num_attention_heads\":8,"           \
  "\"num_key_value_heads\":4,\"head_dim\":16,\"vocab_size\":96,\"tie_word_embeddings\":false,"
static const char alibi[] = "{\"model_type\":\"baichuan\"," ATTENTION "\"model_max_length\":4096}";
static const char neighbours[] =
    "{\"model_type\":\"cohere2\"," ATTENTION "\"partial_rotary_factor\":0.5,\"sliding_window\":20,"
    "\"sliding_window_pattern\":2}";
static const char capped[] =
    "{\"model_type\":\"llama\"," ATTENTION "\"attn_logit_softcapping\":2.0,\"attention_multiplier\":0.4,"
    "\"rope_local_base_freq\":100.0,\"sliding_window\":11,\"layer_types\":[\"sliding_attention\","
    "\"full_attention\",\"sliding_attention\",\"full_attention\"]}";
static const char wide[] =
    "{\"model_type\":\"olmoe\"," ATTENTION "\"num_experts\":4,\"num_experts_per_tok\":2}";

static const char sinks[] = "{\"model_type\":\"gpt_oss\"," ATTENTION
                            "\"sliding_window\":20,\"num_local_experts\":4,\"num_experts_per_tok\":2}";

/* Latents of q and of k and v; of k and v alone, v wider than q and k; norms of each head of q and k. */
static const char latent[] =
    "{\"model_type\":\"llama\"," ATTENTION "\"q_lora_rank\":24,\"kv_lora_rank\":16,\"qk_nope_head_dim\":16,"
    "\"qk_rope_head_dim\":8,\"v_head_dim\":16}";
static const char latent_kv[] = "{\"model_type\":\"llama\"," ATTENTION
                                "\"kv_lora_rank\":16,\"qk_nope_head_dim\":8,\"qk_rope_head_dim\":8,"
                                "\"v_head_dim\":24}";
static const char head_norms[] = "{\"model_type\":\"cohere\"," ATTENTION "\"use_qk_norm\":true}";

static const char *const names[SPP_SUITE_COUNT] = {"quick", "ci", "full", "time"};
const char *spp_suite_name(enum spp_suite suite) {
  return (int)suite >= 0 && suite < SPP_SUITE_COUNT ? names[suite] : NULL;
}

enum { Q = 1 << SPP_SUITE_QUICK, C = 1 << SPP_SUITE_CI, F = 1 << SPP_SUITE_FULL };
enum { QUICK = Q | C | F, CI = C | F, FULL = F };

/* Six documents; sequences of 48 or more tokens take two or three of them each. */
static const int64_t documents[] = {20, 7, 13, 40, 3, 33};
#define TOKENS(n)           (n), NULL, 0, false, false, 0, 0
#define IN_BF16(n)          (n), NULL, 0, true, false, 0, 0
#define PACKED(n)           (n), documents, sizeof documents / sizeof documents[0], false, false, 0, 0
#define CONTIGUOUS(n)       (n), NULL, 0, false, true, 0, 0
#define BY_SCORE(n, f)      (n), NULL, 0, false, false, (f), 0
#define BY_SCORE_BF16(n, f) (n), NULL, 0, true, false, (f), 0

/* What differs from one rank with one sequence; a degree of 0 is 1. */
#define LAYOUT(...)                                                                                          \
  { .recompute_layers = SPP_UNSET, __VA_ARGS__ }
#define ULYSSES(n)         .ulysses = (n), .sp_kind = SPP_SP_ULYSSES
#define RING(n)            .ring = (n), .sp_kind = SPP_SP_RING
#define GATHER(n)          .ring = (n), .sp_kind = SPP_SP_ALLGATHER
#define HYBRID(u, r)       .ulysses = (u), .ring = (r), .sp_kind = SPP_SP_HYBRID
#define RECOMPUTE          .recompute = SPP_RECOMPUTE_FULL
#define SELECTIVE(modules) .recompute = SPP_RECOMPUTE_SELECTIVE, .recompute_modules = (modules)
#define EACH_MODULE        (SPP_RC_CORE_ATTN | SPP_RC_LAYERNORM | SPP_RC_MLP)
#define MEGATRON(n)        .tp = (n), .megatron_sp = true
#define INTERLEAVED(n)     .vpp = (n), .schedule = SPP_SCHEDULE_INTERLEAVED

static const struct {
  unsigned suites;
  struct spp_suite_case c;
} rows[] = {
    {QUICK, {"one rank", spp_suite_model, LAYOUT(.grad_accum = 2), TOKENS(32)}},
    {QUICK, {"DP 2", spp_suite_model, LAYOUT(.dp = 2), TOKENS(32)}},
    {CI, {"DP 4, ZeRO-1", spp_suite_model, LAYOUT(.dp = 4, .zero = 1, .grad_accum = 2), TOKENS(32)}},
    {CI, {"DP 2, ZeRO-2", spp_suite_model, LAYOUT(.dp = 2, .zero = 2, .grad_accum = 2), TOKENS(32)}},
    {QUICK,
     {"DP 4, ZeRO-3, recompute", spp_suite_model, LAYOUT(.dp = 4, .zero = 3, .grad_accum = 2, RECOMPUTE),
      TOKENS(32)}},
    {QUICK, {"Ulysses 4", spp_suite_model, LAYOUT(ULYSSES(4)), TOKENS(64)}},
    {CI,
     {"Ulysses 8, each KV head sent twice", spp_suite_model, LAYOUT(ULYSSES(8), .micro_batch = 2),
      TOKENS(64)}},
    {FULL, {"Ulysses 4 x ring 2, one KV head for four", mqa, LAYOUT(HYBRID(4, 2)), TOKENS(64)}},
    {CI, {"Ulysses 8, as many KV heads", mha, LAYOUT(ULYSSES(8), .micro_batch = 3), TOKENS(64)}},
    {CI,
     {"Ulysses 2 x DP 2, ZeRO-3", spp_suite_model, LAYOUT(ULYSSES(2), .dp = 2, .zero = 3, .micro_batch = 2),
      TOKENS(64)}},
    {QUICK, {"ring 4", spp_suite_model, LAYOUT(RING(4)), TOKENS(64)}},
    {CI, {"ring 8, one KV head, tied", mqa, LAYOUT(RING(8), .micro_batch = 3), TOKENS(64)}},
    {CI, {"ring 2, recompute", spp_suite_model, LAYOUT(RING(2), RECOMPUTE), TOKENS(64)}},
    {CI,
     {"ring 2, part recomputed",
      spp_suite_model,
      {.ring = 2, .sp_kind = SPP_SP_RING, .recompute = SPP_RECOMPUTE_FULL, .recompute_layers = 2},
      TOKENS(64)}},
    {QUICK, {"ring 4, contiguous", spp_suite_model, LAYOUT(RING(4)), CONTIGUOUS(60)}},
    {CI,
     {"all-gather 4, contiguous, recompute", mha, LAYOUT(GATHER(4), .micro_batch = 3, RECOMPUTE),
      CONTIGUOUS(57)}},
    {CI,
     {"Ulysses 2 x ring 2, contiguous, ZeRO-3", spp_suite_model, LAYOUT(HYBRID(2, 2), .zero = 3),
      CONTIGUOUS(61)}},
    {CI,
     {"TP 2 + SP x ring 2, contiguous, PP 2", five, LAYOUT(MEGATRON(2), RING(2), .pp = 2, .grad_accum = 3),
      CONTIGUOUS(64)}},
    {QUICK, {"all-gather 4", spp_suite_model, LAYOUT(GATHER(4)), TOKENS(64)}},
    {CI,
     {"all-gather 2, as many KV heads, recompute", mha, LAYOUT(GATHER(2), .micro_batch = 3, RECOMPUTE),
      TOKENS(32)}},
    {QUICK, {"Ulysses 2 x ring 2, ZeRO-2", spp_suite_model, LAYOUT(HYBRID(2, 2), .zero = 2), TOKENS(64)}},
    {FULL,
     {"Ulysses 4 x ring 2, ZeRO-1", spp_suite_model, LAYOUT(HYBRID(4, 2), .zero = 1, .micro_batch = 2),
      TOKENS(64)}},
    {QUICK, {"TP 4", spp_suite_model, LAYOUT(.tp = 4), TOKENS(32)}},
    {QUICK, {"TP 2 + SP", spp_suite_model, LAYOUT(.tp = 2, .megatron_sp = true), TOKENS(32)}},
    {CI,
     {"TP 2 + SP, recompute", spp_suite_model, LAYOUT(.tp = 2, .megatron_sp = true, RECOMPUTE), TOKENS(32)}},
    {CI,
     {"TP 2 x DP 2 x ring 2, ZeRO-1", spp_suite_model, LAYOUT(.tp = 2, .dp = 2, RING(2), .zero = 1),
      TOKENS(64)}},
    {FULL,
     {"TP 2 x Ulysses 2 x DP 2, ZeRO-3", spp_suite_model, LAYOUT(.tp = 2, .dp = 2, ULYSSES(2), .zero = 3),
      TOKENS(64)}},
    {FULL, {"TP 2 + SP x all-gather 4", mha, LAYOUT(.tp = 2, .megatron_sp = true, GATHER(4)), TOKENS(64)}},
    {QUICK, {"PP 4", spp_suite_model, LAYOUT(.pp = 4, .grad_accum = 6), TOKENS(32)}},
    {CI,
     {"PP 4, few micro-batches, recompute", spp_suite_model, LAYOUT(.pp = 4, .grad_accum = 2, RECOMPUTE),
      TOKENS(32)}},
    {CI, {"PP 2 interleaved", spp_suite_model, LAYOUT(.pp = 2, INTERLEAVED(2), .grad_accum = 4), TOKENS(32)}},
    {CI,
     {"five layers on PP 2 interleaved", five, LAYOUT(.pp = 2, INTERLEAVED(2), .grad_accum = 4), TOKENS(32)}},
    {CI,
     {"five layers on PP 2 interleaved x DP 2, ZeRO-3, part recomputed",
      five,
      {.pp = 2, INTERLEAVED(2), .dp = 2, .zero = 3, .grad_accum = 4, RECOMPUTE, .recompute_layers = 2},
      TOKENS(32)}},
    {FULL, {"PP 4 tied, norms of q and k", mqa, LAYOUT(.pp = 4, .grad_accum = 5), TOKENS(32)}},
    {CI,
     {"PP 2 x TP 2 + SP x DP 2", spp_suite_model,
      LAYOUT(.pp = 2, .tp = 2, .dp = 2, .grad_accum = 3, .megatron_sp = true), TOKENS(32)}},
    {FULL,
     {"PP 2 x ring 2 x DP 2, ZeRO-1", spp_suite_model,
      LAYOUT(.pp = 2, .dp = 2, RING(2), .zero = 1, .grad_accum = 4), TOKENS(64)}},
    {QUICK, {"norms of q and k, TP 2", five, LAYOUT(.tp = 2), TOKENS(32)}},
    {CI,
     {"norms of q and k, TP 2 + SP x DP 2, ZeRO-1", five, LAYOUT(MEGATRON(2), .dp = 2, .zero = 1),
      TOKENS(32)}},
    {CI, {"norms of q and k, TP 2 x DP 2, ZeRO-3", five, LAYOUT(.tp = 2, .dp = 2, .zero = 3), TOKENS(32)}},
    {QUICK, {"five layers on PP 2", five, LAYOUT(.pp = 2, .grad_accum = 3), TOKENS(32)}},
    {CI, {"five layers on PP 3, one micro-batch", five, LAYOUT(.pp = 3), TOKENS(32)}},
    {FULL,
     {"five layers on PP 4 x DP 2, ZeRO-2", five, LAYOUT(.pp = 4, .dp = 2, .zero = 2, .grad_accum = 5),
      TOKENS(32)}},
    {CI,
     {"PP 2 x DP 2, ZeRO-2", spp_suite_model, LAYOUT(.pp = 2, .dp = 2, .zero = 2, .grad_accum = 3),
      TOKENS(32)}},
    {QUICK,
     {"PP 2 x DP 2, ZeRO-3", spp_suite_model, LAYOUT(.pp = 2, .dp = 2, .zero = 3, .grad_accum = 3),
      TOKENS(32)}},
    {CI,
     {"PP 2 interleaved x DP 2, ZeRO-3", spp_suite_model,
      LAYOUT(.pp = 2, INTERLEAVED(2), .dp = 2, .zero = 3, .grad_accum = 2), TOKENS(32)}},
    {FULL,
     {"PP 2 x TP 2 + SP x DP 2, ZeRO-3", spp_suite_model,
      LAYOUT(.pp = 2, MEGATRON(2), .dp = 2, .zero = 3, .grad_accum = 2), TOKENS(32)}},
    {CI, {"TP 2 + SP x DP 2, ZeRO-2", spp_suite_model, LAYOUT(MEGATRON(2), .dp = 2, .zero = 2), TOKENS(32)}},
    {QUICK,
     {"TP 2 + SP x DP 2, ZeRO-3", spp_suite_model, LAYOUT(MEGATRON(2), .dp = 2, .zero = 3), TOKENS(32)}},
    {FULL,
     {"TP 2 + SP x ring 2 x DP 2, ZeRO-3, recompute", five,
      LAYOUT(MEGATRON(2), RING(2), .dp = 2, .zero = 3, RECOMPUTE), TOKENS(64)}},
    {QUICK, {"tied, DP 2, ZeRO-2", tied, LAYOUT(.dp = 2, .zero = 2, .grad_accum = 2), TOKENS(32)}},
    {CI, {"tied, DP 4, ZeRO-3", tied, LAYOUT(.dp = 4, .zero = 3), TOKENS(32)}},
    {CI,
     {"tied, PP 2 x DP 2, ZeRO-2", tied, LAYOUT(.pp = 2, .dp = 2, .zero = 2, .grad_accum = 3), TOKENS(32)}},
    {CI,
     {"tied, PP 2 x DP 2, ZeRO-3", tied, LAYOUT(.pp = 2, .dp = 2, .zero = 3, .grad_accum = 3), TOKENS(32)}},
    {CI,
     {"embedding last, PP 4 x DP 2, ZeRO-2", narrow, LAYOUT(.pp = 4, .dp = 2, .zero = 2, .grad_accum = 4),
      TOKENS(16)}},
    {FULL,
     {"embedding last, PP 4 x DP 2, ZeRO-3", narrow, LAYOUT(.pp = 4, .dp = 2, .zero = 3, .grad_accum = 4),
      TOKENS(16)}},
    {FULL,
     {"tied, TP 2 + SP x PP 2 x DP 2, ZeRO-1", tied, LAYOUT(MEGATRON(2), .pp = 2, .dp = 2, .zero = 1),
      TOKENS(32)}},
    {CI,
     {"attention again", spp_suite_model, LAYOUT(SELECTIVE(SPP_RC_CORE_ATTN), .grad_accum = 2), TOKENS(32)}},
    {QUICK,
     {"Ulysses 8, attention again", spp_suite_model,
      LAYOUT(ULYSSES(8), SELECTIVE(SPP_RC_CORE_ATTN), .micro_batch = 3), TOKENS(64)}},
    {CI,
     {"ring 4, attention, norms, MLP again", spp_suite_model, LAYOUT(RING(4), SELECTIVE(EACH_MODULE)),
      TOKENS(64)}},
    {CI,
     {"all-gather 2, attention again", mha, LAYOUT(GATHER(2), SELECTIVE(SPP_RC_CORE_ATTN), .micro_batch = 3),
      TOKENS(32)}},
    {CI,
     {"TP 2 + SP, norms again", spp_suite_model, LAYOUT(MEGATRON(2), SELECTIVE(SPP_RC_LAYERNORM)),
      TOKENS(32)}},
    {QUICK,
     {"TP 2 + SP, MLP again", spp_suite_model, LAYOUT(MEGATRON(2), SELECTIVE(SPP_RC_MLP)), TOKENS(32)}},
    {FULL,
     {"PP 2 x Ulysses 2 x ring 2, ZeRO-3, all again", five,
      LAYOUT(.pp = 2, HYBRID(2, 2), .zero = 3, .grad_accum = 3, SELECTIVE(EACH_MODULE)), TOKENS(64)}},
    {FULL, {"PP 2 x Ulysses 2", mha, LAYOUT(.pp = 2, ULYSSES(2), .grad_accum = 4), TOKENS(32)}},
    {QUICK, {"bf16, DP 2, ZeRO-1", spp_suite_model, LAYOUT(.dp = 2, .zero = 1), IN_BF16(32)}},
    {CI, {"bf16, DP 2, ZeRO-2", five, LAYOUT(.dp = 2, .zero = 2, .grad_accum = 2), IN_BF16(32)}},
    {CI, {"bf16, tied, DP 4, ZeRO-3", tied, LAYOUT(.dp = 4, .zero = 3), IN_BF16(32)}},
    {QUICK, {"bf16, Ulysses 4", spp_suite_model, LAYOUT(ULYSSES(4)), IN_BF16(64)}},
    {CI, {"bf16, Ulysses 8, each KV head sent twice", spp_suite_model, LAYOUT(ULYSSES(8)), IN_BF16(64)}},
    {QUICK, {"bf16, ring 4", spp_suite_model, LAYOUT(RING(4), .micro_batch = 3), IN_BF16(64)}},
    {CI, {"bf16, all-gather 4", mha, LAYOUT(GATHER(4)), IN_BF16(64)}},
    {CI, {"bf16, Ulysses 2 x ring 2, ZeRO-3", spp_suite_model, LAYOUT(HYBRID(2, 2), .zero = 3), IN_BF16(64)}},
    {QUICK, {"bf16, TP 2 + SP", five, LAYOUT(MEGATRON(2)), IN_BF16(32)}},
    {CI, {"bf16, TP 4", spp_suite_model, LAYOUT(.tp = 4), IN_BF16(32)}},
    {CI,
     {"bf16, PP 2, recompute", spp_suite_model, LAYOUT(.pp = 2, .grad_accum = 3, RECOMPUTE), IN_BF16(32)}},
    {CI, {"bf16, ring 2, all again", five, LAYOUT(RING(2), SELECTIVE(EACH_MODULE)), IN_BF16(64)}},
    {FULL,
     {"bf16, PP 2 x TP 2 + SP x ring 2, ZeRO-3", five,
      LAYOUT(.pp = 2, MEGATRON(2), RING(2), .zero = 3, .grad_accum = 2), IN_BF16(64)}},
    {QUICK, {"experts", mixture, LAYOUT(.grad_accum = 2), TOKENS(32)}},
    {QUICK, {"experts, DP 2, EP 2", mixture, LAYOUT(.dp = 2, .ep = 2), TOKENS(32)}},
    {CI, {"experts, DP 4, ZeRO-1", mixtral, LAYOUT(.dp = 4, .zero = 1, .micro_batch = 3), TOKENS(32)}},
    {CI, {"experts, DP 4, EP 2, ZeRO-1", mixture, LAYOUT(.dp = 4, .ep = 2, .zero = 1), TOKENS(32)}},
    {CI,
     {"experts, DP 4, EP 4, ZeRO-2", mixtral, LAYOUT(.dp = 4, .ep = 4, .zero = 2, .grad_accum = 2),
      TOKENS(32)}},
    {QUICK,
     {"experts, DP 4, EP 2, ZeRO-3, recompute", mixture, LAYOUT(.dp = 4, .ep = 2, .zero = 3, RECOMPUTE),
      TOKENS(32)}},
    {CI, {"experts, Ulysses 4, EP 4", mixture, LAYOUT(ULYSSES(4), .ep = 4), TOKENS(64)}},
    {CI,
     {"experts, ring 4, EP 2, norms again", mixtral, LAYOUT(RING(4), .ep = 2, SELECTIVE(SPP_RC_LAYERNORM)),
      TOKENS(64)}},
    {CI, {"experts, all-gather 2 x DP 2, EP 4", mixture, LAYOUT(GATHER(2), .dp = 2, .ep = 4), TOKENS(64)}},
    {QUICK, {"experts, TP 2 + SP, EP 2", mixture, LAYOUT(MEGATRON(2), .ep = 2), TOKENS(64)}},
    {FULL,
     {"experts, TP 2 + SP x DP 2, EP 4, ZeRO-3", mixture, LAYOUT(MEGATRON(2), .dp = 2, .ep = 4, .zero = 3),
      TOKENS(64)}},
    {CI,
     {"experts, PP 2 x DP 2, EP 2", mixture, LAYOUT(.pp = 2, .dp = 2, .ep = 2, .grad_accum = 3), TOKENS(32)}},
    {FULL,
     {"experts, PP 3 x DP 2, EP 2, ZeRO-3, recompute", mixtral,
      LAYOUT(.pp = 3, .dp = 2, .ep = 2, .zero = 3, .grad_accum = 3, RECOMPUTE), TOKENS(32)}},
    {CI, {"experts, bf16, DP 2, EP 2, ZeRO-1", mixture, LAYOUT(.dp = 2, .ep = 2, .zero = 1), IN_BF16(32)}},
    {FULL,
     {"experts, bf16, Ulysses 2 x ring 2, EP 4, ZeRO-3", mixture, LAYOUT(HYBRID(2, 2), .ep = 4, .zero = 3),
      IN_BF16(64)}},
    {QUICK, {"experts by score, DP 2, EP 2", mixture, LAYOUT(.dp = 2, .ep = 2), BY_SCORE(32, 4)}},
    {CI, {"experts by score, one of four", top1, LAYOUT(.dp = 2, .zero = 1), BY_SCORE(32, 4)}},
    {CI,
     {"experts by score, some dropped, ring 4, EP 2", mixture, LAYOUT(RING(4), .ep = 2), BY_SCORE(64, 1)}},
    {CI,
     {"experts by score, Ulysses 4, EP 4, recompute", mixture, LAYOUT(ULYSSES(4), .ep = 4, RECOMPUTE),
      BY_SCORE(64, 1.5)}},
    {CI, {"experts by score, TP 2 + SP, EP 2", mixture, LAYOUT(MEGATRON(2), .ep = 2), BY_SCORE(64, 2)}},
    {CI, {"experts by score, bf16, DP 2, EP 2", mixture, LAYOUT(.dp = 2, .ep = 2), BY_SCORE_BF16(32, 4)}},
    {QUICK, {"shared expert, dense layer, DP 2, EP 2", shared, LAYOUT(.dp = 2, .ep = 2), BY_SCORE(32, 4)}},
    {CI,
     {"shared expert, dense layer, DP 4, EP 2, ZeRO-1", shared, LAYOUT(.dp = 4, .ep = 2, .zero = 1),
      TOKENS(32)}},
    {CI,
     {"shared expert, dense layer, DP 2, ZeRO-2", shared, LAYOUT(.dp = 2, .zero = 2, .grad_accum = 2),
      TOKENS(32)}},
    {CI,
     {"shared expert, dense layer, DP 4, EP 2, ZeRO-3", shared, LAYOUT(.dp = 4, .ep = 2, .zero = 3),
      TOKENS(32)}},
    {CI,
     {"shared expert, dense layer, PP 3, recompute", shared, LAYOUT(.pp = 3, .grad_accum = 4, RECOMPUTE),
      TOKENS(32)}},
    {CI, {"shared expert, dense layer, ring 4, EP 4", shared, LAYOUT(RING(4), .ep = 4), BY_SCORE(64, 1)}},
    {CI,
     {"sigmoid router, PP 2 x DP 2, EP 2", sigmoids, LAYOUT(.pp = 2, .dp = 2, .ep = 2, .grad_accum = 3),
      BY_SCORE(32, 2)}},
    {QUICK,
     {"dense layers and experts, PP 2 interleaved", sigmoids,
      LAYOUT(.pp = 2, INTERLEAVED(2), .grad_accum = 4), BY_SCORE(32, 2)}},
    {CI,
     {"dense layers and experts, ZeRO-3, part recomputed",
      sigmoids,
      {.dp = 2, .zero = 3, RECOMPUTE, .recompute_layers = 3},
      BY_SCORE(32, 2)}},
    {QUICK,
     {"experts again, DP 2, EP 2", shared, LAYOUT(.dp = 2, .ep = 2, SELECTIVE(SPP_RC_MOE | SPP_RC_MLP)),
      BY_SCORE(32, 4)}},
    {CI,
     {"experts and norms again, TP 2 + SP, EP 2", mixture,
      LAYOUT(MEGATRON(2), .ep = 2, SELECTIVE(SPP_RC_MOE | SPP_RC_LAYERNORM)), TOKENS(64)}},
    {CI,
     {"activation of experts again, DP 2, EP 2, ZeRO-3", mixture,
      LAYOUT(.dp = 2, .ep = 2, .zero = 3, SELECTIVE(SPP_RC_MOE_ACT)), TOKENS(32)}},
    {CI,
     {"shared expert again, PP 2 x DP 2", sigmoids,
      LAYOUT(.pp = 2, .dp = 2, .grad_accum = 3, SELECTIVE(SPP_RC_SHARED_EXPERTS | SPP_RC_MOE_ACT)),
      BY_SCORE(32, 2)}},
    {QUICK,
     {"shared expert, TP 2 + SP x DP 2, EP 2", shared, LAYOUT(MEGATRON(2), .dp = 2, .ep = 2),
      BY_SCORE(64, 4)}},
    {CI,
     {"shared expert, TP 2 + SP x DP 2, ZeRO-3, recompute", shared,
      LAYOUT(MEGATRON(2), .dp = 2, .zero = 3, RECOMPUTE), BY_SCORE(64, 4)}},
    {CI,
     {"shared expert again, TP 2 + SP", sigmoids, LAYOUT(MEGATRON(2), SELECTIVE(SPP_RC_SHARED_EXPERTS)),
      BY_SCORE(64, 2)}},
    {CI, {"sigmoid router, Ulysses 2, EP 2", sigmoids, LAYOUT(ULYSSES(2), .ep = 2), BY_SCORE(64, 2)}},
    {CI, {"sigmoid router, bf16, DP 2, ZeRO-1", sigmoids, LAYOUT(.dp = 2, .zero = 1), BY_SCORE_BF16(32, 2)}},
    {QUICK, {"windows, ring 4", windows, LAYOUT(RING(4)), TOKENS(64)}},
    {CI, {"windows, Ulysses 2 x ring 2, ZeRO-3", windows, LAYOUT(HYBRID(2, 2), .zero = 3), TOKENS(64)}},
    {CI, {"windows, all-gather 4, contiguous", windows, LAYOUT(GATHER(4)), CONTIGUOUS(64)}},
    {CI,
     {"windows, packed, ring 4, recompute", windows, LAYOUT(RING(4), .micro_batch = 2, RECOMPUTE),
      PACKED(50)}},
    {CI, {"windows, TP 2 + SP x PP 2", windows, LAYOUT(MEGATRON(2), .pp = 2, .grad_accum = 3), TOKENS(32)}},
    {QUICK, {"linear biases, Ulysses 2 x ring 2", alibi, LAYOUT(HYBRID(2, 2)), TOKENS(64)}},
    {CI, {"linear biases, TP 2 + SP x ring 2", alibi, LAYOUT(MEGATRON(2), RING(2)), CONTIGUOUS(60)}},
    {CI,
     {"linear biases, packed, all-gather 4, attention again", alibi,
      LAYOUT(GATHER(4), SELECTIVE(SPP_RC_CORE_ATTN), .micro_batch = 2), PACKED(50)}},
    {CI, {"linear biases, bf16, Ulysses 8", alibi, LAYOUT(ULYSSES(8)), IN_BF16(64)}},
    {QUICK, {"half a head turned, every second layer, ring 4", neighbours, LAYOUT(RING(4)), TOKENS(64)}},
    {CI,
     {"half a head turned, PP 2 x TP 2, recompute", neighbours,
      LAYOUT(.pp = 2, .tp = 2, .grad_accum = 3, RECOMPUTE), TOKENS(32)}},
    {QUICK, {"capped scores, ring 4", capped, LAYOUT(RING(4)), TOKENS(64)}},
    {CI, {"capped scores, Ulysses 4, packed, ZeRO-3", capped, LAYOUT(ULYSSES(4), .zero = 3), PACKED(50)}},
    {CI, {"capped scores, bf16, all-gather 4", capped, LAYOUT(GATHER(4)), IN_BF16(64)}},
    {QUICK, {"norms over all of q and k, TP 2 + SP", wide, LAYOUT(MEGATRON(2)), TOKENS(32)}},
    {CI,
     {"norms over all of q and k, TP 4 + SP x DP 2, ZeRO-3, recompute", wide,
      LAYOUT(MEGATRON(4), .dp = 2, .zero = 3, RECOMPUTE), TOKENS(32)}},
    {CI,
     {"norms over all of q and k, bf16, TP 2 + SP, attention again", wide,
      LAYOUT(MEGATRON(2), SELECTIVE(SPP_RC_CORE_ATTN)), IN_BF16(32)}},
    {QUICK, {"latents, Ulysses 2 x ring 2", latent, LAYOUT(HYBRID(2, 2)), TOKENS(64)}},
    {QUICK, {"latents, TP 2 + SP", latent, LAYOUT(MEGATRON(2)), TOKENS(32)}},
    {CI,
     {"latents, TP 2 + SP x DP 2, ZeRO-3, recompute", latent,
      LAYOUT(MEGATRON(2), .dp = 2, .zero = 3, RECOMPUTE), TOKENS(32)}},
    {CI,
     {"latents, PP 2 x TP 2, attention again", latent,
      LAYOUT(.pp = 2, .tp = 2, .grad_accum = 3, SELECTIVE(SPP_RC_CORE_ATTN)), TOKENS(32)}},
    {CI,
     {"latents, bf16, Ulysses 8, attention and norms again", latent,
      LAYOUT(ULYSSES(8), SELECTIVE(SPP_RC_CORE_ATTN | SPP_RC_LAYERNORM)), IN_BF16(64)}},
    {CI,
     {"latents, packed, all-gather 4, ZeRO-2", latent_kv, LAYOUT(GATHER(4), .zero = 2, .micro_batch = 2),
      PACKED(50)}},
    {CI, {"latents of k and v alone, TP 4 + SP", latent_kv, LAYOUT(MEGATRON(4)), TOKENS(32)}},
    {CI, {"latents of k and v alone, bf16, ring 4", latent_kv, LAYOUT(RING(4)), IN_BF16(64)}},
    {CI,
     {"latents of k and v alone, TP 2 x DP 2, ZeRO-1", latent_kv, LAYOUT(.tp = 2, .dp = 2, .zero = 1),
      TOKENS(32)}},
    {CI, {"norms of each head, TP 2 x ring 2", head_norms, LAYOUT(.tp = 2, RING(2)), TOKENS(64)}},
    {QUICK, {"sinks, ring 4", sinks, LAYOUT(RING(4)), TOKENS(64)}},
    {CI,
     {"sinks, Ulysses 2 x ring 2, ZeRO-3, recompute", sinks, LAYOUT(HYBRID(2, 2), .zero = 3, RECOMPUTE),
      TOKENS(64)}},
    {CI, {"sinks, TP 2 + SP x all-gather 2", sinks, LAYOUT(MEGATRON(2), GATHER(2)), TOKENS(64)}},
    {CI,
     {"sinks, bf16, Ulysses 8, attention again", sinks, LAYOUT(ULYSSES(8), SELECTIVE(SPP_RC_CORE_ATTN)),
      IN_BF16(64)}},
    {QUICK, {"biases everywhere, TP 2 + SP", biases, LAYOUT(MEGATRON(2)), TOKENS(32)}},
    {CI, {"biases everywhere, TP 4 x DP 2, ZeRO-2", biases, LAYOUT(.tp = 4, .dp = 2, .zero = 2), TOKENS(32)}},
    {CI, {"biases everywhere, TP 2 x DP 2, ZeRO-3", biases, LAYOUT(.tp = 2, .dp = 2, .zero = 3), TOKENS(32)}},
    {QUICK, {"GPT-2, TP 2 + SP", gpt2, LAYOUT(MEGATRON(2)), TOKENS(32)}},
    {CI,
     {"GPT-2, PP 2 x DP 2, ZeRO-3", gpt2, LAYOUT(.pp = 2, .dp = 2, .zero = 3, .grad_accum = 3), TOKENS(32)}},
    {CI, {"GPT-2, Ulysses 2 x ring 2, ZeRO-2", gpt2, LAYOUT(HYBRID(2, 2), .zero = 2), TOKENS(48)}},
    {CI, {"GPT-2, bf16, TP 2, recompute", gpt2, LAYOUT(.tp = 2, RECOMPUTE), IN_BF16(32)}},
    {QUICK, {"parallel branches, one norm, PP 2", falcon, LAYOUT(.pp = 2, .grad_accum = 3), TOKENS(32)}},
    {CI,
     {"parallel branches, one norm, ring 4, all again", falcon, LAYOUT(RING(4), SELECTIVE(EACH_MODULE)),
      TOKENS(64)}},
    {CI,
     {"parallel branches, a norm each, TP 2 + SP x DP 2, ZeRO-3", neox,
      LAYOUT(MEGATRON(2), .dp = 2, .zero = 3), TOKENS(32)}},
    {CI, {"parallel branches, a norm each, TP 4, recompute", neox, LAYOUT(.tp = 4, RECOMPUTE), TOKENS(32)}},
    {CI,
     {"parallel branches, norm without bias, TP 2 + SP x PP 2", cohere,
      LAYOUT(MEGATRON(2), .pp = 2, .grad_accum = 3), TOKENS(32)}},
    {QUICK, {"norms before and behind, Ulysses 2", gemma, LAYOUT(ULYSSES(2)), TOKENS(32)}},
    {CI,
     {"norms before and behind, TP 2 + SP, recompute", gemma, LAYOUT(MEGATRON(2), RECOMPUTE), TOKENS(32)}},
    {CI,
     {"norms before and behind, TP 4, all again", gemma, LAYOUT(.tp = 4, SELECTIVE(EACH_MODULE)),
      TOKENS(32)}},
    {CI,
     {"norms before and behind, bf16, PP 2 x DP 2, ZeRO-2", gemma,
      LAYOUT(.pp = 2, .dp = 2, .zero = 2, .grad_accum = 3), IN_BF16(32)}},
    {QUICK, {"norms behind alone, ring 2", behind, LAYOUT(RING(2)), TOKENS(32)}},
    {CI,
     {"norms behind alone, TP 2 + SP x DP 2, ZeRO-3", behind, LAYOUT(MEGATRON(2), .dp = 2, .zero = 3),
      TOKENS(32)}},
    {CI,
     {"norms without weights, TP 2 + SP x PP 2", bare, LAYOUT(MEGATRON(2), .pp = 2, .grad_accum = 2),
      TOKENS(32)}},
    {QUICK, {"a vocabulary of 101, TP 2", odd, LAYOUT(.tp = 2), TOKENS(32)}},
    {CI,
     {"a vocabulary of 101, TP 4 + SP x PP 2, ZeRO-3", odd,
      LAYOUT(MEGATRON(4), .pp = 2, .zero = 3, .grad_accum = 2), TOKENS(32)}},
    {CI, {"a vocabulary of 101, TP 2 x DP 3, ZeRO-2", odd, LAYOUT(.tp = 2, .dp = 3, .zero = 2), TOKENS(32)}},
    {CI, {"a vocabulary of 101, bf16, TP 4", odd, LAYOUT(.tp = 4), IN_BF16(32)}},
    {QUICK, {"three uneven shards, ZeRO-1", tied, LAYOUT(.dp = 3, .zero = 1), TOKENS(32)}},
    {CI, {"three uneven shards, ZeRO-2", five, LAYOUT(.dp = 3, .zero = 2, .grad_accum = 2), TOKENS(32)}},
    {CI, {"three uneven shards, bf16, ring 3, ZeRO-3", four, LAYOUT(RING(3), .zero = 3), IN_BF16(48)}},
    {CI,
     {"three uneven shards, tied, PP 2 x ring 3, ZeRO-2", tied, LAYOUT(.pp = 2, RING(3), .zero = 2),
      TOKENS(48)}},
    {CI, {"one of four experts, DP 3, ZeRO-3", top1, LAYOUT(.dp = 3, .zero = 3), TOKENS(32)}},
    {QUICK, {"50 tokens on Ulysses 4", spp_suite_model, LAYOUT(ULYSSES(4)), TOKENS(50)}},
    {CI,
     {"61 tokens on ring 4, TP 2 + SP", spp_suite_model, LAYOUT(RING(4), MEGATRON(2), .micro_batch = 3),
      TOKENS(61)}},
    {CI, {"57 tokens on all-gather 4", mha, LAYOUT(GATHER(4), .micro_batch = 3), TOKENS(57)}},
    {CI, {"packed documents", spp_suite_model, LAYOUT(.grad_accum = 3), PACKED(50)}},
    {CI, {"packed documents, DP 2", spp_suite_model, LAYOUT(.dp = 2, .micro_batch = 3), PACKED(50)}},
    {QUICK,
     {"packed documents, Ulysses 4", spp_suite_model, LAYOUT(ULYSSES(4), .grad_accum = 2), PACKED(50)}},
    {QUICK, {"packed documents, ring 4", spp_suite_model, LAYOUT(RING(4), .grad_accum = 2), PACKED(50)}},
    {CI,
     {"packed documents, all-gather 4, recompute", mha, LAYOUT(GATHER(4), .grad_accum = 2, RECOMPUTE),
      PACKED(50)}},
    {CI,
     {"packed documents, Ulysses 2 x ring 2 x DP 2, ZeRO-3", spp_suite_model,
      LAYOUT(HYBRID(2, 2), .dp = 2, .zero = 3, .micro_batch = 2), PACKED(48)}},
    {FULL,
     {"packed documents, PP 2 x TP 2 + SP x ring 2", five,
      LAYOUT(.pp = 2, MEGATRON(2), RING(2), .micro_batch = 2, .grad_accum = 3), PACKED(50)}},
    {FULL, {"packed documents, ring 8", mqa, LAYOUT(RING(8), .micro_batch = 2), PACKED(60)}},
    {FULL,
     {"packed documents, Ulysses 8", spp_suite_model, LAYOUT(ULYSSES(8), .micro_batch = 2), PACKED(60)}},
};

static struct spp_layout complete(struct spp_layout l) {
  int64_t *const degrees[] = {&l.tp,          &l.pp,        &l.vpp,  &l.dp,           &l.ep,
                              &l.etp,         &l.ulysses,   &l.ring, &l.dp_replicate, &l.recompute_unit,
                              &l.micro_batch, &l.grad_accum};
  for (size_t i = 0; i < sizeof degrees / sizeof degrees[0]; i++)
    if (*degrees[i] == 0) *degrees[i] = 1;
  return l;
}

/* The grid: every kind of sequence parallelism on 2, 4 and 8 ranks with every ratio of query to KV heads, and
 * beside every other kind of parallelism, three sequences a micro-batch, whole or packed. */
static const struct {
  const char *name;
  enum spp_sp_kind kind;
  int64_t ulysses, ring;
  bool contiguous;
} ways[] = {
    {"Ulysses 2", SPP_SP_ULYSSES, 2, 1, false},
    {"Ulysses 4", SPP_SP_ULYSSES, 4, 1, false},
    {"Ulysses 8", SPP_SP_ULYSSES, 8, 1, false},
    {"ring 2", SPP_SP_RING, 1, 2, false},
    {"ring 4", SPP_SP_RING, 1, 4, false},
    {"ring 8", SPP_SP_RING, 1, 8, false},
    {"contiguous ring 4", SPP_SP_RING, 1, 4, true},
    {"contiguous ring 8", SPP_SP_RING, 1, 8, true},
    {"all-gather 2", SPP_SP_ALLGATHER, 1, 2, false},
    {"all-gather 4", SPP_SP_ALLGATHER, 1, 4, false},
    {"all-gather 8", SPP_SP_ALLGATHER, 1, 8, false},
    {"Ulysses 2 x ring 2", SPP_SP_HYBRID, 2, 2, false},
    {"Ulysses 2 x ring 4", SPP_SP_HYBRID, 2, 4, false},
    {"Ulysses 4 x ring 2", SPP_SP_HYBRID, 4, 2, false},
};
static const struct {
  const char *name, *model;
} ratios[] = {{"as many KV heads", mha}, {"a KV head for 4", four}, {"a KV head for 8", mqa}};
static const struct {
  const char *name;
  struct spp_layout layout;
} besides[] = {
    {"TP 2", LAYOUT(.tp = 2)},
    {"TP 2 + SP", LAYOUT(MEGATRON(2))},
    {"PP 2", LAYOUT(.pp = 2, .grad_accum = 3)},
    {"DP 2, ZeRO-1", LAYOUT(.dp = 2, .zero = 1)},
    {"DP 2, ZeRO-2", LAYOUT(.dp = 2, .zero = 2)},
    {"DP 2, ZeRO-3", LAYOUT(.dp = 2, .zero = 3)},
    {"TP 2 + SP x PP 2, ZeRO-1", LAYOUT(MEGATRON(2), .pp = 2, .zero = 1, .grad_accum = 3)},
};
enum {
  WAYS = sizeof ways / sizeof ways[0],
  RATIOS = sizeof ratios / sizeof ratios[0],
  BESIDES = sizeof besides / sizeof besides[0],
  ODD_BATCH = 3
};

static void place(int way, const char *model, bool packed, struct spp_suite_case *c) {
  c->model = model;
  c->layout.sp_kind = ways[way].kind;
  c->layout.ulysses = ways[way].ulysses;
  c->layout.ring = ways[way].ring;
  c->contiguous = ways[way].contiguous;
  c->layout.micro_batch = ODD_BATCH;
  c->seq_tokens = packed ? 50 : 64;
  c->doc_lengths = packed ? documents : NULL;
  c->doc_count = packed ? (int64_t)(sizeof documents / sizeof documents[0]) : 0;
  c->layout = complete(c->layout);
}

/* Case i of the grid; `many`: with those of more than four ranks. */
static bool grid_get(bool many, int i, struct spp_suite_case *c) {
  for (int packed = 0; packed < 2; packed++)
    for (int way = 0; way < WAYS; way++) {
      const char *documents_word = packed ? ", packed" : "";
      int64_t ranks = ways[way].ulysses * ways[way].ring;
      if (ranks > 4 && !many) continue;
      *c = (struct spp_suite_case){.layout = LAYOUT(.tp = 1)};
      if (i < RATIOS) {
        snprintf(c->name, sizeof c->name, "%s, %s%s", ways[way].name, ratios[i].name, documents_word);
        place(way, ratios[i].model, packed, c);
        return true;
      }
      i -= RATIOS;
      if (ranks > 4) continue;
      if (i < BESIDES) {
        snprintf(c->name, sizeof c->name, "%s x %s%s", ways[way].name, besides[i].name, documents_word);
        c->layout = besides[i].layout;
        place(way, four, packed, c);
        return true;
      }
      i -= BESIDES;
    }
  return false;
}

bool spp_suite_get(enum spp_suite suite, int i, struct spp_suite_case *c) {
  if (suite == SPP_SUITE_TIME) {
    if (!spp_suite_time_get(i, c)) return false;
    c->layout = complete(c->layout);
    return true;
  }
  for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
    if (!(rows[k].suites & (1U << suite)) || i-- > 0) continue;
    *c = rows[k].c;
    c->layout = complete(c->layout);
    return true;
  }
  return suite != SPP_SUITE_QUICK && grid_get(suite == SPP_SUITE_FULL, i, c);
}

struct spp_exec_setting spp_suite_setting(const struct spp_suite_case *c) {
  return (struct spp_exec_setting){.layout = c->layout,
                                   .seq_tokens = c->seq_tokens,
                                   .dtype = c->bf16 ? SPP_DTYPE_BF16 : SPP_DTYPE_FP32,
                                   .contiguous = c->contiguous,
                                   .expert_capacity = c->expert_capacity,
                                   .doc_lengths = c->doc_lengths,
                                   .doc_count = c->doc_count};
}
