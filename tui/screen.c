#include "tui/screen.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

char spp_ink_letter(enum spp_ink role) {
  static const char letters[] = ".dthfcskgwbABCDEF";
  _Static_assert(sizeof letters == (size_t)SPP_INK_COUNT + 1, "one letter a role");
  return letters[role];
}

enum spp_status spp_screen_resize(struct spp_screen *screen, int rows, int cols, struct spp_diag *diag) {
  size_t count = (size_t)rows * (size_t)cols;
  struct spp_cell_glyph *cells = realloc(screen->cells, (count ? count : 1) * sizeof *cells);
  if (!cells) {
    spp_screen_free(screen);
    return spp_diag_oom(diag);
  }
  screen->cells = cells;
  screen->rows = rows;
  screen->cols = cols;
  spp_screen_clear(screen);
  return SPP_OK;
}

void spp_screen_clear(struct spp_screen *screen) {
  for (int i = 0; i < screen->rows * screen->cols; i++)
    screen->cells[i] = (struct spp_cell_glyph){' ', SPP_INK_PLAIN};
  screen->cursor_row = screen->cursor_col = -1;
}

void spp_screen_free(struct spp_screen *screen) {
  free(screen->cells);
  screen->cells = NULL;
  screen->rows = screen->cols = 0;
}

/* Characters we draw with, and what stands for them in ASCII. */
static uint32_t ascii_of(uint32_t ch) {
  static const struct {
    uint32_t from;
    char to;
  } table[] = {
      {0x2502, '|'}, {0x2500, '-'}, {0x2026, '~'}, {0x00d7, 'x'}, {0x2191, '^'}, {0x2193, 'v'}, {0x2190, '<'},
      {0x2192, '>'}, {0x2588, '#'}, {0x2581, '.'}, {0x2582, '.'}, {0x2583, ':'}, {0x2584, ':'}, {0x2585, '+'},
      {0x2586, '+'}, {0x2587, '#'}, {0x2591, '.'}, {0x25b8, '>'}, {0x2713, '*'}, {0x00b7, ';'}, {0x250c, '+'},
      {0x2510, '+'}, {0x2514, '+'}, {0x2518, '+'}, {0x2592, ':'},
  };
  if (ch < 128) return ch;
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
    if (table[i].from == ch) return (uint32_t)(unsigned char)table[i].to;
  return ch >= 0x2800 && ch < 0x2900 ? '*' : '?';
}

static struct spp_cell_glyph *cell_at(const struct spp_screen *screen, const struct spp_rect *rect, int row,
                                      int col) {
  if (row < 0 || col < 0 || row >= rect->rows || col >= rect->cols) return NULL;
  row += rect->row;
  col += rect->col;
  if (row < 0 || col < 0 || row >= screen->rows || col >= screen->cols) return NULL;
  return &screen->cells[row * screen->cols + col];
}

void spp_put_char(struct spp_screen *screen, const struct spp_rect *rect, int row, int col, enum spp_ink role,
                  uint32_t ch) {
  struct spp_cell_glyph *cell = cell_at(screen, rect, row, col);
  if (cell) *cell = (struct spp_cell_glyph){screen->utf8 ? ch : ascii_of(ch), (uint8_t)role};
}

void spp_put_fill(struct spp_screen *screen, const struct spp_rect *rect, int row, int col, enum spp_ink role,
                  uint32_t ch, int count) {
  for (int i = 0; i < count && col + i < rect->cols; i++)
    spp_put_char(screen, rect, row, col + i, role, ch);
}

void spp_put_role(struct spp_screen *screen, const struct spp_rect *rect, int row, enum spp_ink role) {
  for (int col = 0; col < rect->cols; col++) {
    struct spp_cell_glyph *cell = cell_at(screen, rect, row, col);
    if (cell) cell->role = (uint8_t)role;
  }
}

