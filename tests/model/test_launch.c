#include "tests/model/framework_case.h"

#include "model/launch.h"
#include "model/values.h"

enum { WORDS = 12 };

static const char *command(const struct spp_job *job, const struct spp_layout *layout) {
  static char text[4096];
  struct spp_str out;
  spp_str_init(&out);
  spp_framework_launch(job, layout, &out);
  expect_false(out.failed);
  snprintf(text, sizeof text, "%s", spp_str_text(&out));
  spp_str_free(&out);
  return text;
}

static void changed(struct spp_job *job, struct spp_layout *layout, const char *what) {
  if (strcmp(what, "lora") == 0) {
    job->method = SPP_METHOD_LORA;
    job->lora_rank = 16;
    job->lora_dropout = 0.05;
    job->lora_targets = SPP_LORA_ALL_LINEAR;
  }
  if (strcmp(what, "offload") == 0) layout->offload = SPP_OFFLOAD_OPTIMIZER_PARAMS;
  if (strcmp(what, "chunked") == 0) job->loss = SPP_LOSS_CHOICE_CHUNKED;
  if (strcmp(what, "packing") == 0) job->packing = true;
  if (strcmp(what, "dpo") == 0) job->mode = SPP_MODE_DPO;
  if (strcmp(what, "hybrid") == 0) layout->sp_kind = SPP_SP_HYBRID, layout->ulysses = 2, layout->ring = 2;
  if (strcmp(what, "block") == 0) layout->recompute = SPP_RECOMPUTE_FULL, layout->recompute_layers = 3;
  if (strcmp(what, "selective") == 0)
    layout->recompute = SPP_RECOMPUTE_SELECTIVE, layout->recompute_modules = SPP_RC_CORE_ATTN | SPP_RC_MLP;
}

