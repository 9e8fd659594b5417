/* Inside the corpus reader: the rules of configs/corpus/reading.json applied to one record. */
#ifndef SPP_PLANNER_CORPUS_READING_H
#define SPP_PLANNER_CORPUS_READING_H

#include "planner/corpus.h"

/* Everything loaded once per corpus file. Names already loaded are found again by spp_shelf_*. */
enum { SPP_SHELF_MAX = 256 };
struct spp_shelf_item {
  const char *name;
  const void *value; /* NULL: tried and not there */
};
struct spp_corpus_reader {
  const char *config_dir;
  struct spp_arena *arena;
  struct spp_json_doc *rules;
  struct spp_shelf_item archs[SPP_SHELF_MAX], gpus[SPP_SHELF_MAX], frameworks[SPP_SHELF_MAX];
};

/* First match among rules.<list>, absent when none. What a rule may ask is the table in corpus_reading.c. */
struct spp_json spp_reading_first(const struct spp_corpus_reader *reader, const char *list,
                                  struct spp_json record);
/* The words under a rule's "set", applied to the run. */
enum spp_status spp_reading_set(struct spp_json rule, struct spp_run *run, struct spp_diag *diag);
/* All matches of rules.settings in order, applied to the run. */
enum spp_status spp_reading_settings(const struct spp_corpus_reader *reader, struct spp_json record,
                                     struct spp_run *run, struct spp_diag *diag);

/* The model of a record: the shipped model of that name when its dimensions agree with the record's, else one
 * built from the dimensions. NULL with run->skip set when the record has none. */
enum spp_status spp_corpus_model(struct spp_corpus_reader *reader, struct spp_json record,
                                 struct spp_run *run, struct spp_diag *diag);
/* Load by name, once. NULL when there is no such file; broken files are errors. */
const struct spp_framework *spp_shelf_framework(struct spp_corpus_reader *reader, const char *name,
                                                struct spp_diag *diag);
const struct spp_gpu *spp_shelf_gpu(struct spp_corpus_reader *reader, const char *name,
                                    struct spp_diag *diag);
const struct spp_arch *spp_shelf_arch(struct spp_corpus_reader *reader, const char *name,
                                      struct spp_diag *diag);

/* Text member of a record, "" when absent or not a string. */
const char *spp_record_text(struct spp_json record, const char *key);
/* Number at record.<outer>.<key> (outer NULL: top level), or the fallback. */
double spp_record_number(struct spp_json record, const char *outer, const char *key, double fallback);
bool spp_text_contains(const char *text, const char *part); /* whatever the case */
bool spp_text_starts(const char *text, const char *word);   /* the same */
/* enum spp_attention_impl of a record's text, SPP_UNSET when it names none. */
int spp_record_attention(const char *attention);
/* enum spp_sp_kind of "ring" or a longer text that says the same, "zigzag ring (p2p)", "a2a"; negative when
 * it names none. */
int spp_record_sp_kind(const char *text);
/* SPP_LORA_* bits of a list like "q,k,v" or "q_proj, v_proj (default)"; all when one layer is not known. */
unsigned spp_record_targets(const char *text);
void spp_run_fill(struct spp_run *run, const char *fmt, ...) SPP_PRINTF(2, 3);

#endif
