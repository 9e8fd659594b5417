/* A device itself: queues, memory, faults. Compiled over a device or the emulator (tests/simt); by itself it
 * looks at the table. */
#include "kernels/device.h"
#include "kernels/processor.h"
#include "tests/expect.h"
#include "tests/kernels/rows.h"

#include <math.h>

static void names_are_unique_and_rows_complete(void **state) {
  (void)state;
  int count;
  const struct spp_device *const *all = spp_devices_all(&count);
  for (int i = 0; i < count; i++) {
    struct spp_diag why = {0};
    expect_note("row %d", i);
    expect_true(all[i]->name && all[i]->description);
    expect_true((all[i]->absent != NULL) != (all[i]->ops != NULL));
    if (!spp_device_usable(all[i], &why)) expect_true(why.what[0] != 0);
    for (int j = 0; j < i; j++)
      expect_true(strcmp(all[i]->name, all[j]->name) != 0);
  }
}

/* Whole numbers, so that every order of sums gives the same. */
enum { ROWS = 5, MOST_WIDTH = 12, CELLS = ROWS * MOST_WIDTH };

static float *sent_floats(const struct spp_runner *r, const float *x, int64_t n) {
  void *memory = NULL;
  struct spp_diag diag = {0};
  expect_status(r->device->allocate(r->queue, n * 4, &memory, &diag), SPP_OK, &diag);
  r->device->upload(r->queue, memory, x, n * 4);
  return memory;
}
static void fetched_floats(const struct spp_runner *r, float *memory, float *x, int64_t n) {
  struct spp_diag diag = {0};
  r->device->download(r->queue, x, memory, n * 4);
  expect_status(r->device->wait(r->queue, &diag), SPP_OK, &diag);
  r->device->release(r->queue, memory);
}

/* x[r][i] = 10 r + i and a row of i: sums of a column are 10 * (0 + 1 + 2 + 3 + 4) + 5 i = 100 + 5 i. */
static void rows_meet(const struct spp_runner *r, int64_t width) {
  float x[CELLS], row[MOST_WIDTH], sums[MOST_WIDTH];
  for (int64_t i = 0; i < ROWS * width; i++)
    x[i] = (float)(10 * (i / width) + i % width);
  for (int64_t i = 0; i < width; i++)
    row[i] = (float)i, sums[i] = 1000.0F;
  float *dx = sent_floats(r, x, ROWS * width), *drow = sent_floats(r, row, width),
        *dsums = sent_floats(r, sums, width);
  r->device->ops->sum_rows(r->queue, ROWS, width, SPP_STORE_F32, dx, dsums);
  r->device->ops->add_row(r->queue, ROWS, width, SPP_STORE_F32, drow, dx);
  fetched_floats(r, dx, x, ROWS * width);
  fetched_floats(r, dsums, sums, width);
  r->device->release(r->queue, drow);
  for (int64_t i = 0; i < ROWS * width; i++)
    expect_near((double)x[i], (double)(10 * (i / width) + 2 * (i % width)), 0.0);
  for (int64_t i = 0; i < width; i++)
    expect_near((double)sums[i], (double)(1100 + 5 * i), 0.0);
}

static void bf16_rows_meet(const struct spp_runner *r) {
  const uint16_t x[4] = {spp_float_to_bf16(1), spp_float_to_bf16(2), spp_float_to_bf16(3),
                         spp_float_to_bf16(4)};
  float sums[2] = {0.5F, -0.5F};
  void *memory = NULL;
  struct spp_diag diag = {0};
  expect_status(r->device->allocate(r->queue, sizeof x, &memory, &diag), SPP_OK, &diag);
  r->device->upload(r->queue, memory, x, sizeof x);
  float *dsums = sent_floats(r, sums, 2);
  r->device->ops->sum_rows(r->queue, 2, 2, SPP_STORE_BF16, memory, dsums);
  fetched_floats(r, dsums, sums, 2);
  r->device->release(r->queue, memory);
  expect_near((double)sums[0], 4.5, 0.0);
  expect_near((double)sums[1], 5.5, 0.0);
}

