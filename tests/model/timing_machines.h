/* Machines the time tests use, spelled out so that their arithmetic can be followed. Datasheet figures. */
#ifndef SPP_TESTS_TIMING_MACHINES_H
#define SPP_TESTS_TIMING_MACHINES_H

#include <stdlib.h>

#include "model/calib.h"
#include "tests/expect.h"

__attribute__((unused)) static struct spp_gpu a100_gpu(void) {
  return (struct spp_gpu){
      .name = "a100-80gb",
      .calib = "a100",
      .memory_bytes_per_s = 2.039e12,
      .link_bytes_per_s = 300e9,
      .pcie_bytes_per_s = 31.5e9,
      .has_fast_link = true,
      .sms = 108,
      .compute_capability = 80,
      .flops_per_s = {[SPP_DTYPE_FP32] = 19.5e12, [SPP_DTYPE_BF16] = 312e12, [SPP_DTYPE_FP16] = 312e12}};
}
__attribute__((unused)) static struct spp_gpu h100_gpu(void) {
  return (struct spp_gpu){.name = "h100-80gb",
                          .calib = "h100",
                          .memory_bytes_per_s = 3.35e12,
                          .link_bytes_per_s = 450e9,
                          .pcie_bytes_per_s = 63e9,
                          .has_fast_link = true,
                          .sms = 132,
                          .compute_capability = 90,
                          .flops_per_s = {[SPP_DTYPE_FP32] = 67e12,
                                          [SPP_DTYPE_BF16] = 989e12,
                                          [SPP_DTYPE_FP16] = 989e12,
                                          [SPP_DTYPE_FP8] = 1979e12}};
}
__attribute__((unused)) static struct spp_gpu b200_gpu(void) {
  return (struct spp_gpu){
      .name = "b200-180gb",
      .calib = "b200",
      .memory_bytes_per_s = 7.7e12,
      .link_bytes_per_s = 900e9,
      .pcie_bytes_per_s = 63e9,
      .has_fast_link = true,
      .sms = 148,
      .compute_capability = 100,
      .flops_per_s = {[SPP_DTYPE_FP32] = 80e12, [SPP_DTYPE_BF16] = 2250e12, [SPP_DTYPE_FP16] = 2250e12}};
}
/* Eight GPUs a node on a switch, one NIC each. */
__attribute__((unused)) static struct spp_cluster switched_cluster(double nic_bytes_per_s, bool in_switch) {
  return (struct spp_cluster){.name = "test",
                              .gpus_per_node = 8,
                              .domain_gpus = 8,
                              .fabric = SPP_FABRIC_SWITCH,
                              .nics_per_node = 8,
                              .nic_bytes_per_s = nic_bytes_per_s,
                              .nic_bytes_per_s_per_gpu = nic_bytes_per_s,
                              .nic_latency_s = 17e-6,
                              .link_latency_s = 5e-6,
                              .host_bytes = INT64_C(2) << 40,
                              .host_memory_bytes_per_s = 400e9,
                              .spine_oversubscription = 1,
                              .in_switch_reduction = in_switch};
}
/* The shipped constants of a GPU; copied, so that the caller owns nothing. */
__attribute__((unused)) static struct spp_calib shipped_calib(const struct spp_gpu *gpu) {
  struct spp_cluster cluster = switched_cluster(50e9, true);
  const struct spp_calib *loaded = NULL;
  struct spp_calib copy;
  struct spp_diag diag;
  struct spp_arena arena;
  spp_arena_init(&arena);
  expect_status(spp_calib_load(SPP_SOURCE_DIR "/configs", gpu, &cluster, &arena, &loaded, &diag), SPP_OK,
                &diag);
  copy = *loaded;
  spp_arena_free(&arena);
  return copy;
}

#endif
