/* Where the data files are. */
#ifndef SPP_BASE_PATHS_H
#define SPP_BASE_PATHS_H

#include <stddef.h>

#include "base/status.h"

/* The folder of data files into buf: `wanted` when not NULL (--config-dir), else $SPPLAN_CONFIG_DIR when set
 * and not empty, else share/spplan/configs beside the program's own bin/ folder when that exists (an
 * installed program, wherever it was moved), else the folder the build was told of. SPP_ERR_INPUT when a
 * folder that was asked for does not exist, SPP_ERR_ABSENT when none was asked for and none is there. */
enum spp_status spp_config_dir(const char *wanted, char *buf, size_t size, struct spp_diag *diag);

/* "folder/name" into buf; SPP_ERR_INPUT when it does not fit. */
enum spp_status spp_path_join(const char *folder, const char *name, char *buf, size_t size,
                              struct spp_diag *diag);

#endif
