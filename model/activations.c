#include "model/activations.h"

#include "base/num.h"

enum spp_dtype spp_autocast_dtype(const struct spp_job *job) {
  bool autocast = spp_job_hidden_fp32(job) && job->framework->lora_autocast;
  if (!autocast) return spp_activation_dtype(job);
  return job->dtype == SPP_DTYPE_FP16 ? SPP_DTYPE_FP16 : SPP_DTYPE_BF16;
}

enum spp_dtype spp_activation_dtype(const struct spp_job *job) {
  if (spp_job_hidden_fp32(job)) return SPP_DTYPE_FP32;
  switch (job->dtype) {
  case SPP_DTYPE_FP32:
  case SPP_DTYPE_TF32: return SPP_DTYPE_FP32;
  case SPP_DTYPE_FP16: return SPP_DTYPE_FP16;
  default: return SPP_DTYPE_BF16;
  }
}

enum spp_dtype spp_stream_dtype(const struct spp_job *job) {
  return spp_job_casts_weights(job) ? SPP_DTYPE_FP32 : spp_activation_dtype(job);
}

void spp_kept_append(const struct spp_layer_view *v, const struct spp_tensor *tensor, enum spp_block block,
                     unsigned modules, enum spp_dtype dtype, int64_t rows, int64_t cols) {
  struct spp_kept_list *list = v->list;
  if (rows <= 0 || cols <= 0 || list->count == SPP_KEPT_MAX) return;
  list->items[list->count++] = (struct spp_kept){tensor, dtype, block, modules, rows, cols, v->in};
  int64_t bytes = spp_sat_mul(spp_sat_mul(rows, cols), spp_dtype_bytes(dtype));
  if (v->in != SPP_KEPT_IN_FP4) list->bytes = spp_sat_add(list->bytes, bytes);
  if (v->in != SPP_KEPT_IN_WIDE) list->fp4_bytes = spp_sat_add(list->fp4_bytes, bytes);
}

/* NVFP4 products save the codes of their input and its FP8 scales, one a 16 elements, each its own (torchao
 * 0.18.0 prototype/moe_training/nvfp4_training/nvfp4_linear.py nvfp4_mm_triton). */
static int64_t fp4_columns(int64_t cols) {
  return spp_ceil_div(spp_sat_mul(cols, 9), 16);
}

unsigned spp_remade_input(const struct spp_layer_view *v) {
  bool remade =
      v->gemm_in != v->act && v->job->framework->fp8_remakes_inputs && v->job->kernels == SPP_KERNELS_FUSED;
  return remade ? SPP_RC_ALWAYS : 0;
}

void spp_kept_append_input(const struct spp_layer_view *v, const struct spp_tensor *tensor,
                           enum spp_block block, unsigned modules, int64_t rows, int64_t cols, int products) {
  struct spp_layer_view wide = *v, codes = *v;
  if (!v->job->fp4) {
    spp_kept_append(v, tensor, block, modules | spp_remade_input(v), v->gemm_in, rows, cols);
    return;
  }
  wide.in = SPP_KEPT_IN_WIDE;
  codes.in = SPP_KEPT_IN_FP4;
  spp_kept_append(&wide, tensor, block, modules, v->act, rows, cols);
  spp_kept_append(&codes, tensor, block, modules, SPP_DTYPE_INT8, rows,
                  spp_sat_mul(products, fp4_columns(cols)));
}

static struct spp_layer_view view_of(const struct spp_job *job, const struct spp_layout *layout,
                                     const struct spp_geometry *g, const struct spp_layer_kind *kind,
                                     struct spp_kept_list *list) {
  struct spp_layer_view v = {
      job, layout, g, kind, spp_activation_dtype(job), spp_activation_dtype(job), list, SPP_KEPT_IN_ALL};
  if (job->dtype == SPP_DTYPE_FP8) v.gemm_in = SPP_DTYPE_FP8;
  list->count = 0;
  list->bytes = list->fp4_bytes = 0;
  return v;
}

static const struct spp_tensor weight_codes = {"weights in FP4", SPP_PART_ACTIVATIONS,
                                               "gradients of the products' inputs"};

/* nvfp4_mm_triton saves the transposed codes of the whole gathered weight too. */
static void keep_weight_codes(const struct spp_layer_view *v) {
  struct spp_layer_view codes = *v;
  int64_t elements = 0;
  codes.in = SPP_KEPT_IN_FP4;
  for (int i = 0; i < v->kind->weight_count; i++) {
    const struct spp_weight *w = &v->kind->weights[i];
    if (w->linear && w->role != SPP_ROLE_EXPERT)
      elements = spp_sat_add(elements, spp_ceil_div(spp_sat_mul(w->rows, w->cols), v->g->tp));
  }
  spp_kept_append(&codes, &weight_codes, SPP_BLOCK_NORM1, 0, SPP_DTYPE_INT8, 1, fp4_columns(elements));
}

static const struct spp_tensor weight_casts = {"16-bit copies of frozen weights", SPP_PART_ACTIVATIONS,
                                               "autocast: gradients of the products' inputs"};

/* Autocast's cache holds copies of leaves that want gradients only (torch aten/src/ATen/autocast_mode.cpp
 * cached_cast): of a frozen weight each product makes its own, and saves it to give its input a gradient. */
static void keep_weight_casts(const struct spp_layer_view *v) {
  int64_t elements = 0;
  for (int i = 0; i < v->kind->weight_count; i++) {
    const struct spp_weight *w = &v->kind->weights[i];
    bool expert = w->role == SPP_ROLE_EXPERT;
    int64_t ranks = expert ? v->g->etp : v->g->tp;
    int64_t copies = expert ? spp_ceil_div(w->copies, spp_max64(1, v->g->ep)) : w->copies;
    int64_t one = spp_ceil_div(spp_sat_mul(w->rows, w->cols), spp_max64(1, ranks));
    if (w->linear) elements = spp_sat_add(elements, spp_sat_mul(copies, one));
  }
  spp_kept_append(v, &weight_casts, SPP_BLOCK_ATTENTION, 0, v->act, 1, elements);
}

