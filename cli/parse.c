/* argv -> struct spp_cli over getopt_long, which alone would accept abbreviations and print messages of its
 * own. */
#define _GNU_SOURCE /* getopt_long */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "cli/from.h"

enum { FIRST_VALUE = 1000, MAX_WORDS = 3 };
static const char *const command_line = "command line";

enum spp_set_by spp_cli_set_by(const struct spp_cli *cli, const char *name) {
  const struct spp_option *option = spp_option_find(name);
  enum spp_set_by by = SPP_SET_BY_NOBODY;
  if (!option) return by;
  for (int i = 0; i < spp_option_count; i++)
    if (spp_options[i].offset == option->offset && cli->set_by[i] > by) by = cli->set_by[i];
  return by;
}

static const char *suggest_option(const char *name, unsigned commands) {
  const char *names[SPP_MAX_OPTIONS];
  int count = 0;
  for (int i = 0; i < spp_option_count; i++)
    if (spp_options[i].commands & commands) names[count++] = spp_options[i].name;
  return spp_suggest(name, names, count);
}

static enum spp_status unknown_option(const char *word, struct spp_diag *diag) {
  char name[64], hint[160];
  const char *near;
  snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
  near = suggest_option(name + strspn(name, "-"), SPP_CMD_ALL);
  if (near)
    snprintf(hint, sizeof hint, "did you mean --%s? (names are never abbreviated)", near);
  else
    snprintf(hint, sizeof hint, "'spplan --help' lists the options");
  return spp_diag_set(diag, SPP_ERR_USAGE, command_line, hint, "unknown option '%s'", name);
}

static enum spp_status unknown_letter(int letter, struct spp_diag *diag) {
  return spp_diag_set(diag, SPP_ERR_USAGE, command_line, "'spplan --help' lists the options",
                      "unknown option '-%c'", letter);
}

static enum spp_status needs_value(const struct spp_option *option, struct spp_diag *diag) {
  char hint[96];
  snprintf(hint, sizeof hint, "write --%s %s", option->name, option->arg);
  return spp_diag_set(diag, SPP_ERR_USAGE, command_line, hint, "--%s needs a value", option->name);
}

/* The option tables getopt_long reads. */
struct getopt_tables {
  struct option longs[SPP_MAX_OPTIONS + 1];
  char shorts[3 + 2 * SPP_MAX_OPTIONS];
};

static void fill_tables(struct getopt_tables *tables) {
  size_t used = 0;
  memset(tables, 0, sizeof *tables);
  tables->shorts[used++] = '-'; /* words in the order they were typed, whatever POSIXLY_CORRECT says */
  tables->shorts[used++] = ':'; /* tell a missing value from an unknown option */
  for (int i = 0; i < spp_option_count; i++) {
    const struct spp_option *option = &spp_options[i];
    int has_arg = option->type.kind == SPP_KIND_FLAG   ? no_argument
                  : option->type.kind == SPP_KIND_PART ? optional_argument
                                                       : required_argument;
    tables->longs[i] = (struct option){option->name, has_arg, NULL, FIRST_VALUE + i};
    if (!option->letter) continue;
    tables->shorts[used++] = option->letter;
    if (has_arg == required_argument) tables->shorts[used++] = ':';
  }
}

static const struct spp_option *option_of(int code) {
  if (code >= FIRST_VALUE && code < FIRST_VALUE + spp_option_count) return &spp_options[code - FIRST_VALUE];
  for (int i = 0; i < spp_option_count; i++)
    if (spp_options[i].letter && spp_options[i].letter == code) return &spp_options[i];
  return NULL;
}

/* True when `word` (--name or --name=value) spells the option out. */
static bool spelled_out(const char *word, const struct spp_option *option) {
  size_t length = strlen(option->name);
  return strncmp(word, "--", 2) == 0 && strncmp(word + 2, option->name, length) == 0 &&
         (word[2 + length] == '\0' || word[2 + length] == '=');
}

