#include "model/evaluator_internal.h"

#include <string.h>

/* Only the first stage of a run is looked at: it has the most micro-batches in flight, and nothing else tells
 * it from the others. */
static void fill_held(const struct spp_memory_view *v, bool late, struct spp_kept_pipe *pipe,
                      struct spp_memory_totals *totals) {
  for (int r = 0; r < pipe->runs.count; r++) {
    struct spp_memory_stage s;
    struct spp_memory_sum sum;
    if (!pipe->looked_at[r]) continue;
    spp_memory_stage_layers(v, &pipe->run[r].stage, &s);
    spp_memory_stage_states(&s);
    s.late = late;
    memset(&sum, 0, sizeof sum);
    spp_memory_add_held(&s, &sum);
    spp_memory_totals_of(&sum, &totals[r]);
    pipe->gradient_ends = spp_memory_gradient_ends(&s);
  }
}

/* Totals by run of what sharding and offload decide. */
static const struct spp_memory_totals *held_of(const struct spp_evaluator *e, struct spp_memory_view *v,
                                               bool late, struct spp_kept_pipe *pipe) {
  bool again = spp_job_casts_weights(v->job) && v->layout->recompute == SPP_RECOMPUTE_FULL;
  int which = (v->grads_persist ? 1 : 0) + (late ? 2 : 0) + (again ? 4 : 0);
  if (pipe->held[which] == e->offload_turn) return pipe->held_totals[which];
  spp_memory_view_states(v);
  fill_held(v, late, pipe, pipe->held_totals[which]);
  pipe->held[which] = e->offload_turn;
  return pipe->held_totals[which];
}

/* Rows of one block that the same modules of a selective recompute drop live and die together: they are one
 * row of bytes, but for what may be a layer's input. Lists of absurd sizes are left as they are: their sums
 * saturate row by row. */
static void join_rows(struct spp_kept_list *list) {
  const int64_t most_bytes = INT64_C(1) << 40;
  int count = 0;
  if (list->bytes > most_bytes) return;
  for (int i = 0; i < list->count; i++) {
    const struct spp_kept k = list->items[i];
    bool input = k.block == SPP_BLOCK_INPUT;
    struct spp_kept *into = NULL;
    for (int j = 0; !input && !into && j < count; j++)
      if (list->items[j].block == k.block && list->items[j].modules == k.modules &&
          list->items[j].dtype == SPP_DTYPE_INT8 && list->items[j].in == k.in)
        into = &list->items[j];
    int64_t bytes = k.rows * k.cols * spp_dtype_bytes(k.dtype);
    if (into)
      into->rows += bytes;
    else
      list->items[count++] =
          input ? k : (struct spp_kept){k.tensor, SPP_DTYPE_INT8, k.block, k.modules, bytes, 1, k.in};
  }
  list->count = count;
}

/* The view of a layout, whose layers are looked at once. */
struct look {
  struct spp_memory_view view;
  struct spp_kept_tensors *tensors;
  struct spp_kept_beside *beside; /* of its micro-batch and loss */
  unsigned turn;
  bool layers_known;
};

static void know_layers(struct look *look) {
  struct spp_memory_view *v = &look->view;
  struct spp_kept_tensors *tensors = look->tensors;
  if (look->layers_known) return;
  look->layers_known = true;
  if (v->job->method == SPP_METHOD_QLORA) spp_memory_view_states(v); /* largest matrix */
  if (tensors->turn == look->turn) return;
  tensors->turn = look->turn;
  spp_memory_view_layers(v, &tensors->lists);
  for (int c = 0; c < SPP_LAYER_CLASS_COUNT; c++) {
    join_rows(&tensors->lists.kept[c]);
    join_rows(&tensors->lists.saved[c]);
    tensors->transients_known[c] = false;
    tensors->layer_keeps[c] = v->kind[c] ? spp_memory_layer_keeps(v, (enum spp_layer_class)c) : 0;
    tensors->whole_keeps[c] = v->kind[c] ? spp_kept_without(&tensors->lists.kept[c], SPP_RC_ALWAYS) : 0;
  }
}

