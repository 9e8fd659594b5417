#include "exec/calib.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/stats.h"
#include "exec/calib_parts.h"
#include "exec/host.h"
#include "exec/try.h"

enum { POINTS_TAG = 20012, HOST_TAG = 20013 };

static const char *const names[SPP_MEASURED_COUNT] = {[SPP_MEASURED_GEMM] = "gemm",
                                                      [SPP_MEASURED_ATTENTION] = "attention",
                                                      [SPP_MEASURED_MEMORY] = "memory",
                                                      [SPP_MEASURED_MESSAGE] = "message"};
const char *spp_measured_name(enum spp_measured_what what) {
  return names[what];
}

/* Shared by the ranks of one process. */
struct calibration {
  const struct spp_calibrate_options *options;
  struct spp_profile *profile; /* filled on rank 0 */
  bool processes;              /* a rank is a process of its own */
};

struct whereabouts {
  char host[SPP_HOST_NAME], machine[SPP_HOST_NAME];
};

/* Ranks on rank 0's host, and on its machine, whose processors several hosts share that are namespaces. */
struct neighbours {
  int host, machine;
};

/* Names of the ranks' hosts go to rank 0, which tells all how many ranks its host and machine have. */
static enum spp_status count_hosts(struct spp_endpoint *end, struct neighbours *here, struct spp_diag *diag) {
  struct whereabouts mine = {.host = ""}, other;
  struct spp_transfer t;
  if (gethostname(mine.host, sizeof mine.host - 1) != 0) mine.host[0] = '\0';
  spp_host_machine(mine.machine, sizeof mine.machine);
  *here = (struct neighbours){1, 1};
  if (end->rank != 0) {
    SPP_TRY(end->ops->isend(end, 0, HOST_TAG, &mine, sizeof mine, &t, diag));
    SPP_TRY(end->ops->wait(end, &t, diag));
    SPP_TRY(end->ops->irecv(end, 0, HOST_TAG, here, sizeof *here, &t, diag));
    return end->ops->wait(end, &t, diag);
  }
  for (int i = 1; i < end->size; i++) {
    SPP_TRY(end->ops->irecv(end, i, HOST_TAG, &other, sizeof other, &t, diag));
    SPP_TRY(end->ops->wait(end, &t, diag));
    here->host += here->host == i && strncmp(mine.host, other.host, sizeof mine.host) == 0;
    here->machine += strncmp(mine.machine, other.machine, sizeof mine.machine) == 0;
  }
  for (int i = 1; i < end->size; i++) {
    SPP_TRY(end->ops->isend(end, i, HOST_TAG, here, sizeof *here, &t, diag));
    SPP_TRY(end->ops->wait(end, &t, diag));
  }
  return SPP_OK;
}

/* Kernels: the middle rank's time. Messages: the slowest's, who sets the pace. */
static void merge_point(struct spp_measured *point, const struct spp_measured *of_ranks, int stride,
                        int ranks) {
  double medians[SPP_EXEC_MAX_RANKS], spreads[SPP_EXEC_MAX_RANKS];
  int n = 0;
  for (int i = 0; i < ranks; i++) {
    const struct spp_measured *p = &of_ranks[i * stride];
    if (p->samples == 0) continue;
    medians[n] = p->median_s;
    spreads[n++] = p->mad_s;
  }
  *point = of_ranks[0];
  if (n == 0) return;
  spp_sort_reals(medians, n);
  spp_sort_reals(spreads, n);
  point->median_s = medians[point->what == SPP_MEASURED_MESSAGE ? n - 1 : (n - 1) / 2];
  point->mad_s = spreads[(n - 1) / 2];
}

static enum spp_status collect(struct spp_endpoint *end, const struct spp_meter *m,
                               struct spp_profile *profile, struct spp_diag *diag) {
  size_t bytes = (size_t)SPP_MEASURED_MAX * sizeof *m->points;
  struct spp_transfer t;
  enum spp_status status = SPP_OK;
  if (end->rank != 0) {
    SPP_TRY(end->ops->isend(end, 0, POINTS_TAG, m->points, (int64_t)bytes, &t, diag));
    return end->ops->wait(end, &t, diag);
  }
  struct spp_measured *all = calloc((size_t)end->size, bytes);
  if (!all) return spp_diag_oom(diag);
  memcpy(all, m->points, bytes);
  for (int i = 1; status == SPP_OK && i < end->size; i++) {
    status =
        end->ops->irecv(end, i, POINTS_TAG, all + (size_t)i * SPP_MEASURED_MAX, (int64_t)bytes, &t, diag);
    if (status == SPP_OK) status = end->ops->wait(end, &t, diag);
  }
  for (int p = 0; p < m->count; p++)
    merge_point(&profile->points[p], all + p, SPP_MEASURED_MAX, end->size);
  profile->point_count = m->count;
  free(all);
  return status;
}

