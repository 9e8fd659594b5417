/* Saved answers: what is read back is the same question, and has the same answer. */
#include "tests/cli/document.h"

/* The same values under the same keys in the same order. */
static void expect_same(struct spp_json a, struct spp_json b) {
  struct spp_json x = spp_json_first(a), y = spp_json_first(b);
  char path[200];
  enum spp_json_kind kind = spp_json_kind(a);
  expect_note("%s", spp_json_path(a, path, sizeof path));
  expect_i64(spp_json_kind(b), kind);
  if (kind == SPP_JSON_STRING) {
    const char *s, *t;
    expect_status(spp_json_string(a, &s, NULL), SPP_OK, NULL);
    expect_status(spp_json_string(b, &t, NULL), SPP_OK, NULL);
    expect_str(t, s);
  } else if (kind == SPP_JSON_INT || kind == SPP_JSON_REAL) {
    double s = 0, t = 1;
    expect_status(spp_json_real(a, -1e300, 1e300, &s, NULL), SPP_OK, NULL);
    expect_status(spp_json_real(b, -1e300, 1e300, &t, NULL), SPP_OK, NULL);
    expect_true(s == t);
  } else if (kind == SPP_JSON_BOOL) {
    bool s = false, t = true;
    expect_status(spp_json_bool(a, &s, NULL), SPP_OK, NULL);
    expect_status(spp_json_bool(b, &t, NULL), SPP_OK, NULL);
    expect_true(s == t);
  }
  expect_i64(spp_json_size(b), spp_json_size(a));
  for (; spp_json_kind(x) != SPP_JSON_ABSENT; x = spp_json_next(x), y = spp_json_next(y)) { /* depth <= 64 */
    if (spp_json_own_key(x)) expect_str(spp_json_own_key(y), spp_json_own_key(x));
    expect_same(x, y);
  }
}

static const char *const jobs[] = {
    "--model qwen7b --seq 32k --gpus 8",
    "--model qwen7b --seq 64k --gpus 16 --packing --framework ms-swift",
    ("--model llama-3.1-8b --seq 32k --gpus 8 --method qlora --lora-dropout 0.05 --lora-targets q,v --gpu "
     "a100-80gb"),
    "--model qwen3-30b-a3b --seq 16k --gpus 16 --framework megatron-lm --pp 2",
    "--model qwen7b --seq 32k --gpus 8 --loss chunked --max-memory 60GiB --optimizer adamw-8bit",
    "--model qwen7b --seq 32k --gpus 8 --mode grpo --method lora --completions 4",
    "--model qwen7b --gpus 2 --method lora --find max-seq",
    "--model qwen7b --seq 32k --find min-gpus",
    "--model qwen7b --seq 32k --gpus 8 --gpu h100-80gb,a100-80gb --price-per-gpu-hour 2,1.1",
    "--model qwen7b --seq 1m --gpus 1", /* nothing fits: the nearest miss */
};

static void predict_of_a_saved_plan_has_its_bytes_and_seconds(void **state) {
  static const char *const parts[] = {"layout", "memory", "comm", "time", "cost"};
  (void)state;
  for (size_t j = 0; j < sizeof jobs / sizeof jobs[0]; j++) {
    char line[400];
    bool misses = strstr(jobs[j], "1m") != NULL;
    snprintf(line, sizeof line, "plan %s --top 3 --json", jobs[j]);
    struct document plan = open_json(line, misses ? 4 : 0);
    struct spp_json plans = spp_json_get(plan.root, "plans");
    run_put("plan.json", plan.run.out);
    int count = misses ? 1 : spp_json_size(plans);
    expect_true(count > 0);
    for (int rank = 1; rank <= count; rank++) {
      struct spp_json one = misses ? spp_json_get(plan.root, "nearest") : spp_json_at(plans, rank - 1);
      snprintf(line, sizeof line, "predict --from plan.json --rank %d --json", rank);
      struct document predict = open_json(line, misses ? 4 : 0);
      for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++)
        expect_same(spp_json_get(one, parts[p]), spp_json_get(predict.root, parts[p]));
      close_json(&predict);
    }
    close_json(&plan);
    run_remove("plan.json");
  }
}