/* Exact flags, as the parsers of the frameworks spell them; a word that begins with '!' must be absent. */
static const struct {
  const char *framework;
  int64_t gpus, tp, pp, sp;
  const char *what;
  const char *words[WORDS];
} flag_rows[] = {
    {"ms-swift",
     8,
     1,
     1,
     4,
     "",
     {"NPROC_PER_NODE=8 ", " swift sft --model Qwen/Qwen2.5-7B ", " --max_length 32768", " --tuner_type full",
      " --sequence_parallel_size 4", " --deepspeed zero3", " --attn_impl flash_attention_2",
      " --per_device_train_batch_size 1 --gradient_accumulation_steps 4", "!NNODES", "!--packing", "!lora"}},
    {"ms-swift",
     16,
     1,
     1,
     8,
     "packing",
     {"NNODES=2 NODE_RANK=$NODE_RANK", "--packing true", "--sequence_parallel_size 8"}},
    {"ms-swift", 8, 1, 1, 4, "offload", {"--deepspeed zero3_offload", "!--deepspeed zero3 "}},
    {"ms-swift", 8, 1, 1, 4, "chunked", {"CELOSS_PARALLEL_SIZE=2048 "}},
    {"ms-swift", 8, 1, 1, 1, "chunked", {"!CELOSS_PARALLEL_SIZE", "!--sequence_parallel_size"}},
    {"ms-swift",
     8,
     1,
     1,
     4,
     "lora",
     {"--tuner_type lora --lora_rank 16 --lora_dropout 0.05 --target_modules all-linear"}},
    {"ms-swift", 8, 1, 1, 4, "dpo", {" swift rlhf --rlhf_type dpo ", "!swift sft"}},
    {"megatron-lm",
     8,
     2,
     2,
     2,
     "",
     {"--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2", "--sequence-parallel",
      "--context-parallel-size 2", "--cp-comm-type p2p", "--use-distributed-optimizer", "--seq-length 32768",
      "--num-query-groups 4", "--micro-batch-size 1 --global-batch-size 8",
      "--no-create-attention-mask-in-dataloader", "--untie-embeddings-and-output-weights", "--add-qkv-bias"}},
    {"megatron-lm",
     8,
     1,
     1,
     4,
     "hybrid",
     {"--cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2"}},
    {"megatron-lm",
     8,
     1,
     1,
     1,
     "block",
     {"--recompute-granularity full --recompute-method block --recompute-num-layers 3", "!context-parallel"}},
    {"megatron-lm",
     8,
     1,
     1,
     1,
     "selective",
     {"--recompute-granularity selective --recompute-modules core_attn mlp"}},
    {"megatron-swift",
     8,
     2,
     1,
     2,
     "",
     {"megatron sft --model", "--tensor_model_parallel_size 2", "--context_parallel_size 2",
      "--sequence_parallel true", "--use_distributed_optimizer true"}},
    {"deepspeed",
     8,
     1,
     1,
     4,
     "offload",
     {"deepspeed --num_gpus 8", "\"sequence_parallel_size\": 4,", "\"data_parallel_size\": 2,",
      "\"zero_optimization\": {\"stage\": 3", "\"offload_param\": {\"device\": \"cpu\""}},
    {"fsdp2",
     8,
     1,
     1,
     4,
     "",
     {"--parallelism_config_cp_size 4", "--parallelism_config_cp_comm_strategy allgather",
      "--parallelism_config_dp_shard_size 2", "--fsdp_version 2", "--fsdp_reshard_after_forward true",
      "--pad_to_multiple_of 8", "--attn_implementation sdpa"}},
    {"torchtitan",
     8,
     2,
     1,
     2,
     "",
     {"--parallelism.context_parallel_degree 2", "--parallelism.tensor_parallel_degree 2",
      "--parallelism.data_parallel_shard_degree 2", "--training.seq_len 32768"}},
    {"llama-factory",
     8,
     1,
     1,
     2,
     "",
     {"llamafactory-cli sft", "--cutoff_len 32768", "--dist_config.cp_mode ulysses --dist_config.cp_size 2",
      "--dist_config.reshard_after_forward true"}},
    {"axolotl",
     8,
     1,
     1,
     4,
     "",
     {"--context-parallel-size 4", "--ring-attn-func batch_ring", "--sequence-len 32768"}},
    {"verl",
     8,
     1,
     1,
     4,
     "",
     {"engine.ulysses_sequence_parallel_size=4", "data.max_token_len_per_gpu=8192",
      "model.use_remove_padding=True"}},
    {"xtuner", 8, 1, 1, 4, "", {"sp_size=4", "fsdp_config.tp_size=1"}},
    {"vllm",
     8,
     4,
     2,
     1,
     "",
     {"vllm serve Qwen/Qwen2.5-7B --max-model-len 32768 --tensor-parallel-size 4 "
      "--pipeline-parallel-size 2",
      "!--data-parallel-size"}},
    {"spplan", 8, 1, 1, 4, "", {"spplan validate --ranks 8", "--sp-kind ring --ulysses 1 --ring 4"}},
};

static void commands_carry_the_exact_flags(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof flag_rows / sizeof flag_rows[0]; i++) {
    struct spp_cluster cluster = {.gpus_per_node = 8};
    struct spp_job job = case_job(case_arch("qwen2.5-7b"), flag_rows[i].framework, flag_rows[i].gpus, 32768);
    job.cluster = &cluster;
    struct spp_layout layout = case_layout(&job, flag_rows[i].tp, flag_rows[i].pp, flag_rows[i].sp);
    expect_note("%s %s", flag_rows[i].framework, flag_rows[i].what);
    changed(&job, &layout, flag_rows[i].what);
    if (strcmp(flag_rows[i].framework, "ms-swift") == 0 && job.mode == SPP_MODE_TRAIN &&
        flag_rows[i].sp == 4 && !flag_rows[i].what[0])
      expect_i64(layout.grad_accum, 4);
    const char *text = command(&job, &layout);
    for (int w = 0; w < WORDS && flag_rows[i].words[w]; w++) {
      if (flag_rows[i].words[w][0] != '!')
        expect_has(text, flag_rows[i].words[w]);
      else if (strstr(text, flag_rows[i].words[w] + 1))
        expect_fail_at(__FILE__, __LINE__, "\"%s\" has %s", text, flag_rows[i].words[w] + 1);
    }
  }
  expect_note("%s", "");
}

