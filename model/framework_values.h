/* Readers of what the keys of a framework file hold. Each refuses what it cannot read with SPP_ERR_INPUT,
 * naming the place and the nearest word that is known; what it was to fill is then half-written.
 * docs/frameworks.md has the forms. */
#ifndef SPP_MODEL_FRAMEWORK_VALUES_H
#define SPP_MODEL_FRAMEWORK_VALUES_H

#include "base/json.h"
#include "model/framework.h"
#include "model/words.h"

/* Each element or member of a value while the status `s` is SPP_OK, in the head of a for. */
#define SPP_EACH(item, list)                                                                                 \
  struct spp_json item = spp_json_first(list);                                                               \
  s == SPP_OK &&spp_json_kind(item) != SPP_JSON_ABSENT;                                                      \
  item = spp_json_next(item)

/* SPP_ERR_INPUT: `what` (as "the key") is none of `names`; the hint names the nearest. */
enum spp_status spp_refuse_word(struct spp_json at, const char *what, const char *word,
                                const char *const *names, int count, struct spp_diag *diag);

/* A string into out[size], the rest of it zero. */
enum spp_status spp_read_text(struct spp_json value, char *out, size_t size, struct spp_diag *diag);

/* One word of a table, as its number. */
enum spp_status spp_read_word(struct spp_json value, enum spp_words_table table, int *out,
                              struct spp_diag *diag);

/* A list of words: a flag or a bit for each of the table's. */
enum spp_status spp_read_set(struct spp_json list, enum spp_words_table table, bool *flags,
                             struct spp_diag *diag);
enum spp_status spp_read_bits(struct spp_json list, enum spp_words_table table, unsigned *bits,
                              struct spp_diag *diag);

/* A list of model types, or of prefixes of them, into types[SPP_MAX_REFUSED_TYPES]. */
enum spp_status spp_read_types(struct spp_json list, char (*types)[32], struct spp_diag *diag);

/* {loss: path}; losses that are not named keep theirs. */
enum spp_status spp_read_paths(struct spp_json object, enum spp_loss_path *paths, struct spp_diag *diag);

/* {"0": state, ... "3": state} into states[4]; stages that are not named keep theirs. */
enum spp_status spp_read_states(struct spp_json object, struct spp_states *states, struct spp_diag *diag);

/* Rules added to or replacing those inherited, rules dropped from them, and the launch line. */
enum spp_status spp_read_rules(struct spp_json list, struct spp_framework *f, struct spp_diag *diag);
enum spp_status spp_drop_rules(struct spp_json list, struct spp_framework *f, struct spp_diag *diag);
enum spp_status spp_read_launch(struct spp_json list, struct spp_framework *f, struct spp_diag *diag);

#endif
