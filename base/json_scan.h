/* A strict pass over JSON text before it is parsed: finds every syntax fault with its line and column, and
 * bounds what the parser may meet (nesting, number length, encoding). Used by base/json.c only. */
#ifndef SPP_BASE_JSON_SCAN_H
#define SPP_BASE_JSON_SCAN_H

#include <stddef.h>

#include "base/status.h"

/* SPP_OK when the len bytes at text are exactly one JSON value (RFC 8259; a leading byte order mark is let
 * pass) nested at most max_depth deep; else SPP_ERR_INPUT with where = "name:line:column". */
enum spp_status spp_json_scan(const char *text, size_t len, const char *name, int max_depth,
                              struct spp_diag *diag);

#endif
