/* Which layers a pipeline stage holds and how many micro-batches it keeps alive. */
#include <string.h>

#include "base/num.h"
#include "model/geometry.h"

/* Layers split over `parts` equal pieces (stages, or stages x virtual chunks), the rest going where the
 * framework puts it; or, where the layout says so, with numbers of their own on the first and last stage. */
struct split {
  int64_t layers, parts, base, rest, outer;
  enum spp_stage_split where;
  bool uneven;
  struct spp_stage_counts counts;
  int64_t pp, vpp;
};

struct spp_stage_counts spp_stage_count(const struct spp_layout *layout, int64_t layers) {
  struct spp_stage_counts n = {.first = layout->first_stage_layers, .last = layout->last_stage_layers};
  bool first = n.first > 0, last = n.last > 0;
  int64_t others = layout->pp - first - last, left = layers - n.first - n.last;
  n.middle = others > 0 ? left / others : 0;
  n.exact = others > 0 ? left >= 0 && left % others == 0 : left == 0;
  if (!first) n.first = n.middle;
  if (!last) n.last = n.middle;
  return n;
}

static struct split split_make(const struct spp_job *job, const struct spp_layout *layout) {
  int64_t pp = spp_max64(layout->pp, 1), vpp = spp_max64(layout->vpp, 1), parts = spp_sat_mul(pp, vpp);
  struct split s = {.layers = job->arch->layers,
                    .parts = parts,
                    .outer = parts > 1 ? job->framework->stage_outer_layers : 0};
  /* NVIDIA/Megatron-LM account_for_embedding_in_pipeline_split, account_for_loss_in_pipeline_split */
  if (parts > 1 && job->framework->stage_outer_if_uneven && job->arch->layers % parts != 0) s.outer = 1;
  int64_t layers =
      job->arch->layers + 2 * s.outer; /* pytorch/torchtitan: embedding and head count as layers */
  s.base = layers / parts;
  s.rest = layers % parts;
  s.where = job->framework->stage_split;
  s.uneven = pp > 1 && spp_layout_uneven(layout);
  s.pp = pp;
  s.vpp = vpp;
  if (s.uneven) s.counts = spp_stage_count(layout, job->arch->layers);
  return s;
}

/* An end stage whose layers do not divide over its chunks lacks them where the embedding is (its first chunk)
 * or the head (its last): NVIDIA/Megatron-LM get_transformer_layer_offset with account_for_embedding and
 * account_for_loss in the pipeline split. */
static int64_t uneven_first(const struct split *s, int64_t i) {
  int64_t first = spp_ceil_div(s->counts.first, s->vpp), last = spp_ceil_div(s->counts.last, s->vpp),
          middle = s->counts.middle / s->vpp, row = i / s->pp, rank = i % s->pp;
  int64_t at = row * (first + (s->pp - 2) * middle + last);
  if (rank > 0) at += first + (rank - 1) * middle;
  if (i > 0) at -= first * s->vpp - s->counts.first;
  return i >= s->parts ? s->layers : at;
}

/* How many of the pieces [0, i) carry one of the layers left over. */
static int64_t split_extras(const struct split *s, int64_t i) {
  switch (s->where) {
  case SPP_STAGE_REMAINDER_FIRST: return spp_min64(i, s->rest);
  case SPP_STAGE_REMAINDER_INNER: /* vllm-project/vllm distributed/utils.py: from the last but one backwards
                                   */
    return spp_max64(spp_min64(i, s->parts - 1) - (s->parts - 1 - s->rest), 0);
  default: return spp_max64(i - (s->parts - s->rest), 0);
  }
}

/* First layer of piece i; i = parts gives the number of layers. */
static int64_t split_first(const struct split *s, int64_t i) {
  if (s->uneven) return spp_min64(spp_max64(uneven_first(s, i), 0), s->layers);
  int64_t first = i * s->base + split_extras(s, i);
  if (i > 0) first -= s->outer;
  if (i >= s->parts) first -= s->outer;
  return spp_min64(spp_max64(first, 0), s->layers);
}

int64_t spp_stage_most_layers(const struct spp_job *job, const struct spp_layout *layout) {
  if (layout->pp <= 1 || !spp_layout_uneven(layout))
    return job->arch->layers / spp_max64(1, layout->pp) + layout->vpp +
           2 * job->framework->stage_outer_layers;
  struct spp_stage_counts n = spp_stage_count(layout, job->arch->layers);
  return spp_max64(n.middle, spp_max64(n.first, n.last));
}

bool spp_stage_suggest(int64_t layers, int64_t pp, int64_t vpp, int64_t *first, int64_t *last) {
  if (pp < 2 || vpp < 1 || layers < pp) return false;
  if ((layers + 2) % spp_sat_mul(pp, vpp) == 0) {
    *first = *last = (layers + 2) / pp - 1;
    return *first > 0;
  }
  if (vpp > 1) return false;
  for (int64_t middle = spp_ceil_div(layers, pp); middle >= layers / pp; middle--) {
    int64_t left = layers - (pp - 2) * middle;
    if (left < 2 || spp_ceil_div(left, 2) > middle + 1) continue;
    *first = spp_ceil_div(left, 2);
    *last = left / 2;
    return true;
  }
  return false;
}

