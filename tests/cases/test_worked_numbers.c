/* Hand-worked numbers of the formulas over shipped models and framework files, where no test of one file
 * holds them: bytes a parameter by regime, buckets, widths, crossovers. Sources: docs/memory.md and the files
 * named in each row. */
#include <stdlib.h>

#include "base/num.h"
#include "model/memory_parts.h"
#include "model/nccl.h"
#include "model/states.h"
#include "tests/cases/job_text.h"

/* ---- bytes a parameter ---- */

static const double llama = 8030261248.0;

/* Weights, gradients, fp32 master and moments that stay, d = 8, and what the step makes beside them. Sources:
 * NVIDIA/Megatron-LM docs/user-guide/features/dist_optimizer.md; deepspeedai/DeepSpeed
 * runtime/zero/stage_1_and_2.py and its estimators; huggingface/accelerate utils/fsdp_utils.py; torch AdamW,
 * whose states take the parameter's type. */
static const struct {
  const char *job;
  double resident, step;
} regimes[] = {
    {"framework=megatron-lm zero=0", 18, 18},
    {"framework=megatron-lm zero=1", 6 + 12 / 8.0, 6 + 12 / 8.0},
    {"framework=megatron-lm zero=0 dtype=fp16", 16, 20},
    {"framework=megatron-lm zero=1 dtype=fp16", 4 + 12 / 8.0, 4 + 16 / 8.0},
    {"framework=megatron-lm zero=0 dtype=fp32", 16, 16},
    {"framework=megatron-lm zero=1 dtype=fp32", 8 + 8 / 8.0, 8 + 8 / 8.0},
    {"framework=deepspeed zero=1", 4 + 12 / 8.0, 4 + 16 / 8.0},
    /* the estimator says 2 + 18/8; the gradients that are joined for the cast are 2 more */
    {"framework=deepspeed zero=2", 2 + 14 / 8.0, 2 + 20 / 8.0},
    {"framework=deepspeed zero=3", 16 / 8.0, 22 / 8.0},
    {"framework=deepspeed zero=2 offload=optimizer", 2, 2},
    {"framework=deepspeed zero=2 dtype=fp32", 4 + 16 / 8.0,
     4 + 22 / 8.0}, /* the partition is a clone all the same */
    {"framework=fsdp2 zero=3", 16 / 8.0, 16 / 8.0},
    {"framework=torchtitan zero=3", 16 / 8.0, 16 / 8.0},
    {"framework=ms-swift zero=0", 8, 8},
    {"framework=ms-swift zero=0 dtype=fp32", 16, 16},
};

/* Megatron's placeholders of fused accumulation, a matrix of each shape, are gradients too: under 0.11 bytes.
 */
static void every_regime_keeps_its_bytes_a_parameter(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof regimes / sizeof regimes[0]; i++) {
    char line[160];
    snprintf(line, sizeof line, "model=llama3.1-8b seq=1024 gpus=8 %s", regimes[i].job);
    struct text_job *t = text_job_run(line, 0);
    const int64_t *r = t->prediction.memory.resident;
    double bytes =
        (double)(r[SPP_PART_WEIGHTS] + r[SPP_PART_GRADIENTS] + r[SPP_PART_MASTER] + r[SPP_PART_OPTIMIZER]);
    expect_note("%s", line);
    expect_str(t->violation.rule, "");
    expect_near(bytes / llama, regimes[i].resident, 0.11);
    struct spp_states s = spp_states_in_dtype(&t->job, t->layout.zero);
    double extra = spp_offload_optimizer(t->layout.offload) ? 0 : s.step_extra_bytes;
    expect_near(regimes[i].resident + extra / (s.shard_optimizer ? 8 : 1), regimes[i].step, 1e-9);
    text_job_free(t);
  }
}

/* deepspeedai/DeepSpeed reduce_bucket_size 5e8 elements of 2 B; modelscope/ms-swift swift/config/zero2.json
 * 2e8. */
static void zero_buckets_are_those_of_the_configuration(void **state) {
  static const struct {
    const char *framework;
    int64_t bytes;
  } rows[] = {{"deepspeed", 1000000000}, {"ms-swift", 400000000}};
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    char line[128];
    snprintf(line, sizeof line, "model=llama3.1-8b seq=1024 gpus=8 zero=2 framework=%s", rows[i].framework);
    struct text_job *t = text_job_run(line, 0);
    expect_note("%s", line);
    expect_i64(2 * t->framework->reduce_bucket_elements, rows[i].bytes);
    text_job_free(t);
  }
}

