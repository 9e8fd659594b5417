/* The "inputs" of an answer, from the option table. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/idle.h"
#include "cli/imported.h"
#include "cli/setup.h"
#include "model/job.h"

static bool has_capacity(const struct spp_job *job) {
  return job->expert_capacity > 0;
}
static bool has_graphs(const struct spp_job *job) {
  return job->graphs != 0;
}
static bool is_quantised(const struct spp_job *job) {
  return spp_job_quantises(job);
}
static bool has_prompt(const struct spp_job *job) {
  return job->prompt_tokens > 0;
}
static bool has_groups(const struct spp_job *job) {
  return job->mode == SPP_MODE_GRPO;
}

/* Where a resolved job holds what an option would have set. Fields that each framework fills its own way are
 * echoed only when there is one framework, fields of one method or mode only in it. */
enum field_kind { AS_I64, AS_INT, AS_UNSIGNED, AS_REAL, AS_BOOL };
static const struct resolved {
  const char *option;
  enum field_kind kind;
  size_t offset;
  bool by_framework;
  bool (*applies)(const struct spp_job *job); /* NULL = always */
} resolved[] = {
#define FIELD(option, kind, member, by_framework)                                                            \
  { option, kind, offsetof(struct spp_job, member), by_framework, NULL }
#define FIELD_IF(applies, option, kind, member, by_framework)                                                \
  { option, kind, offsetof(struct spp_job, member), by_framework, applies }
    FIELD("seq", AS_I64, seq_tokens, false),
    FIELD("gpus", AS_I64, gpus, false),
    FIELD("global-batch", AS_I64, global_batch, false),
    FIELD("price-per-gpu-hour", AS_REAL, usd_per_gpu_hour, false),
    FIELD("mode", AS_INT, mode, false),
    FIELD("method", AS_INT, method, false),
    FIELD("optimizer", AS_INT, optimizer, false),
    FIELD("dtype", AS_INT, dtype, false),
    FIELD("packing", AS_BOOL, packing, false),
    FIELD("attention", AS_INT, attention, true),
    FIELD("kernels", AS_INT, kernels, true),
    FIELD("ring-impl", AS_INT, ring_impl, true),
    FIELD("ring-order", AS_INT, ring_order, true),
    FIELD_IF(has_capacity, "moe-capacity", AS_REAL, expert_capacity, false),
    FIELD("allocator", AS_INT, allocator, true),
    FIELD_IF(has_graphs, "cuda-graphs", AS_UNSIGNED, graphs, false),
    FIELD("loss", AS_INT, loss, true),
    FIELD("loss-chunk", AS_I64, loss_chunk_tokens, true),
    FIELD_IF(spp_job_has_adapters, "lora-rank", AS_I64, lora_rank, false),
    FIELD_IF(spp_job_has_adapters, "lora-dropout", AS_REAL, lora_dropout, true),
    FIELD_IF(spp_job_has_adapters, "lora-targets", AS_UNSIGNED, lora_targets, false),
    FIELD_IF(is_quantised, "quant", AS_INT, quant, true),
    FIELD_IF(spp_job_has_projected_gradients, "galore-rank", AS_I64, galore_rank, false),
    FIELD_IF(spp_job_has_kv_cache, "kv-dtype", AS_INT, kv_dtype, true),
    FIELD_IF(has_prompt, "prompt", AS_I64, prompt_tokens, false),
    FIELD_IF(has_groups, "completions", AS_I64, grpo_completions, false),
#undef FIELD
#undef FIELD_IF
};

static int64_t field_i64(const void *field, enum field_kind kind) {
  switch (kind) {
  case AS_I64: return *(const int64_t *)field;
  case AS_INT: return *(const int *)field;
  case AS_UNSIGNED: return (int64_t) * (const unsigned *)field;
  case AS_BOOL: return *(const bool *)field;
  case AS_REAL: return SPP_UNSET;
  }
  return SPP_UNSET;
}

/* A whole number as the option would show it: a word, yes or no, or the number; null below 0. */
static struct spp_echo number_echo(const struct spp_option *option, int64_t value) {
  struct spp_echo echo = {.key = option->key, .kind = SPP_ECHO_NULL, .i64 = value};
  if (value < 0) return echo;
  echo.kind = option->type.kind == SPP_KIND_CHOICE ? SPP_ECHO_TEXT
              : option->type.kind == SPP_KIND_FLAG ? SPP_ECHO_BOOL
                                                   : SPP_ECHO_I64;
  if (option->type.kind == SPP_KIND_CHOICE) echo.text = spp_value_word(&option->type, value);
  return echo;
}

