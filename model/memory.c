#include "model/memory.h"

#include <math.h>
#include <string.h>

#include "model/loss.h"
#include "model/memory_parts.h"

static const double interval_80 = 1.2815515655446004; /* normal quantile of 0.9 */
static const double student_80 =
    1.8856180831641267; /* of Student's with two degrees of freedom: sqrt(3.2/0.9) */

/* A kind that stands for its class, or NULL. */
static const struct spp_layer_kind *kind_of_class(const struct spp_arch *arch, enum spp_layer_class class) {
  for (int k = 0; k < arch->kind_count; k++)
    if (arch->kinds[k].moe == (class == SPP_LAYER_MOE)) return &arch->kinds[k];
  return NULL;
}

void spp_memory_view_layers(struct spp_memory_view *v, struct spp_memory_lists *lists) {
  bool op_level = v->layout->recompute == SPP_RECOMPUTE_SELECTIVE && v->job->framework->selective_is_op_level;
  for (int c = 0; c < SPP_LAYER_CLASS_COUNT; c++) {
    const struct spp_layer_kind *kind = v->kind[c];
    struct spp_kept_list *kept = &lists->kept[c], *saved = &lists->saved[c];
    kept->count = saved->count = 0;
    kept->bytes = saved->bytes = kept->fp4_bytes = saved->fp4_bytes = 0;
    if (!kind || !v->trains) continue;
    spp_kept_layer(v->job, v->layout, v->g, kind, kept);
    if (op_level) spp_kept_op_level(v->job, v->layout, v->g, kind, saved);
  }
  v->lists = lists;
}

/* Megatron and ZeRO-3 own a gradient buffer for the whole run; elsewhere gradients are freed after the step,
 * and are there in the loss only when earlier micro-batches made them, or when the loop zeroes them. */
static bool gradients_persist(const struct spp_job *job, const struct spp_layout *layout,
                              const struct spp_geometry *g) {
  enum spp_sharding sharding = job->framework->sharding;
  bool own = sharding == SPP_SHARDING_DEEPSPEED && layout->zero == 3 && !job->framework->grads_reuse_weights;
  return job->framework->zeroes_gradients || sharding == SPP_SHARDING_MEGATRON ||
         sharding == SPP_SHARDING_UNITS || own || g->m > 1 || g->pp > 1;
}

void spp_memory_view_begin(const struct spp_job *job, const struct spp_layout *layout,
                           const struct spp_geometry *g, struct spp_memory_view *v) {
  v->groups = NULL;
  v->job = job;
  v->layout = layout;
  v->g = g;
  v->act = spp_activation_dtype(job);
  v->trains = job->mode != SPP_MODE_INFER;
  v->grads_persist = gradients_persist(job, layout, g);
  v->regime = spp_states_regime(job, layout);
  for (int c = 0; c < SPP_LAYER_CLASS_COUNT; c++)
    v->kind[c] = kind_of_class(job->arch, (enum spp_layer_class)c);
}

void spp_memory_view_states(struct spp_memory_view *v) {
  const struct spp_job *job = v->job;
  for (int k = 0; k < job->arch->kind_count; k++)
    spp_states_count_layer(job, v->layout, v->g, k, &v->kinds[k]);
  spp_states_count_outer(job, v->layout, v->g, SPP_OUTER_EMBEDDING, &v->embedding);
  spp_states_count_outer(job, v->layout, v->g, SPP_OUTER_POSITION, &v->position);
  spp_states_count_outer(job, v->layout, v->g, SPP_OUTER_HEAD, &v->head);
  spp_states_count_outer(job, v->layout, v->g, SPP_OUTER_OTHER, &v->other);
  spp_states_count_outer(job, v->layout, v->g, SPP_OUTER_VISION, &v->vision);
}

static void view_fill(const struct spp_job *job, const struct spp_layout *layout,
                      const struct spp_geometry *g, struct spp_memory_lists *lists,
                      struct spp_memory_view *v) {
  spp_memory_view_begin(job, layout, g, v);
  spp_memory_view_layers(v, lists);
  spp_memory_view_states(v);
}

