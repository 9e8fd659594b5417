#include "model/memory.h"

#include <math.h>
#include <string.h>

#include "model/memory_parts.h"

static const double interval_80 = 1.2815515655446004; /* normal quantile of 0.9 */
enum { SEGMENT_BYTES = 2097152 }; /* torch c10/cuda/CUDACachingAllocator: segments are multiples of 2 MiB */

/* A kind that stands for its class, or NULL. */
static const struct spp_layer_kind *kind_of_class(const struct spp_arch *arch, enum spp_layer_class class) {
  for (int k = 0; k < arch->kind_count; k++)
    if (arch->kinds[k].moe == (class == SPP_LAYER_MOE)) return &arch->kinds[k];
  return NULL;
}

static void view_layers(struct spp_memory_view *v) {
  bool op_level = v->layout->recompute == SPP_RECOMPUTE_SELECTIVE && v->job->framework->selective_is_op_level;
  for (int c = 0; c < SPP_LAYER_CLASS_COUNT; c++) {
    const struct spp_layer_kind *kind = kind_of_class(v->job->arch, (enum spp_layer_class)c);
    v->kind[c] = kind;
    v->kept[c].count = v->saved[c].count = 0;
    v->kept[c].bytes = v->saved[c].bytes = 0;
    if (!kind || !v->trains) continue;
    spp_kept_layer(v->job, v->layout, v->g, kind, &v->kept[c]);
    if (op_level) spp_kept_op_level(v->job, v->layout, v->g, kind, &v->saved[c]);
  }
}

/* Megatron and ZeRO-3 own a gradient buffer for the whole run; elsewhere gradients are freed after the step,
 * and are there in the loss only when earlier micro-batches made them. */
static bool gradients_persist(const struct spp_job *job, const struct spp_layout *layout,
                              const struct spp_geometry *g) {
  enum spp_sharding sharding = job->framework->sharding;
  return sharding == SPP_SHARDING_MEGATRON || sharding == SPP_SHARDING_UNITS ||
         (sharding == SPP_SHARDING_DEEPSPEED && layout->zero == 3) || g->m > 1 || g->pp > 1;
}

static void view_fill(const struct spp_job *job, const struct spp_layout *layout,
                      const struct spp_geometry *g, struct spp_memory_view *v) {
  v->job = job;
  v->layout = layout;
  v->g = g;
  v->act = spp_activation_dtype(job);
  v->trains = job->mode != SPP_MODE_INFER;
  v->grads_persist = gradients_persist(job, layout, g);
  v->regime = spp_states_regime(job, layout);
  view_layers(v);
  for (int k = 0; k < job->arch->kind_count; k++)
    spp_states_count_layer(job, layout, g, k, &v->kinds[k]);
  spp_states_count_outer(job, layout, g, SPP_OUTER_EMBEDDING, &v->embedding);
  spp_states_count_outer(job, layout, g, SPP_OUTER_HEAD, &v->head);
  spp_states_count_outer(job, layout, g, SPP_OUTER_OTHER, &v->other);
  spp_states_count_outer(job, layout, g, SPP_OUTER_VISION, &v->vision);
}

static void stage_states(struct spp_memory_stage *s) {
  const struct spp_memory_view *v = s->view;
  int64_t largest = -1;
  memset(&s->states, 0, sizeof s->states);
  memset(&s->unit, 0, sizeof s->unit);
  for (int k = 0; k < v->job->arch->kind_count; k++) {
    const struct spp_state_counts *c = &v->kinds[k];
    int64_t size = spp_sat_add(c->elements, c->expert_elements);
    spp_states_accumulate(&s->states, c, s->stage->kind_layers[k]);
    if (s->stage->kind_layers[k] == 0 || size <= largest) continue;
    largest = size;
    s->unit = *c;
  }
  if (s->stage->first) spp_states_accumulate(&s->states, &v->embedding, 1);
  if (s->stage->first) spp_states_accumulate(&s->states, &v->vision, 1);
  if (!s->stage->last) return;
  spp_states_accumulate(&s->states, &v->head, 1);
  spp_states_accumulate(&s->states, &v->other, 1);
  /* tied weights on another stage: the last one holds its own copy (Megatron shared embeddings) */
  if (v->job->arch->tied && !s->stage->first) spp_states_accumulate(&s->states, &v->embedding, 1);
}

