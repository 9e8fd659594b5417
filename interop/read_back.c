/* What an export does not say: it is imported again, and the job that comes out is compared with the one that
 * went in. */
#include <string.h>

#include "base/json_out.h"
#include "interop/export_internal.h"
#include "interop/fields.h"
#include "interop/import.h"
#include "model/setting.h"

static enum spp_status compare(const struct spp_job *job, const struct spp_layout *layout,
                               const struct spp_job *back, const struct spp_layout *back_layout,
                               struct spp_arena *arena, struct spp_exported *e, struct spp_diag *diag) {
  struct spp_field_pair pairs[SPP_MAX_EXPORT_LOST];
  enum spp_status status = spp_fields_compare(job, layout, back, back_layout, arena, pairs,
                                              SPP_MAX_EXPORT_LOST, &e->lost_count, diag);
  for (int i = 0; status == SPP_OK && i < e->lost_count; i++)
    e->lost[i] = (struct spp_export_lost){pairs[i].name, pairs[i].a, pairs[i].b};
  return status;
}

/* ---- there and back ---- */

static bool is_setting(const char *name) {
  for (int i = 0; i < spp_setting_count(); i++)
    if (strcmp(spp_setting_name(i), name) == 0) return true;
  return false;
}

static enum spp_status complete(const struct spp_imported *in, const struct spp_job *job,
                                struct spp_job *back, struct spp_layout *layout, struct spp_diag *diag) {
  struct spp_job_spec spec;
  struct spp_request request;
  enum spp_status status = SPP_OK;
  spp_job_spec_clear(&spec);
  spp_request_clear(&request);
  spec.arch = job->arch, spec.gpu = job->gpu, spec.cluster = job->cluster, spec.calib = job->calib;
  spec.max_memory_bytes = job->max_memory_bytes;
  for (int i = 0; i < in->setting_count && status == SPP_OK; i++)
    if (is_setting(in->settings[i].name))
      status = spp_setting_apply(in->settings[i].name, in->settings[i].value, &spec, &request, diag);
  if (spec.gpus <= 0) spec.gpus = job->gpus; /* a configuration alone does not count them */
  if (spec.seq_tokens <= 0) spec.seq_tokens = job->seq_tokens;
  if (status == SPP_OK) status = spp_job_resolve(&spec, job->framework, back, diag);
  return status == SPP_OK ? spp_layout_complete(back, &request, layout, diag) : status;
}

enum spp_status spp_export_read_back(const struct spp_format *format, const char *config_dir,
                                     const struct spp_job *job, const struct spp_layout *layout,
                                     struct spp_arena *arena, struct spp_exported *exported,
                                     struct spp_diag *diag) {
  struct spp_import_text texts[SPP_MAX_EXPORT_FILES];
  const struct spp_import_options options = {.config_dir = config_dir,
                                             .format = format,
                                             .model = job->arch->name,
                                             .texts = texts,
                                             .text_count = exported->file_count};
  const struct spp_export_file *file = &exported->files[0];
  const struct spp_imported *in;
  struct spp_layout back_layout;
  struct spp_job *back = spp_arena_alloc(arena, sizeof *back);
  struct spp_diag fault = {0};
  if (!back) return spp_diag_oom(diag);
  for (int i = 0; i < exported->file_count; i++)
    texts[i] = (struct spp_import_text){exported->files[i].name, exported->files[i].text};
  enum spp_status status =
      spp_import_text(file->text, strlen(file->text), file->name, &options, arena, &in, &fault);
  if (status == SPP_OK) status = complete(in, job, back, &back_layout, &fault);
  if (status != SPP_OK) /* ours, not the user's: what we write we read */
    return spp_diag_set(diag, SPP_ERR_INTERNAL, fault.where, fault.hint,
                        "the export cannot be read back: %.200s", fault.what);
  return compare(job, layout, back, &back_layout, arena, exported, diag);
}

/* ---- a DeepSpeed configuration ---- */

static void offload(struct spp_jo *jo, const char *key) {
  spp_jo_obj(jo, key);
  spp_jo_str(jo, "device", "cpu");
  spp_jo_bool(jo, "pin_memory", true);
  spp_jo_end(jo);
}

void spp_export_deepspeed(struct spp_str *out, const struct spp_layout *layout) {
  static const char *const left[] = {"gradient_accumulation_steps", "gradient_clipping", "train_batch_size",
                                     "train_micro_batch_size_per_gpu"};
  struct spp_jo jo;
  spp_jo_begin(&jo, out, true);
  spp_jo_obj(&jo, NULL);
  for (int i = 0; i < 2; i++) {
    spp_jo_obj(&jo, i ? "fp16" : "bf16");
    spp_jo_str(&jo, "enabled", "auto");
    spp_jo_end(&jo);
  }
  spp_jo_obj(&jo, "zero_optimization");
  spp_jo_i64(&jo, "stage", layout->zero);
  if (spp_offload_optimizer(layout->offload)) offload(&jo, "offload_optimizer");
  if (spp_offload_params(layout->offload)) offload(&jo, "offload_param");
  spp_jo_end(&jo);
  for (size_t i = 0; i < sizeof left / sizeof left[0]; i++)
    spp_jo_str(&jo, left[i], "auto");
  spp_jo_end(&jo);
}
