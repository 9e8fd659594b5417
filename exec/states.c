/* Weights, gradients and moments under ZeRO (Rajbhandari et al., arXiv 1910.02054): 0 nothing is sharded and
 * gradients are all-reduced; 1 moments, gradients are reduce-scattered once a step and weights gathered after
 * it; 2 gradients too, scattered unit by unit; 3 weights too, gathered for each use. Experts are shared by
 * fewer ranks than the rest, so they are segments of their own. */
#include "exec/engine.h"
#include "exec/try.h"

static const int64_t float_bytes = sizeof(float);

static struct spp_label label_of(const struct spp_segment *s, bool gradients, enum spp_pass pass) {
  static const char *const names[2][2] = {{"parameters", "gradients"},
                                          {"expert parameters", "expert gradients"}};
  return (struct spp_label){names[s->expert][gradients], pass};
}

static struct spp_segment segment_of(const struct spp_engine *e, bool expert, int64_t first, int64_t floats) {
  const struct spp_rank_group *group = expert ? e->groups.experts : e->groups.reduce;
  int64_t n = e->states.zero == 0 || !group ? 1 : group->size, me = n > 1 ? group->me : 0;
  return (struct spp_segment){.group = group,
                              .expert = expert,
                              .first = first,
                              .floats = floats,
                              .mine = first + spp_shard_first(floats, n, me),
                              .end = first + spp_shard_first(floats, n, me + 1)};
}

static void append(struct spp_engine_states *s, struct spp_segment segment) {
  segment.shard = s->shard_floats;
  s->shard_floats += segment.end - segment.mine;
  s->segments[s->segment_count++] = segment;
}

/* The whole stage, or from ZeRO-2 on unit by unit; experts apart. */
static enum spp_status cut_segments(struct spp_engine *e) {
  struct spp_engine_states *s = &e->states;
  const struct spp_stage_weights *w = &e->weights;
  bool by_unit = s->zero >= 2;
  s->segments = spp_arena_array(&e->arena, (size_t)(2 * w->unit_count + 2), sizeof *s->segments);
  if (!s->segments) return spp_diag_oom(e->rank->diag);
  if (!by_unit) append(s, segment_of(e, false, 0, w->dense_floats));
  for (int64_t u = 0; u < w->unit_count; u++) {
    w->units[u].segment = s->segment_count;
    if (by_unit) append(s, segment_of(e, false, w->units[u].offset, w->units[u].floats));
    if (by_unit && w->units[u].expert_floats > 0)
      append(s, segment_of(e, true, w->units[u].expert_offset, w->units[u].expert_floats));
  }
  if (!by_unit && w->floats > w->dense_floats)
    append(s, segment_of(e, true, w->dense_floats, w->floats - w->dense_floats));
  return SPP_OK;
}

static void *weights_of(const struct spp_engine *e, const struct spp_segment *s) {
  return spp_engine_at(e, e->states.weights, e->states.zero >= 3 ? s->shard : s->mine);
}
static float *grads_of(const struct spp_engine *e, const struct spp_segment *s) {
  return e->states.grads + (e->states.zero >= 2 ? s->shard : s->mine);
}
/* The optimizer's: masters and moments. */
static int64_t moment_offset(const struct spp_engine *e, const struct spp_segment *s) {
  return e->states.zero >= 1 ? s->shard : s->mine;
}
static float *master_of(const struct spp_engine *e, const struct spp_segment *s) {
  return e->store == SPP_STORE_F32 ? weights_of(e, s) : e->states.master + moment_offset(e, s);
}

