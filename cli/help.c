#include "cli/help.h"

#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "base/table.h"
#include "base/version.h"

const struct spp_exit_code spp_exit_codes[] = {
    {0, "answered"},
    {1, "internal error"},
    {2, "bad command line, or a layout that breaks a rule"},
    {3, "bad input file"},
    {4, "nothing fits (the nearest miss is printed)"},
    {5, "an --assert is false"},
    {6, "a needed device or library is absent"},
    {130, "interrupted"},
};
const int spp_exit_code_count = (int)(sizeof(spp_exit_codes) / sizeof(spp_exit_codes[0]));

static const char usage[] = "usage: spplan [COMMAND] --model NAME --seq TOKENS --gpus N [OPTION]...\n";

static void examples(const struct spp_command *command, struct spp_str *out) {
  for (int i = 0; i < SPP_MAX_EXAMPLES && command->examples[i].line; i++)
    spp_str_addf(out, "  # %s\n  %s\n", command->examples[i].what, command->examples[i].line);
}

void spp_help_short(struct spp_str *out) {
  spp_str_add(out,
              "spplan plans sequence-parallel training: which layout fits, how fast it is, and why.\n\n");
  spp_str_add(out, usage);
  spp_str_addc(out, '\n');
  for (int i = 0; i < 3; i++)
    spp_str_addf(out, "  # %s\n  %s\n", spp_commands[i].examples[0].what, spp_commands[i].examples[0].line);
  spp_str_add(out, "\n'spplan --help' explains everything, 'spplan list models' names the models.\n");
}

static void command_table(int width, struct spp_str *out) {
  struct spp_table table;
  spp_table_init(&table, "ll");
  for (int i = 0; i < spp_command_count; i++) {
    spp_table_cell(&table, spp_commands[i].name);
    spp_table_cell(&table, spp_commands[i].summary);
  }
  spp_table_print(&table, 2, width, out);
  spp_table_free(&table);
}

/* "-m, --model NAME" and the help with the fixed words it takes. */
static void option_row(struct spp_table *table, const struct spp_option *option) {
  char text[512];
  size_t used;
  int value;
  if (option->letter)
    spp_table_cellf(table, "-%c, --%s%s%s", option->letter, option->name, option->arg ? " " : "",
                    option->arg ? option->arg : "");
  else if (option->type.kind == SPP_KIND_PART)
    spp_table_cellf(table, "    --%s [%s]", option->name, option->arg);
  else
    spp_table_cellf(table, "    --%s%s%s", option->name, option->arg ? " " : "",
                    option->arg ? option->arg : "");
  used = (size_t)snprintf(text, sizeof text, "%s", option->help);
  for (int i = 0; option->type.word && option->type.word(i, &value) && used < sizeof text; i++)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : ": ",
                             option->type.word(i, &value));
  spp_table_cell(table, text);
}

static void option_groups(unsigned commands, int width, struct spp_str *out) {
  for (int group = 0; group < SPP_GROUP_OPT_COUNT; group++) {
    struct spp_table table;
    bool any = false;
    spp_table_init(&table, "ll");
    for (int i = 0; i < spp_option_count; i++) {
      if ((int)spp_options[i].group != group || !(spp_options[i].commands & commands)) continue;
      option_row(&table, &spp_options[i]);
      any = true;
    }
    if (any) {
      spp_str_addf(out, "\n%s:\n", spp_option_group_title((enum spp_option_group)group));
      spp_table_print(&table, 2, width, out);
    }
    spp_table_free(&table);
  }
}

static void help_command(const struct spp_command *command, int width, struct spp_str *out) {
  spp_str_addf(out, "usage: spplan %s%s%s [OPTION]...\n\n%s: %s\n\n", command->name,
               command->positional ? " " : "", command->positional ? command->positional : "", command->name,
               command->summary);
  examples(command, out);
  option_groups((unsigned)command->bit, width, out);
}

static void help_all(int width, struct spp_str *out) {
  spp_str_add(out,
              "spplan plans sequence-parallel training: which layout fits, how fast it is, and why.\n\n");
  spp_str_add(out, usage);
  spp_str_add(out, "\nExamples:\n");
  for (int i = 0; i < spp_command_count; i++)
    spp_str_addf(out, "  # %s\n  %s\n", spp_commands[i].examples[0].what, spp_commands[i].examples[0].line);
  spp_str_add(out, "\nCommands:\n");
  command_table(width, out);
  option_groups(SPP_CMD_ALL, width, out);
  spp_str_add(
      out,
      "\nSizes: 32k = 32,768 and 1m = 1,048,576 tokens; 80GiB is binary, 80GB decimal, a bare 80G is "
      "refused.\n"
      "Defaults: a flag, else SPPLAN_<OPTION> in the environment (SPPLAN_GPU=a100-80gb), else the same name\n"
      "in ~/.config/spplan/config.json, else what the answer lists as assumed.\n\nExit status:\n");
  for (int i = 0; i < spp_exit_code_count; i++)
    spp_str_addf(out, "  %-4d %s\n", spp_exit_codes[i].code, spp_exit_codes[i].means);
}

void spp_help_full(const struct spp_command *command, int width, struct spp_str *out) {
  if (command)
    help_command(command, width, out);
  else
    help_all(width, out);
}

void spp_help_version(struct spp_str *out) {
  int count;
  const struct spp_feature *features = spp_features(&count);
  spp_str_addf(out, "spplan %s (commit %s, %s)\nfeatures:", spp_version(), spp_version_commit(),
               spp_version_compiler());
  for (int i = 0; i < count; i++)
    spp_str_addf(out, " %c%s", features[i].built ? '+' : '-', features[i].name);
  spp_str_addc(out, '\n');
}

enum spp_status spp_run_help(struct spp_cli *cli, struct spp_diag *diag) {
  const struct spp_command *command = NULL;
  if (cli->positional && !(command = spp_command_find(cli->positional))) {
    const char *names[16], *near;
    char hint[96];
    int count = 0;
    for (; count < spp_command_count && count < 16; count++)
      names[count] = spp_commands[count].name;
    near = spp_suggest(cli->positional, names, count);
    snprintf(hint, sizeof hint, near ? "did you mean '%s'?" : "'spplan help' lists the commands%s",
             near ? near : "");
    return spp_diag_set(diag, SPP_ERR_USAGE, "help", hint, "unknown command '%.80s'", cli->positional);
  }
  spp_help_full(command, cli->term.columns, &cli->out);
  return SPP_OK;
}
