/* Every bad input: its exit status, one line on stderr in the form "spplan: what: where: fix", nothing on
 * stdout, and no file left. */
#include "tests/cli/run.h"

static const char bad_json[] = "{\"layers\": 1,, }";

static const struct bad {
  const char *line;
  int rc;
  const char *says; /* words of the message */
} bads[] = {
    /* words */
    {"plam --model qwen7b", 2, "did you mean 'plan'?"},
    {"tui2", 2, "unknown command 'tui2'"},
    {"import x.json", 3, "x.json"},
    {"predict extra --model qwen7b", 2, "unexpected word 'extra' after 'predict'"},
    {"plan one two --model qwen7b", 2, "unexpected word"},
    {"list models gpus", 2, "unexpected word 'gpus'"},
    {"list", 2, "list needs to know what"},
    {"list model", 2, "did you mean 'models'?"},
    {"list compilers", 2, "nothing called 'compilers' to list"},
    {"help predicted", 2, "did you mean 'predict'?"},
    {"'' --model qwen7b", 2, "unknown command ''"},
    {"-- --model", 2, "unknown command '--model'"},
    /* option names */
    {"--modle qwen7b", 2, "unknown option '--modle': command line: did you mean --model?"},
    {"--mod qwen7b --seq 32k --gpus 8", 2, "unknown option '--mod'"},
    {"--mod", 2, "unknown option '--mod'"},
    {"--model=qwen7b --se=32k --gpus 8", 2, "unknown option '--se'"},
    {"--micro 2", 2, "unknown option '--micro'"},
    {"-x", 2, "unknown option '-x'"},
    {"-qz --model qwen7b", 2, "unknown option '-z'"},
    {"--json=1", 2, "--json takes no value"},
    {"--model", 2, "--model needs a value: command line: write --model NAME"},
    {"--model qwen7b --seq", 2, "--seq needs a value"},
    {"--model --seq 32k --gpus 8", 2, "--model needs a value"},
    {"-o", 2, "--output needs a value"},
    {"list models --tp 2", 2, "'list' has no option --tp"},
    {"degrees --model qwen7b --find max-seq", 2, "'degrees' has no option --find"},
    {"predict --model qwen7b --vary seq=1k:2k", 2, "'predict' has no option --vary"},
    {"list models --json --csv", 2, "--json and --csv exclude each other"},
    /* what contradicts itself */
    {"predict --model qwen7b --seq 8k --gpus 8 --no-packing --doc-lengths docs.txt", 2,
     "--doc-lengths are those of packed documents: --no-packing"},
    {"predict --model qwen7b --seq 8k --gpus 8 --image 640x480", 2, "has no vision tower: --image"},
    {"--model qwen7b --seq 8k --gpus 8 --tp 3", 2,
     "TP 3 does not divide 8 GPUs: command line: a product of 2 does; or --gpus 9"},
    {"--model qwen7b --seq 8k --gpus 8 --tp 2 --pp 3 --ulysses 2", 2,
     "TP 2 x PP 3 x SP 2 does not divide 8 GPUs"},
    {"report --model qwen7b --seq 8k --gpus 8 --sp 16", 2, "SP 16 does not divide 8 GPUs"},
    {"predict --model qwen7b --seq 8k --gpus 8 -o a.json --trace a.json", 2,
     "would write the same file: --trace"},
    /* what must be there */
    {"predict --model qwen7b --seq 32k --gpus 8 --gpu h100-80gb,a100-80gb", 2,
     "'predict' takes one GPU type"},
    {"--model qwen7b --seq 32k --gpus 8 --gpu h100-80gb,,a100-80gb", 2, "a name in the list is empty"},
    {"--model qwen7b --seq 32k --gpus 8 --gpu a100-80gb,h100-80gb,a100-80gb", 2, "a100-80gb is there twice"},
    {"--model qwen7b --seq 32k --gpus 8 --gpu h100-80gb,a100-80gb --price-per-gpu-hour 1,2,3", 2,
     "3 prices for 2 GPU types"},
    {"--model qwen7b --seq 32k --gpus 8 --gpu h100-80gb --price-per-gpu-hour 1,x", 2, "--price-per-gpu-hour"},
    {"--model qwen7b --seq 32k --gpus 8 --gpu h100-80gb,a100-80gb --cluster h100-sxm", 2,
     "one cluster does not hold 2 GPU types"},
    {"--model qwen7b --seq 32k --gpus 8 --gpu h20-96gb --objective cost", 2, "no price is known for H20"},

    {"--model qwen7b --seq 32k --gpus 8 --mtbf 50000", 2, "--mtbf"},
    {"--model qwen7b --seq 32k --gpus 8 --mtbf 0h", 2, "--mtbf: give one that a machine could have"},
    {"--model qwen7b --seq 32k --gpus 8 --mtbf 1h --checkpoint-rate 2GB", 2, "--checkpoint-rate"},
    {"alloc 1GiB --model qwen7b --mtbf 1h", 2, "'alloc' has no option --mtbf"},

    {"plan", 2, "--model is missing"},
    {"--seq 32k --gpus 8", 2, "--model is missing"},
    {"--model qwen7b --gpus 8", 2, "--seq is missing"},
    {"--model qwen7b --seq 32k", 2, "--gpus is missing"},
    {"predict --model qwen7b --seq 32k", 2, "--gpus is missing"},
    {"plan --find max-seq --model qwen7b", 2, "--gpus is missing"},
    {"plan --find min-gpus --model qwen7b", 2, "--seq is missing"},
    {"alloc --model qwen7b --seq 32k", 2, "alloc needs a size"},
    {"sweep --model qwen7b --seq 32k --gpus 8", 2, "sweep needs --vary"},
    /* values */
    {"--model qwen7b --seq 32x --gpus 8", 2, "--seq"},
    {"--model qwen7b --seq -5 --gpus 8", 2, "--seq"},
    {"--model qwen7b --seq 0 --gpus 8", 2, "--seq"},
    {"--model qwen7b --seq 1.0001k --gpus 8", 2, "--seq"},
    {"--model qwen7b --seq 99999999999999999999 --gpus 8", 2, "--seq"},
    {"--model qwen7b --seq nan --gpus 8", 2, "--seq"},
    {"--model qwen7b --seq '' --gpus 8", 2, "--seq"},
    {"--model qwen7b --seq 32k --gpus 0", 2, "--gpus"},
    {"--model qwen7b --seq 32k --gpus eight", 2, "--gpus"},
    {"--model qwen7b --seq 32k --gpus 8.5", 2, "--gpus"},
    {"--model qwen7b --seq 32k --gpus 8 --max-memory 80G", 2, "--max-memory"},
    {"--model qwen7b --seq 32k --gpus 8 --max-memory 80GiBs", 2, "--max-memory"},
    {"--model qwen7b --seq 32k --gpus 8 --max-memory 0", 2, "--max-memory"},
    {"predict --from 'spplan predict --modle x'", 2, "unknown option '--modle'"},
    {"predict --from 'no file.json'", 3, "no framework's command or configuration was recognised: command"},
    {"--model qwen7b --seq 32k --gpus 8 --max-memory 40", 2, "'40' is less than 1 MiB"},
    {"--model qwen7b --seq 32k --gpus 8 --price-per-gpu-hour -1", 2, "--price-per-gpu-hour"},
    {"--model qwen7b --seq 32k --gpus 8 --price-per-gpu-hour inf", 2, "--price-per-gpu-hour"},
    {"--model qwen7b --seq 32k --gpus 8 --zero 4", 2, "--zero"},
    {"--model qwen7b --seq 32k --gpus 8 --tp 0", 2, "--tp"},
    {"--model qwen7b --seq 32k --gpus 8 --lora-dropout 1.5", 2, "--lora-dropout"},
    {"--model qwen7b --seq 32k --gpus 8 --method lorra", 2, "did you mean lora?"},
    {"--model qwen7b --seq 32k --gpus 8 --recompute FULL", 2, "unknown value 'FULL'"},
    {"--model qwen7b --seq 32k --gpus 8 --sp-kind ulises", 2, "did you mean ulysses?"},
    {"--model qwen7b --seq 32k --gpus 8 --loss liger", 2, "--loss"},
    {"--model qwen7b --seq 32k --gpus 8 --lora-targets q,,v", 2, "--lora-targets"},
    {"--model qwen7b --seq 32k --gpus 8 --recompute-modules core_atn", 2, "did you mean core_attn?"},
    {"--model qwen7b --seq 32k --gpus 8 --explain memry", 2, "did you mean memory?"},
    {"--model qwen7b --seq 32k --gpus 8 --find maxseq", 2, "did you mean max-seq?"},
    {"--model qwen7b --seq 32k --gpus 8 --color red", 2, "--color"},
    {"--model qwen7b --seq 32k --gpus 8 --top 0", 2, "--top"},
    {"--model qwen7b --seq 32k --gpus 8 --threads 99999", 2, "--threads"},
    {"--model qwen7b --seq 32k --gpus 8 --image 100", 2, "--image"},
    {"--model qwen7b --seq 32k --gpus 8 --image 0x100", 2, "--image"},
    {"--model qwen7b --seq 32k --gpus 8 --image 10x10x10x10", 2, "--image"},
    {"--model qwen7b --seq 32k --gpus 8 --image 64x64", 2, "has no vision tower"},
    {"--model qwen7b --seq 32k --gpus 8 --keep tp", 2, "has no value"},
    {"--model qwen7b --seq 32k --gpus 8 --keep tpp=2", 2, "unknown layout field 'tpp'"},
    {"--model qwen7b --seq 32k --gpus 8 --keep zero=9", 2, "--keep zero"},
    {"sweep --model qwen7b --gpus 8 --vary seq", 2, "'seq' is no range"},
    {"sweep --model qwen7b --gpus 8 --vary seq=", 2, "is no range"},
    {"sweep --model qwen7b --gpus 8 --vary seq=8k:4k", 2, "is no range"},
    {"sweep --model qwen7b --gpus 8 --vary seq=4k:8k:x1", 2, "--vary"},
    {"sweep --model qwen7b --gpus 8 --vary seq=1:1m:+1", 2, "more than 256 values"},
    {"sweep --model qwen7b --gpus 8 --vary sec=4k:8k", 2, "did you mean seq=?"},
    {"sweep --model qwen7b --gpus 8 --vary method=lora:full", 2, "method has no range"},
    {"sweep --model qwen7b --gpus 8 --vary output=a,b", 2, "'output' cannot be varied"},
    {"sweep --gpus 8 --model qwen7b --vary seq=4k --vary seq=8k", 2, "varied twice"},
    {"sweep --gpus 8 --model qwen7b --vary seq=4k --vary tp=1 --vary sp=1", 2, "more than two variables"},
    {"alloc 58G --model qwen7b --seq 32k", 2, "alloc BYTES"},
    {"alloc 0 --model qwen7b --seq 32k", 2, "a size of 0"},
    {"alloc big --model qwen7b --seq 32k", 2, "alloc BYTES"},
    {"--model qwen7b --seq 32k --gpus 8 --assert memory.peak_bytes", 2, "is no comparison"},
    {"--model qwen7b --seq 32k --gpus 8 --assert '<5'", 2, "is no comparison"},
    {"--model qwen7b --seq 32k --gpus 8 --assert a=5", 2, "is no comparison"},
    {"--model qwen7b --seq 32k --gpus 8 --assert 'memory.peek_bytes<5'", 2, "has no value"},
    {"predict --model qwen7b --seq 32k --gpus 8 --framework fsdp2 --zero 0 --offload optimizer+params", 2,
     "rule offload-sharding"}, /* CPUOffloadPolicy belongs to fully_shard: a DDP replica has no offload */
    {"predict --model qwen7b --seq 32k --gpus 8 --ulysses 4 --sp 2", 2, "SP 2 is less than its Ulysses"},
    {"--complete-values nothing", 2, "unknown option 'nothing'"},
    /* names */
    {"--model qwem7b --seq 32k --gpus 8", 2, "--model: did you mean qwen7b?"},
    {"--model qwen7b --seq 32k --gpus 8 --gpu h100-80g", 2, "h100-80gb"},
    {"--model qwen7b --seq 32k --gpus 8 --cluster h100-sxmm", 2, "h100-sxm"},
    {"--model qwen7b --seq 32k --gpus 8 --framework deepsped", 2, "deepspeed"},
    {"predict --model qwen7b --seq 32k --gpus 8 --framework any", 2, "takes one framework"},
    /* layouts */
    {"predict --model qwen7b --seq 32k --gpus 8 --tp 3 --framework megatron-lm", 2, "rule degrees"},
    {"predict --model qwen7b --seq 32k --gpus 8 --tp 8 --framework megatron-lm", 2, "does not divide 28"},
    {"predict --model qwen7b --seq 32k --gpus 8 --sp 8", 2, "--packing"},
    {"predict --model qwen7b --seq 32k --gpus 8 --sp 16", 2, "illegal layout"},
    /* files */
    {"--model missing.json --seq 32k --gpus 8", 3, "missing.json"},
    {"--model bad.json --seq 32k --gpus 8", 3, "bad.json"},
    {"--model empty.json --seq 32k --gpus 8", 3, "empty.json"},
    {"--model . --seq 32k --gpus 8", 3, "config.json"},
    {"--model qwen7b --seq 32k --gpus 8 --doc-lengths nowhere.txt", 3, "nowhere.txt"},
    {"--model qwen7b --seq 32k --gpus 8 --doc-lengths bad.json", 3, "bad.json:1"},
    {"--model qwen7b --seq 32k --gpus 8 --doc-lengths empty.txt", 3, "no token count"},
    {"accuracy --corpus empty.txt", 3, "there is no run in the file: --corpus"},
    {"--model qwen7b --seq 32k --gpus 8 --config-dir nowhere", 3, "nowhere"},
    {"list models -o missing/folder/x", 3, "there is no folder 'missing/folder'"},
    {"list models -o .", 3, "is a folder"},
    {"list models -o /proc/spplan", 3, "/proc/spplan"},
};

