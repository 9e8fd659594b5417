#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 16 * 1024 };

struct spp_arena_block {
  struct spp_arena_block *next;
  size_t size_bytes;
  max_align_t data[];
};

void spp_arena_init(struct spp_arena *arena) {
  *arena = (struct spp_arena){0};
}

void spp_arena_free(struct spp_arena *arena) {
  struct spp_arena_block *block = arena->blocks;
  while (block) {
    struct spp_arena_block *next = block->next;
    free(block);
    block = next;
  }
  spp_arena_init(arena);
}

void *spp_arena_alloc(struct spp_arena *arena, size_t bytes) {
  const size_t align = sizeof(max_align_t);
  if (bytes > SIZE_MAX / 2) return NULL;
  size_t need = bytes ? (bytes + align - 1) / align * align : align;
  if (!arena->blocks || need > arena->blocks->size_bytes - arena->used_bytes) {
    size_t size = need > BLOCK_BYTES ? need : BLOCK_BYTES;
    struct spp_arena_block *block = calloc(1, sizeof *block + size);
    if (!block) return NULL;
    block->next = arena->blocks;
    block->size_bytes = size;
    arena->blocks = block;
    arena->used_bytes = 0;
  }
  void *memory = (char *)arena->blocks->data + arena->used_bytes;
  arena->used_bytes += need;
  return memory;
}

void *spp_arena_array(struct spp_arena *arena, size_t count, size_t size) {
  if (size > 0 && count > SIZE_MAX / size) return NULL;
  return spp_arena_alloc(arena, count * size);
}

char *spp_arena_strdup(struct spp_arena *arena, const char *text) {
  if (!text) return NULL;
  size_t size = strlen(text) + 1;
  char *copy = spp_arena_alloc(arena, size);
  if (copy) memcpy(copy, text, size);
  return copy;
}

char *spp_arena_printf(struct spp_arena *arena, const char *fmt, ...) {
  va_list args, again;
  va_start(args, fmt);
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  char *text = n < 0 ? NULL : spp_arena_alloc(arena, (size_t)n + 1);
  if (text) vsnprintf(text, (size_t)n + 1, fmt, again);
  va_end(again);
  return text;
}
