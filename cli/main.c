/* spplan: words in, one answer out. The only file that prints and exits. */
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/paths.h"
#include "cli/answer.h"
#include "cli/assert.h"
#include "cli/help.h"

static void interrupted(int signal_number) {
  static const char message[] = "spplan: interrupted\n";
  (void)signal_number;
  if (write(STDERR_FILENO, message, sizeof message - 1) < 0) _exit(SPP_INTERRUPTED);
  _exit(SPP_INTERRUPTED);
}

static void still_working(int signal_number) {
  static const char message[] = "spplan: still working (Ctrl-C stops)\n";
  (void)signal_number;
  if (write(STDERR_FILENO, message, sizeof message - 1) < 0) return;
}

/* A person who waits is told so once, after a while; a file or a script is not. */
static void promise_a_sign_of_life(const struct spp_cli *cli) {
  enum { PATIENCE_S = 2 };
  struct sigaction action;
  if (!cli->term.stderr_tty || cli->args.quiet) return;
  memset(&action, 0, sizeof action);
  sigemptyset(&action.sa_mask);
  action.sa_handler = still_working;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, NULL);
  alarm(PATIENCE_S);
}

static void catch_signals(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  sigemptyset(&action.sa_mask);
  action.sa_handler = interrupted;
  sigaction(SIGINT, &action, NULL);
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, NULL);
  sigaction(SIGXFSZ, &action, NULL); /* a file too large for the limit is a write error, cleaned up after */
}

/* --help and its like: true when there was one and it is answered. */
static bool answer_meta(struct spp_cli *cli, enum spp_status *status, struct spp_diag *diag) {
  const struct spp_args *args = &cli->args;
  const struct spp_command *command =
      cli->command_given && cli->command->bit != SPP_CMD_HELP ? cli->command : NULL;
  *status = SPP_OK;
  if (args->help)
    spp_help_full(command, cli->term.columns, &cli->out);
  else if (args->version)
    spp_help_version(&cli->out);
  else if (args->help_man)
    spp_help_man(&cli->out);
  else if (args->complete_options)
    spp_complete_options(command, &cli->out);
  else if (args->complete_values)
    *status = spp_complete_values(cli, args->complete_values, &cli->out, diag);
  else
    return false;
  return true;
}

static enum spp_status run(struct spp_cli *cli, int argc, char **argv, struct spp_diag *diag) {
  enum spp_status status = spp_cli_parse(cli, argc, argv, diag);
  if (status != SPP_OK) return status;
  cli->term = spp_term_facts((enum spp_color)cli->args.color);
  promise_a_sign_of_life(cli);
  if ((status = spp_answer_check_output(cli, diag)) != SPP_OK) return status;
  for (int i = 0; i < cli->args.asserts.count; i++)
    if ((status = spp_assert_parse(cli->args.asserts.text[i], diag)) != SPP_OK) return status;
  if (cli->args.help || cli->args.version || cli->args.help_man || cli->args.complete_options ||
      cli->command->bit == SPP_CMD_HELP)
    return answer_meta(cli, &status, diag) ? status : cli->command->run(cli, diag);
  if ((status = spp_config_dir(cli->args.config_dir, cli->config_dir, sizeof cli->config_dir, diag)) !=
      SPP_OK)
    return status;
  return answer_meta(cli, &status, diag) ? status : cli->command->run(cli, diag);
}

/* Every message says what, where and what to do: where the one who noticed left that open, by the kind of
 * fault. */
static void complain(const struct spp_diag *diag) {
  struct spp_diag whole = *diag;
  char message[1100];
  if (!diag->what[0]) return;
  if (!whole.where[0])
    snprintf(whole.where, sizeof whole.where, "%s",
             diag->status == SPP_ERR_USAGE ? "command line" : "spplan");
  if (!whole.hint[0])
    snprintf(whole.hint, sizeof whole.hint, "%s",
             diag->status == SPP_ERR_USAGE   ? "'spplan --help' explains the options"
             : diag->status == SPP_ERR_INPUT ? "correct the file or name another"
                                             : "please report this");
  fprintf(stderr, "spplan: %s\n", spp_diag_format(&whole, message, sizeof message));
}

static int no_arguments(void) {
  struct spp_str help;
  spp_str_init(&help);
  spp_help_short(&help);
  fputs(spp_str_text(&help), stderr);
  spp_str_free(&help);
  return SPP_ERR_USAGE;
}

int main(int argc, char **argv) {
  struct spp_cli cli = {0};
  struct spp_diag diag = {0}, delivery = {0};
  enum spp_status status, delivered;
  setlocale(LC_CTYPE, "");
  catch_signals();
  if (argc < 2) return no_arguments();
  spp_arena_init(&cli.arena);
  spp_str_init(&cli.out);
  status = run(&cli, argc, argv, &diag);
  delivered = spp_answer_deliver(&cli, &delivery);
  if (status != SPP_OK) complain(&diag);
  if (delivered != SPP_OK) complain(&delivery);
  spp_str_free(&cli.out);
  spp_arena_free(&cli.arena);
  return (int)(delivered != SPP_OK ? delivered : status);
}
