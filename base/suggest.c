#include "base/suggest.h"

#include <stddef.h>
#include <string.h>

enum { MAX_LENGTH = 64 };

static char fold(char c) {
  if (c >= 'A' && c <= 'Z') return (char)(c | 0x20);
  return c == '_' ? '-' : c;
}

static int min2(int a, int b) {
  return a < b ? a : b;
}

/* Optimal string alignment distance: each pair of neighbours is swapped at most once. Lengths <= MAX_LENGTH.
 */
static int distance(const char *a, int n, const char *b, int m) {
  int rows[3][MAX_LENGTH + 1];
  for (int j = 0; j <= m; j++)
    rows[0][j] = j;
  for (int i = 1; i <= n; i++) {
    int *now = rows[i % 3], *up = rows[(i + 2) % 3], *up2 = rows[(i + 1) % 3];
    now[0] = i;
    for (int j = 1; j <= m; j++) {
      char x = fold(a[i - 1]), y = fold(b[j - 1]);
      int best = min2(min2(up[j], now[j - 1]) + 1, up[j - 1] + (x != y));
      if (i > 1 && j > 1 && x == fold(b[j - 2]) && fold(a[i - 2]) == y) best = min2(best, up2[j - 2] + 1);
      now[j] = best;
    }
  }
  return rows[n % 3][m];
}

const char *spp_suggest(const char *word, const char *const *names, int n) {
  size_t length = strlen(word);
  if (length == 0 || length > MAX_LENGTH) return NULL;
  const char *best = NULL;
  int best_distance = MAX_LENGTH + 1;
  for (int i = 0; i < n; i++) {
    size_t other = strlen(names[i]);
    if (other == 0 || other > MAX_LENGTH) continue;
    int longest = (int)(other > length ? other : length);
    int bound = longest / 3 > 1 ? longest / 3 : 1;
    int edits = distance(word, (int)length, names[i], (int)other);
    if (edits > bound || edits >= longest || edits >= best_distance) continue;
    best = names[i];
    best_distance = edits;
  }
  return best;
}
