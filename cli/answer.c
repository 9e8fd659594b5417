#include "cli/answer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/assert.h"
#include "report/text.h"

static enum spp_status check_asserts(const struct spp_cli *cli, const struct spp_answer *answer,
                                     struct spp_diag *diag) {
  struct spp_str json;
  enum spp_status status = SPP_OK;
  if (cli->args.asserts.count == 0) return SPP_OK;
  spp_str_init(&json);
  answer->json(answer->what, &json);
  if (json.failed) status = spp_diag_oom(diag);
  for (int i = 0; i < cli->args.asserts.count && status == SPP_OK; i++)
    status = spp_assert_check(cli->args.asserts.text[i], spp_str_text(&json), diag);
  spp_str_free(&json);
  return status;
}

enum spp_status spp_answer_give(struct spp_cli *cli, const struct spp_answer *answer, struct spp_diag *diag) {
  if (cli->args.json) {
    answer->json(answer->what, &cli->out);
  } else if (cli->args.csv) {
    answer->csv(answer->what, &cli->out);
  } else if (cli->args.svg) {
    answer->svg(answer->what, &cli->out);
  } else {
    answer->text(answer->what, cli, &cli->out);
    if (!cli->term.utf8) spp_text_to_ascii(&cli->out);
  }
  if (cli->out.failed) return spp_diag_oom(diag);
  enum spp_status status = check_asserts(cli, answer, diag);
  if (status == SPP_ERR_USAGE) spp_str_clear(&cli->out); /* a path that is not there: no answer beside it */
  return status;
}

static bool to_stdout(const struct spp_cli *cli) {
  return !cli->args.output || strcmp(cli->args.output, "-") == 0;
}

static enum spp_status write_all(const char *text, size_t length, struct spp_diag *diag) {
  while (length > 0) {
    ssize_t n = write(STDOUT_FILENO, text, length);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EPIPE) return SPP_OK; /* `| head`: the reader has what it wanted */
    if (n < 0)
      return spp_diag_set(diag, SPP_ERR_INTERNAL, "standard output", "make room there or use -o FILE",
                          "cannot write: %s", strerror(errno));
    text += n;
    length -= (size_t)n;
  }
  return SPP_OK;
}

enum spp_status spp_answer_write_file(const char *path, const struct spp_str *out, struct spp_diag *diag) {
  return spp_file_write_atomic(path, spp_str_text(out), out->len, diag);
}

static enum spp_status deliver(const struct spp_cli *cli, struct spp_diag *diag) {
  if (cli->out.len == 0) return SPP_OK;
  if (to_stdout(cli)) return write_all(cli->out.data, cli->out.len, diag);
  return spp_answer_write_file(cli->args.output, &cli->out, diag);
}

enum spp_status spp_answer_deliver(const struct spp_cli *cli, struct spp_diag *diag) {
  enum spp_status status = deliver(cli, diag);
  return status == SPP_OK ? SPP_OK : spp_answer_lost(cli, status, diag);
}

enum spp_status spp_answer_lost(const struct spp_cli *cli, enum spp_status status, struct spp_diag *diag) {
  if (!cli->command || !(cli->command->bit & (SPP_CMD_VALIDATE | SPP_CMD_CALIBRATE))) return status;
  if (diag) diag->status = SPP_ERR_ABSENT;
  if (diag && !diag->hint[0])
    snprintf(diag->hint, sizeof diag->hint, "make room there, or name another place");
  return SPP_ERR_ABSENT;
}

static enum spp_status check_path(const char *path, const char *option, struct spp_diag *diag) {
  const char *slash;
  char folder[4096];
  if (!path || strcmp(path, "-") == 0) return SPP_OK;
  if (spp_path_is_dir(path))
    return spp_diag_set(diag, SPP_ERR_INPUT, option, "name a file", "'%.200s' is a folder", path);
  slash = strrchr(path, '/');
  if (strlen(path) >= sizeof folder)
    return spp_diag_set(diag, SPP_ERR_INPUT, option, "name a shorter path", "the path is too long");
  snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + (slash == path)) : 1,
           slash ? path : ".");
  if (!spp_path_is_dir(folder))
    return spp_diag_set(diag, SPP_ERR_INPUT, option, "make the folder first", "there is no folder '%.200s'",
                        folder);
  if (access(spp_path_exists(path) ? path : folder, W_OK) != 0)
    return spp_diag_set(diag, SPP_ERR_INPUT, option, "choose a place you may write to",
                        "cannot write '%.200s': %s", path, strerror(errno));
  return SPP_OK;
}

enum spp_status spp_answer_check_output(const struct spp_cli *cli, struct spp_diag *diag) {
  const char *output = cli->args.output, *trace = cli->args.trace;
  if (output && trace && strcmp(output, trace) == 0 && strcmp(output, "-") != 0)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--trace", "name two files",
                        "--output and --trace would write the same file");
  bool folder = cli->command->bit == SPP_CMD_EXPORT; /* -o may name one there, and export makes it */
  enum spp_status status = folder ? SPP_OK : check_path(cli->args.output, "--output", diag);
  if (status == SPP_OK) status = check_path(cli->args.trace, "--trace", diag);
  return status == SPP_OK ? check_path(cli->args.junit, "--junit", diag) : status;
}
