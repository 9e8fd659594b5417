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

static void import(struct spp_jo *jo, const struct spp_read_report *read) {
  spp_jo_obj(jo, "import");
  spp_jo_str(jo, "file", read->file);
  spp_jo_str(jo, "format", read->format);
  spp_jo_arr(jo, "settings");
  for (int i = 0; i < read->setting_count; i++) {
    spp_jo_obj(jo, NULL);
    spp_jo_str(jo, "name", read->settings[i].name);
    spp_jo_str(jo, "value", read->settings[i].value);
    spp_jo_str(jo, "flag", read->settings[i].flag);
    spp_jo_i64_if(jo, "line", read->settings[i].line, read->settings[i].line > 0);
    spp_jo_bool(jo, "assumed", read->settings[i].assumed);
    spp_jo_end(jo);
  }
  spp_jo_end(jo);
  spp_jo_arr(jo, "messages");
  for (int i = 0; i < read->message_count; i++) {
    spp_jo_obj(jo, NULL);
    spp_jo_str(jo, "what", read->messages[i].what);
    spp_jo_str(jo, "flag", read->messages[i].flag);
    spp_jo_str(jo, "nearest", read->messages[i].nearest);
    spp_jo_i64_if(jo, "line", read->messages[i].line, read->messages[i].line > 0);
    spp_jo_str(jo, "text", read->messages[i].text);
    spp_jo_end(jo);
  }
  spp_jo_end(jo);
  spp_jo_end(jo);
}

void spp_json_predict(const struct spp_report *report, const struct spp_predict_report *answer,
                      struct spp_str *out) {
  struct spp_jo jo;
  struct spp_plan plan;
  bool legal = answer->prediction != NULL;
  spp_jp_open(&jo, out, answer->read ? "spplan.import/1" : "spplan.predict/1", report);
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
  spp_jp_tensors(&jo, legal && answer->tensors ? answer->ledger : NULL,
                 legal ? &answer->prediction->memory : NULL);
  if (answer->read) import(&jo, answer->read);
  spp_jo_end(&jo);
  if (!spp_jo_ok(&jo)) out->failed = true;
}