/* Is the peak at the end of backward? With a pipeline gradients persist, so there is one stage. */
static bool is_late(const struct spp_evaluator *e, struct look *look, struct spp_kept_pipe *pipe,
                    struct spp_kept_slot *slot) {
  int tie = spp_memory_tie(look->view.job, look->view.layout);
  if (!spp_memory_may_be_late(&look->view)) return false;
  held_of(e, &look->view, false, pipe);
  if (slot->ended != e->layers_turn || slot->ends_tie != tie) {
    struct spp_memory_stage s;
    know_layers(look);
    spp_memory_stage_layers(&look->view, &pipe->run[0].stage, &s);
    slot->kept_ends = spp_memory_kept_ends(&s);
    slot->ended = e->layers_turn;
    slot->ends_tie = tie;
  }
  return spp_memory_is_late(&pipe->gradient_ends, &slot->kept_ends);
}

static void add_totals(const struct spp_memory_totals *a, const struct spp_memory_totals *b,
                       struct spp_memory_totals *sum) {
  for (int m = 0; m < SPP_MOMENT_COUNT; m++) {
    sum->moment[m] = a->moment[m] + b->moment[m];
    sum->held[m] = a->held[m] + b->held[m];
    sum->pass[m] = a->pass[m] + b->pass[m];
    sum->pass_free[m] = a->pass_free[m] + b->pass_free[m];
    sum->logits[m] = a->logits[m] + b->logits[m];
  }
  sum->weights = a->weights + b->weights;
  sum->spare = a->spare + b->spare;
  sum->spare_block = a->spare_block + b->spare_block;
  sum->outside = a->outside + b->outside;
  sum->pinned = a->pinned + b->pinned;
  sum->step_block = a->step_block + b->step_block;
  sum->step_made = a->step_made + b->step_made;
  sum->step_rows = a->step_rows + b->step_rows;
  sum->norm = a->norm + b->norm;
  sum->pass_blocks = a->pass_blocks + b->pass_blocks;
  sum->pass_block = a->pass_block + b->pass_block;
  sum->absurd = a->absurd || b->absurd;
}

/* Do transients depend on the stage? Else they are kept with the tensors of layers. */
static bool stage_transients(const struct spp_job *job) {
  return job->method == SPP_METHOD_QLORA;
}

/* What the running layer of a class needs beside what it keeps. */
static const struct spp_memory_totals *
transients_of(const struct look *look, const struct spp_memory_stage *s, const struct spp_memory_turn *turn) {
  struct spp_kept_tensors *tensors = look->tensors;
  struct spp_memory_totals *totals = &tensors->transients[turn->class];
  struct spp_memory_sum sum;
  if (tensors->transients_known[turn->class]) return totals;
  memset(&sum, 0, sizeof sum);
  spp_memory_add_transients(s, turn, &sum);
  spp_memory_totals_of(&sum, totals);
  tensors->transients_known[turn->class] = true;
  return totals;
}

/* What is beside the layers. */
static const struct spp_memory_totals *beside_of(const struct look *look, const struct spp_memory_stage *s) {
  struct spp_kept_beside *beside = &look->beside[s->stage->last];
  int tie = spp_memory_tie(look->view.job, look->view.layout);
  struct spp_memory_sum sum;
  if (beside->turn == look->turn && beside->tie == tie) return &beside->totals;
  memset(&sum, 0, sizeof sum);
  spp_memory_add_beside(s, &sum);
  spp_memory_totals_of(&sum, &beside->totals);
  beside->turn = look->turn;
  beside->tie = tie;
  return &beside->totals;
}

static void fill_running(const struct look *look, const struct spp_memory_stage *s,
                         const struct spp_memory_turn *turn, struct spp_memory_totals *totals) {
  bool apart = !stage_transients(s->view->job);
  struct spp_memory_sum sum;
  memset(&sum, 0, sizeof sum);
  spp_memory_add_vision(s, &sum);
  spp_memory_add_layers(s, turn, &sum);
  if (!apart) spp_memory_add_transients(s, turn, &sum);
  spp_memory_totals_of(&sum, totals);
  add_totals(totals, beside_of(look, s), totals);
  if (apart) add_totals(totals, transients_of(look, s, turn), totals);
}

static void fill_inference(const struct spp_memory_stage *s, struct spp_memory_totals *totals) {
  struct spp_memory_sum sum;
  memset(&sum, 0, sizeof sum);
  spp_memory_add_pass(s, &sum);
  spp_memory_totals_of(&sum, totals);
}

/* One for each sort of layers: of frameworks that are kept (spp_evaluator_begin), a class is one. */
static void fill_turns(const struct look *look, const struct spp_memory_stage *s,
                       struct spp_memory_totals *totals) {
  struct spp_memory_turn turns[SPP_TURNS_MAX];
  int count = spp_memory_turns(s, turns);
  for (int i = 0; i < SPP_LAYER_CLASS_COUNT; i++) {
    if (i >= count)
      totals[i].outside = -1; /* no such layer here */
    else if (look->view.trains)
      fill_running(look, s, &turns[i], &totals[i]);
    else
      fill_inference(s, &totals[i]);
  }
}