/* What argv said, kept until the command is known. */
struct words {
  int option_count, word_count;
  struct spp_said options[SPP_MAX_SAID];
  const char *words[MAX_WORDS];
};

/* `--explain PART`: the next word is the part, unless it is an option or a command. */
static const char *optional_value(const struct spp_option *option, int argc, char **argv) {
  if (optarg || option->type.kind != SPP_KIND_PART) return optarg;
  if (optind >= argc || argv[optind][0] == '-' || spp_command_find(argv[optind])) return NULL;
  return argv[optind++];
}

static enum spp_status add_word(struct words *words, const char *word, struct spp_diag *diag) {
  if (words->word_count == MAX_WORDS)
    return spp_diag_set(diag, SPP_ERR_USAGE, command_line, "options begin with --", "unexpected word '%.80s'",
                        word);
  words->words[words->word_count++] = word;
  return SPP_OK;
}

/* The code getopt_long returned for the word it was at. */
static enum spp_status take(struct words *words, int code, const char *word, int argc, char **argv,
                            struct spp_diag *diag) {
  bool is_long = strncmp(word, "--", 2) == 0;
  const struct spp_option *option = option_of(code == ':' || code == '?' ? optopt : code);
  if (code == 1) return add_word(words, optarg, diag);
  if (is_long && (!option || !spelled_out(word, option))) return unknown_option(word, diag);
  if (!option) return unknown_letter(optopt, diag);
  if (code == ':') return needs_value(option, diag);
  if (code == '?')
    return spp_diag_set(diag, SPP_ERR_USAGE, command_line, "write it alone", "--%s takes no value",
                        option->name);
  if (optarg && strncmp(optarg, "--", 2) == 0 && !strchr(word, '=')) return needs_value(option, diag);
  if (words->option_count == (int)(sizeof words->options / sizeof words->options[0]))
    return spp_diag_set(diag, SPP_ERR_USAGE, command_line, "give each once", "too many options");
  words->options[words->option_count++] = (struct spp_said){option, optional_value(option, argc, argv)};
  return SPP_OK;
}

static enum spp_status read_words(struct words *words, int argc, char **argv, struct spp_diag *diag) {
  struct getopt_tables tables;
  int code, at;
  fill_tables(&tables);
  optind = 0; /* glibc: start over, also for a second parse in one process */
  opterr = 0;
  while (at = optind ? optind : 1,
         (code = getopt_long(argc, argv, tables.shorts, tables.longs, NULL)) != -1) {
    enum spp_status status = take(words, code, argv[at], argc, argv, diag);
    if (status != SPP_OK) return status;
  }
  while (optind < argc) { /* after "--" */
    enum spp_status status = add_word(words, argv[optind++], diag);
    if (status != SPP_OK) return status;
  }
  return SPP_OK;
}

static enum spp_status unknown_command(const char *word, struct spp_diag *diag) {
  const char *names[16], *near;
  char hint[160];
  int count = 0;
  for (; count < spp_command_count && count < 16; count++)
    names[count] = spp_commands[count].name;
  near = spp_suggest(word, names, count);
  if (near)
    snprintf(hint, sizeof hint, "did you mean '%s'?", near);
  else
    snprintf(hint, sizeof hint, "'spplan help' lists the commands");
  return spp_diag_set(diag, SPP_ERR_USAGE, command_line, hint, "unknown command '%.80s'", word);
}

static enum spp_status choose_command(struct spp_cli *cli, const struct words *words, struct spp_diag *diag) {
  cli->command = &spp_commands[0];
  if (words->word_count == 0) return SPP_OK;
  cli->command = spp_command_find(words->words[0]);
  if (!cli->command) return unknown_command(words->words[0], diag);
  cli->command_given = true;
  if (words->word_count == 1) return SPP_OK;
  if (!cli->command->positional)
    return spp_diag_set(diag, SPP_ERR_USAGE, command_line, "options begin with --",
                        "unexpected word '%.80s' after '%s'", words->words[1], cli->command->name);
  cli->positional = words->words[1];
  if (words->word_count == 2) return SPP_OK;
  if (cli->command->bit != SPP_CMD_DIFF)
    return spp_diag_set(diag, SPP_ERR_USAGE, command_line, "options begin with --", "unexpected word '%.80s'",
                        words->words[2]);
  cli->second = words->words[2];
  return SPP_OK;
}

