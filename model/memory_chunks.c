/* What a layer holds while a sequence passes it in chunks. Source of every row: deepspeed 0.19.8
 * deepspeed/sequence/fpdt_layer.py, _FPDTGPUOffloadingAttentionImpl_, _FPDTGPUAttentionImpl_ and FPDT_FFN
 * (0.16.1, the first with it, is the same but for the type of a few arguments). One chunk has piece_tokens of
 * the rank's tokens times all heads, after the exchange as many elements. */
#include "model/memory_parts.h"

#define ROW(id, text, reason) static const struct spp_tensor id = {text, SPP_PART_TRANSIENT, reason}
ROW(norm_output, "normalised layer input", "read chunk by chunk");
ROW(outputs, "attention outputs of all chunks", "listed until the last is there");
ROW(outputs_joined, "attention output", "joined from its chunks");
ROW(loaded, "chunks of q, k and v", "at work and on their way");
ROW(output32, "fp32 output of a chunk", "blocks are merged into it");
ROW(block, "output of one block", "of a chunk of queries and one of keys");
ROW(merge, "merge of a block", "fp32 copies, weights and products");
ROW(output_grad, "gradient of the attention output", "read chunk by chunk");
ROW(exchanged_grad, "gradient of the attention output, exchanged", "a list of chunks on the GPU");
ROW(input_grads, "gradient of the layer input by chunks", "listed until the last is there");
ROW(input_grad_joined, "gradient of the layer input", "joined from its chunks");
ROW(weight_grad, "fp32 gradient of q, k, v weights", "summed over chunks");
ROW(weight_product, "gradient of one weight from one chunk", "before it is added");
ROW(dq, "fp32 dq of chunks", "current, next and the row's own");
ROW(dkv, "fp32 dk, dv of a chunk", "summed over a row of blocks");
ROW(whole_grads, "fp32 dq, dk, dv of all chunks", "summed over blocks, on the GPU");
ROW(block_grads, "dq, dk, dv of one block", "before they are added");
ROW(flash_dq, "fp32 accumulator of dq", "flash attention backward");
ROW(flash_expanded, "dk, dv expanded to all query heads", "FlashAttention-2 backward of grouped queries");
ROW(row_statistics, "log-sum-exp and softmax row statistics", "flash attention backward");
ROW(mlp_steps, "one chunk inside the MLP", "the activation written out, forward and backward");
ROW(mlp_weight_grads, "fp32 gradients of the MLP's weights", "summed over chunks");
ROW(mlp_product, "gradient of one MLP weight from one chunk", "before it is added");

enum {
  FORWARD = 1 << SPP_MOMENT_FORWARD,
  MLP = 1 << SPP_MOMENT_BACKWARD_MLP,
  ATTENTION = 1 << SPP_MOMENT_BACKWARD_ATTENTION
};

/* Rows that live together, to be weighed before they are added. */
struct item {
  const struct spp_tensor *tensor;
  bool fp32;
  int64_t rows, cols, copies;
};

static int64_t weigh(const struct spp_memory_view *v, const struct item *items, int count) {
  int64_t bytes = 0;
  for (int i = 0; i < count; i++) {
    int64_t each = spp_dtype_bytes(items[i].fp32 ? SPP_DTYPE_FP32 : v->act);
    int64_t one = spp_sat_mul(spp_sat_mul(items[i].rows, items[i].cols), each);
    bytes = spp_sat_add(bytes, spp_sat_mul(one, items[i].copies));
  }
  return bytes;
}

static void add(const struct spp_memory_view *v, unsigned live, const struct item *items, int count,
                struct spp_memory_sum *sum) {
  for (int i = 0; i < count; i++) {
    const struct item *x = &items[i];
    if (x->rows > 0 && x->cols > 0 && x->copies > 0)
      spp_memory_add(sum, x->tensor, live, x->fp32 ? SPP_DTYPE_FP32 : v->act, x->rows, x->cols, x->copies);
  }
}

/* Of two sets that do not live together, the larger. */
static void add_larger(const struct spp_memory_view *v, unsigned live, const struct item *a, int a_count,
                       const struct item *b, int b_count, struct spp_memory_sum *sum) {
  bool first = weigh(v, a, a_count) >= weigh(v, b, b_count);
  add(v, live, first ? a : b, first ? a_count : b_count, sum);
}

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

