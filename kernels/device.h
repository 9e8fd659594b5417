/* Kernels that run on a device beside the processor, as a table of its own: what they read and write is
 * memory of the device, and they run behind the caller's back, in the order in which a queue was given them.
 * So a row here is not a row of kernels/table.h, whose functions take any address and are done when they
 * return; kernels/processor.h has the processor as a row of this kind, for who runs on either.
 *
 * Every address among the arguments (tensors, statistics, ids, targets, slopes, sinks, workspaces) is of the
 * device; what describes a mask (position runs, cu_seqlens) and the argument structures themselves lie with
 * the caller and have been read when the call returns. Sums run in a fixed order: the same inputs give the
 * same bits.
 *
 * Threads and block sizes that an argument asks for are the processor's and count for nothing here.
 *
 * A function without a status only hands work over. The first fault, of these or of the work itself, stays
 * with the queue, everything behind it is dropped, and wait() tells it. */
#ifndef SPP_KERNELS_DEVICE_H
#define SPP_KERNELS_DEVICE_H

#include "base/status.h"
#include "kernels/attention.h"
#include "kernels/gemm.h"
#include "kernels/ops.h"
#include "kernels/router.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One order of work on one device, with a scratch area of a fixed size. Used by one thread at a time. */
struct spp_queue;

/* The operators of kernels/ops.h, kernels/cross_entropy.h, kernels/attention.h, kernels/router.h and
 * kernels/gemm.h under their names there, and with their rules. */
struct spp_device_ops {
  void (*rmsnorm_forward)(struct spp_queue *q, const struct spp_rmsnorm *a);
  void (*rmsnorm_backward)(struct spp_queue *q, const struct spp_rmsnorm *a);
  void (*layernorm_forward)(struct spp_queue *q, const struct spp_layernorm *a);
  void (*layernorm_backward)(struct spp_queue *q, const struct spp_layernorm *a);
  void (*rope)(struct spp_queue *q, const struct spp_rope *a);
  void (*embedding_forward)(struct spp_queue *q, const struct spp_embedding *a);
  void (*embedding_backward)(struct spp_queue *q, const struct spp_embedding *a);
  void (*cross_entropy_local)(struct spp_queue *q, const struct spp_cross_entropy *a);
  void (*cross_entropy_backward)(struct spp_queue *q, const struct spp_cross_entropy *a);
  void (*cross_entropy_rescale)(struct spp_queue *q, int64_t tokens, const float *local_max, const float *max,
                                float *sum);
  void (*cross_entropy_loss)(struct spp_queue *q, int64_t tokens, const int32_t *targets, const float *max,
                             const float *sum, const float *target_logit, float *loss);
  void (*adamw)(struct spp_queue *q, const struct spp_adamw *a);
  void (*activation_forward)(struct spp_queue *q, enum spp_activation f, int64_t n, enum spp_storage storage,
                             const void *x, void *y);
  void (*activation_backward)(struct spp_queue *q, enum spp_activation f, int64_t n, enum spp_storage storage,
                              const void *x, const void *dy, void *dx);
  void (*glu_forward)(struct spp_queue *q, enum spp_activation f, int64_t n, enum spp_storage storage,
                      const void *gate, const void *up, void *out);
  void (*glu_backward)(struct spp_queue *q, enum spp_activation f, int64_t n, enum spp_storage storage,
                       const void *gate, const void *up, const void *dout, void *dgate, void *dup);
  void (*softcap)(struct spp_queue *q, int64_t n, float cap, void *x, enum spp_storage storage);
  void (*softmax)(struct spp_queue *q, int64_t rows, int64_t n, const float *x, float *y);
  void (*row_dots)(struct spp_queue *q, int64_t rows, int64_t width, const void *a, int64_t a_stride,
                   enum spp_storage a_storage, const void *b, int64_t b_stride, enum spp_storage b_storage,
                   float *dot, int64_t dot_stride);
  void (*convert)(struct spp_queue *q, int64_t n, const void *src, enum spp_storage src_storage, void *dst,
                  enum spp_storage dst_storage);
  void (*add)(struct spp_queue *q, int64_t n, enum spp_storage storage, const void *a, const void *b,
              void *out);
  /* Each row of x [rows][width] += row. */
  void (*add_row)(struct spp_queue *q, int64_t rows, int64_t width, enum spp_storage storage, const void *row,
                  void *x);
  /* sum [width] += the rows of x [rows][width], in increasing order. */
  void (*sum_rows)(struct spp_queue *q, int64_t rows, int64_t width, enum spp_storage storage, const void *x,
                   float *sum);
  /* most = the larger of the two. */
  void (*maximum)(struct spp_queue *q, int64_t n, const float *x, float *most);
  void (*accumulate)(struct spp_queue *q, int64_t n, float factor, const void *x, enum spp_storage storage,
                     float *sum);
  void (*scale)(struct spp_queue *q, int64_t n, float factor, void *x, enum spp_storage storage);
  /* Into one double of the device. */
  void (*sum_squares)(struct spp_queue *q, int64_t n, const void *x, enum spp_storage storage, double *sum);

