/* Which layers wait for their backward while one of a sort is at work. A pass goes through a stage in order:
 * in a layer's forward those behind it have not run, in its backward they are gone. So the last layer of each
 * sort has most beside it, and layers that are alike need one look. */
#include <string.h>

#include "model/memory_parts.h"

enum { ANY = -1, MAX_CHUNKS = 64 };

static bool frees_at_once(const struct spp_memory_stage *s) {
  return s->view->job->framework->sharding == SPP_SHARDING_UNITS;
}

static bool is_mixed(const struct spp_memory_stage *s) {
  return s->layers[SPP_LAYER_DENSE] > 0 && s->layers[SPP_LAYER_MOE] > 0;
}

static int64_t recomputed_layers(const struct spp_memory_stage *s) {
  return s->recomputed[SPP_LAYER_DENSE] + s->recomputed[SPP_LAYER_MOE];
}

/* Are all layers of the stage recomputed, or none? */
static bool all_or_none(const struct spp_memory_stage *s) {
  return recomputed_layers(s) == 0 || recomputed_layers(s) == s->stage->layers;
}

/* Which layers a turn is of: a class, and, where it matters, recomputed or not. */
struct sort {
  enum spp_layer_class class;
  int again; /* or ANY */
};

static int list_sorts(const struct spp_memory_stage *s, struct sort sorts[SPP_TURNS_MAX]) {
  int count = 0;
  for (int c = 0; c < SPP_LAYER_CLASS_COUNT; c++) {
    enum spp_layer_class class = (enum spp_layer_class)c;
    int64_t again = s->recomputed[c], kept = s->layers[c] - again;
    if (s->layers[c] == 0) continue;
    if (!frees_at_once(s)) sorts[count++] = (struct sort){class, ANY};
    if (frees_at_once(s) && kept > 0) sorts[count++] = (struct sort){class, 0};
    if (frees_at_once(s) && again > 0) sorts[count++] = (struct sort){class, 1};
  }
  if (count == 0) sorts[count++] = (struct sort){SPP_LAYER_DENSE, ANY};
  return count;
}

struct counts {
  int64_t kept[SPP_LAYER_CLASS_COUNT], inputs[SPP_LAYER_CLASS_COUNT];
};

/* Layers of one chunk, [first, first + count) of the model; the first `again` are recomputed. */
struct chunk {
  int64_t first, count, again;
};

static enum spp_layer_class class_of(const struct spp_memory_stage *s, int64_t layer) {
  const struct spp_arch *arch = s->view->job->arch;
  return arch->kinds[arch->kind_of_layer[layer]].moe ? SPP_LAYER_MOE : SPP_LAYER_DENSE;
}

static void count_layer(const struct spp_memory_stage *s, const struct chunk *c, int64_t i, int64_t n,
                        struct counts *counts) {
  bool again = i < c->again;
  int64_t *of = again ? counts->inputs : counts->kept;
  of[class_of(s, c->first + i)] += n;
}

/* Layers behind the last one of a sort; false: there is none. */
static bool count_behind(const struct spp_memory_stage *s, const struct chunk *c, struct sort sort,
                         struct counts *behind) {
  memset(behind, 0, sizeof *behind);
  for (int64_t i = c->count; i-- > 0;) {
    bool again = i < c->again;
    if (class_of(s, c->first + i) == sort.class && (sort.again == ANY || (sort.again == 1) == again))
      return true;
    count_layer(s, c, i, 1, behind);
  }
  return false;
}

/* Does anything run behind the first layer that a stage's own tensors could outweigh? */
static bool end_matters(const struct spp_memory_stage *s) {
  return s->stage->first && (frees_at_once(s) || s->view->job->arch->vision.kind != SPP_VISION_NONE);
}

static int64_t units_of(const struct spp_memory_stage *s, int64_t layers) {
  int64_t unit = spp_memory_recompute_unit(s->view->layout);
  return unit == 1 ? layers : spp_ceil_div(layers, unit);
}

/* All layers of the micro-batches in flight, and what is left of them when the first of those is done. */
static void count_in_flight(const struct spp_memory_stage *s, int64_t layers,
                            int64_t counts[SPP_WAIT_COUNT]) {
  if (layers == 0) return;
  int64_t all = spp_memory_in_flight(s->stage, layers);
  for (int w = 0; w < SPP_WAIT_END; w++)
    counts[w] = all;
  if (s->stage->in_flight_num == 1 || !end_matters(s)) return;
  struct spp_stage others = *s->stage;
  others.in_flight_num -= 1;
  counts[SPP_WAIT_END] = spp_memory_in_flight(&others, layers);
}

