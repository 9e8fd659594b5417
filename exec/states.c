/* Weights, gradients and moments under ZeRO (Rajbhandari et al., arXiv 1910.02054): 0 nothing is sharded and
 * gradients are all-reduced; 1 moments, gradients are reduce-scattered once a step and weights gathered after
 * it; 2 gradients too, scattered unit by unit; 3 weights too, gathered for each use. */
#include <string.h>

#include "exec/engine.h"
#include "exec/try.h"

/* Part [first, last) of the stage that one rank answers for within a segment; `shard`: where it lies in a
 * store that holds the rank's pieces only. */
struct piece {
  int64_t segment_first, segment_floats;
  int64_t first, last, shard;
};

static int64_t shards(const struct spp_engine *e) {
  return e->states.zero == 0 || !e->groups.reduce ? 1 : e->groups.reduce->size;
}

static void piece_bounds(const struct spp_engine *e, struct piece *p) {
  int64_t n = shards(e), me = n > 1 ? e->groups.reduce->me : 0;
  p->first = p->segment_first + spp_shard_first(p->segment_floats, n, me);
  p->last = p->segment_first + spp_shard_first(p->segment_floats, n, me + 1);
}

/* Segment i; the pieces before it have been passed in order, for `shard`. */
static struct piece piece_next(const struct spp_engine *e, int64_t i, const struct piece *before) {
  struct piece p = {.segment_first = 0, .segment_floats = e->weights.floats};
  if (e->states.zero >= 2) {
    p.segment_first = e->weights.units[i].offset;
    p.segment_floats = e->weights.units[i].floats;
  }
  piece_bounds(e, &p);
  if (before) p.shard = before->shard + before->last - before->first;
  return p;
}

static struct piece piece_of_unit(const struct spp_engine *e, int64_t unit) {
  struct piece p = piece_next(e, 0, NULL);
  for (int64_t i = 1; i <= unit; i++) {
    struct piece before = p;
    p = piece_next(e, i, &before);
  }
  return p;
}

static void *weights_of(const struct spp_engine *e, const struct piece *p) {
  return spp_engine_at(e, e->states.weights, e->states.zero >= 3 ? p->shard : p->first);
}
static float *grads_of(const struct spp_engine *e, const struct piece *p) {
  return e->states.grads + (e->states.zero >= 2 ? p->shard : p->first);
}
/* The optimizer's: masters and moments. */
static int64_t moment_offset(const struct spp_engine *e, const struct piece *p) {
  return e->states.zero >= 1 ? p->shard : p->first;
}

static float *master_of(const struct spp_engine *e, const struct piece *p) {
  return e->store == SPP_STORE_F32 ? weights_of(e, p) : e->states.master + moment_offset(e, p);
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
  size_t moment_bytes = (size_t)stepped * sizeof(float);
  memset(s->first_moment, 0, moment_bytes);
  memset(s->second_moment, 0, moment_bytes);
  return SPP_OK;
}

/* Every held weight that a range of the stage touches. */
typedef void range_visit(void *context, const struct spp_held *held, int64_t element, int64_t stage_offset);
static void visit_range(const struct spp_engine *e, int64_t first, int64_t last, range_visit *visit,
                        void *context) {
  for (int64_t u = 0; u < e->weights.unit_count; u++)
    for (int slot = 0; slot < SPP_SLOT_COUNT; slot++) {
      const struct spp_held *h = &e->weights.units[u].held[slot];
      int64_t start = e->weights.units[u].offset + h->offset, n = h->weight ? h->rows * h->cols : 0;
      for (int64_t i = first > start ? first - start : 0; i < n && start + i < last; i++)
        visit(context, h, i, start + i);
    }
}

struct store {
  void *data;
  enum spp_storage storage;
  int64_t first; /* stage offset of data[0] */
};
static void initialise(void *context, const struct spp_held *held, int64_t element, int64_t stage_offset) {
  const struct store *s = context;
  spp_store(s->data, s->storage, stage_offset - s->first,
            spp_weight_initial(held->weight, spp_held_number(held, element)));
}

