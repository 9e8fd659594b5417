#include "kernels/attention.h"

#include "kernels/attention_impl.h"
#include "kernels/flash.h"
#include "kernels/table.h"

#include <math.h>

static const char *shape_fault(const struct spp_attn_shape *s) {
  if (s->q_tokens < 0 || s->kv_tokens < 0) return "the number of tokens is negative";
  if (s->q_tokens > INT32_MAX || s->kv_tokens > INT32_MAX) return "there are more than 2^31 - 1 tokens";
  if (s->kv_heads < 1 || s->q_heads < 1) return "there are no heads";
  if (s->q_heads % s->kv_heads != 0) return "the query heads are not a multiple of the key heads";
  if (s->head_dim < 8 || s->head_dim > SPP_ATTN_MAX_HEAD_DIM || s->head_dim % 8 != 0)
    return "the head dimension is not a multiple of 8 from 8 to 256";
  if (s->v_head_dim != 0 &&
      (s->v_head_dim < 8 || s->v_head_dim > SPP_ATTN_MAX_HEAD_DIM || s->v_head_dim % 8 != 0))
    return "the head dimension of v is not a multiple of 8 from 8 to 256";
  if (!(s->scale > 0.0F) || !isfinite(s->scale)) return "the scale is not positive";
  if (!(s->cap >= 0.0F) || !isfinite(s->cap)) return "the cap of the scores is negative";
  return spp_mask_fault(&s->mask, s->q_tokens, s->kv_tokens);
}

static const char *rows_fault(const struct spp_rows *x, int64_t heads, int64_t head_dim) {
  return x->row_stride < heads * head_dim ? "a row stride is shorter than a row" : NULL;
}

static enum spp_status refuse(const char *fault, struct spp_diag *diag) {
  return spp_diag_set(diag, SPP_ERR_INPUT, "attention", NULL, "%s", fault);
}

const char *spp_attn_forward_fault(const struct spp_attn_forward *a) {
  const struct spp_attn_shape *s = &a->shape;
  const char *fault = shape_fault(s);
  if (!fault) fault = rows_fault(&a->q, s->q_heads, s->head_dim);
  if (!fault) fault = rows_fault(&a->k, s->kv_heads, s->head_dim);
  if (!fault) fault = rows_fault(&a->v, s->kv_heads, spp_attn_v_dim(s));
  if (!fault) fault = rows_fault(&a->out, s->q_heads, spp_attn_v_dim(s));
  if (!fault && a->lse.head_stride < s->q_tokens)
    fault = "the head stride of lse is shorter than the queries";
  return fault;
}

const char *spp_attn_backward_fault(const struct spp_attn_backward *a) {
  const struct spp_attn_shape *s = &a->shape;
  int64_t dk = s->head_dim, dv = spp_attn_v_dim(s);
  const struct {
    const struct spp_rows *rows;
    int64_t heads, head_dim;
  } tensors[] = {{&a->q, s->q_heads, dk},  {&a->dq, s->q_heads, dk},  {&a->dout, s->q_heads, dv},
                 {&a->k, s->kv_heads, dk}, {&a->dk, s->kv_heads, dk}, {&a->v, s->kv_heads, dv},
                 {&a->dv, s->kv_heads, dv}};
  const char *fault = shape_fault(s);
  for (size_t i = 0; i < sizeof tensors / sizeof tensors[0] && !fault; i++)
    fault = rows_fault(tensors[i].rows, tensors[i].heads, tensors[i].head_dim);
  if (!fault && (a->lse.head_stride < s->q_tokens || a->delta.head_stride < s->q_tokens))
    fault = "the head stride of lse or delta is shorter than the queries";
  return fault;
}

static const struct spp_tile_ops *forward_tile(const struct spp_kernels *kernels,
                                               const struct spp_attn_forward *a) {
  bool all_bf16 =
      a->q.storage == SPP_STORE_BF16 && a->k.storage == SPP_STORE_BF16 && a->v.storage == SPP_STORE_BF16;
  return spp_kernels_tile(kernels, all_bf16);
}

