/* One call: job + layout -> prediction. Pure: no allocation, no files, no globals. */
#ifndef SPP_MODEL_PREDICT_H
#define SPP_MODEL_PREDICT_H

#include "model/comm.h"
#include "model/memory.h"
#include "model/timing.h"

struct spp_prediction {
  struct spp_geometry geometry;
  struct spp_memory memory;
  struct spp_comm comm;
  struct spp_time time;
};
/* The layout must be legal (spp_rules_check). ledger may be NULL. */
void spp_predict(const struct spp_job *job, const struct spp_layout *layout, struct spp_ledger *ledger,
                 struct spp_prediction *prediction);

#endif
