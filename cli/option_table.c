/* The option table. Words of an enum come from the function that names it, so a new enum value needs nothing
 * here. */
#include <string.h>

#include "cli/options.h"
#include "exec/suite.h"
#include "exec/validate.h"
#include "interop/format.h"
#include "model/setting_list.h"
#include "planner/search.h"

#define WORDS_OF(function, type, name_of, count)                                                             \
  static const char *function(int i, int *value) {                                                           \
    *value = i;                                                                                              \
    return i < (int)(count) ? name_of((enum type)i) : NULL;                                                  \
  }
WORDS_OF(objective_word, spp_objective, spp_objective_name, SPP_OBJECTIVE_COUNT)

struct word {
  const char *name;
  int value;
};
#define WORDS_IN(function, table)                                                                            \
  static const char *function(int i, int *value) {                                                           \
    if (i >= (int)(sizeof(table) / sizeof((table)[0]))) return NULL;                                         \
    *value = (table)[i].value;                                                                               \
    return (table)[i].name;                                                                                  \
  }
static const struct word finds[] = {{"max-seq", SPP_FIND_MAX_SEQ},
                                    {"min-gpus", SPP_FIND_MIN_GPUS},
                                    {"max-batch", SPP_FIND_MAX_BATCH},
                                    {"pareto", SPP_FIND_PARETO}};
WORDS_IN(find_word, finds)
static const struct word searches[] = {{"pruned", 0}, {"exhaustive", 1}};
WORDS_IN(search_word, searches)
static const struct word parts[] = {{"all", SPP_EXPLAIN_ALL},     {"memory", SPP_EXPLAIN_MEMORY},
                                    {"comm", SPP_EXPLAIN_COMM},   {"time", SPP_EXPLAIN_TIME},
                                    {"layer", SPP_EXPLAIN_LAYER}, {"sensitivity", SPP_EXPLAIN_SENSITIVITY}};
WORDS_IN(explain_word, parts)
static const struct word colors[] = {
    {"auto", SPP_COLOR_AUTO}, {"always", SPP_COLOR_ALWAYS}, {"never", SPP_COLOR_NEVER}};
WORDS_IN(color_word, colors)

static const char *backend_word(int i, int *value) {
  int count;
  const struct spp_backend *const *all = spp_backends_all(&count);
  *value = i;
  return i < count ? all[i]->name : NULL;
}
/* The processor, then the rows of kernels/device.h. */
static const char *device_word(int i, int *value) {
  int count;
  const struct spp_device *const *all = spp_devices_all(&count);
  *value = i;
  if (i == 0) return "cpu";
  return i <= count ? all[i - 1]->name : NULL;
}
static const char *suite_word(int i, int *value) {
  *value = i;
  return spp_suite_name((enum spp_suite)i);
}

static const char *format_word(int i, int *value) {
  *value = i;
  return spp_format_name(i);
}

/* Which commands take which block of options. */
#define SEARCHING (SPP_CMD_PLAN | SPP_CMD_COMPARE | SPP_CMD_SWEEP | SPP_CMD_TUI | SPP_CMD_REPORT)
#define ONE_JOB                                                                                              \
  (SPP_CMD_PREDICT | SPP_CMD_ALLOC | SPP_CMD_IMPORT | SPP_CMD_EXPORT | SPP_CMD_DIFF) /* one layout of it */
#define LAID_OUT  (SEARCHING | ONE_JOB)
#define RUNNABLE  (LAID_OUT | SPP_CMD_VALIDATE) /* what the engine can be told, too */
#define MODELLED  (LAID_OUT | SPP_CMD_DEGREES)
#define NUMBERED  (MODELLED | SPP_CMD_VALIDATE)
#define RANKED    (SPP_CMD_VALIDATE | SPP_CMD_CALIBRATE) /* runs on ranks here */
#define PAGES     (SPP_CMD_TUI | SPP_CMD_REPORT)         /* no text, JSON or CSV */
#define ANSWERING ((MODELLED & ~PAGES) | SPP_CMD_LIST | SPP_CMD_ACCURACY | RANKED)

/* A run of many steps: what an epoch and failures make of it. */
#define RUNS_ON (SPP_CMD_PLAN | SPP_CMD_PREDICT | SPP_CMD_IMPORT | SPP_CMD_SWEEP | SPP_CMD_COMPARE)

