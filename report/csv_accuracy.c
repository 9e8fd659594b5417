/* One line a run, through the list writer. */
#include <math.h>
#include <stdlib.h>

#include "report/accuracy.h"

static const struct spp_list_column columns[] = {{"id", NULL},
                                                 {"group", NULL},
                                                 {"framework", NULL},
                                                 {"predicted_memory_bytes", NULL},
                                                 {"measured_memory_bytes", NULL},
                                                 {"memory_error", NULL},
                                                 {"predicted_step_s", NULL},
                                                 {"measured_step_s", NULL},
                                                 {"time_error", NULL},
                                                 {"predicted_fits", NULL},
                                                 {"oom", NULL},
                                                 {"skipped", NULL}};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

static struct spp_echo text(const char *value) {
  return (struct spp_echo){.kind = value ? SPP_ECHO_TEXT : SPP_ECHO_NULL, .text = value};
}
static struct spp_echo real(double value, bool known) {
  return (struct spp_echo){.kind = known && !isnan(value) ? SPP_ECHO_REAL : SPP_ECHO_NULL, .real = value};
}
static struct spp_echo yes_no(int value, bool known) {
  return (struct spp_echo){.kind = known ? SPP_ECHO_BOOL : SPP_ECHO_NULL, .i64 = value};
}

static void fill(const struct spp_run_score *r, struct spp_echo *cells) {
  bool scored = !r->skip;
  cells[0] = text(r->run->id);
  cells[1] = text(r->run->group);
  cells[2] = text(r->run->framework ? r->run->framework->name : NULL);
  cells[3] = real(r->predicted_memory_bytes, scored);
  cells[4] = real(r->measured_memory_bytes, r->measured_memory_bytes > 0);
  cells[5] = real(r->memory_error, true);
  cells[6] = real(r->predicted_step_s, scored);
  cells[7] = real(r->measured_step_s, r->measured_step_s > 0);
  cells[8] = real(r->time_error, true);
  cells[9] = yes_no(r->predicted_fits, scored);
  cells[10] = yes_no(r->run->oom, r->run->oom != SPP_UNSET);
  cells[11] = text(r->skip);
}

void spp_csv_accuracy(const struct spp_accuracy_report *answer, struct spp_str *out) {
  const struct spp_scoreboard *board = answer->board;
  struct spp_list list = {.what = "runs", .column_count = COLUMNS, .count = board->count};
  for (int c = 0; c < COLUMNS; c++)
    list.columns[c] = columns[c];
  list.cells = calloc((size_t)board->count * COLUMNS + 1, sizeof *list.cells);
  if (!list.cells) {
    out->failed = true;
    return;
  }
  for (int i = 0; i < board->count; i++)
    fill(&board->runs[i], &list.cells[(size_t)i * COLUMNS]);
  spp_csv_list(&list, out);
  free(list.cells);
}
