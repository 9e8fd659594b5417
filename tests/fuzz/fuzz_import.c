/* Any bytes as a launch script or configuration: refused with a place, or settings that are all named. The
 * first byte says what the file is called, and so how it is read. */
#include "interop/import.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const names[] = {"fuzz.sh", "fuzz.json", "fuzz.yaml", "fuzz.toml", "fuzz"};
  const char *root = getenv("SPP_SOURCE_DIR");
  const struct spp_imported *in = NULL;
  struct spp_arena arena;
  struct spp_diag diag = {0};
  char folder[1024], *text;
  if (size == 0 || size > 65536 || !(text = malloc(size))) return 0;
  snprintf(folder, sizeof folder, "%s/configs", root ? root : ".");
  const struct spp_import_options options = {.config_dir = folder};
  memcpy(text, data + 1, size - 1);
  text[size - 1] = '\0';
  spp_arena_init(&arena);
  enum spp_status status = spp_import_text(text, size - 1, names[data[0] % 5], &options, &arena, &in, &diag);
  if (status == SPP_OK) {
    FUZZ_CHECK(in && in->format && in->setting_count <= SPP_MAX_IMPORT_SETTINGS);
    for (int i = 0; i < in->setting_count; i++)
      FUZZ_CHECK(in->settings[i].name[0] && in->settings[i].value);
    for (int i = 0; i < in->message_count; i++)
      FUZZ_CHECK(in->messages[i].text[0]);
  } else {
    FUZZ_CHECK(!in && diag.what[0] && diag.where[0]);
    FUZZ_CHECK(status == SPP_ERR_INPUT || status == SPP_ERR_ABSENT);
  }
  spp_arena_free(&arena);
  free(text);
  return 0;
}
