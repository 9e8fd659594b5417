/* The small models that validate trains. */
#include "exec/suite_models.h"

#include "exec/suite.h"

#define SHAPE                                                                                                \
  "\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":4,\"num_attention_heads\":8,"           \
  "\"num_key_value_heads\":4,\"head_dim\":16,\"vocab_size\":128,"
/* Grouped queries and biases; as many KV heads as query heads, no biases; one KV head, norms of q and k,
 * tied; five layers with norms of q and k; two KV heads, tied, a vocabulary larger than a layer, in four and
 * in eight layers; two of eight and of four experts. */
const char spp_suite_model[] = "{\"model_type\":\"qwen2\"," SHAPE "\"tie_word_embeddings\":false}";
const char spp_suite_mha[] =
    "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":128,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":8,\"head_dim\":8,\"vocab_size\":96,"
    "\"tie_word_embeddings\":false}";
const char spp_suite_mqa[] =
    "{\"model_type\":\"qwen3\",\"hidden_size\":48,\"intermediate_size\":80,\"num_hidden_layers\":4,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":1,\"head_dim\":16,\"vocab_size\":128,"
    "\"tie_word_embeddings\":true}";

const char spp_suite_four[] =
    "{\"model_type\":\"qwen2\",\"hidden_size\":48,\"intermediate_size\":80,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":2,\"head_dim\":8,\"vocab_size\":96,"
    "\"tie_word_embeddings\":false}";
const char spp_suite_five[] =
    "{\"model_type\":\"qwen3\",\"hidden_size\":48,\"intermediate_size\":80,\"num_hidden_layers\":5,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":16,\"vocab_size\":96,"
    "\"tie_word_embeddings\":false}";
const char spp_suite_tied[] =
    "{\"model_type\":\"qwen3\",\"hidden_size\":48,\"intermediate_size\":80,\"num_hidden_layers\":4,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":2,\"head_dim\":16,\"vocab_size\":1024,"
    "\"tie_word_embeddings\":true}";
const char spp_suite_odd[] =
    "{\"model_type\":\"qwen2\",\"hidden_size\":48,\"intermediate_size\":80,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":8,\"vocab_size\":101,"
    "\"tie_word_embeddings\":true}";
const char spp_suite_narrow[] =
    "{\"model_type\":\"qwen3\",\"hidden_size\":48,\"intermediate_size\":80,\"num_hidden_layers\":8,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":2,\"head_dim\":16,\"vocab_size\":1024,"
    "\"tie_word_embeddings\":true}";

const char spp_suite_mixture[] =
    "{\"model_type\":\"qwen3_moe\",\"hidden_size\":64,\"intermediate_size\":96,\"moe_intermediate_size\":32,"
    "\"num_hidden_layers\":2,\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":16,"
    "\"vocab_size\":128,\"num_experts\":8,\"num_experts_per_tok\":2,\"tie_word_embeddings\":false}";
const char spp_suite_top1[] =
    "{\"model_type\":\"mixtral\",\"hidden_size\":40,\"intermediate_size\":56,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":8,\"vocab_size\":130,"
    "\"num_local_experts\":4,\"num_experts_per_tok\":1,\"tie_word_embeddings\":true}";
const char spp_suite_mixtral[] =
    "{\"model_type\":\"mixtral\",\"hidden_size\":48,\"intermediate_size\":80,\"num_hidden_layers\":3,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":1,\"head_dim\":16,\"vocab_size\":96,"
    "\"num_local_experts\":4,\"num_experts_per_tok\":2,\"tie_word_embeddings\":false}";

/* A dense layer before the experts, a shared expert behind a gate, weights not made to sum to 1; sigmoids, a
 * shared expert without a gate, gate and up joined; windows in every other layer; blocks of attention. */
const char spp_suite_shared[] =
    "{\"model_type\":\"qwen2_moe\",\"hidden_size\":48,\"intermediate_size\":112,\"moe_intermediate_size\":40,"
    "\"num_hidden_layers\":3,\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":8,"
    "\"vocab_size\":96,\"num_experts\":8,\"num_experts_per_tok\":2,\"norm_topk_prob\":false,"
    "\"shared_expert_intermediate_size\":56,\"mlp_only_layers\":[0],\"tie_word_embeddings\":false}";
const char spp_suite_sigmoids[] =
    "{\"model_type\":\"glm4_moe\",\"hidden_size\":48,\"intermediate_size\":80,\"moe_intermediate_size\":32,"
    "\"num_hidden_layers\":4,\"num_attention_heads\":8,\"num_key_value_heads\":2,\"head_dim\":16,"
    "\"vocab_size\":96,\"n_routed_experts\":4,\"num_experts_per_tok\":2,\"n_shared_experts\":1,"
    "\"first_k_dense_replace\":2,\"attention_bias\":true,\"tie_word_embeddings\":false}";
