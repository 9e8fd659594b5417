/* Whole-number arithmetic of the shell: $((2 * NODES)). */
#ifndef SPP_INTEROP_ARITH_H
#define SPP_INTEROP_ARITH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The number that a name stands for; false: none. */
typedef bool spp_arith_lookup(void *context, const char *name, size_t length, int64_t *value);

/* The value of an expression of whole numbers, names (with or without '$'), + - * / % and brackets; false for
 * anything else, for a name without a value, a division by zero, and results beyond 2^60. */
bool spp_arith(const char *text, size_t length, spp_arith_lookup *lookup, void *context, int64_t *value);

#endif
