/* Failures, checkpoints and restarts against Daly's formulas and Llama 3's published run. */
#include "model/goodput.h"

#include <math.h>

#include "tests/model/jobs.h"

static const double hour = 3600, day = 86400;

static void daly_s_interval_is_young_s_with_higher_terms(void **state) {
  (void)state;
  /* d = 300 s, M = 86,400 s: sqrt(2 d M) = 7,200; d / 2M = 1/576, its root 1/24:
   * 7,200 (1 + 1/72 + 1/5,184) - 300 = 7,001.3889 */
  expect_rel(spp_checkpoint_interval_s(300, 86400), 7001.388888888889, 1e-12);
  /* d > 2M: as long as the job lives */
  expect_rel(spp_checkpoint_interval_s(2500, 1000), 1000, 0);
}

static void no_other_interval_trains_more(void **state) {
  static const double checkpoints[] = {1, 30, 300, 1200}, mtbfs[] = {1800, 10800, 86400};
  (void)state;
  for (int c = 0; c < 4; c++)
    for (int m = 0; m < 3; m++) {
      double best_s = spp_checkpoint_interval_s(checkpoints[c], mtbfs[m]);
      double best = spp_goodput_share(best_s, checkpoints[c], 600, mtbfs[m]);
      expect_note("checkpoint %g s, failure every %g s", checkpoints[c], mtbfs[m]);
      for (double other = 0.05; other < 20;
           other *= 1.3) /* the formula is a series: good to a ten-thousandth */
        expect_true(spp_goodput_share(other * best_s, checkpoints[c], 600, mtbfs[m]) <= best * (1 + 1e-4));
    }
  expect_note("%s", "");
}

static void without_failures_only_checkpoints_cost(void **state) {
  (void)state;
  expect_rel(spp_goodput_share(990, 10, 600, 1e12), 0.99, 1e-6);
  expect_rel(spp_goodput_share(1000, 0, 0, 1e12), 1, 1e-6);
}

static void open_8b(struct jobs_fixture *f, int64_t gpus) {
  jobs_open(f);
  jobs_train(f, jobs_load(f, "llama3.1-8b"), 8192);
  spp_model_sums_count(f->job.arch, 0, &f->job.sums);
  f->job.gpus = gpus;
  f->cluster.gpus_per_node = 8;
}

/* 8,030,261,248 parameters (meta-llama/Llama-3.1-8B) x (2 weight + 4 master + 8 moments) bytes. */
static void a_checkpoint_holds_what_is_trained_once(void **state) {
  struct jobs_fixture f;
  (void)state;
  open_8b(&f, 64);
  f.layout.tp = 4;
  f.layout.dp = 16;
  expect_i64(spp_checkpoint_bytes(&f.job, &f.layout), INT64_C(8030261248) * 14);
  f.job.method = SPP_METHOD_LORA;
  f.job.lora_rank = 16;
  f.job.lora_targets = SPP_LORA_Q;
  spp_model_sums_count(f.job.arch, f.job.lora_targets, &f.job.sums);
  /* q: rank x (4,096 in + 4,096 out) in 32 layers */
  expect_i64(spp_checkpoint_bytes(&f.job, &f.layout), INT64_C(16) * 8192 * 32 * 14);
  jobs_close(&f);
}

/* Llama 3 (arXiv 2407.21783, section 3.3.4): 419 unexpected interruptions in 54 days on 16,384 GPUs, more
 * than 90 % of the time effective. 54 x 24 h x 16,384 / 419 = 50,676 hours of a GPU for each. */
static void llama_3_was_effective_nine_tenths_of_the_time(void **state) {
  struct jobs_fixture f;
  struct spp_goodput g;
  struct spp_time time = {.step_s = 10, .tokens_per_s = 1e6};
  const struct spp_failures failures = {54 * day * 16384 / 419, SPP_CHECKPOINT_BYTES_PER_S, SPP_RESTART_S};
  (void)state;
  jobs_open(&f);
  jobs_train(&f, jobs_load(&f, "llama3.1-405b"), 8192);
  spp_model_sums_count(f.job.arch, 0, &f.job.sums);
  f.job.gpus = 16384;
  f.cluster.gpus_per_node = 8;
  expect_true(spp_goodput_predict(&failures, &f.job, &f.layout, &time, &g));
  expect_rel(g.job_mtbf_s, 54 * day / 419, 1e-12); /* 3.1 hours */
  expect_rel((double)g.checkpoint_bytes, 405853388800.0 * 14, 1e-3);
  expect_rel(g.checkpoint_s, (double)g.checkpoint_bytes / (2048 * 1e9), 1e-12);
  expect_true(g.share > 0.90 && g.share < 0.96);
  expect_rel(g.tokens_per_s, 1e6 * g.share, 1e-12);
  expect_rel(g.interval_s, 10 * (double)g.interval_steps, 1e-12);
  jobs_close(&f);
}

static void more_failures_leave_less(void **state) {
  struct jobs_fixture f;
  struct spp_goodput g;
  struct spp_time time = {.step_s = 5, .tokens_per_s = 1e5};
  double before = 1;
  (void)state;
  open_8b(&f, 1024);
  for (double mtbf = 1e6; mtbf > 10; mtbf /= 4) {
    const struct spp_failures failures = {mtbf * hour, 1e9, 600};
    expect_true(spp_goodput_predict(&failures, &f.job, &f.layout, &time, &g));
    expect_true(g.share < before && g.share >= 0);
    before = g.share;
  }
  const struct spp_failures none = {0, 1e9, 600};
  expect_false(spp_goodput_predict(&none, &f.job, &f.layout, &time, &g));
  jobs_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(daly_s_interval_is_young_s_with_higher_terms),
      cmocka_unit_test(no_other_interval_trains_more),
      cmocka_unit_test(without_failures_only_checkpoints_cost),
      cmocka_unit_test(a_checkpoint_holds_what_is_trained_once),
      cmocka_unit_test(llama_3_was_effective_nine_tenths_of_the_time),
      cmocka_unit_test(more_failures_leave_less),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