/* "spplan: ", what, where and fix, and nothing after the first line. */
static void expect_form(const char *err) {
  int parts = 0;
  for (const char *at = err; (at = strstr(at, ": ")) != NULL; at += 2)
    parts++;
  expect_true(strncmp(err, "spplan: ", 8) == 0);
  expect_i64(run_count_lines(err), 1);
  expect_true(parts >= 3);
}

static void each_bad_input_has_its_exit_status_and_one_line(void **state) {
  (void)state;
  run_put("bad.json", bad_json);
  run_put("empty.json", "");
  run_put("empty.txt", "\n\n");
  for (size_t i = 0; i < sizeof bads / sizeof bads[0]; i++) {
    struct run run = run_line(bads[i].line, NULL);
    expect_note("spplan %s -> %s", bads[i].line, run.err);
    expect_i64(run.rc, bads[i].rc);
    expect_str(run.out, "");
    expect_form(run.err);
    expect_has(run.err, bads[i].says);
    expect_i64(run_files(), 3);
    run_free(&run);
  }
  expect_note("%s", "");
  run_remove("bad.json");
  run_remove("empty.json");
  run_remove("empty.txt");
}

static void a_bad_input_never_touches_the_output_file(void **state) {
  (void)state;
  run_put("answer.json", "old");
  struct run run = run_line("--model qwen7b --seq 32x --gpus 8 --json -o answer.json", NULL);
  char path[256], *text;
  expect_i64(run.rc, 2);
  snprintf(path, sizeof path, "%s/answer.json", run_folder);
  expect_status(spp_file_read(path, 1000, &text, NULL, NULL), SPP_OK, NULL);
  expect_str(text, "old");
  expect_i64(run_files(), 1);
  free(text);
  run_free(&run);
  run_remove("answer.json");
}

