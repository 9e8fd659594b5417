#include "kernels/gemm_impl.h"

#include "kernels/scratch.h"
#include "kernels/table.h"

#include <stdio.h>
#include <string.h>

#ifdef SPP_HAVE_BLAS
#include "kernels/blas.h"
#endif

/* Tiles of the bf16 path: 2.5 MiB of fp32 in all; a tile of A or B is converted once per 256 or more
 * products. */
enum {
  TILE_M = 256,
  TILE_N = 256,
  TILE_K = 1024,
  TILE_FLOATS = TILE_M * TILE_K + TILE_K * TILE_N + TILE_M * TILE_N
};

const char *spp_gemm_fault(const struct spp_gemm *g) {
  if (g->m < 0 || g->n < 0 || g->k < 0) return "a size is negative";
  if (g->m > INT32_MAX || g->n > INT32_MAX || g->k > INT32_MAX) return "a size is over 2^31 - 1";
  if (g->a.ld > INT32_MAX || g->b.ld > INT32_MAX || g->c.ld > INT32_MAX)
    return "a row is over 2^31 - 1 elements";
  if (g->a.ld < (g->trans_a ? g->m : g->k)) return "the rows of A are shorter than the product needs";
  if (g->b.ld < (g->trans_b ? g->k : g->n)) return "the rows of B are shorter than the product needs";
  if (g->c.ld < g->n) return "the rows of C are shorter than the product needs";
  return NULL;
}

/* c[m][n] (ld TILE_N) += op(A)[row..][p..] op(B)[p..][col..]; scratch holds a tile of A and a tile of B. */
static void tile_product(const struct spp_gemm *g, const struct spp_tile_ops *ops, int64_t row, int64_t m,
                         int64_t col, int64_t n, int64_t p, int64_t k, float *scratch, float *c);

static const void *element(const struct spp_matrix *x, int64_t r, int64_t c) {
  return (const char *)x->data + (r * x->ld + c) * spp_storage_bytes(x->storage);
}

/* alpha * c + beta * C -> C, rounded once. */
static void write_tile(const struct spp_gemm *g, const float *c, int64_t row, int64_t m, int64_t col,
                       int64_t n) {
  for (int64_t r = 0; r < m; r++)
    for (int64_t j = 0; j < n; j++) {
      int64_t i = (row + r) * g->c.ld + col + j;
      float x = g->alpha * c[r * TILE_N + j];
      if (g->beta != 0.0F) x += g->beta * spp_load(g->c.data, g->c.storage, i);
      spp_store(g->c.data, g->c.storage, i, x);
    }
}

static void tiled(const struct spp_gemm *g, float *scratch) {
  const struct spp_tile_ops *ops = spp_kernels_best()->tile;
  float *c = scratch + TILE_M * TILE_K + TILE_K * TILE_N;
  for (int64_t col = 0; col < g->n; col += TILE_N)
    for (int64_t row = 0; row < g->m; row += TILE_M) {
      int64_t m = spp_min64(TILE_M, g->m - row), n = spp_min64(TILE_N, g->n - col);
      memset(c, 0, sizeof(float) * TILE_M * TILE_N);
      for (int64_t p = 0; p < g->k; p += TILE_K)
        tile_product(g, ops, row, m, col, n, p, spp_min64(TILE_K, g->k - p), scratch, c);
      write_tile(g, c, row, m, col, n);
    }
}

/* The tile kernels want op(A) as [k][m] and op(B) as [k][n]. */
static void own_product(const struct spp_gemm *g, const struct spp_tile_ops *ops, int64_t row, int64_t m,
                        int64_t col, int64_t n, int64_t p, int64_t k, float *scratch, float *c) {
  float *a = scratch, *b = scratch + TILE_M * TILE_K;
  if (g->trans_a)
    ops->pack(element(&g->a, p, row), g->a.storage, g->a.ld, k, m, a, TILE_M);
  else
    ops->pack_transposed(element(&g->a, row, p), g->a.storage, g->a.ld, m, k, a, TILE_M);
  if (g->trans_b)
    ops->pack_transposed(element(&g->b, col, p), g->b.storage, g->b.ld, n, k, b, TILE_N);
  else
    ops->pack(element(&g->b, p, col), g->b.storage, g->b.ld, k, n, b, TILE_N);
  ops->gemm_tn(m, n, k, a, TILE_M, b, TILE_N, c, TILE_N, true);
}

#ifdef SPP_HAVE_BLAS

static bool all_fp32(const struct spp_gemm *g) {
  return g->a.storage == SPP_STORE_F32 && g->b.storage == SPP_STORE_F32 && g->c.storage == SPP_STORE_F32;
}

