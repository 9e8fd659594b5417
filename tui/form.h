/* The form: which options it shows, and how left and right change them. */
#ifndef SPP_TUI_FORM_H
#define SPP_TUI_FORM_H

#include "tui/host.h"

enum spp_form_kind {
  SPP_FORM_TOKENS, /* doubles and halves */
  SPP_FORM_NUMBER, /* to the next power of two; a free one begins at 1 */
  SPP_FORM_WORD    /* through the option's words; free ("any") before the first */
};
struct spp_form_field {
  const char *label, *option;
  enum spp_form_kind kind;
  bool needed;        /* cannot be left free */
  const char *unsaid; /* what is shown while free: "any" */
};
extern const struct spp_form_field spp_form_fields[];
extern const int spp_form_count;

/* Row of an option in the form; -1 when it has none. */
int spp_form_find(const char *option);
/* The neighbouring value of field `i` (direction -1 or +1) into text; false when there is none. Empty text:
 * leave it free. */
bool spp_form_step(const struct spp_tui_host *host, const struct spp_words *words, int i, int direction,
                   char text[SPP_WORD_TEXT]);

#endif
