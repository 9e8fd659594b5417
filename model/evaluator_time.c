#include "model/evaluator_internal.h"
#include "model/loss.h"

static struct spp_timing_context context_of(struct spp_evaluator *e, const struct spp_job *job,
                                            const struct spp_layout *layout, const struct spp_geometry *g) {
  if (!e->rated) spp_timing_rates(job, &e->rates);
  e->rated = true;
  return spp_timing_context_make(job, layout, g, &e->rates);
}

/* Layers by recompute and micro-batch, the loss by itself. */
static const struct spp_model_time *model_of(struct spp_evaluator *e, const struct spp_timing_context *c,
                                             const struct spp_evaluator_place *place) {
  struct spp_kept_model *kept = &e->models[place->recompute * e->shape.micros + place->micro];
  struct spp_kept_loss *loss = &e->loss[place->micro * e->shape.losses + place->loss];
  if (kept->turn != e->layers_turn) spp_model_layers_count(c, &kept->model);
  if (loss->turn != e->layers_turn) spp_loss_time_count(c, &loss->loss);
  kept->turn = loss->turn = e->layers_turn;
  kept->model.loss = loss->loss;
  return &kept->model;
}

/* Of the losses, only those that exchange over tensor parallel ranks differ inside layers (comm_tp.c). */
static struct spp_comm *comm_of(struct spp_evaluator *e, const struct spp_timing_context *c,
                                const struct spp_evaluator_place *place, const struct spp_stage *counted) {
  struct spp_kept_comm *kept = &e->comm;
  bool tp_loss = spp_loss_exchanges(c->g->loss_path);
  bool known = kept->turn == e->layers_turn && kept->pipe == place->pipe &&
               kept->recompute == place->recompute && kept->micro == place->micro &&
               kept->tp_loss == tp_loss && kept->recompute_layers == c->layout->recompute_layers;
  if (known) return &kept->comm;
  kept->turn = e->layers_turn;
  kept->pipe = place->pipe;
  kept->recompute = place->recompute;
  kept->micro = place->micro;
  kept->tp_loss = tp_loss;
  kept->recompute_layers = c->layout->recompute_layers;
  spp_comm_predict_layers(c->job, c->layout, c->g, counted, &kept->comm);
  spp_comm_time_count(c, (double)counted->layers, &kept->comm);
  return &kept->comm;
}

static const struct spp_kept_slot *layers_of(struct spp_evaluator *e, const struct spp_timing_context *c,
                                             const struct spp_evaluator_place *place) {
  struct spp_kept_slot *slot = spp_evaluator_keep(e, c->layout, place);
  const struct spp_kept_pipe *pipe = &e->pipes[place->pipe];
  if (slot->timed == e->layers_turn) return slot;
  static const struct spp_states_time none = {.hidden_s = {0}};
  struct spp_time time;
  const struct spp_stage *counted = &pipe->counted;
  struct spp_comm *comm = comm_of(e, c, place, counted);
  spp_layers_time_count(c, model_of(e, c, place), &pipe->runs, counted, comm, &slot->layers);
  spp_time_parts_fill(c, &slot->layers, &none, &time);
  slot->least_s = time.step_s;
  slot->timed = e->layers_turn;
  return slot;
}

/* Exchanges of the sharded states, counted for two and three micro-batches: a count is a constant, or so many
 * a micro-batch. One micro-batch is like more of them, but for the name of what it is counted by. */
static bool list_exchanges(struct spp_evaluator *e, const struct spp_timing_context *c,
                           struct spp_kept_pipe *pipe) {
  const struct spp_stage *counted = &pipe->counted;
  struct spp_geometry two = *c->g, three = *c->g;
  struct spp_comm comm, more;
  if (pipe->exchanged == e->sharding_turn) return pipe->exchange_count <= SPP_KEPT_EXCHANGES;
  two.m = 2;
  three.m = 3;
  spp_comm_predict_states(c->job, c->layout, &two, counted, &comm);
  spp_comm_predict_states(c->job, c->layout, &three, counted, &more);
  pipe->exchanged = e->sharding_turn;
  pipe->exchange_count = comm.count;
  if (comm.count > SPP_KEPT_EXCHANGES) return false;
  for (int i = 0; i < comm.count; i++) {
    struct spp_kept_exchange *x = &pipe->exchange[i];
    x->op = comm.ops[i];
    x->event_s = spp_comm_event_s(c, &comm.ops[i], (double)counted->layers);
    x->count_per_micro_batch = more.ops[i].count_per_step - comm.ops[i].count_per_step;
    x->fixed_count = comm.ops[i].count_per_step - 2 * x->count_per_micro_batch;
  }
  return true;
}

