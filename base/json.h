/* Read-only, typed access to a JSON document, with the JSON path in every error: the only file that sees
 * cJSON.
 *
 * Loading refuses (SPP_ERR_INPUT, with line:column or path): syntax errors, duplicate keys, text after the
 * value, invalid UTF-8, \u0000, lone surrogates, numbers beyond double or longer than 60 characters, nesting
 * over 64, and files over 1 MiB (spp_json_load) or the given limit. */
#ifndef SPP_BASE_JSON_H
#define SPP_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { SPP_JSON_MAX_DEPTH = 64, SPP_JSON_MAX_MISSING = 4 };
#define SPP_JSON_MAX_BYTES   (INT64_C(1) << 20)
#define SPP_JSON_LIMIT_BYTES (INT64_C(64) << 20) /* largest limit that can be asked for */
/* Largest magnitude of an integer that is read: beyond it neighbours share a double (2^53 + 1 reads as 2^53).
 */
#define SPP_JSON_EXACT_MAX ((INT64_C(1) << 53) - 1)

struct spp_json_doc; /* owns the text of every string it hands out */

/* A value in a document; node NULL means absent, and then the rest remembers what was asked for. Small; pass
 * it by value. The document, and the keys asked for, must outlive it. */
struct spp_json {
  const void *node;
  const struct spp_json_doc *doc;
  const void *base; /* absent: the deepest value that was there */
  struct {
    const char *key; /* NULL: array index */
    int index;
  } missing[SPP_JSON_MAX_MISSING];
  int missing_count;
};

enum spp_json_kind {
  SPP_JSON_ABSENT,
  SPP_JSON_NULL,
  SPP_JSON_BOOL,
  SPP_JSON_INT, /* integral and below 2^53 in magnitude, however written (1, 1.0, 1e3) */
  SPP_JSON_REAL,
  SPP_JSON_STRING,
  SPP_JSON_ARRAY,
  SPP_JSON_OBJECT
};

/* Load a file of at most 1 MiB; "-" is standard input. The caller frees *doc with spp_json_free. */
enum spp_status spp_json_load(const char *path, struct spp_json_doc **doc, struct spp_diag *diag);
/* The same with another limit, at most 64 MiB. */
enum spp_status spp_json_load_limit(const char *path, int64_t max_bytes, struct spp_json_doc **doc,
                                    struct spp_diag *diag);
/* Parse len bytes of text, which need not be NUL-terminated; name stands for the file in messages. */
enum spp_status spp_json_parse(const char *text, size_t len, const char *name, struct spp_json_doc **doc,
                               struct spp_diag *diag);
void spp_json_free(struct spp_json_doc *doc);
/* The file name given at load or parse. */
const char *spp_json_name(const struct spp_json_doc *doc);

struct spp_json spp_json_root(const struct spp_json_doc *doc);
/* Member of an object, by exact (case-sensitive) key; absent when v is no object or has no such key. */
struct spp_json spp_json_get(struct spp_json v, const char *key);
/* Element of an array; absent when v is no array or i is outside. Linear in i: walk long arrays with next. */
struct spp_json spp_json_at(struct spp_json v, int i);
/* First element or member, and the one after v; absent at the end. */
struct spp_json spp_json_first(struct spp_json v);
struct spp_json spp_json_next(struct spp_json v);
/* Elements of an array or members of an object; 0 for anything else. */
int spp_json_size(struct spp_json v);
/* Key and value of the i-th member in file order; NULL and absent when outside. */
const char *spp_json_key(struct spp_json obj, int i);
struct spp_json spp_json_member(struct spp_json obj, int i);
/* The key under which v stands in its object; NULL for elements and the root. */
const char *spp_json_own_key(struct spp_json v);

enum spp_json_kind spp_json_kind(struct spp_json v);
/* "an integer", "a string", ... for messages. */
const char *spp_json_kind_name(enum spp_json_kind kind);

/* Typed reads. Absent, null, wrong kind or out of range: SPP_ERR_INPUT naming file and path, *out untouched.
 */
enum spp_status spp_json_i64(struct spp_json v, int64_t min, int64_t max, int64_t *out,
                             struct spp_diag *diag);
enum spp_status spp_json_real(struct spp_json v, double min, double max, double *out, struct spp_diag *diag);
enum spp_status spp_json_bool(struct spp_json v, bool *out, struct spp_diag *diag);
enum spp_status spp_json_string(struct spp_json v, const char **out,
                                struct spp_diag *diag); /* borrowed from doc */

/* The same, but absent and null give the fallback. */
enum spp_status spp_json_i64_or(struct spp_json v, int64_t min, int64_t max, int64_t fallback, int64_t *out,
                                struct spp_diag *diag);
enum spp_status spp_json_real_or(struct spp_json v, double min, double max, double fallback, double *out,
                                 struct spp_diag *diag);
enum spp_status spp_json_bool_or(struct spp_json v, bool fallback, bool *out, struct spp_diag *diag);
enum spp_status spp_json_string_or(struct spp_json v, const char *fallback, const char **out,
                                   struct spp_diag *diag);

/* v must be an object (array): SPP_OK or SPP_ERR_INPUT with its path. */
enum spp_status spp_json_expect(struct spp_json v, enum spp_json_kind kind, struct spp_diag *diag);

/* Path of v, such as $.vision_config.layers[3]; for an absent value the one asked for. Returns buf. */
const char *spp_json_path(struct spp_json v, char *buf, size_t size);

/* Refuse v with a message of the caller's own, placed like the others ("FILE: PATH"). Returns SPP_ERR_INPUT.
 */
enum spp_status spp_json_refuse(struct spp_json v, const char *hint, struct spp_diag *diag,
                                const char *what_fmt, ...) SPP_PRINTF(4, 5);

#endif