static enum spp_status allocate(struct spp_engine *e) {
  struct spp_engine_states *s = &e->states;
  int64_t whole = e->weights.floats, shard = s->shard_floats;
  SPP_TRY(spp_engine_block(e, SPP_PART_WEIGHTS, "weights", s->zero >= 3 ? shard : whole, &s->weights));
  SPP_TRY(spp_engine_floats(e, SPP_PART_GRADIENTS, "gradients", s->zero >= 2 ? shard : whole, &s->grads));
  int64_t stepped = s->zero >= 1 ? shard : whole;
  if (e->store != SPP_STORE_F32)
    SPP_TRY(spp_engine_floats(e, SPP_PART_MASTER, "fp32 master weights", stepped, &s->master));
  SPP_TRY(spp_engine_floats(e, SPP_PART_OPTIMIZER, "optimizer states", stepped, &s->first_moment));
  SPP_TRY(spp_engine_floats(e, SPP_PART_OPTIMIZER, "optimizer states", stepped, &s->second_moment));
  int64_t held = s->zero >= 3 ? shard : whole;
  spp_engine_clear(e, s->weights, held * spp_storage_bytes(e->store));
  if (s->master) spp_engine_clear(e, s->master, stepped * float_bytes);
  spp_engine_clear(e, s->first_moment, stepped * float_bytes);
  spp_engine_clear(e, s->second_moment, stepped * float_bytes);
  return SPP_OK;
}

/* Every element of held weights that a range of the stage touches; rows of padding are zero, and stay so. */
typedef void range_visit(void *context, const struct spp_held *held, int64_t element, int64_t stage_offset);
static void visit_range(const struct spp_engine *e, int64_t first, int64_t last, range_visit *visit,
                        void *context) {
  for (int64_t u = 0; u < e->weights.unit_count; u++)
    for (int slot = 0; slot < SPP_SLOT_COUNT; slot++) {
      const struct spp_held *h = &e->weights.units[u].held[slot];
      const struct spp_unit *unit = &e->weights.units[u];
      int64_t start = h->offset + (spp_slot_is_expert(slot) ? unit->expert_offset : unit->offset);
      int64_t n = h->weight ? h->rows * h->cols : 0;
      for (int64_t i = first > start ? first - start : 0; i < n && start + i < last; i++)
        if (i / h->cols % h->copy_rows < h->there) visit(context, h, i, start + i);
    }
}

struct store {
  void *data;
  enum spp_storage storage;
  int64_t first; /* stage offset of data[0] */
  const struct spp_arch *arch;
};
static void initialise(void *context, const struct spp_held *held, int64_t element, int64_t stage_offset) {
  const struct store *s = context;
  spp_store(s->data, s->storage, stage_offset - s->first,
            spp_weight_initial(s->arch, held->weight, spp_held_number(held, element)));
}

static enum spp_status initialise_range(struct spp_engine *e, int64_t first, int64_t last, void *data,
                                        enum spp_storage storage) {
  struct spp_view view =
      spp_view_of(data, (last - first) * spp_storage_bytes(storage), SPP_VIEW_READ | SPP_VIEW_WRITE);
  SPP_TRY(spp_views_open(e->rank, &view, 1));
  struct store all = {view.data, storage, first, e->arch};
  visit_range(e, first, last, initialise, &all);
  spp_views_close(e->rank, &view, 1);
  return SPP_OK;
}

static enum spp_status initialise_weights(struct spp_engine *e) {
  if (e->states.zero < 3) SPP_TRY(initialise_range(e, 0, e->weights.floats, e->states.weights, e->store));
  for (int64_t i = 0; i < e->states.segment_count; i++) {
    const struct spp_segment *s = &e->states.segments[i];
    if (e->states.zero >= 3) SPP_TRY(initialise_range(e, s->mine, s->end, weights_of(e, s), e->store));
    if (e->states.master) SPP_TRY(initialise_range(e, s->mine, s->end, master_of(e, s), SPP_STORE_F32));
  }
  return SPP_OK;
}

enum spp_status spp_states_open(struct spp_engine *e) {
  e->states.zero = e->plan->layout.zero;
  SPP_TRY(cut_segments(e));
  SPP_TRY(allocate(e));
  return initialise_weights(e);
}

void spp_states_clear_grads(struct spp_engine *e) {
  int64_t floats = e->states.zero >= 2 ? e->states.shard_floats : e->weights.floats;
  spp_engine_clear(e, e->states.grads, floats * float_bytes);
}

