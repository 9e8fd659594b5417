/* The base library when memory runs out: the n-th allocation of a scenario fails, for every n. The scenario
 * then ends in SPP_ERR_INTERNAL or a `failed` mark, never in a crash, and (under the address sanitizer) leaks
 * nothing. The linker routes the library's calls here (tests/CMakeLists.txt). */
#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_out.h"
#include "base/table.h"
#include "tests/expect.h"

#include <stdlib.h>
#include <unistd.h>

static long left = -1; /* allocations until one fails; negative: none does */
static bool failed_one;

static bool fails(void) {
  if (left < 0 || left-- > 0) return false;
  failed_one = true;
  return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t size) {
  return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
  return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size) {
  return fails() ? NULL : __real_realloc(old, size);
}

char *__wrap_strdup(const char *text) {
  return fails() ? NULL : __real_strdup(text);
}

static bool parse_json(void) {
  static const char text[] = "{\"a\":[1,2,{\"b\":true,\"c\":null}],\"d\":\"x\"}";
  struct spp_json_doc *doc = NULL;
  struct spp_diag diag;
  enum spp_status status = spp_json_parse(text, sizeof text - 1, "x.json", &doc, &diag);
  expect_true((status == SPP_OK) == (doc != NULL));
  if (status != SPP_OK) expect_status(status, SPP_ERR_INTERNAL, &diag);
  spp_json_free(doc);
  return status == SPP_OK;
}

static bool write_json(void) {
  struct spp_str out;
  struct spp_jo jo;
  spp_str_init(&out);
  spp_jo_begin(&jo, &out, true);
  spp_jo_arr(&jo, NULL);
  for (int i = 0; i < 100; i++)
    spp_jo_i64(&jo, NULL, i);
  spp_jo_end(&jo);
  bool ok = spp_jo_ok(&jo);
  expect_true(spp_str_text(&out)[out.len] == '\0');
  spp_str_free(&out);
  return ok;
}

static bool print_table(void) {
  static const char *const names[] = {"a", "b"};
  struct spp_table table;
  struct spp_str out;
  spp_str_init(&out);
  spp_table_init(&table, "lr");
  spp_table_header(&table, names);
  for (int i = 0; i < 100; i++)
    spp_table_cellf(&table, "%d", i);
  spp_table_cell(&table, "last");
  spp_table_end_row(&table);
  spp_table_print(&table, 2, 80, &out);
  bool ok = !out.failed;
  spp_table_free(&table);
  spp_str_free(&out);
  return ok;
}

static bool fill_arena(void) {
  struct spp_arena arena;
  bool ok = true;
  spp_arena_init(&arena);
  for (int i = 0; i < 50 && ok; i++)
    ok = spp_arena_alloc(&arena, 1000) && spp_arena_strdup(&arena, "text") &&
         spp_arena_printf(&arena, "%d", i);
  spp_arena_free(&arena);
  return ok;
}

static bool read_and_list(void) {
  char *text = NULL;
  struct spp_names names = {0};
  struct spp_diag diag;
  enum spp_status status = spp_file_read(SPP_SOURCE_DIR "/base/units.c", 1 << 20, &text, NULL, &diag);
  expect_true((status == SPP_OK) == (text != NULL));
  free(text);
  if (status == SPP_OK) status = spp_dir_list(SPP_SOURCE_DIR "/base", ".h", &names, &diag);
  if (status != SPP_OK) expect_status(status, SPP_ERR_INTERNAL, &diag);
  spp_names_free(&names);
  return status == SPP_OK;
}

static bool write_file(void) {
  char path[] = "/tmp/spplan-test-oom-XXXXXX";
  struct spp_diag diag;
  int fd = mkstemp(path);
  expect_true(fd >= 0 && close(fd) == 0);
  enum spp_status status = spp_file_write_atomic(path, "x", 1, &diag);
  if (status != SPP_OK) expect_status(status, SPP_ERR_INTERNAL, &diag);
  expect_i64(unlink(path), 0);
  return status == SPP_OK;
}

static void every_failed_allocation_is_survived_and_reported(void **state) {
  (void)state;
  static const struct {
    const char *name;
    bool (*run)(void);
  } scenarios[] = {{"parse JSON", parse_json},
                   {"write JSON", write_json},
                   {"print a table", print_table},
                   {"fill an arena", fill_arena},
                   {"read a file, list a folder", read_and_list},
                   {"write a file", write_file}};
  for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
    long n = 0;
    do {
      expect_note("%s, allocation %ld", scenarios[i].name, n);
      failed_one = false;
      left = n++;
      bool ok = scenarios[i].run();
      left = -1;
      expect_true(ok == !failed_one);
    } while (failed_one);
    expect_true(n > 1); /* at least one allocation was there to fail */
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_failed_allocation_is_survived_and_reported),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
