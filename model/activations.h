/* What autograd keeps of one decoder layer, tensor by tensor, on one rank and for one micro-batch. The rows
 * were counted with saved-tensor hooks on the Hugging Face layers (docs/memory.md tells how and lists them).
 */
#ifndef SPP_MODEL_ACTIVATIONS_H
#define SPP_MODEL_ACTIVATIONS_H

#include "model/memory.h"

/* The part of the layer whose backward frees the tensor. INPUT: the layer's own, which a checkpoint of the
 * layer is; MLP_INPUT: freed in the forward, where it is not kept, before the MLP's output is made. */
enum spp_block {
  SPP_BLOCK_INPUT,
  SPP_BLOCK_NORM1,
  SPP_BLOCK_ATTENTION,
  SPP_BLOCK_NORM2,
  SPP_BLOCK_MLP_INPUT,
  SPP_BLOCK_MLP,
  SPP_BLOCK_COUNT
};

/* Under NVFP4 the first layers and the 16-bit tail keep different tensors. */
enum spp_kept_in { SPP_KEPT_IN_ALL, SPP_KEPT_IN_WIDE, SPP_KEPT_IN_FP4 };

struct spp_kept {
  const struct spp_tensor *tensor;
  enum spp_dtype dtype;
  enum spp_block block;
  unsigned modules; /* SPP_RC_* selective recompute modules that drop it, any of them */
  int64_t rows, cols;
  enum spp_kept_in in;
};
enum { SPP_KEPT_MAX = 48 };
#define SPP_RC_ALWAYS (1u << 30) /* never waits for backward: a tile that is run again there */
struct spp_kept_list {
  int count;
  int64_t bytes;     /* of all items of a layer in 16 bit or FP8 */
  int64_t fp4_bytes; /* of a layer in NVFP4 */
  struct spp_kept items[SPP_KEPT_MAX];
};

/* What a rank sees of a layer: the arguments of the lists below. */
struct spp_layer_view {
  const struct spp_job *job;
  const struct spp_layout *layout;
  const struct spp_geometry *g;
  const struct spp_layer_kind *kind;
  enum spp_dtype act;     /* activations */
  enum spp_dtype gemm_in; /* what a matrix multiplication keeps of its input: 8 bit under FP8 training */
  struct spp_kept_list *list;
  enum spp_kept_in in; /* which layers keep what is appended */
};
/* Everything one layer of `kind` keeps when nothing is recomputed. */
void spp_kept_layer(const struct spp_job *job, const struct spp_layout *layout, const struct spp_geometry *g,
                    const struct spp_layer_kind *kind, struct spp_kept_list *list);
/* What it keeps under op-level selective recompute (torchtitan 0.3.0 distributed/activation_checkpoint.py
 * SelectiveAC): its input, every second matrix product, and attention's output. */
void spp_kept_op_level(const struct spp_job *job, const struct spp_layout *layout,
                       const struct spp_geometry *g, const struct spp_layer_kind *kind,
                       struct spp_kept_list *list);
/* Bytes of what one layer keeps when nothing is recomputed. */
int64_t spp_kept_layer_bytes(const struct spp_job *job, const struct spp_layout *layout,
                             const struct spp_geometry *g, const struct spp_layer_kind *kind);
/* Bytes that stay when the modules of a selective recompute drop theirs, in the layer that keeps least. */
int64_t spp_kept_without(const struct spp_kept_list *list, unsigned modules);

/* Element of an activation and of the inputs that GEMMs keep. */
enum spp_dtype spp_activation_dtype(const struct spp_job *job);
/* Type of the residual stream and of what norms make of it: fp32 where the embedding is
 * (spp_job_casts_weights), whatever autocast makes of products. */
enum spp_dtype spp_stream_dtype(const struct spp_job *job);
/* The same of what autocast casts: attention's operands and the logits, where hidden states are fp32. */
enum spp_dtype spp_autocast_dtype(const struct spp_job *job);

