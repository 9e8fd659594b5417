#include "base/utf8.h"

#include <stdbool.h>
#include <string.h>

size_t spp_utf8_length(const char *text, size_t left) {
  const unsigned char *p = (const unsigned char *)text;
  unsigned char low = 0x80, high = 0xBF;
  size_t n;
  if (p[0] < 0x80) return 1;
  if (p[0] >= 0xC2 && p[0] <= 0xDF)
    n = 2;
  else if (p[0] >= 0xE0 && p[0] <= 0xEF) {
    n = 3;
    if (p[0] == 0xE0) low = 0xA0;
    if (p[0] == 0xED) high = 0x9F;
  } else if (p[0] >= 0xF0 && p[0] <= 0xF4) {
    n = 4;
    if (p[0] == 0xF0) low = 0x90;
    if (p[0] == 0xF4) high = 0x8F;
  } else
    return 0;
  if (left < n || p[1] < low || p[1] > high) return 0;
  for (size_t i = 2; i < n; i++)
    if (p[i] < 0x80 || p[i] > 0xBF) return 0;
  return n;
}

uint32_t spp_utf8_decode(const char *text, size_t n) {
  static const uint32_t first_mask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  const unsigned char *p = (const unsigned char *)text;
  uint32_t code = p[0] & first_mask[n];
  for (size_t i = 1; i < n; i++)
    code = code << 6 | (p[i] & 0x3F);
  return code;
}

struct range {
  uint32_t first, last;
};

static bool inside(uint32_t code, const struct range *ranges, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (code >= ranges[i].first && code <= ranges[i].last) return true;
  return false;
}

/* Columns of one character. wcwidth() knows more characters but answers -1 for all of them in the C locale.
 * The ranges are the blocks of Unicode 15 DerivedGeneralCategory (Mn) and EastAsianWidth (W, F) that occur in
 * names and reports. */
static int char_width(uint32_t code) {
  static const struct range none[] = {{0x0300, 0x036F}, {0x0483, 0x0489},  {0x200B, 0x200F},
                                      {0x20D0, 0x20F0}, {0xFE00, 0xFE0F},  {0xFE20, 0xFE2F},
                                      {0xFEFF, 0xFEFF}, {0xE0100, 0xE01EF}};
  static const struct range wide[] = {
      {0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0x33FF},   {0x3400, 0x4DBF},
      {0x4E00, 0x9FFF},   {0xA000, 0xA4CF},   {0xA960, 0xA97C},   {0xAC00, 0xD7A3},
      {0xF900, 0xFAFF},   {0xFE30, 0xFE6B},   {0xFF01, 0xFF60},   {0xFFE0, 0xFFE6},
      {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};
  if (code < 0x300) return 1;
  if (inside(code, none, sizeof none / sizeof none[0])) return 0;
  return inside(code, wide, sizeof wide / sizeof wide[0]) ? 2 : 1;
}

size_t spp_utf8_fit(const char *text, int columns) {
  size_t size = strlen(text), at = 0;
  while (at < size) {
    size_t n = spp_utf8_length(text + at, size - at);
    int width = n == 0 ? 1 : char_width(spp_utf8_decode(text + at, n));
    if (width > columns) break;
    columns -= width;
    at += n == 0 ? 1 : n;
  }
  return at;
}

int spp_utf8_width(const char *text) {
  size_t size = strlen(text);
  int columns = 0;
  for (size_t at = 0; at < size;) {
    size_t n = spp_utf8_length(text + at, size - at);
    columns += n == 0 ? 1 : char_width(spp_utf8_decode(text + at, n));
    at += n == 0 ? 1 : n;
  }
  return columns;
}
