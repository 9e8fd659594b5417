/* Every key: one table from which dispatch, the bottom line, the help overlay and the manual are derived. */
#ifndef SPP_TUI_KEYS_H
#define SPP_TUI_KEYS_H

#include "tui/screen.h"

/* Keys that are no characters; below them a key is a code point. */
enum spp_key {
  SPP_KEY_ENTER = 0x110000,
  SPP_KEY_ESCAPE,
  SPP_KEY_TAB,
  SPP_KEY_BACKTAB,
  SPP_KEY_BACKSPACE,
  SPP_KEY_DELETE,
  SPP_KEY_UP,
  SPP_KEY_DOWN,
  SPP_KEY_LEFT,
  SPP_KEY_RIGHT,
  SPP_KEY_PAGE_UP,
  SPP_KEY_PAGE_DOWN,
  SPP_KEY_HOME,
  SPP_KEY_END,
  SPP_KEY_F1,
  SPP_KEY_F2,
  SPP_KEY_F6,
  SPP_KEY_F10
};
#define SPP_CTRL(letter) ((letter)&31)

/* Where a key works. */
enum spp_context {
  SPP_IN_FORM = 1 << 0,
  SPP_IN_PLANS = 1 << 1,
  SPP_IN_DETAIL = 1 << 2,
  SPP_IN_OVERLAY = 1 << 3, /* any window */
  SPP_IN_LEDGER = 1 << 4,  /* the window of tensors */
  SPP_IN_TRIAL = 1 << 5,   /* the window of the validation */
  SPP_IN_PANES = SPP_IN_FORM | SPP_IN_PLANS | SPP_IN_DETAIL,
  SPP_IN_ALL = SPP_IN_PANES | SPP_IN_OVERLAY
};

enum spp_action {
  SPP_ACT_NONE,
  SPP_ACT_UP,
  SPP_ACT_DOWN,
  SPP_ACT_PAGE_UP,
  SPP_ACT_PAGE_DOWN,
  SPP_ACT_FIRST,
  SPP_ACT_LAST,
  SPP_ACT_LESS,
  SPP_ACT_MORE,
  SPP_ACT_OPEN,
  SPP_ACT_EDIT,
  SPP_ACT_CLEAR,
  SPP_ACT_BACK,
  SPP_ACT_NEXT_PANE,
  SPP_ACT_PREVIOUS_PANE,
  SPP_ACT_FORM,
  SPP_ACT_VIEW_MEMORY,
  SPP_ACT_VIEW_COMM,
  SPP_ACT_VIEW_TIME,
  SPP_ACT_VIEW_COMPARE,
  SPP_ACT_VIEW_WHY,
  SPP_ACT_EDIT_SEQ,
  SPP_ACT_SEQ_LESS,
  SPP_ACT_SEQ_MORE,
  SPP_ACT_GPUS_LESS,
  SPP_ACT_GPUS_MORE,
  SPP_ACT_SORT,
  SPP_ACT_INVERT,
  SPP_ACT_FILTER,
  SPP_ACT_NEXT_MATCH,
  SPP_ACT_PREVIOUS_MATCH,
  SPP_ACT_MARK,
  SPP_ACT_COMPARE,
  SPP_ACT_EXPLAIN,
  SPP_ACT_COMMAND,
  SPP_ACT_LINE,
  SPP_ACT_SAVE,
  SPP_ACT_VALIDATE,
  SPP_ACT_ZOOM,
  SPP_ACT_RECOMPUTE,
  SPP_ACT_REPAINT,
  SPP_ACT_SUSPEND,
  SPP_ACT_HELP,
  SPP_ACT_QUIT,
  SPP_ACT_STOP
};

enum { SPP_BINDING_KEYS = 4 };
struct spp_binding {
  enum spp_action action;
  unsigned contexts;
  int keys[SPP_BINDING_KEYS]; /* 0 after the last */
  const char *label;          /* as people read the keys: "j Down" */
  const char *hint;           /* one word for the bottom line; NULL = not there */
  const char *help;           /* one line */
};
extern const struct spp_binding spp_bindings[];
extern const int spp_binding_count;

enum spp_action spp_key_action(int key, unsigned context);

/* The bottom line: the bindings that work in `context`, most telling first, as many as fit. */
struct spp_key_hint {
  const struct spp_binding *binding;
  int col, cols; /* where it stands */
};
enum { SPP_HINTS_MAX = 16 };
int spp_key_hints(unsigned context, int cols, struct spp_key_hint *hints);

#endif