static void stage_layers(struct spp_memory_stage *s) {
  const struct spp_layout *layout = s->view->layout;
  int64_t again = layout->recompute_layers == SPP_UNSET ? s->stage->layers : layout->recompute_layers;
  if (layout->recompute != SPP_RECOMPUTE_FULL) again = 0;
  s->layers[SPP_LAYER_DENSE] = s->layers[SPP_LAYER_MOE] = 0;
  for (int k = 0; k < s->view->job->arch->kind_count; k++)
    s->layers[s->view->job->arch->kinds[k].moe ? SPP_LAYER_MOE : SPP_LAYER_DENSE] += s->stage->kind_layers[k];
  for (int c = 0; c < SPP_LAYER_CLASS_COUNT; c++) {
    s->recomputed[c] = spp_min64(again, s->layers[c]);
    again -= s->recomputed[c];
  }
}

/* With one micro-batch, gradients grow as layer tensors go, in equal steps: the peak is at one end of
 * backward. */
static bool peaks_late(const struct spp_memory_stage *s) {
  const struct spp_memory_view *v = s->view;
  bool sharded = v->regime.shard_grads;
  int64_t grads = spp_memory_share(v->g, sharded, s->states.trainable, s->states.trainable_expert);
  int64_t head = spp_memory_share(v->g, sharded, spp_memory_head(v)->trainable, 0);
  int64_t late = spp_sat_add(spp_sat_mul(grads, v->regime.grad_bytes), spp_memory_running_keeps(s));
  int64_t early = spp_sat_add(spp_sat_mul(head, v->regime.grad_bytes), spp_memory_stage_keeps(s));
  return late > early;
}

static void stage_fill(const struct spp_memory_view *v, const struct spp_stage *stage,
                       struct spp_memory_stage *s) {
  s->view = v;
  s->stage = stage;
  stage_states(s);
  stage_layers(s);
  s->late = !v->grads_persist && !spp_memory_gradients_away(v) && peaks_late(s);
}

/* What does not depend on which layer runs. */
static void add_base(const struct spp_memory_stage *s, struct spp_memory_sum *sum) {
  spp_memory_add_states(s, sum);
  spp_memory_add_sharding(s, sum);
  spp_memory_add_fixed(s->view, sum);
  spp_memory_add_vision(s, sum);
  if (s->view->trains) spp_memory_add_fused_grads(s, sum);
  if (s->view->trains)
    spp_memory_add_outer(s, sum);
  else
    spp_memory_add_inference(s, sum);
}

static void add_running(const struct spp_memory_stage *s, enum spp_layer_class active,
                        struct spp_memory_sum *sum) {
  if (!s->view->trains) return;
  spp_memory_add_layers(s, active, sum);
  spp_memory_add_transients(s, active, sum);
}

/* The allocator's view: rows outside it are the context and NCCL. */
static int64_t outside(const struct spp_memory_sum *sum) {
  return spp_sat_add(sum->always[SPP_PART_NCCL], sum->always[SPP_PART_CONTEXT]);
}

/* Free blocks that cannot be used at a moment: rows of the allocator's part. */
static int64_t held(const struct spp_memory_sum *sum, enum spp_moment moment) {
  return spp_sat_add(sum->always[SPP_PART_ALLOCATOR], sum->moment[SPP_PART_ALLOCATOR][moment]);
}

static int64_t allocated(const struct spp_memory_sum *sum, enum spp_moment moment) {
  return spp_memory_total(sum, moment) - outside(sum) - held(sum, moment);
}

static int64_t capacity_of(const struct spp_job *job) {
  return job->max_memory_bytes > 0 ? job->max_memory_bytes : job->gpu->capacity_bytes;
}

static int64_t reserved(const struct spp_job *job, const struct spp_memory_sum *sum, enum spp_moment moment) {
  double factor = job->framework->allocator_factor > 1.0 ? job->framework->allocator_factor : 1.0;
  int64_t used = allocated(sum, moment);
  double bytes = (double)used * factor;
  if (bytes >= 9e18) return INT64_MAX;
  return spp_sat_add(spp_max64(used, (int64_t)bytes), held(sum, moment));
}

static int64_t in_segments(int64_t bytes) {
  return spp_round_up(bytes, SEGMENT_BYTES);
}

struct peak {
  int64_t bytes; /* what the allocator holds then */
  enum spp_moment moment;
};
static struct peak find_peak(const struct spp_job *job, const struct spp_memory_sum *sum) {
  struct peak best = {-1, SPP_MOMENT_LOAD};
  for (int m = 0; m < SPP_MOMENT_COUNT; m++) {
    int64_t bytes = reserved(job, sum, (enum spp_moment)m);
    if (bytes > best.bytes) best = (struct peak){bytes, (enum spp_moment)m};
  }
  return best;
}

