/* What a run trains on: made, not read, and the same tokens however the batch is spread over ranks. A
 * sequence is one document or, packed, several; what pads it to a length that the ranks divide is a document
 * of its own that no loss looks at. */
#include "exec/engine.h"
#include "exec/try.h"

static const char *const name = "token ids, labels, positions";

static enum spp_status take(struct spp_engine *e, int64_t bytes_each, void **data) {
  return spp_heap_bytes(&e->rank->heap, SPP_PART_ACTIVATIONS, name, e->g->tokens * bytes_each, data,
                        e->rank->diag);
}

/* Tokens of document i of the packed data, cut to a sequence. */
static int64_t length_of(const struct spp_engine *e, int64_t i) {
  return spp_min64(e->plan->job.documents.lengths[i], e->plan->job.seq_tokens);
}
static bool is_packed(const struct spp_engine *e) {
  return e->plan->job.documents.count > 0;
}

/* Documents in their order fill sequence after sequence (model/job.c spp_documents_measure). */
static enum spp_status pack(struct spp_engine *e) {
  const struct spp_documents *d = &e->plan->job.documents;
  struct spp_packs *p = &e->packs;
  int64_t n = 0, fill = 0;
  p->count = is_packed(e) ? d->sequences : 1;
  int64_t *first = spp_arena_array(&e->arena, (size_t)p->count + 1, sizeof *first);
  if (!first) return spp_diag_oom(e->rank->diag);
  for (int64_t i = 0; is_packed(e) && i < d->count; i++) {
    if (i == 0 || fill + length_of(e, i) > e->plan->job.seq_tokens) {
      first[n++] = i;
      fill = 0;
    }
    fill += length_of(e, i);
  }
  first[p->count] = is_packed(e) ? d->count : 1;
  for (int64_t q = 0; q < p->count; q++)
    p->most = spp_max64(p->most, first[q + 1] - first[q]);
  p->first = first;
  p->bounds = spp_arena_array(&e->arena, (size_t)(e->g->sequences * (p->most + 1) + 1), sizeof *p->bounds);
  return p->bounds ? SPP_OK : spp_diag_oom(e->rank->diag);
}

/* Tokens of document i of sequence q of a step; i = 0 when there is but one. */
static int64_t document_tokens(const struct spp_engine *e, int64_t q, int64_t i) {
  return is_packed(e) ? length_of(e, e->packs.first[q % e->packs.count] + i) : e->plan->job.seq_tokens;
}
static int64_t documents_of(const struct spp_engine *e, int64_t q) {
  return e->packs.first[q % e->packs.count + 1] - e->packs.first[q % e->packs.count];
}
static int64_t sequence_tokens(const struct spp_engine *e, int64_t q) {
  int64_t tokens = 0;
  for (int64_t i = 0; i < documents_of(e, q); i++)
    tokens += document_tokens(e, q, i);
  return tokens;
}

static double theta_of(const struct spp_arch *a, bool local) {
  return local ? a->rope_local_theta : a->rope_theta;
}

/* Angles of all layers, and of those with a window where they have their own. */
static enum spp_status open_tables(struct spp_engine *e) {
  const struct spp_arch *a = e->arch;
  int64_t half = e->g->tokens * a->rotary_dim / 2;
  for (int local = 0; local < 2 && half > 0 && theta_of(a, local) > 0; local++) {
    SPP_TRY(spp_engine_floats(e, SPP_PART_ACTIVATIONS, "rotary table", half, &e->angles[local].cos));
    SPP_TRY(spp_engine_floats(e, SPP_PART_ACTIVATIONS, "rotary table", half, &e->angles[local].sin));
  }
  return SPP_OK;
}

/* On a device: what the engine itself reads lies with the program. */
static enum spp_status copy_here(struct spp_engine *e, void **data) {
  for (int i = 0; i < 4; i++) {
    data[i] = spp_arena_array(&e->arena, (size_t)e->g->tokens, i == 0 ? sizeof(int64_t) : sizeof(int32_t));
    if (!data[i]) return spp_diag_oom(e->rank->diag);
  }
  return SPP_OK;
}