/* Columns 2 and 3 of three rows of five go to columns 0 and 1 of rows of four. */
static void copies_take_columns(const struct spp_runner *r) {
  float x[15], y[12] = {0};
  for (int i = 0; i < 15; i++)
    x[i] = (float)i;
  float *dx = sent_floats(r, x, 15), *dy = sent_floats(r, y, 12);
  r->device->copy_rows(r->queue, 3, 8, dy, 16, dx + 2, 20);
  fetched_floats(r, dy, y, 12);
  r->device->release(r->queue, dx);
  for (int i = 0; i < 12; i++)
    expect_near((double)y[i], i % 4 < 2 ? i / 4 * 5 + 2 + i % 4 : 0, 0.0);
}

/* exp(-1) of a sum of 2 whose maximum grew by 1, an ignored token, and log 2 + 3 - 1 for the other. */
static void losses_agree(const struct spp_runner *r) {
  const float local[2] = {1.0F, 3.0F}, max[2] = {2.0F, 3.0F}, target[2] = {9.0F, 1.0F},
              more[2] = {4.0F, -1.0F};
  const int32_t targets[2] = {-1, 5};
  float sum[2] = {2.0F, 2.0F}, loss[2], most[2];
  float bits[2];
  memcpy(bits, targets, sizeof bits);
  float *dlocal = sent_floats(r, local, 2), *dmax = sent_floats(r, max, 2),
        *dtarget = sent_floats(r, target, 2), *dsum = sent_floats(r, sum, 2), *dloss = sent_floats(r, max, 2),
        *dtargets = sent_floats(r, bits, 2), *dmore = sent_floats(r, more, 2);
  r->device->ops->cross_entropy_rescale(r->queue, 2, dlocal, dmax, dsum);
  r->device->ops->cross_entropy_loss(r->queue, 2, (const int32_t *)(const void *)dtargets, dmax, dsum,
                                     dtarget, dloss);
  r->device->ops->maximum(r->queue, 2, dmore, dmax);
  fetched_floats(r, dsum, sum, 2);
  fetched_floats(r, dloss, loss, 2);
  fetched_floats(r, dmax, most, 2);
  float *const rest[] = {dlocal, dtarget, dtargets, dmore};
  for (int i = 0; i < 4; i++)
    r->device->release(r->queue, rest[i]);
  expect_near((double)sum[0], 2.0 * exp(-1.0), 1e-6);
  expect_near((double)sum[1], 2.0, 0.0);
  expect_near((double)loss[0], 0.0, 0.0);
  expect_near((double)loss[1], log(2.0) + 2.0, 1e-6);
  expect_near((double)most[0], 4.0, 0.0);
  expect_near((double)most[1], 3.0, 0.0);
}

static void runs(const struct spp_runner *r) {
  rows_meet(r, 12);
  rows_meet(r, 7);
  bf16_rows_meet(r);
  copies_take_columns(r);
  losses_agree(r);
}

static void the_processor_is_a_device_whose_work_is_done_at_once(void **state) {
  (void)state;
  struct spp_runner r = {&spp_device_processor, NULL};
  struct spp_diag diag = {0};
  expect_status(r.device->open(0, &r.queue, &diag), SPP_OK, &diag);
  runs(&r);
  expect_status(r.device->open(1, &r.queue, &diag), SPP_ERR_ABSENT, NULL);
  r.device->close(r.queue);
}

#ifdef SPP_TEST_DEVICE

static void rows_columns_and_losses_agree(void **state) {
  (void)state;
  const struct spp_runner r = {staged_device(), staged_queue()};
  runs(&r);
}

static void *allocated(int64_t bytes) {
  void *memory = NULL;
  struct spp_diag diag = {0};
  expect_status(staged_device()->allocate(staged_queue(), bytes, &memory, &diag), SPP_OK, &diag);
  return memory;
}

static void bytes_go_there_and_back(void **state) {
  (void)state;
  const struct spp_device *d = staged_device();
  struct spp_queue *q = staged_queue();
  struct spp_diag diag = {0};
  char sent[100], back[100];
  for (int i = 0; i < 100; i++)
    sent[i] = (char)i;
  char *a = allocated(100), *b = allocated(100);
  d->upload(q, a, sent, 100);
  d->copy(q, b, a, 100);
  d->clear(q, b + 10, 20);
  memset(sent, 0, sizeof sent); /* has been read */
  d->download(q, back, b, 100);
  expect_status(d->wait(q, &diag), SPP_OK, &diag);
  for (int i = 0; i < 100; i++)
    expect_i64(back[i], i >= 10 && i < 30 ? 0 : i);
  d->release(q, a);
  d->release(q, b);
}

