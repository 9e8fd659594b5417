#include "model/predict.h"

void spp_predict(const struct spp_job *job, const struct spp_layout *layout, struct spp_ledger *ledger,
                 struct spp_prediction *prediction) {
  struct spp_geometry *geometry = &prediction->geometry;
  spp_geometry_resolve(job, layout, geometry);
  spp_memory_predict(job, layout, geometry, ledger, &prediction->memory);
  spp_comm_predict(job, layout, geometry, &prediction->comm);
  spp_timing_predict(job, layout, geometry, &prediction->comm, &prediction->time);
}
