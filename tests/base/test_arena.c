#include "base/arena.h"
#include "tests/expect.h"

static void memory_is_zeroed_aligned_and_apart(void **state) {
  (void)state;
  enum { PIECES = 2000 };
  struct spp_arena arena;
  unsigned char *pieces[PIECES];
  spp_arena_init(&arena);
  for (int i = 0; i < PIECES; i++) {
    size_t size = (size_t)(i % 97);
    pieces[i] = spp_arena_alloc(&arena, size);
    expect_true(pieces[i] != NULL);
    expect_i64((int64_t)((uintptr_t)pieces[i] % _Alignof(max_align_t)), 0);
    for (size_t k = 0; k < size; k++)
      expect_true(pieces[i][k] == 0);
    memset(pieces[i], i % 251 + 1, size);
  }
  for (int i = 0; i < PIECES; i++)
    for (size_t k = 0; k < (size_t)(i % 97); k++)
      expect_true(pieces[i][k] == i % 251 + 1);
  spp_arena_free(&arena);
  spp_arena_free(&arena);
}

static void large_pieces_get_blocks_of_their_own(void **state) {
  (void)state;
  struct spp_arena arena;
  spp_arena_init(&arena);
  unsigned char *large = spp_arena_alloc(&arena, 1000000);
  expect_true(large != NULL);
  memset(large, 1, 1000000);
  expect_true(spp_arena_alloc(&arena, 10) != NULL);
  spp_arena_free(&arena);
}

static void impossible_sizes_give_null(void **state) {
  (void)state;
  struct spp_arena arena;
  spp_arena_init(&arena);
  expect_true(spp_arena_alloc(&arena, SIZE_MAX) == NULL);
  expect_true(spp_arena_alloc(&arena, SIZE_MAX - 8) == NULL);
  expect_true(spp_arena_array(&arena, SIZE_MAX / 4, 8) == NULL);
  expect_true(spp_arena_array(&arena, 0, 8) != NULL);
  expect_true(spp_arena_array(&arena, 8, 0) != NULL);
  expect_true(spp_arena_alloc(&arena, 8) != NULL); /* still usable */
  spp_arena_free(&arena);
}

static void strings_are_copied_and_formatted(void **state) {
  (void)state;
  struct spp_arena arena;
  spp_arena_init(&arena);
  char text[] = "abc";
  char *copy = spp_arena_strdup(&arena, text);
  text[0] = 'x';
  expect_str(copy, "abc");
  expect_true(spp_arena_strdup(&arena, NULL) == NULL);
  expect_str(spp_arena_printf(&arena, "%s-%d", "n", 7), "n-7");
  expect_str(spp_arena_printf(&arena, "%s", ""), "");
  expect_i64((int64_t)strlen(spp_arena_printf(&arena, "%*d", 100000, 1)), 100000);
  spp_arena_free(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(memory_is_zeroed_aligned_and_apart),
      cmocka_unit_test(large_pieces_get_blocks_of_their_own),
      cmocka_unit_test(impossible_sizes_give_null),
      cmocka_unit_test(strings_are_copied_and_formatted),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
