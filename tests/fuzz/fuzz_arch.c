/* Any bytes as a config.json: refused with a place, or an arch whose parts agree and whose sums do not
 * overflow. */
#include "model/arch.h"
#include "model/params.h"
#include "model/vision.h"
#include "tests/fuzz/fuzz.h"

static void check_arch(const struct spp_arch *a) {
  int64_t layers = 0;
  FUZZ_CHECK(a->layers >= 1 && a->layers <= SPP_MAX_LAYERS && a->kind_count >= 1);
  for (int k = 0; k < a->kind_count; k++) {
    layers += a->kinds[k].count;
    FUZZ_CHECK(a->kinds[k].weight_count > 0 && a->kinds[k].weight_count <= SPP_MAX_LAYER_WEIGHTS);
  }
  FUZZ_CHECK(layers == a->layers);
  FUZZ_CHECK(a->heads % a->kv_heads == 0 && a->head_dim > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct spp_arena arena;
  struct spp_diag diag;
  const struct spp_arch *arch = NULL;
  if (size > 65536) return 0;
  spp_arena_init(&arena);
  enum spp_status status = spp_arch_parse((const char *)data, size, "fuzz", &arena, &arch, &diag);
  if (status != SPP_OK) {
    FUZZ_CHECK(status == SPP_ERR_INPUT && !arch && diag.what[0] && strncmp(diag.where, "fuzz:", 5) == 0);
  } else {
    struct spp_params p;
    struct spp_image_tokens t;
    check_arch(arch);
    spp_params_count(arch, &p);
    FUZZ_CHECK(p.total > 0 && p.active > 0 && p.active <= p.total && p.vision >= 0 && p.mtp >= 0);
    if (spp_vision_tokens(&arch->vision, 480, 640, 2, &t, &diag) == SPP_OK) FUZZ_CHECK(t.tokens >= 0);
  }
  spp_arena_free(&arena);
  return 0;
}
