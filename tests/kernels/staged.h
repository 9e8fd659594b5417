/* The kernels of the first device that can be used, behind the signatures of those of the processor: every
 * call takes its arguments to the device, runs, and brings the results back. For tests. */
#ifndef SPP_TESTS_KERNELS_STAGED_H
#define SPP_TESTS_KERNELS_STAGED_H

#include "kernels/attention.h"
#include "kernels/device.h"
#include "kernels/gemm.h"
#include "kernels/router.h"
#include "kernels/table.h"

/* Opens the device; false: there is none, and why has been printed. */
bool staged_ready(void);

/* The reference and the device. */
const struct spp_kernels *const *staged_rows(int *count);
const struct spp_kernels *staged_best(void);
bool staged_rounds_bf16(const struct spp_kernels *kernels);

/* For tests of the device itself. */
const struct spp_device *staged_device(void);
struct spp_queue *staged_queue(void);

/* As their namesakes; on the processor when kernels is not the device's row. */
enum spp_status staged_attn_forward(const struct spp_kernels *kernels, const struct spp_attn_forward *a,
                                    void *workspace, struct spp_diag *diag);
enum spp_status staged_attn_backward(const struct spp_kernels *kernels, const struct spp_attn_backward *a,
                                     void *workspace, struct spp_diag *diag);
void staged_attn_delta(const struct spp_kernels *kernels, const struct spp_attn_shape *shape,
                       struct spp_rows dout, struct spp_rows out, struct spp_row_stats delta);
void staged_attn_sink_grad(const struct spp_attn_shape *shape, const float *sinks, struct spp_row_stats lse,
                           struct spp_row_stats delta, float *dsinks);
void staged_lse_merge(int64_t tokens, int64_t heads, int64_t head_dim, float *out, int64_t out_stride,
                      float *lse, int64_t lse_stride, const float *block_out, int64_t block_stride,
                      const float *block_lse, int64_t block_lse_stride);
enum spp_status staged_gemm(const struct spp_gemm *g, void *workspace, struct spp_diag *diag);
void staged_router_forward(const struct spp_kernels *kernels, const struct spp_router *a);
void staged_router_choose_in_groups(const float *probs, int64_t experts,
                                    const struct spp_router_groups *groups, int64_t top_k, int32_t *chosen);
void staged_router_backward(const struct spp_router *a);

#endif