void spp_memory_stage_states(struct spp_memory_stage *s) {
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
  if (s->stage->first) spp_states_accumulate(&s->states, &v->position, 1);
  if (s->stage->first) spp_states_accumulate(&s->states, &v->vision, 1);
  if (!s->stage->last) return;
  spp_states_accumulate(&s->states, &v->head, 1);
  spp_states_accumulate(&s->states, &v->other, 1);
  /* tied weights on another stage: the last one holds its own copy (Megatron shared embeddings) */
  if (v->job->arch->tied && !s->stage->first) spp_states_accumulate(&s->states, &v->embedding, 1);
}

void spp_memory_stage_layers(const struct spp_memory_view *v, const struct spp_stage *stage,
                             struct spp_memory_stage *s) {
  s->view = v;
  s->stage = stage;
  s->late = false;
  s->layers[SPP_LAYER_DENSE] = s->layers[SPP_LAYER_MOE] = 0;
  for (int k = 0; k < v->job->arch->kind_count; k++)
    s->layers[v->job->arch->kinds[k].moe ? SPP_LAYER_MOE : SPP_LAYER_DENSE] += stage->kind_layers[k];
  s->recomputed[SPP_LAYER_DENSE] = s->recomputed[SPP_LAYER_MOE] = 0;
  if (v->layout->recompute != SPP_RECOMPUTE_FULL) return;
  struct spp_stage_again again = spp_stage_recomputed(v->job, v->layout, stage);
  s->recomputed[SPP_LAYER_MOE] = again.experts;
  s->recomputed[SPP_LAYER_DENSE] = again.layers - again.experts;
}

bool spp_memory_may_be_late(const struct spp_memory_view *v) {
  return !v->grads_persist && !spp_memory_gradients_away(v);
}

struct spp_memory_ends spp_memory_gradient_ends(const struct spp_memory_stage *s) {
  const struct spp_memory_view *v = s->view;
  bool sharded = v->regime.shard_grads;
  int64_t grads = spp_memory_share(v->g, sharded, s->states.trainable, s->states.trainable_expert);
  int64_t head = spp_memory_share(v->g, sharded, spp_memory_head(v)->trainable, 0);
  return (struct spp_memory_ends){spp_sat_mul(head, v->regime.grad_bytes),
                                  spp_sat_mul(grads, v->regime.grad_bytes)};
}

struct spp_memory_ends spp_memory_kept_ends(const struct spp_memory_stage *s) {
  return (struct spp_memory_ends){spp_memory_stage_keeps(s), spp_memory_running_keeps(s)};
}

/* With one micro-batch, gradients grow as layer tensors go, in equal steps: the peak is at one end of
 * backward. */
bool spp_memory_is_late(const struct spp_memory_ends *gradients, const struct spp_memory_ends *kept) {
  return spp_sat_add(gradients->end, kept->end) > spp_sat_add(gradients->begin, kept->begin);
}

static void stage_fill(const struct spp_memory_view *v, const struct spp_stage *stage,
                       struct spp_memory_stage *s) {
  spp_memory_stage_layers(v, stage, s);
  spp_memory_stage_states(s);
  if (!spp_memory_may_be_late(v)) return;
  struct spp_memory_ends gradients = spp_memory_gradient_ends(s), kept = spp_memory_kept_ends(s);
  s->late = spp_memory_is_late(&gradients, &kept);
}

void spp_memory_add_held(const struct spp_memory_stage *s, struct spp_memory_sum *sum) {
  spp_memory_add_states(s, sum);
  spp_memory_add_sharding(s, sum);
  spp_memory_add_fixed(s, sum);
  if (s->view->trains) spp_memory_add_fused_grads(s, sum);
}

void spp_memory_add_beside(const struct spp_memory_stage *s, struct spp_memory_sum *sum) {
  spp_memory_add_outer(s, sum);
  spp_memory_add_user_buffers(s->view, sum);
}

void spp_memory_add_pass(const struct spp_memory_stage *s, struct spp_memory_sum *sum) {
  spp_memory_add_vision(s, sum);
  if (s->view->trains)
    spp_memory_add_beside(s, sum);
  else
    spp_memory_add_inference(s, sum);
}

void spp_memory_add_running(const struct spp_memory_stage *s, const struct spp_memory_turn *turn,
                            struct spp_memory_sum *sum) {
  if (!s->view->trains) return;
  spp_memory_add_layers(s, turn, sum);
  spp_memory_add_transients(s, turn, sum);
}

