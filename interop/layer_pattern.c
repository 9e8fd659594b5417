#include "interop/layer_pattern.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 8 };

/* What is said so far; `term` is where the last list or bracket begins, which a '*' repeats. */
struct reader {
  const char *at;
  bool *list;
  int64_t count, limit;
  int64_t begins[MAX_DEPTH], term;
  int depth;
  bool operand; /* a list or bracket has ended: an operator may follow */
};

static bool append(struct reader *r, bool value) {
  if (r->count == r->limit) return false;
  r->list[r->count++] = value;
  return true;
}

/* At '[': "[0, 1]". */
static bool read_list(struct reader *r) {
  if (r->operand) return false;
  r->term = r->count;
  for (r->at++; *r->at != ']'; r->at++)
    if (*r->at == '0' || *r->at == '1') {
      if (!append(r, *r->at == '1')) return false;
    } else if (*r->at != ',' && *r->at != ' ') {
      return false;
    }
  r->at++;
  return r->operand = true;
}

/* At '*': the last operand N times. */
static bool repeat(struct reader *r) {
  char *end = NULL;
  const int64_t from = r->term, length = r->count - from;
  if (!r->operand) return false;
  const long times = strtol(r->at + 1, &end, 10);
  if (end == r->at + 1 || times < 0 || times > r->limit) return false;
  r->at = end;
  if (times == 0) r->count = from;
  for (int64_t i = 0; i < length * (times - 1); i++)
    if (!append(r, r->list[from + i])) return false;
  return true;
}

static bool open_bracket(struct reader *r) {
  if (r->operand || r->depth == MAX_DEPTH) return false;
  r->begins[r->depth++] = r->count;
  r->at++;
  return true;
}
static bool close_bracket(struct reader *r) {
  if (!r->operand || r->depth == 0) return false;
  r->term = r->begins[--r->depth];
  r->at++;
  return true;
}

static bool step(struct reader *r) {
  switch (*r->at) {
  case ' ': r->at++; return true;
  case '[': return read_list(r);
  case '*': return repeat(r);
  case '(': return open_bracket(r);
  case ')': return close_bracket(r);
  case '+':
    if (!r->operand) return false;
    r->operand = false, r->at++;
    return true;
  default: return false;
  }
}

static bool every(const char *text, int64_t layers, bool *with_experts) {
  char *end = NULL;
  const long n = strtol(text, &end, 10);
  if (end == text || *end || n < 1) return false;
  for (int64_t i = 0; i < layers; i++)
    with_experts[i] = i % n == 0;
  return true;
}

bool spp_layer_pattern(const char *text, int64_t layers, bool *with_experts) {
  struct reader r = {.at = text, .list = with_experts, .limit = layers};
  if (!strchr(text, '[')) return every(text, layers, with_experts);
  while (*r.at)
    if (!step(&r)) return false;
  return r.operand && r.depth == 0 && r.count == layers;
}
