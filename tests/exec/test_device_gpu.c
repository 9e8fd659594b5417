/* The engine on a device, held to one rank on the processor and to the prediction as any other run is: on a
 * GPU, or over the emulator (tests/simt). Skipped where there is no device. */
#include "tests/exec/ranks.h"

#include "exec/suite.h"
#include "exec/validate.h"

enum { SKIPPED = 77 };

/* Compiled with SPP_TEST_NCCL: over exec/backend_nccl.c and the stand-in for NCCL (tests/simt), as processes.
 */
#ifdef SPP_TEST_NCCL
extern const struct spp_backend test_backend_nccl;
static const struct spp_backend *judged_backend(void) {
  return &test_backend_nccl;
}
#else
static const struct spp_backend *judged_backend(void) {
  return &spp_backend_self;
}
#endif

/* Ranks there are; those of threads are as many as wanted. */
static int64_t ranks_here(void) {
  int job = 0;
  struct spp_diag diag;
  expect_status(judged_backend()->start(&job, &diag), SPP_OK, &diag);
  return job > 0 ? job : SPP_EXEC_MAX_RANKS;
}

static const struct spp_device *device_here(void) {
  int count;
  const struct spp_device *const *all = spp_devices_all(&count);
  struct spp_diag why = {0};
  char text[1024];
  for (int i = 0; i < count; i++)
    if (spp_device_usable(all[i], &why)) return all[i];
  printf("no device: %s\n", spp_diag_format(&why, text, sizeof text));
  return NULL;
}

static enum spp_status run_on(const struct spp_device *device, const struct spp_suite_case *c,
                              struct spp_validate_result *result, struct spp_diag *diag) {
  struct spp_arena arena;
  struct spp_validate_case v = {
      .name = c->name, .setting = spp_suite_setting(c), .steps = 1, .device = device};
  spp_arena_init(&arena);
  expect_status(spp_arch_parse(c->model, strlen(c->model), "test", &arena, &v.setting.arch, diag), SPP_OK,
                diag);
  enum spp_status status = spp_validate_run(SPP_SOURCE_DIR "/configs", judged_backend(), &v, result, diag);
  spp_arena_free(&arena);
  return status;
}

static bool is_right(const struct spp_validate_result *r) {
  if (r->numerics.ok && r->comm.ok && r->memory.ok) return true;
  print_message(
      "  errors: loss %.1e gradients %.1e weights %.1e of %.1e; bytes %lld of %lld; memory %lld of %lld\n",
      r->numerics.loss_rel_error, r->numerics.grad_rel_error, r->numerics.output_rel_error,
      r->numerics.tolerance, (long long)r->comm.measured_sent_bytes, (long long)r->comm.predicted_sent_bytes,
      (long long)r->memory.measured_bytes, (long long)r->memory.predicted_bytes);
  return false;
}

/* Each kind of operator, message and cut of states once: the emulator needs a tenth of a second a layer. */
static const char *const chosen[] = {"one rank",
                                     "DP 4, ZeRO-3, recompute",
                                     "all-gather 4",
                                     "Ulysses 2 x ring 2, ZeRO-2",
                                     "TP 2 + SP x DP 2, ZeRO-3",
                                     "PP 2 x DP 2, ZeRO-3",
                                     "three uneven shards, ZeRO-1",
                                     "bf16, TP 2 + SP",
                                     "experts by score, DP 2, EP 2",
                                     "shared expert, TP 2 + SP x DP 2, EP 2",
                                     "linear biases, Ulysses 2 x ring 2",
                                     "norms over all of q and k, TP 2 + SP",
                                     "latents, TP 2 + SP",
                                     "sinks, ring 4",
                                     "GPT-2, TP 2 + SP",
                                     "a vocabulary of 101, TP 2",
                                     "packed documents, Ulysses 4"};

static bool is_chosen(const char *name) {
  for (size_t i = 0; i < sizeof chosen / sizeof chosen[0]; i++)
    if (strcmp(chosen[i], name) == 0) return true;
  return false;
}

/* SPPLAN_DEVICE_SUITE: all cases of that suite instead. */
static enum spp_suite suite_asked_for(bool *all) {
  const char *name = getenv("SPPLAN_DEVICE_SUITE");
  for (int s = 0; name && s < SPP_SUITE_COUNT; s++)
    if (strcmp(name, spp_suite_name((enum spp_suite)s)) == 0) {
      *all = true;
      return (enum spp_suite)s;
    }
  return SPP_SUITE_QUICK;
}

static void layouts_train_as_on_the_processor_and_use_what_is_predicted(void **state) {
  struct spp_suite_case c;
  bool all = false;
  enum spp_suite suite = suite_asked_for(&all);
  size_t ran = 0;
  (void)state;
  for (int i = 0; spp_suite_get(suite, i, &c); i++) {
    static struct spp_validate_result result;
    struct spp_diag diag = {.status = SPP_OK};
    if (!all && !is_chosen(c.name)) continue;
    ran++;
    if (spp_layout_world(&c.layout) > ranks_here() || (judged_backend()->in_order && c.layout.vpp > 1))
      continue;
    expect_note("%s", c.name);
    expect_status(run_on(device_here(), &c, &result, &diag), SPP_OK, &diag);
    if (judged_backend()->leads()) expect_true(is_right(&result));
  }
  expect_note("%s", "");
  expect_true(ran >= sizeof chosen / sizeof chosen[0]);
}

