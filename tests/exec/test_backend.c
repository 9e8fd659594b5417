#include "tests/exec/ranks.h"

#include <time.h>

static enum spp_status run_self(int ranks, double timeout_s, spp_rank_main *rank_main, void *context,
                                struct spp_diag *diag) {
  return spp_backend_self.run(ranks, timeout_s, rank_main, context, diag);
}

/* Each rank sends its number to all others with three tags, and receives in the opposite order of tags. */
static enum spp_status exchange(struct spp_endpoint *end, void *context, struct spp_diag *diag) {
  struct spp_transfer out[8][3], in[8][3];
  int64_t sent[8][3], got[8][3];
  (void)context;
  for (int peer = 0; peer < end->size; peer++)
    for (int tag = 0; tag < 3 && peer != end->rank; tag++) {
      sent[peer][tag] = 100 * end->rank + 10 * peer + tag;
      SPP_TRY(end->ops->isend(end, peer, tag, &sent[peer][tag], sizeof(int64_t), &out[peer][tag], diag));
    }
  for (int peer = end->size - 1; peer >= 0; peer--)
    for (int tag = 2; tag >= 0 && peer != end->rank; tag--)
      SPP_TRY(end->ops->irecv(end, peer, tag, &got[peer][tag], sizeof(int64_t), &in[peer][tag], diag));
  for (int peer = 0; peer < end->size; peer++)
    for (int tag = 0; tag < 3 && peer != end->rank; tag++) {
      SPP_TRY(end->ops->wait(end, &out[peer][tag], diag));
      SPP_TRY(end->ops->wait(end, &in[peer][tag], diag));
      rank_expect_i64(got[peer][tag], 100 * peer + 10 * end->rank + tag);
    }
  return end->ops->barrier(end, diag);
}

static void messages_reach_their_receiver_by_tag(void **state) {
  (void)state;
  for (int ranks = 1; ranks <= 8; ranks++) {
    struct spp_diag diag = {.status = SPP_OK};
    expect_status(run_self(ranks, 20.0, exchange, NULL, &diag), SPP_OK, &diag);
  }
}

/* Messages of one tag arrive in the order they were sent. */
static enum spp_status stream(struct spp_endpoint *end, void *context, struct spp_diag *diag) {
  (void)context;
  for (int64_t i = 0; i < 1000; i++) {
    struct spp_transfer t;
    int64_t value = i;
    if (end->rank == 0)
      SPP_TRY(end->ops->isend(end, 1, 5, &value, sizeof value, &t, diag));
    else
      SPP_TRY(end->ops->irecv(end, 0, 5, &value, sizeof value, &t, diag));
    SPP_TRY(end->ops->wait(end, &t, diag));
    rank_expect_i64(value, i);
  }
  return SPP_OK;
}

static void messages_of_one_tag_keep_their_order(void **state) {
  struct spp_diag diag = {.status = SPP_OK};
  (void)state;
  expect_status(run_self(2, 20.0, stream, NULL, &diag), SPP_OK, &diag);
}

static enum spp_status all_receive(struct spp_endpoint *end, void *context, struct spp_diag *diag) {
  struct spp_transfer t;
  int64_t value;
  (void)context;
  SPP_TRY(end->ops->irecv(end, (end->rank + 1) % end->size, 0, &value, sizeof value, &t, diag));
  return end->ops->wait(end, &t, diag);
}
static enum spp_status blocking_ring(struct spp_endpoint *end, void *context, struct spp_diag *diag) {
  struct spp_transfer t;
  int64_t value = 0;
  (void)context;
  SPP_TRY(end->ops->isend(end, (end->rank + 1) % end->size, 0, &value, sizeof value, &t, diag));
  return end->ops->wait(end, &t, diag);
}
static enum spp_status one_leaves(struct spp_endpoint *end, void *context, struct spp_diag *diag) {
  return end->rank == 0 ? SPP_OK : all_receive(end, context, diag);
}
static enum spp_status barrier_without_one(struct spp_endpoint *end, void *context, struct spp_diag *diag) {
  (void)context;
  return end->rank == 0 ? SPP_OK : end->ops->barrier(end, diag);
}

