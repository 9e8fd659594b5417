/* Status codes and diagnostics. The function that detects a fault fills the caller's spp_diag and returns the
 * status; callers pass it up; only cli/ prints it and exits. */
#ifndef SPP_BASE_STATUS_H
#define SPP_BASE_STATUS_H

#include <stddef.h>

#if defined(__GNUC__)
#define SPP_PRINTF(format_arg, first_arg) __attribute__((format(printf, format_arg, first_arg)))
#else
#define SPP_PRINTF(format_arg, first_arg)
#endif

/* The numbers are the exit codes of the program. */
enum spp_status {
  SPP_OK = 0,
  SPP_ERR_INTERNAL = 1,  /* our fault, or out of memory */
  SPP_ERR_USAGE = 2,     /* bad command line */
  SPP_ERR_INPUT = 3,     /* bad input file */
  SPP_ERR_NOFIT = 4,     /* nothing fits */
  SPP_ERR_TOLERANCE = 5, /* measurement outside tolerance */
  SPP_ERR_ABSENT = 6,    /* needed device or library absent */
  SPP_INTERRUPTED = 130
};

/* What is wrong, where (file, line, JSON path or option), and what to do about it. Each part is one line of
 * printable text; where and hint may be empty. */
struct spp_diag {
  enum spp_status status;
  char what[320];
  char where[320];
  char hint[320];
};

/* Fill diag (may be NULL) and return status. where and hint may be NULL; what is printf-formatted. Control
 * characters become '?' and overlong parts end in "...", so that a diagnostic is always one safe line. */
enum spp_status spp_diag_set(struct spp_diag *diag, enum spp_status status, const char *where,
                             const char *hint, const char *what_fmt, ...) SPP_PRINTF(5, 6);

/* Out of memory, said the same way everywhere. Returns SPP_ERR_INTERNAL. */
enum spp_status spp_diag_oom(struct spp_diag *diag);

/* "what: where: hint" without the parts that are empty, into buf; returns buf. */
const char *spp_diag_format(const struct spp_diag *diag, char *buf, size_t size);

/* The lower-case word of a status: "ok", "usage", ...; never NULL. */
const char *spp_status_name(enum spp_status status);

#endif
