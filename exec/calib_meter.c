/* Timing a call: warmed up, repeated until a sample is long enough for the clock, median and median distance
 * from it. */
#include <math.h>
#include <string.h>

#include "base/stats.h"
#include "exec/calib_parts.h"
#include "exec/host.h"
#include "exec/try.h"

enum { SAMPLES_MOST = 11, CALLS_MOST = 4096, AGREE_TAG = 20011 };

/* Of n > 0 values, which are sorted. */
static double median_of(double *values, int n) {
  spp_sort_reals(values, n);
  return spp_quantile(values, n, 0.5);
}

/* Rank 0 says how many calls a sample has, so that all make the same. */
static enum spp_status agree_on(struct spp_endpoint *end, int *calls, struct spp_diag *diag) {
  struct spp_transfer t;
  if (end->rank != 0) {
    SPP_TRY(end->ops->irecv(end, 0, AGREE_TAG, calls, sizeof *calls, &t, diag));
    return end->ops->wait(end, &t, diag);
  }
  for (int i = 1; i < end->size; i++) {
    SPP_TRY(end->ops->isend(end, i, AGREE_TAG, calls, sizeof *calls, &t, diag));
    SPP_TRY(end->ops->wait(end, &t, diag));
  }
  return SPP_OK;
}

static enum spp_status sample(struct spp_meter *m, bool together, spp_meter_call *call, void *context,
                              int calls, double *seconds) {
  struct spp_endpoint *end = m->rank->end;
  if (together) SPP_TRY(end->ops->barrier(end, m->rank->diag));
  double start_s = together ? end->ops->clock() : spp_host_thread_s();
  SPP_TRY(call(context, calls));
  *seconds = ((together ? end->ops->clock() : spp_host_thread_s()) - start_s) / calls;
  return SPP_OK;
}

static void add(struct spp_meter *m, const struct spp_measured *point) {
  const struct spp_calibrate_options *o = m->options;
  if (m->count < SPP_MEASURED_MAX) m->points[m->count++] = *point;
  m->done++;
  if (o->progress && m->rank->end->rank == 0) o->progress(o->progress_context, m->done, m->total);
}

enum spp_status spp_meter_time(struct spp_meter *m, struct spp_measured point, bool together,
                               spp_meter_call *call, void *context) {
  double times[SAMPLES_MOST], once_s;
  const double least_s = m->options->quick ? 100e-6 : 300e-6, most_s = m->options->quick ? 0.01 : 0.05;
  SPP_TRY(sample(m, together, call, context, 1, &once_s)); /* pages and caches */
  SPP_TRY(sample(m, together, call, context, 1, &once_s));
  int calls = (int)fmin(CALLS_MOST, fmax(1, ceil(least_s / fmax(once_s, 1e-8))));
  int samples = (int)fmax(5, fmin(SAMPLES_MOST, most_s / fmax(once_s * calls, 1e-8)));
  if (together) {
    SPP_TRY(agree_on(m->rank->end, &calls, m->rank->diag));
    SPP_TRY(agree_on(m->rank->end, &samples, m->rank->diag));
  }
  for (int i = 0; i < samples; i++)
    SPP_TRY(sample(m, together, call, context, calls, &times[i]));
  point.samples = samples;
  point.median_s = median_of(times, samples);
  for (int i = 0; i < samples; i++)
    times[i] = fabs(times[i] - point.median_s);
  point.mad_s = median_of(times, samples);
  add(m, &point);
  return SPP_OK;
}
