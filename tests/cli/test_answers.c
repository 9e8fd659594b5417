/* Answers by their structure: numbers change as the model gets sharper, what must hold of them does not. */
#include "tests/cli/run.h"
#include "tests/report/schema.h"

#include "base/utf8.h"

#define JOB "--model qwen7b --seq 32k --gpus 8 --gpu h100-80gb "

static struct run answer(const char *line, const char *const *settings, int rc) {
  struct run run = run_line(line, settings);
  if (run.rc != rc)
    expect_fail_at(__FILE__, __LINE__, "exit status %d, expected %d: %s", run.rc, rc, run.err);
  return run;
}

/* ---- JSON ---- */

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
    {"plan --model qwen7b --seq 1m --gpus 1 --gpu h100-80gb", "plan", 4},
    {"plan --model qwen3-30b-a3b --seq 32k --gpus 16 --framework megatron-lm", "plan", 0},
    {"predict " JOB "--sp 4 --zero 3 --recompute full", "predict", 0},
    {"predict " JOB "--sp 8 --packing --zero 3 --recompute full", "predict", 0},
    {"predict " JOB "--zero 1 --recompute none", "predict", 4},
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
    {"list models", "list", 0},
    {"list gpus", "list", 0},
    {"list clusters", "list", 0},
    {"list frameworks", "list", 0},
    {"list strategies", "list", 0},
    {"list features", "list", 0},
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

