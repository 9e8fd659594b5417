/* A script of the interactive planner: whatever is pressed, typed and resized, it ends with a status, and its
 * screens have the size that was asked for. The host behind it knows every option and answers with one plan.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

#ifdef SPP_HAVE_CURSES
#include "tui/script.h"

static enum spp_status check(void *self, const char *option, const char *text, struct spp_diag *diag) {
  (void)self;
  if (strlen(text) < 6) return SPP_OK;
  return spp_diag_set(diag, SPP_ERR_USAGE, option, "write less", "'%.20s' is too long", text);
}
static const char *option(void *self, int i) {
  static const char *const names[] = {"model", "seq", "gpus", "tp", "sp-kind"};
  (void)self;
  return i >= 0 && i < 5 ? names[i] : NULL;
}
static const char *choice(void *self, const char *name, int i) {
  (void)self;
  return strcmp(name, "model") == 0 && i >= 0 && i < 2 ? (i ? "b" : "a") : NULL;
}

/* What a plan points at. */
struct world {
  struct spp_arch arch;
  struct spp_gpu gpu;
  struct spp_cluster cluster;
  struct spp_framework framework;
  struct spp_plan plan;
};
static struct spp_tui_outcome *plan(void *self, const struct spp_words *words, bool compare,
                                    atomic_bool *stop) {
  struct spp_tui_outcome *outcome = calloc(1, sizeof *outcome);
  struct world *world = self;
  (void)words, (void)compare, (void)stop;
  FUZZ_CHECK(outcome != NULL);
  outcome->search.plans = &world->plan;
  outcome->search.count = outcome->search.top_count = 1;
  return outcome;
}
static void release(void *self, struct spp_tui_outcome *outcome) {
  (void)self;
  free(outcome);
}
static void details(void *self, const struct spp_plan *of, struct spp_plan_details *d) {
  (void)self;
  memset(d, 0, sizeof *d);
  d->plan = of;
}
static void timeline(void *self, const struct spp_plan *of, struct spp_timeline *t) {
  (void)self, (void)of;
  *t = (struct spp_timeline){.count = 0};
}
static enum spp_status save(void *self, const struct spp_tui_outcome *outcome, const struct spp_plan *of,
                            const char *path, struct spp_diag *diag) {
  (void)self, (void)outcome, (void)of;
  return spp_diag_set(diag, SPP_ERR_INPUT, path, "do not", "nothing is saved here");
}
static void trial(void *self, spp_trial_tell *tell, void *to, atomic_bool *stop) {
  static const struct spp_tui_trial ended = {.count = 1, .done = 1, .finished = true};
  (void)self, (void)stop;
  tell(to, &ended);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct world *world = calloc(1, sizeof *world);
  struct spp_diag diag = {.status = SPP_OK};
  struct spp_words words = {.count = 0};
  struct spp_str out;
  char *text = fuzz_text(data, size);
  FUZZ_CHECK(world != NULL);
  world->plan.job = (struct spp_job){
      .arch = &world->arch, .gpu = &world->gpu, .cluster = &world->cluster, .framework = &world->framework};
  world->plan.layout = spp_layout_plain();
  const struct spp_tui_host host = {.self = world,
                                    .check = check,
                                    .option = option,
                                    .choice = choice,
                                    .plan = plan,
                                    .release = release,
                                    .details = details,
                                    .timeline = timeline,
                                    .save = save,
                                    .trial = trial};
  spp_str_init(&out);
  enum spp_status status = spp_tui_play(&host, &words, size % 2 == 0, "script", text, &out, &diag);
  FUZZ_CHECK(status == SPP_OK || (diag.what[0] && diag.status == status));
  spp_str_free(&out);
  free(text);
  free(world);
  return 0;
}

#else

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  (void)data, (void)size;
  return 0;
}

#endif
