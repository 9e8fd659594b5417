/* Full recompute of some layers: the fewest that are likely to fit. */
#include "base/num.h"
#include "planner/search_cell.h"

/* The most bytes that may be as likely to fit as asked. */
static int64_t most_likely_bytes(const struct spp_cell_work *p, const struct spp_place *place) {
  return spp_min64(p->hunt->risky_bytes[place->framework], spp_memory_capacity(p->walk.job));
}

static bool is_likely(const struct spp_cell_work *p, const struct spp_memory_figures *memory) {
  return memory->fits && memory->host_fits &&
         spp_memory_fit_probability(p->walk.job, memory->device_bytes, memory->reclaimable_bytes) >=
             p->hunt->options->min_fit;
}

static bool likely(struct spp_cell_work *p, const struct spp_layout *layout,
                   const struct spp_evaluator_place *kept) {
  struct spp_memory_figures memory;
  spp_evaluator_memory(p->evaluator, p->walk.job, layout, kept, &memory);
  return is_likely(p, &memory);
}

/* Is there no need to recompute any layer? Known where that layout has been evaluated before in this block,
 * or is known to take too much. */
static bool needs_no_layers(struct spp_cell_work *p, const struct spp_place *place) {
  const struct spp_walk *walk = &p->walk;
  int none = walk->choices.recompute_count - 2;
  struct spp_evaluator_place kept = spp_cell_place(walk);
  if (walk->choices.recomputes[none] != SPP_RECOMPUTE_NONE) return false;
  kept.recompute = none;
  none = spp_cell_slot(walk, none, walk->variant.pipe, walk->micro);
  if (p->lessons.plain[none] != SPP_PLAIN_UNKNOWN && walk->layout.offload == SPP_OFFLOAD_NONE)
    return p->lessons.plain[none] == SPP_PLAIN_FITS;
  if (p->lessons.bytes[none] > most_likely_bytes(p, place)) return false;
  struct spp_layout layout = walk->layout;
  layout.recompute = SPP_RECOMPUTE_NONE;
  layout.recompute_layers = SPP_UNSET;
  return likely(p, &layout, &kept);
}

struct layers_asked {
  struct spp_cell_work *pass;
  struct spp_layout layout;
  struct spp_evaluator_place kept;
};

static bool enough(struct layers_asked *asked, int64_t layers) {
  struct spp_cell_work *p = asked->pass;
  const struct spp_job *job = p->walk.job;
  struct spp_memory_figures memory;
  asked->layout.recompute_layers = layers;
  spp_evaluator_memory(p->evaluator, job, &asked->layout, &asked->kept, &memory);
  return is_likely(p, &memory);
}

/* Do so many recomputed layers, or more, take too long? `bytes`: what the most of them take at least. */
static bool slow_with(struct spp_cell_work *p, const struct spp_place *place, struct layers_asked *asked,
                      int64_t layers, int64_t bytes) {
  if (p->hunt->known.front_count == 0) return false;
  asked->layout.recompute_layers = layers;
  double layers_s = spp_evaluator_least_s(p->evaluator, p->walk.job, &asked->layout, &asked->kept);
  return spp_cell_beaten(p, place, layers_s + p->lessons.host_s, bytes, false);
}

/* What so many recomputed layers take at least. */
static struct spp_memory_figures least_with(struct layers_asked *asked, int64_t layers) {
  struct spp_memory_figures memory;
  asked->layout.recompute_layers = layers;
  spp_evaluator_least_memory(asked->pass->evaluator, asked->pass->walk.job, &asked->layout, &asked->kept,
                             &memory);
  return memory;
}

/* Does even what the allocator cannot give back go beyond the most that is likely to fit? */
static bool too_much_with(struct layers_asked *asked, int64_t layers, int64_t limit) {
  struct spp_memory_figures memory = least_with(asked, layers);
  return memory.device_bytes - memory.reclaimable_bytes > limit;
}

