/* UTF-8 by the byte. */
#ifndef SPP_BASE_UTF8_H
#define SPP_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Length of the well-formed sequence at text (RFC 3629: no overlong forms, no surrogates, at most U+10FFFF),
 * of which `left` bytes may be read; 0 when there is none. left > 0. */
size_t spp_utf8_length(const char *text, size_t left);

/* The code point of the well-formed sequence of n bytes at text. */
uint32_t spp_utf8_decode(const char *text, size_t n);

/* Terminal columns of NUL-terminated text: wide characters take two, combining ones none, a byte that is not
 * UTF-8 one. Independent of the locale. */
int spp_utf8_width(const char *text);

/* Bytes of the longest beginning of text that fits into `columns`. */
size_t spp_utf8_fit(const char *text, int columns);

#endif
