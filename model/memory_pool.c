/* What the allocator holds of what is used: slack, free blocks that cannot serve, whole segments. */
#include "model/memory_parts.h"

enum { SEGMENT_BYTES = 2097152 }; /* torch c10/cuda/CUDACachingAllocator: segments are multiples of 2 MiB */

void spp_memory_totals_of(const struct spp_memory_sum *sum, struct spp_memory_totals *t) {
  t->absurd = sum->absurd;
  t->outside = spp_sat_add(sum->always[SPP_PART_NCCL], sum->always[SPP_PART_CONTEXT]);
  spp_memory_moments(sum, t->moment);
  for (int m = 0; m < SPP_MOMENT_COUNT; m++) {
    t->held[m] = spp_sat_add(sum->always[SPP_PART_ALLOCATOR], sum->moment[SPP_PART_ALLOCATOR][m]);
    t->logits[m] = sum->moment[SPP_PART_LOGITS][m];
    t->pass[m] = t->logits[m] + sum->moment[SPP_PART_ACTIVATIONS][m] + sum->moment[SPP_PART_LAYER_INPUTS][m] +
                 sum->moment[SPP_PART_TRANSIENT][m];
    t->pass_free[m] = sum->pass_free[m];
  }
  t->weights = sum->always[SPP_PART_WEIGHTS];
  t->spare = sum->spare_bytes;
  t->spare_block = sum->spare_block_bytes;
  t->pinned = sum->pinned;
  t->step_block = sum->step_block_bytes;
  t->step_made = sum->step_made_bytes;
  t->step_rows = sum->step_rows_bytes;
  t->norm = sum->norm_bytes;
  t->pass_blocks = sum->pass_blocks;
  t->pass_block = sum->pass_block_bytes;
}

int64_t spp_memory_allocated(const struct spp_memory_totals *t, enum spp_moment moment) {
  return (t->absurd ? INT64_MAX : t->moment[moment]) - t->outside - t->held[moment];
}

int64_t spp_memory_capacity(const struct spp_job *job) {
  return job->max_memory_bytes > 0 ? job->max_memory_bytes : job->gpu->capacity_bytes;
}

/* What the pool's slack is of: frozen weights are loaded once, into segments of their own, and have none. */
struct slack {
  int64_t frozen_bytes;
  double share;
};

static struct slack slack_of(const struct spp_job *job, const struct spp_memory_totals *t) {
  double factor = job->framework->allocator_factor;
  return (struct slack){spp_job_has_adapters(job) ? t->weights : 0, factor > 1.0 ? factor - 1.0 : 0};
}

/* Without free blocks that cannot be used. */
static int64_t reserved(const struct slack *slack, int64_t used_bytes) {
  double bytes = (double)used_bytes + (double)(used_bytes - slack->frozen_bytes) * slack->share;
  if (bytes >= 9e18) return INT64_MAX;
  return spp_max64(used_bytes, (int64_t)bytes);
}

/* Before it fails, an allocator with expandable segments unmaps every page of 20 MiB that no block in use
 * touches (torch c10/cuda/CUDACachingAllocator release_cached_blocks, unmap_block). Beyond the blocks stays
 * what else is on their pages: under 1 % in replays of whole steps (tests/oracle/allocator.py). */
static int64_t needed_of(const struct spp_job *job, int64_t used_bytes, int64_t pool_bytes) {
  const double pages = 1.01;
  if (job->allocator != SPP_ALLOCATOR_EXPANDABLE || used_bytes >= INT64_MAX / 2) return pool_bytes;
  return spp_min64(pool_bytes, (int64_t)((double)used_bytes * pages));
}

static int64_t in_segments(int64_t bytes) {
  return spp_round_up(bytes, SEGMENT_BYTES);
}

/* Joined gradients are one tensor, and without expandable segments the blocks that backward freed stay where
 * they are, unless several of the loss are as large: those serve (torch c10/cuda/CUDACachingAllocator
 * get_free_block). */
static int64_t stranded(const struct spp_job *job, const struct spp_memory_totals *t,
                        enum spp_moment moment) {
  if (moment != SPP_MOMENT_STEP || !job->plain_segments || t->step_block <= 0) return 0;
  if (t->step_block <= t->pass_block && t->pass_blocks > 1) return 0;
  int64_t step = spp_memory_allocated(t, SPP_MOMENT_STEP), most = step - t->step_rows + t->norm;
  for (int m = SPP_MOMENT_LOAD + 1; m < SPP_MOMENT_STEP; m++)
    most = spp_max64(most, spp_memory_allocated(t, (enum spp_moment)m));
  return spp_max64(0, most + t->step_made - step);
}

/* Blocks that the making of the shards left serve what is no larger; of logits that all are larger than half
 * the largest block, that block serves one (torch c10/cuda/CUDACachingAllocator get_free_block). */