static void fill_passes(struct look *look, const struct spp_kept_pipe *pipe, bool late,
                        struct spp_memory_totals *totals) {
  const struct spp_memory_view *v = &look->view;
  know_layers(look);
  for (int r = 0; r < pipe->runs.count; r++) {
    struct spp_stage stage = pipe->run[r].stage;
    struct spp_memory_stage s;
    if (!pipe->looked_at[r]) continue;
    spp_stage_in_flight(v->job, v->layout, v->g, &stage);
    spp_memory_stage_layers(v, &stage, &s);
    if (v->job->method == SPP_METHOD_QLORA) spp_memory_stage_states(&s);
    s.late = late;
    fill_turns(look, &s, totals);
    totals += SPP_LAYER_CLASS_COUNT;
  }
}

static bool passes_known(const struct spp_evaluator *e, const struct look *look, bool late, int index) {
  const struct spp_kept_slot *slot = &e->slots[index];
  return slot->passed == e->layers_turn && slot->late == late &&
         slot->pass_tie == spp_memory_tie(look->view.job, look->view.layout);
}

/* Totals by run and class of what a pass of layers needs. */
static const struct spp_memory_totals *passes_of(struct spp_evaluator *e, struct look *look,
                                                 const struct spp_kept_pipe *pipe, bool late, int index) {
  struct spp_kept_slot *slot = &e->slots[index];
  struct spp_memory_totals *totals = &e->totals[(size_t)index * (size_t)e->totals_per_slot];
  if (passes_known(e, look, late, index)) return totals;
  fill_passes(look, pipe, late, totals);
  slot->passed = e->layers_turn;
  slot->pass_tie = spp_memory_tie(look->view.job, look->view.layout);
  slot->late = late;
  return totals;
}

struct spp_memory_figures spp_memory_figures_of(const struct spp_memory *m) {
  return (struct spp_memory_figures){.device_bytes = m->device_bytes,
                                     .reclaimable_bytes = m->reclaimable_bytes,
                                     .capacity_bytes = m->capacity_bytes,
                                     .host_bytes_per_node = m->host_bytes_per_node,
                                     .host_capacity_bytes = m->host_capacity_bytes,
                                     .fits = m->fits,
                                     .host_fits = m->host_fits};
}

static void begin_look(struct spp_evaluator *e, const struct spp_job *job, const struct spp_layout *layout,
                       const struct spp_geometry *g, const struct spp_evaluator_place *place,
                       struct look *look) {
  look->layers_known = false;
  spp_evaluator_keep(e, layout, place);
  look->tensors = &e->tensors[place->recompute * e->shape.micros + place->micro];
  look->beside = &e->beside[2 * (place->micro * e->shape.losses + place->loss)];
  look->turn = e->layers_turn;
  spp_memory_view_begin(job, layout, g, &look->view);
  look->view.lists = &look->tensors->lists;
  struct spp_kept_pipe *pipe = &e->pipes[place->pipe];
  if (pipe->grouped != e->layers_turn) memset(pipe->groups.known, 0, sizeof pipe->groups.known);
  pipe->grouped = e->layers_turn;
  look->view.groups = &pipe->groups;
}

/* What the layers of a stage keep of the micro-batches in flight: alive when the last forward is done. Of a
 * recomputed layer that is its input (the largest unit's apart). Of chunks that are not alike nothing is
 * said. */
static int64_t least_kept(const struct look *look, const struct spp_stage *stage) {
  const struct spp_memory_view *v = &look->view;
  struct spp_memory_stage s;
  int64_t bytes = 0;
  spp_memory_stage_layers(v, stage, &s);
  if (spp_memory_walks(&s)) return 0;
  for (int c = 0; c < SPP_LAYER_CLASS_COUNT; c++) {
    bool full = v->layout->recompute == SPP_RECOMPUTE_FULL;
    int64_t copies = spp_memory_in_flight(stage, full ? s.recomputed[c] : s.layers[c]);
    bytes = spp_sat_add(bytes, spp_sat_mul(copies, look->tensors->layer_keeps[c]));
    if (!full || s.layers[c] <= s.recomputed[c]) continue;
    copies = spp_memory_in_flight(stage, s.layers[c] - s.recomputed[c]);
    bytes = spp_sat_add(bytes, spp_sat_mul(copies, look->tensors->whole_keeps[c]));
  }
  return bytes;
}

