/* GPUs and the machines they sit in. Plain bytes, bytes/s and FLOP/s; unknown figures are 0 and said so by
 * the loader. */
#ifndef SPP_MODEL_HW_H
#define SPP_MODEL_HW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

enum spp_dtype {
  SPP_DTYPE_FP32,
  SPP_DTYPE_TF32,
  SPP_DTYPE_FP16,
  SPP_DTYPE_BF16,
  SPP_DTYPE_FP8,
  SPP_DTYPE_INT8,
  SPP_DTYPE_NF4,
  SPP_DTYPE_INT64,
  SPP_DTYPE_BOOL,
  SPP_DTYPE_NVFP4, /* FP4 and an FP8 scale per 16 elements: 9/16 byte */
  SPP_DTYPE_COUNT
};
const char *spp_dtype_name(enum spp_dtype dtype);
/* Bytes of one element; NF4 and NVFP4 have no whole size: 0. */
int64_t spp_dtype_bytes(enum spp_dtype dtype);

struct spp_gpu {
  char name[48];          /* "h100-80gb" */
  char display[64];       /* "H100-80GB SXM" */
  char calib[48];         /* configs/calib file with its kernel constants; empty = datasheet ratios */
  int64_t capacity_bytes; /* what the driver lets a process see (torch total_memory) */
  int64_t nominal_bytes;
  double memory_bytes_per_s;
  double flops_per_s[SPP_DTYPE_COUNT]; /* dense peak; 0 = not supported */
  double link_bytes_per_s;             /* GPU-to-GPU, one direction: NVLink/xGMI, else PCIe */
  double pcie_bytes_per_s;             /* host link, one direction */
  double power_w;                      /* board power limit; 0 = unknown */
  bool has_fast_link;                  /* NVLink, xGMI, HCCS */
  int sms;
  int compute_capability; /* 90 = sm_90; 0 for others */
  double usd_per_hour;    /* 0 = unknown */
  char default_cluster[48];
};

/* Networks above the one between nodes: units of `gpus` GPUs with all their bandwidth inside, and less
 * between them. */
enum { SPP_MAX_NETWORK_LEVELS = 4 };
struct spp_network_level {
  char name[32];           /* of the unit: "rail group", "pod" */
  int64_t gpus;            /* in one unit; each level's a multiple of the level below */
  double oversubscription; /* bandwidth into a unit over bandwidth out of it, 1 or more */
  double latency_s;        /* what a message between units takes longer */
};

enum spp_fabric { SPP_FABRIC_SWITCH, SPP_FABRIC_PAIRS, SPP_FABRIC_PCIE };
struct spp_cluster {
  char name[48];
  char display[96];
  int64_t gpus_per_node; /* NVLink domain that shares host memory; NVL72 counts domain_gpus apart */
  int64_t domain_gpus;   /* GPUs that reach each other over the fast fabric */
  enum spp_fabric
      fabric; /* pairs: bridged twos, PCIe between them; pcie: the bridges a card could have are not there */
  double link_bytes_per_s; /* what a pair of peers reaches on this machine; 0 = the GPU's own link (PCIe: its
                              PCIe) */
  int64_t nics_per_node;
  double nic_bytes_per_s;         /* one NIC, one direction */
  double nic_bytes_per_s_per_gpu; /* share of one GPU when all send */
  double nic_latency_s, link_latency_s;
  int64_t host_bytes; /* RAM of a node usable for offload */
  double host_memory_bytes_per_s;
  double spine_oversubscription;                           /* 1 = full bisection */
  bool in_switch_reduction;                                /* NVLS / SHARP inside the domain */
  struct spp_network_level levels[SPP_MAX_NETWORK_LEVELS]; /* narrow to wide */
  int level_count;
  /* That the ranks of a node share, less than 1 where nodes share one; 0 = each rank has its own. */
  double processors_per_node;
  const char *profile; /* the file, when it is a measured profile: device and constants in it; else NULL */
};

enum spp_status spp_gpu_load(const char *config_dir, const char *name, struct spp_arena *arena,
                             const struct spp_gpu **gpu, struct spp_diag *diag);
/* `name` may be a name in configs/clusters or a file. NULL or "" = the GPU's default cluster; only then is
 * `gpu` read. */
enum spp_status spp_cluster_load(const char *config_dir, const char *name, const struct spp_gpu *gpu,
                                 struct spp_arena *arena, const struct spp_cluster **cluster,
                                 struct spp_diag *diag);
/* The device that a measured profile was measured on; *gpu is NULL when the cluster is no profile. */
enum spp_status spp_cluster_device(const struct spp_cluster *cluster, struct spp_arena *arena,
                                   const struct spp_gpu **gpu, struct spp_diag *diag);
enum spp_status spp_gpu_list(const char *config_dir, struct spp_arena *arena, const char *const **names,
                             int *count, struct spp_diag *diag);
enum spp_status spp_cluster_list(const char *config_dir, struct spp_arena *arena, const char *const **names,
                                 int *count, struct spp_diag *diag);
#endif