static void more_memory_than_there_is_is_refused_in_the_librarys_words(void **state) {
  (void)state;
  void *memory = NULL;
  struct spp_diag diag = {0};
  expect_status(staged_device()->allocate(staged_queue(), (int64_t)1 << 50, &memory, &diag), SPP_ERR_INTERNAL,
                NULL);
  expect_has(diag.what, "out of memory");
  expect_has(diag.where, "device.cu:");
  expect_true(!memory);
  expect_status(staged_device()->wait(staged_queue(), &diag), SPP_OK, &diag); /* the queue goes on */
}

static void a_device_that_is_not_there_is_refused(void **state) {
  (void)state;
  struct spp_queue *q = NULL;
  struct spp_diag diag = {0};
  expect_status(staged_device()->open(1000, &q, &diag), SPP_ERR_ABSENT, NULL);
  expect_has(diag.what, "invalid device ordinal");
  expect_true(!q);
}

/* The fault: to free what was never allocated. */
static void the_first_fault_stays_with_its_queue(void **state) {
  (void)state;
  const struct spp_device *d = staged_device();
  struct spp_queue *q = NULL;
  struct spp_diag diag = {0}, later = {0};
  float x = 1.0F;
  expect_status(d->open(0, &q, &diag), SPP_OK, &diag);
  float *memory = allocated(4);
  d->upload(q, memory, &x, 4);
  expect_status(d->wait(q, &diag), SPP_OK, &diag);
  d->release(q, (char *)memory + 1);
  d->ops->scale(q, 1, 3.0F, memory, SPP_STORE_F32); /* is dropped */
  expect_status(d->wait(q, &diag), SPP_ERR_INTERNAL, NULL);
  expect_has(diag.what, "cudaFree");
  expect_has(diag.where, "device.cu:");
  expect_status(d->wait(q, &later), SPP_ERR_INTERNAL, NULL);
  expect_str(later.what, diag.what);
  d->close(q);
  d->download(staged_queue(), &x, memory, 4);
  expect_status(d->wait(staged_queue(), &diag), SPP_OK, &diag);
  expect_near((double)x, 1.0, 0.0);
  d->release(staged_queue(), memory);
}

/* What cuBLAS has no product for. */
static void products_of_mixed_storage_are_refused(void **state) {
  (void)state;
  struct spp_diag diag = {0};
  struct spp_gemm g = {.m = 1, .n = 1, .k = 1, .a = {NULL, 1, SPP_STORE_F32}, .b = {NULL, 1, SPP_STORE_BF16}};
  g.c = (struct spp_matrix){NULL, 1, SPP_STORE_F32};
  expect_status(staged_device()->ops->gemm(staged_queue(), &g, NULL, &diag), SPP_ERR_INPUT, NULL);
  expect_has(diag.what, "A and B");
  g.b.storage = SPP_STORE_F32;
  g.c.storage = SPP_STORE_BF16;
  expect_status(staged_device()->ops->gemm(staged_queue(), &g, NULL, &diag), SPP_ERR_INPUT, NULL);
  expect_has(diag.what, "not fp32");
}

static void marks_measure_the_time_between_them(void **state) {
  (void)state;
  const struct spp_device *d = staged_device();
  struct spp_queue *q = staged_queue();
  struct spp_diag diag = {0};
  void *memory = allocated(1 << 20);
  d->mark(q, 0);
  d->clear(q, memory, 1 << 20);
  d->mark(q, 1);
  expect_status(d->wait(q, &diag), SPP_OK, &diag);
  expect_true(d->between_s(q) >= 0.0 && d->between_s(q) < 10.0);
  d->release(q, memory);
}

#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_are_unique_and_rows_complete),
      cmocka_unit_test(the_processor_is_a_device_whose_work_is_done_at_once),
#ifdef SPP_TEST_DEVICE
      cmocka_unit_test(rows_columns_and_losses_agree),
      cmocka_unit_test(bytes_go_there_and_back),
      cmocka_unit_test(more_memory_than_there_is_is_refused_in_the_librarys_words),
      cmocka_unit_test(a_device_that_is_not_there_is_refused),
      cmocka_unit_test(the_first_fault_stays_with_its_queue),
      cmocka_unit_test(products_of_mixed_storage_are_refused),
      cmocka_unit_test(marks_measure_the_time_between_them),
#endif
  };
  if (!judged_ready()) return JUDGED_SKIPPED;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
