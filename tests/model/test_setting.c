#include "tests/expect.h"

#include "cli/options.h"
#include "model/setting.h"

/* Text that each kind of value takes. */
static const char *sample(const struct spp_value_type *type) {
  int value;
  switch (type->kind) {
  case SPP_KIND_FLAG: return "true";
  case SPP_KIND_CHOICE:
  case SPP_KIND_WORDS:
  case SPP_KIND_MASK: return type->word(1, &value);
  case SPP_KIND_INT:
  case SPP_KIND_COUNT: return "2";
  case SPP_KIND_TOKENS: return "64k";
  case SPP_KIND_BYTES: return "70GiB";
  default: return "0.5";
  }
}

static void a_setting_means_the_same_on_the_command_line_and_in_a_file(void **state) {
  (void)state;
  for (int i = 0; i < spp_setting_count(); i++) {
    const char *name = spp_setting_name(i);
    const struct spp_option *option = spp_option_find(name);
    struct spp_args args;
    struct spp_job_spec spec;
    struct spp_request request;
    struct spp_diag diag = {0};
    char underscored[64];
    expect_note("%s", name);
    assert_non_null(option);
    spp_args_clear(&args);
    expect_status(spp_option_store(option, sample(&option->type), name, &args, &diag), SPP_OK, &diag);
    snprintf(underscored, sizeof underscored, "%s", name);
    for (char *c = underscored; *c; c++)
      if (*c == '-') *c = '_';
    const char *const names[] = {name, underscored, option->key ? option->key : name};
    for (int n = 0; n < 3; n++) {
      spp_job_spec_clear(&spec);
      spp_request_clear(&request);
      expect_status(spp_setting_apply(names[n], sample(&option->type), &spec, &request, &diag), SPP_OK,
                    &diag);
      expect_true(memcmp(&spec, &args.spec, sizeof spec) == 0);
      expect_true(memcmp(&request, &args.request, sizeof request) == 0);
    }
  }
}

static void values_are_read_by_their_kind(void **state) {
  static const struct {
    const char *name, *text;
    size_t offset; /* of an int64_t in the spec */
    int64_t value;
  } cases[] = {{"seq", "32k", offsetof(struct spp_job_spec, seq_tokens), 32768},
               {"seq_tokens", "1m", offsetof(struct spp_job_spec, seq_tokens), 1048576},
               {"max-memory", "80GB", offsetof(struct spp_job_spec, max_memory_bytes), INT64_C(80000000000)},
               {"loss_chunk_tokens", "2k", offsetof(struct spp_job_spec, loss_chunk_tokens), 2048}};
  struct spp_job_spec spec;
  struct spp_request request;
  struct spp_diag diag = {0};
  (void)state;
  spp_job_spec_clear(&spec);
  spp_request_clear(&request);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    expect_note("%s=%s", cases[i].name, cases[i].text);
    expect_status(spp_setting_apply(cases[i].name, cases[i].text, &spec, &request, &diag), SPP_OK, &diag);
    expect_i64(*(const int64_t *)(const void *)((const char *)&spec + cases[i].offset), cases[i].value);
  }
  expect_status(spp_setting_apply("lora_targets", "q+v", &spec, &request, &diag), SPP_OK, &diag);
  expect_i64(spec.lora_targets, SPP_LORA_Q | SPP_LORA_V);
  expect_status(spp_setting_apply("lora_targets", "all-linear", &spec, &request, &diag), SPP_OK, &diag);
  expect_i64(spec.lora_targets, SPP_LORA_ALL_LINEAR);
  expect_status(spp_setting_apply("no-overlap", "true", &spec, &request, &diag), SPP_OK, &diag);
  expect_i64(spec.overlap, 0);
  expect_status(spp_setting_apply("grads_dtype", "fp32", &spec, &request, &diag), SPP_OK, &diag);
  expect_i64(spec.grads_bytes, 4);
  expect_status(spp_setting_apply("loss", "hf-shifted", &spec, &request, &diag), SPP_OK, &diag);
  expect_i64(spec.loss, (int)SPP_LOSS_CHOICE_COUNT + (int)SPP_LOSS_HF_SHIFTED);
  expect_status(spp_setting_apply("zero", "3", &spec, &request, &diag), SPP_OK, &diag);
  expect_i64(request.zero, 3);
}

static void what_will_not_do_is_refused_with_the_choices(void **state) {
  static const struct {
    const char *name, *text, *says;
  } cases[] = {{"seqq", "1", "seq"},
               {"recompute", "ful", "did you mean full"},
               {"zero", "4", "maximum of 3"},
               {"overlap", "maybe", "use 1 or 0"},
               {"lora_targets", "q,x", "up"},
               {"max_memory", "80G", "GiB"},
               {"tp", "0", "1"},
               {"micro_batch", "2x", "2x"}};
  struct spp_job_spec spec;
  struct spp_request request;
  (void)state;
  spp_job_spec_clear(&spec);
  spp_request_clear(&request);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct spp_diag diag = {0};
    char text[1100];
    expect_note("%s=%s", cases[i].name, cases[i].text);
    expect_status(spp_setting_apply(cases[i].name, cases[i].text, &spec, &request, &diag), SPP_ERR_USAGE,
                  NULL);
    expect_has(spp_diag_format(&diag, text, sizeof text), cases[i].says);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_setting_means_the_same_on_the_command_line_and_in_a_file),
      cmocka_unit_test(values_are_read_by_their_kind),
      cmocka_unit_test(what_will_not_do_is_refused_with_the_choices),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
