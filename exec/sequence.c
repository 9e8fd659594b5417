#include "exec/sequence.h"

static int64_t append(struct spp_pos_run *runs, int64_t n, int64_t first, int64_t count) {
  if (n > 0 && runs[n - 1].first + runs[n - 1].count == first) {
    runs[n - 1].count += count;
    return n;
  }
  runs[n] = (struct spp_pos_run){first, count};
  return n + 1;
}

int64_t spp_sequence_runs(const struct spp_sequence_cut *cut, int64_t ring, struct spp_pos_run *runs) {
  int64_t n = 0, piece = cut->tokens / cut->ring, chunk = piece / 2;
  for (int64_t s = 0; s < cut->sequences; s++) {
    int64_t start = s * cut->tokens;
    if (!cut->zigzag || cut->ring == 1) {
      n = append(runs, n, start + ring * piece, piece);
      continue;
    }
    n = append(runs, n, start + ring * chunk, chunk);
    n = append(runs, n, start + (2 * cut->ring - 1 - ring) * chunk, chunk);
  }
  return n;
}

/* Position, within its sequence, of token i of a ring rank. */
static int64_t ring_position(const struct spp_sequence_cut *cut, int64_t ring, int64_t i) {
  int64_t piece = cut->tokens / cut->ring, chunk = piece / 2;
  if (!cut->zigzag || cut->ring == 1) return ring * piece + i;
  return i < chunk ? ring * chunk + i : (2 * cut->ring - 1 - ring) * chunk + i - chunk;
}

int64_t spp_sequence_position(const struct spp_sequence_cut *cut, int64_t ulysses, int64_t ring,
                              int64_t token) {
  int64_t each = cut->tokens / (cut->ring * cut->ulysses);
  return token / each * cut->tokens + ring_position(cut, ring, ulysses * each + token % each);
}

void spp_sequence_positions(const struct spp_sequence_cut *cut, int64_t ulysses, int64_t ring,
                            int64_t *positions) {
  int64_t tokens = cut->sequences * cut->tokens / (cut->ring * cut->ulysses);
  for (int64_t t = 0; t < tokens; t++)
    positions[t] = spp_sequence_position(cut, ulysses, ring, t);
}
