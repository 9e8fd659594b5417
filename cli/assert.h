/* --assert EXPR: a comparison with one value of the JSON answer. */
#ifndef SPP_CLI_ASSERT_H
#define SPP_CLI_ASSERT_H

#include "base/status.h"

/* SPP_OK when `expression` is well formed: PATH OP VALUE, such as memory.peak_bytes<80GiB or
 * plans[0].time.step_s<=2; OP is one of < <= > >= == !=. SPP_ERR_USAGE when not. */
enum spp_status spp_assert_parse(const char *expression, struct spp_diag *diag);

/* SPP_OK when it holds of `json`; SPP_ERR_TOLERANCE when not, with the value found; SPP_ERR_USAGE when the
 * path or the kind of value is wrong. A path that does not start at the top starts at plans[0]. */
enum spp_status spp_assert_check(const char *expression, const char *json, struct spp_diag *diag);

#endif