const char spp_suite_windows[] =
    "{\"model_type\":\"phi3\",\"hidden_size\":48,\"intermediate_size\":80,\"num_hidden_layers\":4,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":8,\"vocab_size\":96,"
    "\"sliding_window\":11,\"layer_types\":[\"sliding_attention\",\"full_attention\",\"sliding_attention\","
    "\"full_attention\"],\"tie_word_embeddings\":false}";
const char spp_suite_biases[] =
    "{\"model_type\":\"llama\",\"hidden_size\":48,\"intermediate_size\":80,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":8,\"vocab_size\":96,"
    "\"attention_bias\":true,\"mlp_bias\":true,\"tie_word_embeddings\":false}";

/* LayerNorms, learned positions and no gate; one norm for parallel branches, one KV head, biases nowhere; a
 * norm each for them, gelu; one norm without bias, scaled logits; norms before and behind, a scaled embedding
 * and capped logits; norms behind alone; norms without weights. */
const char spp_suite_gpt2[] =
    "{\"model_type\":\"gpt2\",\"hidden_size\":48,\"num_hidden_layers\":4,\"num_attention_heads\":8,"
    "\"head_dim\":8,\"vocab_size\":96,\"n_positions\":64}";
const char spp_suite_falcon[] =
    "{\"model_type\":\"falcon\",\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":8,"
    "\"head_dim\":8,\"vocab_size\":96,\"alibi\":false}";
const char spp_suite_neox[] =
    "{\"model_type\":\"gpt_neox\",\"hidden_size\":48,\"intermediate_size\":112,\"num_hidden_layers\":4,"
    "\"num_attention_heads\":8,\"head_dim\":8,\"vocab_size\":96,\"tie_word_embeddings\":false}";
const char spp_suite_cohere[] =
    "{\"model_type\":\"cohere\",\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":4,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":4,\"vocab_size\":96,\"logit_scale\":0.25}";
const char spp_suite_gemma[] =
    "{\"model_type\":\"gemma2\",\"hidden_size\":48,\"intermediate_size\":80,\"num_hidden_layers\":4,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":8,\"vocab_size\":96,"
    "\"sliding_window\":4096,\"final_logit_softcapping\":5.0,\"attn_logit_softcapping\":null}";
const char spp_suite_behind[] =
    "{\"model_type\":\"exaone4\",\"hidden_size\":48,\"intermediate_size\":80,\"num_hidden_layers\":4,"
    "\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":8,\"vocab_size\":96,"
    "\"tie_word_embeddings\":false}";
const char spp_suite_bare[] =
    "{\"model_type\":\"olmo\",\"hidden_size\":48,\"intermediate_size\":80,\"num_hidden_layers\":4,"
    "\"num_attention_heads\":8,\"head_dim\":8,\"vocab_size\":96,\"tie_word_embeddings\":false}";
/* Linear biases of positions; half of a head turned in neighbours, every second layer without; capped scores,
 * other angles in the layers with a window; norms over all of q and k. */
#define ATTENTION                                                                                            \
  "\"hidden_size\":48,\"intermediate_size\":80,\"num_hidden_layers\":4,\"num_attention_heads\":8,"           \
  "\"num_key_value_heads\":4,\"head_dim\":16,\"vocab_size\":96,\"tie_word_embeddings\":false,"
const char spp_suite_alibi[] = "{\"model_type\":\"baichuan\"," ATTENTION "\"model_max_length\":4096}";
const char spp_suite_neighbours[] =
    "{\"model_type\":\"cohere2\"," ATTENTION "\"partial_rotary_factor\":0.5,\"sliding_window\":20,"
    "\"sliding_window_pattern\":2}";
const char spp_suite_capped[] =
    "{\"model_type\":\"llama\"," ATTENTION "\"attn_logit_softcapping\":2.0,\"attention_multiplier\":0.4,"
    "\"rope_local_base_freq\":100.0,\"sliding_window\":11,\"layer_types\":[\"sliding_attention\","
    "\"full_attention\",\"sliding_attention\",\"full_attention\"]}";
const char spp_suite_wide[] =
    "{\"model_type\":\"olmoe\"," ATTENTION "\"num_experts\":4,\"num_experts_per_tok\":2}";

const char spp_suite_sinks[] = "{\"model_type\":\"gpt_oss\"," ATTENTION
                               "\"sliding_window\":20,\"num_local_experts\":4,\"num_experts_per_tok\":2}";

/* Latents of q and of k and v; of k and v alone, v wider than q and k; norms of each head of q and k. */
const char spp_suite_latent[] =
    "{\"model_type\":\"llama\"," ATTENTION "\"q_lora_rank\":24,\"kv_lora_rank\":16,\"qk_nope_head_dim\":16,"
    "\"qk_rope_head_dim\":8,\"v_head_dim\":16}";
const char spp_suite_latent_kv[] = "{\"model_type\":\"llama\"," ATTENTION
                                   "\"kv_lora_rank\":16,\"qk_nope_head_dim\":8,\"qk_rope_head_dim\":8,"
                                   "\"v_head_dim\":24}";
const char spp_suite_head_norms[] = "{\"model_type\":\"cohere\"," ATTENTION "\"use_qk_norm\":true}";
