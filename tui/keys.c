#include "tui/keys.h"

#include <stddef.h>
#include <string.h>

#include "base/utf8.h"

/* In the order of the help; the bottom line takes from the top what has a hint. */
const struct spp_binding spp_bindings[] = {
    {SPP_ACT_EDIT,
     SPP_IN_FORM,
     {SPP_KEY_ENTER, 'i'},
     "Enter",
     "edit",
     "edit the field as text (Tab completes)"},
    {SPP_ACT_LESS, SPP_IN_FORM, {SPP_KEY_LEFT}, "Left", "less", "the next smaller number, the word before"},
    {SPP_ACT_MORE,
     SPP_IN_FORM,
     {SPP_KEY_RIGHT, ' '},
     "Right",
     "more",
     "the next larger number, the word after"},
    {SPP_ACT_CLEAR,
     SPP_IN_FORM,
     {SPP_KEY_BACKSPACE, SPP_KEY_DELETE},
     "Backspace",
     "free",
     "leave the field to the planner"},
    {SPP_ACT_OPEN, SPP_IN_PLANS, {SPP_KEY_ENTER}, "Enter", "look", "look into the plan"},
    {SPP_ACT_SORT, SPP_IN_PLANS, {'s', SPP_KEY_F6}, "s F6", "sort", "sort by the next column"},
    {SPP_ACT_FILTER,
     SPP_IN_PLANS | SPP_IN_DETAIL,
     {'/'},
     "/",
     "filter",
     "show only plans with these words (none: all)"},
    {SPP_ACT_MARK, SPP_IN_PLANS, {' '}, "Space", "mark", "mark the plan, or take the mark away"},
    {SPP_ACT_OPEN,
     SPP_IN_DETAIL | SPP_IN_LEDGER,
     {SPP_KEY_ENTER, SPP_KEY_RIGHT},
     "Enter",
     "open",
     "what stands behind the number: tensors, then one tensor"},
    {SPP_ACT_EXPLAIN,
     SPP_IN_PANES | SPP_IN_LEDGER,
     {'x'},
     "x",
     "explain",
     "explain the number under the cursor"},
    {SPP_ACT_EDIT_SEQ, SPP_IN_PANES, {'t'}, "t", "sequence", "edit the sequence length"},
    {SPP_ACT_SEQ_LESS, SPP_IN_PANES, {'['}, "[", NULL, "halve the sequence length"},
    {SPP_ACT_SEQ_MORE, SPP_IN_PANES, {']'}, "]", NULL, "double the sequence length"},
    {SPP_ACT_GPUS_LESS, SPP_IN_PANES, {'-'}, "-", NULL, "fewer GPUs"},
    {SPP_ACT_GPUS_MORE, SPP_IN_PANES, {'+', '='}, "+", NULL, "more GPUs"},
    {SPP_ACT_BACK, SPP_IN_OVERLAY, {SPP_KEY_ESCAPE, SPP_KEY_LEFT}, "Esc", "close", "close this"},
    {SPP_ACT_NEXT_PANE, SPP_IN_PANES, {SPP_KEY_TAB}, "Tab", "pane", "next pane"},
    {SPP_ACT_PREVIOUS_PANE, SPP_IN_PANES, {SPP_KEY_BACKTAB}, "Shift-Tab", NULL, "previous pane"},
    {SPP_ACT_FORM, SPP_IN_PANES, {SPP_KEY_F2}, "F2", NULL, "the form: model, sequence, GPUs, degrees"},
    {SPP_ACT_VIEW_MEMORY, SPP_IN_PANES, {'1'}, "1", NULL, "view: memory of the worst GPU"},
    {SPP_ACT_VIEW_COMM, SPP_IN_PANES, {'2'}, "2", NULL, "view: communication"},
    {SPP_ACT_VIEW_TIME, SPP_IN_PANES, {'3'}, "3", NULL, "view: timeline of one step"},
    {SPP_ACT_VIEW_COMPARE, SPP_IN_PANES, {'4'}, "4", NULL, "view: strategies compared"},
    {SPP_ACT_VIEW_WHY, SPP_IN_PANES, {'5'}, "5", NULL, "view: what next, why not, what to watch"},
    {SPP_ACT_UP, SPP_IN_ALL, {SPP_KEY_UP, 'k'}, "k Up", NULL, "up"},
    {SPP_ACT_DOWN, SPP_IN_ALL, {SPP_KEY_DOWN, 'j'}, "j Down", NULL, "down"},
    {SPP_ACT_PAGE_UP, SPP_IN_ALL, {SPP_KEY_PAGE_UP, SPP_CTRL('u')}, "PgUp ^U", NULL, "a page up"},
    {SPP_ACT_PAGE_DOWN, SPP_IN_ALL, {SPP_KEY_PAGE_DOWN, SPP_CTRL('d')}, "PgDn ^D", NULL, "a page down"},
    {SPP_ACT_FIRST, SPP_IN_ALL, {SPP_KEY_HOME, 'g'}, "g Home", NULL, "to the first row"},
    {SPP_ACT_LAST, SPP_IN_ALL, {SPP_KEY_END, 'G'}, "G End", NULL, "to the last row"},
    {SPP_ACT_INVERT, SPP_IN_PLANS, {'I'}, "I", NULL, "turn the order round"},
    {SPP_ACT_NEXT_MATCH, SPP_IN_PANES, {'n'}, "n", NULL, "next plan that passes the filter"},
    {SPP_ACT_PREVIOUS_MATCH, SPP_IN_PANES, {'N'}, "N", NULL, "previous plan that passes the filter"},
    {SPP_ACT_COMPARE,
     SPP_IN_PANES,
     {'c'},
     "c",
     NULL,
     "marked plans side by side (none marked: the strategies)"},
    {SPP_ACT_COMMAND,
     SPP_IN_PANES,
     {':'},
     ":",
     NULL,
     "any option of the command line: seq 64k, gpu a100-80gb, tp any"},
    {SPP_ACT_LINE, SPP_IN_PANES, {'y'}, "y", NULL, "the command line of what is on the screen"},
    {SPP_ACT_SAVE,
     SPP_IN_PANES,
     {'e'},
     "e",
     NULL,
     "save: plans as .json, the plan as .html page or .sh command"},
    {SPP_ACT_ZOOM, SPP_IN_PANES, {'z'}, "z", NULL, "timeline: the step, one micro-batch, one layer"},
    {SPP_ACT_VALIDATE,
     SPP_IN_PANES | SPP_IN_TRIAL,
     {'v'},
     "v",
     NULL,
     "validate: train small models here, predicted beside measured"},
    {SPP_ACT_RECOMPUTE, SPP_IN_PANES, {'r', 'R'}, "r", NULL, "plan again"},
    {SPP_ACT_REPAINT, SPP_IN_ALL, {SPP_CTRL('l')}, "^L", NULL, "draw the screen anew"},
    {SPP_ACT_SUSPEND, SPP_IN_ALL, {SPP_CTRL('z')}, "^Z", NULL, "back to the shell; fg returns"},
    {SPP_ACT_BACK,
     SPP_IN_PANES,
     {SPP_KEY_ESCAPE},
     "Esc",
     NULL,
     "stop the search, else clear the filter, else go back"},
    {SPP_ACT_HELP, SPP_IN_ALL, {'?', SPP_KEY_F1, 'h'}, "?", "help", "this help (also F1, h)"},
    {SPP_ACT_QUIT, SPP_IN_ALL, {'q', SPP_KEY_F10}, "q", "quit", "close what is open, else quit (also F10)"},
    {SPP_ACT_STOP, SPP_IN_ALL, {SPP_CTRL('c')}, "^C", NULL, "quit at once"},
};
const int spp_binding_count = (int)(sizeof spp_bindings / sizeof spp_bindings[0]);