static void count_all(const struct spp_memory_stage *s, struct spp_memory_turn *t) {
  for (int c = 0; c < SPP_LAYER_CLASS_COUNT; c++) {
    if (s->layers[c] == 0) continue;
    count_in_flight(s, spp_memory_layers_here(s->view, s->layers[c] - s->recomputed[c]), t->kept[c]);
    count_in_flight(s, units_of(s, s->recomputed[c]), t->inputs[c]);
  }
}

/* At the end of backward only the running layer is left. */
static void leave_late(const struct spp_memory_stage *s, struct spp_memory_turn *t) {
  for (int c = 0; c < SPP_LAYER_CLASS_COUNT; c++) {
    t->kept[c][SPP_WAIT_BACKWARD] = 0;
    t->inputs[c][SPP_WAIT_BACKWARD] = s->recomputed[c] > 0 ? 1 : 0;
  }
}

static void set_behind(const struct spp_memory_stage *s, struct sort sort, struct spp_memory_turn *t) {
  const struct chunk whole = {s->stage->first_layer, s->stage->layers, recomputed_layers(s)};
  struct counts behind;
  if ((!is_mixed(s) && (!frees_at_once(s) || all_or_none(s))) || s->view->g->vpp > 1) return;
  count_behind(s, &whole, sort, &behind);
  for (int c = 0; c < SPP_LAYER_CLASS_COUNT; c++) {
    int64_t inputs = behind.inputs[c] / spp_memory_recompute_unit(s->view->layout);
    for (int w = SPP_WAIT_FORWARD; w <= SPP_WAIT_BACKWARD; w++) {
      t->kept[c][w] = spp_max64(0, t->kept[c][w] - behind.kept[c]);
      t->inputs[c][w] -= inputs;
    }
  }
}

/* One block a direction is on its way, once there has been one. */
static void set_traffic(const struct spp_memory_stage *s, struct spp_memory_turn *t) {
  const unsigned always = (1u << SPP_WAIT_COUNT) - 1u,
                 backward = 1u << SPP_WAIT_BACKWARD | 1u << SPP_WAIT_END;
  const struct spp_geometry *g = s->view->g;
  int64_t rounds = spp_sat_mul(g->m, g->vpp);
  bool sends = !s->stage->last || g->vpp > 1, returns = !s->stage->first || g->vpp > 1;
  t->sent = g->pp == 1 || !sends ? 0 : rounds > 1 ? always : backward;
  t->returned = g->pp == 1 || !returns || rounds <= s->stage->in_flight_num ? 0 : always;
}

static struct spp_memory_turn turn_of(const struct spp_memory_stage *s, struct sort sort) {
  bool again = sort.again == ANY ? s->recomputed[sort.class] > 0 : sort.again == 1;
  return (struct spp_memory_turn){.class = sort.class, .again = again};
}

static int alike(const struct spp_memory_stage *s, struct spp_memory_turn turns[SPP_TURNS_MAX]) {
  struct sort sorts[SPP_TURNS_MAX];
  int count = list_sorts(s, sorts);
  for (int i = 0; i < count; i++) {
    turns[i] = turn_of(s, sorts[i]);
    count_all(s, &turns[i]);
    set_behind(s, sorts[i], &turns[i]);
    if (s->late) leave_late(s, &turns[i]);
    if (frees_at_once(s)) set_traffic(s, &turns[i]);
  }
  return count;
}

/* --- interleaved chunks that are not alike: step by step --- */

struct walk {
  const struct spp_memory_stage *s;
  struct sort sorts[SPP_TURNS_MAX];
  int sort_count;
  int64_t pp, vpp, steps, ahead; /* of forward, and how many before the first backward */
  struct counts whole[MAX_CHUNKS];
  struct counts behind[MAX_CHUNKS][SPP_TURNS_MAX];
  bool has[MAX_CHUNKS][SPP_TURNS_MAX];
  int64_t kept_bytes[SPP_LAYER_CLASS_COUNT], input_bytes; /* of a layer */
  int64_t block_bytes;                                    /* of a stage's output, where it is freed at once */
  struct counts now;
  bool sent, returned;
  struct spp_memory_turn *turns;
  int64_t most[SPP_TURNS_MAX][SPP_WAIT_COUNT];
};