static void initialise_weights(struct spp_engine *e) {
  struct piece p = {0};
  struct store all = {e->states.weights, e->store, 0};
  if (e->states.zero < 3) visit_range(e, 0, e->weights.floats, initialise, &all);
  for (int64_t i = 0; i < e->states.segment_count; i++) {
    struct piece before = p;
    p = piece_next(e, i, i > 0 ? &before : NULL);
    struct store mine = {weights_of(e, &p), e->store, p.first};
    struct store master = {master_of(e, &p), SPP_STORE_F32, p.first};
    if (e->states.zero >= 3) visit_range(e, p.first, p.last, initialise, &mine);
    if (e->states.master) visit_range(e, p.first, p.last, initialise, &master);
  }
}

enum spp_status spp_states_open(struct spp_engine *e) {
  e->states.zero = e->plan->layout.zero;
  e->states.segment_count = e->states.zero >= 2 ? e->weights.unit_count : 1;
  struct piece last = piece_of_unit(e, e->states.segment_count - 1);
  e->states.shard_floats = last.shard + last.last - last.first;
  SPP_TRY(allocate(e));
  initialise_weights(e);
  return SPP_OK;
}

void spp_states_clear_grads(struct spp_engine *e) {
  int64_t floats = e->states.zero >= 2 ? e->states.shard_floats : e->weights.floats;
  memset(e->states.grads, 0, (size_t)floats * sizeof(float));
}

static enum spp_status gather_unit(struct spp_engine *e, int64_t unit, enum spp_pass pass,
                                   struct spp_unit_use *use) {
  struct piece p = piece_of_unit(e, unit);
  SPP_TRY(spp_engine_block(e, SPP_PART_SHARDING_BUFFERS, "gathered layer weights", p.segment_floats,
                           &use->gathered));
  memcpy(spp_engine_at(e, use->gathered, p.first - p.segment_first), weights_of(e, &p),
         (size_t)((p.last - p.first) * spp_storage_bytes(e->store)));
  use->weights = use->gathered;
  if (shards(e) == 1) return SPP_OK;
  return spp_group_all_gather_span(e->groups.reduce, (struct spp_label){"parameters", pass},
                                   spp_engine_span(e, use->gathered, p.segment_floats), e->rank->diag);
}

enum spp_status spp_states_use(struct spp_engine *e, int64_t unit, enum spp_pass pass,
                               struct spp_unit_use *use) {
  const struct spp_unit *u = &e->weights.units[unit];
  *use = (struct spp_unit_use){.unit = u, .store = e->store};
  if (e->states.zero >= 3)
    SPP_TRY(gather_unit(e, unit, pass, use));
  else
    use->weights = spp_engine_at(e, e->states.weights, u->offset);
  if (pass != SPP_PASS_BACKWARD) return SPP_OK;
  if (e->states.zero < 2) {
    use->grads = e->states.grads + u->offset;
    return SPP_OK;
  }
  SPP_TRY(spp_engine_floats(e, SPP_PART_SHARDING_BUFFERS, "gradients of one layer", u->floats,
                            &use->gathered_grads));
  memset(use->gathered_grads, 0, (size_t)u->floats * sizeof(float));
  use->grads = use->gathered_grads;
  return SPP_OK;
}

/* Weights whole on each tensor-parallel rank of which each sees a part: norms under Megatron sequence
 * parallelism some tokens, norms of q and k some heads. Their gradients, packed together, are summed over the
 * group. */
static bool is_partial(const struct spp_engine *e, int slot) {
  if (slot == SPP_SLOT_Q_NORM || slot == SPP_SLOT_K_NORM) return true;
  return e->plan->layout.megatron_sp &&
         (slot == SPP_SLOT_NORM1 || slot == SPP_SLOT_NORM2 || slot == SPP_SLOT_FINAL_NORM);
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
      size_t bytes = (size_t)(h->rows * h->cols) * sizeof(float);
      if (packed) memcpy(pack ? packed + count : grad, pack ? grad : packed + count, bytes);
      count += h->rows * h->cols;
    }
  return count;
}

