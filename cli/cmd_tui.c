/* tui: the interactive planner, on the terminal or played from a file. */
#include <unistd.h>

#include "cli/setup.h"

#ifndef SPP_HAVE_CURSES

enum spp_status spp_run_tui(struct spp_cli *cli, struct spp_diag *diag) {
  (void)cli;
  return spp_diag_set(diag, SPP_ERR_ABSENT, "tui",
                      "install libncurses-dev and build again, or use spplan plan",
                      "this spplan was built without ncurses");
}

#else

#include <stdlib.h>

#include "base/file.h"
#include "cli/tui_host.h"
#include "tui/loop.h"
#include "tui/script.h"

static enum spp_status play(struct spp_cli *cli, const struct spp_tui_host *host,
                            const struct spp_words *words, struct spp_diag *diag) {
  char *text;
  enum spp_status status = spp_file_read(cli->args.tui_script, SPP_SCRIPT_MAX_BYTES, &text, NULL, diag);
  if (status != SPP_OK) return status;
  status = spp_tui_play(host, words, cli->term.utf8 && !cli->args.ascii, cli->args.tui_script, text,
                        &cli->out, diag);
  free(text);
  return status;
}

enum spp_status spp_run_tui(struct spp_cli *cli, struct spp_diag *diag) {
  struct spp_terminal_options options = {
      .color = cli->term.color, .utf8 = cli->term.utf8 && !cli->args.ascii, .mouse = !cli->args.no_mouse};
  struct spp_tui_host host;
  struct spp_words words;
  enum spp_status status;
  if (!cli->args.tui_script && (!cli->term.stdout_tty || isatty(STDIN_FILENO) != 1))
    return spp_diag_set(diag, SPP_ERR_USAGE, "tui", "use spplan plan for text, with --json for scripts",
                        "standard input and output are no terminal");
  alarm(0); /* nothing may be written beside the screen */
  if ((status = spp_setup_keep(&cli->args, diag)) != SPP_OK) return status;
  const char *greeting = spp_tui_first_words(&cli->args, &words);
  if ((status = spp_tui_host_open(cli->config_dir, &host, diag)) != SPP_OK) return status;
  status = cli->args.tui_script ? play(cli, &host, &words, diag)
                                : spp_tui_run(&host, &options, &words, greeting, diag);
  spp_tui_host_close(&host);
  return status;
}

#endif