struct document {
  struct run run;
  struct spp_json_doc *doc;
  struct spp_json root;
};
static struct document open_json(const char *line, int rc) {
  struct document d = {.run = answer(line, NULL, rc)};
  struct spp_diag diag = {0};
  expect_status(spp_json_parse(d.run.out, strlen(d.run.out), "answer", &d.doc, &diag), SPP_OK, &diag);
  d.root = spp_json_root(d.doc);
  return d;
}
static void close_json(struct document *d) {
  spp_json_free(d->doc);
  run_free(&d->run);
}
static int64_t i64_at(struct spp_json v, const char *key) {
  int64_t value = INT64_MIN;
  struct spp_diag diag = {0};
  expect_status(spp_json_i64(spp_json_get(v, key), INT64_MIN, INT64_MAX, &value, &diag), SPP_OK, &diag);
  return value;
}
static double real_at(struct spp_json v, const char *key) {
  double value = NAN;
  struct spp_diag diag = {0};
  expect_status(spp_json_real(spp_json_get(v, key), -1e300, 1e300, &value, &diag), SPP_OK, &diag);
  return value;
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
  expect_i64(i64_at(memory, "headroom_bytes"),
             i64_at(memory, "capacity_bytes") - i64_at(memory, "device_bytes"));
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

static void predict_of_the_planned_layout_gives_the_planned_numbers(void **state) {
  (void)state;
  struct document plan =
      open_json("plan " JOB "--framework ms-swift --json --zero 3 --recompute full --sp 4", 0);
  struct document predict = open_json(
      "predict " JOB "--framework ms-swift --json --zero 3 --recompute full --sp 4 --micro-batch 1", 0);
  struct spp_json best = spp_json_at(spp_json_get(plan.root, "plans"), 0);
  if (i64_at(spp_json_get(best, "layout"), "micro_batch") == 1) {
    const char *offload = "";
    spp_json_string(spp_json_get(spp_json_get(best, "layout"), "offload"), &offload, NULL);
    if (strcmp(offload, "none") == 0)
      expect_i64(i64_at(spp_json_get(best, "memory"), "device_bytes"),
                 i64_at(spp_json_get(predict.root, "memory"), "device_bytes"));
  }
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

/* ---- text ---- */

static const char *const text_lines[] = {
    "plan " JOB,
    "plan " JOB "-v --top 10",
    "plan " JOB "-q",
    "plan --model qwen7b --seq 1m --gpus 1 --gpu h100-80gb",
    "predict " JOB "--sp 4",
    "predict " JOB "--sp 4 --explain",
    "predict " JOB "--sp 4 --explain layer",
    "compare " JOB,
    "degrees --model qwen7b",
    "sweep --model qwen7b --gpus 8 --vary seq=4k:64k:x4",
    "alloc 2.3GiB " JOB,
    "list models",
    "list gpus",
    "list clusters",
    "list frameworks",
    "list strategies",
    "list features",
};

static void text_fits_the_terminal(void **state) {
  static const int widths[] = {100, 80, 60};
  (void)state;
  for (size_t i = 0; i < sizeof text_lines / sizeof text_lines[0]; i++)
    for (size_t w = 0; w < 3; w++) {
      char columns[32];
      snprintf(columns, sizeof columns, "COLUMNS=%d", widths[w]);
      const char *const settings[] = {columns, NULL};
      struct run run = run_line(text_lines[i], settings);
      for (char *line = strtok(run.out, "\n"); line; line = strtok(NULL, "\n")) {
        expect_note("spplan %s, %s: %s", text_lines[i], columns, line);
        expect_true(spp_utf8_width(line) <= widths[w]);
        expect_true(line[strlen(line) - 1] != ' ');
      }
      run_free(&run);
    }
  expect_note("%s", "");
}

static void the_verdict_comes_first(void **state) {
  (void)state;
  struct run fits = answer("plan " JOB, NULL, 0), predict = answer("predict " JOB "--sp 4", NULL, 0),
             miss = answer("plan --model qwen7b --seq 1m --gpus 1 --gpu h100-80gb", NULL, 4),
             oom = answer("predict " JOB "--zero 1 --recompute none", NULL, 4);
  expect_has(fits.out, "\n\nFITS   ");
  expect_has(predict.out, "\n\nFITS   ");
  expect_has(miss.out, "NOTHING FITS");
  expect_has(oom.out, "\n\nOOM    ");
  expect_true(strstr(fits.out, "FITS") - fits.out < 400);
  static const char *const labels[] = {"layout ",  "memory ",  "comm ", "next ",
                                       "why not ", "assumed ", "run "};
  const char *at = fits.out;
  for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++) { /* in this order */
    char start[32];
    snprintf(start, sizeof start, "\n%s", labels[i]);
    expect_note("%s", labels[i]);
    at = strstr(at, start);
    expect_true(at != NULL);
  }
  expect_note("%s", "");
  run_free(&fits);
  run_free(&predict);
  run_free(&miss);
  run_free(&oom);
}

static void the_memory_bar_is_as_full_as_the_card(void **state) {
  (void)state;
  struct document d = open_json("predict " JOB "--sp 4 --json", 0);
  struct run run = answer("predict " JOB "--sp 4", NULL, 0);
  double share = (double)i64_at(spp_json_get(d.root, "memory"), "device_bytes") /
                 (double)i64_at(spp_json_get(d.root, "memory"), "capacity_bytes");
  const char *bar = strstr(run.out, "[");
  int filled = 0, cells = 0;
  expect_true(bar != NULL);
  for (bar++; *bar && *bar != ']'; bar++, cells++)
    filled += *bar != '.';
  expect_i64(cells, 87); /* 100 columns, 11 of label, two brackets */
  expect_near(filled, share * cells, 1.0);
  run_free(&run);
  close_json(&d);
}

static void without_utf8_text_is_ascii(void **state) {
  const char *const settings[] = {"LC_ALL=C", NULL};
  (void)state;
  for (size_t i = 0; i < sizeof text_lines / sizeof text_lines[0]; i++) {
    struct run run = run_line(text_lines[i], settings);
    for (const char *c = run.out; *c; c++)
      expect_true((unsigned char)*c < 128);
    expect_true(strchr(run.out, '?') == NULL); /* a character without a replacement */
    run_free(&run);
  }
}

static void colour_is_only_where_it_was_asked_for(void **state) {
  const char *const no_color[] = {"NO_COLOR=1", NULL};
  (void)state;
  struct run plain = answer("predict " JOB "--sp 4", NULL, 0),
             always = answer("predict " JOB "--sp 4 --color always", NULL, 0),
             never = answer("predict " JOB "--sp 4 --color never", NULL, 0),
             no = answer("predict " JOB "--sp 4", no_color, 0);
  expect_true(strchr(plain.out, '\033') == NULL); /* standard output is no terminal here */
  expect_true(strchr(always.out, '\033') != NULL);
  expect_str(never.out, plain.out);
  expect_str(no.out, plain.out);
  run_free(&plain);
  run_free(&always);
  run_free(&never);
  run_free(&no);
}

static void quiet_is_short_and_verbose_is_long(void **state) {
  (void)state;
  struct run quiet = answer("plan " JOB "-q", NULL, 0), normal = answer("plan " JOB, NULL, 0),
             verbose = answer("plan " JOB "-v", NULL, 0);
  expect_true(run_count_lines(quiet.out) <= 10);
  expect_true(run_count_lines(normal.out) <= 62);
  expect_true(strlen(quiet.out) < strlen(normal.out) && strlen(normal.out) < strlen(verbose.out));
  expect_has(verbose.out, "\nrejected ");
  run_free(&quiet);
  run_free(&normal);
  run_free(&verbose);
}

static void explain_prints_the_ledgers(void **state) {
  static const struct {
    const char *part, *has;
  } parts[] = {{"memory", "tensor: why"},
               {"comm", "sent per step"},
               {"time", "attention kernels"},
               {"layer", "with nothing recomputed"}};
  (void)state;
  for (size_t i = 0; i < 4; i++) {
    char line[160];
    snprintf(line, sizeof line, "predict " JOB "--sp 4 --explain %s", parts[i].part);
    struct run run = answer(line, NULL, 0);
    expect_has(run.out, parts[i].has);
    run_free(&run);
  }
}

/* ---- options ---- */

static void options_stand_before_or_after_the_command_and_take_both_forms(void **state) {
  static const char *const lines[] = {
      "predict --model qwen7b --seq 32k --gpus 8 --sp 4 --csv",
      "--model qwen7b predict --seq 32k --gpus 8 --sp 4 --csv",
      "--model=qwen7b --seq=32k --gpus=8 --sp=4 --csv predict",
      "-m qwen7b -s 32768 -n8 --sp 4 predict --csv",
      "predict --sp 1 --model qwen7b --seq 32k --gpus 8 --sp 4 --csv",
      "predict --model Qwen/Qwen2.5-7B --seq 32_768 --gpus 8 --sp 4 --csv",
  };
  (void)state;
  struct run first = answer(lines[0], NULL, 0);
  for (size_t i = 1; i < sizeof lines / sizeof lines[0]; i++) {
    struct run run = answer(lines[i], NULL, 0);
    expect_str(run.out, first.out);
    run_free(&run);
  }
  run_free(&first);
}

static void keep_is_the_layout_option(void **state) {
  (void)state;
  struct run keep = answer("plan " JOB "--keep zero=3 --keep sp=4 --csv", NULL, 0),
             option = answer("plan " JOB "--zero 3 --sp 4 --csv", NULL, 0);
  expect_str(keep.out, option.out);
  run_free(&keep);
  run_free(&option);
}

static int64_t seq_of(const char *line, const char *const *settings) {
  struct run run = answer(line, settings, 0);
  struct spp_json_doc *doc;
  expect_status(spp_json_parse(run.out, strlen(run.out), "answer", &doc, NULL), SPP_OK, NULL);
  int64_t seq = i64_at(spp_json_get(spp_json_root(doc), "inputs"), "seq_tokens");
  spp_json_free(doc);
  run_free(&run);
  return seq;
}

static void flags_win_over_environment_over_config_file(void **state) {
  const char line[] = "predict --model qwen7b --gpus 8 --json",
             flag[] = "predict --model qwen7b --gpus 8 --json --seq 1k";
  char home[200], xdg[256];
  (void)state;
  snprintf(home, sizeof home, "%s/spplan", run_folder);
  snprintf(xdg, sizeof xdg, "XDG_CONFIG_HOME=%s", run_folder);
  const char *const file[] = {xdg, NULL}, *const both[] = {xdg, "SPPLAN_SEQ=2k", NULL};
  expect_i64(mkdir(home, 0700), 0);
  run_put("spplan/config.json", "{\"seq\": \"4k\", \"vary\": \"seq=1k\"}");
  struct run refused = answer(line, file, 3); /* a question is no preference */
  run_free(&refused);
  run_put("spplan/config.json", "{\"seq\": 4096, \"zero\": 3, \"top\": 5}");
  expect_i64(seq_of(line, file), 4096);
  expect_i64(seq_of(line, both), 2048);
  expect_i64(seq_of(flag, both), 1024);
  run_remove("spplan/config.json");
  rmdir(home);
}

static void assertions_decide_the_exit_status(void **state) {
  static const struct {
    const char *expression;
    int rc;
  } cases[] = {
      {"memory.fits==true", 0},
      {"memory.fits!=true", 5},
      {"memory.peak_bytes<80GiB", 0},
      {"memory.peak_bytes>80GiB", 5},
      {"time.step_s<1h", 0},
      {"time.step_s>1h", 5},
      {"layout.sp==4", 0},
      {"layout.sp_kind==ulysses", 0},
      {"layout.sp_kind==ring", 5},
      {"inputs.seq_tokens>=32k", 0},
      {"comm.ops[0].ranks>0", 0},
      {"model.layers==28", 0},
      {"model.layers=<28", 2},
      {"memory.nothing<1", 2},
      {"comm.ops[999].ranks>0", 2},
      {"memory.peak_bytes<80G", 2},
      {"layout.sp_kind<5", 2},
      {"inputs.tp==null", 0},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char line[256];
    snprintf(line, sizeof line, "predict " JOB "--sp 4 --zero 3 --recompute full -q --assert '%s'",
             cases[i].expression);
    struct run run = answer(line, NULL, cases[i].rc);
    expect_i64(run_count_lines(run.err), cases[i].rc != 0);
    run_free(&run);
  }
  struct run plan = answer("plan " JOB "-q --assert memory.fits==true --assert plans[0].rank==1", NULL, 0);
  run_free(&plan);
}

static void documents_are_read_from_a_file(void **state) {
  (void)state;
  run_put("lengths.txt", "4096\n8192, 4096\n16384\n");
  struct run run = answer("predict " JOB "--sp 4 --doc-lengths lengths.txt --json", NULL, 0);
  expect_schema(run.out, "predict");
  run_free(&run);
  run_remove("lengths.txt");
}

/* ---- output ---- */

static void output_goes_to_a_file_whole(void **state) {
  char path[256], *text;
  (void)state;
  struct run direct = answer("list gpus --csv", NULL, 0),
             run = answer("list gpus --csv -o gpus.csv", NULL, 0);
  expect_str(run.out, "");
  expect_str(run.err, "");
  snprintf(path, sizeof path, "%s/gpus.csv", run_folder);
  expect_status(spp_file_read(path, 1 << 20, &text, NULL, NULL), SPP_OK, NULL);
  expect_str(text, direct.out);
  expect_i64(run_files(), 1);
  free(text);
  run_remove("gpus.csv");
  run_free(&direct);
  run_free(&run);
}

/* A line of bash in the test's folder, because it is about what stands around the program. */
static void expect_shell(const char *line, int rc, const char *err_has) {
  char err[200], *text;
  int status = -1;
  snprintf(err, sizeof err, "%s.shell", run_folder);
  pid_t pid = fork();
  if (pid == 0) {
    int fd = open(err, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || chdir(run_folder) != 0) _exit(99);
    dup2(fd, 2);
    execlp("bash", "bash", "-c", line, (char *)NULL);
    _exit(98);
  }
  waitpid(pid, &status, 0);
  expect_note("%s", line);
  expect_i64(WIFEXITED(status) ? WEXITSTATUS(status) : -1, rc);
  text = run_slurp(err);
  if (err_has[0])
    expect_has(text, err_has);
  else
    expect_str(text, "");
  expect_note("%s", "");
  free(text);
}

static void a_full_disk_a_gone_reader_and_ctrl_c_are_handled(void **state) {
  (void)state;
  expect_shell("$SPPLAN list models > /dev/full", 1, "spplan: cannot write: No space left on device");
  expect_shell("$SPPLAN list models -o /dev/full", 3, "No space left");
  expect_shell("set -o pipefail; $SPPLAN list models --json | head -c 10 > /dev/null", 0, "");
  expect_shell("mkfifo pipe; exec 3<>pipe; rm pipe; $SPPLAN predict --model qwen7b "
               "--seq 32k --gpus 8 --doc-lengths - <&3 & "
               "sleep 0.3; kill -INT $!; wait $!",
               130, "interrupted");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_json_answer_follows_its_schema),
      cmocka_unit_test(parts_sum_to_what_they_are_parts_of),
      cmocka_unit_test(predict_of_the_planned_layout_gives_the_planned_numbers),
      cmocka_unit_test(inputs_are_echoed_as_parsed),
      cmocka_unit_test(an_illegal_layout_says_its_rule_in_json_too),
      cmocka_unit_test(when_nothing_fits_the_nearest_miss_is_printed),
      cmocka_unit_test(epoch_time_is_the_data_set_over_the_speed),
      cmocka_unit_test(the_answer_does_not_depend_on_threads_or_search),
      cmocka_unit_test(every_csv_row_has_the_fields_of_the_header),
      cmocka_unit_test(text_fits_the_terminal),
      cmocka_unit_test(the_verdict_comes_first),
      cmocka_unit_test(the_memory_bar_is_as_full_as_the_card),
      cmocka_unit_test(without_utf8_text_is_ascii),
      cmocka_unit_test(colour_is_only_where_it_was_asked_for),
      cmocka_unit_test(quiet_is_short_and_verbose_is_long),
      cmocka_unit_test(explain_prints_the_ledgers),
      cmocka_unit_test(options_stand_before_or_after_the_command_and_take_both_forms),
      cmocka_unit_test(keep_is_the_layout_option),
      cmocka_unit_test(flags_win_over_environment_over_config_file),
      cmocka_unit_test(assertions_decide_the_exit_status),
      cmocka_unit_test(documents_are_read_from_a_file),
      cmocka_unit_test(output_goes_to_a_file_whole),
      cmocka_unit_test(a_full_disk_a_gone_reader_and_ctrl_c_are_handled),
  };
  int failed = cmocka_run_group_tests(tests, run_setup, run_teardown);
  return failed != 0;
}
