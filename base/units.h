/* Text <-> counts, sizes, rates and times.
 *
 * Parsers take the whole text or refuse it: no sign, no trailing junk, no overflow, no NaN or infinity.
 * Digits may be separated by '_' (1_048_576). One space may stand between number and unit ("58.15 GiB").
 * `what` names the value for the message ("--seq"); it becomes the diagnostic's `where`. A refusal is
 * SPP_ERR_USAGE, and *out is then untouched.
 *
 * Printers write into the caller's buffer and return it. */
#ifndef SPP_BASE_UNITS_H
#define SPP_BASE_UNITS_H

#include <stdint.h>

#include "base/status.h"

enum { SPP_GIB = 1 << 30 }; /* bytes */

/* A plain whole number within [min, max]. */
enum spp_status spp_count_parse(const char *text, const char *what, int64_t min, int64_t max, int64_t *out,
                                struct spp_diag *diag);

/* Tokens: k and m (either case) are 1,024 and 1,048,576: 32k = 32,768; 1.5k = 1,536; b and t, for data sets,
 * are 10^9 and 10^12; a fraction that is not a whole number of tokens is refused. */
enum spp_status spp_tokens_parse(const char *text, const char *what, int64_t min, int64_t max, int64_t *out,
                                 struct spp_diag *diag);

/* Bytes: plain (1234), 1234B, binary KiB MiB GiB TiB PiB, decimal kB KB MB GB TB PB, rounded to the nearest
 * byte. A bare "80G" is refused: it could mean either, and they differ by 7 %. */
enum spp_status spp_bytes_parse(const char *text, const char *what, int64_t *out, struct spp_diag *diag);

/* Bytes per second: bytes (B/s, GB/s, GiB/s, ...) or bits (b/s, Gb/s, ...; 400Gb/s = 50e9). */
enum spp_status spp_rate_parse(const char *text, const char *what, double *bytes_per_s,
                               struct spp_diag *diag);

/* Seconds: ns us ms s min h d. A unit is required. */
enum spp_status spp_seconds_parse(const char *text, const char *what, double *s, struct spp_diag *diag);

/* A real number within [min, max]; a minus sign and an exponent are allowed. */
enum spp_status spp_real_parse(const char *text, const char *what, double min, double max, double *out,
                               struct spp_diag *diag);

const char *spp_bytes_print(int64_t bytes, char buf[32]);         /* "58.1 GiB", "403 MiB", "512 B" */
const char *spp_bytes_print_decimal(int64_t bytes, char buf[32]); /* "53.2 GB", for traffic */
const char *spp_tokens_print(int64_t tokens, char buf[32]);       /* "32k", "1m", else "32,000" */
const char *spp_int_print(int64_t value, char buf[32]);           /* "32,768" */
const char *spp_seconds_print(double s, char buf[32]);            /* "9.6 s", "12.3 ms", "3 h 12 min" */

#endif