/* Micro-batches alive at the peak, as num/den of all the stage's layers. Sources: NVIDIA/Megatron-LM
 * megatron/core/pipeline_parallel/schedules.py (warm-up counts; interleaved with groups of pp micro-batches);
 * zero-bubble schedules: H1 keeps what 1F1B keeps, H2 up to 2 pp - 1 (recalled from the paper). */
void spp_stage_in_flight(const struct spp_job *job, const struct spp_layout *layout,
                         const struct spp_geometry *g, struct spp_stage *stage) {
  int64_t depth = g->pp - stage->index, m = spp_max64(g->m, 1);
  stage->in_flight_num = 1;
  stage->in_flight_den = 1;
  if (g->pp <= 1 || job->mode == SPP_MODE_INFER) return;
  switch (layout->schedule) {
  case SPP_SCHEDULE_INTERLEAVED:
    stage->in_flight_num = spp_min64(2 * (depth - 1) + (g->vpp - 1) * g->pp + 1, spp_sat_mul(m, g->vpp));
    stage->in_flight_den = g->vpp;
    break;
  case SPP_SCHEDULE_GPIPE: stage->in_flight_num = m; break;
  case SPP_SCHEDULE_ZB_H2: stage->in_flight_num = spp_min64(m, 2 * depth - 1); break;
  default: stage->in_flight_num = spp_min64(m, depth); break;
  }
}

static void count_kinds(const struct spp_arch *arch, int64_t first, int64_t end, struct spp_stage *stage) {
  stage->layers += end - first;
  if (arch->kind_count <= 1) {
    stage->kind_layers[0] += end - first;
    return;
  }
  for (int64_t i = first; i < end; i++)
    stage->kind_layers[arch->kind_of_layer[i]]++;
}

static int64_t chunk_layers(const struct split *split, int64_t piece, int64_t *first) {
  *first = split_first(split, piece);
  return spp_max64(split_first(split, piece + 1) - *first, 0);
}

int64_t spp_stage_chunk(const struct spp_job *job, const struct spp_layout *layout, int64_t stage,
                        int64_t chunk, int64_t *first) {
  struct split split = split_make(job, layout);
  return chunk_layers(&split, stage + chunk * layout->pp, first);
}

void spp_stage_resolve(const struct spp_job *job, const struct spp_layout *layout,
                       const struct spp_geometry *geometry, int64_t index, struct spp_stage *stage) {
  struct spp_stage s = {.index = index, .first = index == 0, .last = index == geometry->pp - 1};
  struct split split = split_make(job, layout);
  for (int64_t chunk = spp_max64(geometry->vpp, 1); chunk-- > 0;) {
    int64_t layers = chunk_layers(&split, index + chunk * geometry->pp, &s.first_layer);
    count_kinds(job->arch, s.first_layer, s.first_layer + layers, &s);
  }
  spp_stage_in_flight(job, layout, geometry, &s);
  *stage = s;
}

static int64_t moe_layers(const struct spp_arch *arch, const struct spp_stage *stage) {
  int64_t layers = 0;
  for (int k = 0; k < arch->kind_count; k++)
    layers += arch->kinds[k].moe ? stage->kind_layers[k] : 0;
  return layers;
}

/* NVIDIA/Megatron-LM megatron/core/transformer/transformer_block.py _checkpointed_forward:
 * recompute_num_layers are those of a block, which holds one chunk. */
struct spp_stage_again spp_stage_recomputed(const struct spp_job *job, const struct spp_layout *layout,
                                            const struct spp_stage *stage) {
  const struct spp_arch *arch = job->arch;
  struct spp_stage_again again = {0, 0};
  int64_t limit = spp_stage_chunk_recomputed(layout), experts = moe_layers(arch, stage);
  bool alike = experts == 0 || experts == stage->layers, even = stage->layers % layout->vpp == 0;
  if (limit == INT64_MAX) return (struct spp_stage_again){stage->layers, experts};
  if (alike && even) {
    again.layers = spp_min64(spp_sat_mul(limit, layout->vpp), stage->layers);
    again.experts = experts > 0 ? again.layers : 0;
    return again;
  }
  for (int64_t chunk = 0; chunk < layout->vpp; chunk++) {
    int64_t first, count = spp_min64(spp_stage_chunk(job, layout, stage->index, chunk, &first), limit);
    again.layers += count;
    for (int64_t i = 0; i < count; i++)
      again.experts += arch->kinds[arch->kind_of_layer[first + i]].moe;
  }
  return again;
}

void spp_stage_busiest(const struct spp_job *job, const struct spp_layout *layout,
                       const struct spp_geometry *geometry, struct spp_stage *stage) {
  spp_stage_resolve(job, layout, geometry, geometry->pp - 1, stage);
  int64_t best = moe_layers(job->arch, stage);
  for (int64_t i = 0; i < geometry->pp - 1; i++) {
    struct spp_stage other;
    spp_stage_resolve(job, layout, geometry, i, &other);
    int64_t moe = moe_layers(job->arch, &other);
    if (moe < best || (moe == best && other.layers <= stage->layers)) continue;
    *stage = other;
    best = moe;
  }
}
