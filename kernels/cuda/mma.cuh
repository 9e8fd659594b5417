/* The tensor cores' product of a warp, 16 x 8 x 16: c += a b, bf16 into fp32. Fragments are those of the PTX
 * manual, "Matrix Fragments for mma.m16n8k16 with floating point type": with g = lane / 4 and t = lane % 4,
 * a[0] holds columns 2t and 2t+1 of row g, a[1] of row g+8, a[2] and a[3] the same 8 columns on; b[0] rows 2t
 * and 2t+1 of column g, b[1] 8 rows on; c[0], c[1] columns 2t and 2t+1 of row g, c[2], c[3] of row g+8. */
#ifndef SPP_KERNELS_CUDA_MMA_CUH
#define SPP_KERNELS_CUDA_MMA_CUH

static __device__ __forceinline__ void mma(float &c0, float &c1, float &c2, float &c3, const unsigned (&a)[4],
                                           const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#endif
