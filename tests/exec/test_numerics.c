/* One rank of the engine against Hugging Face transformers: tests/oracle/numerics, recorded by
 * tests/oracle/numerics.py in fp64. Other layouts are held to one rank (exec/validate.c); this tells that one
 * rank computes the family's function: losses, every weight's gradient, and where three steps take it. */
#include <math.h>

#include "base/file.h"
#include "base/json.h"
#include "exec/reference.h"
#include "exec/try.h"
#include "tests/exec/ranks.h"

#define RECORDS SPP_SOURCE_DIR "/tests/oracle/numerics"
#define CONFIGS SPP_SOURCE_DIR "/configs"

enum {
  STEPS = 3,
  MAX_DOCUMENTS = 16,
  PROBES = 2,
  ROW_ENTRIES = 7 /* name, elements, norm and sums, norm and sum */
};

/* fp32 against fp64. Some gradients are zero but for rounding (the bias of k without rotation), so a part of
 * the whole model's is allowed beside that of the weight's own. */
static const double loss_tolerance = 1e-5, weight_tolerance = 1e-4, model_tolerance = 1e-6;

static struct spp_diag diag;

/* A record, and what the engine made of it. */
struct numerics {
  const char *name; /* of the record */
  struct spp_arena arena;
  struct spp_json_doc *doc;
  struct spp_json record;
  struct spp_exec_setting setting;
  int64_t documents[MAX_DOCUMENTS];
  struct spp_exec_plan plan;
  struct spp_reference reference;
  float *start;
  double losses[STEPS + 1];
  int wrong;
};

static int64_t count_of(struct spp_json v) {
  int64_t n = 0;
  expect_status(spp_json_i64(v, 0, INT64_C(1) << 40, &n, &diag), SPP_OK, &diag);
  return n;
}
static double real_of(struct spp_json v) {
  double x = 0;
  expect_status(spp_json_real(v, -1e9, 1e9, &x, &diag), SPP_OK, &diag);
  return x;
}

/* The job of the record: experts have room for every token that chooses them. */
static void read_setting(struct numerics *n) {
  struct spp_exec_setting *s = &n->setting;
  struct spp_json lengths = spp_json_get(n->record, "documents");
  s->layout = spp_layout_plain();
  s->layout.grad_accum = count_of(spp_json_get(n->record, "grad_accum"));
  s->seq_tokens = count_of(spp_json_get(n->record, "tokens"));
  s->doc_count = spp_json_size(lengths);
  expect_true(s->doc_count <= MAX_DOCUMENTS);
  for (int i = 0; i < s->doc_count; i++)
    n->documents[i] = count_of(spp_json_at(lengths, i));
  if (s->doc_count > 0) s->doc_lengths = n->documents;
  if (s->arch->experts > 0)
    s->expert_capacity = (double)s->arch->experts / (double)s->arch->experts_per_token;
}

static void open_record(struct numerics *n, const char *name) {
  char path[1024];
  *n = (struct numerics){.name = name};
  spp_arena_init(&n->arena);
  snprintf(path, sizeof path, RECORDS "/%s", name);
  expect_status(spp_json_load(path, &n->doc, &diag), SPP_OK, &diag);
  n->record = spp_json_get(spp_json_root(n->doc), "numerics");
  expect_status(spp_arch_load(CONFIGS, path, &n->arena, &n->setting.arch, &diag), SPP_OK, &diag);
  read_setting(n);
}

static void close_record(struct numerics *n) {
  spp_exec_plan_close(&n->plan);
  spp_json_free(n->doc);
  spp_arena_free(&n->arena);
}

static enum spp_status train(struct spp_engine *e, struct numerics *n) {
  SPP_TRY(spp_reference_take(e, false, n->start));
  for (int step = 0; step <= STEPS; step++) {
    SPP_TRY(spp_engine_gradients(e));
    n->losses[step] = e->loss;
    if (step == 0) SPP_TRY(spp_reference_take(e, true, n->reference.gradients));
    if (step < STEPS) SPP_TRY(spp_engine_update(e));
  }
  SPP_TRY(spp_reference_take(e, false, n->reference.weights));
  return SPP_OK;
}

static enum spp_status rank_main(struct spp_endpoint *end, void *context, struct spp_diag *rank_diag) {
  static struct spp_rank rank;
  static struct spp_engine engine;
  struct numerics *n = context;
  enum spp_status status = spp_rank_open(&rank, end, NULL, rank_diag);
  if (status == SPP_OK) status = spp_engine_open(&rank, &n->plan, &engine);
  if (status == SPP_OK) status = train(&engine, n);
  spp_engine_close(&engine);
  spp_rank_close(&rank);
  return status;
}

static enum spp_status run(struct numerics *n) {
  SPP_TRY(spp_weights_supported(n->setting.arch, &diag));
  SPP_TRY(spp_reference_open(n->setting.arch, &n->arena, &n->reference, &diag));
  n->start = spp_arena_array(&n->arena, (size_t)n->reference.total, sizeof *n->start);
  if (!n->start) return spp_diag_oom(&diag);
  SPP_TRY(spp_exec_plan_open(CONFIGS, &n->setting, &n->plan, &diag));
  return spp_backend_self.run(1, 60, rank_main, n, &diag);
}

