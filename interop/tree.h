/* Configurations as entries: each scalar under the path of its keys, "zero_optimization.stage"; a list of
 * scalars as words joined by blanks; of objects by number, "datasets.0.path". Keys that are there twice are
 * refused. */
#ifndef SPP_INTEROP_TREE_H
#define SPP_INTEROP_TREE_H

#include "interop/entry.h"

/* Text is NUL-terminated at text[length]. SPP_ERR_INPUT with file and line (JSON: path). */
enum spp_status spp_tree_json(struct spp_entries *entries, const char *text, size_t length,
                              struct spp_diag *diag);
/* One document, no aliases; SPP_ERR_ABSENT without libyaml. */
enum spp_status spp_tree_yaml(struct spp_entries *entries, const char *text, size_t length,
                              struct spp_diag *diag);
/* Tables, dotted keys, strings on one line, numbers, booleans, arrays of scalars: what torchtitan's files
 * hold. */
enum spp_status spp_tree_toml(struct spp_entries *entries, const char *text, size_t length,
                              struct spp_diag *diag);

/* The path so far, grown and cut as a reader walks a tree. */
struct spp_path {
  char text[512];
  size_t marks[SPP_MAX_KEY_DEPTH]; /* length of the text before each key */
  int depth;
};
/* False when it is too deep or too long. */
bool spp_path_push(struct spp_path *path, const char *key);
void spp_path_pop(struct spp_path *path);

/* Adds one scalar, unless its name is there already since entry `first`: refused. */
enum spp_status spp_tree_add(struct spp_entries *entries, int first, const char *name, const char *value,
                             int line, struct spp_diag *diag);

#endif
