#include "model/memory_parts.h"

/* NVIDIA/TransformerEngine 2.9.0 transformer_engine/pytorch/module/base.py get_dummy_wgrad: weight
 * gradients are accumulated into main_grad inside the product; autograd still wants a tensor of the weight's
 * shape and type, and gets one that is made once per shape and never freed. Matrices as Megatron joins them:
 * q with k and v, gate with up. */
static const struct spp_tensor placeholder = {"placeholder gradients", SPP_PART_GRADIENTS,
                                              "one per matrix shape, for autograd"};
static const struct spp_tensor workspace = {"matrix product workspaces", SPP_PART_TRANSIENT,
                                            "held by the libraries from the first product on"};
enum { SHAPES_MAX = 16 };
struct shapes {
  int count;
  int64_t rows[SHAPES_MAX], cols[SHAPES_MAX];
};

static void see(struct shapes *seen, int64_t rows, int64_t cols) {
  if (rows <= 0 || cols <= 0 || seen->count == SHAPES_MAX) return;
  for (int i = 0; i < seen->count; i++)
    if (seen->rows[i] == rows && seen->cols[i] == cols) return;
  seen->rows[seen->count] = rows;
  seen->cols[seen->count++] = cols;
}

static void see_attention(const struct spp_memory_view *v, struct shapes *seen) {
  const struct spp_arch *a = v->job->arch;
  const struct spp_geometry *g = v->g;
  see(seen, a->hidden, g->o_width);
  if (a->attention != SPP_ATTENTION_MLA) {
    see(seen, g->q_width + g->k_width + g->v_width, a->hidden);
    return;
  }
  see(seen, g->q_width, a->q_lora_rank > 0 ? a->q_lora_rank : a->hidden);
  see(seen, a->q_lora_rank, a->hidden);
  see(seen, a->kv_lora_rank + a->qk_rope_dim, a->hidden);
  see(seen, g->heads_local * (a->qk_nope_dim + a->v_head_dim), a->kv_lora_rank);
}

static void see_mlp(const struct spp_memory_view *v, const struct spp_layer_kind *kind,
                    enum spp_weight_role role, struct shapes *seen) {
  const struct spp_arch *a = v->job->arch;
  int64_t width = spp_mlp_width(v->g, kind, role);
  see(seen, a->mlp == SPP_MLP_GATED ? 2 * width : width, a->hidden);
  see(seen, a->hidden, width);
}

void spp_memory_add_fused_grads(const struct spp_memory_stage *s, struct spp_memory_sum *sum) {
  static const enum spp_weight_role roles[] = {SPP_ROLE_MLP, SPP_ROLE_EXPERT, SPP_ROLE_SHARED_EXPERT};
  const struct spp_memory_view *v = s->view;
  const unsigned live = SPP_LIVE_ALWAYS & ~SPP_LIVE(SPP_MOMENT_LOAD);
  struct shapes seen = {.count = 0};
  spp_memory_add_bytes(sum, &workspace, live, v->job->framework->workspace_bytes);
  if (!v->job->framework->placeholder_grads || spp_job_has_adapters(v->job)) return;
  see_attention(v, &seen);
  for (int c = 0; c < SPP_LAYER_CLASS_COUNT; c++)
    for (size_t r = 0; s->layers[c] > 0 && r < sizeof roles / sizeof roles[0]; r++)
      see_mlp(v, v->kind[c], roles[r], &seen);
  for (int i = 0; i < seen.count; i++)
    spp_memory_add(sum, &placeholder, live, v->act, seen.rows[i], seen.cols[i], 1);
}