/* splitmix64 to [-1, 1): the vectors of numerics.py, not the weights of the engine. */
static double probe(int64_t number) {
  uint64_t z = (uint64_t)number * UINT64_C(0x9e3779b97f4a7c15) + UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  z ^= z >> 31;
  return (double)(z >> 11) * 0x1p-52 - 1.0;
}

/* Norm of values - less (NULL: nothing less), and its products with the first `probes` vectors. */
static void sum_up(const float *values, const float *less, int64_t count, int probes, double *sums) {
  double squares = 0;
  for (int k = 0; k < probes; k++)
    sums[k + 1] = 0;
  for (int64_t i = 0; i < count; i++) {
    double x = (double)values[i] - (less ? (double)less[i] : 0);
    squares += x * x;
    for (int k = 0; k < probes; k++)
      sums[k + 1] += x * probe(i + (int64_t)(k + 1) * (INT64_C(1) << 40));
  }
  sums[0] = sqrt(squares);
}

static void check(struct numerics *n, const char *what, const char *part, double actual, double expected,
                  double bound) {
  if (fabs(actual - expected) <= bound) return;
  print_error("%s: %s of %s is %.9g, transformers have %.9g (within %.1g)\n", n->name, part, what, actual,
              expected, bound);
  n->wrong++;
}

/* A norm and sums, in the order of the record from `row` on. */
static void check_sums(struct numerics *n, const char *what, const char *const *parts, struct spp_json row,
                       const double *sums, double scale) {
  double bound = weight_tolerance * real_of(row) + model_tolerance * scale;
  for (int i = 0; parts[i]; i++, row = spp_json_next(row))
    check(n, what, parts[i], sums[i], real_of(row), bound);
}

/* A rule of first values that changed asks for new records, not for a fault in the engine. */
static void check_start(struct numerics *n) {
  static const char *const parts[] = {"norm", "sum", NULL};
  double sums[2];
  sum_up(n->start, NULL, n->reference.total, 1, sums);
  check_sums(n, "first values (where these were changed, run tests/oracle/numerics.py)", parts,
             spp_json_first(spp_json_get(n->record, "start")), sums, 0);
}

static void check_losses(struct numerics *n) {
  struct spp_json loss = spp_json_first(spp_json_get(n->record, "losses"));
  for (int i = 0; i <= STEPS; i++, loss = spp_json_next(loss))
    check(n, i == 0 ? "first step" : "later step", "loss", n->losses[i], real_of(loss),
          loss_tolerance * real_of(loss));
}

static void check_row(struct numerics *n, struct spp_json row, int64_t first, const double *scales) {
  static const char *const of_gradient[] = {"gradient's norm", "gradient's first sum",
                                            "gradient's second sum", NULL},
                           *const of_movement[] = {"movement's norm", "movement's sum", NULL};
  const char *name = "";
  double gradient[PROBES + 1], moved[2];
  expect_i64(spp_json_size(row), ROW_ENTRIES);
  expect_status(spp_json_string(spp_json_at(row, 0), &name, &diag), SPP_OK, &diag);
  int64_t count = count_of(spp_json_at(row, 1));
  sum_up(n->reference.gradients + first, NULL, count, PROBES, gradient);
  sum_up(n->reference.weights + first, n->start + first, count, 1, moved);
  check_sums(n, name, of_gradient, spp_json_at(row, 2), gradient, scales[0]);
  check_sums(n, name, of_movement, spp_json_at(row, ROW_ENTRIES - 2), moved, scales[1]);
}

static void check_rows(struct numerics *n) {
  struct spp_json rows = spp_json_get(n->record, "rows");
  double scales[2]; /* of the whole model's gradient and movement */
  int64_t first = 0;
  sum_up(n->reference.gradients, NULL, n->reference.total, 0, &scales[0]);
  sum_up(n->reference.weights, n->start, n->reference.total, 0, &scales[1]);
  for (struct spp_json row = spp_json_first(rows); row.node; row = spp_json_next(row)) {
    int64_t count = count_of(spp_json_at(row, 1));
    expect_true(first + count <= n->reference.total);
    check_row(n, row, first, scales);
    first += count;
  }
  expect_i64(first, n->reference.total);
}

/* Returns whether it agreed. A refusal is a failure too: no recorded family is lacking. */
static bool check_record(const char *name) {
  static struct numerics n;
  expect_note("%s", name);
  open_record(&n, name);
  expect_status(run(&n), SPP_OK, &diag);
  check_start(&n);
  check_losses(&n);
  check_rows(&n);
  bool agreed = n.wrong == 0;
  close_record(&n);
  return agreed;
}

static void one_rank_computes_what_transformers_do(void **state) {
  struct spp_names records;
  int agreed = 0;
  (void)state;
  expect_status(spp_dir_list(RECORDS, ".json", &records, &diag), SPP_OK, &diag);
  for (int i = 0; i < records.count; i++)
    agreed += check_record(records.names[i]);
  expect_note("%s", "");
  expect_true(records.count > 0);
  expect_i64(agreed, records.count);
  spp_names_free(&records);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_rank_computes_what_transformers_do)};
  return test_end(cmocka_run_group_tests(tests, NULL, NULL));
}
