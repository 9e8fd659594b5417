/* JSON and CSV answers by their structure: numbers change as the model gets sharper, what must hold of them
 * does not. */
#include "tests/cli/document.h"
#include "tests/report/schema.h"

#define JOB "--model qwen7b --seq 32k --gpus 8 --gpu h100-80gb "

static const struct {
  const char *line, *schema;
  int rc;
} json_answers[] = {
    {"plan " JOB, "plan", 0},
    {JOB "--top 12 --objective memory", "plan", 0},
    {"plan " JOB "--framework deepspeed --method lora --lora-rank 16", "plan", 0},
    {"plan " JOB "--find max-seq --framework megatron-lm", "plan", 0},
    {"plan " JOB "--find min-gpus --framework deepspeed", "plan", 0},
    {"plan " JOB "--find max-batch --framework deepspeed", "plan", 0},
    {"plan " JOB "--find pareto --framework fsdp2", "plan", 0},
    {"plan --model qwen7b --seq 8k --gpus 4 --gpu h100-80gb,a100-80gb --find pareto --framework fsdp2",
     "plan", 0},
    {"plan --model qwen7b --seq 1m --gpus 1 --gpu h100-80gb", "plan", 4},
    {"plan --model qwen7b --seq 32k --gpus 8 --gpu h100-80gb,a100-80gb,l4-24gb", "plan", 0},
    {"plan --model qwen7b --seq 8k --gpu h100-80gb,a100-40gb --find min-gpus --framework fsdp2", "plan", 0},
    {"plan --model qwen7b --seq 1m --gpus 1 --gpu l4-24gb,a100-40gb", "plan", 4},
    {"plan --model qwen3-30b-a3b --seq 32k --gpus 16 --framework megatron-lm", "plan", 0},
    {"predict " JOB "--sp 4 --zero 3 --recompute full", "predict", 0},
    {"predict " JOB "--sp 8 --packing --zero 3 --recompute full", "predict", 0},
    {"predict " JOB "--zero 1 --recompute none", "predict", 4},
    {"plan " JOB "--explain sensitivity", "plan", 0},
    {"plan --model qwen7b --seq 1m --gpus 1 --gpu h100-80gb --explain sensitivity", "plan", 4},
    {"plan --model qwen7b --seq 8k --find min-gpus --gpu h100-80gb,a100-40gb --explain sensitivity", "plan",
     0},
    {"predict " JOB "--sp 4 --zero 3 --recompute full --explain sensitivity", "predict", 0},
    {"predict " JOB "--sp 4 --zero 3 --recompute full --explain memory", "predict", 0},
    {"predict " JOB "--sp 4 --zero 3 --mtbf 50000h --dataset-tokens 100m", "predict", 0},
    {"compare " JOB "--mtbf 50000h --checkpoint-rate 2GB/s --restart-time 5min", "compare", 0},
    {"sweep --model qwen7b --seq 8k --vary gpus=8,1024 --mtbf 50000h -f megatron-lm --dataset-samples 100000",
     "sweep", 0},
    {"predict " JOB "--sp 8", "predict", 2},
    {"predict " JOB "--tp 3 --framework megatron-lm", "predict", 2},
    {"predict --model qwen2.5-vl-7b --seq 32k --gpus 8 --sp 4 --image 1024x1024x4", "predict", 0},
    {"predict --model qwen7b --seq 8k --gpus 1 --mode infer --framework vllm", "predict", 0},
    {"compare " JOB, "compare", 0},
    {"sweep --model qwen7b --gpus 8 --vary seq=4k:64k:x4 --vary sp=1,4,8", "sweep", 0},
    {"alloc 2.32GiB " JOB "--sp 4", "alloc", 0},
    {"degrees --model qwen7b", "degrees", 0},
    {"degrees --model qwen3-30b-a3b --gpus 16 --framework megatron-lm", "degrees", 0},
    {"accuracy --core", "accuracy", 0},
#ifdef SPP_HAVE_GSL
    {"calibrate --max-spread 0 --ranks 2", "calibrate", 0},
#endif
    {"validate", "validate", 0},
    {"validate --tp 2 --dp 2 --zero 1 --seq 64", "validate", 0},
    {"export --to ms-swift " JOB "--sp 4 --zero 3", "export", 0},
    {"export --to llama-factory " JOB "--zero 3", "export", 0},
    {"export --to megatron-lm " JOB "--tp 2", "export", 0},
    {"list models", "list", 0},
    {"list gpus", "list", 0},
    {"list clusters", "list", 0},
    {"list frameworks", "list", 0},
    {"list strategies", "list", 0},
    {"list exporters", "list", 0},
    {"list features", "list", 0},
    {"list kernels", "list", 0},
    {"list backends", "list", 0},
};

