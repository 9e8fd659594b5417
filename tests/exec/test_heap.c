#include "tests/expect.h"

#include "exec/heap.h"

static void *take(struct spp_heap *heap, enum spp_part part, const char *name, int64_t bytes) {
  struct spp_diag diag;
  void *data = NULL;
  expect_status(spp_heap_bytes(heap, part, name, bytes, &data, &diag), SPP_OK, &diag);
  return data;
}

/* 100 weights, 60 kept; 30 temporary twice at a time: peak 100 + 60 + 2*30 = 220, of which 60 temporary. */
static void the_peak_and_what_was_alive_then_are_counted(void **state) {
  struct spp_heap heap;
  (void)state;
  spp_heap_init(&heap);
  take(&heap, SPP_PART_WEIGHTS, "weights", 100);
  heap.moment = SPP_MOMENT_FORWARD;
  void *kept = take(&heap, SPP_PART_ACTIVATIONS, "kept", 60);
  void *one = take(&heap, SPP_PART_TRANSIENT, "work", 30), *two = take(&heap, SPP_PART_TRANSIENT, "work", 30);
  spp_heap_free(&heap, one);
  spp_heap_free(&heap, two);
  spp_heap_free(&heap, kept);
  heap.moment = SPP_MOMENT_STEP;
  take(&heap, SPP_PART_OPTIMIZER, "moments", 119);
  expect_i64(heap.bytes, 219);
  expect_i64(heap.peak_bytes, 220);
  expect_i64(heap.peak_moment, SPP_MOMENT_FORWARD);
  expect_i64(heap.moment_bytes[SPP_MOMENT_STEP], 219);
  expect_i64(spp_heap_peak_of(&heap, SPP_PART_TRANSIENT), 60);
  expect_i64(spp_heap_peak_of(&heap, SPP_PART_OPTIMIZER), 0);
  expect_i64(spp_heap_peak_of(&heap, SPP_PART_WEIGHTS), 100);
  spp_heap_close(&heap);
}

static void a_block_can_change_its_name(void **state) {
  struct spp_heap heap;
  struct spp_diag diag;
  (void)state;
  spp_heap_init(&heap);
  void *data = take(&heap, SPP_PART_TRANSIENT, "output", 8);
  expect_status(spp_heap_rename(&heap, data, SPP_PART_ACTIVATIONS, "layer input", &diag), SPP_OK, &diag);
  take(&heap, SPP_PART_TRANSIENT, "output", 1);
  expect_i64(spp_heap_peak_of(&heap, SPP_PART_ACTIVATIONS), 8);
  expect_i64(spp_heap_peak_of(&heap, SPP_PART_TRANSIENT), 1);
  spp_heap_close(&heap);
}

static void blocks_are_aligned_and_may_be_empty(void **state) {
  struct spp_heap heap;
  (void)state;
  spp_heap_init(&heap);
  for (int64_t bytes = 0; bytes < 200; bytes += 33) {
    void *data = take(&heap, SPP_PART_TRANSIENT, "work", bytes);
    expect_i64((int64_t)((uintptr_t)data % 64), 0);
    memset(data, 1, (size_t)bytes);
  }
  spp_heap_free(&heap, NULL);
  spp_heap_close(&heap);
}

static void absurd_sizes_fail(void **state) {
  struct spp_heap heap;
  struct spp_diag diag;
  float *data = NULL;
  (void)state;
  spp_heap_init(&heap);
  expect_status(spp_heap_floats(&heap, SPP_PART_TRANSIENT, "work", INT64_MAX, &data, &diag), SPP_ERR_INTERNAL,
                NULL);
  expect_status(spp_heap_floats(&heap, SPP_PART_TRANSIENT, "work", -1, &data, &diag), SPP_ERR_INTERNAL, NULL);
  expect_i64(heap.bytes, 0);
  spp_heap_close(&heap);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_peak_and_what_was_alive_then_are_counted),
      cmocka_unit_test(a_block_can_change_its_name),
      cmocka_unit_test(blocks_are_aligned_and_may_be_empty),
      cmocka_unit_test(absurd_sizes_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