/* Segments of a unit, where units have their own. */
static int64_t unit_segments(const struct spp_engine *e, int64_t unit) {
  return e->weights.units[unit].expert_floats > 0 ? 2 : 1;
}

static enum spp_status gather_unit(struct spp_engine *e, int64_t unit, enum spp_pass pass,
                                   struct spp_unit_use *use) {
  const struct spp_unit *u = use->unit;
  SPP_TRY(spp_engine_block(e, SPP_PART_SHARDING_BUFFERS, "gathered layer weights",
                           u->floats + u->expert_floats, &use->gathered));
  use->weights = use->gathered;
  use->experts = spp_engine_at(e, use->gathered, u->floats);
  for (int64_t i = 0, at = 0; i < unit_segments(e, unit); i++) {
    const struct spp_segment *s = &e->states.segments[u->segment + i];
    void *whole = spp_engine_at(e, use->gathered, at);
    spp_engine_copy(e, spp_engine_at(e, whole, s->mine - s->first), weights_of(e, s),
                    (s->end - s->mine) * spp_storage_bytes(e->store));
    if (s->group)
      SPP_TRY(spp_group_all_gather_span(s->group, label_of(s, false, pass),
                                        spp_engine_span(e, whole, s->floats), e->rank->diag));
    at += s->floats;
  }
  return SPP_OK;
}

enum spp_status spp_states_use(struct spp_engine *e, int64_t unit, enum spp_pass pass,
                               struct spp_unit_use *use) {
  const struct spp_unit *u = &e->weights.units[unit];
  *use = (struct spp_unit_use){.unit = u, .store = e->store};
  if (e->states.zero >= 3) {
    SPP_TRY(gather_unit(e, unit, pass, use));
  } else {
    use->weights = spp_engine_at(e, e->states.weights, u->offset);
    use->experts = spp_engine_at(e, e->states.weights, u->expert_offset);
  }
  if (pass != SPP_PASS_BACKWARD) return SPP_OK;
  if (e->states.zero < 2) {
    use->grads = e->states.grads + u->offset;
    use->expert_grads = e->states.grads + u->expert_offset;
    return SPP_OK;
  }
  int64_t floats = u->floats + u->expert_floats;
  SPP_TRY(spp_engine_floats(e, SPP_PART_SHARDING_BUFFERS, "gradients of one layer", floats,
                            &use->gathered_grads));
  spp_engine_clear(e, use->gathered_grads, floats * float_bytes);
  use->grads = use->gathered_grads;
  use->expert_grads = use->gathered_grads + u->floats;
  return SPP_OK;
}

/* Weights whole on each tensor-parallel rank of which each sees a part: norms and router under
 * Megatron sequence parallelism some tokens, norms of q and k some heads. Their gradients, packed together,
 * are summed over the group. */
static bool is_partial(const struct spp_engine *e, int slot) {
  if (slot == SPP_SLOT_Q_NORM || slot == SPP_SLOT_K_NORM) return true;
  return e->plan->layout.megatron_sp && (spp_slot_is_stream_norm(slot) || slot == SPP_SLOT_ROUTER ||
                                         slot == SPP_SLOT_ROUTER_BIAS || slot == SPP_SLOT_SHARED_SWITCH);
}

/* `grads` of units first to last, one after the other; `packed` NULL: only counts. */
struct norms {
  const struct spp_engine *e;
  int64_t first, last;
  float *grads;
};
static int64_t copy_norms(const struct norms *n, float *packed, bool pack) {
  int64_t count = 0, start = n->e->weights.units[n->first].offset;
  for (int64_t u = n->first; u < n->last; u++)
    for (int slot = 0; slot < SPP_SLOT_COUNT; slot++) {
      const struct spp_held *h = &n->e->weights.units[u].held[slot];
      if (!h->weight || !is_partial(n->e, slot)) continue;
      float *grad = n->grads + n->e->weights.units[u].offset - start + h->offset;
      if (packed)
        spp_engine_copy(n->e, pack ? packed + count : grad, pack ? grad : packed + count,
                        h->rows * h->cols * float_bytes);
      count += h->rows * h->cols;
    }
  return count;
}