static enum spp_status sum_norms(struct spp_engine *e, enum spp_pass pass, const struct norms *n) {
  float *packed;
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
  struct piece p = piece_of_unit(e, unit);
  SPP_TRY(sum_norms(e, SPP_PASS_BACKWARD, &(struct norms){e, unit, unit + 1, grads}));
  if (shards(e) > 1)
    SPP_TRY(spp_group_reduce_scatter(e->groups.reduce, (struct spp_label){"gradients", SPP_PASS_BACKWARD},
                                     grads, p.segment_floats, e->rank->diag));
  float *sum = grads_of(e, &p);
  e->rank->kernels->ops->add(p.last - p.first, SPP_STORE_F32, sum, grads + p.first - p.segment_first, sum);
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
    struct piece p = piece_of_unit(e, unit);
    grads = grads_of(e, &p);
    floats = p.last - p.first;
  }
  struct spp_rank_group ends;
  int first_rank = e->groups.pp.ranks[0], last_rank = e->groups.pp.ranks[last];
  spp_group_make(&ends, e->rank->end, &e->rank->tally, SPP_GROUP_PP, first_rank, last_rank - first_rank, 2);
  ends.staging = e->groups.pp.staging;
  ends.staging_floats = e->groups.pp.staging_floats;
  return spp_group_all_reduce(&ends, (struct spp_label){"tied embedding gradients", SPP_PASS_STEP}, grads,
                              floats, e->rank->diag);
}

enum spp_status spp_states_reduce(struct spp_engine *e) {
  const struct spp_label label = {"gradients", SPP_PASS_BACKWARD};
  e->rank->heap.moment = SPP_MOMENT_STEP;
  if (e->states.zero < 2)
    SPP_TRY(sum_norms(e, SPP_PASS_STEP, &(struct norms){e, 0, e->weights.unit_count, e->states.grads}));
  SPP_TRY(reduce_tied(e));
  if (!e->groups.reduce || e->states.zero >= 2) return SPP_OK;
  if (e->states.zero == 0)
    return spp_group_all_reduce(e->groups.reduce, label, e->states.grads, e->weights.floats, e->rank->diag);
  return spp_group_reduce_scatter(e->groups.reduce, label, e->states.grads, e->weights.floats, e->rank->diag);
}

/* Large eps: a gradient that is zero but for rounding must not move a weight, or runs that sum in another
 * order could not be compared. */
static void adamw(struct spp_engine *e, const struct piece *p) {
  int64_t moment = moment_offset(e, p);
  const struct spp_adamw call = {.n = p->last - p->first,
                                 .step = e->step,
                                 .lr = 1e-3F,
                                 .beta1 = 0.9F,
                                 .beta2 = 0.95F,
                                 .eps = 1e-3F,
                                 .weight_decay = 0.1F,
                                 .grad_scale = 1.0F,
                                 .grad = grads_of(e, p),
                                 .grad_storage = SPP_STORE_F32,
                                 .master = master_of(e, p),
                                 .m = e->states.first_moment + moment,
                                 .v = e->states.second_moment + moment,
                                 .param = e->states.master ? weights_of(e, p) : NULL};
  e->rank->kernels->ops->adamw(&call);
}

enum spp_status spp_engine_update(struct spp_engine *e) {
  struct piece p = {0};
  e->rank->heap.moment = SPP_MOMENT_STEP;
  e->step++;
  for (int64_t i = 0; i < e->states.segment_count; i++) {
    struct piece before = p;
    p = piece_next(e, i, i > 0 ? &before : NULL);
    adamw(e, &p);
    if (shards(e) == 1 || e->states.zero >= 3) continue;
    SPP_TRY(spp_group_all_gather_span(
        e->groups.reduce, (struct spp_label){"parameters", SPP_PASS_STEP},
        spp_engine_span(e, spp_engine_at(e, e->states.weights, p.segment_first), p.segment_floats),
        e->rank->diag));
  }
  return SPP_OK;
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

void spp_engine_visit(const struct spp_engine *e, spp_element_visit *visit, void *context) {
  struct piece p = {0};
  for (int64_t i = 0; i < e->states.segment_count; i++) {
    struct piece before = p;
    p = piece_next(e, i, i > 0 ? &before : NULL);
    struct visitor v = {visit, context, master_of(e, &p), grads_of(e, &p), p.first};
    visit_range(e, p.first, p.last, visit_one, &v);
  }
}
