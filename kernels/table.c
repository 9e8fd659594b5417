#include "kernels/table.h"

#include "kernels/gemm.h"
#include "kernels/isa.h"

#include <stdio.h>
#include <string.h>

static const struct spp_kernels *const rows[] = {&spp_kernels_reference, &spp_kernels_portable,
                                                 &spp_kernels_neon,      &spp_kernels_avx2,
                                                 &spp_kernels_avx512,    &spp_kernels_avx512bf16};
enum { ROWS = sizeof rows / sizeof rows[0] };

const struct spp_kernels *const *spp_kernels_all(int *count) {
  *count = ROWS;
  return rows;
}

bool spp_kernels_usable(const struct spp_kernels *kernels) {
  return !kernels->absent && kernels->available();
}

const struct spp_kernels *spp_kernels_best(void) {
  int i = ROWS - 1;
  while (i > 0 && !spp_kernels_usable(rows[i]))
    i--;
  return rows[i];
}

const struct spp_tile_ops *spp_kernels_tile(const struct spp_kernels *kernels, bool all_bf16) {
  return all_bf16 && kernels->tile_bf16 ? kernels->tile_bf16 : kernels->tile;
}

void spp_kernels_describe(const struct spp_kernels *kernels, char *text, size_t size) {
  char gemm[128];
  spp_gemm_describe(gemm, sizeof gemm);
  snprintf(text, size, "kernels %s (%s), matrix products %s", kernels->name, kernels->description, gemm);
}

enum spp_status spp_kernels_find(const char *name, const struct spp_kernels **kernels,
                                 struct spp_diag *diag) {
  char known[160] = "";
  for (int i = 0; i < ROWS; i++) {
    if (strcmp(rows[i]->name, name) == 0) {
      if (!spp_kernels_usable(rows[i]))
        return spp_diag_set(diag, SPP_ERR_ABSENT, name, "use another kernel variant", "%s",
                            rows[i]->absent ? rows[i]->absent : "this processor lacks the instructions");
      *kernels = rows[i];
      return SPP_OK;
    }
    strncat(known, i ? " " : "known: ", sizeof known - strlen(known) - 1);
    strncat(known, rows[i]->name, sizeof known - strlen(known) - 1);
  }
  return spp_diag_set(diag, SPP_ERR_INPUT, name, known, "no such kernel variant");
}
