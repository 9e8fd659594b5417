/* Inside of the model loader: reading a config.json step by step with one sticky status. */
#ifndef SPP_MODEL_ARCH_READ_H
#define SPP_MODEL_ARCH_READ_H

#include "base/json.h"
#include "model/arch.h"

/* The same figure under the names different families give it; the first that is there counts. */
enum spp_arch_field {
  SPP_FIELD_LAYERS,
  SPP_FIELD_HIDDEN,
  SPP_FIELD_FFN,
  SPP_FIELD_HEADS,
  SPP_FIELD_KV_HEADS,
  SPP_FIELD_HEAD_DIM,
  SPP_FIELD_VOCAB,
  SPP_FIELD_POSITIONS,
  SPP_FIELD_EXPERTS,
  SPP_FIELD_EXPERTS_PER_TOKEN,
  SPP_FIELD_EXPERT_FFN,
  SPP_FIELD_SHARED_EXPERTS,
  SPP_FIELD_COUNT
};

/* A bias or switch: a member of the config (negated for "no_bias"), or fixed when key is NULL. */
struct spp_arch_switch {
  const char *key;
  bool fallback;
  bool negated;
};

enum spp_window_pattern {
  SPP_WINDOW_NONE,
  SPP_WINDOW_ALL,         /* every layer, when sliding_window is given: Mistral, Phi-3 */
  SPP_WINDOW_UPPER,       /* layers from max_window_layers on, when use_sliding_window: Qwen2 */
  SPP_WINDOW_ALTERNATE,   /* even layers: Gemma 2, gpt-oss */
  SPP_WINDOW_PATTERN,     /* all but each sliding_window_pattern-th: Gemma 3 */
  SPP_WINDOW_CHUNKED_ROPE /* Llama 4: layers with RoPE attend in chunks */
};

struct spp_arch_reader;

/* How the config.json of one family is read: a row of the table in model/arch.c. */
struct spp_arch_family {
  const char *model_type;
  enum spp_norm_kind norm;
  int norms_per_layer;
  enum spp_mlp_kind mlp;
  struct spp_arch_switch qkv_bias, o_bias, mlp_bias;
  enum spp_qk_norm qk_norm;
  const char *qk_norm_key; /* member that turns qk_norm on; NULL = always */
  bool tied;               /* when tie_word_embeddings is absent */
  bool parallel;           /* attention and MLP side by side */
  bool fused_qkv;          /* one weight for q, k and v */
  bool fused_gate_up;
  bool learned_positions;
  bool head_bias;
  bool norms_behind;      /* as in struct spp_arch */
  double norm_offset;     /* as in struct spp_arch */
  bool scaled_embedding;  /* by the root of its width: Gemma */
  const char *activation; /* when the config does not say; NULL: silu of gated MLPs, gelu of plain ones */
  bool mla;
  bool moe;        /* has experts: their fields are then required */
  bool topk_as_is; /* weights of chosen experts do not sum to 1, when norm_topk_prob is absent */
  /* What the config class of the family fills in when a member is absent; 0 = required, or derived as usual.
   */
  int ffn_factor; /* ffn = factor * hidden */
  int64_t heads, kv_heads, head_dim, vocab;
  enum spp_window_pattern window;
  int window_period; /* SPP_WINDOW_PATTERN, when the config does not say */
  enum spp_vision_kind vision;
  void (*adjust)(struct spp_arch_reader *reader); /* what no column says; may be NULL */
};

struct spp_arch_reader {
  const struct spp_arch_scale *scale; /* NULL: none */
  struct spp_json root, text; /* text: where the language model is described, root or root.text_config */
  const struct spp_arch_family *family;
  struct spp_arch *arch;
  bool fused_qkv, fused_gate_up, head_bias;
  int64_t dense_ffn; /* ffn of the dense layers of a model with experts */
  struct spp_diag *diag;
  enum spp_status status; /* sticky: after a fault every read returns its fallback */
};

/* The first present member among a field's names; absent (remembering the usual name) when none is. */
struct spp_json spp_arch_field_json(const struct spp_arch_reader *reader, enum spp_arch_field field);
/* Required, and optional, figures in 1..limit (0 allowed when optional). */
int64_t spp_arch_read_field(struct spp_arch_reader *reader, enum spp_arch_field field);
int64_t spp_arch_read_field_or(struct spp_arch_reader *reader, enum spp_arch_field field, int64_t fallback);
int64_t spp_arch_read_i64(struct spp_arch_reader *reader, struct spp_json v, int64_t min, int64_t max,
                          int64_t fallback);
int64_t spp_arch_require_i64(struct spp_arch_reader *reader, struct spp_json v, int64_t min, int64_t max);
bool spp_arch_read_bool(struct spp_arch_reader *reader, struct spp_json v, bool fallback);
bool spp_arch_read_switch(struct spp_arch_reader *reader, const struct spp_arch_switch *s);
/* Refuse v; sticky. */
void spp_arch_refuse(struct spp_arch_reader *reader, struct spp_json v, const char *hint, const char *what);
/* Sizes that do not go together, by the first of them: a fault of the file, which `hint` mends, or of the
 * command line where sizes were asked for. Sticky. */
void spp_arch_refuse_figures(struct spp_arch_reader *reader, enum spp_arch_field field, const char *hint,
                             const char *what);
/* Something assumed, to be shown as a warning. */
void spp_arch_note(struct spp_arch *arch, const char *fmt, ...) SPP_PRINTF(2, 3);

/* model/arch_positions.c: how positions enter attention, and the factor on its scores. After all else about
 * heads.
 */
void spp_arch_read_positions(struct spp_arch_reader *reader);
/* Does this layer turn q and k, its window being this (0: none)? */
bool spp_arch_layer_rotates(struct spp_arch_reader *reader, int layer, int64_t window_tokens);
/* model/arch_block.c: activation and factors of the layers and of what stands outside. */
void spp_arch_read_block(struct spp_arch_reader *reader);
/* model/arch_layers.c: experts and windows; which layers are of which kind. */
void spp_arch_read_layers(struct spp_arch_reader *reader);
/* model/arch_vision.c */
void spp_arch_read_vision(struct spp_arch_reader *reader);
void spp_arch_vision_weights(struct spp_arch *arch);
/* model/arch_weights.c: the weight rows of every kind and of what stands outside the layers. */
void spp_arch_build_weights(struct spp_arch_reader *reader);
struct spp_weight *spp_arch_add_outer(struct spp_arch *arch, const char *name, enum spp_weight_role role,
                                      enum spp_tp_split split, int64_t rows, int64_t cols);

/* SPP_KEEPS_* of a family. */
unsigned spp_arch_keeps(const char *model_type);

#endif