  int64_t (*attn_forward_bytes)(struct spp_queue *q, const struct spp_attn_forward *a);
  int64_t (*attn_backward_bytes)(struct spp_queue *q, const struct spp_attn_backward *a);
  enum spp_status (*attn_forward)(struct spp_queue *q, const struct spp_attn_forward *a, void *workspace,
                                  struct spp_diag *diag);
  enum spp_status (*attn_backward)(struct spp_queue *q, const struct spp_attn_backward *a, void *workspace,
                                   struct spp_diag *diag);
  void (*attn_delta)(struct spp_queue *q, const struct spp_attn_shape *shape, struct spp_rows dout,
                     struct spp_rows out, struct spp_row_stats delta);
  void (*attn_sink_grad)(struct spp_queue *q, const struct spp_attn_shape *shape, const float *sinks,
                         struct spp_row_stats lse, struct spp_row_stats delta, float *dsinks);
  void (*lse_merge)(struct spp_queue *q, int64_t tokens, int64_t heads, int64_t head_dim, float *out,
                    int64_t out_stride, float *lse, int64_t lse_stride, const float *block_out,
                    int64_t block_stride, const float *block_lse, int64_t block_lse_stride);

  void (*router_probabilities)(struct spp_queue *q, const struct spp_router *a);
  /* Of every token: a->chosen from `scores` [tokens][experts], which are a->probs or those with a bias added.
   * groups NULL: any expert. */
  void (*router_choose)(struct spp_queue *q, const struct spp_router *a, const float *scores,
                        const struct spp_router_groups *groups);
  /* a->weights from a->probs and a->chosen. */
  void (*router_weights)(struct spp_queue *q, const struct spp_router *a);
  void (*router_backward)(struct spp_queue *q, const struct spp_router *a);

  /* fp32 operands are multiplied as fp32, not as TF32; on a device A and B have one storage, and where that
   * is fp32 C has it. */
  int64_t (*gemm_bytes)(struct spp_queue *q, const struct spp_gemm *g);
  enum spp_status (*gemm)(struct spp_queue *q, const struct spp_gemm *g, void *workspace,
                          struct spp_diag *diag);
};

/* A kind of device. */
struct spp_device {
  const char *name;        /* "cuda" */
  const char *description; /* one line for a listing */
  const char *absent;      /* why it was not built; NULL when it was, and then all below is there */

  /* Devices that can be used now; 0: why (may be NULL) says the reason in the driver's words. */
  int (*count)(struct spp_diag *why);
  /* "NVIDIA H200, 132 multiprocessors, CUDA driver 13.0, runtime 13.0". */
  enum spp_status (*describe)(int ordinal, char *text, size_t size, struct spp_diag *diag);

  /* SPP_ERR_ABSENT when there is no such device. close(NULL) does nothing; close() waits for the work. */
  enum spp_status (*open)(int ordinal, struct spp_queue **queue, struct spp_diag *diag);
  void (*close)(struct spp_queue *q);
  /* The library's own handle, a cudaStream_t: for a transport that sends what the queue makes. */
  void *(*handle)(struct spp_queue *q);

  enum spp_status (*allocate)(struct spp_queue *q, int64_t bytes, void **memory, struct spp_diag *diag);
  void (*release)(struct spp_queue *q, void *memory); /* waits for the work */
  void (*upload)(struct spp_queue *q, void *memory, const void *host,
                 int64_t bytes); /* has been read when the call returns */
  void (*download)(struct spp_queue *q, void *host, const void *memory,
                   int64_t bytes); /* there after wait() */
  void (*copy)(struct spp_queue *q, void *to, const void *from, int64_t bytes);
  /* `rows` rows of `bytes` bytes; the strides are bytes between their starts. */
  void (*copy_rows)(struct spp_queue *q, int64_t rows, int64_t bytes, void *to, int64_t to_stride,
                    const void *from, int64_t from_stride);
  void (*clear)(struct spp_queue *q, void *memory, int64_t bytes); /* to zeros */

  /* Is all work done? Does not wait; a fault is told by wait(). */
  bool (*is_done)(struct spp_queue *q);
  /* Until all work is done. SPP_OK, or the first fault since open(). */
  enum spp_status (*wait)(struct spp_queue *q, struct spp_diag *diag);
  /* Seconds of the device between two marks (0 or 1) in the queue; after wait(). */
  void (*mark)(struct spp_queue *q, int which);
  double (*between_s)(struct spp_queue *q);

  const struct spp_device_ops *ops;
};

/* All rows, built or not. */
const struct spp_device *const *spp_devices_all(int *count);

/* Built, and at least one is here; else why (may be NULL) says the reason. */
bool spp_device_usable(const struct spp_device *device, struct spp_diag *why);

extern const struct spp_device spp_device_cuda;

/* A device at work: whose memory and operators the caller uses. */
struct spp_runner {
  const struct spp_device *device;
  struct spp_queue *queue;
};

#endif
