#include "exec/weights.h"

#include <math.h>
#include <string.h>

#include "base/num.h"
#include "kernels/attention.h"

/* A row of the model's list of weights, or one of the parts that it joins in one matrix. */
struct slot_name {
  const char *name;
  enum spp_slot slots[3]; /* SPP_SLOT_COUNT: no more */
};
#define ONE(slot)                                                                                            \
  { slot, SPP_SLOT_COUNT, SPP_SLOT_COUNT }
#define TWO(one, other)                                                                                      \
  { one, other, SPP_SLOT_COUNT }
static const struct slot_name layer_slots[] =
    {
        {"input_layernorm", ONE(SPP_SLOT_NORM1)},
        {"post_attention_layernorm", ONE(SPP_SLOT_NORM2)},
        {"pre_mlp_layernorm", ONE(SPP_SLOT_NORM3)},
        {"post_mlp_layernorm", ONE(SPP_SLOT_NORM4)},
        {"input_layernorm.bias", ONE(SPP_SLOT_NORM1_BIAS)},
        {"post_attention_layernorm.bias", ONE(SPP_SLOT_NORM2_BIAS)},
        {"pre_mlp_layernorm.bias", ONE(SPP_SLOT_NORM3_BIAS)},
        {"post_mlp_layernorm.bias", ONE(SPP_SLOT_NORM4_BIAS)},
        {"q_proj", ONE(SPP_SLOT_Q)},
        {"k_proj", ONE(SPP_SLOT_K)},
        {"v_proj", ONE(SPP_SLOT_V)},
        {"qkv_proj", {SPP_SLOT_Q, SPP_SLOT_K, SPP_SLOT_V}},
        {"q_proj.bias", ONE(SPP_SLOT_Q_BIAS)},
        {"k_proj.bias", ONE(SPP_SLOT_K_BIAS)},
        {"v_proj.bias", ONE(SPP_SLOT_V_BIAS)},
        {"qkv_proj.bias", {SPP_SLOT_Q_BIAS, SPP_SLOT_K_BIAS, SPP_SLOT_V_BIAS}},
        {"q_norm", ONE(SPP_SLOT_Q_NORM)},
        {"k_norm", ONE(SPP_SLOT_K_NORM)},
        {"sinks", ONE(SPP_SLOT_SINKS)},
        {"q_a_proj", ONE(SPP_SLOT_Q_A)},
        {"q_a_proj.bias", ONE(SPP_SLOT_Q_A_BIAS)},
        {"q_a_layernorm", ONE(SPP_SLOT_Q_A_NORM)},
        {"q_b_proj", ONE(SPP_SLOT_Q_B)},
        {"kv_a_proj", ONE(SPP_SLOT_KV_A)},
        {"kv_a_proj.bias", ONE(SPP_SLOT_KV_A_BIAS)},
        {"kv_a_layernorm", ONE(SPP_SLOT_KV_A_NORM)},
        {"kv_b_proj", ONE(SPP_SLOT_KV_B)},
        {"o_proj", ONE(SPP_SLOT_O)},
        {"o_proj.bias", ONE(SPP_SLOT_O_BIAS)},
        {"gate_proj", ONE(SPP_SLOT_GATE)},
        {"up_proj", ONE(SPP_SLOT_UP)},
        {"gate_up_proj", TWO(SPP_SLOT_GATE, SPP_SLOT_UP)},
        {"down_proj", ONE(SPP_SLOT_DOWN)},
        {"gate_proj.bias", ONE(SPP_SLOT_GATE_BIAS)},
        {"up_proj.bias", ONE(SPP_SLOT_UP_BIAS)},
        {"gate_up_proj.bias", TWO(SPP_SLOT_GATE_BIAS, SPP_SLOT_UP_BIAS)},
        {"down_proj.bias", ONE(SPP_SLOT_DOWN_BIAS)},
        {"router", ONE(SPP_SLOT_ROUTER)},
        {"router.bias", ONE(SPP_SLOT_ROUTER_BIAS)},
},
                              expert_slots[] =
                                  {
                                      {"gate_proj", ONE(SPP_SLOT_EXPERT_GATE)},
                                      {"up_proj", ONE(SPP_SLOT_EXPERT_UP)},
                                      {"gate_up_proj", TWO(SPP_SLOT_EXPERT_GATE, SPP_SLOT_EXPERT_UP)},
                                      {"down_proj", ONE(SPP_SLOT_EXPERT_DOWN)},
                                      {"gate_proj.bias", ONE(SPP_SLOT_EXPERT_GATE_BIAS)},
                                      {"up_proj.bias", ONE(SPP_SLOT_EXPERT_UP_BIAS)},
                                      {"gate_up_proj.bias",
                                       TWO(SPP_SLOT_EXPERT_GATE_BIAS, SPP_SLOT_EXPERT_UP_BIAS)},
                                      {"down_proj.bias", ONE(SPP_SLOT_EXPERT_DOWN_BIAS)},
},
                              shared_slots[] =
                                  {
                                      {"gate_proj", ONE(SPP_SLOT_SHARED_GATE)},
                                      {"up_proj", ONE(SPP_SLOT_SHARED_UP)},
                                      {"gate_up_proj", TWO(SPP_SLOT_SHARED_GATE, SPP_SLOT_SHARED_UP)},
                                      {"down_proj", ONE(SPP_SLOT_SHARED_DOWN)},
                                      {"shared_expert_gate", ONE(SPP_SLOT_SHARED_SWITCH)},
},
                              outer_slots[] = {
                                  {"embed_tokens", ONE(SPP_SLOT_EMBEDDING)},
                                  {"embed_positions", ONE(SPP_SLOT_POSITIONS)},
                                  {"norm", ONE(SPP_SLOT_FINAL_NORM)},
                                  {"norm.bias", ONE(SPP_SLOT_FINAL_NORM_BIAS)},
                                  {"lm_head", ONE(SPP_SLOT_HEAD)},
                                  {"lm_head.bias", ONE(SPP_SLOT_HEAD_BIAS)},
};

