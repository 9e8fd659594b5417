/* A job on machines of timing_machines.h, its layouts and what their steps take. */
#ifndef SPP_TESTS_TIMING_BENCH_H
#define SPP_TESTS_TIMING_BENCH_H

#include <string.h>

#include "model/predict.h"
#include "tests/model/timing_machines.h"

#define CONFIGS SPP_SOURCE_DIR "/configs"

/* A job on hand-made hardware with shipped frameworks; everything is copied, so that a test may bend any
 * constant. */
struct bench {
  struct spp_arena arena;
  struct spp_gpu gpu;
  struct spp_cluster cluster;
  struct spp_calib calib;
  struct spp_framework framework;
  struct spp_arch arch;
  struct spp_job job;
};
struct result {
  struct spp_geometry geometry;
  struct spp_comm comm;
  struct spp_time time;
};

static inline void bench_open(struct bench *b, const char *framework, int64_t gpus, int64_t seq,
                              int64_t batch) {
  struct spp_diag diag;
  const struct spp_framework *f = NULL;
  memset(b, 0, sizeof *b);
  spp_arena_init(&b->arena);
  b->gpu = h100_gpu();
  b->cluster = switched_cluster(50e9, true);
  b->calib = shipped_calib(&b->gpu);
  expect_status(spp_framework_load(CONFIGS, framework, &b->arena, &f, &diag), SPP_OK, &diag);
  b->framework = *f;
  b->job.gpus = gpus;
  b->job.seq_tokens = seq;
  b->job.global_batch = batch;
}

static inline void bench_job(struct bench *b) {
  struct spp_diag diag;
  struct spp_job_spec spec;
  spp_job_spec_clear(&spec);
  spec.arch = &b->arch;
  spec.gpu = &b->gpu;
  spec.cluster = &b->cluster;
  spec.calib = &b->calib;
  spec.gpus = b->job.gpus;
  spec.seq_tokens = b->job.seq_tokens;
  spec.global_batch = b->job.global_batch;
  expect_status(spp_job_resolve(&spec, &b->framework, &b->job, &diag), SPP_OK, &diag);
}

static inline void bench_model(struct bench *b, const char *name) {
  struct spp_diag diag;
  const struct spp_arch *arch = NULL;
  expect_status(spp_arch_load(CONFIGS, name, &b->arena, &arch, &diag), SPP_OK, &diag);
  b->arch = *arch;
  bench_job(b);
}

static inline void bench_close(struct bench *b) {
  spp_arena_free(&b->arena);
}

static inline struct spp_request request_of(int64_t tp, int64_t pp, int64_t ulysses, int64_t ring) {
  struct spp_request r;
  spp_request_clear(&r);
  r.tp = tp;
  r.pp = pp;
  r.ulysses = ulysses;
  r.ring = ring;
  r.micro_batch = 1;
  return r;
}

static inline struct spp_layout layout_of(const struct bench *b, const struct spp_request *request) {
  struct spp_layout layout;
  struct spp_diag diag;
  expect_status(spp_layout_complete(&b->job, request, &layout, &diag), SPP_OK, &diag);
  return layout;
}

static inline struct result run(const struct bench *b, const struct spp_layout *layout) {
  struct result r;
  spp_geometry_resolve(&b->job, layout, &r.geometry);
  spp_comm_predict(&b->job, layout, &r.geometry, &r.comm);
  spp_timing_predict(&b->job, layout, &r.geometry, &r.comm, &r.time);
  return r;
}

static inline double parts_sum(const struct spp_time *t) {
  return t->compute_s + t->attention_s + t->sp_exposed_s + t->tp_exposed_s + t->pp_bubble_s +
         t->pp_exposed_s + t->dp_exposed_s + t->ep_exposed_s + t->offload_exposed_s + t->optimizer_s +
         t->host_s;
}

/* Only products and attention cost anything, at given rates; no latencies, no host, memory for nothing. */
static inline void make_ideal(struct bench *b, double flops_per_s) {
  struct spp_calib *c = &b->calib;
  memset(c, 0, sizeof *c);
  b->gpu.flops_per_s[SPP_DTYPE_BF16] = flops_per_s;
  c->gemm = (struct spp_gemm_fit){.efficiency = 1};
  c->sustained = c->clock_share = c->wgrad_ratio = c->dgrad_ratio = c->grouped_gemm_ratio = 1;
  c->gemm_fp8 = c->gemm;
  for (int i = 0; i < SPP_ATTN_IMPL_COUNT; i++)
    for (int w = 0; w < 2; w++)
      c->attention[i][w].forward.efficiency = c->attention[i][w].backward.efficiency = 1;
  for (int op = 0; op < SPP_COLLECTIVE_COUNT; op++)
    c->link[op].link_share = c->network[op].link_share = c->pcie[op].link_share = 1;
  b->cluster.nic_latency_s = 1e-15;
  b->framework.host_s_per_layer = b->framework.host_s_per_step = b->framework.comm_sm_slowdown = 0;
  b->framework.nccl_channels = 0;
}

/* 8 layers, MHA with head width 128 unless kv says less; a tiny vocabulary, so that stages are equal. */
static inline void synthetic_model(struct bench *b, int64_t hidden, int64_t heads, int64_t kv_heads) {
  char text[640];
  struct spp_diag diag;
  const struct spp_arch *arch = NULL;
  snprintf(text, sizeof text,
           "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"num_hidden_layers\":8,"
           "\"hidden_size\":%d,"
           "\"intermediate_size\":%d,\"num_attention_heads\":%d,\"num_key_value_heads\":%d,\"head_dim\":128,"
           "\"vocab_size\":8,"
           "\"tie_word_embeddings\":false,\"rms_norm_eps\":1e-5,\"hidden_act\":\"silu\",\"max_position_"
           "embeddings\":4096}",
           (int)hidden, (int)(4 * hidden), (int)heads, (int)kv_heads);
  expect_status(spp_arch_parse(text, strlen(text), "synthetic", &b->arena, &arch, &diag), SPP_OK, &diag);
  b->arch = *arch;
  bench_job(b);
}

#endif
