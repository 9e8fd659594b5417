/* Lists of names, as the tables of the formats hold them. */
#include <stdio.h>
#include <string.h>

#include "interop/format.h"

bool spp_names_next(const char **list, char *name, size_t size) {
  *list += strspn(*list, " \n");
  size_t n = strcspn(*list, " \n");
  if (n == 0) return false;
  snprintf(name, size, "%.*s", (int)n, *list);
  *list += n;
  return true;
}

bool spp_names_have(const char *names, const char *name) {
  size_t n = strlen(name);
  if (!names || n == 0) return false;
  for (const char *at = names; (at = strstr(at, name)) != NULL; at += n)
    if ((at == names || at[-1] == ' ' || at[-1] == '\n') && (!at[n] || at[n] == ' ' || at[n] == '\n'))
      return true;
  return false;
}

const char *spp_line_names(const char *line) {
  const char *colon = strchr(line, ':');
  return colon && colon < line + strcspn(line, " ") ? colon + 1 : NULL;
}

/* What is left of a name below one of the places of a line; NULL: it is elsewhere. */
static const char *within(const char *line, const char *name) {
  while (*line && *line != ':') {
    size_t n = strcspn(line, "|:");
    if (strncmp(name, line, n) == 0 && name[n] == '.') return name + n + 1;
    line += n + (line[n] == '|');
  }
  return NULL;
}

static bool line_has(const char *line, const char *name) {
  const char *names = spp_line_names(line);
  if (!names) return spp_names_have(line, name);
  const char *rest = within(line, name);
  return rest && spp_names_have(names, rest);
}

bool spp_lines_have(const char *const *lines, const char *name) {
  for (int i = 0; lines[i]; i++)
    if (line_has(lines[i], name)) return true;
  return false;
}