static void a_deadlock_is_told_at_once(void **state) {
  static const struct {
    const char *name;
    spp_rank_main *rank_main;
  } cases[] = {{"all receive", all_receive},
               {"all send and wait", blocking_ring},
               {"one rank leaves", one_leaves},
               {"barrier without one", barrier_without_one}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct spp_diag diag = {.status = SPP_OK};
    expect_note("%s", cases[i].name);
    double start_s = spp_monotonic_s();
    expect_status(run_self(4, 60.0, cases[i].rank_main, NULL, &diag), SPP_ERR_INTERNAL, NULL);
    expect_has(diag.what, "deadlock");
    expect_true(spp_monotonic_s() - start_s < 10.0);
  }
}

static enum spp_status third_fails(struct spp_endpoint *end, void *context, struct spp_diag *diag) {
  if (end->rank == 2) return spp_diag_set(diag, SPP_ERR_INPUT, NULL, NULL, "no such weight");
  return all_receive(end, context, diag);
}
static enum spp_status second_aborts(struct spp_endpoint *end, void *context, struct spp_diag *diag) {
  struct spp_diag why;
  if (end->rank != 1) return all_receive(end, context, diag);
  spp_diag_set(&why, SPP_ERR_INPUT, NULL, NULL, "no such weight");
  end->ops->abort(end, &why);
  return SPP_OK;
}
static enum spp_status wrong_size(struct spp_endpoint *end, void *context, struct spp_diag *diag) {
  struct spp_transfer t;
  int64_t value[2] = {0};
  (void)context;
  if (end->rank > 1) return SPP_OK;
  if (end->rank == 0)
    SPP_TRY(end->ops->isend(end, 1, 0, value, 16, &t, diag));
  else
    SPP_TRY(end->ops->irecv(end, 0, 0, value, 8, &t, diag));
  return end->ops->wait(end, &t, diag);
}

static void a_failing_rank_stops_the_others(void **state) {
  static const struct {
    spp_rank_main *rank_main;
    enum spp_status status;
    const char *what;
  } cases[] = {{third_fails, SPP_ERR_INPUT, "no such weight"},
               {second_aborts, SPP_ERR_INPUT, "no such weight"},
               {wrong_size, SPP_ERR_INTERNAL, "sends 16 bytes to rank 1, which expects 8"}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct spp_diag diag = {.status = SPP_OK};
    expect_status(run_self(4, 60.0, cases[i].rank_main, NULL, &diag), cases[i].status, NULL);
    expect_has(diag.what, cases[i].what);
  }
}

/* Rank 1 computes for longer than rank 0 is willing to wait: no deadlock, a time-out. */
static enum spp_status sleeper(struct spp_endpoint *end, void *context, struct spp_diag *diag) {
  const struct timespec nap = {.tv_nsec = 400000000};
  (void)context;
  if (end->rank == 1) {
    nanosleep(&nap, NULL);
    return SPP_OK;
  }
  return all_receive(end, context, diag);
}

static void a_wait_has_an_end(void **state) {
  struct spp_diag diag = {.status = SPP_OK};
  (void)state;
  expect_status(run_self(2, 0.05, sleeper, NULL, &diag), SPP_ERR_INTERNAL, NULL);
  expect_has(diag.what, "in vain");
}

static void rank_counts_out_of_range_are_refused(void **state) {
  struct spp_diag diag = {.status = SPP_OK};
  (void)state;
  expect_status(run_self(0, 1.0, stream, NULL, &diag), SPP_ERR_USAGE, NULL);
  expect_status(run_self(SPP_EXEC_MAX_RANKS + 1, 1.0, stream, NULL, &diag), SPP_ERR_USAGE, NULL);
}

static void backends_are_found_by_name(void **state) {
  const struct spp_backend *backend = NULL;
  struct spp_diag diag;
  int count = 0;
  (void)state;
  const struct spp_backend *const *all = spp_backends_all(&count);
  expect_i64(count, 3);
  for (int i = 0; i < count; i++) {
    enum spp_status status = spp_backend_find(all[i]->name, &backend, &diag);
    expect_status(status, all[i]->absent ? SPP_ERR_ABSENT : SPP_OK, &diag);
    expect_true(all[i]->absent || (all[i]->run && all[i]->start && all[i]->stop && all[i]->leads));
  }
  expect_status(spp_backend_find("gloo", &backend, &diag), SPP_ERR_USAGE, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(messages_reach_their_receiver_by_tag),
      cmocka_unit_test(messages_of_one_tag_keep_their_order),
      cmocka_unit_test(a_deadlock_is_told_at_once),
      cmocka_unit_test(a_failing_rank_stops_the_others),
      cmocka_unit_test(a_wait_has_an_end),
      cmocka_unit_test(rank_counts_out_of_range_are_refused),
      cmocka_unit_test(backends_are_found_by_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
