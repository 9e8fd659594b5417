/* Commands and configurations of the frameworks -> settings and messages. */
#include "interop/import.h"

#include <string.h>

#include "tests/expect.h"

#define CONFIG_DIR SPP_SOURCE_DIR "/configs"
#define DATA       SPP_SOURCE_DIR "/tests/interop/data/"

static struct spp_arena arena;
static const struct spp_import_options options = {.config_dir = CONFIG_DIR};

static int setup(void **state) {
  (void)state;
  spp_arena_init(&arena);
  return 0;
}
static int teardown(void **state) {
  (void)state;
  spp_arena_free(&arena);
  return 0;
}

static const struct spp_imported *import_text(const char *text, const char *name) {
  const struct spp_imported *in = NULL;
  struct spp_diag diag = {0};
  expect_note("%.80s", text);
  expect_status(spp_import_text(text, strlen(text), name, &options, &arena, &in, &diag), SPP_OK, &diag);
  return in;
}

/* "seq=2048 method=lora": each said so; "!zero" is not said at all. */
static void expect_settings(const struct spp_imported *in, const char *settings) {
  char term[128];
  while (*(settings += strspn(settings, " "))) {
    size_t n = strcspn(settings, " ");
    snprintf(term, sizeof term, "%.*s", (int)n, settings);
    settings += n;
    char *equals = strchr(term, '=');
    if (equals) *equals = '\0';
    const struct spp_import_setting *s = spp_imported_find(in, term + (term[0] == '!'));
    if (term[0] == '!' && s)
      expect_fail_at(__FILE__, __LINE__, "%s is %s, expected nothing", s->name, s->value);
    if (term[0] == '!') continue;
    if (!s) expect_fail_at(__FILE__, __LINE__, "%s is not said, expected %s", term, equals ? equals + 1 : "");
    if (equals) expect_str(s->value, equals + 1);
  }
}

static int count_of(const struct spp_imported *in, enum spp_import_said said) {
  int count = 0;
  for (int i = 0; i < in->message_count; i++)
    count += in->messages[i].said == said;
  return count;
}

/* Files quoted from the frameworks' own documentation and examples; the source stands in each. Values are
 * those written there, or the framework's defaults where it says nothing. */
