/* The ledger behind a prediction. */
#include <stdio.h>

#include "report/json_parts.h"

static void live_moments(struct spp_jo *jo, unsigned live) {
  spp_jo_arr(jo, "live");
  for (int moment = 0; moment < SPP_MOMENT_COUNT; moment++)
    if (live & SPP_LIVE(moment)) spp_jo_str(jo, NULL, spp_moment_name((enum spp_moment)moment));
  spp_jo_end(jo);
}

static void tensor(struct spp_jo *jo, const struct spp_ledger_entry *entry, enum spp_moment peak) {
  char part[64];
  snprintf(part, sizeof part, "%s_bytes", spp_part_name(entry->tensor->part));
  spp_jo_obj(jo, NULL);
  spp_jo_str(jo, "tensor", entry->tensor->name);
  spp_jo_str(jo, "part", part);
  spp_jo_arr(jo, "shape");
  spp_jo_i64(jo, NULL, entry->rows);
  if (entry->cols != 1) spp_jo_i64(jo, NULL, entry->cols);
  spp_jo_end(jo);
  spp_jo_str(jo, "dtype", spp_dtype_name(entry->dtype));
  spp_jo_i64(jo, "copies", entry->copies);
  spp_jo_i64(jo, "bytes", entry->bytes);
  spp_jo_bool(jo, "at_peak", (entry->live & SPP_LIVE(peak)) != 0);
  live_moments(jo, entry->live);
  spp_jo_str(jo, "why", entry->tensor->why);
  spp_jo_end(jo);
}

void spp_jp_tensors(struct spp_jo *jo, const struct spp_ledger *ledger, const struct spp_memory *memory) {
  if (!ledger) {
    spp_jo_null(jo, "tensors");
    return;
  }
  spp_jo_arr(jo, "tensors");
  for (int i = 0; i < ledger->count; i++)
    if (ledger->entries[i].stage == memory->worst_stage && ledger->entries[i].bytes != 0)
      tensor(jo, &ledger->entries[i], memory->peak_moment);
  spp_jo_end(jo);
}
