/* Is a text well-formed XML? Enough of the rules to catch an unescaped character, an unclosed or crossed
 * element, and a broken attribute in what this program writes (no CDATA; a doctype is skipped). */
#ifndef SPP_TESTS_XML_H
#define SPP_TESTS_XML_H

#include "tests/expect.h"

enum { XML_DEPTH = 64 };
struct xml {
  const char *at;
  const char *open[XML_DEPTH];
  size_t length[XML_DEPTH];
  int depth, elements;
};

static bool xml_entity(const char **at) {
  static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (strncmp(*at, known[i], strlen(known[i])) == 0) {
      *at += strlen(known[i]);
      return true;
    }
  return false;
}
static size_t xml_name(const char *at) {
  return strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-:");
}

/* name="value", any number; then > or />. */
static bool xml_attributes(struct xml *x, bool *closed) {
  for (;;) {
    x->at += strspn(x->at, " \n");
    *closed = x->at[0] == '/';
    if (*closed) x->at++;
    if (*x->at == '>') {
      x->at++;
      return true;
    }
    size_t n = xml_name(x->at);
    if (*closed || n == 0 || strncmp(x->at + n, "=\"", 2) != 0) return false;
    for (x->at += n + 2; *x->at && *x->at != '"';) {
      if (*x->at == '<' || (*x->at == '&' && !xml_entity(&x->at))) return false;
      x->at += *x->at != '"';
    }
    if (*x->at++ != '"') return false;
  }
}

static bool xml_tag(struct xml *x) {
  bool closing = x->at[1] == '/', closed;
  if (strncmp(x->at, "<!DOCTYPE", 9) == 0) {
    x->at = strchr(x->at, '>') ? strchr(x->at, '>') + 1 : x->at;
    return x->depth == 0;
  }
  const char *name = x->at + 1 + closing;
  size_t n = xml_name(name);
  x->at = name + n;
  if (n == 0) return false;
  if (closing) {
    if (x->depth == 0 || x->length[x->depth - 1] != n || strncmp(x->open[x->depth - 1], name, n) != 0)
      return false;
    x->depth--;
    return *x->at++ == '>';
  }
  if (!xml_attributes(x, &closed)) return false;
  x->elements++;
  if (closed) return true;
  if (x->depth == XML_DEPTH) return false;
  x->open[x->depth] = name;
  x->length[x->depth++] = n;
  return true;
}

/* The number of elements, or -1 with *where at the fault. */
__attribute__((unused)) static int xml_check(const char *text, const char **where) {
  struct xml x = {.at = text};
  bool ok = true;
  while (ok && *x.at) {
    if (*x.at == '<')
      ok = xml_tag(&x);
    else if (*x.at == '&')
      ok = xml_entity(&x.at);
    else if ((unsigned char)*x.at < 32 && *x.at != '\n')
      ok = false;
    else
      x.at++;
  }
  *where = x.at;
  return ok && x.depth == 0 ? x.elements : -1;
}

#define expect_xml(text)                                                                                     \
  do {                                                                                                       \
    const char *xml_where;                                                                                   \
    if (xml_check((text), &xml_where) < 1)                                                                   \
      expect_fail_at(__FILE__, __LINE__, "not well-formed at \"%.80s\"", xml_where);                         \
  } while (0)

#endif
