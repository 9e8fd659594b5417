/* Stands in for the header of cuBLAS, as cuda_runtime.h beside it does for that of the runtime. */
#ifndef SPP_TESTS_SIMT_CUBLAS_V2_H
#define SPP_TESTS_SIMT_CUBLAS_V2_H

#include <cuda_runtime.h>

enum cublasStatus_t { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_INVALID_VALUE = 7 };
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cudaDataType { CUDA_R_32F = 0, CUDA_R_16BF = 14 };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68 };
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1 };
typedef struct simt_blas *cublasHandle_t;

#endif