/* With offloaded inputs or units of layers, layers keep less: no more is said than what is held. */
static void least_peak(struct spp_evaluator *e, struct look *look, const struct spp_kept_pipe *pipe,
                       const struct spp_memory_totals *held, struct spp_memory_peak *peak) {
  const struct spp_memory_view *v = &look->view;
  bool keeps = !spp_offload_activations(v->layout->offload) && v->layout->recompute_unit <= 1;
  if (look->tensors->turn != e->layers_turn) know_layers(look);
  for (int r = 0; r < pipe->runs.count; r++) {
    struct spp_stage stage = pipe->run[r].stage;
    struct spp_memory_totals totals;
    if (!pipe->looked_at[r]) continue;
    spp_stage_in_flight(v->job, v->layout, v->g, &stage);
    totals = held[r];
    totals.step_block =
        0; /* what it strands shrinks with what the pass is seen to free: nothing is said of it */
    int64_t kept = keeps ? least_kept(look, &stage) : 0;
    totals.moment[SPP_MOMENT_FORWARD] = spp_sat_add(totals.moment[SPP_MOMENT_FORWARD], kept);
    totals.pass[SPP_MOMENT_FORWARD] = spp_sat_add(totals.pass[SPP_MOMENT_FORWARD], kept);
    spp_memory_peak_of(v->job, &totals, peak);
  }
}

static void whole_peak(const struct spp_job *job, const struct spp_kept_pipe *pipe,
                       const struct spp_memory_totals *held, const struct spp_memory_totals *pass,
                       struct spp_memory_peak *peak) {
  for (int r = 0; r < pipe->runs.count; r++) {
    for (int c = 0; pipe->looked_at[r] && c < SPP_LAYER_CLASS_COUNT; c++, pass++) {
      struct spp_memory_totals totals;
      if (pass->outside < 0) continue;
      add_totals(&held[r], pass, &totals);
      spp_memory_peak_of(job, &totals, peak);
    }
  }
}

void spp_evaluator_least_memory(struct spp_evaluator *e, const struct spp_job *job,
                                const struct spp_layout *layout, const struct spp_evaluator_place *place,
                                struct spp_memory_figures *figures) {
  struct spp_kept_pipe *pipe = &e->pipes[place->pipe];
  int index = spp_evaluator_slot(e, place);
  struct spp_memory_peak peak = {.bytes = -1};
  struct spp_memory memory;
  struct look look;
  spp_evaluator_turn(e, job, layout);
  const struct spp_geometry *g = spp_evaluator_geometry(e, job, layout, place);
  begin_look(e, job, layout, g, place, &look);
  figures->device_bytes = figures->reclaimable_bytes = 0;
  if (pipe->whole || !look.view.trains || spp_memory_may_be_late(&look.view)) return;
  const struct spp_memory_totals *held = held_of(e, &look.view, false, pipe);
  if (passes_known(e, &look, false, index))
    whole_peak(job, pipe, held, passes_of(e, &look, pipe, false, index), &peak);
  else
    least_peak(e, &look, pipe, held, &peak);
  spp_memory_verdict(job, &peak, &memory);
  figures->device_bytes = memory.device_bytes;
  figures->reclaimable_bytes = memory.reclaimable_bytes;
}

void spp_evaluator_memory(struct spp_evaluator *e, const struct spp_job *job, const struct spp_layout *layout,
                          const struct spp_evaluator_place *place, struct spp_memory_figures *figures) {
  struct spp_kept_pipe *pipe = &e->pipes[place->pipe];
  int index = spp_evaluator_slot(e, place);
  struct spp_memory_peak peak = {.bytes = -1};
  struct spp_memory memory;
  struct look look;
  spp_evaluator_turn(e, job, layout);
  const struct spp_geometry *g = spp_evaluator_geometry(e, job, layout, place);
  if (pipe->whole) {
    spp_memory_predict(job, layout, g, NULL, &memory);
    *figures = spp_memory_figures_of(&memory);
    return;
  }
  begin_look(e, job, layout, g, place, &look);
  bool late = is_late(e, &look, pipe, &e->slots[index]);
  const struct spp_memory_totals *held = held_of(e, &look.view, late, pipe);
  const struct spp_memory_totals *pass = passes_of(e, &look, pipe, late, index);
  whole_peak(job, pipe, held, pass, &peak);
  spp_memory_verdict(job, &peak, &memory);
  spp_memory_report_host(&look.view, &memory);
  *figures = spp_memory_figures_of(&memory);
}