static void accumulate(struct counts *sum, const struct counts *counts, int64_t n) {
  for (int c = 0; c < SPP_LAYER_CLASS_COUNT; c++) {
    sum->kept[c] += n * counts->kept[c];
    sum->inputs[c] += n * counts->inputs[c];
  }
}

static int64_t bytes_of(const struct walk *w, const struct counts *counts) {
  int64_t bytes = (w->sent + w->returned) * w->block_bytes;
  for (int c = 0; c < SPP_LAYER_CLASS_COUNT; c++)
    bytes = spp_sat_add(bytes, spp_sat_add(spp_sat_mul(counts->kept[c], w->kept_bytes[c]),
                                           spp_sat_mul(counts->inputs[c], w->input_bytes)));
  return bytes;
}

static void look(struct walk *w, int turn, enum spp_wait wait, const struct counts *counts) {
  struct spp_memory_turn *t = &w->turns[turn];
  const unsigned here = 1u << wait;
  int64_t bytes = bytes_of(w, counts);
  if (bytes <= w->most[turn][wait]) return;
  w->most[turn][wait] = bytes;
  for (int c = 0; c < SPP_LAYER_CLASS_COUNT; c++) {
    t->kept[c][wait] = counts->kept[c];
    t->inputs[c][wait] = counts->inputs[c];
  }
  t->sent = w->sent ? t->sent | here : t->sent & ~here;
  t->returned = w->returned ? t->returned | here : t->returned & ~here;
}

/* The layers of a chunk at work: its tensors are among those counted. */
static void look_at_layers(struct walk *w, int64_t chunk, enum spp_wait wait) {
  for (int i = 0; i < w->sort_count; i++) {
    struct counts counts = w->now;
    if (!w->has[chunk][i]) continue;
    accumulate(&counts, &w->behind[chunk][i], -1);
    look(w, i, wait, &counts);
  }
}
static void look_at_all(struct walk *w, enum spp_wait wait) {
  for (int i = 0; i < w->sort_count; i++)
    look(w, i, wait, &w->now);
}

/* Micro-batches go in groups of pp through chunk after chunk; backward takes the chunks from the last
 * (exec/pipeline.c; NVIDIA/Megatron-LM megatron/core/pipeline_parallel/schedules.py get_schedule_table). */
static void walk_forward(struct walk *w, int64_t step) {
  int64_t chunk = step % (w->pp * w->vpp) / w->pp;
  accumulate(&w->now, &w->whole[chunk], 1);
  look_at_layers(w, chunk, SPP_WAIT_FORWARD);
  if (w->s->stage->last && chunk == w->vpp - 1)
    look_at_all(w, SPP_WAIT_LOSS);
  else
    w->sent = true;
}
static void walk_backward(struct walk *w, int64_t step) {
  int64_t chunk = w->vpp - 1 - step % (w->pp * w->vpp) / w->pp;
  look_at_layers(w, chunk, SPP_WAIT_BACKWARD);
  accumulate(&w->now, &w->whole[chunk], -1);
  if (!w->s->stage->first || chunk > 0)
    w->returned = true;
  else if (end_matters(w->s))
    look_at_all(w, SPP_WAIT_END);
}

static void walk_chunks(struct walk *w) {
  const struct spp_memory_stage *s = w->s;
  for (int64_t i = 0; i < w->vpp; i++) {
    struct chunk c = {.again = spp_stage_chunk_recomputed(s->view->layout)};
    c.count = spp_stage_chunk(s->view->job, s->view->layout, s->stage->index, i, &c.first);
    memset(&w->whole[i], 0, sizeof w->whole[i]);
    for (int64_t l = 0; l < c.count; l++)
      count_layer(s, &c, l, 1, &w->whole[i]);
    for (int k = 0; k < w->sort_count; k++)
      w->has[i][k] = count_behind(s, &c, w->sorts[k], &w->behind[i][k]);
  }
}