static void a_command_in_quotes_is_the_job_it_says(void **state) {
  static const char *const parts[] = {"layout", "memory", "comm", "time"};
  (void)state;
  struct document typed =
      open_json("predict --model qwen7b --seq 16k -n 8 --zero=3 --recompute full --json", 0);
  struct document quoted = open_json("predict --from './spplan plan --model qwen7b --seq 64k -n 8 --zero=3 "
                                     "--recompute full' --seq 16k --json",
                                     0);
  for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++)
    expect_same(spp_json_get(typed.root, parts[p]), spp_json_get(quoted.root, parts[p]));
  close_json(&quoted);
  close_json(&typed);
}

static void a_saved_answer_asks_the_same_question(void **state) {
  static const char *const parts[] = {"inputs", "given", "plans", "pareto", "nearest", "find", "rejected"};
  (void)state;
  for (size_t j = 0; j < sizeof jobs / sizeof jobs[0]; j++) {
    char line[400];
    int rc = strstr(jobs[j], "1m") ? 4 : 0;
    snprintf(line, sizeof line, "plan %s --top 3 --json", jobs[j]);
    struct document first = open_json(line, rc);
    run_put("plan.json", first.run.out);
    struct document again = open_json("plan --from plan.json --json", rc);
    for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++)
      expect_same(spp_json_get(first.root, parts[p]), spp_json_get(again.root, parts[p]));
    close_json(&again);
    close_json(&first);
  }
  struct run first =
      answer("predict --model qwen7b --seq 32k --gpus 8 --gpu h100-80gb --sp 8 --packing --json", NULL, 0);
  run_put("plan.json", first.out);
  struct run again = answer("predict --from plan.json --json", NULL, 0);
  expect_str(again.out, first.out);
  run_free(&again);
  run_free(&first);
  run_remove("plan.json");
}

static void flags_override_the_file_and_the_file_the_environment(void **state) {
  static const char *const environment[] = {"SPPLAN_SEQ=4k", "SPPLAN_METHOD=lora", "SPPLAN_GPU=a100-40gb",
                                            NULL};
  struct run plan =
      answer("plan --model qwen7b --seq 32k --gpus 8 --framework ms-swift --zero 3 --json", NULL, 0);
  (void)state;
  run_put("plan.json", plan.out);
  struct run same = answer("predict --from plan.json --json", environment, 0);
  expect_has(same.out, "\"seq_tokens\": 32768");
  expect_has(same.out, "\"method\": \"full\"");
  expect_has(same.out, "\"gpu\": \"h100-80gb\"");
  run_free(&same);
  struct document other =
      open_json("predict --from plan.json --gpus 16 --seq 16k --recompute full --sp 4 --json", 0);
  struct spp_json inputs = spp_json_get(other.root, "inputs"), layout = spp_json_get(other.root, "layout");
  expect_i64(i64_at(inputs, "seq_tokens"), 16384);
  expect_i64(i64_at(inputs, "global_batch"), 16); /* one a GPU: nobody gave one */
  expect_i64(i64_at(layout, "sp"), 4);
  expect_i64(i64_at(layout, "zero"), 3);
  close_json(&other);
  struct document predict = open_json("predict --from plan.json --json", 0);
  run_put("predict.json", predict.run.out);
  close_json(&predict);
  struct document free_search =
      open_json("plan --from predict.json --json", 0); /* the layout is open again */
  expect_i64(spp_json_kind(spp_json_get(spp_json_get(free_search.root, "inputs"), "tp")), SPP_JSON_NULL);
  close_json(&free_search);
  for (const char *const *line =
           (const char *const[]){"compare --from plan.json -q", "degrees --from plan.json -q",
                                 "alloc 1GiB --from plan.json -q", NULL};
       *line; line++) {
    struct run run = answer(*line, NULL, 0);
    run_free(&run);
  }
  run_free(&plan);
  run_remove("plan.json");
  run_remove("predict.json");
}