static enum spp_status measure(struct calibration *c, struct spp_rank *rank, struct spp_measured *points) {
  struct spp_endpoint *end = rank->end;
  struct spp_meter m = {.rank = rank, .kernels = spp_kernels_best(), .options = c->options, .points = points};
  struct spp_host_use before, after;
  struct neighbours here;
  SPP_TRY(count_hosts(end, &here, rank->diag));
  m.ranks_here = here.host;
  m.total = spp_meter_kernel_count(c->options->quick) + spp_meter_message_count(&m);
  spp_host_use_read(&before);
  SPP_TRY(spp_meter_kernels(&m));
  SPP_TRY(spp_meter_messages(&m));
  spp_host_use_read(&after);
  SPP_TRY(collect(end, &m, c->profile, rank->diag));
  if (end->rank != 0) return SPP_OK;
  c->profile->ranks = end->size;
  c->profile->hosts = (end->size + m.ranks_here - 1) / m.ranks_here;
  c->profile->cluster.gpus_per_node = here.host;
  c->profile->cluster.processors_per_node =
      (double)spp_host_processors() * (double)here.host / (double)here.machine;
  c->profile->others_share = spp_host_others_share(&before, &after, c->processes ? here.machine : 1);
  return SPP_OK;
}

static enum spp_status rank_main(struct spp_endpoint *end, void *context, struct spp_diag *diag) {
  struct spp_rank *rank = calloc(1, sizeof *rank);
  struct spp_measured *points = calloc(SPP_MEASURED_MAX, sizeof *points);
  enum spp_status status = SPP_ERR_INTERNAL;
  if (rank && points) {
    status = spp_rank_open(rank, end, NULL, diag);
    if (status == SPP_OK) status = measure(context, rank, points);
    spp_rank_close(rank);
  } else {
    spp_diag_oom(diag);
  }
  free(points);
  free(rank);
  return status;
}

/* A quarter of the points may be worse: one hiccup proves nothing. */
static double upper_quartile_spread(const struct spp_profile *p) {
  double spreads[SPP_MEASURED_MAX];
  for (int i = 0; i < p->point_count; i++)
    spreads[i] = p->points[i].median_s > 0 ? p->points[i].mad_s / p->points[i].median_s : 0;
  spp_sort_reals(spreads, p->point_count);
  return p->point_count > 0 ? spreads[p->point_count * 3 / 4] : 0;
}

static enum spp_status check_spread(const struct spp_calibrate_options *options, struct spp_profile *profile,
                                    struct spp_diag *diag) {
  profile->spread = upper_quartile_spread(profile);
  if (options->max_spread <= 0 || profile->spread <= options->max_spread) return SPP_OK;
  char others[64] = "";
  if (profile->others_share > 0.02)
    snprintf(others, sizeof others, "; other programs use %.0f %% of the processors",
             100 * profile->others_share);
  return spp_diag_set(diag, SPP_ERR_TOLERANCE, "this machine",
                      "stop what else runs, or allow more with --max-spread",
                      "times of the same call differ by %.0f %%, %.0f %% are allowed%s",
                      100 * profile->spread, 100 * options->max_spread, others);
}

enum spp_status spp_calibrate(const struct spp_backend *backend, const struct spp_calibrate_options *options,
                              struct spp_profile *profile, struct spp_diag *diag) {
  struct calibration c = {options, profile, backend != &spp_backend_self};
  memset(profile, 0, sizeof *profile);
  SPP_TRY(backend->run(options->ranks, options->timeout_s, rank_main, &c, diag));
  if (!backend->leads()) return SPP_OK;
  SPP_TRY(check_spread(options, profile, diag));
  return spp_calib_conclude(profile, diag);
}