/* Offloaded layer inputs are not kept; adapters are cast, and logits, where no engine has; a framework that
 * frees at once counts the loss beside whole gradients, and one that sums the head's gradient over chunks
 * beside its shards. */
int spp_memory_tie(const struct spp_job *job, const struct spp_layout *layout) {
  bool sharding = spp_job_has_adapters(job) || job->mode == SPP_MODE_DPO || job->mode == SPP_MODE_PPO ||
                  job->framework->sharding == SPP_SHARDING_UNITS || job->framework->engine_loss_types[0][0] ||
                  spp_loss_sums_head(job->framework);
  return (sharding ? 2 * layout->zero : 0) + (spp_offload_activations(layout->offload) ? 1 : 0);
}

struct candidate {
  int64_t stage;
  struct spp_memory_turn turn;
  struct spp_memory_sum sum;
  struct spp_memory_totals totals;
  struct spp_memory_peak peak;
  int64_t first_step_bytes; /* allocated at most in a run's first step */
};

/* Optimizers make their moments in their first step: the passes before it run without them, and graphs are
 * captured after a few steps (megatron-core 0.19.2 transformer_config.py cuda_graph_warmup_steps). */
static int64_t first_step_of(const struct spp_memory_sum *sum, const struct spp_memory_totals *totals) {
  int64_t most = 0;
  for (int m = SPP_MOMENT_LOAD; m <= SPP_MOMENT_STEP; m++) {
    int64_t moments = spp_sat_add(sum->always[SPP_PART_OPTIMIZER], sum->moment[SPP_PART_OPTIMIZER][m]);
    int64_t bytes = spp_memory_allocated(totals, (enum spp_moment)m) - sum->graphs[m];
    most = spp_max64(most, m == SPP_MOMENT_STEP ? bytes : bytes - moments);
  }
  return most;
}

/* Sum of one stage; the running layer is of the sort that costs most. */
static void evaluate_stage(const struct spp_memory_view *v, int64_t index, struct candidate *best) {
  struct spp_stage stage;
  struct spp_memory_stage s;
  struct spp_memory_turn turns[SPP_TURNS_MAX];
  struct spp_memory_sum base;
  spp_stage_resolve(v->job, v->layout, v->g, index, &stage);
  stage_fill(v, &stage, &s);
  memset(&base, 0, sizeof base);
  base.stage = index;
  spp_memory_add_held(&s, &base);
  spp_memory_add_pass(&s, &base);
  for (int i = 0, count = spp_memory_turns(&s, turns); i < count; i++) {
    struct spp_memory_sum sum = base;
    struct spp_memory_totals totals;
    spp_memory_add_running(&s, &turns[i], &sum);
    spp_memory_totals_of(&sum, &totals);
    best->first_step_bytes = spp_max64(best->first_step_bytes, first_step_of(&sum, &totals));
    if (!spp_memory_peak_of(v->job, &totals, &best->peak)) continue;
    best->stage = index;
    best->turn = turns[i];
    best->sum = sum;
    best->totals = totals;
  }
}

/* Equal stages need one look: the first has the embedding and most micro-batches in flight, the last the
 * head; those between fall off with the second. Different kinds of layers spoil that. */
bool spp_memory_looks_at(const struct spp_job *job, const struct spp_layout *layout, int64_t stage) {
  const struct spp_arch *arch = job->arch;
  bool mixed = kind_of_class(arch, SPP_LAYER_DENSE) && kind_of_class(arch, SPP_LAYER_MOE);
  bool uneven = !spp_layout_uneven(layout) && arch->layers % spp_max64(1, layout->pp) != 0;
  return mixed || uneven || stage < 2 || stage == layout->pp - 1;
}

static void evaluate_all(const struct spp_memory_view *v, struct candidate *best) {
  best->peak = (struct spp_memory_peak){.bytes = -1};
  best->first_step_bytes = 0;
  for (int64_t i = 0; i < v->g->pp; i++)
    if (spp_memory_looks_at(v->job, v->layout, i)) evaluate_stage(v, i, best);
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
  spp_memory_add_held(&s, &sum);
  spp_memory_add_pass(&s, &sum);
  spp_memory_add_running(&s, &best->turn, &sum);
  drop_held(ledger);
  spp_memory_add_bytes(&sum, &held_back, SPP_LIVE(best->peak.moment), allocator_bytes);
}

