/* Published runs against predictions: what must hold of the shipped corpus, with room for better models. */
#include "planner/score.h"
#include "tests/planner/jobs.h"

static void score(const char *group, struct spp_scoreboard *board) {
  struct spp_corpus corpus = {.arena = &jobs_arena};
  struct spp_diag diag = {.status = SPP_OK};
  jobs_need(spp_corpus_read(JOBS_CONFIG_DIR, JOBS_CONFIG_DIR "/corpus/public.jsonl", &corpus, &diag), &diag);
  jobs_need(spp_score_corpus(&corpus, true, group, &jobs_arena, board, &diag), &diag);
}

static void megatron_rows_that_state_every_setting_agree_to_half_a_percent(void **state) {
  (void)state;
  struct spp_scoreboard board;
  score("simumax", &board);
  expect_i64(board.all.memory.scored, 29);
  expect_true(board.all.memory.mean_abs < 0.005);
  expect_true(board.all.memory.p90_abs < 0.015);
}

static void errors_inside_the_tolerance_of_a_record_count_as_none(void **state) {
  (void)state;
  struct spp_scoreboard board;
  score("simumax", &board); /* each record allows 2 %, none is off by more */
  for (int i = 0; i < board.count; i++)
    expect_rel(board.runs[i].memory_error_beyond_tolerance, 0, 0);
  expect_rel(board.all.memory.median_beyond, 0, 0);
}

static void serving_records_are_scored_by_the_cache_they_have_room_for(void **state) {
  (void)state;
  struct spp_scoreboard board;
  int scored = 0;
  score("vllm", &board);
  for (int i = 0; i < board.count; i++) {
    const struct spp_run_score *r = &board.runs[i];
    if (r->skip) continue;
    scored++;
    expect_i64(r->run->memory_kind, SPP_MEASURED_KV_CACHE);
    expect_true(r->measured_memory_bytes > 0 && r->predicted_memory_bytes > 0);
  }
  expect_true(scored >= 9);
}

static void most_of_the_corpus_is_scored_and_few_verdicts_are_wrong(void **state) {
  (void)state;
  struct spp_scoreboard board;
  score(NULL, &board);
  expect_true(board.all.memory.scored * 100 >= board.all.memory.n * 97);
  expect_true(board.all.fit.correct * 100 >= board.all.fit.scored * 97);
  expect_true(board.all.memory.median_abs < 0.06);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(megatron_rows_that_state_every_setting_agree_to_half_a_percent),
      cmocka_unit_test(errors_inside_the_tolerance_of_a_record_count_as_none),
      cmocka_unit_test(serving_records_are_scored_by_the_cache_they_have_room_for),
      cmocka_unit_test(most_of_the_corpus_is_scored_and_few_verdicts_are_wrong),
  };
  int failed = cmocka_run_group_tests(tests, jobs_setup, jobs_teardown);
  return failed != 0;
}
