#include "exec/weights.h"

#include <math.h>
#include <string.h>

#include "base/num.h"

static const struct {
  const char *name;
  enum spp_slot slot;
} layer_slots[] =
    {
        {"input_layernorm", SPP_SLOT_NORM1},
        {"post_attention_layernorm", SPP_SLOT_NORM2},
        {"q_proj", SPP_SLOT_Q},
        {"k_proj", SPP_SLOT_K},
        {"v_proj", SPP_SLOT_V},
        {"q_proj.bias", SPP_SLOT_Q_BIAS},
        {"k_proj.bias", SPP_SLOT_K_BIAS},
        {"v_proj.bias", SPP_SLOT_V_BIAS},
        {"q_norm", SPP_SLOT_Q_NORM},
        {"k_norm", SPP_SLOT_K_NORM},
        {"o_proj", SPP_SLOT_O},
        {"gate_proj", SPP_SLOT_GATE},
        {"up_proj", SPP_SLOT_UP},
        {"down_proj", SPP_SLOT_DOWN},
},
  outer_slots[] = {
      {"embed_tokens", SPP_SLOT_EMBEDDING},
      {"norm", SPP_SLOT_FINAL_NORM},
      {"lm_head", SPP_SLOT_HEAD},
};

static int layer_slot(const char *name) {
  for (size_t i = 0; i < sizeof layer_slots / sizeof layer_slots[0]; i++)
    if (strcmp(layer_slots[i].name, name) == 0) return (int)layer_slots[i].slot;
  return -1;
}
static int outer_slot(const char *name) {
  for (size_t i = 0; i < sizeof outer_slots / sizeof outer_slots[0]; i++)
    if (strcmp(outer_slots[i].name, name) == 0) return (int)outer_slots[i].slot;
  return -1;
}

/* Weights it has no code for, and what no weight tells. */
static const char *unknown_part(const struct spp_arch *a) {
  if (a->kind_count != 1) return "layers of several kinds";
  if (a->norm != SPP_NORM_RMS || a->norms_per_layer != 2 || a->parallel_block)
    return "norms other than two RMSNorms";
  if (a->attention != SPP_ATTENTION_GQA || a->qk_norm == SPP_QK_NORM_FULL) return "this attention";
  if (a->kinds[0].window_tokens > 0) return "sliding windows";
  if (a->logit_softcap || a->attention_softcap) return "soft-capped logits";
  for (int i = 0; i < a->kinds[0].weight_count; i++)
    if (layer_slot(a->kinds[0].weights[i].name) < 0 || a->kinds[0].weights[i].copies != 1)
      return a->kinds[0].weights[i].name;
  for (int i = 0; i < a->outer_weight_count; i++)
    if (outer_slot(a->outer_weights[i].name) < 0) return a->outer_weights[i].name;
  return NULL;
}

enum spp_status spp_weights_supported(const struct spp_arch *arch, struct spp_diag *diag) {
  const char *what = unknown_part(arch);
  if (!what) return SPP_OK;
  return spp_diag_set(diag, SPP_ERR_ABSENT, arch->name, "use a dense model of the Llama or Qwen families",
                      "the engine cannot run %s", what);
}

static int64_t elements(const struct spp_weight *w) {
  return w->rows * w->cols;
}

static int64_t outer_total(const struct spp_arch *a) {
  int64_t n = 0;
  for (int i = 0; i < a->outer_weight_count; i++)
    n += elements(&a->outer_weights[i]);
  return n;
}
static int64_t layer_total(const struct spp_arch *a) {
  int64_t n = 0;
  for (int i = 0; i < a->kinds[0].weight_count; i++)
    n += elements(&a->kinds[0].weights[i]);
  return n;
}
int64_t spp_weights_total(const struct spp_arch *arch) {
  return outer_total(arch) + arch->layers * layer_total(arch);
}

struct placer {
  int64_t tp, tp_rank;
};

static void hold(const struct placer *p, struct spp_unit *unit, enum spp_slot slot,
                 const struct spp_weight *w, int64_t number) {
  int64_t by_rows = w->split == SPP_SPLIT_OUTPUT ? p->tp : 1,
          by_cols = w->split == SPP_SPLIT_INPUT ? p->tp : 1;
  struct spp_held *h = &unit->held[slot];
  *h = (struct spp_held){.weight = w,
                         .offset = unit->floats,
                         .rows = w->rows / by_rows,
                         .cols = w->cols / by_cols,
                         .number = number};
  h->first_row = by_rows > 1 ? p->tp_rank * h->rows : 0;
  h->first_col = by_cols > 1 ? p->tp_rank * h->cols : 0;
  unit->floats += h->rows * h->cols;
}

