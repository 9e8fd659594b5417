#include "model/setting.h"

#include <stddef.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/suggest.h"
#include "base/units.h"
#include "model/words.h"

enum kind { INT64, INT32, TOKENS, BYTES, REAL, WORD, SWITCH, TARGETS, MODULES, DTYPE };
struct setting {
  const char *name;
  enum kind kind;
  bool in_request;
  size_t offset;
  int words;       /* WORD: the table its values are listed in */
  double min, max; /* numbers */
};
#define SPEC(field)    false, offsetof(struct spp_job_spec, field)
#define REQUEST(field) true, offsetof(struct spp_request, field)

static const double degree_max = 1 << 20; /* GPUs */

static const struct setting settings[] = {
    {"gpus", INT64, SPEC(gpus), 0, 1, 1 << 20},
    {"seq", TOKENS, SPEC(seq_tokens), 0, 1, 1 << 30},
    {"global_batch", INT64, SPEC(global_batch), 0, 1, 1 << 30},
    {"mode", WORD, SPEC(mode), SPP_WORDS_MODE, 0, 0},
    {"method", WORD, SPEC(method), SPP_WORDS_METHOD, 0, 0},
    {"optimizer", WORD, SPEC(optimizer), SPP_WORDS_OPTIMIZER, 0, 0},
    {"dtype", DTYPE, SPEC(dtype), 0, 0, 0},
    {"kv_dtype", DTYPE, SPEC(kv_dtype), 0, 0, 0},
    {"attention", WORD, SPEC(attention), SPP_WORDS_ATTENTION, 0, 0},
    {"kernels", WORD, SPEC(kernels), SPP_WORDS_KERNELS, 0, 0},
    {"ring_impl", WORD, SPEC(ring_impl), SPP_WORDS_RING_IMPL, 0, 0},
    {"loss", WORD, SPEC(loss), SPP_WORDS_LOSS_CHOICE, 0, 0},
    {"loss_path", WORD, SPEC(loss_path), SPP_WORDS_LOSS_PATH, 0, 0},
    {"loss_chunk", TOKENS, SPEC(loss_chunk_tokens), 0, 1, 1 << 30},
    {"lora_rank", INT64, SPEC(lora_rank), 0, 1, 1 << 16},
    {"lora_dropout", REAL, SPEC(lora_dropout), 0, 0, 0.99},
    {"lora_targets", TARGETS, SPEC(lora_targets), 0, 0, 0},
    {"train_embeddings", SWITCH, SPEC(train_embeddings), 0, 0, 0},
    {"quant", WORD, SPEC(quant), SPP_WORDS_QUANT, 0, 0},
    {"galore_rank", INT64, SPEC(galore_rank), 0, 1, 1 << 16},
    {"packing", SWITCH, SPEC(packing), 0, 0, 0},
    {"vision_trainable", SWITCH, SPEC(vision_trainable), 0, 0, 0},
    {"overlap", SWITCH, SPEC(overlap), 0, 0, 0},
    {"grads_bytes", INT32, SPEC(grads_bytes), 0, 2, 4},
    {"bucket_elements", INT64, SPEC(bucket_elements), 0, 1, 1e12},
    {"max_memory", BYTES, SPEC(max_memory_bytes), 0, 0, 0},
    {"tp", INT64, REQUEST(tp), 0, 1, degree_max},
    {"pp", INT64, REQUEST(pp), 0, 1, degree_max},
    {"vpp", INT64, REQUEST(vpp), 0, 1, degree_max},
    {"dp", INT64, REQUEST(dp), 0, 1, degree_max},
    {"ep", INT64, REQUEST(ep), 0, 1, degree_max},
    {"etp", INT64, REQUEST(etp), 0, 1, degree_max},
    {"sp", INT64, REQUEST(sp), 0, 1, degree_max},
    {"ulysses", INT64, REQUEST(ulysses), 0, 1, degree_max},
    {"ring", INT64, REQUEST(ring), 0, 1, degree_max},
    {"sp_kind", WORD, REQUEST(sp_kind), SPP_WORDS_SP_KIND, 0, 0},
    {"megatron_sp", SWITCH, REQUEST(megatron_sp), 0, 0, 0},
    {"zero", INT32, REQUEST(zero), 0, 0, 3},
    {"dp_replicate", INT64, REQUEST(dp_replicate), 0, 1, degree_max},
    {"recompute", WORD, REQUEST(recompute), SPP_WORDS_RECOMPUTE, 0, 0},
    {"recompute_modules", MODULES, REQUEST(recompute_modules), 0, 0, 0},
    {"recompute_layers", INT64, REQUEST(recompute_layers), 0, 0, SPP_MAX_LAYERS},
    {"recompute_unit", INT64, REQUEST(recompute_unit), 0, 1, SPP_MAX_LAYERS},
    {"offload", WORD, REQUEST(offload), SPP_WORDS_OFFLOAD, 0, 0},
    {"schedule", WORD, REQUEST(schedule), SPP_WORDS_SCHEDULE, 0, 0},
    {"micro_batch", INT64, REQUEST(micro_batch), 0, 1, degree_max},
};
enum { SETTING_COUNT = sizeof settings / sizeof settings[0] };

