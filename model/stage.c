/* Which layers a pipeline stage holds and how many micro-batches it keeps alive. */
#include <string.h>

#include "base/num.h"
#include "model/geometry.h"

/* Layers split over `parts` equal pieces (stages, or stages x virtual chunks), the rest going where the
 * framework puts it. */
struct split {
  int64_t layers, parts, base, rest, outer;
  enum spp_stage_split where;
};

static struct split split_make(const struct spp_job *job, int64_t parts) {
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
  return s;
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
  int64_t first = i * s->base + split_extras(s, i);
  if (i > 0) first -= s->outer;
  if (i >= s->parts) first -= s->outer;
  return spp_min64(spp_max64(first, 0), s->layers);
}

/* Micro-batches alive at the peak, as num/den of all the stage's layers. Sources: NVIDIA/Megatron-LM
 * megatron/core/pipeline_parallel/schedules.py (warm-up counts; interleaved with groups of pp micro-batches);
 * zero-bubble schedules: H1 keeps what 1F1B keeps, H2 up to 2 pp - 1 (recalled from the paper). */
static void resolve_in_flight(const struct spp_layout *layout, const struct spp_geometry *g,
                              struct spp_stage *stage) {
  int64_t depth = g->pp - stage->index, m = spp_max64(g->m, 1);
  stage->in_flight_num = 1;
  stage->in_flight_den = 1;
  if (g->pp <= 1) return;
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

int64_t spp_stage_chunk(const struct spp_job *job, const struct spp_layout *layout, int64_t stage,
                        int64_t chunk, int64_t *first) {
  struct split split = split_make(job, spp_sat_mul(layout->pp, layout->vpp));
  int64_t piece = stage + chunk * layout->pp;
  *first = split_first(&split, piece);
  return spp_max64(split_first(&split, piece + 1) - *first, 0);
}

void spp_stage_resolve(const struct spp_job *job, const struct spp_layout *layout,
                       const struct spp_geometry *geometry, int64_t index, struct spp_stage *stage) {
  struct spp_stage s = {.index = index, .first = index == 0, .last = index == geometry->pp - 1};
  for (int64_t chunk = spp_max64(geometry->vpp, 1); chunk-- > 0;) {
    int64_t layers = spp_stage_chunk(job, layout, index, chunk, &s.first_layer);
    count_kinds(job->arch, s.first_layer, s.first_layer + layers, &s);
  }
  resolve_in_flight(layout, geometry, &s);
  if (job->mode == SPP_MODE_INFER) s.in_flight_num = s.in_flight_den = 1;
  *stage = s;
}
