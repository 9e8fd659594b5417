/* Layouts that people tuned and published, among all that the same framework could run: where does the model
 * put them? SPPLAN_PUBLISHED=all prints every run of the corpus's tuned groups. */
#include <stdlib.h>

#include "planner/corpus.h"
#include "planner/space.h"
#include "tests/planner/jobs.h"

struct standing {
  int64_t fitting, faster; /* legal layouts that fit, and those of them faster than the published one */
  double step_s, best_s;
  bool fits;
};

static bool fits(const struct spp_memory *memory) {
  return memory->fits && memory->host_fits;
}

/* The published layout as it was described. Where the source gives no more than its degrees (Llama 3: an
 * interleaved schedule of a depth that it does not state), or the whole breaks a rule, the best of the same
 * degrees. */
static bool published(const struct spp_run *run, bool degrees_only, struct spp_plan *plan) {
  struct spp_search_options options = {.spec = run->spec,
                                       .frameworks = &run->framework,
                                       .framework_count = 1,
                                       .fixed = run->request,
                                       .top = 1,
                                       .threads = 1};
  struct spp_search_result result;
  struct spp_diag diag;
  if (!degrees_only && spp_job_resolve(&run->spec, run->framework, &plan->job, &diag) == SPP_OK &&
      spp_layout_complete(&plan->job, &run->request, &plan->layout, &diag) == SPP_OK &&
      spp_rules_first(&plan->job, &plan->layout) < 0) {
    spp_predict(&plan->job, &plan->layout, NULL, &plan->prediction);
    return true;
  }
  if (options.fixed.sp == SPP_UNSET && options.fixed.ulysses == SPP_UNSET && options.fixed.ring == SPP_UNSET)
    options.fixed.sp = 1;
  options.fixed.vpp = options.fixed.dp_replicate = options.fixed.micro_batch = SPP_UNSET;
  options.fixed.schedule = options.fixed.recompute = options.fixed.zero = options.fixed.megatron_sp =
      SPP_UNSET;
  enum spp_status status = spp_search(&options, &result, &diag);
  if (status != SPP_OK && status != SPP_ERR_NOFIT) return false;
  *plan = status == SPP_OK ? result.plans[0] : result.nearest;
  spp_search_free(&result);
  return true;
}

static void stand(const struct spp_run *run, const struct spp_plan *plan, struct standing *s) {
  struct spp_request free_fields;
  struct spp_space space;
  struct spp_diag diag;
  *s = (struct standing){
      .step_s = plan->prediction.time.step_s, .best_s = INFINITY, .fits = fits(&plan->prediction.memory)};
  spp_request_clear(&free_fields);
  expect_status(spp_space_build(&run->spec, run->framework, &free_fields, &space, &diag), SPP_OK, &diag);
  for (int c = 0; c < space.cell_count; c++) {
    struct spp_walk walk;
    spp_walk_begin(&walk, &space, &space.cells[c]);
    while (spp_walk_next(&walk)) {
      struct spp_prediction p;
      if (walk.layout.offload != SPP_OFFLOAD_NONE || spp_walk_by_layers(&walk) || spp_walk_rule(&walk) >= 0)
        continue;
      spp_geometry_resolve(walk.job, &walk.layout, &p.geometry);
      spp_memory_predict(walk.job, &walk.layout, &p.geometry, NULL, &p.memory);
      if (!fits(&p.memory)) continue;
      spp_comm_predict(walk.job, &walk.layout, &p.geometry, &p.comm);
      spp_timing_predict(walk.job, &walk.layout, &p.geometry, &p.comm, &p.time);
      s->fitting++;
      s->faster += p.time.step_s < s->step_s;
      if (p.time.step_s < s->best_s) s->best_s = p.time.step_s;
    }
  }
  spp_space_free(&space);
}

static double share(const struct standing *s) {
  return s->fitting > 0 ? (double)s->faster / (double)s->fitting : 1;
}

/* False: the corpus cannot score the run, or its degrees make no layout. */
static bool judge(const struct spp_run *run, struct standing *s) {
  struct spp_plan *plan = calloc(1, sizeof *plan);
  char described[256];
  bool known = plan && published(run, strcmp(run->group, "llama3p") == 0, plan);
  if (known) {
    stand(run, plan, s);
    print_message(
        "%-13s %-16s %5lld x %-10s %7lld tokens: %6lld of %7lld fitting layouts are faster (%.1f %%), "
        "the best by %.0f %%%s; %s\n",
        run->id, plan->job.arch->name, (long long)plan->job.gpus, plan->job.gpu->name,
        (long long)plan->job.seq_tokens, (long long)s->faster, (long long)s->fitting, 100 * share(s),
        100 * (s->step_s / s->best_s - 1), s->fits ? "" : ", it does not fit",
        spp_layout_describe(&plan->job, &plan->layout, described, sizeof described));
  }
  free(plan);
  return known;
}

static void open_corpus(struct spp_corpus *corpus) {
  struct spp_diag diag = {.status = SPP_OK};
  *corpus = (struct spp_corpus){.arena = &jobs_arena};
  jobs_need(spp_corpus_read(JOBS_CONFIG_DIR, JOBS_CONFIG_DIR "/corpus/public.jsonl", corpus, &diag), &diag);
}

static void published_layouts_are_in_the_top_tenth(void **state) {
  static const char *const ids[] = {"llama3p-003", "bridge-007", "bridge-013", "bridge-055", "bridge-063"};
  const char *all = getenv("SPPLAN_PUBLISHED");
  struct spp_corpus corpus;
  (void)state;
  open_corpus(&corpus);
  for (int i = 0; i < corpus.count; i++) {
    const struct spp_run *run = &corpus.runs[i];
    bool asked = false, tuned = strcmp(run->group, "bridge") == 0 || strcmp(run->group, "llama3p") == 0 ||
                                strcmp(run->group, "nemolaunch") == 0;
    struct standing s;
    for (size_t k = 0; k < sizeof ids / sizeof *ids; k++)
      asked |= strcmp(run->id, ids[k]) == 0;
    if (!(asked || (all && tuned)) || !judge(run, &s)) continue;
    expect_note("%s", run->id);
    if (asked) expect_true(share(&s) <= 0.10);
  }
  expect_note("%s", "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(published_layouts_are_in_the_top_tenth),
  };
  return cmocka_run_group_tests(tests, jobs_setup, jobs_teardown) != 0;
}
