#include "model/params.h"

#include <string.h>

#include "base/num.h"

int64_t spp_weight_elements(const struct spp_weight *w, int64_t tp, int64_t ep, int64_t etp) {
  bool expert = w->role == SPP_ROLE_EXPERT;
  int64_t cut = expert ? etp : tp;
  int64_t rows = w->split == SPP_SPLIT_OUTPUT ? spp_ceil_div(w->rows, cut) : w->rows;
  int64_t cols = w->split == SPP_SPLIT_INPUT ? spp_ceil_div(w->cols, cut) : w->cols;
  return rows * cols * (expert ? spp_ceil_div(w->copies, ep) : w->copies);
}

/* Sums over the rows of one layer. */
struct layer_sums {
  int64_t by_role[SPP_ROLE_COUNT];
  int64_t total, gemm, expert; /* gemm: matrices a token meets; expert: one expert */
};

static int64_t elements(const struct spp_weight *w) {
  return w->rows * w->cols * w->copies;
}

static void sum_layer(const struct spp_arch *a, const struct spp_layer_kind *kind, struct layer_sums *s) {
  memset(s, 0, sizeof *s);
  for (int i = 0; i < kind->weight_count; i++) {
    const struct spp_weight *w = &kind->weights[i];
    bool expert = w->role == SPP_ROLE_EXPERT;
    s->by_role[w->role] += elements(w);
    s->total += elements(w);
    if (expert) s->expert += w->rows * w->cols;
    if (w->linear) s->gemm += w->rows * w->cols * (expert ? a->experts_per_token : w->copies);
  }
}

static void count_layers(const struct spp_arch *a, struct spp_params *p) {
  for (int k = 0; k < a->kind_count; k++) {
    const struct spp_layer_kind *kind = &a->kinds[k];
    struct layer_sums s;
    sum_layer(a, kind, &s);
    int64_t visited = a->experts_per_token * s.expert, unvisited = s.by_role[SPP_ROLE_EXPERT] - visited;
    p->per_layer[k] = s.total;
    p->per_layer_attention = s.by_role[SPP_ROLE_ATTENTION];
    p->per_layer_norms = s.by_role[SPP_ROLE_NORM];
    if (kind->moe) {
      p->per_expert = s.expert;
      p->per_moe_mlp =
          s.by_role[SPP_ROLE_ROUTER] + s.by_role[SPP_ROLE_EXPERT] + s.by_role[SPP_ROLE_SHARED_EXPERT];
      p->per_moe_mlp_active = p->per_moe_mlp - unvisited;
    } else {
      p->per_dense_mlp = s.by_role[SPP_ROLE_MLP];
    }
    p->text += kind->count * s.total;
    p->active -= kind->moe ? kind->count * unvisited : 0;
    p->gemm_per_token += kind->count * s.gemm;
  }
}

void spp_params_count(const struct spp_arch *a, struct spp_params *p) {
  memset(p, 0, sizeof *p);
  count_layers(a, p);
  for (int i = 0; i < a->outer_weight_count; i++) {
    const struct spp_weight *w = &a->outer_weights[i];
    int64_t n = elements(w);
    switch (w->role) {
    case SPP_ROLE_MTP: p->mtp += n; break;
    case SPP_ROLE_VISION: p->vision += n; break;
    case SPP_ROLE_EMBEDDING: p->embedding += n, p->text += n; break;
    case SPP_ROLE_HEAD: p->head += n, p->text += n; break;
    default: p->text += n; break;
    }
  }
  p->total = p->text + p->vision;
  p->active += p->total; /* it held minus the experts a token does not visit */
  p->gemm_per_token += a->vocab * a->hidden;
}
