#include "interop/slurm.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Slurm sbatch(1): options, and the output variables that a job finds them in. */
static const struct {
  const char *option, *names[SPP_SLURM_NAMES];
} rows[] = {{"--nodes", {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}},
            {"-N", {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}},
            {"--gpus-per-node", {"SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"}},
            {"--gres", {"SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"}},
            {"--ntasks-per-node", {"SLURM_NTASKS_PER_NODE", NULL}},
            {"--tasks-per-node", {"SLURM_NTASKS_PER_NODE", NULL}}};

/* "8", "gpu:8", "gpu:h100:8", "a100:4": the number at the end; 0 characters: none. */
static size_t count_at_end(const char *value, size_t length, const char **digits) {
  size_t n = 0;
  while (n < length && isdigit((unsigned char)value[length - 1 - n]))
    n++;
  *digits = value + length - n;
  return n == length || (n > 0 && (*digits)[-1] == ':') ? n : 0;
}

int spp_slurm_read(const char *line, size_t length, char assignments[][SPP_SLURM_BYTES], int max) {
  static const char sign[] = "#SBATCH";
  char text[160];
  const char *digits;
  int count = 0;
  if (length < sizeof sign || length >= sizeof text || strncmp(line, sign, sizeof sign - 1) != 0) return 0;
  snprintf(text, sizeof text, "%.*s", (int)length, line);
  const char *option = text + sizeof sign - 1;
  option += strspn(option, " \t");
  const size_t n = strcspn(option, "= \t"), blank = strspn(option + n, "= \t");
  const char *value = option + n + blank;
  const size_t digit_count = count_at_end(value, strcspn(value, " \t\r,"), &digits);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (strlen(rows[i].option) != n || strncmp(option, rows[i].option, n) != 0) continue;
    for (int k = 0; k < SPP_SLURM_NAMES && rows[i].names[k] && digit_count > 0 && count < max; k++)
      snprintf(assignments[count++], SPP_SLURM_BYTES, "%s=%.*s", rows[i].names[k],
               (int)(digit_count < 9 ? digit_count : 9), digits);
  }
  return count;
}
