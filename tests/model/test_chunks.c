/* Sequences that pass a layer in chunks (FPDT): what stays on the GPU, what waits in host memory, what it
 * costs. Expected bytes are those of the tensors in deepspeed 0.19.8 sequence/fpdt_layer.py, added up by
 * hand. */
#include "model/predict.h"
#include "model/timing_internal.h"
#include "tests/model/timing_machines.h"
#include "tests/model/tiny.h"

enum { CHUNK = 8, ALL = DQ + 2 * DK }; /* of T = 32 tokens; widths of q, k and v */

static void open_chunks(struct jobs_fixture *f, int64_t seq, int64_t chunk, bool offload) {
  open_tiny(f);
  f->job.seq_tokens = seq;
  f->layout.fpdt_chunk = chunk;
  f->layout.fpdt_offload = offload;
  jobs_predict(f);
}

static void chunks_cut_the_tokens_of_a_rank(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_chunks(&f, T, CHUNK, true);
  expect_i64(f.geometry.pieces, 4);
  expect_i64(f.geometry.piece_tokens, 8);
  f.layout.fpdt_chunk = 0;
  jobs_predict(&f);
  expect_i64(f.geometry.pieces, 1);
  expect_i64(f.geometry.piece_tokens, T);
  jobs_close(&f);
}

/* Of the norm's output, q, k, v, the output and its log-sum-exp only o_proj's input is left. */
static void a_parked_layer_keeps_what_o_proj_reads(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_chunks(&f, T, CHUNK, true);
  expect_i64(f.memory.checkpoint_bytes[0], T * (14 * H + 2 * DQ + 8 * I + 8));
  expect_i64(kept(&f, SPP_MOMENT_LOSS), 2 * T * (14 * H + 2 * DQ + 8 * I + 8));
  f.layout.fpdt_offload = false;
  jobs_predict(&f);
  expect_i64(f.memory.checkpoint_bytes[0], TINY_KEPT);
  jobs_close(&f);
}

static void backward_holds_the_blocks_at_work_or_joins_its_gradient(void **state) {
  (void)state;
  struct jobs_fixture f;
  const enum spp_moment attention = SPP_MOMENT_BACKWARD_ATTENTION;
  open_chunks(&f, T, CHUNK, true);
  int64_t always = 2 * T * H                       /* gradient of the residual stream */
                   + 2 * T * DQ                    /* of the output, whole */
                   + 2 * T * H                     /* of the layer's input, chunk by chunk */
                   + 4 * ALL * H;                  /* of the weights, fp32 */
  int64_t blocks = 2 * CHUNK * ALL                 /* dq, dk, dv of a block */
                   + 4 * CHUNK * DQ                /* flash: fp32 dq */
                   + 4 * CHUNK * DQ                /* dk, dv over all query heads */
                   + 12 * CHUNK * NQ               /* two log-sum-exps and the row sums */
                   + 12 * CHUNK * DQ               /* three fp32 dq */
                   + 8 * CHUNK * DK                /* fp32 dk, dv */
                   + 4 * CHUNK * (3 * DQ + 2 * DK) /* q, output, its gradient, k, v: two of each */
                   + 2 * DQ * H;                   /* a product for the weights */
  expect_i64(jobs_part(&f, SPP_PART_TRANSIENT, attention), always + blocks);
  jobs_close(&f);
  open_chunks(&f, 4096, 64, true); /* 64 chunks: the joined gradient outweighs them */
  expect_i64(jobs_ledger(&f, "gradient of the layer input", attention), 2 * 4096 * H);
  expect_i64(jobs_ledger(&f, "fp32 dq of chunks", attention), 0);
  expect_i64(jobs_ledger(&f, "gradient of the attention output", attention), 2 * 4096 * DQ);
  jobs_close(&f);
}

static void chunks_that_stay_have_their_gradients_whole_in_fp32(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_chunks(&f, T, CHUNK, false);
  expect_i64(jobs_ledger(&f, "fp32 dq, dk, dv of all chunks", SPP_MOMENT_BACKWARD_ATTENTION), 4 * T * ALL);
  expect_i64(jobs_ledger(&f, "fp32 dq of chunks", SPP_MOMENT_BACKWARD_ATTENTION), 0);
  expect_i64(f.memory.host_bytes_per_node, 0);
  jobs_close(&f);
}

/* Each buffer is rounded up to a power of two: 7 tokens take what 8 take. */
static void what_waits_is_in_host_memory(void **state) {
  (void)state;
  struct jobs_fixture f;
  const int64_t forward = CHUNK * (2 * H + 2 * DQ + 4 * DK + 2 * DQ + 4 * NQ),
                backward = CHUNK * (4 * DQ + 2 * DQ);
  for (int64_t chunk = 7; chunk <= 8; chunk++) {
    open_chunks(&f, 4 * chunk, chunk, true);
    expect_i64(f.memory.host_bytes_per_node, 4 * (2 * forward + backward)); /* both layers wait */
    f.layout.recompute = SPP_RECOMPUTE_FULL;
    jobs_predict(&f);
    expect_i64(f.memory.host_bytes_per_node, 4 * (forward + backward));
    f.job.loss_path_forced = SPP_UNSET; /* its own loss keeps the head's input there */
    jobs_predict(&f);
    expect_i64(f.geometry.loss_path, SPP_LOSS_FPDT);
    expect_i64(f.memory.host_bytes_per_node, 4 * (forward + backward) + 4 * chunk * 2 * H);
    jobs_close(&f);
  }
}

