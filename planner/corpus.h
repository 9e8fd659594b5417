/* Published measured runs: one JSON object a line, read into jobs from their description alone. The format is
 * documented in configs/corpus/README.md; how words of a record become settings is data,
 * configs/corpus/reading.json. */
#ifndef SPP_PLANNER_CORPUS_H
#define SPP_PLANNER_CORPUS_H

#include "base/json.h"
#include "model/layout.h"

enum spp_memory_kind { /* what the measured figure counts */
                       SPP_MEASURED_ALLOCATED,
                       SPP_MEASURED_RESERVED,
                       SPP_MEASURED_DEVICE,
                       SPP_MEASURED_UNSTATED, /* compared with reserved */
                       SPP_MEASURED_CAPACITY, /* the card's size: says that it fits, not how much was used */
                       SPP_MEASURED_KV_CACHE, /* serving: what the budget leaves for the KV cache */
                       SPP_MEASURED_LOGGED    /* allocated, as the framework's log prints it */
};
enum { SPP_RUN_FILLS = 16 };

struct spp_run {
  const char *id, *group, *source;
  bool core, inference;
  const struct spp_framework *framework;
  struct spp_job_spec spec;
  struct spp_request request;
  bool memory_only;                      /* the GPU is known by its memory alone: times are not comparable */
  double memory_bytes, memory_tolerance; /* 0 = not measured */
  enum spp_memory_kind memory_kind;
  double kv_cache_tokens; /* the KV cache as tokens, where no bytes are given */
  double reserved_bytes;  /* a second figure, when the source prints both */
  double step_s, tokens_per_s_per_gpu;
  int oom; /* 1 failed, 0 ran, SPP_UNSET not stated */
  int64_t max_seq_tokens;
  const char *skip; /* why it cannot be scored, NULL when it can */
  int fill_count;   /* what the record leaves out and what was taken for it */
  char fills[SPP_RUN_FILLS][96];
};

struct spp_corpus {
  struct spp_arena *arena; /* the caller's; runs live in it */
  struct spp_run *runs;
  int count;
};
/* Read one file, appending to the corpus. SPP_ERR_INPUT names file and line. */
enum spp_status spp_corpus_read(const char *config_dir, const char *path, struct spp_corpus *corpus,
                                struct spp_diag *diag);

#endif
