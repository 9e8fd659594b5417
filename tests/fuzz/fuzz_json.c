/* Any bytes through the JSON reader: refused with a place, or every value in it can be walked, named and
 * read, and writing it again gives a document that reads the same. */
#include "base/json.h"
#include "base/json_out.h"
#include "tests/fuzz/fuzz.h"

static void write_scalar(struct spp_jo *jo, const char *key, struct spp_json v) {
  int64_t integer;
  double real;
  bool truth;
  const char *text;
  switch (spp_json_kind(v)) {
  case SPP_JSON_BOOL:
    FUZZ_CHECK(spp_json_bool(v, &truth, NULL) == SPP_OK);
    spp_jo_bool(jo, key, truth);
    break;
  case SPP_JSON_INT:
    FUZZ_CHECK(spp_json_i64(v, INT64_MIN, INT64_MAX, &integer, NULL) == SPP_OK);
    spp_jo_i64(jo, key, integer);
    break;
  case SPP_JSON_REAL:
    FUZZ_CHECK(spp_json_i64(v, INT64_MIN, INT64_MAX, &integer, NULL) == SPP_ERR_INPUT);
    FUZZ_CHECK(spp_json_real(v, -1e308 * 10, 1e308 * 10, &real, NULL) == SPP_OK);
    spp_jo_real_exact(jo, key, real);
    break;
  case SPP_JSON_STRING:
    FUZZ_CHECK(spp_json_string(v, &text, NULL) == SPP_OK);
    spp_jo_str(jo, key, text);
    break;
  default: spp_jo_null(jo, key);
  }
}

/* Write v again, without recursion: the open containers are on a stack. */
static void copy(struct spp_json v, struct spp_jo *jo) {
  struct spp_json stack[SPP_JSON_MAX_DEPTH + 1];
  char path[400];
  int depth = 0;
  for (;;) {
    enum spp_json_kind kind = spp_json_kind(v);
    const char *key = spp_json_own_key(v);
    FUZZ_CHECK(spp_json_path(v, path, sizeof path)[0] == '$');
    if (kind == SPP_JSON_ARRAY || kind == SPP_JSON_OBJECT) {
      if (kind == SPP_JSON_ARRAY)
        spp_jo_arr(jo, key);
      else
        spp_jo_obj(jo, key);
      if (spp_json_size(v) > 0) {
        FUZZ_CHECK(depth <= SPP_JSON_MAX_DEPTH);
        stack[depth++] = v;
        v = spp_json_first(v);
        continue;
      }
      spp_jo_end(jo);
    } else {
      write_scalar(jo, key, v);
    }
    while (depth > 0 && !spp_json_next(v).node) {
      v = stack[--depth];
      spp_jo_end(jo);
    }
    if (depth == 0) return;
    v = spp_json_next(v);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct spp_json_doc *doc = NULL, *again = NULL;
  struct spp_diag diag;
  /* Paths are found by search, so a copy of a huge document would take quadratic time here. */
  if (size > 4096) return 0;
  enum spp_status status = spp_json_parse((const char *)data, size, "fuzz", &doc, &diag);
  if (status != SPP_OK) {
    FUZZ_CHECK(status == SPP_ERR_INPUT && !doc && diag.what[0] && strncmp(diag.where, "fuzz:", 5) == 0);
    return 0;
  }
  struct spp_str first, second;
  struct spp_jo jo;
  spp_str_init(&first);
  spp_str_init(&second);
  spp_jo_begin(&jo, &first, size % 2 == 0);
  copy(spp_json_root(doc), &jo);
  FUZZ_CHECK(spp_jo_ok(&jo));
  FUZZ_CHECK(spp_json_parse(first.data, first.len, "fuzz", &again, &diag) == SPP_OK);
  spp_jo_begin(&jo, &second, size % 2 == 0);
  copy(spp_json_root(again), &jo);
  FUZZ_CHECK(strcmp(first.data, second.data) == 0);
  spp_str_free(&first);
  spp_str_free(&second);
  spp_json_free(doc);
  spp_json_free(again);
  return 0;
}