enum spp_action spp_key_action(int key, unsigned context) {
  for (int i = 0; i < spp_binding_count; i++)
    for (int k = 0; k < SPP_BINDING_KEYS && spp_bindings[i].keys[k]; k++)
      if (spp_bindings[i].keys[k] == key && (spp_bindings[i].contexts & context))
        return spp_bindings[i].action;
  return SPP_ACT_NONE;
}

static const struct spp_binding *binding_of(enum spp_action action, unsigned context) {
  for (int i = 0; i < spp_binding_count; i++)
    if (spp_bindings[i].action == action && (spp_bindings[i].contexts & context)) return &spp_bindings[i];
  return NULL;
}

static int hint_cols(const struct spp_binding *binding) {
  return spp_utf8_width(binding->label) + 1 + spp_utf8_width(binding->hint);
}

/* Help and quit are always there, at the right of what else fits. */
int spp_key_hints(unsigned context, int cols, struct spp_key_hint *hints) {
  const struct spp_binding *last[2] = {binding_of(SPP_ACT_HELP, context), binding_of(SPP_ACT_QUIT, context)};
  int count = 0, col = 1, reserved = 0;
  for (int i = 0; i < 2; i++)
    if (last[i]) reserved += hint_cols(last[i]) + 2;
  for (int i = 0; i < spp_binding_count && count < SPP_HINTS_MAX - 2; i++) {
    const struct spp_binding *binding = &spp_bindings[i];
    if (!binding->hint || !(binding->contexts & context) || binding == last[0] || binding == last[1])
      continue;
    if (col + hint_cols(binding) + 2 + reserved > cols) break;
    hints[count++] = (struct spp_key_hint){binding, col, hint_cols(binding)};
    col += hint_cols(binding) + 2;
  }
  for (int i = 0; i < 2; i++) {
    if (!last[i] || col + hint_cols(last[i]) > cols) continue;
    hints[count++] = (struct spp_key_hint){last[i], col, hint_cols(last[i])};
    col += hint_cols(last[i]) + 2;
  }
  return count;
}
