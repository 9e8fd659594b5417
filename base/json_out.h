/* Streaming JSON writer into a string: key order is the order of the calls, integers are exact, doubles carry
 * six significant digits (seventeen on request) in the C locale, NaN and infinity become null.
 *
 * key names a member; it is NULL for elements of an array and for the outermost value. */
#ifndef SPP_BASE_JSON_OUT_H
#define SPP_BASE_JSON_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/strbuf.h"

enum { SPP_JO_MAX_DEPTH = 64 };

struct spp_jo {
  struct spp_str *out;
  bool pretty;
  int depth;
  bool failed; /* unbalanced or too deep: a fault of the caller */
  bool is_array[SPP_JO_MAX_DEPTH];
  bool has_any[SPP_JO_MAX_DEPTH]; /* something was written at this depth: a comma comes next */
};

/* Begin writing into out. pretty: one member a line, indented by one space a level; else one line. */
void spp_jo_begin(struct spp_jo *jo, struct spp_str *out, bool pretty);

void spp_jo_obj(struct spp_jo *jo, const char *key);
void spp_jo_arr(struct spp_jo *jo, const char *key);
/* Close the innermost object or array; the outermost one also ends the line. */
void spp_jo_end(struct spp_jo *jo);

void spp_jo_i64(struct spp_jo *jo, const char *key, int64_t value);
/* Six digits; what is not finite becomes null. */
void spp_jo_real(struct spp_jo *jo, const char *key, double value);
/* The fewest digits (at least 15) that read back as this very double. */
void spp_jo_real_exact(struct spp_jo *jo, const char *key, double value);
/* NULL becomes null. Bytes that are not UTF-8 become U+FFFD, so that the output is always valid. */
void spp_jo_str(struct spp_jo *jo, const char *key, const char *text);
void spp_jo_bool(struct spp_jo *jo, const char *key, bool value);
void spp_jo_null(struct spp_jo *jo, const char *key);
/* null unless the value is known. */
void spp_jo_i64_if(struct spp_jo *jo, const char *key, int64_t value, bool known);
void spp_jo_real_if(struct spp_jo *jo, const char *key, double value, bool known);
void spp_jo_bool_if(struct spp_jo *jo, const char *key, bool value, bool known);

/* True when everything was closed and memory sufficed. */
bool spp_jo_ok(const struct spp_jo *jo);

#endif