static void sgemm(const struct spp_blas *blas, const struct spp_gemm *g) {
  blas->sgemm(CblasRowMajor, g->trans_a ? CblasTrans : CblasNoTrans, g->trans_b ? CblasTrans : CblasNoTrans,
              (int)g->m, (int)g->n, (int)g->k, g->alpha, g->a.data, (int)g->a.ld, g->b.data, (int)g->b.ld,
              g->beta, g->c.data, (int)g->c.ld);
}

/* Operands keep their orientation: CBLAS transposes. */
static void blas_product(const struct spp_blas *blas, const struct spp_gemm *g,
                         const struct spp_tile_ops *ops, int64_t row, int64_t m, int64_t col, int64_t n,
                         int64_t p, int64_t k, float *scratch, float *c) {
  float *a = scratch, *b = scratch + TILE_M * TILE_K;
  int64_t lda = g->trans_a ? TILE_M : TILE_K, ldb = g->trans_b ? TILE_K : TILE_N;
  ops->pack(element(&g->a, g->trans_a ? p : row, g->trans_a ? row : p), g->a.storage, g->a.ld,
            g->trans_a ? k : m, g->trans_a ? m : k, a, lda);
  ops->pack(element(&g->b, g->trans_b ? col : p, g->trans_b ? p : col), g->b.storage, g->b.ld,
            g->trans_b ? n : k, g->trans_b ? k : n, b, ldb);
  struct spp_gemm t = {g->trans_a, g->trans_b, m, n, k, 1.0F, 1.0F, {0}, {0}, {0}, 0};
  t.a = (struct spp_matrix){a, lda, SPP_STORE_F32};
  t.b = (struct spp_matrix){b, ldb, SPP_STORE_F32};
  t.c = (struct spp_matrix){c, TILE_N, SPP_STORE_F32};
  sgemm(blas, &t);
}

static void tile_product(const struct spp_gemm *g, const struct spp_tile_ops *ops, int64_t row, int64_t m,
                         int64_t col, int64_t n, int64_t p, int64_t k, float *scratch, float *c) {
  const struct spp_blas *blas = spp_blas_load();
  if (blas)
    blas_product(blas, g, ops, row, m, col, n, p, k, scratch, c);
  else
    own_product(g, ops, row, m, col, n, p, k, scratch, c);
}

/* Whole products of fp32 go to the library as they are; false: there is none, or other storage. */
static bool whole_product(const struct spp_gemm *g) {
  const struct spp_blas *blas = spp_blas_load();
  if (!blas) return false;
  if (g->threads > 0 && g->threads != blas->get_threads()) blas->set_threads(g->threads);
  if (!all_fp32(g)) return false;
  sgemm(blas, g);
  return true;
}

static bool needs_no_tiles(const struct spp_gemm *g) {
  return all_fp32(g) && spp_blas_load() != NULL;
}

#else

static void tile_product(const struct spp_gemm *g, const struct spp_tile_ops *ops, int64_t row, int64_t m,
                         int64_t col, int64_t n, int64_t p, int64_t k, float *scratch, float *c) {
  own_product(g, ops, row, m, col, n, p, k, scratch, c);
}
static bool whole_product(const struct spp_gemm *g) {
  (void)g;
  return false;
}
static bool needs_no_tiles(const struct spp_gemm *g) {
  (void)g;
  return false;
}

#endif

int64_t spp_gemm_workspace_bytes(const struct spp_gemm *g) {
  if (needs_no_tiles(g)) return 0;
  return (int64_t)sizeof(float) * TILE_FLOATS + SPP_SCRATCH_ALIGN;
}

enum spp_status spp_gemm(const struct spp_gemm *g, void *workspace, struct spp_diag *diag) {
  const char *fault = spp_gemm_fault(g);
  if (fault) return spp_diag_set(diag, SPP_ERR_INPUT, "matrix product", NULL, "%s", fault);
  if (g->m == 0 || g->n == 0) return SPP_OK;
  if (whole_product(g)) return SPP_OK;
  tiled(g, spp_scratch_align(workspace));
  return SPP_OK;
}

void spp_gemm_describe(char *text, size_t size) {
#ifdef SPP_HAVE_BLAS
  const struct spp_blas *blas = spp_blas_load();
  if (blas)
    snprintf(text, size, "%s", blas->config());
  else
    snprintf(text, size, "built-in tiles (%s): %s cannot be loaded", spp_kernels_best()->name,
             SPP_BLAS_LIBRARY);
#else
  snprintf(text, size, "built-in tiles (%s): no CBLAS when this was configured", spp_kernels_best()->name);
#endif
}
