/* MAP_ANONYMOUS is newer than POSIX 2008. */
#define _DEFAULT_SOURCE
#include "exec/heap.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/num.h"

/* x86-64 has pages of this size; larger ones only make the count of pages too small. */
enum { ALIGNMENT = 64, PAGE_BYTES = 4096 };

/* Stands in the 64 bytes before the data, or beside memory of a device. */
struct spp_heap_block {
  struct spp_heap_block *next, *previous;
  void *data;
  int64_t bytes;
  int64_t taken; /* of the system or malloc, with this header */
  int row;
  bool own_pages;
};
_Static_assert(sizeof(struct spp_heap_block) <= ALIGNMENT, "the header fits before the data");

/* On a device there are a few hundred at most, the youngest first. */
static struct spp_heap_block *block_of(const struct spp_heap *heap, const void *data) {
  struct spp_heap_block *block = heap->blocks;
  union {
    const char *read;
    struct spp_heap_block *block;
  } before = {.read = (const char *)data - ALIGNMENT};
  if (!heap->memory.device) return before.block;
  while (block->data != data)
    block = block->next;
  return block;
}

static void count_total(struct spp_heap_total *total, int64_t bytes) {
  if (!total) return;
  int64_t now = atomic_fetch_add(&total->bytes, bytes) + bytes, peak = total->peak_bytes;
  while (now > peak && !atomic_compare_exchange_weak(&total->peak_bytes, &peak, now))
    continue;
}

static int64_t whole_bytes(int64_t bytes) {
  return spp_round_up(bytes, ALIGNMENT) + ALIGNMENT;
}

/* New pages, where the system's count is held against ours: what malloc hands out may be there already, from
 * runs before. NULL where they are not wanted, or the system has no room for one mapping more. */
