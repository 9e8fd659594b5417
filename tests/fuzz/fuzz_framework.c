/* Any bytes as a framework file: refused with a place, or every launch word, rule and geometry of a job under
 * it can be worked out for any legal or illegal layout. */
#include "base/json.h"
#include "model/framework_read.h"
#include "model/geometry.h"
#include "model/launch.h"
#include "tests/fuzz/fuzz.h"

static struct spp_framework framework;
static struct spp_arch arch;

static void use(int64_t tp, int64_t pp, int64_t sp, int64_t gpus) {
  struct spp_job_spec spec;
  static struct spp_job job;
  struct spp_request request;
  struct spp_layout layout;
  struct spp_geometry geometry;
  struct spp_stage stage;
  static struct spp_violation violations[8];
  struct spp_str out;
  char text[256];
  spp_job_spec_clear(&spec);
  spec.arch = &arch;
  spec.gpus = gpus, spec.seq_tokens = 4099;
  if (spp_job_resolve(&spec, &framework, &job, NULL) != SPP_OK) return;
  spp_request_clear(&request);
  request.tp = tp, request.pp = pp, request.sp = sp;
  if (spp_layout_complete(&job, &request, &layout, NULL) != SPP_OK) return;
  int broken = spp_rules_check(&job, &layout, violations, 8);
  FUZZ_CHECK((broken > 0) == (spp_rules_first(&job, &layout) >= 0));
  spp_str_init(&out);
  spp_framework_launch(&job, &layout, &out);
  spp_str_free(&out);
  FUZZ_CHECK(spp_layout_describe(&job, &layout, text, sizeof text) == text);
  if (broken > 0) return;
  spp_geometry_resolve(&job, &layout, &geometry);
  int64_t layers = 0;
  for (int64_t r = 0; r < layout.pp; r++) {
    spp_stage_resolve(&job, &layout, &geometry, r, &stage);
    layers += stage.layers;
  }
  FUZZ_CHECK(layers == arch.layers);
  FUZZ_CHECK(geometry.padded_tokens >= spec.seq_tokens && geometry.tokens > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = fuzz_text(data, size);
  struct spp_json_doc *doc = NULL;
  struct spp_diag diag;
  memset(&framework, 0, sizeof framework);
  arch = (struct spp_arch){.layers = 30,
                           .heads = 32,
                           .kv_heads = 8,
                           .head_dim = 16,
                           .hidden = 512,
                           .ffn = 2048,
                           .vocab = 1000,
                           .kind_count = 1};
  if (spp_json_parse(text, size, "fuzz", &doc, &diag) == SPP_OK) {
    if (spp_framework_read(doc, true, &framework, &diag) == SPP_OK) {
      use(1, 1, 1, 8);
      use(2, 2, 2, 8);
      use(1, 4, 8, 64);
    } else {
      FUZZ_CHECK(diag.where[0] != '\0');
    }
  }
  spp_json_free(doc);
  free(text);
  return 0;
}
