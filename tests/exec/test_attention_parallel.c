#include "tests/exec/ranks.h"

#include "base/num.h"
#include "exec/attention_parallel.h"
#include "exec/plan.h"
#include "kernels/processor.h"
#include "model/comm.h"

enum { HEAD_DIM = 16, MOST_DOCS = 8 };

struct attention_case {
  const char *name;
  enum spp_sp_kind kind;
  int64_t ulysses, ring;
  bool zigzag;
  int64_t heads, kv_heads, sequences, tokens;
  int64_t docs[MOST_DOCS]; /* lengths over all positions, 0 ends; none: a sequence is a document */
};

/* GQA ratios 1, 4 and 8; an odd number of sequences; 2, 4 and 8 ranks. */
static const struct attention_case cases[] = {
    {"one rank", SPP_SP_NONE, 1, 1, false, 4, 1, 3, 32, {0}},
    {"ulysses 2", SPP_SP_ULYSSES, 2, 1, false, 8, 2, 3, 32, {0}},
    {"ulysses 4, MHA", SPP_SP_ULYSSES, 4, 1, false, 8, 8, 1, 64, {0}},
    {"ulysses 8, one KV head sent to four ranks", SPP_SP_ULYSSES, 8, 1, false, 8, 2, 1, 64, {0}},
    {"ulysses 4, MQA repeated", SPP_SP_ULYSSES, 4, 1, false, 8, 1, 3, 32, {0}},
    {"ring 2, contiguous", SPP_SP_RING, 1, 2, false, 8, 2, 3, 32, {0}},
    {"ring 4, contiguous, MHA", SPP_SP_RING, 1, 4, false, 4, 4, 1, 64, {0}},
    {"ring 2, zigzag", SPP_SP_RING, 1, 2, true, 8, 1, 3, 32, {0}},
    {"ring 4, zigzag", SPP_SP_RING, 1, 4, true, 8, 2, 3, 48, {0}},
    {"ring 8, zigzag", SPP_SP_RING, 1, 8, true, 4, 1, 1, 80, {0}},
    {"ring 4, zigzag, packed", SPP_SP_RING, 1, 4, true, 8, 2, 1, 64, {7, 1, 30, 20, 6}},
    {"ring 4, contiguous, packed", SPP_SP_RING, 1, 4, false, 8, 2, 2, 64, {7, 57, 30, 28, 6}},
    {"all-gather 2", SPP_SP_ALLGATHER, 1, 2, true, 8, 2, 3, 32, {0}},
    {"all-gather 4, packed", SPP_SP_ALLGATHER, 1, 4, true, 8, 8, 2, 64, {50, 14, 3, 61}},
    {"hybrid 2 x 2", SPP_SP_HYBRID, 2, 2, true, 8, 2, 3, 32, {0}},
    {"hybrid 2 x 4", SPP_SP_HYBRID, 2, 4, true, 8, 2, 1, 64, {0}},
    {"hybrid 4 x 2, packed", SPP_SP_HYBRID, 4, 2, true, 8, 4, 2, 64, {60, 4, 1, 1, 62}},
    {"ulysses 3 splits a zigzag chunk", SPP_SP_HYBRID, 3, 2, true, 6, 3, 1, 48, {0}},
};
enum { CASE_COUNT = sizeof cases / sizeof cases[0] };

/* Whole tensors and the expected results, made by the reference kernel on one rank. */
struct whole {
  const struct attention_case *c;
  const struct spp_comm *predicted; /* NULL: not checked */
  float *q, *k, *v, *dout, *out, *dq, *dk, *dv;
};

static float noise(uint32_t *state) {
  *state = *state * 1664525U + 1013904223U;
  return (float)(*state >> 8) / 8388608.0F - 1.0F;
}
static float *fill(int64_t n, uint32_t seed) {
  float *x = malloc((size_t)n * sizeof *x);
  for (int64_t i = 0; i < n; i++)
    x[i] = noise(&seed);
  return x;
}

static int64_t documents(const struct attention_case *c, int64_t *bounds) {
  int64_t n = 0;
  bounds[0] = 0;
  for (; n < MOST_DOCS && c->docs[n] > 0; n++)
    bounds[n + 1] = bounds[n] + c->docs[n];
  return n;
}

