/* Text <-> double in the C locale, whatever setlocale said. */
#ifndef SPP_BASE_DECIMAL_H
#define SPP_BASE_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>

/* Longest number in characters that spp_decimal_parse takes. */
enum { SPP_DECIMAL_MAX = 60 };

/* The n bytes at text as a finite double: [-]digits[.digits][e[+-]digits], all of it, nothing else. False for
 * anything else, including infinity, NaN, hexadecimal, and a magnitude beyond double. */
bool spp_decimal_parse(const char *text, size_t n, double *out);

/* value with `digits` (1..17) significant digits, as %g prints it in the C locale; value is finite. */
const char *spp_decimal_print(double value, int digits, char buf[32]);

/* value with `places` (0..9) digits after the point, in the C locale; value is finite and below 1e18. */
const char *spp_decimal_fixed(double value, int places, char buf[32]);

#endif