/* 4 bits and an fp32 scale per 64: 0.5625 bytes; scales in 8 bits, fp32 per 256 of them: 0.515869140625 and
 * one mean (bitsandbytes/functional.py quantize_4bit). */
static void nf4_tends_to_its_bytes_an_element(void **state) {
  (void)state;
  const double n = 65536.0 * 16384;
  expect_rel((double)spp_quant_bytes(SPP_QUANT_NF4, 65536, 16384) / n, 0.5625, 0);
  expect_rel(((double)spp_quant_bytes(SPP_QUANT_NF4_DOUBLE, 65536, 16384) - 4) / n, 0.515869140625, 0);
}

/* 4 x 4,096 x 11,008, which GaLore's 6,684,672 stands against. */
static void moments_in_16_bits_take_four_bytes_an_element(void **state) {
  (void)state;
  struct spp_job job = {.method = SPP_METHOD_FULL, .optimizer = SPP_OPTIMIZER_ADAMW_BF16};
  expect_i64(spp_optimizer_bytes(&job, 8, 4096, 11008, true), 180355072);
}

/* ---- what Megatron's own estimate leaves out ---- */

static int64_t elements_named(const struct spp_arch *arch, const char *part) {
  int64_t elements = 0;
  for (int k = 0; k < arch->kind_count; k++)
    for (int w = 0; w < arch->kinds[k].weight_count; w++) {
      const struct spp_weight *weight = &arch->kinds[k].weights[w];
      if (strstr(weight->name, part))
        elements += arch->kinds[k].count * weight->copies * weight->rows * weight->cols;
    }
  return elements;
}

/* NVIDIA/Megatron-LM training/theoretical_memory_usage.py has no biases of q, k, v and no norms of q and k:
 * 28 x (3,584 + 2 x 512) and 36 x 2 x 128. */
static void biases_and_norms_of_heads_are_counted(void **state) {
  (void)state;
  struct text_job *qwen2 = text_job_run("model=qwen2.5-7b framework=ms-swift seq=1024 gpus=1", 0);
  struct text_job *qwen3 = text_job_run("model=qwen3-8b framework=ms-swift seq=1024 gpus=1", 0);
  expect_i64(elements_named(qwen2->job.arch, ".bias"), 129024);
  expect_i64(elements_named(qwen3->job.arch, "q_norm") + elements_named(qwen3->job.arch, "k_norm"), 9216);
  text_job_free(qwen2);
  text_job_free(qwen3);
}

/* ---- activations ---- */

/* Korthikanti et al.: 34 s b h a layer with i = 4h, MHA and GeLU, 2 of them dropout masks, which we train
 * without; per token two LayerNorms' statistics (8 B each) and the log-sum-exp of 96 heads (4 B) beside them.
 */
static void a_gpt_layer_keeps_thirty_two_bytes_a_hidden_unit(void **state) {
  (void)state;
  struct text_job *t =
      text_job_run("model=gpt3-175b framework=megatron-lm seq=2048 gpus=1 recompute=none micro_batch=1", 0);
  int64_t hidden = t->job.arch->hidden;
  expect_i64(hidden, 12288);
  expect_rel((double)t->prediction.memory.kept_bytes[0] / 2048 / (double)hidden, 32, 0.003);
  text_job_free(t);
}

/* ---- what travels ---- */

/* DeepSeek-V3 in a ring: K of 128 x (128 + 64) and V of 128 x 128 elements a token, 71 times the latent's
 * 576. */
static void a_ring_carries_expanded_latent_heads(void **state) {
  (void)state;
  struct text_job *t =
      text_job_run("model=deepseek-v3 framework=megatron-lm seq=8192 gpus=2 sp_kind=ring ring=2 "
                   "attention=fa3 micro_batch=1",
                   0);
  const struct spp_geometry *g = &t->prediction.geometry;
  expect_i64(g->k_width + g->v_width, 40960);
  expect_i64((g->k_width + g->v_width) / (t->job.arch->kv_lora_rank + t->job.arch->qk_rope_dim), 71);
  expect_i64(g->ring_block_bytes, 2 * g->tokens * 40960);
  text_job_free(t);
}

