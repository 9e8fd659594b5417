/* Messages between devices as NCCL has them: without tags, matched in the order in which two ranks issue
 * them, and a rank's whole group at once. What is under way when a message is waited for goes together. */
#ifndef SPP_EXEC_GROUPED_H
#define SPP_EXEC_GROUPED_H

#include "exec/backend.h"

/* Carries out all of a list (by `next`), to and from other ranks: sent by this one where `from` is its rank.
 * On SPP_OK all have arrived, or whatever follows in the device's queue sees them. */
struct spp_grouped_ops {
  enum spp_status (*exchange)(void *context, const struct spp_transfer *first, struct spp_diag *diag);
  void (*close)(void *context);
};

/* An endpoint over `carrier`, which keeps barriers and failures, for `memory`. Its ops->close closes
 * `context`, which it owns, after a failure to open too. */
enum spp_status spp_grouped_open(struct spp_endpoint *carrier, struct spp_runner memory,
                                 const struct spp_grouped_ops *how, void *context, struct spp_endpoint **end,
                                 struct spp_diag *diag);

#endif
