/* cuBLAS, loaded when the first product is asked for: it is hundreds of megabytes that most commands never
 * touch. */
#ifndef SPP_KERNELS_CUDA_BLAS_CUH
#define SPP_KERNELS_CUDA_BLAS_CUH

#include <cublas_v2.h>

struct spp_cuda_blas {
  cublasStatus_t (*create)(cublasHandle_t *handle);
  cublasStatus_t (*destroy)(cublasHandle_t handle);
  cublasStatus_t (*set_stream)(cublasHandle_t handle, cudaStream_t stream);
  cublasStatus_t (*gemm)(cublasHandle_t handle, cublasOperation_t trans_a, cublasOperation_t trans_b, int m,
                         int n, int k, const void *alpha, const void *a, cudaDataType a_type, int lda,
                         const void *b, cudaDataType b_type, int ldb, const void *beta, void *c,
                         cudaDataType c_type, int ldc, cublasComputeType_t compute, cublasGemmAlgo_t algo);
  const char *(*words)(cublasStatus_t status);
};

/* NULL: the library cannot be loaded, and `why` says what the loader says. Thread-safe; stays loaded. */
const struct spp_cuda_blas *spp_cuda_blas_load(const char **why);

#endif