static enum spp_status store(struct spp_cli *cli, const struct spp_said *said, struct spp_diag *diag) {
  const struct spp_option *option = said->option;
  char where[64];
  snprintf(where, sizeof where, "--%s", option->name);
  if (!(option->commands & (unsigned)cli->command->bit)) {
    char hint[96];
    snprintf(hint, sizeof hint, "'spplan help %s' lists its options", cli->command->name);
    return spp_diag_set(diag, SPP_ERR_USAGE, command_line, hint, "'%s' has no option --%s",
                        cli->command->name, option->name);
  }
  cli->set_by[spp_option_index(option)] = SPP_SET_BY_FLAG;
  if (option->type.kind == SPP_KIND_FLAG || (option->type.kind == SPP_KIND_PART && !said->value)) {
    *(int *)((char *)&cli->args + option->offset) = option->type.value;
    return SPP_OK;
  }
  return spp_option_store(option, said->value, where, &cli->args, diag);
}

static bool asks_for_help(const struct spp_args *args) {
  return args->help || args->version || args->help_man || args->complete_options || args->complete_values;
}

/* --from FILE, `tui FILE` or `import FILE`. */
static enum spp_status read_saved(struct spp_cli *cli, struct spp_diag *diag) {
  if ((cli->command->bit & (SPP_CMD_TUI | SPP_CMD_IMPORT)) && cli->positional && !cli->args.from)
    cli->args.from = cli->positional;
  if (cli->args.rank != SPP_UNSET && !cli->args.from)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--rank", "give --from FILE",
                        "there is no saved plan to choose");
  return cli->args.from ? spp_cli_from(cli, cli->args.from, diag) : SPP_OK;
}

enum spp_status spp_cli_read_line(int argc, char **argv, struct spp_said *said, int *count,
                                  struct spp_diag *diag) {
  struct words words = {0};
  enum spp_status status = read_words(&words, argc, argv, diag);
  if (status != SPP_OK) return status;
  if (words.word_count > 1 || (words.word_count == 1 && !spp_command_find(words.words[0])))
    return spp_diag_set(diag, SPP_ERR_USAGE, command_line, "give the options of one job",
                        "unexpected word '%.80s'", words.words[words.word_count - 1]);
  memcpy(said, words.options, sizeof words.options);
  *count = words.option_count;
  return SPP_OK;
}

enum spp_status spp_cli_parse(struct spp_cli *cli, int argc, char **argv, struct spp_diag *diag) {
  struct words words = {0};
  enum spp_status status;
  cli->argc = argc;
  cli->argv = argv;
  spp_args_clear(&cli->args);
  if ((status = read_words(&words, argc, argv, diag)) != SPP_OK) return status;
  if ((status = choose_command(cli, &words, diag)) != SPP_OK) return status;
  for (int i = 0; i < words.option_count; i++)
    if ((status = store(cli, &words.options[i], diag)) != SPP_OK) return status;
  if (cli->args.svg && (cli->args.json || cli->args.csv))
    return spp_diag_set(diag, SPP_ERR_USAGE, "--svg", "give one of them",
                        "--json, --csv and --svg exclude each other");
  if (cli->args.json && cli->args.csv)
    return spp_diag_set(diag, SPP_ERR_USAGE, command_line, "choose one",
                        "--json and --csv exclude each other");
  if (!asks_for_help(&cli->args) && (status = read_saved(cli, diag)) != SPP_OK) return status;
  if (!asks_for_help(&cli->args) && (status = spp_cli_defaults(cli, diag)) != SPP_OK) return status;
  return SPP_OK;
}