/* FPDT_FFN has two matrices: a gated MLP stays whole unless the framework's file says otherwise. */
static void a_plain_mlp_is_chunked_and_a_gated_one_is_not(void **state) {
  (void)state;
  struct jobs_fixture f;
  const enum spp_moment mlp = SPP_MOMENT_BACKWARD_MLP;
  open_chunks(&f, T, CHUNK, true);
  expect_i64(jobs_part(&f, SPP_PART_TRANSIENT, mlp), 2 * T * H + 4 * T * I);
  struct spp_arch plain = *f.job.arch;
  plain.mlp = SPP_MLP_PLAIN;
  f.job.arch = &plain;
  jobs_predict(&f);
  expect_i64(jobs_part(&f, SPP_PART_TRANSIENT, mlp), 2 * T * H + 14 * CHUNK * I + 8 * I * H + 2 * I * H);
  expect_i64(f.memory.checkpoint_bytes[0], T * (14 * H + 2 * DQ + 8));
  /* the gradient is in the norm's output: nothing of it is left beside the norm's backward */
  int64_t norm = jobs_ledger(&f, "post-attention norm: output", SPP_MOMENT_BACKWARD_NORM);
  expect_i64(norm,
             jobs_ledger(&f, "post-attention norm: output", SPP_MOMENT_LOSS) / 2); /* the other layer's */
  jobs_close(&f);
}

/* DeepSpeed's cpu_checkpointing copies each input to the host before its layer runs. */
static void deepspeeds_checkpoints_leave_the_running_layers_input_alone(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_chunks(&f, T, CHUNK, true);
  f.layout.recompute = SPP_RECOMPUTE_FULL;
  f.layout.offload = SPP_OFFLOAD_ACTIVATIONS;
  jobs_predict(&f);
  expect_i64(jobs_part(&f, SPP_PART_LAYER_INPUTS, SPP_MOMENT_LOSS), 2 * 2 * T * H);
  f.framework.offloads_all_inputs = true;
  jobs_predict(&f);
  expect_i64(jobs_part(&f, SPP_PART_LAYER_INPUTS, SPP_MOMENT_LOSS), 0);
  expect_i64(jobs_part(&f, SPP_PART_LAYER_INPUTS, SPP_MOMENT_BACKWARD_ATTENTION), 2 * T * H);
  jobs_close(&f);
}

/* Backward: two lists of hidden gradients; fp32 logits, softmax and a 16-bit gradient of a chunk, one of 2 x
 * 256 / 64; the head's gradient in fp32. The final norm's output is in host memory. */
static void the_loss_works_on_a_chunk_and_leaves_the_head_input(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_chunks(&f, T, CHUNK, true);
  f.job.loss_path_forced = SPP_UNSET;
  jobs_predict(&f);
  expect_i64(jobs_part(&f, SPP_PART_LOGITS, SPP_MOMENT_LOSS), 4 * T * H + 10 * (T / 8) * 256 + 4 * 256 * H);
  expect_i64(jobs_ledger(&f, "final norm: output", SPP_MOMENT_LOSS), 0);
  jobs_close(&f);
}

/* The positions a rank rotates after the exchange are all there are. */
static void every_rank_has_the_rotary_table_of_the_whole_sequence(void **state) {
  (void)state;
  struct jobs_fixture f;
  open_tiny(&f);
  f.layout.sp_kind = SPP_SP_ULYSSES;
  f.layout.ulysses = 2;
  jobs_predict(&f);
  int64_t part = jobs_ledger(&f, "rotary table", SPP_MOMENT_FORWARD);
  f.layout.fpdt_chunk = CHUNK;
  jobs_predict(&f);
  expect_i64(jobs_ledger(&f, "rotary table", SPP_MOMENT_FORWARD), 2 * part);
  jobs_close(&f);
}

/* ---- time ---- */

struct clock {
  struct spp_arena arena;
  struct spp_gpu gpu;
  struct spp_cluster cluster;
  struct spp_calib calib;
  struct spp_job job;
  struct spp_layout layout;
};

