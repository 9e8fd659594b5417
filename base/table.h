/* A plain text table: columns as wide as their widest cell, two spaces between, no trailing blanks. */
#ifndef SPP_BASE_TABLE_H
#define SPP_BASE_TABLE_H

#include <stdbool.h>

#include "base/status.h"
#include "base/strbuf.h"

enum { SPP_TABLE_MAX_COLUMNS = 24 };
enum spp_align { SPP_LEFT, SPP_RIGHT };

struct spp_table {
  int columns;
  bool has_header;
  bool failed;
  enum spp_align align[SPP_TABLE_MAX_COLUMNS];
  char **cells; /* row by row */
  int count, cap;
};

/* align: one letter a column, 'l' or 'r'; columns beyond SPP_TABLE_MAX_COLUMNS are not kept. */
void spp_table_init(struct spp_table *table, const char *align);
void spp_table_free(struct spp_table *table);

/* The header, one name a column; call it before the first cell, or not at all. */
void spp_table_header(struct spp_table *table, const char *const *names);
/* Append the next cell; rows fill from the left. The text is copied; NULL is "". */
void spp_table_cell(struct spp_table *table, const char *text);
void spp_table_cellf(struct spp_table *table, const char *fmt, ...) SPP_PRINTF(2, 3);
/* Fill the rest of the row with empty cells. */
void spp_table_end_row(struct spp_table *table);

/* Append the table to out, each line after `indent` spaces. When max_width > 0 and a left-aligned last column
 * passes it, that column wraps onto further lines at spaces. Out of memory sets out->failed. */
void spp_table_print(const struct spp_table *table, int indent, int max_width, struct spp_str *out);

#endif