static void every_json_answer_follows_its_schema(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof json_answers / sizeof json_answers[0]; i++) {
    char line[256];
    snprintf(line, sizeof line, "%s --json", json_answers[i].line);
    struct run run = answer(line, NULL, json_answers[i].rc);
    expect_schema(run.out, json_answers[i].schema);
    run_free(&run);
  }
}

static void an_import_follows_its_schema(void **state) {
  (void)state;
  run_put("f.sh", "NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-7B --max_length 8192 --max-lenght 1 "
                  "--learning_rate 1\n");
  struct run run = answer("import f.sh --json", NULL, 0);
  expect_schema(run.out, "import");
  run_free(&run);
  run_put("g.sh", "NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen2.5-7B --max_length 8192 "
                  "--tensor_model_parallel_size 2\n");
  run = answer("diff f.sh g.sh --json", NULL, 0);
  expect_schema(run.out, "diff");
  run_free(&run);
  run = answer("diff 'spplan predict --model qwen7b --seq 32k --gpus 8' g.sh --json", NULL, 0);
  expect_schema(run.out, "diff");
  run_free(&run);
  run_remove("g.sh");
  run_remove("f.sh");
}

static double sum(struct spp_json object) {
  double total = 0;
  for (struct spp_json v = spp_json_first(object); spp_json_kind(v) != SPP_JSON_ABSENT;
       v = spp_json_next(v)) {
    double value = NAN;
    spp_json_real(v, -1e300, 1e300, &value, NULL);
    total += value;
  }
  return total;
}

static void expect_sums(struct spp_json plan) {
  struct spp_json memory = spp_json_get(plan, "memory"), time = spp_json_get(plan, "time");
  expect_rel(sum(spp_json_get(memory, "parts")), (double)i64_at(memory, "device_bytes"), 0);
  expect_rel(sum(spp_json_get(time, "parts")), real_at(time, "step_s"), 1e-5); /* six digits each */
  /* blocks that the allocator gives back before it fails are no use of the card */
  expect_i64(i64_at(memory, "headroom_bytes"), i64_at(memory, "capacity_bytes") -
                                                   i64_at(memory, "device_bytes") +
                                                   i64_at(memory, "reclaimable_bytes"));
  expect_true(i64_at(memory, "peak_bytes") <= i64_at(memory, "reserved_bytes"));
  expect_true(i64_at(memory, "reserved_bytes") <= i64_at(memory, "device_bytes"));
}

static void parts_sum_to_what_they_are_parts_of(void **state) {
  (void)state;
  struct document d = open_json("plan " JOB "--json --top 20", 0);
  struct spp_json plans = spp_json_get(d.root, "plans");
  expect_true(spp_json_size(plans) > 3);
  for (struct spp_json p = spp_json_first(plans); spp_json_kind(p) != SPP_JSON_ABSENT; p = spp_json_next(p))
    expect_sums(p);
  close_json(&d);
}