static void open_clock(struct clock *c, const char *framework, const char *model) {
  struct spp_diag diag;
  struct spp_job_spec spec;
  struct spp_request request;
  const struct spp_framework *f = NULL;
  spp_arena_init(&c->arena);
  c->gpu = h100_gpu();
  c->cluster = switched_cluster(50e9, true);
  c->calib = shipped_calib(&c->gpu);
  spp_job_spec_clear(&spec);
  expect_status(spp_framework_load(SPP_SOURCE_DIR "/configs", framework, &c->arena, &f, &diag), SPP_OK,
                &diag);
  expect_status(spp_arch_load(SPP_SOURCE_DIR "/configs", model, &c->arena, &spec.arch, &diag), SPP_OK, &diag);
  spec.gpu = &c->gpu;
  spec.cluster = &c->cluster;
  spec.calib = &c->calib;
  spec.gpus = 8;
  spec.seq_tokens = 1048576;
  spec.global_batch = 1;
  expect_status(spp_job_resolve(&spec, f, &c->job, &diag), SPP_OK, &diag);
  spp_request_clear(&request);
  request.ulysses = 8;
  expect_status(spp_layout_complete(&c->job, &request, &c->layout, &diag), SPP_OK, &diag);
}

static struct spp_time time_of(const struct clock *c, struct spp_comm *comm) {
  struct spp_geometry g;
  struct spp_time time;
  spp_geometry_resolve(&c->job, &c->layout, &g);
  spp_comm_predict(&c->job, &c->layout, &g, comm);
  spp_timing_predict(&c->job, &c->layout, &g, comm, &time);
  return time;
}

/* A block computes with the square of a chunk's length and its copies take as the length: from some length on
 * they hide. */
static void copies_of_long_chunks_hide_and_those_of_short_ones_do_not(void **state) {
  (void)state;
  struct clock c;
  struct spp_comm comm;
  open_clock(&c, "megatron-deepspeed", "gpt3-5b");
  for (int64_t chunk = 2048; chunk <= 262144; chunk *= 2) {
    expect_note("chunk %lld", (long long)chunk);
    c.layout.fpdt_chunk = chunk;
    c.layout.fpdt_offload = false;
    double stays = time_of(&c, &comm).attention_s;
    c.layout.fpdt_offload = true;
    double parked = time_of(&c, &comm).attention_s;
    expect_true(parked >= stays);
    if (chunk >= 65536) expect_rel(parked, stays, 0.01);
    if (chunk <= 4096) expect_true(parked > 1.2 * stays);
  }
  expect_note("%s", "");
  spp_arena_free(&c.arena);
}

static void chunks_exchange_the_same_bytes_in_more_messages(void **state) {
  (void)state;
  struct clock c;
  struct spp_comm whole, chunks;
  open_clock(&c, "megatron-deepspeed", "gpt3-5b");
  time_of(&c, &whole);
  c.layout.fpdt_chunk = 65536;
  time_of(&c, &chunks);
  expect_i64(chunks.layer_forward_bytes[SPP_GROUP_ULYSSES], whole.layer_forward_bytes[SPP_GROUP_ULYSSES]);
  for (int i = 0; i < whole.count; i++) {
    if (whole.ops[i].group != SPP_GROUP_ULYSSES) continue;
    expect_i64(chunks.ops[i].count_per_step, 16 * whole.ops[i].count_per_step);
    expect_i64(16 * chunks.ops[i].message_bytes, whole.ops[i].message_bytes);
  }
  spp_arena_free(&c.arena);
}

/* TiledMLP runs its forward once more than DeepSpeed without it: three products a layer. */
static void a_tiled_mlp_runs_once_more(void **state) {
  (void)state;
  struct clock plain, tiled;
  struct spp_comm comm;
  struct spp_kernel_rates r;
  open_clock(&plain, "deepspeed", "llama3-8b");
  open_clock(&tiled, "alst", "llama3-8b");
  spp_kernel_rates_resolve(&plain.gpu, &plain.cluster, &plain.calib, SPP_DTYPE_BF16, SPP_ATTN_FA2, 128, &r);
  double product = spp_gemm_s(&r, 131072, 14336, 4096), down = spp_gemm_s(&r, 131072, 4096, 14336);
  double more = time_of(&tiled, &comm).compute_s - time_of(&plain, &comm).compute_s;
  expect_rel(more, 32 * (2 * product + down), 1e-6);
  spp_arena_free(&plain.arena);
  spp_arena_free(&tiled.arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chunks_cut_the_tokens_of_a_rank),
      cmocka_unit_test(a_parked_layer_keeps_what_o_proj_reads),
      cmocka_unit_test(backward_holds_the_blocks_at_work_or_joins_its_gradient),
      cmocka_unit_test(chunks_that_stay_have_their_gradients_whole_in_fp32),
      cmocka_unit_test(what_waits_is_in_host_memory),
      cmocka_unit_test(a_plain_mlp_is_chunked_and_a_gated_one_is_not),
      cmocka_unit_test(deepspeeds_checkpoints_leave_the_running_layers_input_alone),
      cmocka_unit_test(the_loss_works_on_a_chunk_and_leaves_the_head_input),
      cmocka_unit_test(every_rank_has_the_rotary_table_of_the_whole_sequence),
      cmocka_unit_test(copies_of_long_chunks_hide_and_those_of_short_ones_do_not),
      cmocka_unit_test(chunks_exchange_the_same_bytes_in_more_messages),
      cmocka_unit_test(a_tiled_mlp_runs_once_more),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
