/* Memory of this process as the operating system sees it (Linux /proc/self). */
#ifndef SPP_EXEC_RESIDENT_H
#define SPP_EXEC_RESIDENT_H

#include <stdint.h>

/* From now on freed memory stays with the process (glibc; elsewhere nothing happens). By default every large
 * block comes from the system anew, page by page as it is touched: a quarter of a short step. */
void spp_resident_keep(void);

/* Forgets the peak. Bytes resident now; negative: unknown here, or a sanitizer adds its own. */
int64_t spp_resident_begin(void);
/* Most that was resident since; negative: unknown. */
int64_t spp_resident_peak(void);

#endif