int spp_setting_count(void) {
  return SETTING_COUNT;
}
const char *spp_setting_name(int index) {
  return settings[index].name;
}

static enum spp_status refuse(const struct setting *s, const char *text, const char *hint,
                              struct spp_diag *diag) {
  return spp_diag_set(diag, SPP_ERR_USAGE, s->name, hint, "bad value '%s'", text);
}

static enum spp_status parse_switch(const struct setting *s, const char *text, int *out,
                                    struct spp_diag *diag) {
  if (!strcmp(text, "true") || !strcmp(text, "1") || !strcmp(text, "on"))
    *out = 1;
  else if (!strcmp(text, "false") || !strcmp(text, "0") || !strcmp(text, "off"))
    *out = 0;
  else
    return refuse(s, text, "use true or false", diag);
  return SPP_OK;
}

static enum spp_status parse_dtype(const struct setting *s, const char *text, int *out,
                                   struct spp_diag *diag) {
  for (int d = 0; d < SPP_DTYPE_COUNT; d++)
    if (!strcmp(text, spp_dtype_name((enum spp_dtype)d))) {
      *out = d;
      return SPP_OK;
    }
  return refuse(s, text, "use bf16, fp16, fp32 or fp8", diag);
}

/* "a+b" or "a,b": bits of the words, each found by `find`, which returns a bit mask or -1. */
static enum spp_status parse_mask(const struct setting *s, const char *text,
                                  int64_t (*find)(const char *word), int64_t *out, struct spp_diag *diag) {
  char word[32];
  int64_t mask = 0;
  for (const char *at = text; *at;) {
    size_t n = strcspn(at, "+,");
    if (n == 0 || n >= sizeof word) return refuse(s, text, "join words with +", diag);
    memcpy(word, at, n);
    word[n] = '\0';
    int64_t bits = find(word);
    if (bits < 0) return refuse(s, text, "unknown word in the list", diag);
    mask |= bits;
    at += n + (at[n] != '\0');
  }
  if (mask == 0) return refuse(s, text, "the list is empty", diag);
  *out = mask;
  return SPP_OK;
}

static int64_t find_module(const char *word) {
  int bit = spp_words_find(SPP_WORDS_MODULE, word);
  return bit < 0 ? -1 : INT64_C(1) << bit;
}

static int64_t find_target(const char *word) {
  static const struct {
    const char *word;
    int64_t bits;
  } words[] = {{"all-linear", SPP_LORA_ALL_LINEAR},
               {"q", SPP_LORA_Q},
               {"k", SPP_LORA_K},
               {"v", SPP_LORA_V},
               {"o", SPP_LORA_O},
               {"gate", SPP_LORA_GATE},
               {"up", SPP_LORA_UP},
               {"down", SPP_LORA_DOWN}};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (!strcmp(word, words[i].word)) return words[i].bits;
  return -1;
}

static enum spp_status parse_word(const struct setting *s, const char *text, int *out,
                                  struct spp_diag *diag) {
  int value = spp_words_find((enum spp_words_table)s->words, text);
  if (value < 0) return refuse(s, text, "see 'spplan help' for the words", diag);
  *out = value;
  return SPP_OK;
}

static enum spp_status parse_into(const struct setting *s, const char *text, void *field,
                                  struct spp_diag *diag) {
  int64_t number = 0;
  enum spp_status status = SPP_OK;
  switch (s->kind) {
  case INT64: return spp_count_parse(text, s->name, (int64_t)s->min, (int64_t)s->max, field, diag);
  case TOKENS: return spp_tokens_parse(text, s->name, (int64_t)s->min, (int64_t)s->max, field, diag);
  case BYTES: return spp_bytes_parse(text, s->name, field, diag);
  case REAL: return spp_real_parse(text, s->name, s->min, s->max, field, diag);
  case MODULES: return parse_mask(s, text, find_module, field, diag);
  case SWITCH: return parse_switch(s, text, field, diag);
  case DTYPE: return parse_dtype(s, text, field, diag);
  case WORD: return parse_word(s, text, field, diag);
  case TARGETS:
    status = parse_mask(s, text, find_target, &number, diag);
    if (status == SPP_OK) *(unsigned *)field = (unsigned)number;
    return status;
  case INT32:
    status = spp_count_parse(text, s->name, (int64_t)s->min, (int64_t)s->max, &number, diag);
    if (status == SPP_OK) *(int *)field = (int)number;
    return status;
  }
  return SPP_ERR_INTERNAL;
}

enum spp_status spp_setting_apply(const char *name, const char *text, struct spp_job_spec *spec,
                                  struct spp_request *request, struct spp_diag *diag) {
  const char *names[SETTING_COUNT];
  for (int i = 0; i < SETTING_COUNT; i++) {
    names[i] = settings[i].name;
    if (strcmp(name, settings[i].name) != 0) continue;
    char *base = settings[i].in_request ? (char *)request : (char *)spec;
    return parse_into(&settings[i], text, base + settings[i].offset, diag);
  }
  const char *near = spp_suggest(name, names, SETTING_COUNT);
  return spp_diag_set(diag, SPP_ERR_USAGE, name, near ? near : "see the option list", "unknown setting%s",
                      near ? ", did you mean" : "");
}
