#include "exec/relu_sides.h"

#include <float.h>
#include <math.h>

#include "base/num.h"
#include "exec/engine.h"
#include "exec/try.h"

enum { MOST_BYTES = 256 << 20 };

enum spp_status spp_relu_sides_open(const struct spp_exec_plan *plan, int64_t steps, struct spp_arena *arena,
                                    struct spp_relu_sides **sides, struct spp_diag *diag) {
  const struct spp_geometry *g = &plan->geometry;
  const struct spp_arch *a = plan->job.arch;
  const struct spp_relu_sides s = {.layers = a->layers,
                                   .sequences = g->sequences * g->m * g->dp,
                                   .tokens = plan->job.seq_tokens,
                                   .width = a->ffn};
  int64_t bits = spp_sat_mul(spp_sat_mul(s.layers, s.sequences), spp_sat_mul(s.tokens, s.width));
  int64_t bytes = spp_ceil_div(spp_sat_mul(bits, steps), 8);
  *sides = NULL;
  if (a->activation != SPP_RELU || a->experts > 0 || bytes > MOST_BYTES) return SPP_OK;
  struct spp_relu_sides *made = spp_arena_alloc(arena, sizeof *made);
  uint8_t *above = spp_arena_array(arena, (size_t)bytes, sizeof *above);
  if (!made || !above) return spp_diag_oom(diag);
  *made = s;
  made->above = above;
  *sides = made;
  return SPP_OK;
}

/* The bit of a token's first column; -1: padding, which another run need not have. */
static int64_t first_bit(const struct spp_engine *e, int64_t layer, int64_t token) {
  const struct spp_relu_sides *s = e->sides;
  int64_t tokens = e->attention.cut.tokens,
          place =
              spp_sequence_position(&e->attention.cut, e->groups.ulysses_rank, e->groups.ring_rank, token);
  int64_t sequence = e->batch.first_sequence + place / tokens;
  if (e->batch.targets[token] < 0 || sequence >= s->sequences) return -1;
  return (((e->step * s->layers + layer) * s->sequences + sequence) * s->tokens + place % tokens) * s->width;
}

static double largest(const struct spp_engine *e, int64_t width, const void *row) {
  double most = 0;
  for (int64_t j = 0; j < width; j++)
    most = fmax(most, fabs((double)spp_load(row, e->store, j)));
  return most;
}

/* The smallest normal number is above 0 in every storage. */
static void meet(struct spp_engine *e, int64_t bit, int64_t width, void *row) {
  for (int64_t j = 0; j < width; j++, bit++) {
    uint8_t *byte = &e->sides->above[bit / 8], mask = (uint8_t)(1u << bit % 8);
    double x = (double)spp_load(row, e->store, j);
    bool above = x > 0, theirs = *byte & mask;
    if (!e->follows) {
      *byte = (uint8_t)(above ? *byte | mask : *byte & ~mask);
    } else if (above != theirs) {
      e->passed = fmax(e->passed, fabs(x) / largest(e, width, row));
      spp_store(row, e->store, j, theirs ? FLT_MIN : 0.0F);
    }
  }
}

enum spp_status spp_relu_sides_meet(struct spp_engine *e, int64_t layer, int64_t first, int64_t width,
                                    void *x) {
  struct spp_view view =
      spp_view_of(x, e->g->tokens * width * spp_storage_bytes(e->store), SPP_VIEW_READ | SPP_VIEW_WRITE);
  if (!e->sides) return SPP_OK;
  SPP_TRY(spp_views_open(e->rank, &view, 1));
  for (int64_t t = 0; t < e->g->tokens; t++) {
    int64_t bit = first_bit(e, layer, t);
    if (bit >= 0) meet(e, bit + first, width, spp_engine_at(e, view.data, t * width));
  }
  spp_views_close(e->rank, &view, 1);
  return SPP_OK;
}