static void place_layer(const struct placer *p, const struct spp_arch *a, int64_t layer,
                        struct spp_unit *unit) {
  int64_t number = outer_total(a) + layer * layer_total(a);
  for (int i = 0; i < a->kinds[0].weight_count; i++) {
    const struct spp_weight *w = &a->kinds[0].weights[i];
    hold(p, unit, (enum spp_slot)layer_slot(w->name), w, number);
    number += elements(w);
  }
}

static void place_outer(const struct placer *p, const struct spp_arch *a, enum spp_slot wanted,
                        enum spp_slot as, struct spp_unit *unit) {
  int64_t number = 0;
  for (int i = 0; i < a->outer_weight_count; i++) {
    const struct spp_weight *w = &a->outer_weights[i];
    if (outer_slot(w->name) == (int)wanted) hold(p, unit, as, w, number);
    number += elements(w);
  }
}

static void place_layers(const struct spp_exec_plan *plan, const struct placer *p, int64_t stage,
                         struct spp_unit *units) {
  for (int64_t chunk = 0; chunk < plan->layout.vpp; chunk++) {
    int64_t first, count = spp_stage_chunk(&plan->job, &plan->layout, stage, chunk, &first);
    for (int64_t i = 0; i < count; i++)
      place_layer(p, plan->job.arch, first + i, units++);
  }
}

/* A tied head on another stage than the embedding is a copy of it, in a unit like the embedding's so that
 * their shards match; on the same stage it is the embedding. */
static void place_tail(const struct placer *p, const struct spp_arch *a, struct spp_stage_weights *w) {
  bool copy = a->tied && w->first_layer_unit == 0;
  w->tail_unit = w->first_layer_unit + w->layer_count;
  w->head_unit = copy ? w->tail_unit + 1 : a->tied ? 0 : w->tail_unit;
  place_outer(p, a, SPP_SLOT_FINAL_NORM, SPP_SLOT_FINAL_NORM, &w->units[w->tail_unit]);
  if (!a->tied) place_outer(p, a, SPP_SLOT_HEAD, SPP_SLOT_HEAD, &w->units[w->tail_unit]);
  if (copy) place_outer(p, a, SPP_SLOT_EMBEDDING, SPP_SLOT_HEAD, &w->units[w->head_unit]);
}

enum spp_status spp_weights_place(const struct spp_exec_plan *plan, int64_t stage, int64_t tp_rank,
                                  struct spp_arena *arena, struct spp_stage_weights *weights,
                                  struct spp_diag *diag) {
  const struct spp_arch *a = plan->job.arch;
  const struct placer p = {plan->layout.tp, tp_rank};
  struct spp_stage s;
  spp_stage_resolve(&plan->job, &plan->layout, &plan->geometry, stage, &s);
  struct spp_stage_weights w = {
      .layer_count = s.layers, .first_layer_unit = s.first, .tail_unit = -1, .head_unit = -1};
  w.unit_count = w.layer_count + s.first + s.last + (a->tied && s.last && !s.first);
  w.units = spp_arena_array(arena, (size_t)w.unit_count, sizeof *w.units);
  if (!w.units) return spp_diag_oom(diag);
  if (s.first) place_outer(&p, a, SPP_SLOT_EMBEDDING, SPP_SLOT_EMBEDDING, &w.units[0]);
  place_layers(plan, &p, stage, w.units + w.first_layer_unit);
  if (s.last) place_tail(&p, a, &w);
  for (int64_t i = 0; i < w.unit_count; i++) {
    w.units[i].offset = w.floats;
    w.floats += w.units[i].floats;
  }
  *weights = w;
  return SPP_OK;
}

/* splitmix64 of the element's number (Steele, Lea, Flood, 2014), to [-1, 1). */
static double uniform(int64_t number) {
  uint64_t z = (uint64_t)number * UINT64_C(0x9e3779b97f4a7c15) + UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  z ^= z >> 31;
  return (double)(z >> 11) * 0x1p-52 - 1.0;
}

/* Vectors near 1 (norms) or 0 (biases); matrices so that products keep the size of their input. */
float spp_weight_initial(const struct spp_weight *weight, int64_t number) {
  double u = uniform(number);
  if (weight->role == SPP_ROLE_EMBEDDING) return (float)u;
  if (weight->linear) return (float)(u * sqrt(3.0 / (double)weight->cols));
  return (float)(strstr(weight->name, "norm") ? 1.0 + 0.1 * u : 0.1 * u);
}
