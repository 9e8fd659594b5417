/* Options that change nothing say so, in text and JSON; those that contradict another are refused. */
#include "tests/cli/run.h"

#define JOB "--model qwen7b --seq 8k --gpus 8 --gpu h100-80gb "

/* What the warning says; NULL = there is none. */
static const struct {
  const char *line, *says;
} rows[] = {
    {"predict " JOB "--lora-rank 16", "--lora-rank has no effect: only --method lora and qlora"},
    {"predict " JOB "--lora-rank 16 --method lora", NULL},
    {"predict " JOB "--lora-dropout 0.1", "--lora-dropout has no effect"},
    {"predict " JOB "--lora-targets q,v", "--lora-targets has no effect"},
    {"predict " JOB "--quant nf4 --method lora", "--quant has no effect: only --method qlora"},
    {"predict " JOB "--quant nf4 --method qlora", NULL},
    {"predict " JOB "--galore-rank 64", "--galore-rank has no effect"},
    {"predict " JOB "--kv-dtype fp8", "--kv-dtype has no effect: training keeps no KV cache"},
    {"predict --framework vllm --mode infer " JOB "--kv-dtype fp8 --tp 4", NULL},
    {"predict --framework vllm --mode infer " JOB "--optimizer muon --tp 4", "--optimizer has no effect"},
    {"predict " JOB "--prompt 1k", "--prompt has no effect: only --mode infer"},
    {"predict --framework hf-generate --mode infer " JOB "--prompt 1k", NULL},
    {"predict --framework hf-generate --mode infer " JOB "--quant nf4", NULL},
    {"predict " JOB "--completions 8", "--completions has no effect: only --mode grpo"},
    {"predict " JOB "--mode grpo --completions 8", NULL},
    {"predict --framework megatron-lm " JOB "--tp 2 --etp 2",
     "--etp has no effect: the model has no experts"},
    {"predict " JOB "--max-memory 200GiB", "--max-memory has no effect: the GPU has no more"},
    {"predict " JOB "--max-memory 70GiB", NULL},
    {"predict " JOB "--train-vision", "--train-vision has no effect: the model has no vision tower"},
    {"predict " JOB "--freeze-vision", "--freeze-vision has no effect"},
    {"predict " JOB "--ring-impl te", "--ring-impl has no effect: this layout runs no ring"},
    {"predict " JOB "--packing --sp 8 --ring-impl te", NULL},
    {"predict " JOB "--loss-chunk 512", "--loss-chunk has no effect"},
    {"predict --model qwen7b --seq 32k --gpus 8 --gpu h100-80gb --sp 4 --loss chunked --loss-chunk 4096",
     NULL},
    {"predict " JOB "--recompute full --recompute-modules mlp", "--recompute-modules has no effect"},
    {"predict " JOB "--recompute none --recompute-layers 2", "--recompute-layers has no effect"},
    {"predict " JOB "--recompute-layers 2", NULL},
    {"predict " JOB "--schedule interleaved", "--schedule has no effect: one pipeline stage"},
    {"predict --framework fsdp2 " JOB "--zero 0 --dp-replicate 2", "--dp-replicate has no effect"},
    {"predict --framework fsdp2 " JOB "--zero 3 --dp-replicate 2", NULL},
    {"predict " JOB "--zero 0 --bucket-elements 1000", "--bucket-elements has no effect"},
    {"predict " JOB "--bucket-elements 1000", NULL},
    {"predict " JOB "--sp-kind ring", "--sp-kind has no effect: no sequence is split"},
    {"predict " JOB "--sp-kind none", NULL},
    {"predict " JOB "--sp-kind ulysses --sp 4", NULL},
    {"predict --framework megatron-lm " JOB "--megatron-sp", "--megatron-sp has no effect: one tensor"},
    {"predict --framework megatron-lm " JOB "--no-megatron-sp", "--no-megatron-sp has no effect: one tensor"},
    {"predict --framework megatron-lm " JOB "--megatron-sp --tp 2", NULL},
    {"predict " JOB "--train-embeddings", "--train-embeddings has no effect: without adapters"},
    {"predict " JOB "--method lora --train-embeddings", NULL},
    {"predict " JOB "--restart-time 5min", "--restart-time has no effect: without --mtbf"},
    {"predict " JOB "--checkpoint-rate 2GB/s", "--checkpoint-rate has no effect: without --mtbf"},
    {"predict " JOB "--checkpoint-rate 2GB/s --restart-time 5min --mtbf 50000h", NULL},
    {"predict " JOB "--dataset-samples 1000 --dataset-tokens 1b", "--dataset-samples has no effect"},
    {"predict " JOB "--dataset-samples 1000", NULL},
    {"predict " JOB "--no-overlap", NULL},
    {"predict --model qwen2.5-0.5b --seq 1k --gpus 1 --gpu h100-80gb --no-overlap",
     "--no-overlap has no effect"},
    {"plan " JOB "--lora-rank 16", "--lora-rank has no effect"},
    {"plan " JOB "--ring-impl te", NULL}, /* the search may meet a ring */
    {"compare " JOB "--lora-rank 16", "--lora-rank has no effect"},
    {"degrees --model qwen7b --lora-rank 16", "--lora-rank has no effect"},
    {"alloc 40MiB " JOB "--ring-impl te", "--ring-impl has no effect"},
};

static void an_option_without_effect_says_so(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char line[256];
    snprintf(line, sizeof line, "%s --json", rows[i].line);
    struct run run = run_line(rows[i].line, NULL), json = run_line(line, NULL);
    expect_note("%s", rows[i].line);
    char *text = run.out;
    for (char *c = text; (c = strchr(c, '\n')) != NULL;) /* lines are wrapped between words */
      *c = ' ';
    expect_true((strstr(text, "has no effect") != NULL) == (rows[i].says != NULL));
    expect_true((strstr(json.out, "\"no-effect\"") != NULL) == (rows[i].says != NULL));
    if (rows[i].says) expect_has(text, rows[i].says);
    if (rows[i].says) expect_has(json.out, rows[i].says);
    run_free(&json);
    run_free(&run);
  }
}

/* A default for many jobs is no mistake in this one. */
static void defaults_of_the_environment_are_not_blamed(void **state) {
  (void)state;
  const char *const settings[] = {"SPPLAN_LORA_RANK=16", NULL};
  struct run run = run_line("predict " JOB, settings);
  expect_i64(run.rc, 0);
  expect_true(strstr(run.out, "has no effect") == NULL);
  run_free(&run);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_option_without_effect_says_so),
      cmocka_unit_test(defaults_of_the_environment_are_not_blamed),
  };
  return cmocka_run_group_tests(tests, run_setup, run_teardown) != 0;
}