void spp_kept_layer(const struct spp_job *job, const struct spp_layout *layout, const struct spp_geometry *g,
                    const struct spp_layer_kind *kind, struct spp_kept_list *list) {
  struct spp_layer_view v = view_of(job, layout, g, kind, list);
  struct spp_layer_view attention = v;
  if (spp_autocast_dtype(job) != v.act) attention.act = attention.gemm_in = spp_autocast_dtype(job);
  spp_kept_norms(&v);
  spp_kept_attention(&attention);
  spp_kept_mlp(&v);
  if (job->fp4 && !spp_job_runs_te(job)) keep_weight_codes(&v);
  if (spp_job_has_adapters(job)) spp_kept_adapters(&v);
  if (spp_job_has_adapters(job) && spp_job_casts_weights(job)) keep_weight_casts(&v);
}

int64_t spp_kept_layer_bytes(const struct spp_job *job, const struct spp_layout *layout,
                             const struct spp_geometry *g, const struct spp_layer_kind *kind) {
  struct spp_kept_list list;
  spp_kept_layer(job, layout, g, kind, &list);
  return spp_kept_without(&list, SPP_RC_ALWAYS);
}

int64_t spp_kept_without(const struct spp_kept_list *list, unsigned modules) {
  int64_t wide = 0, fp4 = 0;
  for (int i = 0; i < list->count; i++) {
    const struct spp_kept *k = &list->items[i];
    if (k->modules & modules) continue;
    int64_t bytes = spp_sat_mul(spp_sat_mul(k->rows, k->cols), spp_dtype_bytes(k->dtype));
    if (k->in != SPP_KEPT_IN_FP4) wide = spp_sat_add(wide, bytes);
    if (k->in != SPP_KEPT_IN_WIDE) fp4 = spp_sat_add(fp4, bytes);
  }
  return spp_min64(wide, fp4);
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

/* deepspeed 0.19.8 sequence/fpdt_layer.py FPDT_FFN: two matrices with biases and a GELU between them. */
bool spp_mlp_in_chunks(const struct spp_job *job, const struct spp_geometry *g) {
  return g->pieces > 1 && (job->arch->mlp == SPP_MLP_PLAIN || job->framework->fpdt_gated_mlp);
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
                                              "op-level recompute keeps every second one"};

/* Outputs of a layer's products in the order they run; experts' are grouped, over routed rows. */
struct products {
  enum spp_block block[7];
  int64_t rows[7], cols[7];
  int count;
};
static void product(struct products *p, enum spp_block block, int64_t rows, int64_t cols) {
  p->block[p->count] = block;
  p->rows[p->count] = rows;
  p->cols[p->count++] = cols;
}

static void list_products(const struct spp_layer_view *v, struct products *p) {
  const struct spp_geometry *g = v->g;
  int64_t tokens = g->tokens, rows = v->kind->moe ? spp_expert_rows(v->job, g) : tokens;
  int64_t width = spp_mlp_width(g, v->kind, v->kind->moe ? SPP_ROLE_EXPERT : SPP_ROLE_MLP);
  p->count = 0;
  if (v->job->framework->fuses_qkv) {
    product(p, SPP_BLOCK_ATTENTION, tokens, g->q_width + g->k_width + g->v_width);
  } else {
    product(p, SPP_BLOCK_ATTENTION, tokens, g->q_width);
    product(p, SPP_BLOCK_ATTENTION, tokens, g->k_width);
    product(p, SPP_BLOCK_ATTENTION, tokens, g->v_width);
  }
  product(p, SPP_BLOCK_ATTENTION, tokens, v->job->arch->hidden);
  product(p, SPP_BLOCK_MLP, rows, width); /* gate */
  product(p, SPP_BLOCK_MLP, rows, width); /* up */
  product(p, SPP_BLOCK_MLP, rows, v->job->arch->hidden);
}

/* Every second product stays, from the first. Eager recompute caches what its policy names, needed or not; a
 * compiled layer saves what its backward reads, and nothing reads the sum that the last product joins
 * (counted on torch 2.15 with saved-tensor hooks: input, q, v, attention output, log-sum-exp, gate). */
void spp_kept_op_level(const struct spp_job *job, const struct spp_layout *layout,
                       const struct spp_geometry *g, const struct spp_layer_kind *kind,
                       struct spp_kept_list *list) {
  struct spp_layer_view v = view_of(job, layout, g, kind, list);
  const struct spp_arch *a = job->arch;
  struct products p;
  spp_kept_append(&v, &op_input, SPP_BLOCK_NORM1, 0, v.act, g->stream_tokens, a->hidden);
  spp_kept_append(&v, &op_attention, SPP_BLOCK_ATTENTION, 0, v.act, g->tokens, g->o_width);
  spp_kept_append(&v, &op_lse, SPP_BLOCK_ATTENTION, 0, SPP_DTYPE_FP32, g->tokens, g->heads_local);
  list_products(&v, &p);
  if (job->fp4) v.in = SPP_KEPT_IN_WIDE; /* the policy names no FP4 product: all are run again */
  for (int i = 0; i < p.count; i += 2)
    if (i + 1 < p.count || job->kernels == SPP_KERNELS_EAGER)
      spp_kept_append(&v, &op_products, p.block[i], 0, v.act, p.rows[i], p.cols[i]);
}