static int64_t most_needed(const struct spp_job *job, const struct spp_memory_sum *sum) {
  int64_t most = 0;
  for (int m = 0; m < SPP_MOMENT_COUNT; m++)
    most = spp_max64(most, reserved(job, sum, (enum spp_moment)m) - held(sum, (enum spp_moment)m));
  return most;
}

struct candidate {
  int64_t stage;
  enum spp_layer_class active;
  struct spp_memory_sum sum;
  struct peak peak;
  int64_t needed_bytes;                         /* largest of all stages and moments without free blocks */
  int64_t last_peak_bytes, last_reserved_bytes; /* of the stage looked at last */
};

/* Sum of one stage; the running layer is of the class that costs most. */
static void evaluate_stage(const struct spp_memory_view *v, int64_t index, struct candidate *best) {
  struct spp_stage stage;
  struct spp_memory_stage s;
  struct spp_memory_sum base;
  spp_stage_resolve(v->job, v->layout, v->g, index, &stage);
  stage_fill(v, &stage, &s);
  memset(&base, 0, sizeof base);
  base.stage = index;
  add_base(&s, &base);
  struct peak own = {-1, SPP_MOMENT_LOAD}; /* this stage's */
  int64_t own_allocated = 0;
  for (int c = 0; c < SPP_LAYER_CLASS_COUNT; c++) {
    if (s.layers[c] == 0 && !(c == SPP_LAYER_DENSE && s.layers[SPP_LAYER_MOE] == 0)) continue;
    struct spp_memory_sum sum = base;
    add_running(&s, (enum spp_layer_class)c, &sum);
    struct peak peak = find_peak(v->job, &sum);
    int64_t needed = spp_max64(best->needed_bytes, most_needed(v->job, &sum));
    if (peak.bytes > own.bytes) {
      own = peak;
      own_allocated = allocated(&sum, peak.moment);
    }
    if (peak.bytes > best->peak.bytes)
      *best = (struct candidate){index, (enum spp_layer_class)c, sum, peak, needed, 0, 0};
    best->needed_bytes = needed;
  }
  best->last_peak_bytes = own_allocated;
  best->last_reserved_bytes = own.bytes;
}

/* Equal stages need one look: the first has the embedding and most micro-batches in flight, the last the
 * head; those between fall off with the second. Different kinds of layers spoil that. */
static void evaluate_all(const struct spp_memory_view *v, struct candidate *best) {
  int64_t pp = v->g->pp;
  bool mixed = v->kind[SPP_LAYER_DENSE] && v->kind[SPP_LAYER_MOE];
  bool uneven = !spp_layout_uneven(v->layout) && v->job->arch->layers % spp_max64(1, pp) != 0;
  best->peak.bytes = -1;
  best->needed_bytes = 0;
  for (int64_t i = 0; i < pp; i++)
    if (mixed || uneven || i < 2 || i == pp - 1) evaluate_stage(v, i, best);
}

static const struct spp_tensor held_back = {"held back by the allocator", SPP_PART_ALLOCATOR,
                                            "fragments and whole segments"};

/* Blocks held back are one line: how many of them stay depends on the room there is. */
static void drop_held(struct spp_ledger *ledger) {
  int kept = 0;
  for (int i = 0; i < ledger->count; i++)
    if (ledger->entries[i].tensor->part != SPP_PART_ALLOCATOR) ledger->entries[kept++] = ledger->entries[i];
  ledger->count = kept;
}

static void fill_ledger(const struct spp_memory_view *v, const struct candidate *best,
                        int64_t allocator_bytes, struct spp_ledger *ledger) {
  struct spp_stage stage;
  struct spp_memory_stage s;
  struct spp_memory_sum sum;
  memset(&sum, 0, sizeof sum);
  sum.stage = best->stage;
  sum.ledger = ledger;
  ledger->count = 0;
  ledger->overflow = false;
  spp_stage_resolve(v->job, v->layout, v->g, best->stage, &stage);
  stage_fill(v, &stage, &s);
  add_base(&s, &sum);
  add_running(&s, best->active, &sum);
  drop_held(ledger);
  spp_memory_add_bytes(&sum, &held_back, SPP_LIVE(best->peak.moment), allocator_bytes);
}

