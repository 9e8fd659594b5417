/* What stands before and behind the layers: embedding; final norm, head and loss (vocabulary cut over the
 * tensor-parallel group: NVIDIA/Megatron-LM megatron/core/tensor_parallel/cross_entropy.py). */
#include "exec/layer_work.h"
#include "exec/try.h"

static struct spp_embedding lookup(const struct spp_engine *e, const struct spp_unit_use *use) {
  const struct spp_held *h = &use->unit->held[SPP_SLOT_EMBEDDING];
  return (struct spp_embedding){.tokens = e->g->tokens,
                                .width = e->arch->hidden,
                                .first = h->first_row,
                                .rows = h->rows,
                                .storage = e->store,
                                .ids = e->batch.placed.ids,
                                .table = spp_use_weight(use, SPP_SLOT_EMBEDDING)};
}

/* The row of a learned table of positions that a token reads. */
static const void *position_row(const struct spp_engine *e, const struct spp_unit_use *use, int64_t token) {
  int64_t row = e->batch.positions[token] + e->arch->first_position;
  return spp_at_const(spp_use_weight(use, SPP_SLOT_POSITIONS), e->store, row * e->arch->hidden);
}

/* First of the tokens of a rank's stream among those of its tensor-parallel group. */
static int64_t stream_first(const struct spp_engine *e) {
  bool cut = e->plan->layout.megatron_sp && e->g->tp > 1;
  return cut ? e->groups.tp_rank * e->g->stream_tokens : 0;
}

static enum spp_status add_positions(struct spp_engine *e, void *x) {
  int64_t unit = e->weights.position_unit, width = e->arch->hidden, first = stream_first(e);
  struct spp_unit_use use;
  if (unit < 0) return SPP_OK;
  SPP_TRY(spp_states_use(e, unit, SPP_PASS_FORWARD, &use));
  for (int64_t t = 0; t < e->g->stream_tokens; t++) {
    void *row = spp_engine_at(e, x, t * width);
    e->rank->ops->add(e->rank->queue, width, e->store, row, position_row(e, &use, first + t), row);
  }
  return spp_states_done(e, unit, &use);
}

/* Every rank of a tensor-parallel group has all of its tokens here: their sums are whole. */
static enum spp_status positions_back(struct spp_engine *e, const void *dy) {
  int64_t unit = e->weights.position_unit, width = e->arch->hidden;
  struct spp_unit_use use;
  if (unit < 0) return SPP_OK;
  SPP_TRY(spp_states_use(e, unit, SPP_PASS_BACKWARD, &use));
  for (int64_t t = 0; t < e->g->tokens; t++) {
    float *sum =
        spp_use_grad(&use, SPP_SLOT_POSITIONS) + (e->batch.positions[t] + e->arch->first_position) * width;
    e->rank->ops->accumulate(e->rank->queue, width, 1.0F, spp_at_const(dy, e->store, t * width), e->store,
                             sum);
  }
  return spp_states_done(e, unit, &use);
}

static void scale(const struct spp_engine *e, double factor, void *x, int64_t elements) {
  if (factor != 1) e->rank->ops->scale(e->rank->queue, elements, (float)factor, x, e->store);
}

enum spp_status spp_embedding_forward(struct spp_engine *e, void **x) {
  struct spp_unit_use use;
  e->rank->heap.moment = SPP_MOMENT_FORWARD;
  SPP_TRY(spp_states_use(e, 0, SPP_PASS_FORWARD, &use));
  SPP_TRY(spp_engine_block(e, SPP_PART_TRANSIENT, "stream", e->g->tokens * e->arch->hidden, x));
  struct spp_embedding call = lookup(e, &use);
  call.out = *x;
  e->rank->ops->embedding_forward(e->rank->queue, &call);
  SPP_TRY(spp_stream_reduce(e, (struct spp_label){"embedding output", SPP_PASS_FORWARD}, x));
  SPP_TRY(spp_states_done(e, 0, &use));
  scale(e, e->arch->embedding_scale, *x, spp_stream_elements(e));
  return add_positions(e, *x);
}

