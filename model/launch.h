/* The command that starts a layout under its framework. */
#ifndef SPP_MODEL_LAUNCH_H
#define SPP_MODEL_LAUNCH_H

#include "base/strbuf.h"
#include "model/layout.h"

/* The framework's launch words whose conditions hold, placeholders expanded, joined by blanks. Appends to
 * `out`; memory trouble shows in out->failed. A framework without launch words appends nothing. */
void spp_framework_launch(const struct spp_job *job, const struct spp_layout *layout, struct spp_str *out);

/* Load-time check of one launch word: false, with what is wrong, when a placeholder or condition is unknown.
 */
bool spp_launch_check(const struct spp_launch_word *word, char *wrong, size_t size);

#endif