static const struct spp_tile_ops *backward_tile(const struct spp_kernels *kernels,
                                                const struct spp_attn_backward *a) {
  bool all_bf16 = a->q.storage == SPP_STORE_BF16 && a->k.storage == SPP_STORE_BF16 &&
                  a->v.storage == SPP_STORE_BF16 && a->dout.storage == SPP_STORE_BF16;
  return spp_kernels_tile(kernels, all_bf16);
}

int64_t spp_attn_forward_workspace_bytes(const struct spp_kernels *kernels,
                                         const struct spp_attn_forward *a) {
  const struct spp_tile_ops *tile = forward_tile(kernels, a);
  return tile ? spp_attn_flash_forward_bytes(tile, a) : 0;
}

int64_t spp_attn_backward_workspace_bytes(const struct spp_kernels *kernels,
                                          const struct spp_attn_backward *a) {
  const struct spp_tile_ops *tile = backward_tile(kernels, a);
  return tile ? spp_attn_flash_backward_bytes(tile, a) : 0;
}

enum spp_status spp_attn_forward(const struct spp_kernels *kernels, const struct spp_attn_forward *a,
                                 void *workspace, struct spp_diag *diag) {
  const struct spp_tile_ops *tile = forward_tile(kernels, a);
  const char *fault = spp_attn_forward_fault(a);
  if (fault) return refuse(fault, diag);
  if (tile)
    spp_attn_flash_forward(tile, a, workspace);
  else
    spp_attn_ref_forward(a);
  return SPP_OK;
}

enum spp_status spp_attn_backward(const struct spp_kernels *kernels, const struct spp_attn_backward *a,
                                  void *workspace, struct spp_diag *diag) {
  const struct spp_tile_ops *tile = backward_tile(kernels, a);
  const char *fault = spp_attn_backward_fault(a);
  if (fault) return refuse(fault, diag);
  if (tile)
    spp_attn_flash_backward(tile, a, workspace);
  else
    spp_attn_ref_backward(a);
  return SPP_OK;
}

void spp_attn_delta(const struct spp_kernels *kernels, const struct spp_attn_shape *s, struct spp_rows dout,
                    struct spp_rows out, struct spp_row_stats delta) {
  int64_t dim = spp_attn_v_dim(s);
  for (int64_t h = 0; h < s->q_heads; h++)
    kernels->ops->row_dots(s->q_tokens, dim, spp_flash_at(&dout, dim, 0, h), dout.row_stride, dout.storage,
                           spp_flash_at(&out, dim, 0, h), out.row_stride, out.storage,
                           delta.data + h * delta.head_stride, 1);
}

void spp_attn_sink_grad(const struct spp_attn_shape *s, const float *sinks, struct spp_row_stats lse,
                        struct spp_row_stats delta, float *dsinks) {
  for (int64_t h = 0; h < s->q_heads; h++) {
    double sum = 0.0;
    for (int64_t t = 0; t < s->q_tokens; t++)
      sum -= exp((double)sinks[h] - (double)lse.data[h * lse.head_stride + t]) *
             (double)delta.data[h * delta.head_stride + t];
    dsinks[h] += (float)sum;
  }
}

int64_t spp_attn_forward_flops(const struct spp_attn_shape *s) {
  return 2 * (s->head_dim + spp_attn_v_dim(s)) * s->q_heads *
         spp_mask_pairs(&s->mask, s->q_tokens, s->kv_tokens);
}

int64_t spp_attn_backward_flops(const struct spp_attn_shape *s) {
  return 2 * (3 * s->head_dim + 2 * spp_attn_v_dim(s)) * s->q_heads *
         spp_mask_pairs(&s->mask, s->q_tokens, s->kv_tokens);
}
