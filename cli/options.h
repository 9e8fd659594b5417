/* The options of the command line: one table from which parsing, help, the man page, completion, environment
 * names, the user's config file and the echo of inputs are derived. To add an option, add a row to
 * cli/option_table.c. */
#ifndef SPP_CLI_OPTIONS_H
#define SPP_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "base/term.h"
#include "model/setting.h"
#include "planner/search.h"
#include "report/report.h"

/* One bit per sub-command; an option row names those it belongs to. */
enum spp_command_bit {
  SPP_CMD_PLAN = 1 << 0,
  SPP_CMD_PREDICT = 1 << 1,
  SPP_CMD_COMPARE = 1 << 2,
  SPP_CMD_SWEEP = 1 << 3,
  SPP_CMD_ALLOC = 1 << 4,
  SPP_CMD_DEGREES = 1 << 5,
  SPP_CMD_LIST = 1 << 6,
  SPP_CMD_HELP = 1 << 7,
  SPP_CMD_ACCURACY = 1 << 8,
  SPP_CMD_TUI = 1 << 9,
  SPP_CMD_VALIDATE = 1 << 10,
  SPP_CMD_REPORT = 1 << 11,
  SPP_CMD_CALIBRATE = 1 << 12,
  SPP_CMD_IMPORT = 1 << 13,
  SPP_CMD_EXPORT = 1 << 14,
  SPP_CMD_DIFF = 1 << 15,
  SPP_CMD_ALL = (1 << 16) - 1
};

/* Kinds of values beside those of model/setting.h:
 *   SPP_KIND_PART   one word that may be left out, which stores type.value; int
 *   SPP_KIND_REALS  real numbers in [real_min, real_max] joined by commas; struct spp_reals
 *   SPP_KIND_SECONDS, SPP_KIND_RATE  10min, 2GB/s; double, negative = not given
 *   SPP_KIND_TEXT   const char *, borrowed from argv, the environment or the arena
 *   SPP_KIND_LIST   text given any number of times; struct spp_texts
 *   SPP_KIND_IMAGE  WxH[xN]; struct spp_image_size */

/* What completion offers for a value that is no fixed word. */
enum spp_value_source {
  SPP_VALUES_NONE,
  SPP_VALUES_FILE,
  SPP_VALUES_FOLDER,
  SPP_VALUES_MODEL,
  SPP_VALUES_GPU,
  SPP_VALUES_CLUSTER,
  SPP_VALUES_FRAMEWORK
};

enum spp_option_group {
  SPP_GROUP_OPT_JOB,
  SPP_GROUP_OPT_HARDWARE,
  SPP_GROUP_OPT_METHOD,
  SPP_GROUP_OPT_DATA,
  SPP_GROUP_OPT_LAYOUT,
  SPP_GROUP_OPT_FRAMEWORK,
  SPP_GROUP_OPT_QUESTION,
  SPP_GROUP_OPT_OUTPUT,
  SPP_GROUP_OPT_COUNT
};

enum { SPP_MAX_TEXTS = 16, SPP_MAX_OPTIONS = 128 };
struct spp_texts {
  int count;
  const char *text[SPP_MAX_TEXTS];
};
struct spp_reals {
  int count;
  double value[SPP_MAX_TEXTS];
};
struct spp_image_size {
  int64_t width, height, count; /* count 0: not given */
};

/* Everything the command line can say; SPP_UNSET (negative, NULL) where it said nothing. */
struct spp_args {
  struct spp_job_spec spec;   /* names are resolved into it later (cli/setup.c) */
  struct spp_request request; /* the layout fields that were fixed */

  const char *model, *gpu, *cluster, *framework, *config_dir, *doc_lengths, *output, *trace, *from,
      *tui_script;
  struct spp_reals prices; /* USD per GPU-hour: one, or one for each type of --gpu */
  int64_t gpus_per_node;
  int64_t rank; /* which plan of --from */
  struct spp_image_size image;
  int64_t dataset_tokens, dataset_samples;
  double mtbf_s, checkpoint_bytes_per_s, restart_s;

  int objective, find, search, explain, color;
  int64_t top, threads;
  double min_fit; /* likelihood to fit below which plans rank last; negative = the default */
  struct spp_texts keep, asserts, vary;
  struct spp_texts corpus; /* accuracy: files of measured runs */
  const char *group;
  int core;
  int64_t worst;
  const char *junit; /* validate */
  int backend, device, suite;
  const char *scale;
  int to; /* export: index of a format */
  int64_t ranks, steps;
  double max_spread; /* calibrate */
  int json, csv, svg, quiet, verbose;
  int ascii, no_mouse; /* tui */
  int help, version, help_man, complete_options;
  const char *complete_values;
};

struct spp_option {
  const char *name; /* long name without dashes */
  char letter;      /* short name, 0 = none */
  struct spp_value_type type;
  const char *arg; /* what the value is called in help; NULL for flags */
  size_t offset;   /* where in struct spp_args */
  enum spp_value_source source;
  unsigned commands; /* SPP_CMD_* */
  enum spp_option_group group;
  const char *key;  /* key under "inputs" in JSON; NULL: not echoed */
  bool layout;      /* a field of the layout: --keep may name it */
  bool no_default;  /* not read from the environment or the config file */
  const char *help; /* one line */
};

extern const struct spp_option spp_options[];
extern const int spp_option_count;
const char *spp_option_group_title(enum spp_option_group group);

/* Row of a long name, or NULL. */
const struct spp_option *spp_option_find(const char *name);
int spp_option_index(const struct spp_option *option);

void spp_args_clear(struct spp_args *args);
/* Parse `text` as the value of `option` and store it; `where` names the place in errors ("--seq",
 * "SPPLAN_SEQ"). */
enum spp_status spp_option_store(const struct spp_option *option, const char *text, const char *where,
                                 struct spp_args *args, struct spp_diag *diag);
/* The value of an option as it could be typed, sizes as people write them (32k); "" for a flag that is set.
 * False when nobody set it, or when it has no text. */
bool spp_option_text(const struct spp_option *option, const struct spp_args *args, char *text, size_t size);
/* The current int or int64 value of an option of any whole-number kind. */
int64_t spp_option_i64(const struct spp_option *option, const struct spp_args *args);

#endif
