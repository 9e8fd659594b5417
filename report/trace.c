/* A timeline in the Trace Event Format of chrome://tracing and ui.perfetto.dev: one process a pipeline rank,
 * one thread a lane, microseconds. */
#include <stdio.h>

#include "base/json_out.h"
#include "report/facts.h"
#include "report/trace.h"

static void name_event(struct spp_jo *jo, const char *kind, int process, int lane, const char *name) {
  spp_jo_obj(jo, NULL);
  spp_jo_str(jo, "name", kind);
  spp_jo_str(jo, "ph", "M");
  spp_jo_i64(jo, "pid", process);
  spp_jo_i64(jo, "tid", lane);
  spp_jo_obj(jo, "args");
  spp_jo_str(jo, "name", name);
  spp_jo_end(jo);
  spp_jo_end(jo);
}

static bool lane_used(const struct spp_timeline *t, int process, int lane) {
  for (int64_t i = 0; i < t->count; i++)
    if (t->slices[i].process == process && (int)t->slices[i].lane == lane) return true;
  return false;
}

static void names(struct spp_jo *jo, const struct spp_timeline *t) {
  char name[80];
  for (int p = 0; p < t->process_count; p++) {
    snprintf(name, sizeof name, "pipeline rank %lld of %lld%s", (long long)t->process_stage[p],
             (long long)t->stages, t->stages > 1 && p == t->slowest ? " (slowest)" : "");
    name_event(jo, "process_name", p, 0, name);
    for (int lane = 0; lane < SPP_LANE_COUNT; lane++)
      if (lane_used(t, p, lane)) name_event(jo, "thread_name", p, lane, spp_lane_name((enum spp_lane)lane));
  }
}

/* "forward 3", "k and v, layer 7, hop 2". */
static void slice_name(const struct spp_slice *s, char *buf, size_t size) {
  bool comm = s->lane >= SPP_LANE_COMM && s->lane < SPP_LANE_OFFLOAD;
  int n = snprintf(buf, size, "%s", s->what);
  if (s->lane == SPP_LANE_SCHEDULE && s->micro_batch >= 0)
    n += snprintf(buf + n, size - (size_t)n, " %lld", (long long)s->micro_batch + 1);
  if (s->layer >= 0) n += snprintf(buf + n, size - (size_t)n, ", layer %lld", (long long)s->layer + 1);
  if (s->pieces > 0) snprintf(buf + n, size - (size_t)n, ", %s %d", comm ? "hop" : "block", s->piece + 1);
}

static void slice(struct spp_jo *jo, const struct spp_slice *s) {
  char name[160];
  slice_name(s, name, sizeof name);
  spp_jo_obj(jo, NULL);
  spp_jo_str(jo, "name", name);
  spp_jo_str(jo, "cat", spp_lane_name(s->lane));
  spp_jo_str(jo, "ph", "X");
  spp_jo_i64(jo, "pid", s->process);
  spp_jo_i64(jo, "tid", (int)s->lane);
  spp_jo_real_exact(jo, "ts", s->start_s * 1e6);
  spp_jo_real_exact(jo, "dur", s->dur_s * 1e6);
  spp_jo_obj(jo, "args");
  if (s->micro_batch >= 0) spp_jo_i64(jo, "micro_batch", s->micro_batch + 1);
  if (s->lane == SPP_LANE_SCHEDULE && s->micro_batch >= 0) spp_jo_i64(jo, "chunk", s->piece + 1);
  if (s->lane >= SPP_LANE_COMM && s->lane < SPP_LANE_OFFLOAD)
    spp_jo_real_exact(jo, "exposed_us", s->exposed_s * 1e6);
  spp_jo_end(jo);
  spp_jo_end(jo);
}

static void about(struct spp_jo *jo, const struct spp_job *job, const struct spp_layout *layout,
                  const struct spp_timeline *t) {
  char described[320], text[256];
  spp_jo_obj(jo, "otherData");
  spp_jo_str(jo, "what", "a predicted training step, drawn from the time model; nothing here was measured");
  spp_jo_str(jo, "model", job->arch->display);
  spp_jo_str(jo, "framework", job->framework->display);
  spp_jo_str(jo, "layout", spp_layout_describe(job, layout, described, sizeof described));
  spp_jo_real_exact(jo, "step_s", t->length_s);
  spp_jo_str(jo, "order", spp_order_name(t->order));
  if (t->order == SPP_ORDER_ZB_H2)
    spp_jo_str(
        jo, "clocks",
        "no rank waits for another at the optimizer: each is drawn from the beginning of its own step");
  snprintf(text, sizeof text, "%d of %lld: the first, a middle one, the slowest and the last",
           t->process_count, (long long)t->stages);
  spp_jo_str(jo, "pipeline_ranks", text);
  snprintf(text, sizeof text,
           "each other rank takes %.4g of the slowest rank's time a micro-batch, which gives the "
           "predicted bubble",
           t->speed);
  if (t->stages > 1) spp_jo_str(jo, "other_ranks", text);
  snprintf(text, sizeof text,
           "micro-batches drawn layer by layer: the first %lld; the layers of a stage are drawn "
           "alike, with its embedding, head and loss spread over them",
           (long long)t->layered);
  spp_jo_str(jo, "layers", text);
  spp_jo_end(jo);
}

void spp_trace_write(const struct spp_job *job, const struct spp_layout *layout,
                     const struct spp_timeline *timeline, struct spp_str *out) {
  struct spp_jo jo;
  spp_jo_begin(&jo, out, false);
  spp_jo_obj(&jo, NULL);
  spp_jo_str(&jo, "displayTimeUnit", "ms");
  about(&jo, job, layout, timeline);
  spp_jo_arr(&jo, "traceEvents");
  names(&jo, timeline);
  for (int64_t i = 0; i < timeline->count; i++)
    slice(&jo, &timeline->slices[i]);
  spp_jo_end(&jo);
  spp_jo_end(&jo);
  if (!spp_jo_ok(&jo)) out->failed = true;
}
