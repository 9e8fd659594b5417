/* "Did you mean ...?" */
#ifndef SPP_BASE_SUGGEST_H
#define SPP_BASE_SUGGEST_H

/* The name nearest to word by Damerau-Levenshtein distance (insert, delete, replace, swap neighbours), case
 * and the difference of '-' and '_' ignored; the first of equals. NULL when none is within a third of the
 * longer length (at least one edit). Borrowed from names. */
const char *spp_suggest(const char *word, const char *const *names, int n);

#endif
