/* Memory of this process as the operating system sees it (Linux /proc/self). */
#ifndef SPP_EXEC_RESIDENT_H
#define SPP_EXEC_RESIDENT_H

#include <stdint.h>

/* Forgets the peak. Bytes resident now; negative: unknown here. */
int64_t spp_resident_begin(void);
/* Most that was resident since; negative: unknown. */
int64_t spp_resident_peak(void);

#endif
