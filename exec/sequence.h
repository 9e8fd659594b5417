/* Which tokens a rank holds. `sequences` sequences of `tokens` tokens each are cut alike: first over the
 * ring, in contiguous pieces or in zigzag (chunks r and 2*ring-1-r of 2*ring, so that causal work is equal;
 * zhuzilin/ ring-flash-attention zigzag_ring_flash_attn.py), then a ring rank's tokens over its Ulysses
 * ranks, in order. Positions count through all sequences: token t of sequence s is at s * tokens + t. */
#ifndef SPP_EXEC_SEQUENCE_H
#define SPP_EXEC_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/mask.h"

struct spp_sequence_cut {
  int64_t sequences, tokens;
  int64_t ulysses, ring;
  bool zigzag;
};

/* Tokens of one sequence must be a multiple of this. */
static inline int64_t spp_sequence_unit(const struct spp_sequence_cut *cut) {
  return cut->ulysses * cut->ring * (cut->zigzag && cut->ring > 1 ? 2 : 1);
}

/* Tokens of ring rank `ring`, as at most 2 runs a sequence in increasing position; returns the number of
 * runs. */
int64_t spp_sequence_runs(const struct spp_sequence_cut *cut, int64_t ring, struct spp_pos_run *runs);

/* Position of token `token` of those that rank (ulysses, ring) holds outside attention. */
int64_t spp_sequence_position(const struct spp_sequence_cut *cut, int64_t ulysses, int64_t ring,
                              int64_t token);
/* Positions of the tokens that rank (ulysses, ring) holds outside attention, sequence after sequence. */
void spp_sequence_positions(const struct spp_sequence_cut *cut, int64_t ulysses, int64_t ring,
                            int64_t *positions);

#endif
