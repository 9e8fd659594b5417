/* A DeepSpeed configuration beside the command that names it: what both say must agree. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "interop/reading.h"

/* Both say the same thing; a flag of one framework or another. */
static const struct {
  const char *key, *flags[3], *value;
} pairs[] = {
    {"train_micro_batch_size_per_gpu",
     {"per_device_train_batch_size", "micro_batch_size", NULL},
     "micro_batch"},
    {"gradient_accumulation_steps", {"gradient_accumulation_steps", NULL, NULL}, "grad_accum"},
};

static bool has_rows(const struct spp_format *f, const struct spp_format_rows *rows) {
  for (int i = 0; i < SPP_MAX_FORMAT_ROWS && f->rows[i]; i++)
    if (f->rows[i] == rows) return true;
  return false;
}

/* Trainers of transformers are given the file and their own arguments; a script of one's own may be none. */
static bool is_trainer(const struct spp_reading *r) {
  const struct spp_entry *e = spp_entries_find(&r->entries, SPP_ENTRY_FLAG, "per_device_train_batch_size");
  if (!has_rows(r->format, &spp_rows_deepspeed)) return false;
  return has_rows(r->format, &spp_rows_trainer) ? (e && !e->assumed) || r->format != &spp_format_deepspeed
                                                : r->format == &spp_format_axolotl;
}

/* The file that says how states are sharded; NULL: none was read beside a command. */
static const char *engine_file(const struct spp_reading *r) {
  for (int i = 0; i < r->entries.count; i++) {
    const struct spp_entry *e = &r->entries.list[i];
    if (strncmp(e->name, "zero_optimization.", 18) == 0 && strcmp(e->file, r->out->file) != 0) return e->file;
  }
  return NULL;
}

/* The last entry of one of the names that stands in the engine's file, or the last that does not. */
static struct spp_entry *said(struct spp_reading *r, const char *const *names, const char *file,
                              bool in_file) {
  struct spp_entry *found = NULL;
  for (int i = 0; i < r->entries.count; i++) {
    struct spp_entry *e = &r->entries.list[i];
    const bool here = !e->assumed && strcmp(e->file, file) == 0;
    for (int n = 0; n < 3 && names[n]; n++)
      if (e->kind == SPP_ENTRY_FLAG && e->value && here == in_file && strcmp(e->name, names[n]) == 0)
        found = e;
  }
  return found;
}

static void refuse(struct spp_reading *r, const struct spp_entry *file, const char *other,
                   const char *counted) {
  spp_reading_say(
      r, SPP_IMPORT_NOTE, file, NULL,
      "%s %s against %s: this command will not start (transformers' HfTrainerDeepSpeedConfig raises "
      "ValueError); %s is counted; \"auto\" in the file follows the command",
      file->typed, file->value, other, counted);
}

/* What the Trainer takes for a flag that nobody gives, which the format's defaults say; false: they do not.
 */
static bool default_of(const struct spp_format *f, const char *flag, char *text, size_t size) {
  char sign[80];
  snprintf(sign, sizeof sign, "--%s ", flag);
  const char *at = f->defaults ? strstr(f->defaults, sign) : NULL;
  if (!at) return false;
  at += strlen(sign);
  snprintf(text, size, "%.*s", (int)strcspn(at, " "), at);
  return true;
}

/* transformers 5.24 integrations/deepspeed.py fill_match: a number in the file must be the argument's; the
 * check is of the arguments as they are, given or by default. What is typed counts. */
static void agree_on(struct spp_reading *r, const char *file, const char *key, const char *const *flags,
                     const char *value) {
  const char *const keys[3] = {key, NULL, NULL};
  struct spp_entry *theirs = said(r, keys, file, true), *ours = said(r, flags, file, false);
  char other[160], usual[32];
  const bool typed = ours && !ours->assumed;
  if (ours) snprintf(usual, sizeof usual, "%.31s", ours->value);
  if (!theirs || (!ours && !default_of(r->format, flags[0], usual, sizeof usual)) ||
      strcmp(theirs->value, usual) == 0)
    return;
  theirs->used = true;
  if (!typed) {
    snprintf(other, sizeof other, "--%s %s by default", flags[0], usual);
    refuse(r, theirs, other, theirs->value);
    return;
  }
  snprintf(other, sizeof other, "%s %s", ours->typed, ours->value);
  refuse(r, theirs, other, ours->value);
  spp_reading_bind(r, value, ours->value, ours);
}

/* deepspeed 0.19.8 runtime/config.py _batch_assertion: the whole is the product of its parts. */
static void agree_on_the_whole(struct spp_reading *r, const char *file) {
  static const char *const names[3] = {"train_batch_size", NULL, NULL};
  struct spp_entry *whole = said(r, names, file, true);
  const int64_t gpus = spp_reading_gpus(r), sp = spp_reading_number(r, "sp", 1);
  char other[160], counted[32];
  if (!whole || gpus <= 0 || sp > 1 || !spp_reading_find(r, "micro_batch")) return;
  const int64_t micro = spp_reading_number(r, "micro_batch", 1),
                accum = spp_reading_number(r, "grad_accum", 1);
  const int64_t product = spp_sat_mul(spp_sat_mul(micro, accum), gpus);
  if (spp_reading_number(r, "global_batch", product) == product) return;
  snprintf(other, sizeof other, "micro-batch %" PRId64 " x accumulation %" PRId64 " x %" PRId64 " GPUs",
           micro, accum, gpus);
  snprintf(counted, sizeof counted, "%" PRId64, product);
  refuse(r, whole, other, counted);
  spp_reading_unbind(r, "global_batch");
}

void spp_reading_agree(struct spp_reading *r) {
  if (r->status != SPP_OK || !is_trainer(r)) return;
  const char *file = engine_file(r);
  for (size_t i = 0; file && i < sizeof pairs / sizeof pairs[0]; i++)
    agree_on(r, file, pairs[i].key, pairs[i].flags, pairs[i].value);
  if (file && r->status == SPP_OK) agree_on_the_whole(r, file);
}
