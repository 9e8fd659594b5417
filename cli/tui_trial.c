#include "cli/tui_trial.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "exec/suite.h"
#include "exec/validate.h"

enum { STEPS = 5 };

static int suite_size(void) {
  struct spp_suite_case c;
  int count = 0;
  while (count < SPP_TRIAL_CASES && spp_suite_get(SPP_SUITE_QUICK, count, &c))
    count++;
  return count;
}

/* "20 ms a step (16 to 22), 1.2 MiB held, 68.4 MB sent, gradients off 3e-07, 4 ranks"; what is not as
 * predicted comes first. */
static void describe(const struct spp_validate_result *r, int64_t ranks, char *text, size_t size) {
  char held[32], sent[32], took[32], low[32], high[32];
  snprintf(text, size,
           "%s%s%s%s%s a step (%s to %s), %s held, %s sent, gradients off %.0e, %" PRId64 " rank%s",
           r->numerics.ok ? "" : "gradients differ: ", r->memory.ok ? "" : "other memory: ",
           r->comm.ok ? "" : "other traffic: ", r->time.ok ? "" : "other time: ",
           spp_seconds_print(r->time.measured_s, took), spp_seconds_print(r->time.low_s, low),
           spp_seconds_print(r->time.high_s, high), spp_bytes_print(r->memory.measured_bytes, held),
           spp_bytes_print_decimal(r->comm.measured_sent_bytes, sent), r->numerics.grad_rel_error, ranks,
           ranks == 1 ? "" : "s");
}

static enum spp_status run_case(const char *config_dir, const struct spp_suite_case *c,
                                struct spp_trial_case *line, struct spp_diag *diag) {
  struct spp_validate_result *result = calloc(1, sizeof *result);
  struct spp_exec_setting setting = spp_suite_setting(c);
  struct spp_arena arena;
  if (!result) return spp_diag_oom(diag);
  spp_arena_init(&arena);
  enum spp_status status = spp_arch_parse(c->model, strlen(c->model), "suite", &arena, &setting.arch, diag);
  if (status == SPP_OK)
    status = spp_validate_run(
        config_dir, &spp_backend_self,
        &(struct spp_validate_case){.name = c->name, .setting = setting, .steps = STEPS}, result, diag);
  if (status == SPP_OK) {
    line->ok = spp_validate_ok(result);
    describe(result, spp_layout_world(&c->layout), line->text, sizeof line->text);
  }
  spp_arena_free(&arena);
  free(result);
  return status;
}

void spp_tui_validate(const char *config_dir, spp_trial_tell *tell, void *to, atomic_bool *stop) {
  struct spp_tui_trial *trial = calloc(1, sizeof *trial);
  struct spp_suite_case c;
  enum spp_status status = SPP_OK;
  if (!trial) {
    static const struct spp_tui_trial no_memory = {.finished = true, .diag = {.what = "out of memory"}};
    tell(to, &no_memory);
    return;
  }
  trial->count = suite_size();
  while (trial->done < trial->count && status == SPP_OK && spp_suite_get(SPP_SUITE_QUICK, trial->done, &c)) {
    struct spp_trial_case *line = &trial->cases[trial->done];
    if ((trial->stopped = atomic_load(stop))) break;
    snprintf(trial->running, sizeof trial->running, "%s", c.name);
    snprintf(line->name, sizeof line->name, "%s", c.name);
    tell(to, trial);
    status = run_case(config_dir, &c, line, &trial->diag);
    if (status != SPP_OK) break;
    trial->failed += !line->ok;
    trial->done++;
  }
  trial->finished = true;
  tell(to, trial);
  free(trial);
}