/* --explain memory in JSON: the tensors alive at the peak are the card's use; without it, null. */
static void explained_tensors_sum_to_the_device(void **state) {
  (void)state;
  static const char *const lines[] = {
      "predict " JOB "--json --explain memory",
      "predict " JOB "--json --explain --sp 4 --recompute none",
      "plan " JOB "--json --explain memory",
      ("predict --model llama3.1-8b --seq 32k --gpus 8 --gpu h100-80gb --framework megatron-lm --pp 4 --tp 2 "
       "--json --explain"),
  };
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    struct run run = run_line(lines[i], NULL);
    struct spp_json_doc *doc = NULL;
    struct spp_diag diag = {0};
    expect_note("%s", lines[i]);
    expect_status(spp_json_parse(run.out, strlen(run.out), "answer", &doc, &diag), SPP_OK, &diag);
    struct spp_json root = spp_json_root(doc), tensors = spp_json_get(root, "tensors");
    int64_t sum = 0;
    for (struct spp_json t = spp_json_first(tensors); spp_json_kind(t) != SPP_JSON_ABSENT;
         t = spp_json_next(t)) {
      bool at_peak = false;
      expect_status(spp_json_bool(spp_json_get(t, "at_peak"), &at_peak, &diag), SPP_OK, &diag);
      if (at_peak) sum += i64_at(t, "bytes");
    }
    struct spp_json plan = spp_json_at(spp_json_get(root, "plans"), 0); /* a search's first, or the one */
    struct spp_json memory = spp_json_get(spp_json_kind(plan) == SPP_JSON_OBJECT ? plan : root, "memory");
    expect_i64(sum, i64_at(memory, "device_bytes"));
    spp_json_free(doc);
    run_free(&run);
  }
  struct run plain = run_line("predict " JOB "--json", NULL);
  expect_has(plain.out, "\"tensors\": null");
  run_free(&plain);
}

static const char *text_at(struct spp_json v, const char *key) {
  const char *text = "";
  struct spp_diag diag = {0};
  expect_status(spp_json_string(spp_json_get(v, key), &text, &diag), SPP_OK, &diag);
  return text;
}

/* The search and predict share one model: a plan's layout, given back as options, costs what the plan said.
 */
static void predict_of_a_planned_layout_gives_the_planned_numbers(void **state) {
  (void)state;
  struct document plan = open_json("plan " JOB "--framework ms-swift --json", 0);
  struct spp_json best = spp_json_at(spp_json_get(plan.root, "plans"), 0);
  struct spp_json layout = spp_json_get(best, "layout");
  char line[400];
  snprintf(line, sizeof line,
           "predict " JOB
           "--json --dp %d --sp-kind %s --ulysses %d --ring %d --zero %d --recompute %s --offload %s "
           "--micro-batch %d --loss %s --kernels %s",
           (int)i64_at(layout, "dp"), text_at(layout, "sp_kind"), (int)i64_at(layout, "ulysses"),
           (int)i64_at(layout, "ring"), (int)i64_at(layout, "zero"), text_at(layout, "recompute"),
           text_at(layout, "offload"), (int)i64_at(layout, "micro_batch"), text_at(layout, "loss"),
           text_at(layout, "kernels"));
  struct document predict = open_json(line, 0);
  expect_i64(i64_at(spp_json_get(predict.root, "memory"), "device_bytes"),
             i64_at(spp_json_get(best, "memory"), "device_bytes"));
  expect_i64(i64_at(spp_json_get(predict.root, "comm"), "sent_bytes_per_step"),
             i64_at(spp_json_get(best, "comm"), "sent_bytes_per_step"));
  expect_rel(real_at(spp_json_get(predict.root, "time"), "step_s"),
             real_at(spp_json_get(best, "time"), "step_s"), 0);
  close_json(&plan);
  close_json(&predict);
}

