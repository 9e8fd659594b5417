/* Blocks that are free and serve nothing: FSDP1 and segments that do not expand. */
#include "tests/model/jobs.h"

enum { SEGMENT = 2097152 };

/* Llama-2-7B on two GPUs under FSDP1, adapters of rank 64 on all but o_proj, in bf16 throughout. */
static void open_7b(struct jobs_fixture *f, enum spp_method method, int zero, int64_t seq_tokens) {
  jobs_open(f);
  jobs_train(f, jobs_load(f, "llama2-7b"), seq_tokens);
  f->framework.sharding = SPP_SHARDING_FSDP;
  f->framework.flat_units = f->framework.gathers_on_own_stream = true;
  f->framework.optimizer_foreach = true;
  f->framework.keeps_logits_reference = true;
  f->framework.states[zero].master_bytes = 0;
  f->framework.states[zero].moment_bytes = 4;
  f->job.method = method;
  f->job.quant = SPP_QUANT_NF4_DOUBLE;
  f->job.lora_rank = 64;
  f->job.lora_targets = SPP_LORA_ALL_LINEAR & ~(unsigned)SPP_LORA_O;
  f->job.loss_path_forced = SPP_LOSS_HF_SHIFTED;
  f->job.global_batch = 2;
  f->layout.zero = zero;
  f->layout.dp = 2;
  f->layout.grad_accum = 1;
  f->layout.recompute = SPP_RECOMPUTE_FULL;
}

static void units_are_cut_on_the_gpu(void **state) {
  (void)state;
  /* a layer: 202,375,168 linear elements, norms of 8,192, adapters 64 * (3 * 8,192 + 3 * 15,104); embedding
   * and head 131,072,000 each */
  const int64_t linear = 202375168, rest = 2 * 8192 + 2 * 4472832, table = 2 * INT64_C(131072000);
  const int64_t packed = linear / 2 + rest, plain = 2 * linear + rest;
  const struct {
    enum spp_method method;
    int zero;
    int64_t bytes;
  } cases[] = {
      /* parameters, broadcast copy and flat parameter of a layer; both tables, the head's copy, both joined
       */
      {SPP_METHOD_QLORA, 3, 3 * packed + 5 * table},
      /* blocks of a layer of 413 MB serve two tables of 262 MB */
      {SPP_METHOD_LORA, 3, 3 * plain + 5 * table - 2 * table},
      /* flat parameters stay */
      {SPP_METHOD_QLORA, 0, 2 * packed + 3 * table},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct jobs_fixture f;
    open_7b(&f, cases[i].method, cases[i].zero, 512);
    jobs_predict(&f);
    expect_i64(jobs_ledger(&f, "units while they are cut", SPP_MOMENT_LOAD), cases[i].bytes);
    expect_i64(jobs_ledger(&f, "units while they are cut", SPP_MOMENT_LOSS), 0);
    f.framework.flat_units = false;
    jobs_predict(&f);
    expect_i64(jobs_ledger(&f, "units while they are cut", SPP_MOMENT_LOAD), 0);
    jobs_close(&f);
  }
}

/* AnswerDotAI/fsdp_qlora benchmarks_03_2024.md: 10.24 GiB at 512 tokens, 10.22 at 2,048 (Llama-2-7B, LoRA) */
static void short_sequences_live_in_what_the_cutting_left(void **state) {
  (void)state;
  int64_t reserved[3], pass[3];
  static const int64_t tokens[] = {256, 1024, 4096};
  for (int i = 0; i < 3; i++) {
    struct jobs_fixture f;
    open_7b(&f, SPP_METHOD_LORA, 3, tokens[i]);
    jobs_predict(&f);
    reserved[i] = f.memory.reserved_bytes;
    pass[i] = jobs_part(&f, SPP_PART_LOGITS, SPP_MOMENT_LOSS) +
              jobs_part(&f, SPP_PART_LAYER_INPUTS, SPP_MOMENT_LOSS);
    jobs_close(&f);
  }
  /* 16 bytes a logit, 32 layer inputs */
  expect_i64(pass[1] - pass[0], 768 * (INT64_C(16) * 32000 + 32 * 2 * 4096));
  expect_near((double)reserved[1], (double)reserved[0], SEGMENT);
  /* logits of 4,096 tokens take 524 MB a block: the root's flat parameter, as large, serves one */
  expect_true(reserved[2] - reserved[1] > INT64_C(1500) * 1000000);
  expect_true(reserved[2] - reserved[1] < pass[2] - pass[1]);
}

