#include "base/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/utf8.h"

enum { GAP = 2, MIN_WRAP = 20 };

void spp_table_init(struct spp_table *table, const char *align) {
  *table = (struct spp_table){0};
  for (; *align && table->columns < SPP_TABLE_MAX_COLUMNS; align++)
    table->align[table->columns++] = *align == 'r' ? SPP_RIGHT : SPP_LEFT;
}

void spp_table_free(struct spp_table *table) {
  for (int i = 0; i < table->count; i++)
    free(table->cells[i]);
  free(table->cells);
  *table = (struct spp_table){0};
}

/* Takes over text. */
static void append(struct spp_table *table, char *text) {
  if (table->count == table->cap) {
    int cap = table->cap ? table->cap * 2 : 64;
    char **cells = realloc(table->cells, (size_t)cap * sizeof *cells);
    if (cells) {
      table->cells = cells;
      table->cap = cap;
    }
  }
  if (!text || table->count == table->cap) {
    table->failed = true;
    free(text);
    return;
  }
  table->cells[table->count++] = text;
}

void spp_table_cell(struct spp_table *table, const char *text) {
  append(table, strdup(text ? text : ""));
}

void spp_table_cellf(struct spp_table *table, const char *fmt, ...) {
  struct spp_str text;
  va_list args, again;
  spp_str_init(&text);
  va_start(args, fmt);
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  char *cell = n < 0 ? NULL : malloc((size_t)n + 1);
  if (cell) vsnprintf(cell, (size_t)n + 1, fmt, again);
  va_end(again);
  append(table, cell);
}

void spp_table_header(struct spp_table *table, const char *const *names) {
  table->has_header = true;
  for (int i = 0; i < table->columns; i++)
    spp_table_cell(table, names[i]);
}

void spp_table_end_row(struct spp_table *table) {
  while (table->columns > 0 && table->count % table->columns != 0 && !table->failed)
    spp_table_cell(table, "");
}

/* Widest cell of each column; widths are zero before. */
static void measure(const struct spp_table *table, int *widths) {
  for (int i = 0; i < table->count; i++) {
    int width = spp_utf8_width(table->cells[i]), column = i % table->columns;
    if (width > widths[column]) widths[column] = width;
  }
}

static void trim(struct spp_str *out, size_t from) {
  while (out->len > from && out->data[out->len - 1] == ' ')
    out->data[--out->len] = '\0';
}

/* Print text in lines of at most `columns`, later ones after `indent` spaces. */
static void print_wrapped(const char *text, int columns, int indent, struct spp_str *out) {
  while (spp_utf8_width(text) > columns) {
    size_t fit = spp_utf8_fit(text, columns), cut = fit;
    while (cut > 0 && text[cut] != ' ')
      cut--;
    if (cut == 0) cut = fit;
    spp_str_addn(out, text, cut);
    text += cut;
    while (*text == ' ')
      text++;
    if (!*text) return;
    spp_str_addc(out, '\n');
    spp_str_fill(out, ' ', indent);
  }
  spp_str_add(out, text);
}

static void print_row(const struct spp_table *table, int first, const int *widths, int indent, int max_width,
                      struct spp_str *out) {
  size_t start = out->len;
  int at = indent;
  spp_str_fill(out, ' ', indent);
  for (int i = 0; i < table->columns && first + i < table->count; i++) {
    const char *text = table->cells[first + i];
    int pad = widths[i] - spp_utf8_width(text);
    if (table->align[i] == SPP_RIGHT) spp_str_fill(out, ' ', pad);
    bool last = i == table->columns - 1;
    if (last && table->align[i] == SPP_LEFT && max_width - at >= MIN_WRAP)
      print_wrapped(text, max_width - at, at, out);
    else
      spp_str_add(out, text);
    if (last) break;
    if (table->align[i] == SPP_LEFT) spp_str_fill(out, ' ', pad);
    spp_str_fill(out, ' ', GAP);
    at += widths[i] + GAP;
  }
  trim(out, start);
  spp_str_addc(out, '\n');
}

void spp_table_print(const struct spp_table *table, int indent, int max_width, struct spp_str *out) {
  int widths[SPP_TABLE_MAX_COLUMNS] = {0};
  if (table->failed) out->failed = true;
  if (table->columns == 0 || table->failed) return;
  measure(table, widths);
  for (int first = 0; first < table->count; first += table->columns)
    print_row(table, first, widths, indent, max_width, out);
}