static void inputs_are_echoed_as_parsed(void **state) {
  const char *text = "";
  (void)state;
  struct document d = open_json("predict --model qwen7b --seq 32k --gpus=8 --gpu h100-80gb --max-memory "
                                "70GiB --sp 4 --zero 3 --recompute full "
                                "--lora-targets q,v --method lora --json",
                                0);
  struct spp_json inputs = spp_json_get(d.root, "inputs");
  expect_i64(i64_at(inputs, "seq_tokens"), 32768);
  expect_i64(i64_at(inputs, "max_memory_bytes"), INT64_C(70) << 30);
  expect_i64(i64_at(inputs, "sp"), 4);
  expect_i64(i64_at(inputs, "global_batch"), 8);
  expect_status(spp_json_string(spp_json_get(inputs, "model"), &text, NULL), SPP_OK, NULL);
  expect_str(text, "qwen2.5-7b");
  expect_status(spp_json_string(spp_json_get(inputs, "framework"), &text, NULL), SPP_OK, NULL);
  expect_str(text, "ms-swift");
  expect_status(spp_json_string(spp_json_get(inputs, "dtype"), &text, NULL), SPP_OK, NULL);
  expect_str(text, "bf16");
  expect_i64(spp_json_size(spp_json_get(inputs, "lora_targets")), 2);
  expect_i64((int)spp_json_kind(spp_json_get(inputs, "tp")), SPP_JSON_NULL);
  close_json(&d);
}

static void an_illegal_layout_says_its_rule_in_json_too(void **state) {
  const char *rule = "";
  (void)state;
  struct document d = open_json("predict " JOB "--sp 8 --json", 2);
  expect_status(
      spp_json_string(spp_json_get(spp_json_at(spp_json_get(d.root, "errors"), 0), "rule"), &rule, NULL),
      SPP_OK, NULL);
  expect_str(rule, "ring-packing");
  expect_i64((int)spp_json_kind(spp_json_get(d.root, "memory")), SPP_JSON_NULL);
  expect_i64(run_count_lines(d.run.err), 1);
  close_json(&d);
}

static void several_gpu_types_are_named_in_every_plan(void **state) {
  (void)state;
  struct document d = open_json("plan --model qwen7b --seq 32k --gpus 8 --gpu h100-80gb,a100-80gb "
                                "--price-per-gpu-hour 6,1 --objective cost --json",
                                0);
  struct spp_json inputs = spp_json_get(d.root, "inputs"), gpus = spp_json_get(d.root, "gpus");
  expect_str(text_at(spp_json_first(gpus), "gpu"), "a100-80gb");
  expect_i64(i64_at(spp_json_first(gpus), "plan"), 0);
  expect_rel(real_at(spp_json_first(gpus), "usd_per_gpu_hour"), 1, 0);
  expect_str(text_at(spp_json_first(spp_json_get(d.root, "plans")), "gpu"), "a100-80gb");
  expect_i64(spp_json_size(spp_json_get(inputs, "gpu")), 2);
  expect_i64(spp_json_size(spp_json_get(inputs, "usd_per_gpu_hour")), 2);
  close_json(&d);
}

/* The fastest layout of this job fills 75.5 GiB: of 76 it is not likely enough to fit. */
static void a_riskier_plan_is_named_with_its_gain_and_its_odds(void **state) {
  static const char job[] = "plan --model llama-3.1-8b --seq 64k --gpus 8 --gpu h100-80gb --framework "
                            "deepspeed --max-memory 76GiB --json";
  char bold[256];
  (void)state;
  struct document d = open_json(job, 0);
  struct spp_json riskier = spp_json_get(d.root, "riskier"), plans = spp_json_get(d.root, "plans");
  int64_t index = i64_at(riskier, "plan");
  struct spp_json fast = spp_json_first(plans), best = fast;
  for (int64_t i = 0; i < index; i++)
    fast = spp_json_next(fast);
  expect_true(real_at(riskier, "fit_probability") < real_at(riskier, "min_fit"));
  expect_rel(real_at(riskier, "fit_probability"), real_at(spp_json_get(fast, "memory"), "fit_probability"),
             0);
  expect_rel(real_at(riskier, "speed_ratio"),
             real_at(spp_json_get(fast, "time"), "tokens_per_s") /
                 real_at(spp_json_get(best, "time"), "tokens_per_s"),
             1e-5); /* printed with six digits */
  expect_true(real_at(riskier, "speed_ratio") >= 1.01);
  close_json(&d);
  snprintf(bold, sizeof bold, "%s --min-fit 0", job);
  d = open_json(bold, 0);
  expect_i64((int)spp_json_kind(spp_json_get(d.root, "riskier")), SPP_JSON_NULL);
  close_json(&d);
}

