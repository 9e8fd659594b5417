/* What a run trains on: made, not read, and the same tokens however the batch is spread over ranks. */
#include "exec/engine.h"
#include "exec/try.h"

static const char *const name = "token ids, labels, positions";

static enum spp_status take(struct spp_engine *e, int64_t bytes_each, void **data) {
  return spp_heap_bytes(&e->rank->heap, SPP_PART_ACTIVATIONS, name, e->g->tokens * bytes_each, data,
                        e->rank->diag);
}

enum spp_status spp_batch_open(struct spp_engine *e) {
  struct spp_batch *b = &e->batch;
  int64_t half = e->g->tokens * e->arch->head_dim / 2;
  void *data[5];
  SPP_TRY(take(e, sizeof(int64_t), &data[0]));
  for (int i = 1; i < 5; i++)
    SPP_TRY(take(e, sizeof(int32_t), &data[i]));
  *b = (struct spp_batch){data[0], data[1], data[2], data[3], data[4]};
  SPP_TRY(spp_engine_block(e, SPP_PART_ACTIVATIONS, "rotary table", half, &e->cos));
  SPP_TRY(spp_engine_block(e, SPP_PART_ACTIVATIONS, "rotary table", half, &e->sin));
  spp_sequence_positions(&e->attention.cut, e->groups.ulysses_rank, e->groups.ring_rank, b->positions);
  for (int64_t t = 0; t < e->g->tokens; t++)
    b->positions[t] %= e->attention.cut.tokens;
  spp_rope_table(e->g->tokens, e->arch->head_dim, b->positions, 10000.0, e->cos, e->sin);
  return SPP_OK;
}

/* Token `number` of an endless text (xorshift-multiply of its number). */
static int32_t token(const struct spp_engine *e, int64_t number) {
  uint64_t z = (uint64_t)number * UINT64_C(0xd6e8feb86659fd93) + 1;
  z ^= z >> 32;
  z *= UINT64_C(0xd6e8feb86659fd93);
  z ^= z >> 32;
  return (int32_t)(z % (uint64_t)e->arch->vocab);
}

/* Each token predicts the next one; the loss is the mean over all tokens of the step. */
void spp_batch_fill(struct spp_engine *e, int64_t micro_batch) {
  const struct spp_geometry *g = e->g;
  struct spp_batch *b = &e->batch;
  int64_t each = g->tokens / g->sequences, length = e->attention.cut.tokens;
  int64_t sequence = (micro_batch * g->dp + e->groups.dp_rank) * g->sequences;
  float weight = 1.0F / (float)(g->sequences * g->m * g->dp * length);
  for (int64_t t = 0; t < g->tokens; t++) {
    int64_t number = (sequence + t / each) * length + b->positions[t];
    b->ids[t] = token(e, number);
    b->targets[t] = token(e, number + 1);
    b->token_weights[t] = weight;
  }
}