static void report_parts(const struct spp_job *job, const struct candidate *best, struct spp_memory *m) {
  const struct spp_memory_sum *sum = &best->sum;
  for (int p = 0; p < SPP_PART_COUNT; p++)
    m->parts[p] = spp_sat_add(sum->always[p], sum->moment[p][best->peak.moment]);
  m->peak_bytes = allocated(sum, best->peak.moment);
  m->last_stage_peak_bytes = best->last_peak_bytes;
  m->last_stage_reserved_bytes = in_segments(best->last_reserved_bytes);
  m->reserved_bytes = in_segments(best->peak.bytes);
  m->reclaimable_bytes = m->reserved_bytes - in_segments(best->needed_bytes);
  m->parts[SPP_PART_ALLOCATOR] = m->reserved_bytes - m->peak_bytes;
  m->device_bytes = spp_sat_add(m->reserved_bytes, outside(sum));
  m->peak_moment = best->peak.moment;
  for (int i = 0; i < SPP_MOMENT_COUNT; i++) {
    int64_t bytes = in_segments(reserved(job, sum, (enum spp_moment)i));
    enum spp_phase phase = spp_moment_phase((enum spp_moment)i);
    m->phase_bytes[phase] = spp_max64(m->phase_bytes[phase], spp_sat_add(bytes, outside(sum)));
  }
  m->logits_bytes = spp_max64(sum->moment[SPP_PART_LOGITS][SPP_MOMENT_LOSS],
                              sum->moment[SPP_PART_LOGITS][SPP_MOMENT_BACKWARD_HEAD]);
}

/* States at the step, when all of them exist. */
static void report_resident(const struct candidate *best, struct spp_memory *m) {
  static const enum spp_part states[] = {SPP_PART_WEIGHTS, SPP_PART_GRADIENTS, SPP_PART_MASTER,
                                         SPP_PART_OPTIMIZER};
  for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
    m->resident[states[i]] =
        spp_sat_add(best->sum.always[states[i]], best->sum.moment[states[i]][SPP_MOMENT_STEP]);
}

static void report_layers(const struct spp_memory_view *v, struct spp_memory *m) {
  for (int k = 0; v->trains && k < v->job->arch->kind_count; k++) {
    enum spp_layer_class class = v->job->arch->kinds[k].moe ? SPP_LAYER_MOE : SPP_LAYER_DENSE;
    m->kept_bytes[k] = v->kept[class].bytes;
    m->checkpoint_bytes[k] = spp_memory_layer_keeps(v, class);
  }
}

double spp_memory_fit_probability(const struct spp_job *job, int64_t device_bytes,
                                  int64_t reclaimable_bytes) {
  double sigma = job->framework->memory_sigma * (double)device_bytes;
  int64_t headroom = capacity_of(job) - (device_bytes - reclaimable_bytes);
  if (sigma > 0) return 0.5 * erfc(-(double)headroom / (sigma * sqrt(2.0)));
  return headroom >= 0 ? 1.0 : 0.0;
}

/* The prediction is a normal variable around device_bytes with the framework's relative error. */
static void report_fit(const struct spp_job *job, struct spp_memory *m) {
  double device = (double)m->device_bytes, sigma = job->framework->memory_sigma * device;
  double low = device - interval_80 * sigma, high = device + interval_80 * sigma;
  m->low_bytes = low > 0 ? (int64_t)low : 0;
  m->high_bytes = high < 9e18 ? (int64_t)high : INT64_MAX;
  m->capacity_bytes = capacity_of(job);
  /* free blocks go back to the driver before an allocation fails: c10/cuda/CUDACachingAllocator
   * release_cached_blocks */
  m->headroom_bytes = m->capacity_bytes - (m->device_bytes - m->reclaimable_bytes);
  m->fits = m->headroom_bytes >= 0;
  m->fit_probability = spp_memory_fit_probability(job, m->device_bytes, m->reclaimable_bytes);
}

static void report_host(const struct spp_memory_view *v, struct spp_memory *m) {
  m->host_bytes_per_node = spp_memory_host_bytes(v);
  m->host_capacity_bytes = v->job->cluster ? v->job->cluster->host_bytes : 0;
  m->host_fits = m->host_capacity_bytes <= 0 || m->host_bytes_per_node <= m->host_capacity_bytes;
}

void spp_memory_predict(const struct spp_job *job, const struct spp_layout *layout,
                        const struct spp_geometry *geometry, struct spp_ledger *ledger,
                        struct spp_memory *memory) {
  struct spp_memory_view view;
  struct candidate best;
  view_fill(job, layout, geometry, &view);
  evaluate_all(&view, &best);
  memset(memory, 0, sizeof *memory);
  memory->worst_stage = best.stage;
  memory->worst_rank = best.stage * (spp_layout_world(layout) / spp_max64(1, geometry->pp));
  report_parts(job, &best, memory);
  report_resident(&best, memory);
  report_layers(&view, memory);
  report_fit(job, memory);
  report_host(&view, memory);
  if (ledger) fill_ledger(&view, &best, memory->parts[SPP_PART_ALLOCATOR], ledger);
}