/* One type of GPU: every count up to --gpus, the batch that --gpus would have. An H20 has no list price: cost
 * is left out. */
static void the_pareto_front_names_its_figures(void **state) {
  static const char line[] =
      "plan --model qwen7b --seq 8k --gpus 4 --gpu %s --framework fsdp2 --find pareto --json";
  static const struct {
    const char *gpus;
    int64_t figures;
  } rows[] = {{"h100-80gb", 4}, {"h100-80gb,a100-80gb", 4}, {"h100-80gb,h20-96gb", 3}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[256];
    snprintf(text, sizeof text, line, rows[i].gpus);
    struct document d = open_json(text, 0);
    struct spp_json plans = spp_json_get(d.root, "plans"), pareto = spp_json_get(d.root, "pareto");
    bool fewer = false;
    expect_i64(spp_json_size(spp_json_get(d.root, "pareto_over")), rows[i].figures);
    expect_i64(i64_at(spp_json_get(d.root, "find"), "value"), spp_json_size(pareto));
    expect_str(text_at(spp_json_get(d.root, "find"), "what"), "pareto");
    for (struct spp_json p = spp_json_first(plans); spp_json_kind(p) != SPP_JSON_ABSENT;
         p = spp_json_next(p)) {
      expect_i64(i64_at(spp_json_get(p, "layout"), "global_batch"), 4);
      fewer |= i64_at(p, "gpus") < 4;
    }
    expect_true(fewer);
    close_json(&d);
  }
}

static void when_nothing_fits_the_nearest_miss_is_printed(void **state) {
  (void)state;
  struct document d = open_json("plan --model qwen7b --seq 1m --gpus 1 --gpu h100-80gb --json", 4);
  struct spp_json nearest = spp_json_get(d.root, "nearest");
  expect_i64(spp_json_size(spp_json_get(d.root, "plans")), 0);
  expect_true(i64_at(nearest, "over_bytes") > 0);
  expect_i64(i64_at(nearest, "over_bytes"), -i64_at(spp_json_get(nearest, "memory"), "headroom_bytes"));
  expect_i64(run_count_lines(d.run.err), 1);
  close_json(&d);
}

static void epoch_time_is_the_data_set_over_the_speed(void **state) {
  (void)state;
  struct document d = open_json("predict " JOB "--sp 4 --dataset-tokens 100m --json", 0);
  struct spp_json time = spp_json_get(d.root, "time");
  /* 100m = 104,857,600 tokens */
  expect_rel(real_at(time, "epoch_s"), 104857600.0 / real_at(time, "tokens_per_s"), 1e-5);
  close_json(&d);
}

static void the_answer_does_not_depend_on_threads_or_search(void **state) {
  (void)state;
  struct run one = answer("plan " JOB "--csv --threads 1", NULL, 0),
             two = answer("plan " JOB "--csv --threads 2", NULL, 0);
  struct run all = answer("plan " JOB "--csv --search exhaustive", NULL, 0);
  expect_str(two.out, one.out);
  expect_str(all.out, one.out);
  run_free(&one);
  run_free(&two);
  run_free(&all);
}

/* ---- CSV ---- */

static int count_fields(const char *line) {
  bool quoted = false;
  int fields = 1;
  for (; *line && (quoted || *line != '\n'); line++) {
    if (*line == '"') quoted = !quoted;
    fields += !quoted && *line == ',';
  }
  return fields;
}

