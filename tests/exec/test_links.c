/* The engine on a device that is the processor under another name: all that a device asks of it (copies of
 * what it looks at, messages that are carried, groups of messages as NCCL takes them) at the speed of the
 * processor, and with its bits. The kernels of devices are judged elsewhere (tests/kernels, exec/device_gpu).
 */
#include "tests/exec/ranks.h"

#include "exec/grouped.h"
#include "exec/suite.h"
#include "exec/validate.h"
#include "kernels/processor.h"

/* --- NCCL's rules over threads: no tags, and a rank goes on when all of its group has been met --- */

enum { GROUP_MOST = 16 };

static enum spp_status meet(struct spp_endpoint *end, const struct spp_transfer *t,
                            struct spp_transfer *carried, struct spp_diag *diag) {
  if (t->from == end->rank) return end->ops->isend(end, t->to, 0, t->data, t->bytes, carried, diag);
  return end->ops->irecv(end, t->from, 0, t->data, t->bytes, carried, diag);
}

static enum spp_status strict_exchange(void *context, const struct spp_transfer *first,
                                       struct spp_diag *diag) {
  struct spp_endpoint *end = *(struct spp_endpoint **)context;
  struct spp_transfer carried[GROUP_MOST];
  int count = 0;
  for (const struct spp_transfer *t = first; t; t = t->next) {
    rank_expect_i64(count < GROUP_MOST, 1);
    SPP_TRY(meet(end, t, &carried[count++], diag));
  }
  for (int i = 0; i < count; i++)
    SPP_TRY(end->ops->wait(end, &carried[i], diag));
  return SPP_OK;
}

static const struct spp_grouped_ops strict = {strict_exchange, free};

static enum spp_status strict_link(struct spp_endpoint *end, struct spp_runner memory,
                                   struct spp_endpoint **linked, struct spp_diag *diag) {
  struct spp_endpoint **context = malloc(sizeof *context);
  if (!context) return spp_diag_oom(diag);
  *context = end;
  return spp_grouped_open(end, memory, &strict, context, linked, diag);
}

struct job {
  spp_rank_main *rank_main;
  void *context;
};
static enum spp_status linked_main(struct spp_endpoint *end, void *context, struct spp_diag *diag) {
  const struct job *job = context;
  struct spp_endpoint_ops ops = *end->ops;
  struct spp_endpoint mine = *end;
  ops.link = strict_link;
  mine.ops = &ops;
  return job->rank_main(&mine, job->context, diag);
}
static enum spp_status linked_run(int ranks, double timeout_s, spp_rank_main *rank_main, void *context,
                                  struct spp_diag *diag) {
  struct job job = {rank_main, context};
  return spp_backend_self.run(ranks, timeout_s, linked_main, &job, diag);
}

/* --- the processor under another name --- */

static enum spp_status run_on(const struct spp_backend *backend, const struct spp_device *device,
                              const struct spp_suite_case *c, struct spp_validate_result *result) {
  struct spp_arena arena;
  struct spp_diag diag = {.status = SPP_OK};
  char text[1024];
  struct spp_validate_case v = {
      .name = c->name, .setting = spp_suite_setting(c), .steps = 2, .device = device};
  spp_arena_init(&arena);
  expect_status(spp_arch_parse(c->model, strlen(c->model), "test", &arena, &v.setting.arch, &diag), SPP_OK,
                &diag);
  enum spp_status status = spp_validate_run(SPP_SOURCE_DIR "/configs", backend, &v, result, &diag);
  if (status != SPP_OK) print_message("  %s: %s\n", c->name, spp_diag_format(&diag, text, sizeof text));
  spp_arena_free(&arena);
  return status;
}

static void same_as_on_the_processor(const struct spp_backend *backend, enum spp_suite suite) {
  const struct spp_device far = spp_device_processor;
  struct spp_suite_case c;
  for (int i = 0; spp_suite_get(suite, i, &c); i++) {
    static struct spp_validate_result here, there;
    if (backend->in_order && c.layout.vpp > 1) continue;
    expect_note("%s", c.name);
    expect_status(run_on(&spp_backend_self, NULL, &c, &here), SPP_OK, NULL);
    expect_status(run_on(backend, &far, &c, &there), SPP_OK, NULL);
    expect_true(there.numerics.ok && there.comm.ok && there.memory.ok);
    expect_true(there.numerics.weights_digest == here.numerics.weights_digest);
    expect_true(there.numerics.loss == here.numerics.loss);
  }
  expect_note("%s", "");
}

static void messages_that_are_carried_change_no_bit(void **state) {
  (void)state;
  same_as_on_the_processor(&spp_backend_self, SPP_SUITE_QUICK);
}

static void messages_without_tags_in_groups_change_no_bit(void **state) {
  struct spp_backend linked = spp_backend_self;
  (void)state;
  linked.run = linked_run;
  linked.in_order = true;
  same_as_on_the_processor(&linked, SPP_SUITE_CI);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(messages_that_are_carried_change_no_bit),
      cmocka_unit_test(messages_without_tags_in_groups_change_no_bit),
  };
  return test_end(cmocka_run_group_tests(tests, NULL, NULL));
}