#define FIND(table, name) find(table, sizeof table / sizeof table[0], name)
static const struct slot_name *find(const struct slot_name *table, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(table[i].name, name) == 0) return &table[i];
  return NULL;
}
static const struct slot_name *layer_slot(const struct spp_weight *w) {
  if (w->role == SPP_ROLE_SHARED_EXPERT) return FIND(shared_slots, w->name);
  return w->role == SPP_ROLE_EXPERT ? FIND(expert_slots, w->name) : FIND(layer_slots, w->name);
}
static int outer_slot(const char *name) {
  const struct slot_name *row = FIND(outer_slots, name);
  return row ? (int)row->slots[0] : -1;
}

/* Modules that predict several tokens are left out, as the prediction leaves them out. They are last. */
static bool is_held(const struct spp_weight *outer) {
  return outer->role != SPP_ROLE_MTP;
}

/* What the engine lacks, and what to do instead. */
struct lack {
  const char *what, *hint;
};

static struct lack unknown_weight(const struct spp_arch *a) {
  const struct lack none = {NULL, NULL};
  const char *hint = "only predict can describe this layer";
  for (int k = 0; k < a->kind_count; k++)
    for (int i = 0; i < a->kinds[k].weight_count; i++)
      if (!layer_slot(&a->kinds[k].weights[i])) return (struct lack){a->kinds[k].weights[i].name, hint};
  for (int i = 0; i < a->outer_weight_count; i++)
    if (is_held(&a->outer_weights[i]) && outer_slot(a->outer_weights[i].name) < 0)
      return (struct lack){a->outer_weights[i].name, hint};
  return none;
}

/* Heads that the attention kernels take (kernels/attention.h). */
static bool has_kernels(int64_t head_dim) {
  return head_dim >= 8 && head_dim <= SPP_ATTN_MAX_HEAD_DIM && head_dim % 8 == 0;
}

/* Weights it has no code for, and what no weight tells. */
static struct lack unknown_part(const struct spp_arch *a) {
  const char *dense = "use a dense model, or one whose experts have a gate",
             *text = "use the text model of the family";
  if (a->mlp != SPP_MLP_GATED && a->experts > 0) return (struct lack){"experts without a gate", dense};
  if (a->rope_scaling.kind == SPP_ROPE_OTHER && a->rotary_dim > 0)
    return (struct lack){"this rope_scaling", "use one of type default, linear, llama3 or yarn"};
  if (a->vision.kind != SPP_VISION_NONE) return (struct lack){"vision towers", text};
  if (a->qk_unit) return (struct lack){"norms of q and k without weights", "use a model without use_qk_norm"};
  if (!has_kernels(spp_arch_q_width(a) / a->heads) || !has_kernels(spp_arch_o_width(a) / a->heads))
    return (struct lack){"heads of this width", "use heads of 8 to 256 elements, a multiple of 8"};
  return unknown_weight(a);
}

