#include "interop/arith.h"

#include <ctype.h>
#include <string.h>

#include "base/num.h"

/* Two stacks, as the shunting-yard method has them: no depth of brackets recurses. */
enum { MAX_DEPTH = 64 };
struct stacks {
  int64_t values[MAX_DEPTH];
  char operators[MAX_DEPTH];
  int value_count, operator_count;
};

static int rank(char op) {
  return op == '*' || op == '/' || op == '%' ? 2 : op == '+' || op == '-' ? 1 : 0;
}

static bool small(int64_t value) {
  const int64_t most = INT64_C(1) << 60;
  return value <= most && value >= -most;
}

/* The operator on top, applied to the two values on top. */
static bool apply(struct stacks *s) {
  if (s->value_count < 2 || s->operator_count < 1) return false;
  const char op = s->operators[--s->operator_count];
  const int64_t b = s->values[--s->value_count], a = s->values[s->value_count - 1];
  int64_t *out = &s->values[s->value_count - 1];
  if ((op == '/' || op == '%') && b == 0) return false;
  if (op == '*' && a != 0 &&
      (b > (INT64_C(1) << 60) / (a < 0 ? -a : a) || b < -((INT64_C(1) << 60) / (a < 0 ? -a : a))))
    return false;
  *out = op == '*' ? a * b : op == '/' ? a / b : op == '%' ? a % b : op == '+' ? a + b : a - b;
  return rank(op) > 0 && small(*out);
}

static bool push_value(struct stacks *s, int64_t value) {
  if (s->value_count == MAX_DEPTH || !small(value)) return false;
  s->values[s->value_count++] = value;
  return true;
}

/* Operators that bind as tightly come first. */
static bool push_operator(struct stacks *s, char op) {
  while (op != '(' && s->operator_count > 0 && rank(s->operators[s->operator_count - 1]) >= rank(op))
    if (!apply(s)) return false;
  if (s->operator_count == MAX_DEPTH) return false;
  s->operators[s->operator_count++] = op;
  return true;
}

static bool close_bracket(struct stacks *s) {
  while (s->operator_count > 0 && s->operators[s->operator_count - 1] != '(')
    if (!apply(s)) return false;
  return s->operator_count-- > 0;
}

/* A number or a name at text[*at]. */
static bool read_value(const char *text, size_t length, size_t *at, spp_arith_lookup *lookup, void *context,
                       int64_t *value) {
  size_t n = 0;
  const char *word = text + *at;
  const size_t left = length - *at;
  *value = 0;
  if (isdigit((unsigned char)word[0])) {
    for (; n < left && isdigit((unsigned char)word[n]); n++)
      if (n == 18)
        return false;
      else
        *value = *value * 10 + (word[n] - '0');
    *at += n;
    return n == left || !(isalpha((unsigned char)word[n]) || word[n] == '.');
  }
  size_t open = word[0] == '$' ? 1 : 0;
  const bool braces = open < left && open && word[open] == '{';
  open += braces;
  while (open + n < left && (isalnum((unsigned char)word[open + n]) || word[open + n] == '_'))
    n++;
  if (n == 0 || (braces && (open + n == left || word[open + n] != '}'))) return false;
  *at += open + n + braces;
  return lookup(context, word + open, n, value);
}

bool spp_arith(const char *text, size_t length, spp_arith_lookup *lookup, void *context, int64_t *value) {
  struct stacks s = {.value_count = 0};
  bool wants_value = true;
  for (size_t at = 0; at < length;) {
    const char c = text[at];
    int64_t number;
    if (isspace((unsigned char)c)) {
      at++;
    } else if (wants_value && c == '(') {
      if (!push_operator(&s, c)) return false;
      at++;
    } else if (wants_value) {
      if (!read_value(text, length, &at, lookup, context, &number) || !push_value(&s, number)) return false;
      wants_value = false;
    } else if (c == ')') {
      if (!close_bracket(&s)) return false;
      at++;
    } else {
      if (rank(c) == 0 || !push_operator(&s, c)) return false;
      wants_value = true, at++;
    }
  }
  while (s.operator_count > 0)
    if (s.operators[s.operator_count - 1] == '(' || !apply(&s)) return false;
  if (wants_value || s.value_count != 1) return false;
  *value = s.values[0];
  return true;
}
