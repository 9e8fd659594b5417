/* Products in columns as the manual of cuBLAS defines them (cublasGemmEx), in the place of
 * kernels/cuda/blas.cu. */
#include "kernels/cuda/blas.cuh"

extern "C" {
#include "kernels/bf16.h"
}

struct simt_blas {
  cudaStream_t stream;
};

static enum spp_storage storage_of(cudaDataType type) {
  return type == CUDA_R_16BF ? SPP_STORE_BF16 : SPP_STORE_F32;
}

static cublasStatus_t create(cublasHandle_t *handle) {
  *handle = new simt_blas{nullptr};
  return CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t destroy(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t set_stream(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

/* Column-major: element (row, column) of A is at row + column * lda, of A^T the other way round. */
static cublasStatus_t gemm(cublasHandle_t handle, cublasOperation_t trans_a, cublasOperation_t trans_b, int m,
                           int n, int k, const void *alpha_at, const void *a, cudaDataType a_type, int lda,
                           const void *b, cudaDataType b_type, int ldb, const void *beta_at, void *c,
                           cudaDataType c_type, int ldc, cublasComputeType_t compute, cublasGemmAlgo_t) {
  bool types_fit = a_type == b_type && (a_type == CUDA_R_16BF || c_type == CUDA_R_32F);
  if (!types_fit || compute != CUBLAS_COMPUTE_32F || lda < (trans_a ? k : m) || ldb < (trans_b ? n : k) ||
      ldc < m)
    return CUBLAS_STATUS_INVALID_VALUE;
  float alpha = *(const float *)alpha_at, beta = *(const float *)beta_at;
  simt::put_off(handle->stream, [=]() {
    for (int64_t j = 0; j < n; j++)
      for (int64_t i = 0; i < m; i++) {
        float sum = 0.0F;
        for (int64_t p = 0; p < k; p++)
          sum += spp_load(a, storage_of(a_type), trans_a ? p + i * lda : i + p * lda) *
                 spp_load(b, storage_of(b_type), trans_b ? j + p * ldb : p + j * ldb);
        float before = beta == 0.0F ? 0.0F : beta * spp_load(c, storage_of(c_type), i + j * ldc);
        spp_store(c, storage_of(c_type), i + j * ldc, alpha * sum + before);
      }
  });
  return CUBLAS_STATUS_SUCCESS;
}

static const char *words(cublasStatus_t) {
  return "an unsupported value or parameter was passed to the function";
}

const struct spp_cuda_blas *spp_cuda_blas_load(const char **why) {
  static const struct spp_cuda_blas blas = {create, destroy, set_stream, gemm, words};
  *why = "";
  return &blas;
}