static void a_model_from_a_file_is_found_again(void **state) {
  char line[600];
  (void)state;
  snprintf(line, sizeof line, "predict --model %s/configs/models/qwen2.5-7b.json --seq 8k --gpus 8 --json",
           SPP_SOURCE_DIR);
  struct run first = answer(line, NULL, 0);
  run_put("own.json", first.out);
  struct run again = answer("predict --from own.json --json", NULL, 0);
  expect_has(again.out, "configs/models/qwen2.5-7b.json\"");
  run_free(&again);
  run_free(&first);
  run_remove("own.json");
}

static void a_bad_file_is_refused_with_its_place(void **state) {
  static const struct {
    const char *text, *line, *says;
    int rc;
  } cases[] = {
      {"{}", "plan --from f.json", "no answer of spplan", 3},
      {"[1]", "plan --from f.json", "an object", 3},
      {"{\"schema\":\"spplan.list/1\",\"items\":[]}", "plan --from f.json", "holds no job", 3},
      {"{\"schema\":\"spplan.plan/2\",\"inputs\":{}}", "plan --from f.json", "another version", 3},
      {"{\"schema\":\"spplan.plan/1\",\"inputs\":{\"seq_tokens\":\"32x\"}}", "plan --from f.json",
       "$.inputs.seq_tokens", 3},
      {"{\"schema\":\"spplan.plan/1\",\"inputs\":{\"zero\":7}}", "plan --from f.json", "$.inputs.zero", 3},
      {"{\"schema\":\"spplan.plan/1\",\"inputs\":{\"tp\":{}}}", "plan --from f.json", "$.inputs.tp", 3},
      {"{\"schema\":\"spplan.plan/1\",\"inputs\":{},\"plans\":[]}", "predict --from f.json", "--rank", 3},
      {"{\"schema\":\"spplan.plan/1\",\"inputs\":{},\"plans\":[{}]}", "predict --from f.json", "layout", 3},
      {"{\"schema\":\"spplan.plan/1\",\"inputs\":{},\"plans\":[{}]}", "predict --from f.json --rank 9",
       "plan 9 of 1", 3},
      {"{\"schema\":\"spplan.plan/1\",\"inputs\":{\"doc_lengths\":\"-\"}}", "plan --from f.json",
       "standard input", 3},
      {"{}", "predict --rank 2", "--from FILE", 2},
      {"{}", "plan --from g.json", "g.json", 3},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    run_put("f.json", cases[i].text);
    struct run run = run_line(cases[i].line, NULL);
    expect_note("%s with %s -> %s", cases[i].line, cases[i].text, run.err);
    expect_i64(run.rc, cases[i].rc);
    expect_has(run.err, cases[i].says);
    expect_i64(run_count_lines(run.err), 1);
    expect_str(run.out, "");
    run_free(&run);
  }
  run_remove("f.json");
  /* the least that is a file: inputs alone, all of them given */
  run_put(
      "f.json",
      "{\"schema\":\"spplan.predict/1\",\"inputs\":{\"model\":\"qwen7b\",\"seq_tokens\":32768,\"gpus\":8}}");
  struct run run = answer("plan --from f.json -q", NULL, 0);
  run_free(&run);
  run_remove("f.json");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(predict_of_a_saved_plan_has_its_bytes_and_seconds),
      cmocka_unit_test(a_command_in_quotes_is_the_job_it_says),
      cmocka_unit_test(a_saved_answer_asks_the_same_question),
      cmocka_unit_test(flags_override_the_file_and_the_file_the_environment),
      cmocka_unit_test(a_model_from_a_file_is_found_again),
      cmocka_unit_test(a_bad_file_is_refused_with_its_place),
  };
  int failed = cmocka_run_group_tests(tests, run_setup, run_teardown);
  return failed != 0;
}
