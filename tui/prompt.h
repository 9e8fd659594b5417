/* One line of text being typed, with what may complete it. */
#ifndef SPP_TUI_PROMPT_H
#define SPP_TUI_PROMPT_H

#include "tui/host.h"

enum spp_prompt_kind {
  SPP_PROMPT_NONE,
  SPP_PROMPT_FIELD,   /* the text of prompt.option */
  SPP_PROMPT_COMMAND, /* an option and its value */
  SPP_PROMPT_FILTER,
  SPP_PROMPT_SAVE /* a file name */
};
enum spp_typed { SPP_TYPED_ON, SPP_TYPED_DONE, SPP_TYPED_GIVEN_UP };

struct spp_prompt {
  enum spp_prompt_kind kind;
  char option[SPP_WORD_NAME];
  char text[SPP_WORD_TEXT];
  int length, at;           /* bytes; at: before which byte the next character goes */
  char stem[SPP_WORD_TEXT]; /* what was typed before Tab */
  int completion;           /* candidate shown, -1 = none */
  char error[320];
};
void spp_prompt_begin(struct spp_prompt *prompt, enum spp_prompt_kind kind, const char *option,
                      const char *text);
/* Editing keys, completion; Enter is DONE, Escape and ^C GIVEN_UP. */
enum spp_typed spp_prompt_key(struct spp_prompt *prompt, const struct spp_tui_host *host, int key);
/* Candidate i for what is typed (a whole word), or NULL. */
const char *spp_prompt_candidate(const struct spp_prompt *prompt, const struct spp_tui_host *host, int i);

#endif
