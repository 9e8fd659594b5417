/* The little of the shell that launch scripts are written in. */
#ifndef SPP_INTEROP_SHELL_H
#define SPP_INTEROP_SHELL_H

#include "interop/entry.h"

/* The commands of a script: comments, continued lines, quotes, `export`, variables and arrays that the script
 * sets itself, ${NAME:-default}, $((whole numbers)), and the variables of Slurm that #SBATCH lines settle;
 * nothing is run, and what only running could tell ($(...), $1, a variable
 * nobody set) stays as it is written. */
struct spp_command_line {
  const struct spp_word *words; /* "NAME=value" words in front */
  int count;
  int cut_line; /* line of a comment that ended it in the middle: what follows never reaches it; 0: none */
};
enum { SPP_MAX_COMMANDS = 512, SPP_MAX_SHELL_WORDS = 8192 };
struct spp_script {
  struct spp_command_line commands[SPP_MAX_COMMANDS];
  int count;
  const struct spp_word *exported; /* "NAME=value" of each exported variable */
  int exported_count;
};
/* What is set before a text begins: "NAME=value" words, exported; and the line that it begins in. */
struct spp_shell_start {
  const struct spp_word *given;
  int given_count, line;
};
/* `start`: NULL for a file of its own. SPP_ERR_INPUT with file and line: a NUL byte, an unterminated quote,
 * too many words, words too long. Everything lives in the arena. */
enum spp_status spp_shell_read(const char *text, size_t length, const char *file,
                               const struct spp_shell_start *start, struct spp_arena *arena,
                               struct spp_script *script, struct spp_diag *diag);

#endif