#define AT(field) .offset = offsetof(struct spp_args, field)
#define JOB       .commands = MODELLED, .group = SPP_GROUP_OPT_JOB
#define HARDWARE  .commands = MODELLED, .group = SPP_GROUP_OPT_HARDWARE
#define DATA      .commands = LAID_OUT, .group = SPP_GROUP_OPT_DATA
#define QUESTION  .no_default = true, .group = SPP_GROUP_OPT_QUESTION
#define OUTPUT    .group = SPP_GROUP_OPT_OUTPUT
#define TEXT      .type.kind = SPP_KIND_TEXT
#define LIST      .type.kind = SPP_KIND_LIST

/* A row of model/setting_list.h. */
#define SETTING(group_, name_, letter_, kind_, arg_, holder, field, scope, key_, help_)                      \
  {                                                                                                          \
    .name = name_, .letter = letter_, kind_, .arg = arg_, AT(holder.field), .commands = scope,               \
    .group = SPP_GROUP_OPT_##group_, .layout = SPP_GROUP_OPT_##group_ == SPP_GROUP_OPT_LAYOUT, .key = key_,  \
    .help = help_                                                                                            \
  }

const struct spp_option spp_options[] = {
    {"model", 'm', TEXT, .arg = "NAME", AT(model), .commands = MODELLED | SPP_CMD_VALIDATE,
     .group = SPP_GROUP_OPT_JOB, .source = SPP_VALUES_MODEL, .key = "model",
     .help = "a known model, a Hugging Face config.json, or a folder that holds one"},
    SPP_SETTINGS_JOB(SETTING),
    {"from", 0, TEXT, .arg = "FILE", AT(from), .commands = MODELLED & ~(SPP_CMD_IMPORT | SPP_CMD_DIFF),
     .group = SPP_GROUP_OPT_JOB, .no_default = true, .source = SPP_VALUES_FILE,
     .help = "the job of a saved answer (plan --json, predict --json) or of a framework's command or "
             "configuration; options beside it override it"},
    {"rank", 0, SPP_COUNT(1, 1000), .arg = "K", AT(rank),
     .commands = SPP_CMD_PREDICT | SPP_CMD_ALLOC | SPP_CMD_EXPORT, .group = SPP_GROUP_OPT_JOB,
     .no_default = true, .help = "with --from: the layout of its plan number K (default: 1, the best)"},
    {"gpu", 0, TEXT, .arg = "NAME", AT(gpu), HARDWARE, .source = SPP_VALUES_GPU, .key = "gpu",
     .help = "GPU type (default: the one in this machine, else h100-80gb); plan: several, joined by commas"},
    {"gpus-per-node", 0, SPP_COUNT(1, 1024), .arg = "N", AT(gpus_per_node), HARDWARE, .key = "gpus_per_node",
     .help = "GPUs that share a node (default: the cluster's)"},
    {"cluster", 0, TEXT, .arg = "NAME", AT(cluster), .commands = MODELLED | SPP_CMD_VALIDATE,
     .group = SPP_GROUP_OPT_HARDWARE, .source = SPP_VALUES_CLUSTER, .key = "cluster",
     .help = "node and network: a known name or a JSON file (default: the GPU's usual node)"},
    SPP_SETTINGS_HARDWARE(SETTING),
    {"price-per-gpu-hour", 0, .type.kind = SPP_KIND_REALS, .type.real_max = 1e6, .arg = "USD", AT(prices),
     .commands = LAID_OUT, .group = SPP_GROUP_OPT_HARDWARE, .key = "usd_per_gpu_hour",
     .help =
         "what one GPU costs an hour (default: a list price); one for each type of --gpu, or one for all"},
    {"mtbf", 0, .type.kind = SPP_KIND_SECONDS, .type.real_min = 1, .type.real_max = 1e12, .arg = "TIME",
     AT(mtbf_s), .commands = RUNS_ON, .group = SPP_GROUP_OPT_HARDWARE, .key = "mtbf_s",
     .help =
         "mean time between failures of one GPU, such as 50000h: expected goodput and checkpoint interval"},
    {"checkpoint-rate", 0, .type.kind = SPP_KIND_RATE, .type.real_min = 1e3, .type.real_max = 1e15,
     .arg = "RATE", AT(checkpoint_bytes_per_s), .commands = RUNS_ON, .group = SPP_GROUP_OPT_HARDWARE,
     .key = "checkpoint_bytes_per_s",
     .help = "what one node writes of a checkpoint, such as 2GB/s (default: 1GB/s)"},
    {"restart-time", 0, .type.kind = SPP_KIND_SECONDS, .type.real_max = 1e9, .arg = "TIME", AT(restart_s),
     .commands = RUNS_ON, .group = SPP_GROUP_OPT_HARDWARE, .key = "restart_s",
     .help = "from a failure to the reading of the checkpoint (default: 10min)"},
    {"framework", 'f', TEXT, .arg = "NAME", AT(framework), JOB, .source = SPP_VALUES_FRAMEWORK,
     .key = "framework",
     .help = "training framework, or any (default: any for plan and compare, else ms-swift)"},
    SPP_SETTINGS_METHOD(SETTING),
    SPP_SETTINGS_PACKING(SETTING),
    {"doc-lengths", 0, TEXT, .arg = "FILE", AT(doc_lengths), .commands = RUNNABLE,
     .group = SPP_GROUP_OPT_DATA, .source = SPP_VALUES_FILE, .key = "doc_lengths",
     .help = "token counts of the packed documents, one a line (- = standard input)"},
    {"image", 0, .type.kind = SPP_KIND_IMAGE, .arg = "WxH[xN]", AT(image), DATA, .key = "image",
     .help = "N images of this size in each sequence (vision models)"},
    SPP_SETTINGS_VISION(SETTING),
    {"dataset-tokens", 0, SPP_TOKENS(INT64_C(1) << 50), .arg = "TOKENS", AT(dataset_tokens),
     .commands = RUNS_ON, .group = SPP_GROUP_OPT_DATA, .key = "dataset_tokens",
     .help = "tokens of the data set, as 10b: the time of one epoch is printed"},
    {"dataset-samples", 0, SPP_COUNT(1, INT64_C(1) << 50), .arg = "N", AT(dataset_samples),
     .commands = RUNS_ON, .group = SPP_GROUP_OPT_DATA, .key = "dataset_samples",
     .help = "the same, in sequences"},
    SPP_SETTINGS_LAYOUT(SETTING),
    SPP_SETTINGS_CHOICES(SETTING),
    {"objective", 0, SPP_CHOICE(objective_word), .arg = "WHAT", AT(objective), .commands = SEARCHING,
     .group = SPP_GROUP_OPT_QUESTION, .key = "objective", .help = "what is best (default: throughput)"},
    {"find", 0, SPP_CHOICE(find_word), .arg = "WHAT", AT(find), QUESTION, .commands = SPP_CMD_PLAN,
     .key = "find",
     .help = "answer another question: the longest sequence, the fewest GPUs, the largest batch, or every "
             "trade of step time, memory, GPUs (up to --gpus) and cost"},
    {"min-fit", 0, SPP_REAL(0, 0.999), .arg = "P", AT(min_fit), .commands = SEARCHING,
     .group = SPP_GROUP_OPT_QUESTION, .key = "min_fit_probability",
     .help = "plans less likely than this to fit rank behind the others (default: 0.8; 0 = rank all alike)"},
    {"top", 'k', SPP_COUNT(1, 1000), .arg = "K", AT(top),
     .commands = SPP_CMD_PLAN | SPP_CMD_ALLOC | SPP_CMD_TUI | SPP_CMD_REPORT, .group = SPP_GROUP_OPT_QUESTION,
     .key = "top", .help = "how many answers (default: 3 plans, 40 in the tui, 10 tensors)"},
    {"keep", 0, LIST, .arg = "FIELD=VALUE", AT(keep), QUESTION, .commands = SEARCHING, .key = "keep",
     .help = "fix one field of the layout: --keep tp=2 is --tp 2"},
    {"vary", 0, LIST, .arg = "OPTION=RANGE", AT(vary), QUESTION, .commands = SPP_CMD_SWEEP, .key = "vary",
     .help = "seq=4k:1m:x2, tp=1,2,4, gpus=8:64:+8; twice for two variables"},
    {"search", 0, SPP_CHOICE(search_word), .arg = "HOW", AT(search), .commands = SEARCHING,
     .group = SPP_GROUP_OPT_QUESTION, .key = "search",
     .help = "exhaustive evaluates every layout: same answer, slower"},
    {"threads", 0, SPP_COUNT(1, 1024), .arg = "N", AT(threads), .commands = SEARCHING,
     .group = SPP_GROUP_OPT_QUESTION, .key = "threads", .help = "threads of the search (default: all cores)"},
    {"explain", 0, .type.kind = SPP_KIND_PART, .type.word = explain_word, .type.value = SPP_EXPLAIN_ALL,
     .arg = "PART", AT(explain), QUESTION, .commands = SPP_CMD_PLAN | SPP_CMD_PREDICT | SPP_CMD_IMPORT,
     .help = "the ledger behind the answer, tensor by tensor, op by op; or what one thing more would change"},
    {"assert", 0, LIST, .arg = "EXPR", AT(asserts), QUESTION, .commands = MODELLED & ~PAGES,
     .help = "exit 5 unless true of the JSON: 'memory.peak_bytes<70GiB', 'time.step_s<=2'"},
    {"to", 0, SPP_CHOICE(format_word), .arg = "FORMAT", AT(to), QUESTION, .commands = SPP_CMD_EXPORT,
     .key = "to", .help = "whose command and configuration to write ('spplan list exporters')"},
    {"corpus", 0, LIST, .arg = "FILE", AT(corpus), QUESTION, .commands = SPP_CMD_ACCURACY,
     .source = SPP_VALUES_FILE, .key = "corpus",
     .help = "measured runs, one JSON object a line (default: those shipped)"},
    {"core", 0, SPP_FLAG(1), AT(core), QUESTION, .commands = SPP_CMD_ACCURACY, .key = "core",
     .help = "only the runs whose settings are all stated"},
    {"group", 0, TEXT, .arg = "NAME", AT(group), QUESTION, .commands = SPP_CMD_ACCURACY, .key = "group",
     .help = "only the runs of one source"},
    {"worst", 0, SPP_COUNT(1, 1000), .arg = "N", AT(worst), QUESTION, .commands = SPP_CMD_ACCURACY,
     .key = "worst", .help = "list the N runs predicted worst"},
    {"backend", 0, SPP_CHOICE(backend_word), .arg = "NAME", AT(backend), QUESTION, .commands = RANKED,
     .key = "backend",
     .help = "how ranks reach each other (default: self; mpi and nccl start their own ranks)"},
    {"device", 0, SPP_CHOICE(device_word), .arg = "NAME", AT(device), QUESTION, .commands = SPP_CMD_VALIDATE,
     .key = "device", .help = "what ranks work on (default: cpu; with --backend nccl: cuda)"},
    {"ranks", 'r', SPP_COUNT(1, SPP_EXEC_MAX_RANKS), .arg = "N", AT(ranks), QUESTION, .commands = RANKED,
     .key = "ranks",
     .help = "ranks (default: the product of the degrees; calibrate: one a processor, at least 2)"},
    {"suite", 0, SPP_CHOICE(suite_word), .arg = "NAME", AT(suite), QUESTION, .commands = SPP_CMD_VALIDATE,
     .key = "suite", .help = "which table of cases (default: quick, unless a layout is named)"},
    {"scale", 0, TEXT, .arg = "LIST", AT(scale), QUESTION, .commands = SPP_CMD_VALIDATE, .key = "scale",
     .help =
         "sizes in place of the model's: layers=2,hidden=64,heads=8,kv-heads=2,head-dim=16,ffn=96,vocab=128"},
    {"steps", 0, SPP_COUNT(1, SPP_VALIDATE_MAX_STEPS), .arg = "N", AT(steps), QUESTION,
     .commands = SPP_CMD_VALIDATE, .key = "steps",
     .help = "optimizer steps of each case (default: 5; short ones of the suite time: 14)"},
    {"max-spread", 0, SPP_REAL(0, 1e6), .arg = "SHARE", AT(max_spread), QUESTION,
     .commands = SPP_CMD_CALIBRATE, .key = "max_spread",
     .help = "conclude only when times of one call differ by less (default: 0.15; 0: always)"},
    {"junit", 0, TEXT, .arg = "FILE", AT(junit), QUESTION, .commands = SPP_CMD_VALIDATE,
     .source = SPP_VALUES_FILE, .help = "write the cases as JUnit XML there, too"},
    {"json", 0, SPP_FLAG(1), AT(json), OUTPUT, .commands = ANSWERING,
     .help = "one JSON object (docs/schema)"},
    {"csv", 0, SPP_FLAG(1), AT(csv), OUTPUT, .commands = ANSWERING,
     .help = "a header line and one line a row"},
    {"svg", 0, SPP_FLAG(1), AT(svg), OUTPUT, .no_default = true,
     .commands = SPP_CMD_ACCURACY | SPP_CMD_COMPARE | SPP_CMD_SWEEP, .help = "a picture"},
    {"output", 'o', TEXT, .arg = "FILE", AT(output), OUTPUT, .no_default = true, .commands = SPP_CMD_ALL,
     .source = SPP_VALUES_FILE,
     .help = "write the answer there, whole or not at all (- = standard output); export: a folder for "
             "several files"},
    {"trace", 0, TEXT, .arg = "FILE", AT(trace), OUTPUT, .no_default = true,
     .commands = SPP_CMD_PLAN | SPP_CMD_PREDICT | SPP_CMD_IMPORT, .source = SPP_VALUES_FILE,
     .help = "also write one step as a Chrome/Perfetto trace"},
    {"ascii", 0, SPP_FLAG(1), AT(ascii), OUTPUT, .commands = SPP_CMD_TUI,
     .help = "draw with ASCII characters only (default: as the locale has it)"},
    {"tui-script", 0, TEXT, .arg = "FILE", AT(tui_script), OUTPUT, .no_default = true,
     .commands = SPP_CMD_TUI, .source = SPP_VALUES_FILE,
     .help = "play the keys in FILE and print the screens it asks for, without a terminal (docs/tui.md)"},
    {"no-mouse", 0, SPP_FLAG(1), AT(no_mouse), OUTPUT, .commands = SPP_CMD_TUI,
     .help = "leave the mouse to the terminal"},
    {"quiet", 'q', SPP_FLAG(1), AT(quiet), OUTPUT, .commands = ANSWERING, .help = "the verdict only"},
    {"verbose", 'v', SPP_FLAG(1), AT(verbose), OUTPUT, .commands = ANSWERING,
     .help = "more: every reason, the search, sources"},
    {"color", 0, SPP_CHOICE(color_word), .arg = "WHEN", AT(color), OUTPUT, .commands = SPP_CMD_ALL,
     .help = "colours (default: auto; NO_COLOR is obeyed)"},
    {"config-dir", 0, TEXT, .arg = "DIR", AT(config_dir), OUTPUT, .commands = SPP_CMD_ALL,
     .source = SPP_VALUES_FOLDER, .help = "folder of models/, gpus/, clusters/, frameworks/, calib/"},
    {"help", 'h', SPP_FLAG(1), AT(help), OUTPUT, .no_default = true, .commands = SPP_CMD_ALL,
     .help = "this help; with a command: that command's"},
    {"version", 0, SPP_FLAG(1), AT(version), OUTPUT, .no_default = true, .commands = SPP_CMD_ALL,
     .help = "version, commit, compiler, features built"},
    {"help-man", 0, SPP_FLAG(1), AT(help_man), OUTPUT, .no_default = true, .commands = SPP_CMD_ALL,
     .help = "the manual page, as roff"},
    {"complete-options", 0, SPP_FLAG(1), AT(complete_options), OUTPUT, .no_default = true,
     .commands = SPP_CMD_ALL, .help = "the options of a command, one a line (for shell completion)"},
    {"complete-values", 0, TEXT, .arg = "OPTION", AT(complete_values), OUTPUT, .no_default = true,
     .commands = SPP_CMD_ALL, .help = "the values of an option, one a line (for shell completion)"},
};
const int spp_option_count = (int)(sizeof(spp_options) / sizeof(spp_options[0]));
_Static_assert(sizeof(spp_options) / sizeof(spp_options[0]) <= SPP_MAX_OPTIONS, "raise SPP_MAX_OPTIONS");

static const char *const titles[SPP_GROUP_OPT_COUNT] = {
    [SPP_GROUP_OPT_JOB] = "Job",
    [SPP_GROUP_OPT_HARDWARE] = "Hardware",
    [SPP_GROUP_OPT_METHOD] = "Method",
    [SPP_GROUP_OPT_DATA] = "Data",
    [SPP_GROUP_OPT_LAYOUT] = "Layout (predict: the layout; plan: fields the search must keep)",
    [SPP_GROUP_OPT_FRAMEWORK] = "Framework choices (default: what the framework does)",
    [SPP_GROUP_OPT_QUESTION] = "Question",
    [SPP_GROUP_OPT_OUTPUT] = "Output",
};
const char *spp_option_group_title(enum spp_option_group group) {
  return titles[group];
}
