/* Every kind of sequence parallelism beside everything else. */
#include <stddef.h>
#include <stdio.h>

#include "exec/suite.h"
#include "exec/suite_layouts.h"
#include "exec/suite_models.h"

/* The grid: every kind of sequence parallelism on 2, 4 and 8 ranks with every ratio of query to KV heads, and
 * beside every other kind of parallelism, three sequences a micro-batch, whole or packed. */
static const struct {
  const char *name;
  enum spp_sp_kind kind;
  int64_t ulysses, ring;
  bool contiguous;
} ways[] = {
    {"Ulysses 2", SPP_SP_ULYSSES, 2, 1, false},
    {"Ulysses 4", SPP_SP_ULYSSES, 4, 1, false},
    {"Ulysses 8", SPP_SP_ULYSSES, 8, 1, false},
    {"ring 2", SPP_SP_RING, 1, 2, false},
    {"ring 4", SPP_SP_RING, 1, 4, false},
    {"ring 8", SPP_SP_RING, 1, 8, false},
    {"contiguous ring 4", SPP_SP_RING, 1, 4, true},
    {"contiguous ring 8", SPP_SP_RING, 1, 8, true},
    {"all-gather 2", SPP_SP_ALLGATHER, 1, 2, false},
    {"all-gather 4", SPP_SP_ALLGATHER, 1, 4, false},
    {"all-gather 8", SPP_SP_ALLGATHER, 1, 8, false},
    {"Ulysses 2 x ring 2", SPP_SP_HYBRID, 2, 2, false},
    {"Ulysses 2 x ring 4", SPP_SP_HYBRID, 2, 4, false},
    {"Ulysses 4 x ring 2", SPP_SP_HYBRID, 4, 2, false},
};
static const struct {
  const char *name, *model;
} ratios[] = {{"as many KV heads", spp_suite_mha},
              {"a KV head for 4", spp_suite_four},
              {"a KV head for 8", spp_suite_mqa}};
static const struct {
  const char *name;
  struct spp_layout layout;
} besides[] = {
    {"TP 2", LAYOUT(.tp = 2)},
    {"TP 2 + SP", LAYOUT(MEGATRON(2))},
    {"PP 2", LAYOUT(.pp = 2, .grad_accum = 3)},
    {"DP 2, ZeRO-1", LAYOUT(.dp = 2, .zero = 1)},
    {"DP 2, ZeRO-2", LAYOUT(.dp = 2, .zero = 2)},
    {"DP 2, ZeRO-3", LAYOUT(.dp = 2, .zero = 3)},
    {"TP 2 + SP x PP 2, ZeRO-1", LAYOUT(MEGATRON(2), .pp = 2, .zero = 1, .grad_accum = 3)},
};
enum {
  WAYS = sizeof ways / sizeof ways[0],
  RATIOS = sizeof ratios / sizeof ratios[0],
  BESIDES = sizeof besides / sizeof besides[0],
  ODD_BATCH = 3
};

static void place(int way, const char *model, bool packed, struct spp_suite_case *c) {
  c->model = model;
  c->layout.sp_kind = ways[way].kind;
  c->layout.ulysses = ways[way].ulysses;
  c->layout.ring = ways[way].ring;
  c->contiguous = ways[way].contiguous;
  c->layout.micro_batch = ODD_BATCH;
  c->seq_tokens = packed ? 50 : 64;
  c->doc_lengths = packed ? spp_suite_documents : NULL;
  c->doc_count = packed ? SPP_SUITE_DOCUMENTS : 0;
}

bool spp_suite_grid_get(bool many, int i, struct spp_suite_case *c) {
  for (int packed = 0; packed < 2; packed++)
    for (int way = 0; way < WAYS; way++) {
      const char *documents_word = packed ? ", packed" : "";
      int64_t ranks = ways[way].ulysses * ways[way].ring;
      if (ranks > 4 && !many) continue;
      *c = (struct spp_suite_case){.layout = LAYOUT(.tp = 1)};
      if (i < RATIOS) {
        snprintf(c->name, sizeof c->name, "%s, %s%s", ways[way].name, ratios[i].name, documents_word);
        place(way, ratios[i].model, packed, c);
        return true;
      }
      i -= RATIOS;
      if (ranks > 4) continue;
      if (i < BESIDES) {
        snprintf(c->name, sizeof c->name, "%s x %s%s", ways[way].name, besides[i].name, documents_word);
        c->layout = besides[i].layout;
        place(way, spp_suite_four, packed, c);
        return true;
      }
      i -= BESIDES;
    }
  return false;
}