enum spp_status spp_batch_open(struct spp_engine *e) {
  struct spp_batch *b = &e->batch;
  void *data[5];
  SPP_TRY(take(e, sizeof(int64_t), &data[0]));
  for (int i = 1; i < 5; i++)
    SPP_TRY(take(e, sizeof(int32_t), &data[i]));
  *b = (struct spp_batch){.placed = {data[1], data[2], data[3], data[4]}};
  if (!spp_rank_is_processor(e->rank)) SPP_TRY(copy_here(e, data));
  b->positions = data[0];
  b->ids = data[1];
  b->targets = data[2];
  b->token_weights = data[3];
  SPP_TRY(open_tables(e));
  SPP_TRY(pack(e));
  for (int64_t q = 0; q < e->g->sequences * e->g->m * e->g->dp; q++)
    e->packs.step_tokens += sequence_tokens(e, q);
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

/* Bounds of the documents of sequences first, first + 1, ... and of what pads them, over all positions. */
static void mark_documents(struct spp_engine *e, int64_t first) {
  int64_t *bounds = e->packs.bounds, n = 0, length = e->attention.cut.tokens;
  bounds[0] = 0;
  for (int64_t s = 0; s < e->g->sequences; s++) {
    for (int64_t i = 0; i < documents_of(e, first + s); i++, n++)
      bounds[n + 1] = bounds[n] + document_tokens(e, first + s, i);
    if (bounds[n] == (s + 1) * length) continue;
    bounds[n + 1] = (s + 1) * length;
    n++;
  }
  e->attention.cu_seqlens = bounds;
  e->attention.n_docs = n;
}

static enum spp_status fill_tables(struct spp_engine *e) {
  int64_t half = e->arch->rotary_dim / 2, tokens = e->g->tokens;
  float gain = (float)e->arch->rope_scaling.gain;
  for (int local = 0; local < 2 && e->angles[local].cos; local++) {
    float *cos = e->angles[local].cos, *sin = e->angles[local].sin;
    struct spp_view views[] = {spp_view_floats(cos, tokens * half, SPP_VIEW_WRITE),
                               spp_view_floats(sin, tokens * half, SPP_VIEW_WRITE)};
    SPP_TRY(spp_views_open(e->rank, views, 2));
    for (int64_t i = 0; i < half; i++)
      spp_rope_column(tokens, half, i, e->batch.positions, spp_arch_rope_frequency(e->arch, local, i),
                      views[0].data, views[1].data);
    spp_views_close(e->rank, views, 2);
    if (local || gain == 1.0F) continue;
    e->rank->ops->scale(e->rank->queue, tokens * half, gain, cos, SPP_STORE_F32);
    e->rank->ops->scale(e->rank->queue, tokens * half, gain, sin, SPP_STORE_F32);
  }
  return SPP_OK;
}

static void place(struct spp_engine *e) {
  const struct spp_batch *b = &e->batch;
  const struct spp_rank *r = e->rank;
  int64_t bytes = e->g->tokens * (int64_t)sizeof(int32_t);
  if (spp_rank_is_processor(r)) return;
  r->device->upload(r->queue, b->placed.ids, b->ids, bytes);
  r->device->upload(r->queue, b->placed.targets, b->targets, bytes);
  r->device->upload(r->queue, b->placed.token_weights, b->token_weights, bytes);
}

/* Each token predicts the next one; the loss is the mean over all tokens of the step. */
enum spp_status spp_batch_fill(struct spp_engine *e, int64_t micro_batch) {
  const struct spp_geometry *g = e->g;
  const struct spp_sequence_cut *cut = &e->attention.cut;
  struct spp_batch *b = &e->batch;
  int64_t first = (micro_batch * g->dp + e->groups.dp_rank) * g->sequences, document = 0;
  b->first_sequence = first;
  mark_documents(e, first);
  spp_sequence_positions(cut, e->groups.ulysses_rank, e->groups.ring_rank, b->positions);
  for (int64_t t = 0; t < g->tokens; t++) {
    int64_t s = b->positions[t] / cut->tokens, place = b->positions[t] % cut->tokens;
    int64_t number = (first + s) * e->plan->job.seq_tokens + place;
    bool real = place < sequence_tokens(e, first + s);
    while (b->positions[t] >= e->attention.cu_seqlens[document + 1])
      document++;
    b->positions[t] -= e->attention.cu_seqlens[document];
    b->ids[t] = real ? token(e, number) : 0;
    b->targets[t] = real ? token(e, number + 1) : -1;
    b->token_weights[t] = real ? 1.0F / (float)e->packs.step_tokens : 0.0F;
  }
  place(e);
  return fill_tables(e);
}