/* Inner width on one rank of the layer's MLP (SPP_ROLE_MLP), of one expert (SPP_ROLE_EXPERT) or of the shared
 * experts together (SPP_ROLE_SHARED_EXPERT); 0 when the layer has none. */
int64_t spp_mlp_width(const struct spp_geometry *g, const struct spp_layer_kind *kind,
                      enum spp_weight_role role);
/* Tokens a dense MLP works on at a time: all, or a tile of DeepSpeed's TiledMLP (runtime/sequence_parallel/
 * ulysses_sp.py; ArcticTraining cuts ceil(tokens / hidden) tiles). */
int64_t spp_mlp_rows(const struct spp_job *job, const struct spp_geometry *g);
/* Is the dense MLP run chunk by chunk, and again in backward, so that it keeps its input only (FPDT)? */
bool spp_mlp_in_chunks(const struct spp_job *job, const struct spp_geometry *g);
/* Does attention hand what its backward needs to host memory, chunk by chunk? */
static inline bool spp_attention_is_parked(const struct spp_layout *layout, const struct spp_geometry *g) {
  return layout->fpdt_offload && g->pieces > 1;
}
/* Rows that a rank sends to experts: k a token, or what their capacity has room for. */
int64_t spp_routed_rows(const struct spp_job *job, const struct spp_geometry *g);
/* Rows that reach a rank's experts when routing is balanced. */
int64_t spp_expert_rows(const struct spp_job *job, const struct spp_geometry *g);

/* --- pieces, one file each --- */
void spp_kept_append(const struct spp_layer_view *v, const struct spp_tensor *tensor, enum spp_block block,
                     unsigned modules, enum spp_dtype dtype, int64_t rows, int64_t cols);
/* What a product keeps of its input, and once for each of `products` that quantise it for themselves. */
void spp_kept_append_input(const struct spp_layer_view *v, const struct spp_tensor *tensor,
                           enum spp_block block, unsigned modules, int64_t rows, int64_t cols, int products);
/* SPP_RC_ALWAYS where a compiled FP8 product makes its input again, else 0. */
unsigned spp_remade_input(const struct spp_layer_view *v);
void spp_kept_norms(const struct spp_layer_view *v);     /* activations_norm.c */
void spp_kept_attention(const struct spp_layer_view *v); /* activations_attention.c */
void spp_kept_mlp(const struct spp_layer_view *v);       /* activations_mlp.c */
void spp_kept_adapters(const struct spp_layer_view *v);  /* activations_lora.c */

/* A norm over vectors of `width` elements. `in_rows x width` is its input; what it keeps is appended. */
struct spp_norm_tensors {
  const struct spp_tensor *input, *scaled, *stats;
};
void spp_kept_norm(const struct spp_layer_view *v, const struct spp_norm_tensors *names, enum spp_block block,
                   unsigned modules, int64_t rows, int64_t width, int64_t vectors);

/* Does a norm keep its input as it came (one kernel), not an fp32 copy? */
bool spp_norm_keeps_input(const struct spp_job *job);
/* Is this tensor the layer's input as it came, and so what a checkpoint of the layer holds already? */
bool spp_kept_is_layer_input(const struct spp_job *job, const struct spp_kept *kept);

/* Of a mixture: the routed experts' rows and their products, the shared expert's products, its output. 0:
 * neither, the router's among them. */
enum { SPP_MIX_ROUTED = 1, SPP_MIX_SHARED = 2, SPP_MIX_OUTPUT = 4 };
unsigned spp_kept_mixture_part(const struct spp_kept *kept);

/* What the first matrices of a dense MLP give. */
bool spp_kept_is_widened(const struct spp_kept *kept);
/* Does o_proj alone keep it? It goes with the norm behind it, but is attention's. */
bool spp_kept_is_of_output(const struct spp_kept *kept);

/* LoRA: does the linear behind `targets` keep its own input? Trained weights do; a frozen weight never does,
 * but its adapter does when it reads the very same tensor (no dropout, no cast), and some quantised products
 * do. */
bool spp_keeps_input(const struct spp_job *job, const struct spp_layout *layout, unsigned targets);

#endif
