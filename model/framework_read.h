/* The keys of a framework file. */
#ifndef SPP_MODEL_FRAMEWORK_READ_H
#define SPP_MODEL_FRAMEWORK_READ_H

#include "base/json.h"
#include "model/framework.h"

/* Everything one file says, on top of what *f holds. complete: nothing was inherited, so nothing may be
 * missing. SPP_ERR_INPUT with path and nearest key; *f is then half-written and must be dropped. */
enum spp_status spp_framework_read(const struct spp_json_doc *doc, bool complete, struct spp_framework *f,
                                   struct spp_diag *diag);

/* The keys a file may have, in order; NULL after the last. */
const char *spp_framework_key(int index);

#endif