static struct spp_echo echo_words(struct spp_cli *cli, const struct spp_option *option, int64_t bits) {
  const char **words = spp_arena_array(&cli->arena, 32, sizeof *words);
  struct spp_echo echo = {.key = option->key, .kind = SPP_ECHO_TEXTS, .texts = words};
  const char *word;
  int value;
  if (!words) return (struct spp_echo){.key = option->key};
  for (int i = 0; i < 32 && (word = option->type.word(i, &value)) != NULL; i++)
    if ((unsigned)value == (unsigned)bits) { /* one word says it all */
      words[0] = word, echo.text_count = 1;
      return echo;
    }
  for (int i = 0; i < 32 && (word = option->type.word(i, &value)) != NULL; i++)
    if ((bits & value) == value && (value & (value - 1)) == 0) words[echo.text_count++] = word;
  return echo;
}

static struct spp_echo echo_resolved(struct spp_cli *cli, const struct spp_option *option,
                                     const struct spp_job *job, bool one_framework) {
  struct spp_echo none = {.key = option->key};
  for (size_t i = 0; job && i < sizeof resolved / sizeof resolved[0]; i++) {
    const struct resolved *row = &resolved[i];
    const void *field = (const char *)job + row->offset;
    if (strcmp(row->option, option->name) != 0 || (row->by_framework && !one_framework) ||
        (row->applies && !row->applies(job)))
      continue;
    if (option->type.kind == SPP_KIND_MASK) return echo_words(cli, option, field_i64(field, row->kind));
    if (row->kind != AS_REAL) return number_echo(option, field_i64(field, row->kind));
    if (*(const double *)field > 0 || row->applies)
      return (struct spp_echo){.key = option->key, .kind = SPP_ECHO_REAL, .real = *(const double *)field};
  }
  return none;
}

static struct spp_echo echo_image(struct spp_cli *cli, const struct spp_option *option) {
  const struct spp_image_size *size = &cli->args.image;
  char *text = spp_arena_printf(&cli->arena, "%lldx%lldx%lld", (long long)size->width,
                                (long long)size->height, (long long)size->count);
  return (struct spp_echo){.key = option->key, .kind = text ? SPP_ECHO_TEXT : SPP_ECHO_NULL, .text = text};
}

static struct spp_echo echo_given(struct spp_cli *cli, const struct spp_option *option) {
  const char *field = (const char *)&cli->args + option->offset;
  struct spp_echo echo = {.key = option->key};
  switch (option->type.kind) {
  case SPP_KIND_SECONDS:
  case SPP_KIND_RATE:
  case SPP_KIND_REAL:
    echo.kind = SPP_ECHO_REAL, echo.real = *(const double *)(const void *)field;
    return echo;
  case SPP_KIND_REALS: {
    const struct spp_reals *list = (const void *)field;
    echo.kind = list->count == 1 ? SPP_ECHO_REAL : SPP_ECHO_REALS;
    echo.real = list->value[0], echo.reals = list->value, echo.text_count = list->count;
    return echo;
  }
  case SPP_KIND_TEXT:
    echo.kind = SPP_ECHO_TEXT, echo.text = *(const char *const *)(const void *)field;
    return echo;
  case SPP_KIND_LIST: {
    const struct spp_texts *list = (const void *)field;
    echo.kind = SPP_ECHO_TEXTS, echo.texts = list->text, echo.text_count = list->count;
    return echo;
  }
  case SPP_KIND_WORDS:
  case SPP_KIND_MASK: return echo_words(cli, option, spp_option_i64(option, &cli->args));
  case SPP_KIND_IMAGE: return echo_image(cli, option);
  default: return number_echo(option, spp_option_i64(option, &cli->args));
  }
}

/* A name as it was found, not as it was typed; but a file by its path, or nobody could ask again. */
static const char *found(const char *typed, const char *name) {
  return typed && strcmp(typed, name) != 0 && spp_path_exists(typed) ? typed : name;
}

