/* Ranks that work together, and what they do together. All collectives are built here on messages between two
 * ranks: the bytes sent are the textbook's on every backend, and sums are taken in one order, so that results
 * are the same bits on every backend and on every run. Bytes a rank sends, n ranks, w bytes of the whole:
 *   all_to_all      (n-1)/n w in n-1 messages     all_gather, reduce_scatter   w minus one shard, around a
 * ring all_reduce      reduce_scatter + all_gather   shift                        the block (Thakur,
 * Rabenseifner, Gropp: Optimization of Collective Communication Operations in MPICH, 2005). */
#ifndef SPP_EXEC_GROUP_H
#define SPP_EXEC_GROUP_H

#include "exec/backend.h"
#include "exec/tally.h"
#include "kernels/bf16.h"

struct spp_rank_group {
  struct spp_endpoint *end;
  struct spp_tally *tally; /* NULL: not counted */
  enum spp_group purpose;
  int size, me; /* me: this rank's place among `ranks` */
  int ranks[SPP_EXEC_MAX_RANKS];
  float *staging; /* what sums are received into: the caller's, at least one float */
  int64_t staging_floats;
};

/* The members are first, first + stride, ... of `size` ranks; the endpoint's rank must be one of them. */
void spp_group_make(struct spp_rank_group *group, struct spp_endpoint *end, struct spp_tally *tally,
                    enum spp_group purpose, int first, int stride, int size);

/* Shard i of `count` elements cut for n ranks: [spp_shard_first(i), spp_shard_first(i + 1)); equal when n
 * divides count. */
static inline int64_t spp_shard_first(int64_t count, int64_t n, int64_t i) {
  return count / n * i + (i < count % n ? i : count % n);
}

/* send and receive hold `size` pieces of bytes_each, piece i to and from member i. */
enum spp_status spp_group_all_to_all(const struct spp_rank_group *g, struct spp_label label, const void *send,
                                     void *receive, int64_t bytes_each, struct spp_diag *diag);
/* Elements of one storage type; sums of bf16 are rounded after each addition, as NCCL's are. */
struct spp_span {
  void *data;
  int64_t count;
  enum spp_storage storage;
};
static inline struct spp_span spp_floats(float *data, int64_t count) {
  return (struct spp_span){data, count, SPP_STORE_F32};
}
/* The members' shards of `whole` (cut by spp_shard_first), each filled in by its owner, reach all. */
enum spp_status spp_group_all_gather_span(const struct spp_rank_group *g, struct spp_label label,
                                          struct spp_span whole, struct spp_diag *diag);
/* Afterwards this member's shard of `data` holds the sum over the members; the rest is overwritten. */
enum spp_status spp_group_reduce_scatter_span(const struct spp_rank_group *g, struct spp_label label,
                                              struct spp_span data, struct spp_diag *diag);
enum spp_status spp_group_all_reduce_span(const struct spp_rank_group *g, struct spp_label label,
                                          struct spp_span data, struct spp_diag *diag);
/* The same of `count` floats. */
static inline enum spp_status spp_group_all_gather(const struct spp_rank_group *g, struct spp_label label,
                                                   float *whole, int64_t count, struct spp_diag *diag) {
  return spp_group_all_gather_span(g, label, spp_floats(whole, count), diag);
}
static inline enum spp_status spp_group_reduce_scatter(const struct spp_rank_group *g, struct spp_label label,
                                                       float *data, int64_t count, struct spp_diag *diag) {
  return spp_group_reduce_scatter_span(g, label, spp_floats(data, count), diag);
}
static inline enum spp_status spp_group_all_reduce(const struct spp_rank_group *g, struct spp_label label,
                                                   float *data, int64_t count, struct spp_diag *diag) {
  return spp_group_all_reduce_span(g, label, spp_floats(data, count), diag);
}
/* The maximum instead of the sum. */
enum spp_status spp_group_all_reduce_max(const struct spp_rank_group *g, struct spp_label label, float *data,
                                         int64_t count, struct spp_diag *diag);

/* One hop of a ring under way: `send` to the next member, `receive` from the one before, while the caller
 * computes. Neither buffer may be touched, nor `send` written, before spp_group_shift_wait. */
struct spp_shift {
  struct spp_transfer send, receive;
};
enum spp_status spp_group_shift_start(const struct spp_rank_group *g, struct spp_label label,
                                      const void *send, void *receive, int64_t bytes, struct spp_shift *shift,
                                      struct spp_diag *diag);
enum spp_status spp_group_shift_wait(const struct spp_rank_group *g, struct spp_shift *shift,
                                     struct spp_diag *diag);

/* One message to member `to`, from member `from`. channel (0..1000) tells apart messages that may overtake
 * each other. Finish with spp_group_wait. */
enum spp_status spp_group_send_start(const struct spp_rank_group *g, struct spp_label label, int to,
                                     int channel, const void *data, int64_t bytes,
                                     struct spp_transfer *transfer, struct spp_diag *diag);
enum spp_status spp_group_receive_start(const struct spp_rank_group *g, int from, int channel, void *data,
                                        int64_t bytes, struct spp_transfer *transfer, struct spp_diag *diag);
enum spp_status spp_group_wait(const struct spp_rank_group *g, struct spp_transfer *transfer,
                               struct spp_diag *diag);

#endif
