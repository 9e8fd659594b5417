/* What is measured between ranks: every collective over message and group sizes, as the engine builds them
 * (exec/group.h), all groups of a size at once. Where ranks are on several hosts, groups inside a host and
 * groups of one rank a host are measured apart. */
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "exec/calib_parts.h"
#include "exec/group.h"
#include "exec/try.h"

enum { STAGING_FLOATS = 16384, MESSAGE_MOST = 4 << 20 }; /* staging: as exec/engine.c has it */

static const int64_t sizes[] = {1 << 10, 1 << 14, 1 << 17, 1 << 20, MESSAGE_MOST};
static const bool quick_size[] = {true, false, true, true, false};

struct exchange {
  struct spp_meter *meter;
  struct spp_rank_group group;
  enum spp_collective op;
  int64_t bytes; /* sent by one rank */
  float *from, *to, *staging;
};

/* Floats of the whole tensor so that one rank sends `bytes`. */
static int64_t whole_floats(const struct exchange *x) {
  int64_t n = x->group.size, floats = x->bytes / (int64_t)sizeof(float);
  int64_t times = x->op == SPP_ALL_REDUCE ? 2 : 1;
  return spp_max64(n, floats * n / (times * (n - 1)) / n * n);
}

static enum spp_status exchange_once(struct exchange *x) {
  const struct spp_label label = {"calibration", SPP_PASS_STEP};
  struct spp_diag *diag = x->meter->rank->diag;
  int64_t floats = whole_floats(x);
  struct spp_shift shift;
  switch (x->op) {
  case SPP_ALL_TO_ALL:
    return spp_group_all_to_all(&x->group, label, x->from, x->to,
                                floats / x->group.size * (int64_t)sizeof(float), diag);
  case SPP_SEND_RECV:
    SPP_TRY(spp_group_shift_start(&x->group, label, x->from, x->to, x->bytes, &shift, diag));
    return spp_group_shift_wait(&x->group, &shift, diag);
  case SPP_ALL_GATHER: return spp_group_all_gather(&x->group, label, x->from, floats, diag);
  case SPP_REDUCE_SCATTER: return spp_group_reduce_scatter(&x->group, label, x->from, floats, diag);
  case SPP_ALL_REDUCE: return spp_group_all_reduce(&x->group, label, x->from, floats, diag);
  case SPP_COLLECTIVE_COUNT: break;
  }
  return SPP_OK;
}
static enum spp_status exchange(void *context, int calls) {
  for (int i = 0; i < calls; i++)
    SPP_TRY(exchange_once(context));
  return SPP_OK;
}

/* Groups of `size` ranks, `stride` apart, that this machine has room for. */
struct grouping {
  int size, stride;
  bool crosses;
};
enum { GROUPINGS_MOST = 16 };
static int groupings(const struct spp_meter *m, struct grouping *list) {
  int all = m->rank->end->size, here = m->ranks_here, hosts = all / here, count = 0;
  for (int n = 2; n <= here && count < GROUPINGS_MOST; n *= 2)
    list[count++] = (struct grouping){n, 1, false};
  for (int n = 2; n <= hosts && count < GROUPINGS_MOST; n *= 2)
    list[count++] = (struct grouping){n, here, true};
  return count;
}

static int size_count(bool quick) {
  int count = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    count += !quick || quick_size[i];
  return count;
}

int spp_meter_message_count(const struct spp_meter *m) {
  struct grouping list[GROUPINGS_MOST];
  return groupings(m, list) * SPP_COLLECTIVE_COUNT * size_count(m->options->quick);
}

/* The group of this rank, aligned blocks; false when the ranks left over are too few for one more. */
static bool join(struct exchange *x, const struct grouping *g) {
  struct spp_endpoint *end = x->meter->rank->end;
  int block = g->size * g->stride, first = end->rank / block * block + end->rank % g->stride;
  if (end->rank / block * block + block > end->size) return false;
  spp_group_make(&x->group, end, NULL, SPP_GROUP_DP, first, g->stride, g->size);
  x->group.staging = x->staging;
  x->group.staging_floats = STAGING_FLOATS;
  return true;
}

static enum spp_status nothing(void *context, int calls) {
  (void)context;
  (void)calls;
  return SPP_OK;
}

static enum spp_status measure(struct exchange *x, const struct grouping *g) {
  bool quick = x->meter->options->quick, mine = join(x, g);
  for (int op = 0; op < SPP_COLLECTIVE_COUNT; op++)
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
      if (quick && !quick_size[i]) continue;
      x->op = (enum spp_collective)op;
      x->bytes = sizes[i];
      struct spp_measured point = {
          .what = SPP_MEASURED_MESSAGE, .variant = op, .size = {sizes[i], g->size, g->crosses}};
      memset(x->from, 0, (size_t)MESSAGE_MOST * 2);
      SPP_TRY(spp_meter_time(x->meter, point, true, mine ? exchange : nothing, x));
      if (!mine && x->meter->count > 0) x->meter->points[x->meter->count - 1].samples = 0;
    }
  return SPP_OK;
}

enum spp_status spp_meter_messages(struct spp_meter *m) {
  struct grouping list[GROUPINGS_MOST];
  struct exchange x = {.meter = m};
  int count = groupings(m, list);
  x.from = malloc((size_t)MESSAGE_MOST * 2);
  x.to = malloc((size_t)MESSAGE_MOST * 2);
  x.staging = malloc(STAGING_FLOATS * sizeof(float));
  enum spp_status status = x.from && x.to && x.staging ? SPP_OK : spp_diag_oom(m->rank->diag);
  for (int i = 0; status == SPP_OK && i < count; i++)
    status = measure(&x, &list[i]);
  free(x.from);
  free(x.to);
  free(x.staging);
  return status;
}