static void open_attention(const struct attention_case *c, bool alone, int64_t *bounds,
                           struct spp_attention *a) {
  int64_t docs = documents(c, bounds);
  *a = (struct spp_attention){.cut = {.sequences = c->sequences,
                                      .tokens = c->tokens,
                                      .ulysses = alone ? 1 : c->ulysses,
                                      .ring = alone ? 1 : c->ring,
                                      .zigzag = c->zigzag},
                              .gathers = !alone && c->kind == SPP_SP_ALLGATHER,
                              .heads = c->heads,
                              .kv_heads = c->kv_heads,
                              .head_dim = HEAD_DIM,
                              .cu_seqlens = docs ? bounds : NULL,
                              .n_docs = docs};
}

static enum spp_status block(struct spp_rank *rank, int64_t floats, void **data) {
  return spp_heap_elements(&rank->heap, SPP_PART_TRANSIENT, "input", floats, SPP_STORE_F32, data, rank->diag);
}

/* This rank's rows of a whole tensor. */
static enum spp_status take(struct spp_rank *rank, const struct spp_attention *a, const int64_t *positions,
                            const float *from, int64_t heads, void **rows) {
  int64_t width = heads * HEAD_DIM;
  SPP_TRY(block(rank, a->tokens * width, rows));
  for (int64_t t = 0; t < a->tokens; t++)
    memcpy((float *)*rows + t * width, from + positions[t] * width, (size_t)width * sizeof(float));
  return SPP_OK;
}

/* Largest difference over the rank's rows, relative to the largest value of the whole tensor. */
static double error_of(const struct spp_attention *a, const int64_t *positions, const void *data,
                       const float *whole, int64_t heads) {
  const float *rows = data;
  int64_t width = heads * HEAD_DIM;
  double most = 0, size = 0;
  for (int64_t i = 0; i < a->cut.sequences * a->cut.tokens * width; i++)
    size = fmax(size, fabs((double)whole[i]));
  for (int64_t t = 0; t < a->tokens; t++)
    for (int64_t i = 0; i < width; i++)
      most = fmax(most, fabs((double)rows[t * width + i] - (double)whole[positions[t] * width + i]));
  return most / size;
}

static enum spp_status run_attention(struct spp_rank *rank, const struct spp_attention *a,
                                     const struct whole *w, const int64_t *positions, double *errors) {
  const struct attention_case *c = w->c;
  struct spp_attention_kept kept;
  struct spp_attention_grads grads;
  void *dout;
  SPP_TRY(take(rank, a, positions, w->q, c->heads, &kept.q));
  SPP_TRY(take(rank, a, positions, w->k, c->kv_heads, &kept.k));
  SPP_TRY(take(rank, a, positions, w->v, c->kv_heads, &kept.v));
  SPP_TRY(spp_attention_forward(rank, a, SPP_PASS_FORWARD, false, &kept));
  errors[0] = error_of(a, positions, kept.o_input, w->out, c->heads);
  SPP_TRY(take(rank, a, positions, w->dout, c->heads, &dout));
  void *o_input = kept.o_input == kept.out ? NULL : kept.o_input;
  SPP_TRY(spp_attention_backward(rank, a, &kept, dout, &grads));
  errors[1] = error_of(a, positions, grads.q, w->dq, c->heads);
  errors[2] = error_of(a, positions, grads.k, w->dk, c->kv_heads);
  errors[3] = error_of(a, positions, grads.v, w->dv, c->kv_heads);
  spp_heap_free(&rank->heap, o_input);
  spp_heap_free(&rank->heap, grads.q);
  spp_heap_free(&rank->heap, grads.k);
  spp_heap_free(&rank->heap, grads.v);
  return SPP_OK;
}

/* Every predicted op of one layer and nothing else, to the byte and message. */
static enum spp_status check_traffic(const struct spp_tally *tally, const struct spp_comm *comm,
                                     struct spp_diag *diag) {
  int64_t ops = 0;
  for (int i = 0; i < comm->count; i++) {
    const struct spp_comm_op *op = &comm->ops[i];
    if (op->group != SPP_GROUP_ULYSSES && op->group != SPP_GROUP_RING) continue;
    ops++;
    struct spp_tally copy = *tally;
    const struct spp_traffic *row =
        spp_tally_row(&copy, op->op, op->group, (struct spp_label){op->what, op->pass});
    if (row->sent_bytes != op->sent_bytes * op->count_per_step ||
        row->messages != op->messages * op->count_per_step)
      return spp_diag_set(diag, SPP_ERR_TOLERANCE, NULL, NULL,
                          "%s %s %s: sent %lld bytes in %lld messages, predicted %lld in %lld",
                          spp_collective_name(op->op), op->what, spp_pass_name(op->pass),
                          (long long)row->sent_bytes, (long long)row->messages, (long long)op->sent_bytes,
                          (long long)op->messages);
  }
  rank_expect_i64(tally->row_count, ops);
  return SPP_OK;
}