/* A word for each way of sharding, every recompute, kind and offload a framework has: no two layouts that
 * differ in them may give one command. */
static void layouts_that_differ_give_commands_that_differ(void **state) {
  static const char *const frameworks[] = {"ms-swift", "megatron-lm", "megatron-swift",
                                           "fsdp2",    "torchtitan",  "spplan"};
  static char first[4096];
  (void)state;
  for (size_t i = 0; i < sizeof frameworks / sizeof frameworks[0]; i++) {
    struct spp_job job = case_job(case_arch("qwen2.5-7b"), frameworks[i], 8, 32768);
    const struct spp_framework *f = job.framework;
    struct spp_layout base = case_layout(&job, 1, 1, 1);
    for (int zero = 0; zero < 4; zero++)
      for (int recompute = 0; recompute < SPP_RECOMPUTE_COUNT; recompute++) {
        struct spp_layout other = base;
        other.zero = zero;
        other.recompute = (enum spp_recompute)recompute;
        bool same = zero == base.zero && other.recompute == base.recompute;
        if (!f->states[zero].supported || !f->recomputes[recompute]) continue;
        snprintf(first, sizeof first, "%s", command(&job, &base));
        expect_note("%s zero %d recompute %d", frameworks[i], zero, recompute);
        expect_true((strcmp(first, command(&job, &other)) == 0) == same);
      }
  }
  expect_note("%s", "");
}

static void conditions_read_numbers_and_words(void **state) {
  static const struct {
    const char *when;
    bool holds;
  } rows[] = {{"", true},
              {"sp=4", true},
              {"sp!=4", false},
              {"sp>3", true},
              {"sp>4", false},
              {"sp>=4", true},
              {"sp<=4", true},
              {"sp<4", false},
              {"sp>1&zero=3", true},
              {"sp>1&zero=2", false},
              {"sp_kind=ulysses", true},
              {"sp_kind!=ulysses", false},
              {"recompute_layers<0", true},
              {"tp=1&sp_kind=ring", false}};
  static const char *const bad[] = {"sp",        "sp=",   "sp=x",  "sp_kind=rng",    "sp_kind>ring",
                                    "nothing=1", "sp=4&", "sp==4", "lora_dropout=1", "=4"};
  char why[64];
  (void)state;
  struct spp_job job = case_job(case_heads(28, 4), "ms-swift", 8, 4096);
  struct spp_layout layout = case_layout(&job, 1, 1, 4);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    expect_note("%s", rows[i].when);
    expect_true(spp_condition_check(rows[i].when, why, sizeof why));
    expect_true(spp_condition_holds(rows[i].when, &job, &layout) == rows[i].holds);
  }
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    expect_note("%s", bad[i]);
    expect_false(spp_condition_check(bad[i], why, sizeof why));
  }
  expect_note("%s", "");
}

static void templates_expand_names_and_leave_other_braces(void **state) {
  char buf[64], bad[32], tiny[4];
  (void)state;
  struct spp_job job = case_job(case_heads(28, 4), "ms-swift", 8, 4096);
  struct spp_layout layout = case_layout(&job, 1, 1, 4);
  expect_str(spp_template_expand("{\"sp\": {sp}} {} {", &job, &layout, buf, sizeof buf), "{\"sp\": 4} {} {");
  expect_str(spp_template_expand("{sp_kind}-{sp}", &job, &layout, tiny, sizeof tiny), "uly");
  expect_true(spp_template_check("{sp} {} {\"a\"}", bad, sizeof bad));
  expect_false(spp_template_check("x {spp} y", bad, sizeof bad));
  expect_has(bad, "{spp}");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, case_setup, case_teardown)
  const struct CMUnitTest tests[] = {
      TEST(commands_carry_the_exact_flags),
      TEST(layouts_that_differ_give_commands_that_differ),
      TEST(conditions_read_numbers_and_words),
      TEST(templates_expand_names_and_leave_other_braces),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
