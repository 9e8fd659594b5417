/* Tensors as the processor reads and writes them: the tensors themselves where the rank works on the
 * processor, else copies that are fetched and brought back. */
#ifndef SPP_EXEC_VIEW_H
#define SPP_EXEC_VIEW_H

#include "exec/rank.h"

/* What of a copy counts: what is there before, what is there at the end. */
enum { SPP_VIEW_READ = 1, SPP_VIEW_WRITE = 2 };

struct spp_view {
  const void *memory; /* the caller's, with what follows */
  int64_t bytes;
  unsigned use; /* for writing alone: all bytes will be */
  void *data;   /* while it is open */
};
static inline struct spp_view spp_view_of(const void *memory, int64_t bytes, unsigned use) {
  return (struct spp_view){memory, bytes, use, NULL};
}
static inline struct spp_view spp_view_floats(const float *memory, int64_t count, unsigned use) {
  return spp_view_of(memory, count * (int64_t)sizeof(float), use);
}

/* All of them or none; waits for the work that is to be read. What is read alone must not be written. */
enum spp_status spp_views_open(struct spp_rank *rank, struct spp_view *views, int count);
void spp_views_close(struct spp_rank *rank, struct spp_view *views, int count);

#endif