static enum spp_status attention_rank(struct spp_endpoint *end, void *context, struct spp_diag *diag) {
  const struct whole *w = context;
  const struct attention_case *c = w->c;
  struct spp_rank rank;
  struct spp_rank_group ulysses, ring;
  struct spp_attention a;
  int64_t bounds[MOST_DOCS + 1], positions[256];
  double errors[4] = {0};
  float staging[64];
  int su = (int)c->ulysses, sr = (int)c->ring;
  SPP_TRY(spp_rank_open(&rank, end, NULL, diag));
  spp_group_make(&ulysses, end, &rank.tally, SPP_GROUP_ULYSSES, end->rank / su * su, 1, su);
  spp_group_make(&ring, end, &rank.tally, SPP_GROUP_RING, end->rank % su, su, sr);
  ulysses.staging = ring.staging = staging;
  ulysses.staging_floats = ring.staging_floats = 64;
  open_attention(c, false, bounds, &a);
  a.ulysses = &ulysses;
  a.ring = &ring;
  SPP_TRY(spp_attention_open(&rank, &a));
  spp_sequence_positions(&a.cut, end->rank % su, end->rank / su, positions);
  SPP_TRY(run_attention(&rank, &a, w, positions, errors));
  rank_expect_i64(rank.heap.bytes, 0);
  spp_attention_close(&rank, &a);
  spp_rank_close(&rank);
  for (int i = 0; i < 4; i++)
    rank_expect_near(errors[i], 0, 1e-5);
  return w->predicted ? check_traffic(&rank.tally, w->predicted, diag) : SPP_OK;
}

/* The judge: plain double-precision loops over the whole sequence. */
static void judge(struct whole *w) {
  const struct attention_case *c = w->c;
  struct spp_diag diag = {.status = SPP_OK};
  const struct spp_kernels *reference;
  struct spp_rank rank;
  struct spp_attention a;
  struct spp_attention_kept kept;
  struct spp_attention_grads grads;
  int64_t bounds[MOST_DOCS + 1], n = c->sequences * c->tokens;
  size_t wide = (size_t)(n * c->heads * HEAD_DIM) * sizeof(float),
         narrow = (size_t)(n * c->kv_heads * HEAD_DIM) * sizeof(float);
  expect_status(spp_rank_open(&rank, NULL, NULL, &diag), SPP_OK, &diag);
  expect_status(spp_kernels_find("reference", &reference, &diag), SPP_OK, &diag);
  rank.queue = spp_processor_runner(reference).queue;
  open_attention(c, true, bounds, &a);
  expect_status(spp_attention_open(&rank, &a), SPP_OK, &diag);
  expect_status(block(&rank, n * c->heads * HEAD_DIM, &kept.q), SPP_OK, &diag);
  expect_status(block(&rank, n * c->kv_heads * HEAD_DIM, &kept.k), SPP_OK, &diag);
  expect_status(block(&rank, n * c->kv_heads * HEAD_DIM, &kept.v), SPP_OK, &diag);
  memcpy(kept.q, w->q, wide);
  memcpy(kept.k, w->k, narrow);
  memcpy(kept.v, w->v, narrow);
  expect_status(spp_attention_forward(&rank, &a, SPP_PASS_FORWARD, false, &kept), SPP_OK, &diag);
  memcpy(w->out, kept.out, wide);
  void *dout;
  expect_status(block(&rank, n * c->heads * HEAD_DIM, &dout), SPP_OK, &diag);
  memcpy(dout, w->dout, wide);
  expect_status(spp_attention_backward(&rank, &a, &kept, dout, &grads), SPP_OK, &diag);
  memcpy(w->dq, grads.q, wide);
  memcpy(w->dk, grads.k, narrow);
  memcpy(w->dv, grads.v, narrow);
  spp_attention_close(&rank, &a);
  spp_rank_close(&rank);
}

