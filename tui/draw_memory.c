#include <stdio.h>

#include "base/units.h"
#include "report/text.h"
#include "tui/draw.h"

/* One letter a part, as in the text report. */
static const char letters[SPP_PART_COUNT + 1] = "wgmoaLtlkSvncu";

/* The share of `bytes` in `cols` columns that stand for `whole`. */
static int columns_of(int64_t bytes, int64_t whole, int cols) {
  return whole > 0 && bytes > 0 ? (int)((double)bytes / (double)whole * cols + 0.5) : 0;
}

/* [wwggoooo|....]: the parts against the card; what passes the card stands behind '|'. */
static void draw_bar(const struct spp_memory *memory, const struct spp_rect *rect, int row,
                     struct spp_screen *screen) {
  int cols = rect->cols - 4, used = 0;
  int64_t whole =
      memory->device_bytes > memory->capacity_bytes ? memory->device_bytes : memory->capacity_bytes;
  int limit = columns_of(memory->capacity_bytes, whole, cols);
  int64_t sum = 0;
  spp_put(screen, rect, row, 1, SPP_INK_DIM, "[");
  for (int part = 0; part < SPP_PART_COUNT; part++) {
    sum += memory->parts[part] > 0 ? memory->parts[part] : 0;
    for (int end = columns_of(sum, whole, cols); used < end && used < cols; used++)
      spp_put_char(screen, rect, row, 2 + used, spp_ink_series(part), (uint32_t)(unsigned char)letters[part]);
  }
  spp_put_fill(screen, rect, row, 2 + used, SPP_INK_DIM, '.', cols - used);
  if (limit < cols) spp_put_char(screen, rect, row, 2 + limit, SPP_INK_BAD, '|');
  spp_put(screen, rect, row, 2 + cols, SPP_INK_DIM, "]");
}

static void draw_facts(const struct spp_plan *plan, const struct spp_rect *rect, struct spp_screen *screen) {
  const struct spp_memory *memory = &plan->prediction.memory;
  char a[32], b[32], c[32], d[32];
  spp_putf(screen, rect, 1, 1, memory->fits ? SPP_INK_GOOD : SPP_INK_BAD,
           "%s  %s of %s GiB (80 %%: %s to %s)", memory->fits ? "FITS" : "OOM",
           spp_text_gib(memory->device_bytes, a), spp_text_gib(memory->capacity_bytes, b),
           spp_text_gib(memory->low_bytes, c), spp_text_gib(memory->high_bytes, d));
  int col = spp_put(screen, rect, 3, 1, SPP_INK_DIM, "phases");
  for (int phase = 0; phase < SPP_PHASE_COUNT; phase++) {
    bool peak = spp_moment_phase(memory->peak_moment) == (enum spp_phase)phase;
    col = spp_putf(screen, rect, 3, col + 2, peak ? SPP_INK_WARN : SPP_INK_PLAIN, "%s %s%s",
                   spp_phase_name((enum spp_phase)phase), spp_text_gib(memory->phase_bytes[phase], a),
                   peak ? " (peak)" : "");
  }
  col = spp_putf(screen, rect, 4, 1, SPP_INK_DIM, "worst rank %lld (stage %lld)",
                 (long long)memory->worst_rank, (long long)memory->worst_stage);
  if (memory->host_bytes_per_node > 0)
    spp_putf(screen, rect, 4, col + 2, memory->host_fits ? SPP_INK_PLAIN : SPP_INK_BAD, "host %s a node%s",
             spp_bytes_print(memory->host_bytes_per_node, a),
             memory->host_fits ? "" : ": more than there is");
}

static void draw_part(const struct spp_memory *memory, int part, const struct spp_rect *rect, int line,
                      bool here, struct spp_screen *screen) {
  int64_t bytes = part < 0 ? memory->device_bytes : memory->parts[part];
  double share = memory->capacity_bytes > 0 ? 100.0 * (double)bytes / (double)memory->capacity_bytes : 0;
  char text[32];
  if (part >= 0)
    spp_put_char(screen, rect, line, 1, spp_ink_series(part), (uint32_t)(unsigned char)letters[part]);
  spp_put(screen, rect, line, 3, SPP_INK_PLAIN,
          part < 0 ? "all of it" : spp_part_label((enum spp_part)(part)));
  spp_putf(screen, rect, line, 21, SPP_INK_PLAIN, "%10s %5.1f %%", spp_bytes_print(bytes, text), share);
  if (part >= 0 && rect->cols > 46)
    spp_put_fill(screen, rect, line, 41, spp_ink_series(part), 0x2588,
                 columns_of(bytes, memory->capacity_bytes, rect->cols - 42));
  if (here) spp_put_role(screen, rect, line, SPP_INK_SELECTED);
}

/* Where there is room: the phases against the card, one bar each. */
static void draw_phases(const struct spp_memory *memory, const struct spp_rect *rect, int row,
                        struct spp_screen *screen) {
  char text[32];
  if (rect->rows - row < SPP_PHASE_COUNT + 1 || rect->cols < 47) return;
  spp_put_fill(screen, rect, row, 0, SPP_INK_COLUMN, ' ', rect->cols);
  spp_put(screen, rect, row++, 3, SPP_INK_COLUMN, "phase");
  for (int phase = 0; phase < SPP_PHASE_COUNT; phase++, row++) {
    int64_t bytes = memory->phase_bytes[phase];
    bool over = bytes > memory->capacity_bytes;
    spp_put(screen, rect, row, 3, SPP_INK_PLAIN, spp_phase_name((enum spp_phase)phase));
    spp_putf(screen, rect, row, 21, SPP_INK_PLAIN, "%10s %5.1f %%", spp_bytes_print(bytes, text),
             memory->capacity_bytes > 0 ? 100.0 * (double)bytes / (double)memory->capacity_bytes : 0.0);
    spp_put_fill(screen, rect, row, 41, over ? SPP_INK_BAD : SPP_INK_GOOD, 0x2588,
                 columns_of(bytes, memory->capacity_bytes, rect->cols - 42));
  }
}

void spp_draw_memory(const struct spp_app *app, const struct spp_rect *rect, struct spp_screen *screen) {
  const struct spp_plan *plan = spp_app_selected(app);
  struct spp_draw_list list = spp_draw_list(app, SPP_PANE_DETAIL, rect);
  spp_draw_head(app, SPP_PANE_DETAIL, rect, screen, "1 Memory", "2 comm 3 time 4 compare 5 why ");
  if (!plan) return;
  if (list.line >= 5) {
    draw_facts(plan, rect, screen);
    draw_bar(&plan->prediction.memory, rect, 2, screen);
  }
  for (int i = 0; i < list.lines && list.top + i < list.count; i++)
    draw_part(&plan->prediction.memory, spp_app_memory_part(plan, list.top + i), rect, list.line + i,
              list.focused && list.top + i == list.cursor, screen);
  if (list.count < list.lines)
    draw_phases(&plan->prediction.memory, rect, list.line + list.count + 1, screen);
}