static void report_parts(const struct spp_job *job, const struct candidate *best, struct spp_memory *m) {
  const struct spp_memory_sum *sum = &best->sum;
  const struct spp_memory_totals *totals = &best->totals;
  for (int p = 0; p < SPP_PART_COUNT; p++)
    m->parts[p] = spp_sat_add(sum->always[p], sum->moment[p][best->peak.moment]);
  spp_memory_verdict(job, &best->peak, m);
  m->peak_bytes = spp_memory_allocated(totals, best->peak.moment);
  m->first_step_peak_bytes = best->first_step_bytes;
  m->parts[SPP_PART_ALLOCATOR] = 0;
  int64_t others = 0;
  for (int p = 0; p < SPP_PART_COUNT; p++)
    others = spp_sat_add(others, m->parts[p]);
  m->parts[SPP_PART_ALLOCATOR] = m->device_bytes - others;
  m->peak_moment = best->peak.moment;
  for (int i = 0; i < SPP_MOMENT_COUNT; i++) {
    enum spp_moment moment = (enum spp_moment)i;
    int64_t bytes = spp_sat_add(spp_memory_pool_at(job, totals, moment), totals->outside);
    enum spp_phase phase = spp_moment_phase(moment);
    bytes = spp_min64(bytes, m->device_bytes); /* free blocks went back */
    m->phase_bytes[phase] = spp_max64(m->phase_bytes[phase], bytes);
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
    m->kept_bytes[k] = v->lists->kept[class].bytes;
    m->checkpoint_bytes[k] = spp_memory_layer_keeps(v, class);
  }
}

/* Chance of less than so many sigma above the prediction. The 80 % interval is that of memory_sigma; beyond
 * it residuals of published runs fall off like Student's distribution with two degrees of freedom, much
 * slower than the normal one (tests/oracle/tails.py, docs/memory.md section 2). */
static double chance_below(double sigmas) {
  double t = sigmas * student_80 / interval_80;
  return 0.5 + t / (2.0 * sqrt(2.0 + t * t));
}

double spp_memory_fit_probability(const struct spp_job *job, int64_t device_bytes,
                                  int64_t reclaimable_bytes) {
  double sigma = job->memory_sigma * (double)device_bytes;
  int64_t headroom = spp_memory_capacity(job) - (device_bytes - reclaimable_bytes);
  if (sigma > 0) return chance_below((double)headroom / sigma);
  return headroom >= 0 ? 1.0 : 0.0;
}

/* An interval around device_bytes with the job's relative error. */
static void report_fit(const struct spp_job *job, struct spp_memory *m) {
  double device = (double)m->device_bytes, sigma = job->memory_sigma * device;
  double low = device - interval_80 * sigma, high = device + interval_80 * sigma;
  m->low_bytes = low > 0 ? (int64_t)low : 0;
  m->high_bytes = high < 9e18 ? (int64_t)high : INT64_MAX;
  m->fit_probability = spp_memory_fit_probability(job, m->device_bytes, m->reclaimable_bytes);
}

void spp_memory_report_host(const struct spp_memory_view *v, struct spp_memory *m) {
  m->host_bytes_per_node = spp_memory_host_bytes(v);
  m->host_capacity_bytes = v->job->cluster ? v->job->cluster->host_bytes : 0;
  m->host_fits = m->host_capacity_bytes <= 0 || m->host_bytes_per_node <= m->host_capacity_bytes;
}

void spp_memory_predict(const struct spp_job *job, const struct spp_layout *layout,
                        const struct spp_geometry *geometry, struct spp_ledger *ledger,
                        struct spp_memory *memory) {
  struct spp_memory_lists lists;
  struct spp_memory_view view;
  struct candidate best;
  view_fill(job, layout, geometry, &lists, &view);
  evaluate_all(&view, &best);
  memset(memory, 0, sizeof *memory);
  memory->worst_stage = best.stage;
  memory->worst_rank = best.stage * (spp_layout_world(layout) / spp_max64(1, geometry->pp));
  report_parts(job, &best, memory);
  report_resident(&best, memory);
  report_layers(&view, memory);
  report_fit(job, memory);
  spp_memory_report_host(&view, memory);
  if (ledger) fill_ledger(&view, &best, memory->parts[SPP_PART_ALLOCATOR], ledger);
}