static void a_bad_environment_variable_names_itself(void **state) {
  const char *const settings[] = {"SPPLAN_SEQ=32x", NULL};
  (void)state;
  struct run run = run_line("--model qwen7b --gpus 8", settings);
  expect_i64(run.rc, 2);
  expect_form(run.err);
  expect_has(run.err, "SPPLAN_SEQ");
  run_free(&run);
}

static void a_bad_config_file_is_a_bad_input_file(void **state) {
  static const struct {
    const char *text, *says;
  } cases[] = {
      {"{\"seqq\": 5}", "did you mean \"seq\"?"},
      {"{\"seq\": \"32x\"}", "$.seq"},
      {"{\"seq\": [1]}", "$.seq"},
      {"[1]", "an object"},
      {"{\"seq\": 1} x", "config.json:1"},
      {"{\"output\": \"x\"}", "unknown key"},
  };
  char home[200], xdg[256];
  (void)state;
  snprintf(home, sizeof home, "%s/spplan", run_folder);
  snprintf(xdg, sizeof xdg, "XDG_CONFIG_HOME=%s", run_folder);
  const char *const settings[] = {xdg, NULL};
  expect_i64(mkdir(home, 0700), 0);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    run_put("spplan/config.json", cases[i].text);
    struct run run = run_line("--model qwen7b --gpus 8", settings);
    expect_note("%s -> %s", cases[i].text, run.err);
    expect_i64(run.rc, 3);
    expect_form(run.err);
    expect_has(run.err, cases[i].says);
    run_free(&run);
  }
  expect_note("%s", "");
  run_remove("spplan/config.json");
  rmdir(home);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_bad_input_has_its_exit_status_and_one_line),
      cmocka_unit_test(a_bad_input_never_touches_the_output_file),
      cmocka_unit_test(a_bad_environment_variable_names_itself),
      cmocka_unit_test(a_bad_config_file_is_a_bad_input_file),
  };
  int failed = cmocka_run_group_tests(tests, run_setup, run_teardown);
  return failed != 0;
}