enum spp_status spp_weights_supported(const struct spp_arch *arch, struct spp_diag *diag) {
  const struct lack lack = unknown_part(arch);
  if (!lack.what) return SPP_OK;
  return spp_diag_set(diag, SPP_ERR_ABSENT, arch->name, lack.hint, "the engine cannot run %s", lack.what);
}

static int64_t outer_total(const struct spp_arch *a) {
  int64_t n = 0;
  for (int i = 0; i < a->outer_weight_count; i++)
    n += is_held(&a->outer_weights[i]) ? spp_weight_total(&a->outer_weights[i]) : 0;
  return n;
}
static int64_t kind_total(const struct spp_layer_kind *kind) {
  int64_t n = 0;
  for (int i = 0; i < kind->weight_count; i++)
    n += spp_weight_total(&kind->weights[i]);
  return n;
}
int64_t spp_weights_layer_first(const struct spp_arch *a, int64_t layer) {
  int64_t number = outer_total(a);
  for (int64_t l = 0; l < layer; l++)
    number += kind_total(&a->kinds[a->kind_of_layer[l]]);
  return number;
}
int64_t spp_weights_total(const struct spp_arch *arch) {
  return spp_weights_layer_first(arch, arch->layers);
}

struct placer {
  const struct spp_arch *arch;
  int64_t tp, tp_rank, ep, ep_rank;
};

/* Rows [first, first + rows) of each copy of a weight. */
struct part {
  const struct spp_weight *weight;
  int64_t first, rows, number;
};

/* Experts are whole, and ep ranks have some of them each. */
static void hold_experts(const struct placer *p, struct spp_unit *unit, enum spp_slot slot,
                         const struct part *part) {
  int64_t copies = part->weight->copies / p->ep;
  unit->held[slot] = (struct spp_held){.weight = part->weight,
                                       .offset = unit->expert_floats,
                                       .rows = copies * part->rows,
                                       .cols = part->weight->cols,
                                       .copy_rows = part->rows,
                                       .there = part->rows,
                                       .first_copy = p->ep_rank * copies,
                                       .first_row = part->first,
                                       .number = part->number};
  unit->expert_floats += copies * part->rows * part->weight->cols;
}

static void hold(const struct placer *p, struct spp_unit *unit, enum spp_slot slot, const struct part *part) {
  const struct spp_weight *w = part->weight;
  int64_t by_rows = w->split == SPP_SPLIT_OUTPUT ? p->tp : 1,
          by_cols = w->split == SPP_SPLIT_INPUT ? p->tp : 1;
  struct spp_held *h = &unit->held[slot];
  *h = (struct spp_held){.weight = w,
                         .offset = unit->floats,
                         .rows = spp_ceil_div(part->rows, by_rows),
                         .cols = w->cols / by_cols,
                         .number = part->number};
  h->copy_rows = h->rows;
  h->first_row = part->first + (by_rows > 1 ? p->tp_rank * h->rows : 0);
  h->first_col = by_cols > 1 ? p->tp_rank * h->cols : 0;
  h->there = spp_max64(0, spp_min64(h->rows, w->rows - h->first_row));
  unit->floats += h->rows * h->cols;
}

/* Rows of the parts of a joined matrix: q, then k and v, or halves. */
static int64_t part_rows(const struct spp_arch *a, const struct spp_weight *w, const struct slot_name *row,
                         int i) {
  if (row->slots[1] == SPP_SLOT_COUNT) return w->rows;
  if (row->slots[2] == SPP_SLOT_COUNT) return w->rows / 2;
  return (i == 0 ? a->heads : a->kv_heads) * a->head_dim;
}

static void place_layer(const struct placer *p, int64_t layer, struct spp_unit *unit) {
  const struct spp_layer_kind *kind = &p->arch->kinds[p->arch->kind_of_layer[layer]];
  int64_t number = spp_weights_layer_first(p->arch, layer);
  unit->kind = kind;
  unit->layer = layer;
  for (int i = 0; i < kind->weight_count; i++) {
    const struct spp_weight *w = &kind->weights[i];
    const struct slot_name *row = layer_slot(w);
    struct part part = {.weight = w, .number = number};
    for (int k = 0; k < 3 && row->slots[k] != SPP_SLOT_COUNT; k++) {
      part.rows = part_rows(p->arch, w, row, k);
      (spp_slot_is_expert((int)row->slots[k]) ? hold_experts : hold)(p, unit, row->slots[k], &part);
      part.first += part.rows;
    }
    number += spp_weight_total(w);
  }
}

