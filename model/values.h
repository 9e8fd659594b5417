/* Named values of a job and its layout: what launch words, their conditions and the texts of rules may
 * mention. */
#ifndef SPP_MODEL_VALUES_H
#define SPP_MODEL_VALUES_H

#include <stdbool.h>
#include <stddef.h>

#include "model/layout.h"

/* Text with {name} placeholders into buf (cut to size, always terminated); returns buf. Unknown names stay as
 * they are. */
const char *spp_template_expand(const char *text, const struct spp_job *job, const struct spp_layout *layout,
                                char *buf, size_t size);
/* First unknown placeholder of a text into bad; true when there is none. */
bool spp_template_check(const char *text, char *bad, size_t size);

/* "name op value" terms joined by '&'; op is = != > >= < <=, value a whole number or a word (words: = and !=
 * only). Empty is true. The check says what is wrong in bad. */
bool spp_condition_holds(const char *when, const struct spp_job *job, const struct spp_layout *layout);
bool spp_condition_check(const char *when, char *bad, size_t size);

/* All names, for messages. */
const char *const *spp_value_names(int *count);

#endif
