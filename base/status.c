#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Cut an overlong text at a character boundary, mark the cut, and make every control byte visible. */
static void tidy(char *text, size_t size, size_t wanted) {
  if (wanted >= size) {
    size_t cut = size - 4;
    while (cut > 0 && ((unsigned char)text[cut] & 0xC0) == 0x80)
      cut--;
    memcpy(text + cut, "...", 4);
  }
  for (char *c = text; *c; c++)
    if ((unsigned char)*c < 0x20 || *c == 0x7F) *c = '?';
}

static void put(char *out, size_t size, const char *text) {
  int wanted = snprintf(out, size, "%s", text ? text : "");
  tidy(out, size, wanted < 0 ? 0 : (size_t)wanted);
}

enum spp_status spp_diag_set(struct spp_diag *diag, enum spp_status status, const char *where,
                             const char *hint, const char *what_fmt, ...) {
  if (!diag) return status;
  /* The arguments may point into diag itself (a caller that adds to a message): format before writing. */
  struct spp_diag fresh;
  fresh.status = status;
  va_list args;
  va_start(args, what_fmt);
  int wanted = vsnprintf(fresh.what, sizeof fresh.what, what_fmt, args);
  va_end(args);
  if (wanted < 0) fresh.what[0] = '\0';
  tidy(fresh.what, sizeof fresh.what, wanted < 0 ? 0 : (size_t)wanted);
  put(fresh.where, sizeof fresh.where, where);
  put(fresh.hint, sizeof fresh.hint, hint);
  *diag = fresh;
  return status;
}

enum spp_status spp_diag_oom(struct spp_diag *diag) {
  return spp_diag_set(diag, SPP_ERR_INTERNAL, NULL, NULL, "out of memory");
}

const char *spp_diag_format(const struct spp_diag *diag, char *buf, size_t size) {
  const char *where_colon = diag->where[0] ? ": " : "";
  const char *hint_colon = diag->hint[0] ? ": " : "";
  snprintf(buf, size, "%s%s%s%s%s", diag->what, where_colon, diag->where, hint_colon, diag->hint);
  return buf;
}

const char *spp_status_name(enum spp_status status) {
  switch (status) {
  case SPP_OK: return "ok";
  case SPP_ERR_INTERNAL: return "internal";
  case SPP_ERR_USAGE: return "usage";
  case SPP_ERR_INPUT: return "input";
  case SPP_ERR_NOFIT: return "nofit";
  case SPP_ERR_TOLERANCE: return "tolerance";
  case SPP_ERR_ABSENT: return "absent";
  case SPP_INTERRUPTED: return "interrupted";
  }
  return "unknown";
}