static void place_outer(const struct placer *p, const struct spp_arch *a, enum spp_slot wanted,
                        enum spp_slot as, struct spp_unit *unit) {
  int64_t number = 0;
  for (int i = 0; i < a->outer_weight_count; i++) {
    const struct spp_weight *w = &a->outer_weights[i];
    if (is_held(w) && outer_slot(w->name) == (int)wanted)
      hold(p, unit, as, &(struct part){.weight = w, .rows = w->rows, .number = number});
    number += spp_weight_total(w);
  }
}

static void place_layers(const struct spp_exec_plan *plan, const struct placer *p, int64_t stage,
                         struct spp_unit *units) {
  for (int64_t chunk = 0; chunk < plan->layout.vpp; chunk++) {
    int64_t first, count = spp_stage_chunk(&plan->job, &plan->layout, stage, chunk, &first);
    for (int64_t i = 0; i < count; i++)
      place_layer(p, first + i, units++);
  }
}

/* A tied head on another stage than the embedding is a copy of it, in a unit like the embedding's so that
 * their shards match; on the same stage it is the embedding. */
static void place_tail(const struct placer *p, const struct spp_arch *a, struct spp_stage_weights *w) {
  bool copy = a->tied && w->first_layer_unit == 0; /* no embedding here */
  w->tail_unit = w->first_layer_unit + w->layer_count;
  w->head_unit = copy ? w->tail_unit + 1 : a->tied ? 0 : w->tail_unit;
  static const enum spp_slot own[] = {SPP_SLOT_FINAL_NORM, SPP_SLOT_FINAL_NORM_BIAS, SPP_SLOT_HEAD,
                                      SPP_SLOT_HEAD_BIAS};
  for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
    place_outer(p, a, own[i], own[i], &w->units[w->tail_unit]);
  if (copy) place_outer(p, a, SPP_SLOT_EMBEDDING, SPP_SLOT_HEAD, &w->units[w->head_unit]);
}

/* Dense parts first, unit after unit, then the experts. */
static void lay_out(struct spp_stage_weights *w) {
  for (int64_t i = 0; i < w->unit_count; i++) {
    w->units[i].offset = w->dense_floats;
    w->dense_floats += w->units[i].floats;
  }
  w->floats = w->dense_floats;
  for (int64_t i = 0; i < w->unit_count; i++) {
    w->units[i].expert_offset = w->floats;
    w->floats += w->units[i].expert_floats;
  }
}

enum spp_status spp_weights_place(const struct spp_exec_plan *plan, const struct spp_weights_rank *rank,
                                  struct spp_arena *arena, struct spp_stage_weights *weights,
                                  struct spp_diag *diag) {
  const struct spp_arch *a = plan->job.arch;
  const struct placer p = {a, plan->layout.tp, rank->tp, plan->layout.ep, rank->ep};
  struct spp_stage s;
  spp_stage_resolve(&plan->job, &plan->layout, &plan->geometry, rank->stage, &s);
  struct spp_stage_weights w = {
      .layer_count = s.layers, .position_unit = -1, .tail_unit = -1, .head_unit = -1};
  if (s.first && a->learned_positions > 0) w.position_unit = 1;
  w.first_layer_unit = s.first + (w.position_unit > 0);
  w.unit_count = w.first_layer_unit + w.layer_count + s.last + (a->tied && s.last && !s.first);
  w.units = spp_arena_array(arena, (size_t)w.unit_count, sizeof *w.units);
  if (!w.units) return spp_diag_oom(diag);
  if (s.first) place_outer(&p, a, SPP_SLOT_EMBEDDING, SPP_SLOT_EMBEDDING, &w.units[0]);
  if (w.position_unit > 0) place_outer(&p, a, SPP_SLOT_POSITIONS, SPP_SLOT_POSITIONS, &w.units[1]);
  place_layers(plan, &p, rank->stage, w.units + w.first_layer_unit);
  if (s.last) place_tail(&p, a, &w);
  lay_out(&w);
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

/* Vectors near 1 where they are used (norms) or 0 (biases); matrices so that products keep the size of their
 * input. */
float spp_weight_initial(const struct spp_arch *arch, const struct spp_weight *weight, int64_t number) {
  double u = uniform(number);
  if (weight->role == SPP_ROLE_EMBEDDING) return (float)u;
  if (weight->linear) return (float)(u * sqrt(3.0 / (double)weight->cols));
  bool scale = strstr(weight->name, "norm") && !strstr(weight->name, ".bias");
  return (float)(scale ? 1.0 - arch->norm_offset + 0.1 * u : 0.1 * u);
}