static bool echo_name(const struct spp_cli *cli, const struct spp_setup *setup,
                      const struct spp_option *option, struct spp_echo *echo) {
  const struct spp_job_spec *spec = &cli->args.spec;
  *echo = (struct spp_echo){.key = option->key, .kind = SPP_ECHO_TEXT};
  switch (option->source) {
  case SPP_VALUES_MODEL:
    echo->text = spec->arch ? found(cli->args.model, spec->arch->name) : NULL;
    return true;
  case SPP_VALUES_GPU:
    echo->text = spec->gpu ? spec->gpu->name : NULL;
    if (setup->machine_count > 1)
      echo->kind = SPP_ECHO_TEXTS, echo->texts = setup->gpu_names, echo->text_count = setup->machine_count;
    return true;
  case SPP_VALUES_CLUSTER:
    echo->text = spec->cluster ? found(cli->args.cluster, spec->cluster->name) : NULL;
    return true;
  case SPP_VALUES_FRAMEWORK:
    echo->text = setup->any_framework     ? "any"
                 : setup->framework_count ? found(cli->args.framework, setup->frameworks[0]->name)
                                          : NULL;
    return true;
  default: break;
  }
  if (strcmp(option->name, "gpus-per-node") != 0 || !spec->cluster) return false;
  *echo = (struct spp_echo){.key = option->key, .kind = SPP_ECHO_I64, .i64 = spec->cluster->gpus_per_node};
  return true;
}

/* Somebody gave one, or the program has a default of its own (--objective, --search). */
static bool has_value(const struct spp_cli *cli, const struct spp_option *option) {
  return spp_cli_set_by(cli, option->name) != SPP_SET_BY_NOBODY ||
         (option->type.kind == SPP_KIND_CHOICE && spp_option_i64(option, &cli->args) >= 0);
}

enum spp_status spp_setup_idle(struct spp_cli *cli, const struct spp_job *job,
                               const struct spp_layout *layout, struct spp_report *report,
                               struct spp_diag *diag) {
  struct spp_advice *idle = spp_arena_array(&cli->arena, SPP_MAX_ADVICE, sizeof *idle);
  struct spp_advice *assumed = spp_arena_alloc(&cli->arena, sizeof *assumed);
  if (!idle || !assumed) return spp_diag_oom(diag);
  report->assumed_count = spp_imported_defaults(cli, assumed);
  report->assumed = assumed;
  int said = spp_imported_warnings(cli, idle, SPP_MAX_ADVICE);
  report->idle_count = said + spp_idle_options(cli, job, layout, idle + said, SPP_MAX_ADVICE - said);
  report->idle = idle;
  return SPP_OK;
}

static struct spp_failures failures_of(const struct spp_args *args) {
  return (struct spp_failures){
      .gpu_mtbf_s = args->mtbf_s,
      .checkpoint_bytes_per_s =
          args->checkpoint_bytes_per_s > 0 ? args->checkpoint_bytes_per_s : SPP_CHECKPOINT_BYTES_PER_S,
      .restart_s = args->restart_s >= 0 ? args->restart_s : SPP_RESTART_S,
  };
}

enum spp_status spp_setup_report(struct spp_cli *cli, const struct spp_setup *setup,
                                 const struct spp_job *job, bool one_framework, struct spp_report *report,
                                 struct spp_diag *diag) {
  struct spp_echo *inputs = spp_arena_array(&cli->arena, SPP_MAX_OPTIONS, sizeof *inputs);
  int count = 0;
  if (!inputs) return spp_diag_oom(diag);
  for (int i = 0; i < spp_option_count; i++) {
    const struct spp_option *option = &spp_options[i];
    if (!option->key || !(option->commands & (unsigned)cli->command->bit)) continue;
    if (!echo_name(cli, setup, option, &inputs[count]))
      inputs[count] =
          has_value(cli, option) ? echo_given(cli, option) : echo_resolved(cli, option, job, one_framework);
    inputs[count].given = spp_cli_set_by(cli, option->name) != SPP_SET_BY_NOBODY;
    count++;
  }
  *report = (struct spp_report){
      .inputs = inputs,
      .input_count = count,
      .spec = &cli->args.spec,
      .gpu_note = setup->gpu_note,
      .searched_frameworks = setup->any_framework ? setup->framework_count : 0,
      .dataset_tokens = cli->args.dataset_tokens,
      .dataset_samples = cli->args.dataset_samples,
      .failures = failures_of(&cli->args),
  };
  return job ? spp_setup_idle(cli, job, NULL, report, diag) : SPP_OK;
}