/* The list of outputs grows while chunks are merged, and is joined when the last chunk's tensors are still
 * named. */
static void add_forward(const struct spp_memory_view *v, struct spp_memory_sum *sum) {
  const struct spp_geometry *g = v->g;
  bool parked = spp_attention_is_parked(v->layout, g);
  int64_t c = g->piece_tokens, q = g->q_width, kv = g->k_width + g->v_width, o = g->o_width;
  const struct item always[] = {
      {&outputs, false, g->tokens, o, 1}, {&output32, true, c, o, 1}, {&block, false, c, o, 1}};
  const struct item waiting[] = {{&norm_output, false, g->tokens, v->job->arch->hidden, 1},
                                 {&loaded, false, c, q + kv, 2},
                                 {&block, false, c, o, 1}}; /* the first chunk's, loaded for backward */
  const struct item joined[] = {{&outputs_joined, false, g->tokens, o, 1}};
  const struct item merged[] = {{&merge, true, c, o, 4}};
  add(v, FORWARD, always, COUNT(always), sum);
  if (parked) add(v, FORWARD, waiting, COUNT(waiting), sum);
  add_larger(v, FORWARD, joined, COUNT(joined), merged, COUNT(merged), sum);
}

/* The gradient of the layer's input is a list of chunks, joined when the blocks are done. */
static void add_backward(const struct spp_memory_view *v, struct spp_memory_sum *sum) {
  const struct spp_geometry *g = v->g;
  bool parked = spp_attention_is_parked(v->layout, g), grouped = g->kv_heads_local < g->heads_local;
  int64_t c = g->piece_tokens, t = g->tokens, h = v->job->arch->hidden;
  int64_t q = g->q_width, kv = g->k_width + g->v_width, o = g->o_width;
  const struct item always[] = {
      {&output_grad, false, t, o, 1}, {&input_grads, false, t, h, 1}, {&weight_grad, true, q + kv, h, 1}};
  const struct item on_gpu[] = {{&exchanged_grad, false, t, o, 1}, {&whole_grads, true, t, q + kv, 1}};
  const struct item blocks[] = {
      {&block_grads, false, c, q + kv, 1},
      {&flash_dq, true, c, q, 1},
      {&flash_expanded, false, c, q, grouped ? 2 : 0},
      {&row_statistics, true, c, g->heads_local, 3},
      {&dq, true, c, q, parked ? 3 : 0},
      {&dkv, true, c, kv, parked ? 1 : 0},
      {&loaded, false, c, q + o + o + kv, parked ? 2 : 0}, /* q, output, its gradient; k, v */
      {&weight_product, false, q, h, 1}};
  const struct item joined[] = {{&input_grad_joined, false, t, h, 1}};
  add(v, ATTENTION, always, COUNT(always), sum);
  if (!parked) add(v, ATTENTION, on_gpu, COUNT(on_gpu), sum);
  add_larger(v, ATTENTION, joined, COUNT(joined), blocks, COUNT(blocks), sum);
}

void spp_memory_add_chunked_attention(const struct spp_memory_view *v, struct spp_memory_sum *sum) {
  add_forward(v, sum);
  add_backward(v, sum);
}

/* FPDT_FFN.backward at its widest: products' output, its square and tanh, half of it, two factors and their
 * product; the gradient of the input is written over the input. A gated MLP is none of it: taken as twice as
 * wide where a file says it is chunked too (assumption). */
void spp_memory_add_chunked_mlp(const struct spp_memory_view *v, int64_t width, struct spp_memory_sum *sum) {
  int64_t h = v->job->arch->hidden, gates = v->job->arch->mlp == SPP_MLP_PLAIN ? 1 : 2;
  const struct item items[] = {{&mlp_steps, false, v->g->piece_tokens, width, 7 * gates},
                               {&mlp_weight_grads, true, width, h, 1 + gates},
                               {&mlp_product, false, width, h, 1}};
  add(v, MLP, items, COUNT(items), sum);
}