static struct spp_heap_block *take_pages(const struct spp_heap *heap, int64_t bytes) {
  int64_t taken = spp_round_up(whole_bytes(bytes), PAGE_BYTES);
  if (!heap->total || whole_bytes(bytes) < PAGE_BYTES) return NULL;
  struct spp_heap_block *block =
      mmap(NULL, (size_t)taken, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return NULL;
  *block = (struct spp_heap_block){.taken = taken, .own_pages = true};
  return block;
}

static enum spp_status take(const struct spp_heap *heap, int64_t bytes, struct spp_heap_block **taken,
                            struct spp_diag *diag) {
  int64_t room = whole_bytes(bytes);
  struct spp_heap_block *block = take_pages(heap, bytes);
  if (!block) {
    if (!(block = aligned_alloc(ALIGNMENT, (size_t)room))) return spp_diag_oom(diag);
    *block = (struct spp_heap_block){.taken = room};
  }
  block->data = (char *)block + ALIGNMENT;
  *taken = block;
  return SPP_OK;
}

static enum spp_status take_of_device(const struct spp_heap *heap, int64_t bytes,
                                      struct spp_heap_block **taken, struct spp_diag *diag) {
  struct spp_heap_block *block = calloc(1, sizeof *block);
  if (!block) return spp_diag_oom(diag);
  enum spp_status status = heap->memory.device->allocate(heap->memory.queue, bytes, &block->data, diag);
  if (status == SPP_OK)
    *taken = block;
  else
    free(block);
  return status;
}

static void give_back(const struct spp_heap *heap, struct spp_heap_block *block) {
  if (heap->memory.device) heap->memory.device->release(heap->memory.queue, block->data);
  if (block->own_pages)
    munmap(block, (size_t)block->taken);
  else
    free(block);
}

void spp_heap_init(struct spp_heap *heap) {
  memset(heap, 0, sizeof *heap);
}

void spp_heap_close(struct spp_heap *heap) {
  while (heap->blocks) {
    struct spp_heap_block *next = heap->blocks->next;
    count_total(heap->total, -heap->blocks->taken);
    give_back(heap, heap->blocks);
    heap->blocks = next;
  }
}

static int row_of(struct spp_heap *heap, enum spp_part part, const char *name) {
  for (int i = 0; i < heap->row_count; i++)
    if (heap->rows[i].part == part && strcmp(heap->rows[i].name, name) == 0) return i;
  if (heap->row_count == SPP_HEAP_NAMES) return -1;
  heap->rows[heap->row_count] = (struct spp_heap_row){.name = name, .part = part};
  return heap->row_count++;
}

/* Buffers of communicators and workspaces of kernels are not the allocator's, as on a GPU. */
static bool counts(const struct spp_heap *heap, int row) {
  return heap->rows[row].part != SPP_PART_NCCL && heap->rows[row].part != SPP_PART_CONTEXT;
}

static void note_growth(struct spp_heap *heap) {
  int64_t *most = &heap->moment_bytes[heap->moment];
  *most = spp_max64(*most, heap->bytes);
  if (heap->bytes <= heap->peak_bytes) return;
  heap->peak_bytes = heap->bytes;
  heap->peak_moment = heap->moment;
  for (int i = 0; i < heap->row_count; i++)
    heap->rows[i].at_peak_bytes = heap->rows[i].bytes;
}

static enum spp_status names_used_up(struct spp_diag *diag) {
  return spp_diag_set(diag, SPP_ERR_INTERNAL, NULL, NULL, "more than %d kinds of tensors", SPP_HEAP_NAMES);
}

enum spp_status spp_heap_bytes(struct spp_heap *heap, enum spp_part part, const char *name, int64_t bytes,
                               void **data, struct spp_diag *diag) {
  int row = row_of(heap, part, name);
  if (row < 0) return names_used_up(diag);
  if (bytes < 0 || bytes > INT64_MAX / 2) return spp_diag_oom(diag);
  struct spp_heap_block *block = NULL;
  enum spp_status status = (heap->memory.device ? take_of_device : take)(heap, bytes, &block, diag);
  if (status != SPP_OK) return status;
  block->bytes = bytes;
  block->next = heap->blocks;
  block->row = row;
  if (block->next) block->next->previous = block;
  heap->blocks = block;
  heap->rows[row].bytes += bytes;
  count_total(heap->total, block->taken);
  if (counts(heap, row)) {
    heap->bytes += bytes;
    note_growth(heap);
  }
  *data = block->data;
  return SPP_OK;
}

enum spp_status spp_heap_floats(struct spp_heap *heap, enum spp_part part, const char *name, int64_t count,
                                float **data, struct spp_diag *diag) {
  void *bytes;
  enum spp_status status =
      spp_heap_bytes(heap, part, name, spp_sat_mul(count, (int64_t)sizeof(float)), &bytes, diag);
  if (status == SPP_OK) *data = bytes;
  return status;
}

void spp_heap_free(struct spp_heap *heap, void *data) {
  if (!data) return;
  struct spp_heap_block *block = block_of(heap, data);
  if (block->previous)
    block->previous->next = block->next;
  else
    heap->blocks = block->next;
  if (block->next) block->next->previous = block->previous;
  if (counts(heap, block->row)) heap->bytes -= block->bytes;
  heap->rows[block->row].bytes -= block->bytes;
  count_total(heap->total, -block->taken);
  give_back(heap, block);
}

enum spp_status spp_heap_rename(struct spp_heap *heap, void *data, enum spp_part part, const char *name,
                                struct spp_diag *diag) {
  struct spp_heap_block *block = block_of(heap, data);
  int row = row_of(heap, part, name);
  if (row < 0) return names_used_up(diag);
  heap->rows[block->row].bytes -= block->bytes;
  heap->rows[row].bytes += block->bytes;
  block->row = row;
  return SPP_OK;
}

int64_t spp_heap_peak_of(const struct spp_heap *heap, enum spp_part part) {
  int64_t bytes = 0;
  for (int i = 0; i < heap->row_count; i++)
    if (heap->rows[i].part == part) bytes += heap->rows[i].at_peak_bytes;
  return bytes;
}
