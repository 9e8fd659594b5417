/* Passing a status up. */
#ifndef SPP_EXEC_TRY_H
#define SPP_EXEC_TRY_H

#include "base/status.h"

/* Leaves the function with the status of `call` unless it is SPP_OK; the callee has filled the diagnostic. */
#define SPP_TRY(call)                                                                                        \
  do {                                                                                                       \
    enum spp_status spp_try_status = (call);                                                                 \
    if (spp_try_status != SPP_OK) return spp_try_status;                                                     \
  } while (0)

#endif
