/* Models of configs/ and config.json texts, read for tests. */
#ifndef SPP_TESTS_MODEL_ARCH_CASE_H
#define SPP_TESTS_MODEL_ARCH_CASE_H

#include "base/arena.h"
#include "model/arch.h"
#include "tests/expect.h"

#define CONFIGS SPP_SOURCE_DIR "/configs"

static inline const struct spp_arch *load(const char *name, struct spp_arena *arena) {
  const struct spp_arch *arch = NULL;
  struct spp_diag diag;
  expect_note("%s", name);
  expect_status(spp_arch_load(CONFIGS, name, arena, &arch, &diag), SPP_OK, &diag);
  return arch;
}

static inline enum spp_status parse_arch(const char *text, struct spp_arena *arena,
                                         const struct spp_arch **arch, struct spp_diag *diag) {
  return spp_arch_parse(text, strlen(text), "config.json", arena, arch, diag);
}

/* What most families name, but for the type. */
#define USUAL                                                                                                \
  "\"hidden_size\":64,\"intermediate_size\":160,\"num_hidden_layers\":2,\"num_attention_heads\":8,\"vocab_"  \
  "size\":256"

#endif