static struct whole whole_of(const struct attention_case *c) {
  int64_t n = c->sequences * c->tokens * HEAD_DIM, wide = n * c->heads, narrow = n * c->kv_heads;
  struct whole w = {.c = c,
                    .q = fill(wide, 1),
                    .k = fill(narrow, 2),
                    .v = fill(narrow, 3),
                    .dout = fill(wide, 4),
                    .out = fill(wide, 5),
                    .dq = fill(wide, 6),
                    .dk = fill(narrow, 7),
                    .dv = fill(narrow, 8)};
  judge(&w);
  return w;
}

static void whole_free(struct whole *w) {
  float *all[] = {w->q, w->k, w->v, w->dout, w->out, w->dq, w->dk, w->dv};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    free(all[i]);
}

/* Ops of one layer and one micro-batch. False when the framework file does not allow the case. */
static bool predict(const struct attention_case *c, struct spp_comm *comm) {
  char text[512];
  struct spp_arena arena;
  struct spp_exec_plan plan;
  struct spp_stage stage;
  struct spp_diag diag;
  struct spp_exec_setting setting = {.layout = spp_layout_plain(), .seq_tokens = c->tokens};
  snprintf(text, sizeof text,
           "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":1,"
           "\"num_attention_heads\":%d,\"num_key_value_heads\":%d,\"head_dim\":%d,\"vocab_size\":64}",
           (int)c->heads, (int)c->kv_heads, HEAD_DIM);
  spp_arena_init(&arena);
  expect_status(spp_arch_parse(text, strlen(text), "test", &arena, &setting.arch, &diag), SPP_OK, &diag);
  setting.layout.ulysses = c->ulysses;
  setting.layout.ring = c->ring;
  setting.layout.sp_kind = c->kind;
  setting.layout.micro_batch = c->sequences;
  bool legal = spp_exec_plan_open(SPP_SOURCE_DIR "/configs", &setting, &plan, &diag) == SPP_OK;
  if (legal) {
    spp_stage_resolve(&plan.job, &plan.layout, &plan.geometry, 0, &stage);
    spp_comm_predict_stage(&plan.job, &plan.layout, &plan.geometry, &stage, comm);
  }
  spp_exec_plan_close(&plan);
  spp_arena_free(&arena);
  return legal;
}

static void ranks_agree_with_one_rank_and_send_what_is_predicted(void **state) {
  int predicted = 0, most = test_ranks(SPP_EXEC_MAX_RANKS);
  (void)state;
  for (int i = 0; i < CASE_COUNT; i++) {
    struct spp_comm comm;
    if (cases[i].ulysses * cases[i].ring > most) continue;
    expect_note("%s", cases[i].name);
    struct whole w = whole_of(&cases[i]);
    if (predict(&cases[i], &comm)) {
      w.predicted = &comm;
      predicted++;
    }
    run_ranks((int)(cases[i].ulysses * cases[i].ring), attention_rank, &w);
    whole_free(&w);
  }
  expect_note("%s", "");
  if (most >= 8) expect_i64(predicted, CASE_COUNT);
}

static void shapes_that_cannot_be_cut_are_refused(void **state) {
  static const struct attention_case bad[] = {
      {"heads", SPP_SP_ULYSSES, 3, 1, false, 8, 2, 1, 48, {0}},
      {"KV heads", SPP_SP_ULYSSES, 6, 1, false, 12, 4, 1, 48, {0}},
      {"tokens", SPP_SP_RING, 1, 4, true, 8, 2, 1, 60, {0}},
      {"groups", SPP_SP_NONE, 1, 1, false, 8, 3, 1, 48, {0}},
  };
  (void)state;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct spp_attention a;
    struct spp_rank rank;
    struct spp_diag diag;
    int64_t bounds[MOST_DOCS + 1];
    expect_note("%s", bad[i].name);
    open_attention(&bad[i], false, bounds, &a);
    expect_status(spp_rank_open(&rank, NULL, NULL, &diag), SPP_OK, &diag);
    expect_status(spp_attention_open(&rank, &a), SPP_ERR_INPUT, NULL);
    spp_rank_close(&rank);
  }
  expect_note("%s", "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_agree_with_one_rank_and_send_what_is_predicted),
      cmocka_unit_test(shapes_that_cannot_be_cut_are_refused),
  };
  return test_end(cmocka_run_group_tests(tests, NULL, NULL));
}
