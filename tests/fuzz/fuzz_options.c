/* The command line: words split at new lines, parsed as argv would be. Whatever they are, the parser returns
 * a status, says what is wrong when it is not OK, and stores only values inside their bounds. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "tests/fuzz/fuzz.h"

enum { MAX_WORDS = 40 };

static void check(const struct spp_cli *cli) {
  FUZZ_CHECK(cli->command != NULL);
  for (int i = 0; i < spp_option_count; i++) {
    const struct spp_option *option = &spp_options[i];
    if (cli->set_by[i] == SPP_SET_BY_NOBODY) continue;
    if (option->type.kind != SPP_KIND_COUNT && option->type.kind != SPP_KIND_TOKENS) continue;
    int64_t value = spp_option_i64(option, &cli->args);
    FUZZ_CHECK(value >= option->type.min && value <= option->type.max);
  }
}

static int split(char *text, char **argv) {
  static char program[] = "spplan";
  int argc = 0;
  argv[argc++] = program;
  for (char *word = text; argc <= MAX_WORDS && *word;) {
    char *end = strchr(word, '\n');
    argv[argc++] = word;
    if (!end) break;
    *end = '\0';
    word = end + 1;
  }
  argv[argc] = NULL;
  return argc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct spp_cli *cli = calloc(1, sizeof *cli);
  char *text = fuzz_text(data, size), *argv[MAX_WORDS + 2];
  struct spp_diag diag = {.status = SPP_OK};
  FUZZ_CHECK(cli != NULL);
  int argc = split(text, argv);
  spp_arena_init(&cli->arena);
  enum spp_status status = spp_cli_parse(cli, argc, argv, &diag);
  if (status == SPP_OK)
    check(cli);
  else
    FUZZ_CHECK(diag.what[0] && diag.status == status);
  spp_arena_free(&cli->arena);
  free(text);
  free(cli);
  return 0;
}
