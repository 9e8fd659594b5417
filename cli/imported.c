#include "cli/imported.h"

#include <stdio.h>
#include <string.h>

#include "cli/setup.h"
#include "interop/import.h"
#include "report/text.h"

int spp_imported_warnings(const struct spp_cli *cli, struct spp_advice *advice, int max) {
  int count = 0, more = 0;
  for (int i = 0; cli->imported && i < cli->imported->message_count; i++) {
    const struct spp_import_message *m = &cli->imported->messages[i];
    if (m->said == SPP_IMPORT_PASSED) continue;
    if (count == max - 1) {
      more++;
      continue;
    }
    snprintf(advice[count].code, sizeof advice[count].code, "import-%s", spp_import_said_name(m->said));
    if (m->line > 0)
      snprintf(advice[count].text, sizeof advice[count].text, "%.80s:%d: %.220s", m->file, m->line, m->text);
    else
      snprintf(advice[count].text, sizeof advice[count].text, "%.80s: %.220s", m->file, m->text);
    count++;
  }
  if (more == 0) return count;
  snprintf(advice[count].code, sizeof advice[count].code, "import-more");
  snprintf(advice[count].text, sizeof advice[count].text, "%d more such lines: --json has them all", more);
  return count + 1;
}

/* The setting as a person says it: "no recompute", "packing", "micro-batch 8". */
static void add_default(const struct spp_import_setting *s, struct spp_str *text) {
  const bool none = strcmp(s->value, "none") == 0 || strcmp(s->value, "false") == 0;
  spp_str_add(text, text->len > 0 ? ", " : "");
  if (none)
    spp_str_addf(text, "no %s", s->name);
  else
    spp_str_addf(text, "%s %s", s->name, s->value);
}

int spp_imported_defaults(const struct spp_cli *cli, struct spp_advice *advice) {
  struct spp_str text;
  spp_str_init(&text);
  for (int i = 0; cli->imported && i < cli->imported->setting_count; i++) {
    const struct spp_import_setting *s = &cli->imported->settings[i];
    if (s->assumed && spp_cli_set_by(cli, s->name) == SPP_SET_BY_SAVED) add_default(s, &text);
  }
  snprintf(advice->code, sizeof advice->code, "import-defaults");
  if (text.len > 0)
    snprintf(advice->text, sizeof advice->text, "%.250s (%.50s's defaults)", spp_str_text(&text),
             cli->imported->format->display);
  int count = text.len > 0;
  spp_str_free(&text);
  return count;
}

const struct spp_read_report *spp_imported_report(struct spp_cli *cli) {
  const struct spp_imported *in = cli->imported;
  struct spp_read_report *report = spp_arena_alloc(&cli->arena, sizeof *report);
  struct spp_read_setting *settings = spp_arena_array(&cli->arena, SPP_MAX_IMPORT_SETTINGS, sizeof *settings);
  struct spp_read_message *messages = spp_arena_array(&cli->arena, SPP_MAX_IMPORT_MESSAGES, sizeof *messages);
  if (!report || !settings || !messages) return NULL;
  for (int i = 0; i < in->setting_count; i++)
    settings[i] = (struct spp_read_setting){in->settings[i].name, in->settings[i].value, in->settings[i].flag,
                                            in->settings[i].line, in->settings[i].assumed};
  for (int i = 0; i < in->message_count; i++)
    messages[i] =
        (struct spp_read_message){spp_import_said_name(in->messages[i].said), in->messages[i].flag,
                                  in->messages[i].nearest, in->messages[i].text, in->messages[i].line};
  *report = (struct spp_read_report){.file = in->file,
                                     .format = in->format->name,
                                     .settings = settings,
                                     .messages = messages,
                                     .setting_count = in->setting_count,
                                     .message_count = in->message_count};
  return report;
}

/* ---- text ---- */

static int counted(const struct spp_imported *in, enum spp_import_said said) {
  int count = 0;
  for (int i = 0; i < in->message_count; i++)
    count += in->messages[i].said == said;
  return count;
}

static void list_settings(const struct spp_imported *in, const struct spp_text_style *style,
                          struct spp_str *out) {
  for (int i = 0; i < in->setting_count; i++) {
    const struct spp_import_setting *s = &in->settings[i];
    struct spp_str line;
    spp_str_init(&line);
    spp_str_addf(&line, "--%s %s  ", s->name, s->value);
    if (s->line)
      spp_str_addf(&line, "(%s, line %d)", s->flag, s->line);
    else if (s->assumed)
      spp_str_addf(&line, "(%s: the framework's default)", s->flag);
    else
      spp_str_add(&line, "(follows)");
    spp_text_line(style, "", SPP_TONE_PLAIN, spp_str_text(&line), out);
    if (line.failed) out->failed = true;
    spp_str_free(&line);
  }
}

static void list_passed(const struct spp_imported *in, const struct spp_text_style *style,
                        struct spp_str *out) {
  struct spp_str line;
  spp_str_init(&line);
  for (int i = 0; i < in->message_count; i++)
    if (in->messages[i].said == SPP_IMPORT_PASSED)
      spp_str_addf(&line, "%s%s", line.len == 0 ? "passed over: " : " ", in->messages[i].flag);
  if (line.len > 0) spp_text_line(style, "", SPP_TONE_PLAIN, spp_str_text(&line), out);
  if (line.failed) out->failed = true;
  spp_str_free(&line);
}

void spp_imported_text(const struct spp_cli *cli, struct spp_str *out) {
  const struct spp_imported *in = cli->imported;
  const struct spp_text_style style = spp_setup_style(cli);
  int assumed = 0, passed = counted(in, SPP_IMPORT_PASSED), unknown = counted(in, SPP_IMPORT_UNKNOWN);
  struct spp_str line;
  for (int i = 0; i < in->setting_count; i++)
    assumed += in->settings[i].assumed;
  spp_str_init(&line);
  spp_str_addf(&line, "%s as %s: %d settings, %d of them %s's defaults; %d %s passed over, %d unknown",
               in->file, in->format->display, in->setting_count, assumed, in->format->display, passed,
               passed == 1 ? "flag" : "flags", unknown);
  spp_text_line(&style, "read", SPP_TONE_PLAIN, spp_str_text(&line), out);
  if (line.failed) out->failed = true;
  spp_str_free(&line);
  if (!cli->args.verbose) return;
  list_settings(in, &style, out);
  list_passed(in, &style, out);
}