/* What makes latents of a part of the tokens: matrices, summed where they lie. */
static enum spp_status sum_latents(struct spp_engine *e, enum spp_pass pass, const struct norms *n) {
  int64_t start = e->weights.units[n->first].offset;
  if (e->g->tp == 1 || !e->plan->layout.megatron_sp) return SPP_OK;
  for (int64_t u = n->first; u < n->last; u++)
    for (int slot = 0; slot < SPP_SLOT_COUNT; slot++) {
      const struct spp_held *h = &e->weights.units[u].held[slot];
      if (!h->weight || !spp_slot_makes_latents(slot)) continue;
      SPP_TRY(spp_group_all_reduce(&e->groups.tp, (struct spp_label){"latent gradients", pass},
                                   n->grads + e->weights.units[u].offset - start + h->offset,
                                   h->rows * h->cols, e->rank->diag));
    }
  return SPP_OK;
}

static enum spp_status sum_norms(struct spp_engine *e, enum spp_pass pass, const struct norms *n) {
  float *packed;
  SPP_TRY(sum_latents(e, pass, n));
  int64_t floats = e->g->tp > 1 ? copy_norms(n, NULL, true) : 0;
  if (floats == 0) return SPP_OK;
  SPP_TRY(spp_engine_floats(e, SPP_PART_TRANSIENT, "packed norm gradients", floats, &packed));
  copy_norms(n, packed, true);
  SPP_TRY(spp_group_all_reduce(&e->groups.tp, (struct spp_label){"norm gradients", pass}, packed, floats,
                               e->rank->diag));
  copy_norms(n, packed, false);
  spp_heap_free(&e->rank->heap, packed);
  return SPP_OK;
}

static enum spp_status scatter_unit(struct spp_engine *e, int64_t unit, float *grads) {
  SPP_TRY(sum_norms(e, SPP_PASS_BACKWARD, &(struct norms){e, unit, unit + 1, grads}));
  for (int64_t i = 0; i < unit_segments(e, unit); i++) {
    const struct spp_segment *s = &e->states.segments[e->weights.units[unit].segment + i];
    float *sum = grads_of(e, s);
    if (s->group)
      SPP_TRY(spp_group_reduce_scatter(s->group, label_of(s, true, SPP_PASS_BACKWARD), grads, s->floats,
                                       e->rank->diag));
    e->rank->ops->add(e->rank->queue, s->end - s->mine, SPP_STORE_F32, sum, grads + s->mine - s->first, sum);
    grads += s->floats;
  }
  return SPP_OK;
}

enum spp_status spp_states_done(struct spp_engine *e, int64_t unit, struct spp_unit_use *use) {
  if (use->gathered_grads) SPP_TRY(scatter_unit(e, unit, use->gathered_grads));
  spp_heap_free(&e->rank->heap, use->gathered_grads);
  spp_heap_free(&e->rank->heap, use->gathered);
  return SPP_OK;
}

/* The first stage's embedding and the last one's copy of it: whole, or the same shard of both. */
static enum spp_status reduce_tied(struct spp_engine *e) {
  int64_t stage = e->groups.stage, last = e->g->pp - 1;
  if (!e->arch->tied || last == 0 || (stage != 0 && stage != last)) return SPP_OK;
  int64_t unit = stage == 0 ? 0 : e->weights.head_unit, floats = e->weights.units[unit].floats;
  float *grads = e->states.grads + e->weights.units[unit].offset;
  if (e->states.zero >= 2) {
    const struct spp_segment *s = &e->states.segments[e->weights.units[unit].segment];
    grads = grads_of(e, s);
    floats = s->end - s->mine;
  }
  struct spp_rank_group ends;
  int first_rank = e->groups.pp.ranks[0], last_rank = e->groups.pp.ranks[last];
  spp_group_make(&ends, e->rank->tensors, &e->rank->tally, SPP_GROUP_PP, first_rank, last_rank - first_rank,
                 2);
  ends.staging = e->groups.pp.staging;
  ends.staging_floats = e->groups.pp.staging_floats;
  return spp_group_all_reduce(&ends, (struct spp_label){"tied embedding gradients", SPP_PASS_STEP}, grads,
                              floats, e->rank->diag);
}

