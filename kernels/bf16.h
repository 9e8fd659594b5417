/* Storage types of tensors and the scalar conversion between them: fp32 accumulates, bf16 stores. */
#ifndef SPP_KERNELS_BF16_H
#define SPP_KERNELS_BF16_H

#include <stdint.h>
#include <string.h>

enum spp_storage { SPP_STORE_F32 = 0, SPP_STORE_BF16 = 1 };

/* Bytes of one element. */
static inline int64_t spp_storage_bytes(enum spp_storage storage) {
  return storage == SPP_STORE_BF16 ? 2 : 4;
}

static inline float spp_bf16_to_float(uint16_t x) {
  uint32_t bits = (uint32_t)x << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

/* Round to nearest, ties to even; a NaN keeps its sign and becomes quiet (adding could carry it to infinity).
 */
static inline uint16_t spp_float_to_bf16(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return (uint16_t)((bits >> 16) | 0x40U);
  return (uint16_t)((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

/* Address of element i. */
static inline void *spp_at(void *p, enum spp_storage storage, int64_t i) {
  return (char *)p + i * spp_storage_bytes(storage);
}
static inline const void *spp_at_const(const void *p, enum spp_storage storage, int64_t i) {
  return (const char *)p + i * spp_storage_bytes(storage);
}

static inline float spp_load(const void *p, enum spp_storage storage, int64_t i) {
  return storage == SPP_STORE_BF16 ? spp_bf16_to_float(((const uint16_t *)p)[i]) : ((const float *)p)[i];
}

static inline void spp_store(void *p, enum spp_storage storage, int64_t i, float x) {
  if (storage == SPP_STORE_BF16)
    ((uint16_t *)p)[i] = spp_float_to_bf16(x);
  else
    ((float *)p)[i] = x;
}

#endif
