/* Messages between the memories of devices, carried through memory of the processor: each is fetched before
 * it is sent and brought to its place when it has come. So any backend serves any device. */
#ifndef SPP_EXEC_STAGED_H
#define SPP_EXEC_STAGED_H

#include "exec/backend.h"

/* An endpoint over `carrier`, which must outlive it, for `memory`; its ops->close frees it. */
enum spp_status spp_staged_open(struct spp_endpoint *carrier, struct spp_runner memory,
                                struct spp_endpoint **end, struct spp_diag *diag);

#endif
