#include "exec/tally.h"

#include <string.h>

void spp_tally_clear(struct spp_tally *tally) {
  memset(tally, 0, sizeof *tally);
}

struct spp_traffic *spp_tally_row(struct spp_tally *tally, enum spp_collective op, enum spp_group group,
                                  struct spp_label label) {
  for (int i = 0; i < tally->row_count; i++) {
    struct spp_traffic *row = &tally->rows[i];
    if (row->op == op && row->group == group && row->label.pass == label.pass &&
        strcmp(row->label.what, label.what) == 0)
      return row;
  }
  if (tally->row_count == SPP_TALLY_ROWS) {
    tally->overflow = true;
    return &tally->rows[SPP_TALLY_ROWS - 1];
  }
  struct spp_traffic *row = &tally->rows[tally->row_count++];
  *row = (struct spp_traffic){.op = op, .group = group, .label = label};
  return row;
}

int64_t spp_tally_bytes(const struct spp_tally *tally) {
  int64_t bytes = 0;
  for (int i = 0; i < tally->row_count; i++)
    bytes += tally->rows[i].sent_bytes;
  return bytes;
}