static enum spp_status table_back(struct spp_engine *e, const void *dy) {
  struct spp_unit_use use;
  SPP_TRY(spp_states_use(e, 0, SPP_PASS_BACKWARD, &use));
  struct spp_embedding call = lookup(e, &use);
  call.dout = dy;
  call.dtable = spp_use_grad(&use, SPP_SLOT_EMBEDDING);
  e->rank->ops->embedding_backward(e->rank->queue, &call);
  return spp_states_done(e, 0, &use);
}

/* The table's factor last: positions are added behind it. */
enum spp_status spp_embedding_backward(struct spp_engine *e, void *dy) {
  const struct spp_label label = {"embedding output", SPP_PASS_BACKWARD};
  const void *whole;
  void *gathered;
  e->rank->heap.moment = SPP_MOMENT_BACKWARD_VISION; /* the last of backward, as the model has it */
  SPP_TRY(spp_stream_gather(e, label, dy, &whole, &gathered));
  SPP_TRY(positions_back(e, whole));
  scale(e, e->arch->embedding_scale, gathered ? gathered : dy, e->g->tokens * e->arch->hidden);
  SPP_TRY(table_back(e, whole));
  spp_heap_free(&e->rank->heap, gathered);
  spp_heap_free(&e->rank->heap, dy);
  return SPP_OK;
}

/* The head at work; a tied one lies in a unit of its own or in the embedding's. */
struct head {
  struct spp_engine *e;
  const struct spp_held *held;
  bool apart; /* from the final norm's unit */
  struct spp_unit_use use, head_use;
  void *norm_input, *normed, *logits;
  float *stats, *max, *sum, *target;
};

static const void *head_weight(const struct head *h) {
  return spp_at_const((h->apart ? h->head_use : h->use).weights, h->e->store, h->held->offset);
}
static float *head_grad(const struct head *h) {
  return (h->apart ? h->head_use : h->use).grads + h->held->offset;
}

static struct head head_of(struct spp_engine *e, void *x) {
  const struct spp_stage_weights *w = &e->weights;
  const struct spp_held *held = w->units[w->head_unit].held;
  return (struct head){
      .e = e,
      .held = &held[w->head_unit == 0 && e->arch->tied && e->g->pp == 1 ? SPP_SLOT_EMBEDDING : SPP_SLOT_HEAD],
      .apart = w->head_unit != w->tail_unit,
      .norm_input = x};
}

static enum spp_status head_use(struct head *h, enum spp_pass pass) {
  SPP_TRY(spp_states_use(h->e, h->e->weights.tail_unit, pass, &h->use));
  return h->apart ? spp_states_use(h->e, h->e->weights.head_unit, pass, &h->head_use) : SPP_OK;
}
static enum spp_status head_done(struct head *h) {
  SPP_TRY(spp_states_done(h->e, h->e->weights.tail_unit, &h->use));
  return h->apart ? spp_states_done(h->e, h->e->weights.head_unit, &h->head_use) : SPP_OK;
}

static struct spp_layer_work work_of(const struct head *h, enum spp_pass pass) {
  return spp_layer_work_of(h->e, &h->use, pass, NULL);
}

static enum spp_status final_norm(struct head *h) {
  struct spp_engine *e = h->e;
  const struct spp_layer_work w = work_of(h, SPP_PASS_FORWARD);
  const enum spp_part part = SPP_PART_ACTIVATIONS;
  SPP_TRY(spp_heap_rename(&e->rank->heap, h->norm_input, part, "final norm: input", e->rank->diag));
  SPP_TRY(spp_engine_floats(e, part, "final norm: statistics", spp_stream_norm_stats(e), &h->stats));
  SPP_TRY(spp_engine_block(e, part, "final norm: output", spp_stream_elements(e), &h->normed));
  spp_stream_norm(&w, SPP_SLOT_FINAL_NORM, h->norm_input, h->normed, h->stats);
  return SPP_OK;
}

