#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "cli/help.h"
#include "model/framework.h"

void spp_complete_options(const struct spp_command *command, struct spp_str *out) {
  unsigned commands = command ? (unsigned)command->bit : (unsigned)SPP_CMD_PLAN;
  for (int i = 0; command && command->positional_word && command->positional_word(i); i++)
    spp_str_addf(out, "%s\n", command->positional_word(i));
  if (!command)
    for (int i = 0; i < spp_command_count; i++)
      spp_str_addf(out, "%s\n", spp_commands[i].name);
  for (int i = 0; i < spp_option_count; i++)
    if (spp_options[i].commands & commands) spp_str_addf(out, "--%s\n", spp_options[i].name);
}

static enum spp_status names_of(struct spp_cli *cli, enum spp_value_source source, const char *const **names,
                                int *count, struct spp_diag *diag) {
  *count = 0;
  switch (source) {
  case SPP_VALUES_MODEL: return spp_arch_list(cli->config_dir, &cli->arena, names, count, diag);
  case SPP_VALUES_GPU: return spp_gpu_list(cli->config_dir, &cli->arena, names, count, diag);
  case SPP_VALUES_CLUSTER: return spp_cluster_list(cli->config_dir, &cli->arena, names, count, diag);
  case SPP_VALUES_FRAMEWORK: return spp_framework_list(cli->config_dir, &cli->arena, names, count, diag);
  case SPP_VALUES_NONE:
  case SPP_VALUES_FILE:
  case SPP_VALUES_FOLDER: return SPP_OK;
  }
  return SPP_OK;
}

enum spp_status spp_complete_values(struct spp_cli *cli, const char *name, struct spp_str *out,
                                    struct spp_diag *diag) {
  const struct spp_option *option = spp_option_find(name + strspn(name, "-"));
  const char *const *names = NULL;
  enum spp_status status;
  int count, value;
  if (!option) {
    const char *all[SPP_MAX_OPTIONS], *near;
    char hint[96];
    for (int i = 0; i < spp_option_count; i++)
      all[i] = spp_options[i].name;
    near = spp_suggest(name + strspn(name, "-"), all, spp_option_count);
    snprintf(hint, sizeof hint, near ? "did you mean --%s?" : "'spplan --help' lists the options%s",
             near ? near : "");
    return spp_diag_set(diag, SPP_ERR_USAGE, "--complete-values", hint, "unknown option '%.60s'", name);
  }
  for (int i = 0; option->type.word && option->type.word(i, &value); i++)
    spp_str_addf(out, "%s\n", option->type.word(i, &value));
  if ((status = names_of(cli, option->source, &names, &count, diag)) != SPP_OK) return status;
  if (option->source == SPP_VALUES_FRAMEWORK) spp_str_add(out, "any\n");
  for (int i = 0; i < count; i++)
    spp_str_addf(out, "%s\n", names[i]);
  return SPP_OK;
}
