/* YAML through libyaml, event by event: the only file that sees yaml.h. */
#include "interop/tree.h"

#ifdef SPP_HAVE_YAML

#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/strbuf.h"

struct level {
  bool is_list;
  bool has_key; /* of a mapping: the next node is its value */
  bool pushed;  /* the path carries a key for this level's value */
  int number;   /* of a list */
  int line;
};
struct walker {
  struct spp_entries *entries;
  struct spp_path path;
  struct level levels[SPP_MAX_KEY_DEPTH];
  struct spp_str list; /* scalars of the innermost list */
  int depth, first;
  enum spp_status status;
  struct spp_diag *diag;
};

static void refuse(struct walker *w, int line, const char *what, const char *hint) {
  if (w->status == SPP_OK) w->status = spp_entries_refuse(w->entries, line, hint, w->diag, "%s", what);
}
static struct level *top(struct walker *w) {
  return w->depth > 0 ? &w->levels[w->depth - 1] : NULL;
}

/* A node ended: the key of its mapping is used up. */
static void end_value(struct walker *w) {
  struct level *l = top(w);
  if (!l || !l->pushed) return;
  spp_path_pop(&w->path);
  l->pushed = l->has_key = false;
}

static void push_key(struct walker *w, const char *key, int line) {
  if (!spp_path_push(&w->path, key))
    refuse(w, line, "keys nest too deep", "give the framework's own configuration");
  else
    top(w)->pushed = true;
}

static void scalar(struct walker *w, const char *value, bool is_null, int line) {
  struct level *l = top(w);
  if (!l) {
    refuse(w, line, "this is no mapping of keys to values", "give a configuration");
  } else if (l->is_list) {
    if (w->list.len) spp_str_addc(&w->list, ' ');
    spp_str_add(&w->list, value);
    l->number++;
  } else if (!l->has_key) {
    l->has_key = true;
    push_key(w, value, line);
  } else {
    if (!is_null && w->status == SPP_OK)
      w->status = spp_tree_add(w->entries, w->first, w->path.text, value, line, w->diag);
    end_value(w);
  }
}

static void begin(struct walker *w, bool is_list, int line) {
  struct level *l = top(w);
  char number[16];
  if (l && !l->is_list && !l->has_key) {
    refuse(w, line, "a key that is a list or mapping", "write plain keys");
    return;
  }
  if (l && l->is_list) {
    snprintf(number, sizeof number, "%d", l->number++);
    push_key(w, number, line);
  }
  if (w->depth == SPP_MAX_KEY_DEPTH) {
    refuse(w, line, "keys nest too deep", "give the framework's own configuration");
    return;
  }
  w->levels[w->depth++] = (struct level){.is_list = is_list, .line = line};
  spp_str_clear(&w->list);
}

static void end(struct walker *w) {
  struct level *l = top(w);
  if (!l) return;
  if (l->is_list && w->list.len && w->status == SPP_OK)
    w->status = spp_tree_add(w->entries, w->first, w->path.text, spp_str_text(&w->list), l->line, w->diag);
  spp_str_clear(&w->list);
  w->depth--;
  end_value(w);
}

/* Plain scalars that YAML reads as nothing. */
static bool is_null(const yaml_event_t *event) {
  const char *value = (const char *)event->data.scalar.value;
  return event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
         (!*value || strcmp(value, "null") == 0 || strcmp(value, "~") == 0 || strcmp(value, "Null") == 0);
}

static void take(struct walker *w, const yaml_event_t *event, int *documents) {
  const int line = (int)event->start_mark.line + 1;
  switch (event->type) {
  case YAML_DOCUMENT_START_EVENT:
    if ((*documents)++) refuse(w, line, "more than one document", "give one configuration");
    break;
  case YAML_ALIAS_EVENT: refuse(w, line, "a YAML alias (*name)", "write the value out"); break;
  case YAML_SCALAR_EVENT:
    if (strlen((const char *)event->data.scalar.value) != event->data.scalar.length)
      refuse(w, line, "a NUL byte", "give a text file");
    else
      scalar(w, (const char *)event->data.scalar.value, is_null(event), line);
    break;
  case YAML_SEQUENCE_START_EVENT: begin(w, true, line); break;
  case YAML_MAPPING_START_EVENT: begin(w, false, line); break;
  case YAML_SEQUENCE_END_EVENT:
  case YAML_MAPPING_END_EVENT: end(w); break;
  default: break;
  }
}

enum spp_status spp_tree_yaml(struct spp_entries *entries, const char *text, size_t length,
                              struct spp_diag *diag) {
  struct walker w = {.entries = entries, .first = entries->count, .diag = diag};
  yaml_parser_t parser;
  yaml_event_t event;
  int documents = 0;
  bool more = true;
  if (!yaml_parser_initialize(&parser)) return spp_diag_oom(diag);
  yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
  spp_str_init(&w.list);
  while (more && w.status == SPP_OK) {
    if (!yaml_parser_parse(&parser, &event)) {
      refuse(&w, (int)parser.problem_mark.line + 1, parser.problem ? parser.problem : "this is no YAML",
             "correct the YAML");
      break;
    }
    take(&w, &event, &documents);
    more = event.type != YAML_STREAM_END_EVENT;
    yaml_event_delete(&event);
  }
  if (w.list.failed && w.status == SPP_OK) w.status = spp_diag_oom(diag);
  spp_str_free(&w.list);
  yaml_parser_delete(&parser);
  return w.status;
}

#else

enum spp_status spp_tree_yaml(struct spp_entries *entries, const char *text, size_t length,
                              struct spp_diag *diag) {
  (void)text, (void)length;
  return spp_diag_set(diag, SPP_ERR_ABSENT, entries->file,
                      "install libyaml-dev and build again, or give the command line",
                      "YAML is not read: built without libyaml");
}

#endif
