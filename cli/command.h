/* The sub-commands: one table from which dispatch, help, the man page and completion are derived. */
#ifndef SPP_CLI_COMMAND_H
#define SPP_CLI_COMMAND_H

#include "base/arena.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/term.h"
#include "cli/options.h"

struct spp_cli;
struct spp_imported;

enum { SPP_MAX_EXAMPLES = 4 };
struct spp_example {
  const char *what, *line;
};
struct spp_command {
  const char *name;
  enum spp_command_bit bit;
  const char *positional;                /* what stands after the command word in usage; NULL = nothing may */
  const char *(*positional_word)(int i); /* the words it may be, NULL after the last; or NULL: any text */
  const char *summary;                   /* one line */
  struct spp_example examples[SPP_MAX_EXAMPLES];
  /* Writes the answer to cli->out. An answer that is "no" (SPP_ERR_NOFIT) is written too. */
  enum spp_status (*run)(struct spp_cli *cli, struct spp_diag *diag);
};
extern const struct spp_command spp_commands[];
extern const int spp_command_count;
const struct spp_command *spp_command_find(const char *name);
/* Name of command i; NULL after the last. */
const char *spp_command_word(int i);
/* What `list` can list, by number; NULL after the last. */
const char *spp_list_word(int i);

enum spp_set_by {
  SPP_SET_BY_NOBODY,
  SPP_SET_BY_FILE,
  SPP_SET_BY_ENVIRONMENT,
  SPP_SET_BY_SAVED, /* --from */
  SPP_SET_BY_FLAG
};

/* One run of the program. */
struct spp_cli {
  int argc;
  char **argv;
  struct spp_args args;
  enum spp_set_by set_by[SPP_MAX_OPTIONS]; /* by option row */
  bool saved[SPP_MAX_OPTIONS];             /* the file of --from decides this, be it to leave it open */
  const struct spp_command *command;
  bool command_given;                  /* false: plan by default */
  const char *positional, *second;     /* the words after the command; NULL: not there */
  const struct spp_imported *imported; /* what a framework's command said; NULL: there is none */
  char config_dir[4096];
  struct spp_term term;
  struct spp_arena arena;
  struct spp_str out;
};
/* Who set the field of an option: rows that share a field (--overlap, --no-overlap) count together. */
enum spp_set_by spp_cli_set_by(const struct spp_cli *cli, const char *option);

/* One option of a command line, and its value as typed; NULL: it has none. */
struct spp_said {
  const struct spp_option *option;
  const char *value;
};
enum { SPP_MAX_SAID = 256 };
/* The options of a command line of ours, whose command is not run: said[SPP_MAX_SAID], borrowed from argv.
 * SPP_ERR_USAGE as spp_cli_parse. */
enum spp_status spp_cli_read_line(int argc, char **argv, struct spp_said *said, int *count,
                                  struct spp_diag *diag);

/* Words into cli: options and at most one command and one positional. Values come from flags, then the
 * environment, then the config file. SPP_ERR_USAGE or SPP_ERR_INPUT (config file) with the word at fault. */
enum spp_status spp_cli_parse(struct spp_cli *cli, int argc, char **argv, struct spp_diag *diag);
/* Fields nobody set yet from SPPLAN_* variables, then from the user's config.json ($XDG_CONFIG_HOME/spplan).
 */
enum spp_status spp_cli_defaults(struct spp_cli *cli, struct spp_diag *diag);
/* The text a flag would have had for a JSON string, number or boolean; NULL for anything else. */
const char *spp_cli_value_text(struct spp_json value, struct spp_arena *arena);

enum spp_status spp_run_plan(struct spp_cli *cli, struct spp_diag *diag);
enum spp_status spp_run_predict(struct spp_cli *cli, struct spp_diag *diag);
enum spp_status spp_run_import(struct spp_cli *cli, struct spp_diag *diag);
enum spp_status spp_run_diff(struct spp_cli *cli, struct spp_diag *diag);
enum spp_status spp_run_export(struct spp_cli *cli, struct spp_diag *diag);
enum spp_status spp_run_compare(struct spp_cli *cli, struct spp_diag *diag);
enum spp_status spp_run_sweep(struct spp_cli *cli, struct spp_diag *diag);
enum spp_status spp_run_alloc(struct spp_cli *cli, struct spp_diag *diag);
enum spp_status spp_run_degrees(struct spp_cli *cli, struct spp_diag *diag);
enum spp_status spp_run_accuracy(struct spp_cli *cli, struct spp_diag *diag);
enum spp_status spp_run_report(struct spp_cli *cli, struct spp_diag *diag);
enum spp_status spp_run_tui(struct spp_cli *cli, struct spp_diag *diag);
enum spp_status spp_run_validate(struct spp_cli *cli, struct spp_diag *diag);
enum spp_status spp_run_calibrate(struct spp_cli *cli, struct spp_diag *diag);
enum spp_status spp_run_list(struct spp_cli *cli, struct spp_diag *diag);
enum spp_status spp_run_help(struct spp_cli *cli, struct spp_diag *diag);

#endif
