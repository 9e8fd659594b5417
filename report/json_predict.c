#include <stdio.h>

#include "model/launch.h"
#include "report/json_parts.h"

static void errors(struct spp_jo *jo, const struct spp_violation *violations, int count) {
  spp_jo_arr(jo, "errors");
  for (int i = 0; i < count; i++) {
    spp_jo_obj(jo, NULL);
    spp_jo_str(jo, "rule", violations[i].rule);
    spp_jo_str(jo, "text", violations[i].text);
    spp_jo_str(jo, "source", violations[i].source[0] ? violations[i].source : NULL);
    spp_jo_end(jo);
  }
  spp_jo_end(jo);
}

static void command(struct spp_jo *jo, const struct spp_job *job, const struct spp_layout *layout) {
  struct spp_str line;
  spp_str_init(&line);
  if (layout) spp_framework_launch(job, layout, &line);
  spp_jo_str(jo, "command", line.len ? spp_str_text(&line) : NULL);
  spp_str_free(&line);
}

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

/* The ledger of the worst stage; null when nobody asked. Rows at the peak sum to device_bytes. */
static void tensors(struct spp_jo *jo, const struct spp_predict_report *answer) {
  if (!answer->tensors || !answer->prediction) {
    spp_jo_null(jo, "tensors");
    return;
  }
  const struct spp_memory *memory = &answer->prediction->memory;
  spp_jo_arr(jo, "tensors");
  for (int i = 0; i < answer->ledger->count; i++)
    if (answer->ledger->entries[i].stage == memory->worst_stage && answer->ledger->entries[i].bytes != 0)
      tensor(jo, &answer->ledger->entries[i], memory->peak_moment);
  spp_jo_end(jo);
}

static void illegal(struct spp_jo *jo, const struct spp_predict_report *answer) {
  if (answer->layout)
    spp_jp_layout(jo, answer->job, answer->layout);
  else
    spp_jo_null(jo, "layout");
  spp_jo_null(jo, "memory");
  spp_jo_null(jo, "comm");
  spp_jo_null(jo, "time");
  spp_jo_null(jo, "cost");
}

void spp_json_predict(const struct spp_report *report, const struct spp_predict_report *answer,
                      struct spp_str *out) {
  struct spp_jo jo;
  struct spp_plan plan;
  bool legal = answer->prediction != NULL;
  spp_jp_open(&jo, out, "spplan.predict/1", report);
  spp_jp_model(&jo, answer->job);
  if (legal) {
    plan = (struct spp_plan){*answer->job, *answer->layout, *answer->prediction};
    spp_jp_plan(&jo, report, &plan);
  } else {
    illegal(&jo, answer);
  }
  spp_jp_words(&jo, report, legal ? &plan : NULL);
  errors(&jo, answer->violations, answer->violation_count);
  spp_jo_str(&jo, "framework", answer->job->framework->name);
  command(&jo, answer->job, legal ? answer->layout : NULL);
  spp_jp_sensitivity(&jo, answer->sensitivities, answer->sensitivity_count);
  tensors(&jo, answer);
  spp_jo_end(&jo);
  if (!spp_jo_ok(&jo)) out->failed = true;
}
