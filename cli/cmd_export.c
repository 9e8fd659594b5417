/* export: the launch command and configuration files of one layout. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json_out.h"
#include "cli/answer.h"
#include "cli/setup.h"
#include "interop/export.h"
#include "report/json_parts.h"

struct exporting {
  struct spp_report report;
  const struct spp_format *format;
  struct spp_job job;
  struct spp_layout layout;
  const struct spp_exported *exported;
};

static void as_text(const void *what, const struct spp_cli *cli, struct spp_str *out) {
  const struct exporting *e = what;
  (void)cli;
  spp_str_add(out, e->exported->files[0].text);
}

static void as_json(const void *what, struct spp_str *out) {
  const struct exporting *e = what;
  struct spp_jo jo;
  spp_jp_open(&jo, out, "spplan.export/1", &e->report);
  spp_jo_str(&jo, "format", e->format->name);
  spp_jp_layout(&jo, &e->job, &e->layout);
  spp_jo_arr(&jo, "files");
  for (int i = 0; i < e->exported->file_count; i++) {
    spp_jo_obj(&jo, NULL);
    spp_jo_str(&jo, "name", e->exported->files[i].name);
    spp_jo_str(&jo, "text", e->exported->files[i].text);
    spp_jo_end(&jo);
  }
  spp_jo_end(&jo);
  spp_jo_arr(&jo, "not_said");
  for (int i = 0; i < e->exported->lost_count; i++) {
    spp_jo_obj(&jo, NULL);
    spp_jo_str(&jo, "name", e->exported->lost[i].name);
    spp_jo_str(&jo, "value", e->exported->lost[i].value);
    spp_jo_str(&jo, "read_back", e->exported->lost[i].read_back);
    spp_jo_end(&jo);
  }
  spp_jo_end(&jo);
  spp_jo_end(&jo);
  if (!spp_jo_ok(&jo)) out->failed = true;
}

/* A header line, and a line for each file. */
static void as_csv(const void *what, struct spp_str *out) {
  const struct exporting *e = what;
  spp_str_add(out, "name,value,read_back\n");
  for (int i = 0; i < e->exported->lost_count; i++)
    spp_str_addf(out, "%s,%s,%s\n", e->exported->lost[i].name, e->exported->lost[i].value,
                 e->exported->lost[i].read_back);
}

/* ---- the job ---- */

/* The framework is the format's, whatever a saved plan was of. */
static enum spp_status choose_format(struct spp_cli *cli, struct exporting *e, struct spp_diag *diag) {
  if (cli->args.to < 0)
    return spp_diag_set(diag, SPP_ERR_USAGE, "command line",
                        "'spplan list exporters' names them: --to ms-swift", "--to is missing");
  e->format = spp_formats[cli->args.to];
  if (spp_cli_set_by(cli, "framework") == SPP_SET_BY_FLAG &&
      strcmp(cli->args.framework, e->format->framework) != 0)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--framework", "leave it out", "--to %s writes a job of %s",
                        e->format->name, e->format->framework);
  cli->args.framework = e->format->framework;
  return SPP_OK;
}

static enum spp_status lay_out(struct spp_cli *cli, struct exporting *e, struct spp_diag *diag) {
  const struct spp_framework *framework;
  struct spp_violation violation;
  struct spp_setup setup;
  enum spp_status status =
      spp_setup_job(cli, &cli->args, SPP_NEED_MODEL | SPP_NEED_SEQ | SPP_NEED_GPUS, &setup, diag);
  if (status == SPP_OK) status = spp_setup_one_framework(&setup, &framework, diag);
  if (status == SPP_OK) status = spp_job_resolve(&cli->args.spec, framework, &e->job, diag);
  if (status == SPP_OK) status = spp_layout_complete(&e->job, &cli->args.request, &e->layout, diag);
  if (status == SPP_OK && spp_rules_check(&e->job, &e->layout, &violation, 1) > 0)
    status =
        spp_diag_set(diag, SPP_ERR_USAGE, violation.rule, "'spplan plan' with the same job finds a legal one",
                     "illegal layout: %s", violation.text);
  return status == SPP_OK ? spp_setup_report(cli, &setup, &e->job, true, &e->report, diag) : status;
}

/* ---- the files ---- */

static enum spp_status make_folder(const char *folder, struct spp_diag *diag) {
  if (spp_path_is_dir(folder) || mkdir(folder, 0777) == 0) return SPP_OK;
  return spp_diag_set(diag, SPP_ERR_INPUT, "--output", "name a folder, or a place for one",
                      "cannot make the folder '%.200s': %s", folder, strerror(errno));
}

static enum spp_status write_folder(struct spp_cli *cli, const struct exporting *e, struct spp_diag *diag) {
  const char *folder = cli->args.output;
  enum spp_status status = make_folder(folder, diag);
  for (int i = 0; i < e->exported->file_count && status == SPP_OK; i++) {
    const struct spp_export_file *file = &e->exported->files[i];
    const char *path = spp_arena_printf(&cli->arena, "%s/%s", folder, file->name);
    if (!path) return spp_diag_oom(diag);
    status = spp_file_write_atomic(path, file->text, strlen(file->text), diag);
    spp_str_addf(&cli->out, "%s\n", path);
  }
  cli->args.output = NULL; /* what was written is said on standard output */
  return status;
}

static enum spp_status run(struct spp_cli *cli, struct exporting *e, struct spp_diag *diag) {
  enum spp_status status = choose_format(cli, e, diag);
  if (status == SPP_OK) status = lay_out(cli, e, diag);
  if (status == SPP_OK)
    status = spp_export(e->format, cli->config_dir, &e->job, &e->layout, &cli->arena, &e->exported, diag);
  if (status != SPP_OK) return status;
  const bool text = !cli->args.json && !cli->args.csv, several = e->exported->file_count > 1;
  const char *output = cli->args.output && strcmp(cli->args.output, "-") != 0 ? cli->args.output : NULL;
  if (text && several && !output) {
    char names[200] = "";
    for (int i = 1; i < e->exported->file_count; i++)
      snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i > 1 ? ", " : "",
               e->exported->files[i].name);
    return spp_diag_set(diag, SPP_ERR_USAGE, "--output", "give -o FOLDER, or --json for all in one",
                        "this is %d files: the command, and %s", e->exported->file_count, names);
  }
  if (text && output && (several || spp_path_is_dir(output))) return write_folder(cli, e, diag);
  return spp_answer_give(cli, &(struct spp_answer){e, as_text, as_json, as_csv, NULL}, diag);
}

enum spp_status spp_run_export(struct spp_cli *cli, struct spp_diag *diag) {
  struct exporting *e = calloc(1, sizeof *e);
  if (!e) return spp_diag_oom(diag);
  enum spp_status status = run(cli, e, diag);
  free(e);
  return status;
}
