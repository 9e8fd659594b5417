/* Settings by name: the fields of a job spec and a layout request that the command line, saved plans,
 * keep-lists, forms and corpora set from text. The rows are in model/setting_list.h. */
#ifndef SPP_MODEL_SETTING_H
#define SPP_MODEL_SETTING_H

#include "model/layout.h"

/* How the text of a value is read, and into what. */
enum spp_value_kind {
  SPP_KIND_FLAG,   /* true or false: type->value or its opposite; int */
  SPP_KIND_CHOICE, /* one of the words; int */
  SPP_KIND_WORDS,  /* words joined by , or +, their values or-ed; int64_t */
  SPP_KIND_MASK,   /* the same; unsigned, 0 = nothing said */
  SPP_KIND_INT,    /* whole number in [min, max]; int */
  SPP_KIND_COUNT,  /* the same; int64_t */
  SPP_KIND_TOKENS, /* 32k, 1m; int64_t */
  SPP_KIND_BYTES,  /* 80GiB; int64_t */
  SPP_KIND_REAL,   /* real number in [real_min, real_max]; double */
  /* of the command line alone (cli/options.h) */
  SPP_KIND_PART,
  SPP_KIND_REALS,
  SPP_KIND_SECONDS,
  SPP_KIND_RATE,
  SPP_KIND_TEXT,
  SPP_KIND_LIST,
  SPP_KIND_IMAGE
};
/* Word i and the value it stands for; NULL after the last. */
typedef const char *spp_word_function(int i, int *value);
struct spp_value_type {
  enum spp_value_kind kind;
  int value;               /* FLAG */
  spp_word_function *word; /* CHOICE, WORDS, MASK */
  int64_t min, max;        /* INT, COUNT, TOKENS */
  double real_min, real_max;
};
#define SPP_FLAG(on)           .type.kind = SPP_KIND_FLAG, .type.value = (on)
#define SPP_CHOICE(words)      .type.kind = SPP_KIND_CHOICE, .type.word = (words)
#define SPP_WORDS(words)       .type.kind = SPP_KIND_WORDS, .type.word = (words)
#define SPP_MASK(words)        .type.kind = SPP_KIND_MASK, .type.word = (words)
#define SPP_INT(least, most)   .type.kind = SPP_KIND_INT, .type.min = (least), .type.max = (most)
#define SPP_COUNT(least, most) .type.kind = SPP_KIND_COUNT, .type.min = (least), .type.max = (most)
#define SPP_TOKENS(most)       .type.kind = SPP_KIND_TOKENS, .type.min = 1, .type.max = (most)
#define SPP_BYTES              .type.kind = SPP_KIND_BYTES
#define SPP_REAL(least, most)  .type.kind = SPP_KIND_REAL, .type.real_min = (least), .type.real_max = (most)

/* The words of the settings. */
spp_word_function spp_method_word, spp_optimizer_word, spp_mode_word, spp_attention_word, spp_sp_kind_word,
    spp_ring_impl_word, spp_ring_order_word, spp_recompute_word, spp_recompute_module_word, spp_offload_word,
    spp_schedule_word, spp_kernels_word, spp_quant_word, spp_dtype_word, spp_kv_dtype_word,
    spp_grads_dtype_word, spp_lora_target_word, spp_loss_word, spp_allocator_word, spp_graph_word;

/* Parse `text` into the field, which is of the type's kind; `where` names the place in errors ("--seq").
 * SPP_ERR_USAGE names the nearest word or the bounds, and leaves the field alone. */
enum spp_status spp_value_parse(const struct spp_value_type *type, const char *text, const char *where,
                                void *field, struct spp_diag *diag);
/* The word of a CHOICE that stands for `value`, or NULL. */
const char *spp_value_word(const struct spp_value_type *type, int64_t value);

/* Set `name` as the command line or JSON spells it ("loss", "lora-rank", "lora_rank", "seq_tokens") from text
 * ("fused", "8", "32k"). SPP_ERR_USAGE names the setting and the nearest name or the choices. */
enum spp_status spp_setting_apply(const char *name, const char *text, struct spp_job_spec *spec,
                                  struct spp_request *request, struct spp_diag *diag);
int spp_setting_count(void);
const char *spp_setting_name(int index);

#endif