/* Chunks' layers above `low` of which fewer are bound to take too much: found by halving, the bound never
 * grows. */
static int64_t least_layers(struct layers_asked *asked, int64_t high, int64_t unit, int64_t limit) {
  int64_t low = 0; /* too few, or none */
  if (too_much_with(asked, high * unit, limit)) return high + 1;
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    if (too_much_with(asked, middle * unit, limit))
      low = middle;
    else
      high = middle;
  }
  return high;
}

/* The fewest chunks' layers above `low`, which are too few, up to `high`: with growing steps, and then by
 * halving. 0 = none are enough. */
static int64_t climb(struct layers_asked *asked, int64_t low, int64_t high, int64_t step, int64_t unit) {
  int64_t top = low;
  for (;; step *= 2) {
    top = spp_min64(low + step, high);
    if (enough(asked, top * unit)) break;
    if (top == high) return 0;
    low = top;
  }
  while (top - low > 1) {
    int64_t middle = low + (top - low) / 2;
    if (enough(asked, middle * unit))
      top = middle;
    else
      low = middle;
  }
  return top * unit;
}

/* As spp_fewest_layers(), in fewer steps: memory is bounded before it is counted. 0 too where so many layers
 * are needed that the layout cannot matter. */
static int64_t fewest_layers(struct spp_cell_work *p, struct layers_asked *asked,
                             const struct spp_place *place) {
  const struct spp_walk *walk = &p->walk;
  int64_t most = spp_evaluator_most_layers(p->evaluator, &asked->kept), unit = walk->layout.vpp;
  int64_t low = 0, high = spp_ceil_div(most, unit) - 1, step = high;
  if (most == 0) return spp_fewest_layers(walk->job, &walk->layout, p->hunt->options->min_fit);
  if (high < 1) return 0;
  if (!p->hunt->options->exhaustive) {
    low = least_layers(asked, high, unit, most_likely_bytes(p, place)) - 1;
    if (low >= high) return 0;
    int64_t bytes = least_with(asked, high * unit).device_bytes;
    if (low > 0 && slow_with(p, place, asked, (low + 1) * unit, bytes)) return 0;
    step = 1; /* the bound is close */
  }
  return climb(asked, low, high, step, unit);
}

void spp_cell_evaluate_by_layers(struct spp_cell_work *p, const struct spp_place *place) {
  const struct spp_walk *walk = &p->walk;
  struct layers_asked asked = {p, walk->layout, spp_cell_place(walk)};
  struct spp_memory_figures memory;
  struct spp_time_figures time;
  bool comparable = walk->layout.grad_accum > 1 || walk->layout.pp > 1; /* as in least_bytes */
  int64_t least = comparable ? p->lessons.bytes[spp_cell_slot(walk, 0, walk->variant.pipe, walk->micro)] : 0;
  if (!spp_cell_begin(p) || (!p->hunt->options->exhaustive && (least > most_likely_bytes(p, place) ||
                                                               spp_cell_hopeless(p, place, least, false)))) {
    p->tally->pruned++;
    return;
  }
  p->tally->evaluated++;
  if (needs_no_layers(p, place)) return;
  asked.layout.recompute_layers = fewest_layers(p, &asked, place);
  if (asked.layout.recompute_layers == 0) return;
  if (spp_cell_fits_without_offload(p, place, &asked.layout)) return;
  spp_evaluator_memory(p->evaluator, walk->job, &asked.layout, &asked.kept, &memory);
  spp_evaluator_time(p->evaluator, walk->job, &asked.layout, &asked.kept, &time);
  bool risky = spp_hunt_risky(p->hunt, place->framework, walk->job, &memory);
  struct spp_candidate candidate =
      spp_candidate_make(p->hunt->options, walk->job, &asked.layout, &memory, risky, &time, place);
  spp_tally_candidate(p->tally, &candidate);
}