/* A group of steps after the warm-up is like the next one. */
static void walk_begin(struct walk *w) {
  const struct spp_memory_view *v = w->s->view;
  int64_t group = w->pp * w->vpp, total = spp_sat_mul(v->g->m, w->vpp);
  w->ahead = spp_min64(2 * (w->pp - 1 - w->s->stage->index) + (w->vpp - 1) * w->pp, total);
  w->steps = spp_min64(total, spp_round_up(w->ahead, group) + group);
  for (int c = 0; c < SPP_LAYER_CLASS_COUNT; c++) {
    bool full = v->layout->recompute == SPP_RECOMPUTE_FULL;
    if (!v->kind[c]) continue;
    w->kept_bytes[c] = full ? spp_kept_without(&v->lists->kept[c], SPP_RC_ALWAYS)
                            : spp_memory_layer_keeps(v, (enum spp_layer_class)c);
  }
  w->input_bytes = spp_memory_input_bytes(v);
  w->block_bytes = frees_at_once(w->s) ? w->input_bytes : 0;
}

/* Which chunk the steps of one direction are at: pp of them each. */
struct round {
  int64_t chunk, left;
};
static int64_t next_chunk(const struct walk *w, struct round *r, int64_t by) {
  if (r->left-- == 0) {
    r->chunk = (r->chunk + by + w->vpp) % w->vpp;
    r->left = w->pp - 1;
  }
  return r->chunk;
}

/* Chunks of one sort of layers differ in their number only: most are there at once, and most while the last
 * stage's last chunk, whose layers have run, is in the loss. */
static void walk_layers(const struct walk *w, struct spp_memory_turn *t) {
  const struct spp_memory_stage *s = w->s;
  struct round forward = {0, w->pp}, backward = {w->vpp - 1, w->pp};
  int64_t layers[MAX_CHUNKS], now = 0, most = 0, in_loss = 0, first;
  for (int64_t i = 0; i < w->vpp; i++)
    layers[i] = spp_stage_chunk(s->view->job, s->view->layout, s->stage->index, i, &first);
  for (int64_t k = 0; k < w->steps; k++) {
    int64_t chunk = next_chunk(w, &forward, 1);
    now += layers[chunk];
    most = spp_max64(most, now);
    if (chunk == w->vpp - 1) in_loss = spp_max64(in_loss, now);
    if (k >= w->ahead) now -= layers[next_chunk(w, &backward, -1)];
  }
  int64_t *waiting = (s->recomputed[t->class] > 0 ? t->inputs : t->kept)[t->class];
  for (int i = 0; i < SPP_WAIT_END; i++)
    waiting[i] = i == SPP_WAIT_LOSS && s->stage->last ? in_loss : most;
}

static int unlike(const struct spp_memory_stage *s, struct spp_memory_turn turns[SPP_TURNS_MAX]) {
  struct walk w = {.s = s, .pp = s->view->g->pp, .vpp = s->view->g->vpp, .turns = turns};
  w.sort_count = list_sorts(s, w.sorts);
  for (int i = 0; i < w.sort_count; i++) {
    turns[i] = turn_of(s, w.sorts[i]);
    for (int k = 0; k < SPP_WAIT_COUNT; k++)
      w.most[i][k] = -1;
  }
  walk_begin(&w);
  if (w.sort_count == 1 && !frees_at_once(s) && !end_matters(s) && all_or_none(s)) {
    walk_layers(&w, &turns[0]);
    return 1;
  }
  walk_chunks(&w);
  for (int64_t k = 0; k < w.steps + w.ahead; k++) {
    if (k < w.steps) walk_forward(&w, k);
    if (k >= w.ahead) walk_backward(&w, k - w.ahead);
  }
  return w.sort_count;
}

bool spp_memory_walks(const struct spp_memory_stage *s) {
  const struct spp_memory_view *v = s->view;
  if (v->g->vpp <= 1 || v->g->vpp > MAX_CHUNKS || v->g->pp <= 1 || !v->trains) return false;
  if (v->layout->schedule != SPP_SCHEDULE_INTERLEAVED || spp_memory_recompute_unit(v->layout) > 1)
    return false;
  return is_mixed(s) || (frees_at_once(s) && !all_or_none(s)) || s->stage->layers % v->g->vpp != 0;
}

int spp_memory_turns(const struct spp_memory_stage *s, struct spp_memory_turn turns[SPP_TURNS_MAX]) {
  return spp_memory_walks(s) ? unlike(s, turns) : alike(s, turns);
}