enum spp_status spp_states_reduce(struct spp_engine *e) {
  e->rank->heap.moment = SPP_MOMENT_STEP;
  if (e->states.zero < 2)
    SPP_TRY(sum_norms(e, SPP_PASS_STEP, &(struct norms){e, 0, e->weights.unit_count, e->states.grads}));
  SPP_TRY(reduce_tied(e));
  for (int64_t i = 0; i < e->states.segment_count && e->states.zero < 2; i++) {
    const struct spp_segment *s = &e->states.segments[i];
    const struct spp_label label = label_of(s, true, SPP_PASS_BACKWARD);
    float *grads = e->states.grads + s->first;
    if (!s->group) continue;
    SPP_TRY(e->states.zero == 0 ? spp_group_all_reduce(s->group, label, grads, s->floats, e->rank->diag)
                                : spp_group_reduce_scatter(s->group, label, grads, s->floats, e->rank->diag));
  }
  return SPP_OK;
}

/* Large eps: a gradient that is zero but for rounding must not move a weight, or runs that sum in another
 * order could not be compared. */
static void adamw(struct spp_engine *e, const struct spp_segment *s) {
  int64_t moment = moment_offset(e, s);
  const struct spp_adamw call = {.n = s->end - s->mine,
                                 .step = e->step,
                                 .lr = 1e-3F,
                                 .beta1 = 0.9F,
                                 .beta2 = 0.95F,
                                 .eps = 1e-3F,
                                 .weight_decay = 0.1F,
                                 .grad_scale = 1.0F,
                                 .grad = grads_of(e, s),
                                 .grad_storage = SPP_STORE_F32,
                                 .master = master_of(e, s),
                                 .m = e->states.first_moment + moment,
                                 .v = e->states.second_moment + moment,
                                 .param = e->states.master ? weights_of(e, s) : NULL};
  e->rank->ops->adamw(e->rank->queue, &call);
}

enum spp_status spp_engine_update(struct spp_engine *e) {
  e->rank->heap.moment = SPP_MOMENT_STEP;
  e->step++;
  for (int64_t i = 0; i < e->states.segment_count; i++) {
    const struct spp_segment *s = &e->states.segments[i];
    adamw(e, s);
    if (!s->group || e->states.zero == 0 || e->states.zero >= 3) continue;
    SPP_TRY(spp_group_all_gather_span(
        s->group, label_of(s, false, SPP_PASS_STEP),
        spp_engine_span(e, spp_engine_at(e, e->states.weights, s->first), s->floats), e->rank->diag));
  }
  return spp_rank_finish(e->rank);
}

struct visitor {
  spp_element_visit *visit;
  void *context;
  const float *weights, *grads;
  int64_t first;
};
static void visit_one(void *context, const struct spp_held *held, int64_t element, int64_t stage_offset) {
  const struct visitor *v = context;
  int64_t i = stage_offset - v->first;
  v->visit(v->context, held->weight, spp_held_number(held, element), v->weights[i], v->grads[i]);
}

enum spp_status spp_engine_visit(const struct spp_engine *e, spp_element_visit *visit, void *context) {
  for (int64_t i = 0; i < e->states.segment_count; i++) {
    const struct spp_segment *s = &e->states.segments[i];
    int64_t n = s->end - s->mine;
    struct spp_view views[] = {spp_view_floats(master_of(e, s), n, SPP_VIEW_READ),
                               spp_view_floats(grads_of(e, s), n, SPP_VIEW_READ)};
    SPP_TRY(spp_views_open(e->rank, views, 2));
    struct visitor v = {visit, context, views[0].data, views[1].data, s->mine};
    visit_range(e, s->mine, s->end, visit_one, &v);
    spp_views_close(e->rank, views, 2);
  }
  return SPP_OK;
}
