/* One decoder layer at work, forward or backward: what its files share. The attention half
 * (exec/layer_attention*.c) has everything from its input to o_proj's output; norms, MLP, residual stream and
 * their order are the block's (exec/layer_forward.c, exec/layer_backward.c). */
#ifndef SPP_EXEC_LAYER_WORK_H
#define SPP_EXEC_LAYER_WORK_H

#include "exec/engine.h"

struct spp_layer_work {
  struct spp_engine *e;
  const struct spp_device_ops *ops;
  struct spp_queue *q;
  const struct spp_unit_use *use;
  enum spp_pass pass;
  struct spp_layer_kept *kept;
};
static inline struct spp_layer_work spp_layer_work_of(struct spp_engine *e, const struct spp_unit_use *use,
                                                      enum spp_pass pass, struct spp_layer_kept *kept) {
  return (struct spp_layer_work){
      .e = e, .ops = e->rank->ops, .q = e->rank->queue, .use = use, .pass = pass, .kept = kept};
}

/* Frees a heap block and forgets it. */
static inline void spp_layer_drop(const struct spp_layer_work *w, void **data) {
  spp_heap_free(&w->e->rank->heap, *data);
  *data = NULL;
}
static inline void spp_layer_drop_floats(const struct spp_layer_work *w, float **data) {
  spp_heap_free(&w->e->rank->heap, *data);
  *data = NULL;
}

/* --- forward --- */

/* The model's norm of each of `rows` vectors: y from x, statistics as in struct spp_branch_kept. Its weight
 * and bias are those of the slot. */
void spp_layer_norm(const struct spp_layer_work *w, enum spp_slot slot, int64_t rows, int64_t width,
                    const void *x, void *y, float *stats);
/* The same of the residual stream, and how many numbers its statistics are. */
void spp_stream_norm(const struct spp_layer_work *w, enum spp_slot slot, const void *x, void *y,
                     float *stats);
int64_t spp_stream_norm_stats(const struct spp_engine *e);
/* To each row of y [rows][width], where the model has it. That of a row-parallel product is added to its sum.
 */
void spp_layer_add_bias(const struct spp_layer_work *w, enum spp_slot bias, int64_t rows, int64_t width,
                        void *y);
/* y [tokens][out] = x w^T (+ bias). bias: SPP_SLOT_COUNT for none. */
enum spp_status spp_layer_project(const struct spp_layer_work *w, enum spp_slot slot, enum spp_slot bias,
                                  const void *x, void *y);

/* --- backward --- */

/* dx = dy w (+ dx), over the tokens of the tensor-parallel group. */
enum spp_status spp_layer_input_grad(const struct spp_layer_work *w, enum spp_slot slot, const void *dy,
                                     bool add, void *dx);
enum spp_status spp_layer_weight_grad(const struct spp_layer_work *w, enum spp_slot slot, enum spp_slot bias,
                                      const void *dy, const void *x);
/* In place: dy becomes dx. */
void spp_layer_norm_grad(const struct spp_layer_work *w, enum spp_slot slot, int64_t rows, int64_t width,
                         const void *x, float *stats, void *dy);
void spp_stream_norm_grad(const struct spp_layer_work *w, enum spp_slot slot, const void *x, float *stats,
                          void *dy);
/* In place of x. */
void spp_stream_norm_grad_over(const struct spp_layer_work *w, enum spp_slot slot, void *x, float *stats,
                               const void *dy);

/* --- MLP or experts, from w->kept->mlp_input to the output, with its bias --- */

/* *spare (NULL: nothing) is freed and forgotten as soon as gate and up, or the experts, have read it. *out as
 * that of attention. */
enum spp_status spp_layer_mlp_forward(const struct spp_layer_work *w, void **spare, void **out);
/* What selective recompute does not keep of it. */
void spp_layer_mlp_drop(const struct spp_layer_work *w);
/* As spp_layer_attention_backward. */
enum spp_status spp_layer_mlp_backward(const struct spp_layer_work *w, void **spare, const void *dy,
                                       void **dx);

/* --- attention, from the tensor that q, k and v are made of to o_proj's output --- */

/* x [stream][hidden] is read; *spare (NULL: nothing) is freed and forgotten as soon as q, k, v are made.
 * *out, a block "stream" of transients, [stream][hidden], is o_proj's output with its bias. */
enum spp_status spp_layer_attention_forward(const struct spp_layer_work *w, const void *x, void **spare,
                                            void **out);
/* dy: gradient of that output. x as in forward; *spare is freed when the weights' gradients are made of it.
 * *dx, a block "norm backward" of transients: gradient of x. */
enum spp_status spp_layer_attention_backward(const struct spp_layer_work *w, const void *x, void **spare,
                                             const void *dy, void **dx);
/* Turns `heads` heads of `head_dim`, from element `first` of each on, where the layer turns any. sign: +1, or
 * -1 for the gradient. x [tokens][heads][head_dim]. */
void spp_layer_rotate(const struct spp_layer_work *w, int64_t heads, int64_t head_dim, int64_t first,
                      float sign, void *x);
/* Latent attention (exec/layer_latent.c): q, k and v of x, and the gradient of x from theirs, which are
 * freed; x, spare and dx as above. */
enum spp_status spp_latent_forward(const struct spp_layer_work *w, const void *x);
enum spp_status spp_latent_backward(const struct spp_layer_work *w, const void *x,
                                    struct spp_attention_grads *grads, void **dx);
/* Frees what attention kept. */
void spp_layer_attention_release(struct spp_engine *e, struct spp_layer_kept *kept);

#endif
