/* import(export(job)) = job: for every format, over random layouts of random jobs. */
#include <inttypes.h>

#include "interop/export.h"
#include "interop/import.h"
#include "tests/planner/jobs.h"
#include "tests/planner/random.h"

enum { JOBS = 300 };

/* What a framework has no flag for: said in a comment, and to be lost with its leave. */
static const char cannot_say[] =
    "kernels ring-impl ring-order loss loss-path overlap grads-dtype bucket-elements "
    "train-embeddings moe-capacity kv-dtype quant train-vision";
static const struct {
  const char *format, *names;
} cannot_say_either[] = {
    {"deepspeed", "mode packing lora-dropout lora-targets"}, /* the script's own arguments */
    {"megatron-lm", "packing"},                              /* what the data set does */
    {"torchtitan", "packing"},
    {"megatron-swift", "offload"}, /* no --cpu_offloading there */
    /* sequence parallelism is of its v1, which shards with FSDP2 alone: ZeRO-2 or 3, bf16, AdamW */
    {"llama-factory", "dtype zero offload method galore-rank optimizer"},
    {"verl", "mode packing lora-dropout lora-targets"},
};
/* trl 1.16.0 trl/trainer/grpo_config.py has none of SFTConfig's activation_offloading. */
static bool may_lose(const char *format, const struct spp_job *job, const char *name) {
  bool samples = job->mode == SPP_MODE_GRPO && strcmp(job->framework->name, "fsdp2") == 0;
  if (samples && strcmp(name, "offload") == 0) return true;
  for (size_t i = 0; i < sizeof cannot_say_either / sizeof cannot_say_either[0]; i++)
    if (strcmp(cannot_say_either[i].format, format) == 0 && spp_names_have(cannot_say_either[i].names, name))
      return true;
  return spp_names_have(cannot_say, name);
}

static int pick_allowed(const bool *allowed, int count) {
  for (;;) {
    int i = (int)(next_random() % (uint64_t)count);
    if (allowed[i]) return i;
  }
}

static void random_job(const struct spp_framework *f, struct spp_job_spec *spec,
                       struct spp_request *request) {
  static const char *const models[] = {"qwen2.5-7b", "llama3.1-8b", "qwen3-30b-a3b", "llama3-70b"};
  static const int64_t gpus[] = {1, 2, 4, 8, 16, 32}, lengths[] = {4096, 8192, 32768, 131072},
                       small[] = {1, 2, 4, 8};
  jobs_spec(models[next_random() % 4], "h100-80gb", pick(gpus, 6), pick(lengths, 4), spec);
  spec->global_batch = pick(gpus, 6) * spec->gpus;
  spec->method = pick_allowed(f->methods, SPP_METHOD_COUNT);
  const int64_t preferred = next_random() % 4;
  spec->mode = SPP_MODE_TRAIN;
  if (f->modes[SPP_MODE_DPO] && preferred == 0) spec->mode = SPP_MODE_DPO;
  if (f->modes[SPP_MODE_GRPO] && preferred == 1) {
    spec->mode = SPP_MODE_GRPO;
    spec->grpo_completions = pick(small, 4);
    spec->global_batch *= spec->grpo_completions; /* whole groups */
  }
  spec->dtype = next_random() % 4 == 0 && f->dtypes[SPP_DTYPE_FP16] ? SPP_DTYPE_FP16 : SPP_DTYPE_BF16;
  spec->packing = next_random() % 2 == 0 && spec->mode != SPP_MODE_GRPO; /* samples are not packed */
  if (spec->method == SPP_METHOD_LORA || spec->method == SPP_METHOD_QLORA) {
    spec->lora_rank = pick(small, 4) * 8;
    spec->lora_targets = next_random() % 2 ? SPP_LORA_ALL_LINEAR : SPP_LORA_Q | SPP_LORA_V;
    spec->lora_dropout = next_random() % 2 ? 0.05 : 0.1;
  }
  if (next_random() % 2) spec->allocator = SPP_ALLOCATOR_EXPANDABLE;
  for (int bit = 0; bit < SPP_GRAPH_COUNT; bit++)
    if (f->graphs[bit] && next_random() % 2) spec->graphs |= 1u << bit;
  spp_request_clear(request);
  request->zero = (int)(next_random() % 4);
  request->sp = pick(small, 4);
  request->recompute = pick_allowed(f->recomputes, SPP_RECOMPUTE_COUNT);
  request->offload = next_random() % 2 ? SPP_OFFLOAD_NONE : pick_allowed(f->offloads, SPP_OFFLOAD_COUNT);
  request->micro_batch = pick(small, 3);
  if (f->tp) request->tp = pick(small, 3);
  if (f->pp) request->pp = pick(small, 3);
  if (f->ep && spec->arch->experts > 0) request->ep = pick(small, 3);
}

static void check(const struct spp_format *format, const struct spp_job *job, const struct spp_layout *layout,
                  struct spp_arena *arena) {
  const struct spp_exported *exported = NULL;
  struct spp_diag diag = {0};
  char words[256];
  expect_note("%s: %s, %" PRId64 " tokens, %" PRId64 " GPUs, %s, %s", format->name, job->arch->name,
              job->seq_tokens, job->gpus, spp_method_name(job->method),
              spp_layout_describe(job, layout, words, sizeof words));
  expect_status(spp_export(format, JOBS_CONFIG_DIR, job, layout, arena, &exported, &diag), SPP_OK, &diag);
  for (int i = 0; i < exported->lost_count; i++) {
    const struct spp_export_lost *lost = &exported->lost[i];
    if (!may_lose(format->name, job, lost->name))
      expect_fail_at(__FILE__, __LINE__, "%s: %s %s is read back as %s from\n%s", format->name, lost->name,
                     lost->value, lost->read_back, exported->files[0].text);
    expect_has(exported->files[0].text, lost->name);
  }
}

static void every_format_gives_the_job_back(void **state) {
  (void)state;
  for (int i = 0; i < spp_format_count; i++) {
    const struct spp_framework *framework = jobs_framework(spp_formats[i]->framework);
    int legal = 0;
    random_state = 20261130;
    for (int n = 0; n < JOBS; n++) {
      struct spp_job_spec spec;
      struct spp_request request;
      struct spp_layout layout;
      struct spp_arena arena;
      struct spp_job job;
      random_job(framework, &spec, &request);
      if (spp_job_resolve(&spec, framework, &job, NULL) != SPP_OK ||
          spp_layout_complete(&job, &request, &layout, NULL) != SPP_OK ||
          spp_rules_check(&job, &layout, NULL, 0) > 0)
        continue;
      spp_arena_init(&arena);
      check(spp_formats[i], &job, &layout, &arena);
      spp_arena_free(&arena);
      legal++;
    }
    expect_note("%s: %d legal jobs", spp_formats[i]->name, legal);
    expect_true(legal >= 10);
  }
  expect_note("%s", "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(every_format_gives_the_job_back, jobs_setup, jobs_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
