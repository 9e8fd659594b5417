/* What a framework's command said, for the answer. */
#ifndef SPP_CLI_IMPORTED_H
#define SPP_CLI_IMPORTED_H

#include "cli/command.h"

/* Flags that are unknown, or whose effect is not in the prediction, as warnings; how many. */
int spp_imported_warnings(const struct spp_cli *cli, struct spp_advice *advice, int max);
/* What the framework's own defaults decided, for want of a word in the file or the command line; 1 or 0. */
int spp_imported_defaults(const struct spp_cli *cli, struct spp_advice *advice);
/* For JSON; NULL without memory. */
const struct spp_read_report *spp_imported_report(struct spp_cli *cli);
/* "read  train.sh as ms-swift: ..."; with -v every setting and where it stands. */
void spp_imported_text(const struct spp_cli *cli, struct spp_str *out);

#endif