/* Bias, factor and soft cap. */
static void finish_logits(const struct head *h) {
  const struct spp_engine *e = h->e;
  const struct spp_layer_work w = work_of(h, SPP_PASS_FORWARD);
  int64_t elements = e->g->tokens * h->held->rows;
  spp_layer_add_bias(&w, SPP_SLOT_HEAD_BIAS, e->g->tokens, h->held->rows, h->logits);
  scale(e, e->arch->logit_scale, h->logits, elements);
  if (e->arch->logit_softcap > 0)
    w.ops->softcap(w.q, elements, (float)e->arch->logit_softcap, h->logits, e->store);
}

static enum spp_status make_logits(struct head *h) {
  struct spp_engine *e = h->e;
  const void *x;
  void *gathered;
  SPP_TRY(spp_stream_gather(e, (struct spp_label){"head input", SPP_PASS_FORWARD}, h->normed, &x, &gathered));
  SPP_TRY(spp_engine_block(e, SPP_PART_LOGITS, "logits", e->g->tokens * h->held->rows, &h->logits));
  SPP_TRY(spp_linear_forward(e->rank, e->g->tokens, e->arch->hidden, h->held->rows, spp_linear_in(e->store),
                             x, head_weight(h), h->logits));
  spp_heap_free(&e->rank->heap, gathered);
  finish_logits(h);
  return SPP_OK;
}

static struct spp_cross_entropy entropy_of(const struct head *h) {
  const struct spp_engine *e = h->e;
  return (struct spp_cross_entropy){.tokens = e->g->tokens,
                                    .vocab = h->held->there,
                                    .first = h->held->first_row,
                                    .storage = e->store,
                                    .logits = h->logits,
                                    .row_stride = h->held->rows,
                                    .targets = e->batch.placed.targets,
                                    .max = h->max,
                                    .sum = h->sum,
                                    .target_logit = h->target,
                                    .grad = e->batch.placed.token_weights,
                                    .dlogits = h->logits,
                                    .softcap = (float)e->arch->logit_softcap};
}

/* Rows of padding have logits that the loss does not see: their gradient is zero. */
static void clear_padding(const struct head *h) {
  int64_t rows = h->held->rows, padding = rows - h->held->there;
  for (int64_t t = 0; t < h->e->g->tokens && padding > 0; t++)
    spp_engine_clear(h->e, spp_engine_at(h->e, h->logits, t * rows + h->held->there),
                     padding * spp_storage_bytes(h->e->store));
}

/* Maximum, sum of exponentials and target logit of each token, over the whole vocabulary. */
static enum spp_status agree(struct head *h) {
  struct spp_engine *e = h->e;
  const struct spp_label label = {"loss statistics", SPP_PASS_FORWARD};
  int64_t n = e->g->tokens;
  if (e->g->tp == 1) return SPP_OK;
  float *local_max = e->batch.placed.losses; /* free until the loss is known */
  spp_engine_copy(e, local_max, h->max, n * (int64_t)sizeof(float));
  SPP_TRY(spp_group_all_reduce_max(&e->groups.tp, label, h->max, n, e->rank->diag));
  e->rank->ops->cross_entropy_rescale(e->rank->queue, n, local_max, h->max, h->sum);
  SPP_TRY(spp_group_all_reduce(&e->groups.tp, label, h->sum, n, e->rank->diag));
  return spp_group_all_reduce(&e->groups.tp, label, h->target, n, e->rank->diag);
}

static enum spp_status add_losses(const struct head *h) {
  struct spp_engine *e = h->e;
  int64_t n = e->g->tokens;
  struct spp_view view = spp_view_floats(e->batch.placed.losses, n, SPP_VIEW_READ);
  e->rank->ops->cross_entropy_loss(e->rank->queue, n, e->batch.placed.targets, h->max, h->sum, h->target,
                                   e->batch.placed.losses);
  SPP_TRY(spp_views_open(e->rank, &view, 1));
  const float *losses = view.data;
  for (int64_t t = 0; t < n; t++)
    e->loss += (double)losses[t] * (double)e->batch.token_weights[t];
  spp_views_close(e->rank, &view, 1);
  return SPP_OK;
}

