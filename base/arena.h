/* Memory that is freed all at once: loaded files live in one arena with one free. Not for threads to share.
 */
#ifndef SPP_BASE_ARENA_H
#define SPP_BASE_ARENA_H

#include <stddef.h>

#include "base/status.h"

struct spp_arena_block;

struct spp_arena {
  struct spp_arena_block *blocks; /* newest first */
  size_t used_bytes;              /* of the newest block */
};

void spp_arena_init(struct spp_arena *arena);
void spp_arena_free(struct spp_arena *arena);

/* Zeroed and aligned for any type; NULL when memory is out. bytes may be 0. */
void *spp_arena_alloc(struct spp_arena *arena, size_t bytes);
/* count elements of size bytes each, zeroed; NULL when the product overflows or memory is out. */
void *spp_arena_array(struct spp_arena *arena, size_t count, size_t size);
/* Copy of text; NULL for NULL or when memory is out. */
char *spp_arena_strdup(struct spp_arena *arena, const char *text);
char *spp_arena_printf(struct spp_arena *arena, const char *fmt, ...) SPP_PRINTF(2, 3);

#endif
