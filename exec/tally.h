/* What a rank handed to the transport, counted where it is handed over. */
#ifndef SPP_EXEC_TALLY_H
#define SPP_EXEC_TALLY_H

#include "model/comm.h"

enum { SPP_TALLY_ROWS = 96 };

/* What an operation is for: rows of a tally, in the words of model/comm.h. */
struct spp_label {
  const char *what; /* static */
  enum spp_pass pass;
};

struct spp_traffic {
  enum spp_collective op;
  enum spp_group group;
  struct spp_label label;
  int64_t calls;
  int64_t sent_bytes;
  int64_t packets; /* point-to-point messages sent */
  int64_t
      messages; /* as a prediction counts them: packets of all_to_all and send_recv, calls of the others */
};

struct spp_tally {
  int row_count;
  bool overflow; /* more kinds of traffic than rows: the counts are incomplete */
  struct spp_traffic rows[SPP_TALLY_ROWS];
};

void spp_tally_clear(struct spp_tally *tally);
/* The row of this kind of traffic, made at first use; on overflow the last row. */
struct spp_traffic *spp_tally_row(struct spp_tally *tally, enum spp_collective op, enum spp_group group,
                                  struct spp_label label);
int64_t spp_tally_bytes(const struct spp_tally *tally);

#endif
