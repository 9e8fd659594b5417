/* Small models, plain frameworks and complete jobs for the tests of the model: everything by hand, so that a
 * test says what it depends on. */
#ifndef SPP_TESTS_MODEL_JOBS_H
#define SPP_TESTS_MODEL_JOBS_H

#include "tests/expect.h"

#include "base/arena.h"
#include "base/num.h"
#include "model/geometry.h"
#include "model/memory.h"

#define JOBS_UNUSED __attribute__((unused))

struct jobs_fixture {
  struct spp_arena arena;
  struct spp_framework framework;
  struct spp_gpu gpu;
  struct spp_cluster cluster;
  struct spp_job job;
  struct spp_layout layout;
  struct spp_geometry geometry;
  struct spp_memory memory;
  struct spp_ledger ledger;
};

/* hidden 64, MLP 160, 2 layers, 8 query and 2 KV heads of 16, vocabulary 256. */
#define JOBS_TINY_SHAPE                                                                                      \
  "\"hidden_size\":64,\"intermediate_size\":160,\"num_hidden_layers\":2,\"num_attention_heads\":8,"          \
  "\"vocab_size\":256,\"tie_word_embeddings\":false,\"max_position_embeddings\":4096"
#define JOBS_TINY "{\"model_type\":\"qwen2\",\"num_key_value_heads\":2,\"head_dim\":16," JOBS_TINY_SHAPE "}"
#define JOBS_TINY_QK                                                                                         \
  "{\"model_type\":\"qwen3\",\"num_key_value_heads\":2,\"head_dim\":16," JOBS_TINY_SHAPE "}"
#define JOBS_TINY_MLA                                                                                        \
  "{\"model_type\":\"deepseek_v3\",\"q_lora_rank\":48,\"kv_lora_rank\":32,\"qk_nope_head_dim\":16,"          \
  "\"qk_rope_head_dim\":8,\"v_head_dim\":16,\"num_key_value_heads\":8,\"n_routed_experts\":4,"               \
  "\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,\"n_shared_experts\":1,\"first_k_dense_replace\":" \
  "2,"                                                                                                       \
  "\"num_nextn_predict_layers\":0," JOBS_TINY_SHAPE "}"
#define JOBS_TINY_MOE                                                                                        \
  "{\"model_type\":\"mixtral\",\"num_key_value_heads\":2,\"head_dim\":16,\"num_local_experts\":4,"           \
  "\"num_experts_per_tok\":2," JOBS_TINY_SHAPE "}"

JOBS_UNUSED static const struct spp_arch *jobs_parse(struct jobs_fixture *f, const char *text) {
  struct spp_diag diag = {0};
  const struct spp_arch *arch = NULL;
  expect_status(spp_arch_parse(text, strlen(text), "test", &f->arena, &arch, &diag), SPP_OK, &diag);
  return arch;
}

JOBS_UNUSED static const struct spp_arch *jobs_load(struct jobs_fixture *f, const char *name) {
  struct spp_diag diag = {0};
  const struct spp_arch *arch = NULL;
  expect_status(spp_arch_load(SPP_SOURCE_DIR "/configs", name, &f->arena, &arch, &diag), SPP_OK, &diag);
  return arch;
}

/* bf16 weights, fp32 master and moments, nothing sharded, no fixed costs, no slack. */
JOBS_UNUSED static struct spp_framework jobs_framework(void) {
  struct spp_framework f;
  memset(&f, 0, sizeof f);
  f.trains = true;
  f.vocab_multiple = 1;
  f.allocator_factor = 1.0;
  f.bucket_copies = 1;
  f.pad_ulysses = f.pad_ring = 1;
  f.dp_shard_includes_sp = true;
  f.optimizer_fused = true;
  f.memory_sigma = 0.05;
  for (int z = 0; z < 4; z++)
    f.states[z] = (struct spp_states){.weight_bytes = 2,
                                      .gather_bytes = 2,
                                      .grad_bytes = 2,
                                      .master_bytes = 4,
                                      .moment_bytes = 8,
                                      .shard_weights = z >= 3,
                                      .shard_grads = z >= 2,
                                      .shard_optimizer = z >= 1,
                                      .supported = true};
  return f;
}

