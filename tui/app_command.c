/* What is typed: form fields, commands, filters, file names; and the command line that says the same. */
#include <stdio.h>
#include <string.h>

#include "model/setting_list.h"
#include "tui/app.h"

unsigned spp_app_set(struct spp_app *app, const char *option, const char *text) {
  struct spp_diag diag = {.status = SPP_OK};
  const char *now = spp_words_get(&app->words, option);
  bool free_it = !*text || strcmp(text, "any") == 0 || strcmp(text, "none") == 0;
  char message[1000];
  if (now && strcmp(now, text) == 0) return SPP_EFFECT_DRAW;
  if (app->host->check(app->host->self, option, text, &diag) != SPP_OK) {
    int field = spp_form_find(option);
    if (!free_it || (field >= 0 && spp_form_fields[field].needed) || (!now && field < 0)) {
      spp_app_say(app, true, "%s", spp_diag_format(&diag, message, sizeof message));
      return SPP_EFFECT_DRAW;
    }
    if (!spp_words_unset(&app->words, option)) return SPP_EFFECT_DRAW;
    return SPP_EFFECT_DRAW | SPP_EFFECT_PLAN;
  }
  if (!spp_words_set(&app->words, option, text)) {
    spp_app_say(app, true, "--%s: too long, or too many options", option);
    return SPP_EFFECT_DRAW;
  }
  return SPP_EFFECT_DRAW | SPP_EFFECT_PLAN;
}

static unsigned save_to(struct spp_app *app, const char *path) {
  if (!*path) {
    spp_app_say(app, true, "give a file name");
    return SPP_EFFECT_DRAW;
  }
  if (!app->outcome) {
    spp_app_say(app, true, "there is no plan yet");
    return SPP_EFFECT_DRAW;
  }
  snprintf(app->save_path, sizeof app->save_path, "%s", path);
  return SPP_EFFECT_DRAW | SPP_EFFECT_SAVE;
}

/* "seq 64k", "--seq=64k", "packing"; "q" and "w FILE" as editors have them. */
static unsigned one_command(struct spp_app *app, const char *line) {
  char name[SPP_WORD_NAME], text[SPP_WORD_TEXT];
  line += strspn(line, " -");
  size_t length = strcspn(line, " =");
  if (length == 0) return SPP_EFFECT_DRAW;
  snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), line);
  line += length;
  line += strspn(line, " =");
  snprintf(text, sizeof text, "%s", line);
  for (size_t end = strlen(text); end > 0 && text[end - 1] == ' ';)
    text[--end] = '\0';
  if (strcmp(name, "q") == 0 || strcmp(name, "quit") == 0) return SPP_EFFECT_QUIT;
  if (strcmp(name, "w") == 0 || strcmp(name, "save") == 0) return save_to(app, text);
  if (strcmp(name, "help") == 0) {
    spp_app_open(app, SPP_OVERLAY_HELP);
    return SPP_EFFECT_DRAW;
  }
  return spp_app_set(app, name, text);
}

/* Several options stand as on the command line: "--seq 64k --gpus 16". The first that will not do ends it. */
unsigned spp_app_command(struct spp_app *app, const char *line) {
  unsigned effects = 0;
  for (const char *next; line && !(app->message[0] && app->message_bad); line = next) {
    char one[SPP_WORD_TEXT];
    next = strstr(line + strspn(line, " "), " --");
    size_t length = next ? (size_t)(next - line) : strlen(line);
    snprintf(one, sizeof one, "%.*s", (int)(length < sizeof one ? length : sizeof one - 1), line);
    if (next) next++;
    effects |= one_command(app, one);
  }
  return effects;
}

/* The prompt stays open where its text will not do, with the reason. */
static unsigned finish(struct spp_app *app) {
  struct spp_prompt done = app->prompt;
  unsigned effects = SPP_EFFECT_DRAW;
  app->message[0] = '\0';
  app->prompt.kind = SPP_PROMPT_NONE;
  switch (done.kind) {
  case SPP_PROMPT_FIELD: effects = spp_app_set(app, done.option, done.text); break;
  case SPP_PROMPT_COMMAND: effects = spp_app_command(app, done.text); break;
  case SPP_PROMPT_SAVE: effects = save_to(app, done.text); break;
  case SPP_PROMPT_FILTER:
    snprintf(app->filter, sizeof app->filter, "%.60s", done.text);
    app->plans.cursor = 0;
    spp_app_arrange(app);
    break;
  case SPP_PROMPT_NONE: break;
  }
  if (app->message[0] && app->message_bad) {
    app->prompt = done;
    snprintf(app->prompt.error, sizeof app->prompt.error, "%s", app->message);
    app->message[0] = '\0';
  }
  return effects;
}