static void published_commands_are_read_right(void **state) {
  static const struct {
    const char *file, *format, *settings;
  } rows[] = {
      {"ms-swift-readme.sh", "ms-swift",
       "model=qwen3-4b seq=2048 method=lora lora-rank=8 lora-dropout=0.05 lora-targets=all dtype=bf16 gpus=1 "
       "micro-batch=1 "
       "global-batch=16 recompute=full zero=0 mode=train !packing"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const struct spp_imported *in = NULL;
    struct spp_diag diag = {0};
    char path[512];
    snprintf(path, sizeof path, DATA "%s", rows[i].file);
    expect_note("%s", rows[i].file);
    expect_status(spp_import_file(path, &options, &arena, &in, &diag), SPP_OK, &diag);
    expect_str(in->format->name, rows[i].format);
    expect_settings(in, rows[i].settings);
    for (int m = 0; m < in->message_count; m++)
      if (in->messages[m].said == SPP_IMPORT_UNKNOWN)
        expect_fail_at(__FILE__, __LINE__, "unknown: %s", in->messages[m].text);
  }
  expect_note("%s", "");
}

static void ms_swift_flags_mean_what_its_source_says(void **state) {
  static const struct {
    const char *text, *settings;
  } rows[] = {
      /* trainers/arguments.py: ceil(16 / 2 / 4) = 2 steps; 2 sequences x 2 x 4 replicas */
      {"NPROC_PER_NODE=4 swift sft --model Qwen/Qwen2.5-7B --per_device_train_batch_size 2",
       "global-batch=16 gpus=4"},
      {"NPROC_PER_NODE=8 NNODES=2 swift sft --model x --per_device_train_batch_size 2 "
       "--sequence_parallel_size 4 "
       "--gradient_accumulation_steps 3",
       "gpus=16 sp=4 global-batch=24"}, /* 2 x 3 x 16 / 4 */
      {"swift sft --train_type full --model x", "method=full !lora-rank"},
      {"swift sft --sft_type lora --lora-rank 64 --model x", "method=lora lora-rank=64"},
      {"swift sft --model x --quant_bits 4 --quant_method bnb", "method=qlora"},
      {"swift sft --model x --deepspeed zero3_offload", "zero=3 offload=optimizer+params"},
      {"swift sft --model x --deepspeed zero2_offload", "zero=2 offload=optimizer"},
      {"swift sft --model x --deepspeed default-zero3", "zero=3"},
      {"swift rlhf --model x", "mode=dpo"},
      {"swift rlhf --rlhf_type grpo --model x --num_generations 16", "mode=grpo completions=16"},
      {"swift pt --model x --tuner_type full", "mode=train method=full"},
      {"swift sft --model x --attn_impl flash_attn", "attention=fa2"},
      {"swift sft --model x",
       "attention=sdpa recompute=full micro-batch=1 gpus=1 zero=0 method=lora lora-rank=8"},
      {"swift sft --model x --gradient_checkpointing false", "recompute=none"},
      {"swift sft --model x --padding_free true", "packing=1"},
      {"swift sft --model x --packing false", "!packing"},
      {"swift sft --model x --packing true --max_length 1000 --packing_length 4000", "seq=4000"},
      {"swift sft --model /mnt/models/Qwen2.5-14B-Instruct/ --max_length 8", "model=qwen2.5-14b"},
      {"swift sft --model x --target_modules q_proj v_proj", "lora-targets=q,v"},
      {"CUDA_VISIBLE_DEVICES=0,1,2 NPROC_PER_NODE=3 swift sft --model x", "gpus=3"},
      {"CELOSS_PARALLEL_SIZE=2048 swift sft --model x --sequence_parallel_size 2",
       "loss=chunked loss-chunk=2048"},
      {"swift sft --model x --optim adamw_bnb_8bit", "optimizer=adamw-8bit"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    expect_settings(import_text(rows[i].text, "f.sh"), rows[i].settings);
  expect_note("%s", "");
}

static void an_unknown_flag_names_its_nearest(void **state) {
  (void)state;
  const struct spp_imported *in = import_text(
      "swift sft --model x \\\n --per-device-train-batch-szie 1 --zzzzzzzzzz 2 --learning_rate 1", "f.sh");
  expect_i64(count_of(in, SPP_IMPORT_UNKNOWN), 2);
  expect_i64(count_of(in, SPP_IMPORT_PASSED), 1);
  expect_str(in->messages[0].nearest, "--per-device-train-batch-size");
  expect_has(in->messages[0].text, "did you mean --per-device-train-batch-size?");
  expect_i64(in->messages[0].line, 2);
  expect_true(in->messages[1].nearest == NULL);
}

static void what_cannot_be_told_is_said(void **state) {
  static const struct {
    const char *text;
    enum spp_import_said said;
    const char *words;
  } rows[] = {
      {"swift sft --model x --use_logits_to_keep true", SPP_IMPORT_UNMODELLED, "logits of the answers only"},
      {"swift sft --model x --deepspeed nowhere.json", SPP_IMPORT_VALUE, "nowhere.json"},
      {"swift sft --model x --tuner_type adalora", SPP_IMPORT_VALUE, "adalora"},
      {"swift sft --model x --max_length $LENGTH", SPP_IMPORT_UNSET, "$LENGTH"},
      {"swift sft --model x \\\n# --packing true \\\n --max_length 8", SPP_IMPORT_NOTE, "line 2"},
      {"swift sft --model x\nswift sft --model y", SPP_IMPORT_NOTE, "line 2 starts another job"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const struct spp_imported *in = import_text(rows[i].text, "f.sh");
    const struct spp_import_message *found = NULL;
    for (int m = 0; m < in->message_count; m++)
      if (in->messages[m].said == rows[i].said) found = &in->messages[m];
    if (!found) expect_fail_at(__FILE__, __LINE__, "nothing is said of %s", rows[i].words);
    expect_has(found->text, rows[i].words);
  }
  expect_note("%s", "");
}

static void what_is_no_framework_s_is_refused(void **state) {
  static const struct {
    const char *name, *text, *what, *where;
  } rows[] = {
      {"f.sh", "", "no framework", "f.sh"},
      {"f.sh", "ls -l", "no framework", "f.sh"},
      {"f.json", "{\"a\":1}", "no framework", "f.json"},
      {"f.json", "{\"a\":1", "", "f.json"},
      {"f.json", "{\"a\":1,\"a\":2}", "", "f.json"},
      {"f.sh", "swift sft --model 'x", "not closed", "f.sh:1"},
      {"f.sh", "swift sft --model x \\\n --sequence_parallel_size four", "", "f.sh:2"},
      {"f.sh", "swift sft --model x --gradient_accumulation_steps 0", "", "f.sh:1"},
#ifdef SPP_HAVE_YAML
      {"f.yaml", "tuner_type: [a", "", "f.yaml:"},
      {"f.yaml", "tuner_type: lora\ntuner_type: full\n", "twice", "f.yaml:2"},
      {"f.yaml", "a: &x 1\ntuner_type: *x\n", "alias", "f.yaml:2"},
      {"f.yaml", "a: 1\n---\nb: 2\n", "document", "f.yaml:"},
      {"f.yaml", "- a\n- b\n", "no framework", "f.yaml"},
#endif
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const struct spp_imported *in = NULL;
    struct spp_diag diag = {0};
    expect_note("%s", rows[i].text);
    expect_i64(
        spp_import_text(rows[i].text, strlen(rows[i].text), rows[i].name, &options, &arena, &in, &diag),
        SPP_ERR_INPUT);
    expect_has(diag.what, rows[i].what);
    expect_has(diag.where, rows[i].where);
    expect_true(diag.what[0] != '\0');
  }
  expect_note("%s", "");
}

/* A tree as deep as the text is long: refused at a depth, not walked to the end. */
static void depth_is_bounded(void **state) {
  enum { DEEP = 20000 };
  static char text[2 * DEEP + 32];
  static const struct {
    const char *name, *open;
  } rows[] = {{"f.json", "{\"a\":"}, {"f.json", "["}, {"f.yaml", "["}, {"f.yaml", "{a: "}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const struct spp_imported *in = NULL;
    struct spp_diag diag = {0};
    size_t n = strlen(rows[i].open), used = 0;
    for (; used + n < sizeof text - 1; used += n)
      memcpy(text + used, rows[i].open, n);
    text[used] = '\0';
    enum spp_status status = spp_import_text(text, used, rows[i].name, &options, &arena, &in, &diag);
    expect_true(status == SPP_ERR_INPUT || status == SPP_ERR_ABSENT);
  }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(published_commands_are_read_right), TEST(ms_swift_flags_mean_what_its_source_says),
      TEST(an_unknown_flag_names_its_nearest), TEST(what_cannot_be_told_is_said),
      TEST(what_is_no_framework_s_is_refused), TEST(depth_is_bounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