JOBS_UNUSED static void jobs_open(struct jobs_fixture *f) {
  memset(f, 0, sizeof *f);
  spp_arena_init(&f->arena);
  f->framework = jobs_framework();
  f->gpu.capacity_bytes = INT64_C(85) * 1000000000;
  f->gpu.compute_capability = 90;
  f->cluster.gpus_per_node = 8;
  f->cluster.host_bytes = INT64_C(2000) * 1000000000;
}
JOBS_UNUSED static void jobs_close(struct jobs_fixture *f) {
  spp_arena_free(&f->arena);
}

/* Full fine-tune of `arch` in bf16 with FlashAttention-2 and eager kernels; one GPU, one sequence. */
JOBS_UNUSED static void jobs_train(struct jobs_fixture *f, const struct spp_arch *arch, int64_t seq_tokens) {
  struct spp_job *j = &f->job;
  memset(j, 0, sizeof *j);
  j->arch = arch;
  j->gpu = &f->gpu;
  j->cluster = &f->cluster;
  j->framework = &f->framework;
  j->gpus = j->global_batch = 1;
  j->seq_tokens = seq_tokens;
  j->mode = SPP_MODE_TRAIN;
  j->method = SPP_METHOD_FULL;
  j->dtype = j->kv_dtype = SPP_DTYPE_BF16;
  j->attention = SPP_ATTN_FA2;
  j->kernels = SPP_KERNELS_EAGER;
  j->loss_path_forced = SPP_LOSS_HF_FULL;
  j->lora_rank = 8;
  j->lora_targets = SPP_LORA_ALL_LINEAR;
  j->galore_rank = 128;
  j->overlap = j->grads_bytes = j->fp8_params = SPP_UNSET;
  j->bucket_elements = SPP_UNSET;
  f->layout = spp_layout_plain();
  f->layout.grad_accum = 2;
}

/* Counts, geometry and memory of what the fixture says. */
JOBS_UNUSED static void jobs_predict(struct jobs_fixture *f) {
  bool adapters = f->job.method == SPP_METHOD_LORA || f->job.method == SPP_METHOD_QLORA;
  f->job.gpus = spp_layout_world(&f->layout);
  spp_job_widths(&f->job);
  spp_params_count(f->job.arch, &f->job.params);
  spp_model_sums_count(f->job.arch, adapters ? f->job.lora_targets : 0, &f->job.sums);
  if (f->job.framework->joined_adapters) spp_model_sums_join(&f->job.sums);
  spp_geometry_resolve(&f->job, &f->layout, &f->geometry);
  spp_memory_predict(&f->job, &f->layout, &f->geometry, &f->ledger, &f->memory);
}

/* Bytes of the ledger lines of one tensor that are alive at a moment. */
JOBS_UNUSED static int64_t jobs_ledger(const struct jobs_fixture *f, const char *name,
                                       enum spp_moment moment) {
  int64_t bytes = 0;
  for (int i = 0; i < f->ledger.count; i++) {
    const struct spp_ledger_entry *e = &f->ledger.entries[i];
    if ((e->live & SPP_LIVE(moment)) && strcmp(e->tensor->name, name) == 0) bytes += e->bytes;
  }
  return bytes;
}
/* Same over one part. */
JOBS_UNUSED static int64_t jobs_part(const struct jobs_fixture *f, enum spp_part part,
                                     enum spp_moment moment) {
  int64_t bytes = 0;
  for (int i = 0; i < f->ledger.count; i++) {
    const struct spp_ledger_entry *e = &f->ledger.entries[i];
    if ((e->live & SPP_LIVE(moment)) && e->tensor->part == part) bytes += e->bytes;
  }
  return bytes;
}

#endif
