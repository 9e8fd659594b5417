/* A step as a Chrome/Perfetto trace. */
#ifndef SPP_REPORT_TRACE_H
#define SPP_REPORT_TRACE_H

#include "base/strbuf.h"
#include "report/timeline.h"

enum { SPP_TRACE_SLICES = 60000 }; /* drawn layer by layer at most: some 10 MB of JSON */

/* {"displayTimeUnit","otherData","traceEvents"}: loads in chrome://tracing and ui.perfetto.dev. */
void spp_trace_write(const struct spp_job *job, const struct spp_layout *layout,
                     const struct spp_timeline *timeline, struct spp_str *out);

#endif
