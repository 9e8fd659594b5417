/* Matrix products by cuBLAS, which thinks in columns: row-major C = A B is its C^T = B^T A^T over the same
 * memory. One handle a queue, so that its workspace belongs to one stream and results have the same bits on
 * every run. */
#include "kernels/cuda/blas.cuh"
#include "kernels/cuda/ops.cuh"

extern "C" {
#include "kernels/gemm_impl.h"
}

static enum spp_status refuse(struct spp_diag *diag, const char *fault) {
  return spp_diag_set(diag, SPP_ERR_INPUT, "matrix product", NULL, "%s", fault);
}

/* A failure of the library belongs to the queue, as one of the runtime does. */
static enum spp_status library_fault(struct spp_queue *q, const struct spp_cuda_blas *blas,
                                     cublasStatus_t status, const char *what, struct spp_diag *diag) {
  if (!q->failed)
    spp_diag_set(&q->fault, SPP_ERR_INTERNAL, "gemm.cu", NULL, "%s: %s", what, blas->words(status));
  q->failed = true;
  return spp_queue_status(q, diag);
}

static enum spp_status handle_of(struct spp_queue *q, const struct spp_cuda_blas *blas,
                                 struct spp_diag *diag) {
  cublasHandle_t handle;
  if (q->blas) return SPP_OK;
  cublasStatus_t status = blas->create(&handle);
  if (status != CUBLAS_STATUS_SUCCESS) return library_fault(q, blas, status, "cublasCreate", diag);
  q->blas = handle;
  status = blas->set_stream(handle, q->stream);
  return status == CUBLAS_STATUS_SUCCESS ? SPP_OK : library_fault(q, blas, status, "cublasSetStream", diag);
}

/* A matrix without elements has a leading dimension of 1 for the library. */
static int ld_of(const struct spp_matrix *x) {
  return x->ld > 0 ? (int)x->ld : 1;
}

static cudaDataType type_of(const struct spp_matrix *x) {
  return x->storage == SPP_STORE_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* The library has its own workspace, a handle's. */
int64_t spp_cuda_gemm_bytes(struct spp_queue *, const struct spp_gemm *) {
  return 0;
}

enum spp_status spp_cuda_gemm(struct spp_queue *q, const struct spp_gemm *g, void *, struct spp_diag *diag) {
  const char *fault = spp_gemm_fault(g), *why;
  if (fault) return refuse(diag, fault);
  if (g->a.storage != g->b.storage) return refuse(diag, "A and B have different storage");
  if (g->a.storage == SPP_STORE_F32 && g->c.storage != SPP_STORE_F32)
    return refuse(diag, "C of fp32 operands is not fp32");
  if (!spp_queue_ready(q)) return spp_queue_status(q, diag);
  if (g->m == 0 || g->n == 0) return SPP_OK;
  const struct spp_cuda_blas *blas = spp_cuda_blas_load(&why);
  if (!blas) return spp_diag_set(diag, SPP_ERR_ABSENT, "cuBLAS", NULL, "%s", why);
  enum spp_status status = handle_of(q, blas, diag);
  if (status != SPP_OK) return status;
  cublasStatus_t done =
      blas->gemm((cublasHandle_t)q->blas, g->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                 g->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N, (int)g->n, (int)g->m, (int)g->k, &g->alpha,
                 g->b.data, type_of(&g->b), ld_of(&g->b), g->a.data, type_of(&g->a), ld_of(&g->a), &g->beta,
                 g->c.data, type_of(&g->c), ld_of(&g->c), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  return done == CUBLAS_STATUS_SUCCESS ? SPP_OK : library_fault(q, blas, done, "cublasGemmEx", diag);
}

void spp_cuda_blas_close(struct spp_queue *q) {
  const char *why;
  if (q->blas) spp_cuda_blas_load(&why)->destroy((cublasHandle_t)q->blas);
}
