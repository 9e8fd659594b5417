/* The functions of the row "cuda", one group a file. */
#ifndef SPP_KERNELS_CUDA_OPS_CUH
#define SPP_KERNELS_CUDA_OPS_CUH

#include "kernels/cuda/queue.cuh"

extern const struct spp_device_ops spp_cuda_ops;

/* elementwise.cu */
void spp_cuda_rope(struct spp_queue *q, const struct spp_rope *a);
void spp_cuda_cross_entropy_rescale(struct spp_queue *q, int64_t tokens, const float *local_max,
                                    const float *max, float *sum);
void spp_cuda_cross_entropy_loss(struct spp_queue *q, int64_t tokens, const int32_t *targets,
                                 const float *max, const float *sum, const float *target_logit, float *loss);
void spp_cuda_adamw(struct spp_queue *q, const struct spp_adamw *a);
void spp_cuda_activation_forward(struct spp_queue *q, enum spp_activation f, int64_t n,
                                 enum spp_storage storage, const void *x, void *y);
void spp_cuda_activation_backward(struct spp_queue *q, enum spp_activation f, int64_t n,
                                  enum spp_storage storage, const void *x, const void *dy, void *dx);
void spp_cuda_glu_forward(struct spp_queue *q, enum spp_activation f, int64_t n, enum spp_storage storage,
                          const void *gate, const void *up, void *out);
void spp_cuda_glu_backward(struct spp_queue *q, enum spp_activation f, int64_t n, enum spp_storage storage,
                           const void *gate, const void *up, const void *dout, void *dgate, void *dup);
void spp_cuda_softcap(struct spp_queue *q, int64_t n, float cap, void *x, enum spp_storage storage);
void spp_cuda_convert(struct spp_queue *q, int64_t n, const void *src, enum spp_storage src_storage,
                      void *dst, enum spp_storage dst_storage);
void spp_cuda_add(struct spp_queue *q, int64_t n, enum spp_storage storage, const void *a, const void *b,
                  void *out);
void spp_cuda_accumulate(struct spp_queue *q, int64_t n, float factor, const void *x,
                         enum spp_storage storage, float *sum);
void spp_cuda_add_row(struct spp_queue *q, int64_t rows, int64_t width, enum spp_storage storage,
                      const void *row, void *x);
void spp_cuda_sum_rows(struct spp_queue *q, int64_t rows, int64_t width, enum spp_storage storage,
                       const void *x, float *sum);
void spp_cuda_maximum(struct spp_queue *q, int64_t n, const float *x, float *most);
void spp_cuda_scale(struct spp_queue *q, int64_t n, float factor, void *x, enum spp_storage storage);

/* norms.cu */
void spp_cuda_rmsnorm_forward(struct spp_queue *q, const struct spp_rmsnorm *a);
void spp_cuda_rmsnorm_backward(struct spp_queue *q, const struct spp_rmsnorm *a);
void spp_cuda_layernorm_forward(struct spp_queue *q, const struct spp_layernorm *a);
void spp_cuda_layernorm_backward(struct spp_queue *q, const struct spp_layernorm *a);

/* rows.cu */
void spp_cuda_embedding_forward(struct spp_queue *q, const struct spp_embedding *a);
void spp_cuda_embedding_backward(struct spp_queue *q, const struct spp_embedding *a);
void spp_cuda_cross_entropy_local(struct spp_queue *q, const struct spp_cross_entropy *a);
void spp_cuda_cross_entropy_backward(struct spp_queue *q, const struct spp_cross_entropy *a);
void spp_cuda_softmax(struct spp_queue *q, int64_t rows, int64_t n, const float *x, float *y);
void spp_cuda_row_dots(struct spp_queue *q, int64_t rows, int64_t width, const void *a, int64_t a_stride,
                       enum spp_storage a_storage, const void *b, int64_t b_stride,
                       enum spp_storage b_storage, float *dot, int64_t dot_stride);
void spp_cuda_sum_squares(struct spp_queue *q, int64_t n, const void *x, enum spp_storage storage,
                          double *sum);

/* merge.cu */
void spp_cuda_attn_delta(struct spp_queue *q, const struct spp_attn_shape *shape, struct spp_rows dout,
                         struct spp_rows out, struct spp_row_stats delta);
void spp_cuda_attn_sink_grad(struct spp_queue *q, const struct spp_attn_shape *shape, const float *sinks,
                             struct spp_row_stats lse, struct spp_row_stats delta, float *dsinks);
void spp_cuda_lse_merge(struct spp_queue *q, int64_t tokens, int64_t heads, int64_t head_dim, float *out,
                        int64_t out_stride, float *lse, int64_t lse_stride, const float *block_out,
                        int64_t block_stride, const float *block_lse, int64_t block_lse_stride);

/* attention.cu */
int64_t spp_cuda_attn_forward_bytes(struct spp_queue *, const struct spp_attn_forward *a);
int64_t spp_cuda_attn_backward_bytes(struct spp_queue *, const struct spp_attn_backward *a);
enum spp_status spp_cuda_attn_forward(struct spp_queue *q, const struct spp_attn_forward *a, void *workspace,
                                      struct spp_diag *diag);
enum spp_status spp_cuda_attn_backward(struct spp_queue *q, const struct spp_attn_backward *a,
                                       void *workspace, struct spp_diag *diag);

/* router.cu */
void spp_cuda_router_probabilities(struct spp_queue *q, const struct spp_router *a);
void spp_cuda_router_choose(struct spp_queue *q, const struct spp_router *a, const float *scores,
                            const struct spp_router_groups *groups);
void spp_cuda_router_weights(struct spp_queue *q, const struct spp_router *a);
void spp_cuda_router_backward(struct spp_queue *q, const struct spp_router *a);

/* gemm.cu */
int64_t spp_cuda_gemm_bytes(struct spp_queue *q, const struct spp_gemm *g);
enum spp_status spp_cuda_gemm(struct spp_queue *q, const struct spp_gemm *g, void *workspace,
                              struct spp_diag *diag);
void spp_cuda_blas_close(struct spp_queue *q);

#endif