static void case_named(const char *name, struct spp_suite_case *c) {
  for (int i = 0; spp_suite_get(SPP_SUITE_QUICK, i, c); i++)
    if (strcmp(c->name, name) == 0) return;
  fail_msg("no case \"%s\"", name);
}

/* The device that others stand for. */
static const struct spp_device *whole;

#ifndef SPP_TEST_NCCL

static void runs_give_the_same_bits_again(void **state) {
  static struct spp_validate_result first, second;
  struct spp_diag diag = {.status = SPP_OK};
  struct spp_suite_case c;
  (void)state;
  case_named("ring 4", &c);
  expect_status(run_on(device_here(), &c, &first, &diag), SPP_OK, &diag);
  expect_status(run_on(device_here(), &c, &second, &diag), SPP_OK, &diag);
  expect_true(first.numerics.weights_digest != 0);
  expect_true(first.numerics.weights_digest == second.numerics.weights_digest);
}

/* Devices that are a little wrong. */
static struct spp_device_ops right;
static void scale_too_much(struct spp_queue *q, const struct spp_rmsnorm *a) {
  struct spp_rmsnorm wrong = *a;
  wrong.eps *= 300.0F; /* mean squares here are near 1/3: 1e-6 becomes 3e-4, an error of 5e-4 */
  right.rmsnorm_forward(q, &wrong);
}
static void add_too_little(struct spp_queue *q, int64_t n, enum spp_storage storage, const void *a,
                           const void *b, void *out) {
  right.add(q, n > 1 ? n - 1 : n, storage, a, b, out);
}

static void what_a_device_computes_wrongly_is_found(void **state) {
  static struct spp_validate_result result;
  struct spp_diag diag = {.status = SPP_OK};
  struct spp_suite_case c;
  struct spp_device wrong = *device_here();
  struct spp_device_ops ops = right = *wrong.ops;
  (void)state;
  wrong.ops = &ops;
  case_named("one rank", &c);
  ops.rmsnorm_forward = scale_too_much;
  expect_status(run_on(&wrong, &c, &result, &diag), SPP_OK, &diag);
  expect_true(!result.numerics.ok);
  expect_true(result.memory.ok && result.comm.ok);
  ops = right;
  case_named("DP 2", &c);
  ops.add = add_too_little;
  expect_status(run_on(&wrong, &c, &result, &diag), SPP_OK, &diag);
  expect_true(!result.numerics.ok);
}

/* A device that has no room: told in its words, and no rank hangs. */
static int64_t room;
static enum spp_status allocate_little(struct spp_queue *q, int64_t bytes, void **memory,
                                       struct spp_diag *diag) {
  if (bytes > room) bytes = INT64_C(1) << 50;
  return whole->allocate(q, bytes, memory, diag);
}

static void a_device_without_room_ends_the_run_in_its_words(void **state) {
  static struct spp_validate_result result;
  struct spp_diag diag = {.status = SPP_OK};
  struct spp_suite_case c;
  struct spp_device small = *(whole = device_here());
  (void)state;
  small.allocate = allocate_little;
  room = 16384;
  case_named("ring 4", &c);
  expect_status(run_on(&small, &c, &result, &diag), SPP_ERR_INTERNAL, NULL);
  expect_has(diag.what, "out of memory");
}

#endif

/* Under MPI every process must have passed. */
static int end(int failed) {
  judged_backend()->stop(failed ? SPP_ERR_TOLERANCE : SPP_OK);
  return failed != 0;
}

#ifdef SPP_TEST_NCCL
/* Enough to open the engine and to begin the first layer. */
static enum spp_status allocate_some(struct spp_queue *q, int64_t bytes, void **memory,
                                     struct spp_diag *diag) {
  static int taken;
  return whole->allocate(q, ++taken > 40 ? INT64_C(1) << 50 : bytes, memory, diag);
}

/* All ranks but the first have no room any more when it waits for them: it ends with their words, and the
 * job. */
static int fail_around_the_first(void) {
  static struct spp_validate_result result;
  struct spp_diag diag = {.status = SPP_OK};
  struct spp_suite_case c;
  char text[1024];
  struct spp_device small = *(whole = device_here());
  int job;
  case_named("ring 4", &c);
  if (judged_backend()->start(&job, &diag) != SPP_OK) return 1;
  if (!judged_backend()->leads()) small.allocate = allocate_some;
  enum spp_status status = run_on(&small, &c, &result, &diag);
  if (judged_backend()->leads())
    fprintf(stderr, "first rank: %s\n", spp_diag_format(&diag, text, sizeof text));
  judged_backend()->stop(status);
  return (int)status;
}
#endif

int main(int argc, char **argv) {
#ifdef SPP_TEST_NCCL
  if (argc > 1 && strcmp(argv[1], "fail") == 0) return fail_around_the_first();
#else
  (void)argc, (void)argv;
#endif
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(layouts_train_as_on_the_processor_and_use_what_is_predicted),
#ifndef SPP_TEST_NCCL
      cmocka_unit_test(runs_give_the_same_bits_again),
      cmocka_unit_test(what_a_device_computes_wrongly_is_found),
      cmocka_unit_test(a_device_without_room_ends_the_run_in_its_words),
#endif
  };
  return device_here() ? end(cmocka_run_group_tests(tests, NULL, NULL)) : SKIPPED;
}
