/* The memory of one rank: every tensor is allocated here, under the part of a prediction it belongs to and a
 * name, so that what a run needed is counted and never computed. Not for threads to share. */
#ifndef SPP_EXEC_HEAP_H
#define SPP_EXEC_HEAP_H

#include "base/num.h"
#include "kernels/device.h"
#include "model/memory.h"

enum { SPP_HEAP_NAMES = 160 };

/* All blocks of one name. */
struct spp_heap_row {
  const char *name; /* static */
  enum spp_part part;
  int64_t bytes;         /* alive now */
  int64_t at_peak_bytes; /* alive when the heap held most */
};

/* What all heaps of a process hold together, with communicators and workspaces: for several threads. Blocks
 * of a page and more of such heaps are pages of their own, new ones each time and counted whole, so that the
 * operating system's count can be held against this one; slower. */
struct spp_heap_total {
  _Atomic int64_t bytes, peak_bytes;
};

struct spp_heap_block;
struct spp_heap {
  struct spp_runner memory;      /* whose memory; device NULL: the program's own. Set after spp_heap_init */
  struct spp_heap_total *total;  /* of the process; NULL: not counted. Set after spp_heap_init */
  struct spp_heap_block *blocks; /* alive */
  enum spp_moment moment;        /* what the rank is doing: set by who does it */
  int64_t bytes;                 /* alive now, without the parts "nccl" and "context" */
  int64_t peak_bytes;
  enum spp_moment peak_moment;
  int64_t moment_bytes[SPP_MOMENT_COUNT]; /* most that was alive at each moment */
  int row_count;
  struct spp_heap_row rows[SPP_HEAP_NAMES];
};

void spp_heap_init(struct spp_heap *heap);
/* Frees what is still alive. */
void spp_heap_close(struct spp_heap *heap);

/* `count` floats, not initialised, at a multiple of 64 bytes (of a device: where it puts them); count 0 gives
 * a valid pointer. The bytes asked for are counted. name: static storage. SPP_ERR_INTERNAL when memory is out
 * or the names are used up. */
enum spp_status spp_heap_floats(struct spp_heap *heap, enum spp_part part, const char *name, int64_t count,
                                float **data, struct spp_diag *diag);
enum spp_status spp_heap_bytes(struct spp_heap *heap, enum spp_part part, const char *name, int64_t bytes,
                               void **data, struct spp_diag *diag);
/* `count` elements of a storage type. */
static inline enum spp_status spp_heap_elements(struct spp_heap *heap, enum spp_part part, const char *name,
                                                int64_t count, enum spp_storage storage, void **data,
                                                struct spp_diag *diag) {
  return spp_heap_bytes(heap, part, name, spp_sat_mul(count, spp_storage_bytes(storage)), data, diag);
}
/* Frees one block; NULL is fine. */
void spp_heap_free(struct spp_heap *heap, void *data);

/* A block goes on under another name: what was a temporary is kept. */
enum spp_status spp_heap_rename(struct spp_heap *heap, void *data, enum spp_part part, const char *name,
                                struct spp_diag *diag);

/* Bytes of a part at the peak. */
int64_t spp_heap_peak_of(const struct spp_heap *heap, enum spp_part part);

#endif