static void gathered_units_have_blocks_of_their_own(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_7b(&f, SPP_METHOD_LORA, 3, 8192);
  jobs_predict(&f);
  int64_t with = f.memory.reserved_bytes - f.memory.peak_bytes;
  f.framework.flat_units = f.framework.gathers_on_own_stream = false;
  jobs_predict(&f);
  int64_t without = f.memory.reserved_bytes - f.memory.peak_bytes;
  expect_i64(f.memory.peak_moment, SPP_MOMENT_LOSS);
  /* the second gathered layer and the list of 71,565,312 bf16 square roots; what the cutting left is used but
   * for the root's flat parameter, and the 16-bit logits of 8,192 tokens, 524,288,000 bytes, fit into that */
  const int64_t layer = 2 * INT64_C(202375168) + 2 * 8192 + 2 * 4472832, list = 2 * INT64_C(71565312);
  expect_near((double)(with - without), (double)(layer + list), SEGMENT);
  jobs_close(&f);
}

static void layer_inputs_split_blocks_of_the_mlp(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_7b(&f, SPP_METHOD_LORA, 3, 2048);
  f.framework.flat_units = f.framework.gathers_on_own_stream = false;
  jobs_predict(&f);
  int64_t reserved = f.memory.reserved_bytes;
  expect_i64(f.memory.peak_moment, SPP_MOMENT_LOSS);
  f.job.plain_segments = true;
  jobs_predict(&f);
  /* two inputs of 4,096 in a block of 11,008: 32 / 2 remainders of 2,816; two such blocks free in the loss */
  expect_i64(f.memory.reserved_bytes - reserved, INT64_C(2048) * 2 * (16 * 2816 + 2 * 11008));
  f.layout.recompute = SPP_RECOMPUTE_NONE; /* nothing is freed in the forward */
  jobs_predict(&f);
  reserved = f.memory.reserved_bytes;
  f.job.plain_segments = false;
  jobs_predict(&f);
  expect_i64(f.memory.reserved_bytes, reserved);
  jobs_close(&f);
}

static void free_blocks_never_exceed_the_card(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_7b(&f, SPP_METHOD_QLORA, 3, 16384);
  f.job.plain_segments = true;
  jobs_predict(&f);
  int64_t needed = f.memory.device_bytes - f.memory.reclaimable_bytes;
  expect_true(f.memory.reclaimable_bytes > 100 * SEGMENT);
  f.gpu.capacity_bytes = needed + 50 * (int64_t)SEGMENT;
  jobs_predict(&f);
  expect_true(f.memory.fits);
  expect_true(f.memory.device_bytes <= f.gpu.capacity_bytes);
  expect_true(f.memory.device_bytes > f.gpu.capacity_bytes - SEGMENT);
  expect_i64(f.memory.device_bytes - f.memory.reclaimable_bytes, needed);
  f.gpu.capacity_bytes = needed - 1; /* then it is what would be needed */
  jobs_predict(&f);
  expect_false(f.memory.fits);
  expect_i64(f.memory.device_bytes, needed);
  jobs_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(units_are_cut_on_the_gpu),
      cmocka_unit_test(short_sequences_live_in_what_the_cutting_left),
      cmocka_unit_test(gathered_units_have_blocks_of_their_own),
      cmocka_unit_test(layer_inputs_split_blocks_of_the_mlp),
      cmocka_unit_test(free_blocks_never_exceed_the_card),
  };
  int failed = cmocka_run_group_tests_name("memory_flat", tests, NULL, NULL);
  return failed != 0;
}