static enum spp_status loss(struct head *h) {
  struct spp_engine *e = h->e;
  int64_t n = e->g->tokens;
  SPP_TRY(spp_engine_floats(e, SPP_PART_LOGITS, "loss statistics", n, &h->max));
  SPP_TRY(spp_engine_floats(e, SPP_PART_LOGITS, "loss statistics", n, &h->sum));
  SPP_TRY(spp_engine_floats(e, SPP_PART_LOGITS, "loss statistics", n, &h->target));
  struct spp_cross_entropy call = entropy_of(h);
  e->rank->ops->cross_entropy_local(e->rank->queue, &call);
  SPP_TRY(agree(h));
  SPP_TRY(add_losses(h));
  e->rank->ops->cross_entropy_backward(e->rank->queue, &call);
  clear_padding(h);
  spp_heap_free(&e->rank->heap, h->max);
  spp_heap_free(&e->rank->heap, h->sum);
  spp_heap_free(&e->rank->heap, h->target);
  return SPP_OK;
}

/* Up to the product; the loss has gone through the soft cap. */
static void finish_back(const struct head *h) {
  const struct spp_engine *e = h->e;
  int64_t width = h->held->rows;
  scale(e, e->arch->logit_scale, h->logits, e->g->tokens * width);
  if (!spp_use_has(&h->use, SPP_SLOT_HEAD_BIAS)) return;
  e->rank->ops->sum_rows(e->rank->queue, e->g->tokens, width, e->store, h->logits,
                         spp_use_grad(&h->use, SPP_SLOT_HEAD_BIAS));
}

/* Gradient of the head and of its input. */
static enum spp_status head_back(struct head *h, void **dx) {
  struct spp_engine *e = h->e;
  const struct spp_label label = {"head input", SPP_PASS_BACKWARD};
  const void *x;
  void *gathered;
  finish_back(h);
  SPP_TRY(spp_stream_gather(e, label, h->normed, &x, &gathered));
  SPP_TRY(spp_linear_weight(e->rank, e->g->tokens, e->arch->hidden, h->held->rows, spp_linear_in(e->store),
                            h->logits, x, head_grad(h)));
  spp_heap_free(&e->rank->heap, gathered);
  spp_heap_free(&e->rank->heap, h->normed);
  SPP_TRY(spp_engine_block(e, SPP_PART_TRANSIENT, "gradient of the residual stream",
                           e->g->tokens * e->arch->hidden, dx));
  SPP_TRY(spp_linear_input(e->rank, e->g->tokens, e->arch->hidden, h->held->rows, spp_linear_in(e->store),
                           h->logits, head_weight(h), false, *dx));
  spp_heap_free(&e->rank->heap, h->logits);
  return spp_stream_reduce(e, label, dx);
}

static void norm_back(struct head *h, void *dx) {
  const struct spp_layer_work w = work_of(h, SPP_PASS_BACKWARD);
  spp_stream_norm_grad(&w, SPP_SLOT_FINAL_NORM, h->norm_input, h->stats, dx);
  spp_heap_free(&h->e->rank->heap, h->norm_input);
  spp_heap_free(&h->e->rank->heap, h->stats);
}

enum spp_status spp_head_train(struct spp_engine *e, void **x) {
  struct head h = head_of(e, *x);
  e->rank->heap.moment = SPP_MOMENT_LOSS;
  SPP_TRY(head_use(&h, SPP_PASS_FORWARD));
  SPP_TRY(final_norm(&h));
  SPP_TRY(make_logits(&h));
  SPP_TRY(loss(&h));
  SPP_TRY(head_done(&h));
  SPP_TRY(head_use(&h, SPP_PASS_BACKWARD));
  SPP_TRY(head_back(&h, x));
  norm_back(&h, *x);
  return head_done(&h);
}