static int64_t spare(const struct spp_memory_totals *t, enum spp_moment moment) {
  if (t->spare == 0 || moment == SPP_MOMENT_LOAD) return 0;
  int64_t used = spp_sat_add(t->pass[moment], t->pass_free[moment]), logits = t->logits[moment];
  if (t->pass_block > t->spare_block / 2) {
    int64_t one = t->pass_block <= t->spare_block       ? t->pass_block
                  : t->pass_block / 2 <= t->spare_block ? t->pass_block / 2
                                                        : 0;
    int64_t others = t->spare - t->spare_block;
    used = spp_min64(used - logits, others) + spp_min64(one, logits);
  }
  return spp_max64(0, t->spare - used);
}

/* Free blocks of a moment: some are needed all the same, their segments being in use. */
static int64_t unusable(const struct spp_job *job, const struct spp_memory_totals *t,
                        enum spp_moment moment) {
  return spp_sat_add(spp_sat_add(t->held[moment], spare(t, moment)), stranded(job, t, moment));
}

int64_t spp_memory_pool_at(const struct spp_job *job, const struct spp_memory_totals *t,
                           enum spp_moment moment) {
  struct slack slack = slack_of(job, t);
  int64_t needed = reserved(&slack, spp_memory_allocated(t, moment));
  return in_segments(spp_sat_add(needed, unusable(job, t, moment)));
}

/* Has the allocator no free blocks that count? */
static bool has_no_holes(const struct spp_job *job, const struct spp_memory_totals *t) {
  int64_t held = t->spare;
  for (int m = 0; m < SPP_MOMENT_COUNT; m++)
    held |= t->held[m];
  return held == 0 && (t->step_block <= 0 || !job->plain_segments);
}

static bool take_worse(const struct spp_memory_totals *t, enum spp_moment moment, int64_t bytes,
                       struct spp_memory_peak *peak) {
  if (bytes <= peak->bytes) return false;
  peak->bytes = bytes;
  peak->outside = t->outside;
  peak->moment = moment;
  return true;
}

/* Most totals: what the pool holds grows with what is used, so that one moment has the most of both. */
static bool peak_without_holes(const struct spp_job *job, const struct spp_memory_totals *t,
                               const struct slack *slack, struct spp_memory_peak *peak) {
  enum spp_moment worst = SPP_MOMENT_LOAD;
  int64_t most = t->moment[worst];
  for (int m = 1; m < SPP_MOMENT_COUNT; m++) {
    if (t->moment[m] <= most) continue;
    most = t->moment[m];
    worst = (enum spp_moment)m;
  }
  most = spp_memory_allocated(t, worst);
  int64_t pool = reserved(slack, most);
  peak->needed_bytes = spp_max64(peak->needed_bytes, needed_of(job, most, pool));
  if (t->pinned > 0) {
    int64_t used = spp_memory_allocated(t, SPP_MOMENT_LOSS),
            needed = needed_of(job, used, reserved(slack, used));
    peak->needed_bytes = spp_max64(peak->needed_bytes, spp_sat_add(needed, t->pinned));
  }
  return take_worse(t, worst, pool, peak);
}

bool spp_memory_peak_of(const struct spp_job *job, const struct spp_memory_totals *t,
                        struct spp_memory_peak *peak) {
  struct slack slack = slack_of(job, t);
  bool worse = false;
  if (has_no_holes(job, t)) return peak_without_holes(job, t, &slack, peak);
  for (int m = 0; m < SPP_MOMENT_COUNT; m++) {
    enum spp_moment moment = (enum spp_moment)m;
    int64_t used = spp_memory_allocated(t, moment), pool = reserved(&slack, used);
    int64_t bytes = spp_sat_add(pool, unusable(job, t, moment)), needed = needed_of(job, used, pool);
    if (moment == SPP_MOMENT_LOSS) needed = spp_sat_add(needed, t->pinned);
    peak->needed_bytes = spp_max64(peak->needed_bytes, needed);
    if (take_worse(t, moment, bytes, peak)) worse = true;
  }
  return worse;
}

/* Free blocks go back to the driver before an allocation fails: c10/cuda/CUDACachingAllocator
 * release_cached_blocks. So no more of them are held than the card has room for. */
void spp_memory_verdict(const struct spp_job *job, const struct spp_memory_peak *peak, struct spp_memory *m) {
  int64_t reserved_bytes = in_segments(peak->bytes), needed_bytes = in_segments(peak->needed_bytes);
  int64_t room = job->gpu->capacity_bytes / SEGMENT_BYTES * SEGMENT_BYTES - peak->outside;
  m->reserved_bytes = spp_max64(needed_bytes, spp_min64(reserved_bytes, room));
  m->reclaimable_bytes = m->reserved_bytes - needed_bytes;
  m->device_bytes = spp_sat_add(m->reserved_bytes, peak->outside);
  m->capacity_bytes = spp_memory_capacity(job);
  m->headroom_bytes = m->capacity_bytes - (m->device_bytes - m->reclaimable_bytes);
  m->fits = m->headroom_bytes >= 0;
}