static int64_t forward_elements(const char *kind, int64_t n) {
  char line[160];
  snprintf(line, sizeof line,
           "model=llama3.1-8b framework=megatron-lm seq=65536 gpus=%d sp_kind=%s %s=%d micro_batch=1", (int)n,
           kind, kind, (int)n);
  struct text_job *t = text_job_run(line, 0);
  const struct spp_comm *comm = &t->prediction.comm;
  expect_note("%s", line);
  expect_str(t->violation.rule, "");
  int64_t bytes = comm->layer_forward_bytes[SPP_GROUP_ULYSSES] + comm->layer_forward_bytes[SPP_GROUP_RING];
  int64_t each = bytes / (2 * t->prediction.geometry.tokens);
  text_job_free(t);
  return each;
}

/* Llama-3.1-8B, dq/dk = 4: Ulysses sends less from more than 5 ranks on. (n-1)/n x (2 x 4096 + 2 x 1024)
 * against (n-1) x 2 x 1024 elements a token. */
static void ulysses_sends_less_than_the_ring_beyond_one_plus_the_ratio_of_widths(void **state) {
  (void)state;
  expect_i64(forward_elements("ulysses", 4), 7680);
  expect_i64(forward_elements("ring", 4), 6144);
  expect_i64(forward_elements("ulysses", 8), 8960);
  expect_i64(forward_elements("ring", 8), 14336);
}

/* Qwen2.5-7B at 32k, 8 = 4 x 2: all-to-all 50,331,648 each way and a ring block of 8,388,608: one forward;
 * backward six for ms-swift, which runs the forward again and sends fp32 gradients, two for
 * TransformerEngine. */
static void hybrids_send_both_parts(void **state) {
  static const struct {
    const char *job;
    int64_t forward, backward;
  } rows[] = {{"framework=ms-swift sp=8 packing=true", 58720256, 100663296},
              {"framework=megatron-lm sp_kind=hybrid ulysses=4 ring=2", 58720256, 67108864}};
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    char line[160];
    snprintf(line, sizeof line, "model=qwen2.5-7b seq=32768 gpus=8 micro_batch=1 %s", rows[i].job);
    struct text_job *t = text_job_run(line, 0);
    const struct spp_comm *comm = &t->prediction.comm;
    expect_note("%s", line);
    expect_str(t->violation.rule, "");
    expect_i64(comm->layer_forward_bytes[SPP_GROUP_ULYSSES] + comm->layer_forward_bytes[SPP_GROUP_RING],
               rows[i].forward);
    expect_i64(comm->layer_backward_bytes[SPP_GROUP_ULYSSES] + comm->layer_backward_bytes[SPP_GROUP_RING],
               rows[i].backward);
    text_job_free(t);
  }
}

/* NVIDIA/nccl src/init.cc: LL 8 x 512 x 8 x 16, LL128 120 x 640 x 8 x 8 and 4 MiB (SIMPLE) a connection, a
 * header, in pieces of 2 MiB. */
static void a_connection_holds_the_buffers_of_three_protocols(void **state) {
  (void)state;
  int64_t ll = 8 * 512 * 8 * 16, ll128 = 120 * 640 * 8 * 8, simple = 4194304;
  expect_i64(ll, 524288);
  expect_i64(ll128, 4915200);
  expect_i64(ll + ll128 + simple, 9633792);
  /* received: all three; sent: the header; in a pair over one channel, with tables and a pool of a channel */
  struct spp_framework framework = {.nccl_channels = 1};
  struct spp_nccl nccl = {.framework = &framework};
  struct spp_placement pair = {.ranks = 2, .local = 2, .domains = 1, .fast = true};
  int64_t piece = 2 << 20, received = spp_round_up(ll + ll128 + simple + 4096, piece);
  expect_i64(spp_nccl_communicator_bytes(&nccl, &pair, SPP_NCCL_RING), received + piece + 2 * piece);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_regime_keeps_its_bytes_a_parameter),
      cmocka_unit_test(zero_buckets_are_those_of_the_configuration),
      cmocka_unit_test(nf4_tends_to_its_bytes_an_element),
      cmocka_unit_test(moments_in_16_bits_take_four_bytes_an_element),
      cmocka_unit_test(biases_and_norms_of_heads_are_counted),
      cmocka_unit_test(a_gpt_layer_keeps_thirty_two_bytes_a_hidden_unit),
      cmocka_unit_test(a_ring_carries_expanded_latent_heads),
      cmocka_unit_test(ulysses_sends_less_than_the_ring_beyond_one_plus_the_ratio_of_widths),
      cmocka_unit_test(hybrids_send_both_parts),
      cmocka_unit_test(a_connection_holds_the_buffers_of_three_protocols),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
