/* A growing string. Appending never fails loudly: on out-of-memory `failed` is set, later appends do nothing,
 * and the owner checks once at the end. Always NUL-terminated; data is never NULL after the first append. */
#ifndef SPP_BASE_STRBUF_H
#define SPP_BASE_STRBUF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct spp_str {
  char *data;
  size_t len; /* bytes without the NUL */
  size_t cap;
  bool failed;
};

void spp_str_init(struct spp_str *s);
void spp_str_free(struct spp_str *s);
/* Empty it, keep the memory. Clears `failed` too. */
void spp_str_clear(struct spp_str *s);

void spp_str_add(struct spp_str *s, const char *text);
void spp_str_addn(struct spp_str *s, const char *bytes, size_t n);
void spp_str_addc(struct spp_str *s, char ch);
void spp_str_addf(struct spp_str *s, const char *fmt, ...) SPP_PRINTF(2, 3);
/* ch, count times; nothing when count <= 0. */
void spp_str_fill(struct spp_str *s, char ch, int count);

/* The text so far: "" when nothing was added. Owned by s. */
const char *spp_str_text(const struct spp_str *s);

#endif
