#include "model/activations.h"

#include "base/num.h"

enum spp_dtype spp_activation_dtype(const struct spp_job *job) {
  switch (job->dtype) {
  case SPP_DTYPE_FP32:
  case SPP_DTYPE_TF32: return SPP_DTYPE_FP32;
  case SPP_DTYPE_FP16: return SPP_DTYPE_FP16;
  default: return SPP_DTYPE_BF16;
  }
}

void spp_kept_append(const struct spp_layer_view *v, const struct spp_tensor *tensor, enum spp_block block,
                     unsigned modules, enum spp_dtype dtype, int64_t rows, int64_t cols) {
  struct spp_kept_list *list = v->list;
  if (rows <= 0 || cols <= 0 || list->count == SPP_KEPT_MAX) return;
  list->items[list->count++] = (struct spp_kept){tensor, dtype, block, modules, rows, cols};
  int64_t bytes = spp_sat_mul(spp_sat_mul(rows, cols), spp_dtype_bytes(dtype));
  list->bytes = spp_sat_add(list->bytes, bytes);
}

static struct spp_layer_view view_of(const struct spp_job *job, const struct spp_layout *layout,
                                     const struct spp_geometry *g, const struct spp_layer_kind *kind,
                                     struct spp_kept_list *list) {
  struct spp_layer_view v = {job, layout, g, kind, spp_activation_dtype(job), spp_activation_dtype(job),
                             list};
  if (job->dtype == SPP_DTYPE_FP8) v.gemm_in = SPP_DTYPE_FP8;
  list->count = 0;
  list->bytes = 0;
  return v;
}

void spp_kept_layer(const struct spp_job *job, const struct spp_layout *layout, const struct spp_geometry *g,
                    const struct spp_layer_kind *kind, struct spp_kept_list *list) {
  struct spp_layer_view v = view_of(job, layout, g, kind, list);
  spp_kept_norms(&v);
  spp_kept_attention(&v);
  spp_kept_mlp(&v);
  if (spp_job_has_adapters(job)) spp_kept_adapters(&v);
}

int64_t spp_kept_without(const struct spp_kept_list *list, unsigned modules) {
  int64_t bytes = 0;
  for (int i = 0; i < list->count; i++) {
    const struct spp_kept *k = &list->items[i];
    if (k->modules & modules) continue;
    bytes = spp_sat_add(bytes, spp_sat_mul(spp_sat_mul(k->rows, k->cols), spp_dtype_bytes(k->dtype)));
  }
  return bytes;
}

/* The input width of the row-parallel matrix: the same whether gate and up are one matrix or two. */
int64_t spp_mlp_width(const struct spp_geometry *g, const struct spp_layer_kind *kind,
                      enum spp_weight_role role) {
  for (int i = 0; i < kind->weight_count; i++) {
    const struct spp_weight *w = &kind->weights[i];
    if (w->role == role && w->split == SPP_SPLIT_INPUT && w->linear)
      return spp_ceil_div(w->cols, role == SPP_ROLE_EXPERT ? g->etp : g->tp);
  }
  return 0;
}

int64_t spp_mlp_rows(const struct spp_job *job, const struct spp_geometry *g) {
  if (!job->framework->tiles_mlp) return g->tokens;
  return spp_ceil_div(g->tokens, spp_max64(1, spp_ceil_div(g->tokens, job->arch->hidden)));
}

/* Each rank routes its stream tokens k times and receives as many; expert tensor parallelism gathers them. */
int64_t spp_routed_rows(const struct spp_job *job, const struct spp_geometry *g) {
  int64_t even = spp_sat_mul(g->stream_tokens, job->arch->experts_per_token);
  if (job->expert_capacity <= 0) return even;
  double rows = job->expert_capacity * (double)even + 0.5;
  return rows < 9e18 ? (int64_t)rows : INT64_MAX;
}

int64_t spp_expert_rows(const struct spp_job *job, const struct spp_geometry *g) {
  return spp_sat_mul(spp_routed_rows(job, g), g->etp);
}

static const struct spp_tensor op_input = {"layer input", SPP_PART_LAYER_INPUTS,
                                           "start of the recomputed region"};
static const struct spp_tensor op_attention = {"attention output", SPP_PART_ACTIVATIONS,
                                               "op-level recompute keeps attention"};
static const struct spp_tensor op_lse = {"attention log-sum-exp", SPP_PART_ACTIVATIONS,
                                         "op-level recompute keeps attention"};
static const struct spp_tensor op_products = {"matrix products", SPP_PART_ACTIVATIONS,
                                              "op-level recompute keeps every second one: q, v, gate, down"};

/* Products in order: q, k, v, o, gate, up, down (experts: grouped products, same order over routed rows). */
void spp_kept_op_level(const struct spp_job *job, const struct spp_layout *layout,
                       const struct spp_geometry *g, const struct spp_layer_kind *kind,
                       struct spp_kept_list *list) {
  struct spp_layer_view v = view_of(job, layout, g, kind, list);
  const struct spp_arch *a = job->arch;
  spp_kept_append(&v, &op_input, SPP_BLOCK_NORM1, 0, v.act, g->stream_tokens, a->hidden);
  spp_kept_append(&v, &op_attention, SPP_BLOCK_ATTENTION, 0, v.act, g->tokens, g->o_width);
  spp_kept_append(&v, &op_lse, SPP_BLOCK_ATTENTION, 0, SPP_DTYPE_FP32, g->tokens, g->heads_local);
  spp_kept_append(&v, &op_products, SPP_BLOCK_ATTENTION, 0, v.act, g->tokens, g->q_width + g->v_width);
  int64_t rows = kind->moe ? spp_expert_rows(job, g) : g->tokens;
  int64_t width = spp_mlp_width(g, kind, kind->moe ? SPP_ROLE_EXPERT : SPP_ROLE_MLP);
  spp_kept_append(&v, &op_products, SPP_BLOCK_MLP, 0, v.act, rows, width + a->hidden);
}