static void every_csv_row_has_the_fields_of_the_header(void **state) {
  static const char *const lines[] = {
      "plan " JOB "--csv",         "predict " JOB "--sp 4 --csv",
      "compare " JOB "--csv",      "degrees --model qwen7b --csv",
      "alloc 2.3GiB " JOB "--csv", "list models --csv",
      "list frameworks --csv",     "sweep --model qwen7b --gpus 8 --vary seq=4k,8k --vary sp=1,8 --csv",
  };
  (void)state;
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    struct run run = answer(lines[i], NULL, 0);
    int fields = count_fields(run.out), rows = 0;
    bool quoted = false, start = true;
    for (const char *c = run.out; *c; c++) {
      if (start) expect_i64(count_fields(c), fields);
      rows += start;
      if (*c == '"') quoted = !quoted;
      start = *c == '\n' && !quoted;
    }
    expect_true(rows > 1);
    run_free(&run);
  }
}

/* What a method fills in for itself is echoed too: peft and ms-swift default to rank 8, ms-swift to dropout
 * 0.05, both to every linear layer. Other methods have none of it. */
static void inputs_show_what_the_method_fills_in(void **state) {
  (void)state;
  struct document d = open_json("predict " JOB "--method lora --json", 0);
  struct spp_json inputs = spp_json_get(d.root, "inputs"), targets = spp_json_get(inputs, "lora_targets");
  const char *text = "";
  expect_i64(i64_at(inputs, "lora_rank"), 8);
  expect_rel(real_at(inputs, "lora_dropout"), 0.05, 0);
  expect_i64(spp_json_size(targets), 1);
  expect_i64(spp_json_string(spp_json_at(targets, 0), &text, NULL), SPP_OK);
  expect_str(text, "all");
  expect_i64(spp_json_kind(spp_json_get(inputs, "quant")), SPP_JSON_NULL);
  close_json(&d);
  d = open_json("predict " JOB "--sp 4 --zero 3 --recompute full --json", 0);
  expect_i64(spp_json_kind(spp_json_get(spp_json_get(d.root, "inputs"), "lora_rank")), SPP_JSON_NULL);
  close_json(&d);
}

/* Scripts read inputs in the documented order. */
static void inputs_keep_their_order(void **state) {
  static const char *const order[] = {"\"model\"", "\"seq_tokens\"", "\"gpus\"",
                                      "\"gpu\"",   "\"framework\"",  "\"method\""};
  (void)state;
  struct run run = answer("predict " JOB "--sp 4 --zero 3 --recompute full --json", NULL, 0);
  const char *at = strstr(run.out, "\"inputs\"");
  for (size_t i = 0; at && i < sizeof order / sizeof order[0]; i++)
    at = strstr(at + 1, order[i]);
  expect_true(at != NULL);
  run_free(&run);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_json_answer_follows_its_schema),
      cmocka_unit_test(an_import_follows_its_schema),
      cmocka_unit_test(parts_sum_to_what_they_are_parts_of),
      cmocka_unit_test(explained_tensors_sum_to_the_device),
      cmocka_unit_test(predict_of_a_planned_layout_gives_the_planned_numbers),
      cmocka_unit_test(inputs_are_echoed_as_parsed),
      cmocka_unit_test(inputs_show_what_the_method_fills_in),
      cmocka_unit_test(inputs_keep_their_order),
      cmocka_unit_test(an_illegal_layout_says_its_rule_in_json_too),
      cmocka_unit_test(several_gpu_types_are_named_in_every_plan),
      cmocka_unit_test(a_riskier_plan_is_named_with_its_gain_and_its_odds),
      cmocka_unit_test(the_pareto_front_names_its_figures),
      cmocka_unit_test(when_nothing_fits_the_nearest_miss_is_printed),
      cmocka_unit_test(epoch_time_is_the_data_set_over_the_speed),
      cmocka_unit_test(the_answer_does_not_depend_on_threads_or_search),
      cmocka_unit_test(every_csv_row_has_the_fields_of_the_header),
  };
  int failed = cmocka_run_group_tests(tests, run_setup, run_teardown);
  return failed != 0;
}
