/* The words of every enum, as users and files write them. */
#ifndef SPP_MODEL_WORDS_H
#define SPP_MODEL_WORDS_H

enum spp_words_table {
  SPP_WORDS_SP_KIND,
  SPP_WORDS_RING_IMPL,
  SPP_WORDS_RING_ORDER,
  SPP_WORDS_KERNELS,
  SPP_WORDS_ATTENTION,
  SPP_WORDS_LOSS_PATH,
  SPP_WORDS_LOSS_CHOICE,
  SPP_WORDS_RECOMPUTE,
  SPP_WORDS_MODULE, /* value = bit number of SPP_RC_* */
  SPP_WORDS_OFFLOAD,
  SPP_WORDS_SP_SPLIT,
  SPP_WORDS_SHARDING,
  SPP_WORDS_SCHEDULE,
  SPP_WORDS_PAD_SCOPE,
  SPP_WORDS_STAGE_SPLIT,
  SPP_WORDS_METHOD,
  SPP_WORDS_MODE,
  SPP_WORDS_OPTIMIZER,
  SPP_WORDS_OBJECTIVE,
  SPP_WORDS_QUANT,
  SPP_WORDS_DTYPE,
  SPP_WORDS_REPORTER,
  SPP_WORDS_CACHE_GROWTH,
  SPP_WORDS_ALLOCATOR,
  SPP_WORDS_SEGMENTS,
  SPP_WORDS_GRAPH, /* value = bit number of SPP_GRAPH_* */
  SPP_WORDS_NCCL_GROUP,
  SPP_WORDS_COUNT
};
struct spp_words {
  const char *const *names; /* names[value] */
  int count;
};
const struct spp_words *spp_words_of(enum spp_words_table table);
/* The value of a word (exact), or -1. */
int spp_words_find(enum spp_words_table table, const char *word);
/* The word of a value; "?" outside. */
const char *spp_words_name(enum spp_words_table table, int value);

#endif
