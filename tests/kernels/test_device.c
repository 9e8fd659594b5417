/* A device itself: queues, memory, faults. Compiled over a device or the emulator (tests/simt); by itself it
 * looks at the table. */
#include "kernels/device.h"
#include "tests/expect.h"
#include "tests/kernels/rows.h"

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

#ifdef SPP_TEST_DEVICE

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
  expect_status(staged_device()->ops->gemm(staged_queue(), &g, &diag), SPP_ERR_INPUT, NULL);
  expect_has(diag.what, "A and B");
  g.b.storage = SPP_STORE_F32;
  g.c.storage = SPP_STORE_BF16;
  expect_status(staged_device()->ops->gemm(staged_queue(), &g, &diag), SPP_ERR_INPUT, NULL);
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
#ifdef SPP_TEST_DEVICE
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
