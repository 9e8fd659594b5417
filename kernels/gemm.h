/* Matrix product over CBLAS where the build has one, over this folder's own tiles where not. */
#ifndef SPP_KERNELS_GEMM_H
#define SPP_KERNELS_GEMM_H

#include "base/status.h"
#include "kernels/bf16.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Row-major; row r starts at element r * ld. */
struct spp_matrix {
  void *data;
  int64_t ld;
  enum spp_storage storage;
};

/* C[m][n] = alpha * op(A) op(B) + beta * C, op(A) [m][k], op(B) [k][n]; A is stored [k][m] when trans_a, B
 * [n][k] when trans_b. Accumulates in fp32; with bf16 storage operands are converted tile by tile and C is
 * rounded once. beta 0 ignores what C holds. */
struct spp_gemm {
  bool trans_a, trans_b;
  int64_t m, n, k;
  float alpha, beta;
  struct spp_matrix a, b, c;
  int threads; /* of the library, a setting of the whole process; 0 leaves it */
};

/* Bytes of scratch the product needs: 0 when everything is fp32 and the build has CBLAS. */
int64_t spp_gemm_workspace_bytes(const struct spp_gemm *g);

/* Runs it. `workspace` holds at least the bytes asked for and belongs to the caller. Negative sizes, sizes
 * over 2^31 - 1 or leading dimensions shorter than a row are SPP_ERR_INPUT. */
enum spp_status spp_gemm(const struct spp_gemm *g, void *workspace, struct spp_diag *diag);

/* Which library, which of its kernels: "OpenBLAS 0.3.21 ... Haswell" or "built-in tiles (...)". */
void spp_gemm_describe(char *text, size_t size);

#endif
