/* Names of things described by one JSON file each in a folder of configs/, and their aliases. */
#ifndef SPP_MODEL_CATALOG_H
#define SPP_MODEL_CATALOG_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/status.h"

/* One kind of thing: "models" holds models, whose aliases are the "models" object of configs/aliases.json. */
struct spp_catalog {
  const char *folder;      /* "models" */
  const char *thing;       /* "model", for messages */
  const char *inside_file; /* file looked for when a directory is named, or NULL: directories are refused */
};

/* Where `name` is described. Names and aliases are compared without case; "org/name" is also tried as "name",
 * and suffixes that change no shape ("-instruct", "-awq": "suffixes" of aliases.json) are cut off until
 * something fits. A word that is a name in the folder is that, else an existing path (or one that starts with
 * '.' or '/' or ends in ".json") is a path: "./gpt2" forces the path. *path and *entry (file name without
 * folder and suffix; the path when a path was given) live in arena. Errors: SPP_ERR_USAGE unknown name
 * (nearest hinted) or ambiguous alias or prefix (candidates hinted); SPP_ERR_INPUT unreadable folder or file.
 */
enum spp_status spp_catalog_find(const struct spp_catalog *catalog, const char *config_dir, const char *name,
                                 struct spp_arena *arena, const char **path, const char **entry,
                                 struct spp_diag *diag);

/* The sorted names in the folder. The array and the strings live in arena. */
enum spp_status spp_catalog_list(const struct spp_catalog *catalog, const char *config_dir,
                                 struct spp_arena *arena, const char *const **names, int *count,
                                 struct spp_diag *diag);

#endif