unsigned spp_app_prompt_key(struct spp_app *app, int key) {
  switch (spp_prompt_key(&app->prompt, app->host, key)) {
  case SPP_TYPED_DONE: return finish(app);
  case SPP_TYPED_GIVEN_UP: app->prompt.kind = SPP_PROMPT_NONE; return SPP_EFFECT_DRAW;
  case SPP_TYPED_ON: break;
  }
  if (app->prompt.kind == SPP_PROMPT_FILTER) { /* the table follows what is typed */
    snprintf(app->filter, sizeof app->filter, "%.60s", app->prompt.text);
    app->plans.cursor = 0;
    spp_app_arrange(app);
  }
  return SPP_EFFECT_DRAW;
}

/* ---- the same on the command line ---- */

static void say_degree(struct spp_str *out, const char *name, int64_t degree) {
  if (degree > 1) spp_str_addf(out, " --%s %lld", name, (long long)degree);
}

static void say_recompute(const struct spp_layout *layout, struct spp_str *out) {
  int said = 0;
  spp_str_addf(out, " --recompute %s", spp_recompute_name(layout->recompute));
  for (int bit = 0; layout->recompute == SPP_RECOMPUTE_SELECTIVE && bit < 32; bit++)
    if (layout->recompute_modules >> bit & 1U)
      spp_str_addf(out, "%s%s", said++ ? "," : " --recompute-modules ", spp_recompute_module_name(bit));
  if (layout->recompute != SPP_RECOMPUTE_FULL) return;
  if (layout->recompute_layers >= 0)
    spp_str_addf(out, " --recompute-layers %lld", (long long)layout->recompute_layers);
  say_degree(out, "recompute-unit", layout->recompute_unit);
}

static void say_offload(const struct spp_layout *layout, struct spp_str *out) {
  spp_str_addf(out, " --offload %s", spp_offload_name(layout->offload));
  if (layout->offload_layers > 0)
    spp_str_addf(out, " --offload-layers %lld", (long long)layout->offload_layers);
}

static void say_layout(const struct spp_layout *layout, struct spp_str *out) {
  say_degree(out, "tp", layout->tp);
  say_degree(out, "pp", layout->pp);
  say_degree(out, "vpp", layout->vpp);
  if (layout->first_stage_layers > 0)
    spp_str_addf(out, " --first-stage-layers %lld", (long long)layout->first_stage_layers);
  if (layout->last_stage_layers > 0)
    spp_str_addf(out, " --last-stage-layers %lld", (long long)layout->last_stage_layers);
  say_degree(out, "ep", layout->ep);
  if (layout->ep > 1 && layout->etp >= 1) spp_str_addf(out, " --etp %lld", (long long)layout->etp);
  spp_str_addf(out, " --sp-kind %s", spp_sp_kind_name(layout->sp_kind));
  say_degree(out, "ulysses", layout->ulysses);
  say_degree(out, "ring", layout->ring);
  if (layout->tp > 1) spp_str_add(out, layout->megatron_sp ? " --megatron-sp" : " --no-megatron-sp");
  spp_str_addf(out, " --zero %d", layout->zero);
  say_degree(out, "dp-replicate", layout->dp_replicate);
  say_recompute(layout, out);
  if (layout->offload != SPP_OFFLOAD_NONE) say_offload(layout, out);
  if (layout->fpdt_chunk > 0)
    spp_str_addf(out, " --fpdt-chunk %lld%s", (long long)layout->fpdt_chunk,
                 layout->fpdt_offload ? "" : " --no-fpdt-offload");
  if (layout->pp > 1) spp_str_addf(out, " --schedule %s", spp_schedule_name(layout->schedule));
  spp_str_addf(out, " --micro-batch %lld", (long long)layout->micro_batch);
}

/* The job's words without those of the layout and of the search. */
static void say_job(const struct spp_app *app, struct spp_str *out) {
#define NAME(group, name, letter, kind, arg, holder, field, scope, key, help) name
  static const char *const layout_words[] = {
      SPP_SETTINGS_LAYOUT(NAME), "framework", "top", "objective", "search", "threads"};
#undef NAME
  struct spp_words words = app->words;
  for (size_t i = 0; i < sizeof layout_words / sizeof layout_words[0]; i++)
    spp_words_unset(&words, layout_words[i]);
  spp_words_print(&words, out);
}

void spp_app_command_line(const struct spp_app *app, struct spp_str *out) {
  const struct spp_plan *plan = spp_app_selected(app);
  spp_str_add(out, "these plans\n  spplan plan ");
  spp_words_print(&app->words, out);
  if (!plan) return;
  spp_str_add(out, "\n\nthe selected one, every byte and second of it\n  spplan predict ");
  say_job(app, out);
  spp_str_addf(out, " --framework %s", plan->job.framework->name);
  say_layout(&plan->layout, out);
  if (!spp_words_get(&app->words, "loss")) /* which the search chose */
    spp_str_addf(out, " --loss %s", spp_loss_choice_name(plan->job.loss));
}
