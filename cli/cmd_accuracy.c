/* accuracy: predicted against measured, over files of published runs. */
#include <stdio.h>
#include <string.h>

#include "base/suggest.h"
#include "cli/answer.h"
#include "cli/setup.h"
#include "report/accuracy.h"

struct scored {
  struct spp_report report;
  struct spp_accuracy_report answer;
  struct spp_text_style style;
};

static void as_text(const void *what, const struct spp_cli *cli, struct spp_str *out) {
  const struct scored *scored = what;
  (void)cli;
  spp_text_accuracy(&scored->answer, &scored->style, out);
}
static void as_json(const void *what, struct spp_str *out) {
  const struct scored *scored = what;
  spp_json_accuracy(&scored->report, &scored->answer, out);
}
static void as_csv(const void *what, struct spp_str *out) {
  const struct scored *scored = what;
  spp_csv_accuracy(&scored->answer, out);
}
static void as_svg(const void *what, struct spp_str *out) {
  const struct scored *scored = what;
  spp_svg_accuracy(&scored->answer, out);
}

/* The files named by --corpus, else the shipped one. */
static enum spp_status read_files(struct spp_cli *cli, struct spp_corpus *corpus, struct spp_diag *diag) {
  struct spp_texts files = cli->args.corpus;
  if (files.count == 0) {
    files.text[files.count++] = spp_arena_printf(&cli->arena, "%s/corpus/public.jsonl", cli->config_dir);
    if (!files.text[0]) return spp_diag_oom(diag);
  }
  for (int i = 0; i < files.count; i++) {
    enum spp_status status = spp_corpus_read(cli->config_dir, files.text[i], corpus, diag);
    if (status != SPP_OK) return status;
  }
  return SPP_OK;
}

static bool has_group(const struct spp_corpus *corpus, const char *group) {
  for (int i = 0; i < corpus->count; i++)
    if (strcmp(corpus->runs[i].group, group) == 0) return true;
  return false;
}

static enum spp_status refuse_group(const struct spp_corpus *corpus, const char *group,
                                    struct spp_diag *diag) {
  const char *names[64];
  int count = 0;
  for (int i = 0; i < corpus->count && count < 64; i++) {
    int k = 0;
    while (k < count && strcmp(names[k], corpus->runs[i].group) != 0)
      k++;
    if (k == count) names[count++] = corpus->runs[i].group;
  }
  const char *near = spp_suggest(group, names, count);
  char hint[96];
  snprintf(hint, sizeof hint, "did you mean '%.60s'?", near ? near : "");
  return spp_diag_set(diag, SPP_ERR_USAGE, "--group", near ? hint : "run without --group to see the groups",
                      "no run of group '%.60s'", group);
}

enum spp_status spp_run_accuracy(struct spp_cli *cli, struct spp_diag *diag) {
  struct scored *scored = spp_arena_alloc(&cli->arena, sizeof *scored);
  struct spp_scoreboard *board = spp_arena_alloc(&cli->arena, sizeof *board);
  struct spp_corpus corpus = {.arena = &cli->arena};
  struct spp_setup setup = {0};
  if (!scored || !board) return spp_diag_oom(diag);
  enum spp_status status = read_files(cli, &corpus, diag);
  if (status != SPP_OK) return status;
  if (corpus.count == 0)
    return spp_diag_set(diag, SPP_ERR_INPUT, "--corpus", "one JSON object a line, as in configs/corpus",
                        "there is no run in the file");
  const char *group = cli->args.group;
  if (group && !has_group(&corpus, group)) return refuse_group(&corpus, group, diag);
  status = spp_score_corpus(&corpus, cli->args.core > 0, group, &cli->arena, board, diag);
  if (status != SPP_OK) return status;
  scored->style = spp_setup_style(cli);
  scored->answer = (struct spp_accuracy_report){board, cli->args.worst > 0 ? (int)cli->args.worst : 0};
  status = spp_setup_report(cli, &setup, NULL, false, &scored->report, diag);
  if (status != SPP_OK) return status;
  return spp_answer_give(cli, &(struct spp_answer){scored, as_text, as_json, as_csv, as_svg}, diag);
}
