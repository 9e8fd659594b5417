/* The tensor cores' product of a warp, 16 x 8 x 16: c += a b, bf16 into fp32. Fragments are those of the PTX
 * manual, "Matrix Fragments for mma.m16n8k16 with floating point type": with g = lane / 4 and t = lane % 4,
 * a[0] holds columns 2t and 2t+1 of row g, a[1] of row g+8, a[2] and a[3] the same 8 columns on; b0 rows 2t
 * and 2t+1 of column g, b1 8 rows on; c0, c1 columns 2t and 2t+1 of row g, c2, c3 of row g+8.
 * NVIDIA/cutlass 4.2 says the same of both instructions (include/cute/atom/mma_traits_sm80.hpp
 * SM80_16x8x16_F32BF16BF16F32_TN; copy_traits_sm75.hpp SM75_U32x4_LDSM_N and SM75_U16x8_LDSM_T). */
#ifndef SPP_KERNELS_CUDA_MMA_CUH
#define SPP_KERNELS_CUDA_MMA_CUH

static __device__ __forceinline__ void mma(float &c0, float &c1, float &c2, float &c3, const unsigned (&a)[4],
                                           unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Four matrices of 8 x 8 elements of 16 bits from shared memory; lanes 8 i to 8 i + 7 give the addresses of
 * the rows of matrix i, each aligned to 16 bytes. Of matrix i a lane gets elements 2t and 2t+1 of row g in
 * x[i]. PTX manual, ldmatrix. */
static __device__ __forceinline__ void load_matrices(unsigned (&x)[4], const void *row) {
  unsigned at = (unsigned)__cvta_generic_to_shared(row);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(at)
               : "memory");
}

/* The same transposed: elements g of rows 2t and 2t+1. */
static __device__ __forceinline__ void load_transposed(unsigned (&x)[4], const void *row) {
  unsigned at = (unsigned)__cvta_generic_to_shared(row);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(at)
               : "memory");
}

#endif