int spp_put(struct spp_screen *screen, const struct spp_rect *rect, int row, int col, enum spp_ink role,
            const char *text) {
  for (size_t left = strlen(text), n; left > 0 && col < rect->cols; text += n, left -= n) {
    char one[5] = "?";
    uint32_t ch = '?';
    int width;
    n = spp_utf8_length(text, left);
    if (n > 0) {
      memcpy(one, text, n);
      one[n] = '\0';
      ch = spp_utf8_decode(text, n);
    }
    width = n > 0 ? spp_utf8_width(one) : 1;
    if (n == 0) n = 1;
    if (ch < 32 || (ch >= 127 && ch < 160)) ch = '?', width = 1;
    if (width == 0) continue; /* combining marks: the letter alone will do */
    if (col + width > rect->cols || (col + width == rect->cols && left > n && spp_utf8_width(text + n) > 0)) {
      spp_put_char(screen, rect, row, rect->cols - 1, role, 0x2026);
      return rect->cols;
    }
    if (width == 2 && !screen->utf8) ch = '?';
    spp_put_char(screen, rect, row, col, role, ch);
    if (width == 2) spp_put_char(screen, rect, row, col + 1, role, ch == '?' ? ' ' : 0);
    col += width;
  }
  return col;
}

int spp_putf(struct spp_screen *screen, const struct spp_rect *rect, int row, int col, enum spp_ink role,
             const char *fmt, ...) {
  char text[512];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return spp_put(screen, rect, row, col, role, text);
}

void spp_put_right(struct spp_screen *screen, const struct spp_rect *rect, int row, enum spp_ink role,
                   const char *text) {
  int col = rect->cols - spp_utf8_width(text);
  spp_put(screen, rect, row, col > 0 ? col : 0, role, text);
}

int spp_put_wrapped(struct spp_screen *screen, const struct spp_rect *rect, int row, enum spp_ink role,
                    const char *text) {
  while (*text && rect->cols > 0) {
    size_t fit = spp_utf8_fit(text, rect->cols), end = fit;
    char line[1024];
    if (text[fit]) {
      while (end > 0 && text[end] != ' ')
        end--;
      if (end == 0) end = fit;
    }
    if (end == 0) return row; /* not even one wide character fits */
    snprintf(line, sizeof line, "%.*s", (int)(end < sizeof line ? end : sizeof line - 1), text);
    spp_put(screen, rect, row++, 0, role, line);
    text += end;
    text += strspn(text, " ");
  }
  return row;
}

void spp_utf8_encode(uint32_t ch, char buf[5]) {
  int n = 0;
  if (ch < 0x80) {
    buf[n++] = (char)ch;
  } else if (ch < 0x800) {
    buf[n++] = (char)(0xc0 | (ch >> 6));
    buf[n++] = (char)(0x80 | (ch & 63));
  } else if (ch < 0x10000) {
    buf[n++] = (char)(0xe0 | (ch >> 12));
    buf[n++] = (char)(0x80 | ((ch >> 6) & 63));
    buf[n++] = (char)(0x80 | (ch & 63));
  } else {
    buf[n++] = (char)(0xf0 | (ch >> 18));
    buf[n++] = (char)(0x80 | ((ch >> 12) & 63));
    buf[n++] = (char)(0x80 | ((ch >> 6) & 63));
    buf[n++] = (char)(0x80 | (ch & 63));
  }
  buf[n] = '\0';
}

/* Line by line; `roles`: letters instead of characters. */
static void print(const struct spp_screen *screen, bool roles, struct spp_str *out) {
  char blank = roles ? '.' : ' ';
  for (int row = 0; row < screen->rows; row++) {
    size_t keep = out->len;
    for (int col = 0; col < screen->cols; col++) {
      const struct spp_cell_glyph *cell = &screen->cells[row * screen->cols + col];
      char text[5] = {spp_ink_letter((enum spp_ink)cell->role)};
      if (!roles && cell->ch == 0) continue;
      if (!roles) spp_utf8_encode(cell->ch, text);
      spp_str_add(out, text);
      if (text[0] != blank) keep = out->len;
    }
    if (out->failed) return;
    if (out->data) out->data[out->len = keep] = '\0';
    spp_str_addc(out, '\n');
  }
}

void spp_screen_text(const struct spp_screen *screen, struct spp_str *out) {
  print(screen, false, out);
}
void spp_screen_roles(const struct spp_screen *screen, struct spp_str *out) {
  print(screen, true, out);
}
