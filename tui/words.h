/* A job as the words of a command line: option names and texts, in the order in which they were said. */
#ifndef SPP_TUI_WORDS_H
#define SPP_TUI_WORDS_H

#include <stdbool.h>

#include "base/strbuf.h"

enum { SPP_WORDS_MAX = 64, SPP_WORD_NAME = 32, SPP_WORD_TEXT = 256 };
struct spp_word {
  char name[SPP_WORD_NAME]; /* "seq" */
  char text[SPP_WORD_TEXT]; /* "32k"; empty for a flag */
};
struct spp_words {
  int count;
  struct spp_word items[SPP_WORDS_MAX];
};

/* Text of an option, or NULL when it was not said. */
const char *spp_words_get(const struct spp_words *words, const char *name);
/* Say an option anew, last. False when it does not fit: nothing is changed then. */
bool spp_words_set(struct spp_words *words, const char *name, const char *text);
bool spp_words_unset(struct spp_words *words, const char *name);
/* "--seq 32k --gpus 8", quoted for a shell. */
void spp_words_print(const struct spp_words *words, struct spp_str *out);

#endif