static void exchange_states(const struct spp_timing_context *c, const struct spp_kept_pipe *pipe,
                            const struct spp_layers_time *layers, struct spp_states_time *states,
                            struct spp_states_beside *beside) {
  struct spp_exposed exposed = {.hidden_s = {0}};
  struct spp_comm comm;
  comm.count = pipe->exchange_count;
  for (int i = 0; i < comm.count; i++) {
    const struct spp_kept_exchange *x = &pipe->exchange[i];
    struct spp_comm_op *op = &comm.ops[i];
    *op = x->op;
    op->count_per_step = x->fixed_count + x->count_per_micro_batch * c->g->m;
    op->time_s = op->exposed_s = x->event_s * (double)op->count_per_step;
  }
  spp_state_exposure_count(c, layers->counted_forward_s, layers->counted_backward_s, layers->counted_layers,
                           &comm, &exposed);
  for (int group = 0; group < SPP_GROUP_COUNT; group++)
    states->step_s[group] = exposed.step_s[group];
  for (int side = 0; side < SPP_SIDE_COUNT; side++)
    states->hidden_s[side] = exposed.hidden_s[side];
  if (c->layout->offload != SPP_OFFLOAD_NONE) spp_states_beside_count(c, &comm, beside);
}

static double optimizer_of(const struct spp_evaluator *e, const struct spp_timing_context *c,
                           struct spp_kept_pipe *pipe) {
  if (pipe->updated == e->offload_turn) return pipe->optimizer_s;
  pipe->optimizer_s = 0;
  for (int r = 0; r < pipe->runs.count; r++)
    pipe->optimizer_s = spp_most(pipe->optimizer_s, spp_optimizer_s(c, &pipe->run[r].stage));
  pipe->updated = e->offload_turn;
  return pipe->optimizer_s;
}

static double offload_of(const struct spp_timing_context *c, const struct spp_kept_pipe *pipe,
                         const struct spp_layers_time *layers, const struct spp_states_beside *beside) {
  int run = 0;
  if (c->layout->offload == SPP_OFFLOAD_NONE) return 0;
  while (run + 1 < pipe->runs.count && pipe->run[run + 1].stage.index <= layers->slowest)
    run++;
  return spp_offload_exposed_s(c, &pipe->run[run].stage, layers, beside);
}

static void predict_whole(const struct spp_job *job, const struct spp_layout *layout,
                          const struct spp_geometry *g, struct spp_time *time) {
  struct spp_comm comm;
  spp_comm_predict(job, layout, g, &comm);
  spp_timing_predict(job, layout, g, &comm, time);
}

struct spp_time_figures spp_time_figures_of(const struct spp_time *time) {
  return (struct spp_time_figures){time->step_s, time->tokens_per_s, time->usd_per_million_tokens};
}

void spp_evaluator_time(struct spp_evaluator *e, const struct spp_job *job, const struct spp_layout *layout,
                        const struct spp_evaluator_place *place, struct spp_time_figures *figures) {
  struct spp_kept_pipe *pipe = &e->pipes[place->pipe];
  struct spp_time time;
  spp_evaluator_turn(e, job, layout);
  const struct spp_geometry *g = spp_evaluator_geometry(e, job, layout, place);
  struct spp_timing_context c = context_of(e, job, layout, g);
  if (pipe->whole || !list_exchanges(e, &c, pipe)) {
    predict_whole(job, layout, g, &time);
  } else {
    const struct spp_layers_time *layers = &layers_of(e, &c, place)->layers;
    struct spp_states_time states;
    struct spp_states_beside beside;
    exchange_states(&c, pipe, layers, &states, &beside);
    states.optimizer_s = optimizer_of(e, &c, pipe);
    states.offload_exposed_s = offload_of(&c, pipe, layers, &beside);
    spp_time_parts_fill(&c, layers, &states, &time);
    spp_time_speed_fill(&c, &time);
  }
  *figures = spp_time_figures_of(&time);
}

/* What states add is not negative: exposed exchanges, with what the hidden ones take from the compute beside
 * them, the optimizer, copies to the host. */
double spp_evaluator_least_s(struct spp_evaluator *e, const struct spp_job *job,
                             const struct spp_layout *layout, const struct spp_evaluator_place *place) {
  static const double rounding = 1 - 1e-9;
  spp_evaluator_turn(e, job, layout);
  if (e->pipes[place->pipe].whole) return 0;
  const struct spp_geometry *g = spp_evaluator_geometry(e, job, layout, place);
  struct spp_timing_context c = context_of(e, job, layout, g);
  return layers_of(e, &c, place)->least_s * rounding;
}
