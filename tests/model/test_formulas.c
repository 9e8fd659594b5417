/* Random dense jobs against the closed forms, to the byte: what a layer keeps and checkpoints, what the
 * states and the loss take, what each kind of parallelism sends. The forms are written here a second time,
 * from their sources (docs/memory.md and the heads of model/comm_*.c), and know nothing of the ledger. */
#include <stdlib.h>

#include "model/comm.h"
#include "tests/model/jobs.h"

enum { JOBS = 4000 };

/* What is drawn. */
struct drawn {
  int64_t h, i, nq, nk, dh, layers, vocab, seq, batch, tp, su, sr, dp, micro_batches;
  int zero;
  bool tied, qk_norm, fused, megatron_sp, recompute;
  enum spp_ring_impl ring;
  enum spp_sp_kind kind;
};

static uint64_t bits(uint64_t *seed) { /* xorshift64* */
  *seed ^= *seed >> 12;
  *seed ^= *seed << 25;
  *seed ^= *seed >> 27;
  return (*seed * UINT64_C(2685821657736338717)) >> 33;
}
static int64_t below(uint64_t *seed, int64_t n) {
  return (int64_t)(bits(seed) % (uint64_t)n);
}
static int64_t power(uint64_t *seed, int64_t largest) {
  return INT64_C(1) << below(seed, largest + 1);
}

/* Every width divides by every degree, so that no shard is rounded. */
static struct drawn draw(uint64_t *seed) {
  struct drawn d = {.nk = 8 * power(seed, 1), .dh = 16 * power(seed, 3), .layers = 1 + below(seed, 6)};
  d.nq = d.nk * (1 + below(seed, 5));
  d.h = 256 * (1 + below(seed, 16));
  d.i = 256 * (1 + below(seed, 40));
  d.vocab = 1024 * (1 + below(seed, 150));
  d.tp = power(seed, 2);
  d.kind = (enum spp_sp_kind)below(seed, SPP_SP_KIND_COUNT);
  d.su = d.kind == SPP_SP_ULYSSES || d.kind == SPP_SP_HYBRID ? 2 : 1;
  if (d.kind == SPP_SP_ULYSSES && d.tp == 1) d.su = 2 * power(seed, 2);
  d.sr =
      d.kind == SPP_SP_RING || d.kind == SPP_SP_HYBRID || d.kind == SPP_SP_ALLGATHER ? 2 * power(seed, 2) : 1;
  d.dp = power(seed, 3);
  d.batch = 1 + below(seed, 3);
  d.seq = 512 * (1 + below(seed, 60));
  d.micro_batches = 1 + below(seed, 4);
  d.zero = (int)below(seed, 4);
  d.tied = below(seed, 2) != 0;
  d.qk_norm = below(seed, 2) != 0;
  d.fused = below(seed, 2) != 0;
  d.megatron_sp = d.tp > 1 && below(seed, 2);
  d.recompute = below(seed, 2) != 0;
  d.ring = (enum spp_ring_impl)below(seed, SPP_RING_IMPL_COUNT);
  return d;
}

static void set_up(const struct drawn *d, struct jobs_fixture *f) {
  char text[512];
  snprintf(
      text, sizeof text,
      "{\"model_type\":\"%s\",\"hidden_size\":%lld,\"intermediate_size\":%lld,\"num_hidden_layers\":%lld,"
      "\"num_attention_heads\":%lld,\"num_key_value_heads\":%lld,\"head_dim\":%lld,\"vocab_size\":%lld,"
      "\"tie_word_embeddings\":%s}",
      d->qk_norm ? "qwen3" : "llama", (long long)d->h, (long long)d->i, (long long)d->layers,
      (long long)d->nq, (long long)d->nk, (long long)d->dh, (long long)d->vocab, d->tied ? "true" : "false");
  jobs_open(f);
  jobs_train(f, jobs_parse(f, text), d->seq);
  f->job.kernels = d->fused ? SPP_KERNELS_FUSED : SPP_KERNELS_EAGER;
  f->job.ring_impl = d->ring;
  f->layout.tp = f->layout.etp = d->tp;
  f->layout.dp = d->dp;
  f->layout.ulysses = d->su;
  f->layout.ring = d->sr;
  f->layout.sp_kind = d->kind;
  f->layout.megatron_sp = d->megatron_sp;
  f->layout.zero = d->zero;
  f->layout.micro_batch = d->batch;
  f->layout.grad_accum = d->micro_batches;
  f->layout.recompute = d->recompute ? SPP_RECOMPUTE_FULL : SPP_RECOMPUTE_NONE;
  jobs_predict(f);
}

/* ---- the closed forms ---- */

static int64_t tokens(const struct drawn *d) {
  return d->batch * d->seq / (d->su * d->sr);
}

/* Bytes a token of the residual stream, then of what TP cuts: huggingface/transformers with FlashAttention-2,
 * and the fused norm and SwiGLU of linkedin/Liger-Kernel and NVIDIA/TransformerEngine; the all-to-all's
 * second attention output. */
static int64_t kept(const struct drawn *d) {
  int64_t dq = d->nq * d->dh, dk = d->nk * d->dh, t = tokens(d);
  int64_t whole = (d->fused ? 8 : 16) * d->h + 8;
  int64_t cut = 4 * dq + 4 * dk + (d->fused ? 6 : 8) * d->i + 4 * d->nq + (d->su > 1 ? 2 * dq : 0);
  if (d->qk_norm) cut += (d->fused ? 2 : 6) * (dq + dk) + 4 * (d->nq + d->nk);
  return t * whole / (d->megatron_sp ? d->tp : 1) + t * cut / d->tp;
}

static int64_t layer_elements(const struct drawn *d, int64_t *norms) {
  int64_t dq = d->nq * d->dh, dk = d->nk * d->dh;
  *norms = 2 * d->h + (d->qk_norm ? 2 * d->dh : 0);
  return (d->h * (dq + 2 * dk) + dq * d->h + 3 * d->h * d->i) / d->tp + *norms;
}

/* Elements of one rank before sharding: TP cuts matrices and the vocabulary, norms are whole. */
static int64_t elements(const struct drawn *d) {
  int64_t norms;
  return d->layers * layer_elements(d, &norms) + (d->tied ? 1 : 2) * d->vocab * d->h / d->tp + d->h;
}

static int64_t rows_sent(int64_t n, int64_t bytes) { /* all but one's own of n pieces */
  return bytes / n * (n - 1);
}

/* q, k, v and the output, 16 bit (deepspeedai/DeepSpeed sequence/layer.py). */
static int64_t ulysses_bytes(const struct drawn *d) {
  return 2 * tokens(d) * 2 * (d->nq * d->dh + d->nk * d->dh) / d->tp / d->su * (d->su - 1);
}

static int64_t block(const struct drawn *d) {
  return 2 * 2 * tokens(d) * d->nk * d->dh / d->tp;
}

/* Hops of K and V, then of their gradients: fp32 and one more in zhuzilin/ring-flash-attention and
 * modelscope/ms-swift, which runs the forward again; 16 bit in NVIDIA/TransformerEngine. All-gathers: twice
 * the gather, and a scatter. */
static int64_t ring_backward(const struct drawn *d) {
  int64_t hops = (d->sr - 1) * block(d);
  if (d->kind == SPP_SP_ALLGATHER) return 2 * hops;
  switch (d->ring) {
  case SPP_RING_TE: return 2 * hops;
  case SPP_RING_SWIFT: return 2 * hops + d->sr * 2 * block(d);
  default: return hops + d->sr * 2 * block(d);
  }
}

/* NVIDIA/Megatron-LM tensor_parallel/layers.py: X = (tp-1)/tp e T h; 4 X forward; backward 4 X, or 6 X where
 * the cut input is gathered again for the weight gradient. */
static int64_t tp_unit(const struct drawn *d) {
  return rows_sent(d->tp, 2 * tokens(d) * d->h);
}

/* Gradients and parameters over d = dp x sp, a step: an all-reduce; scattered and gathered once (ZeRO-1);
 * scattered in every micro-batch (ZeRO-2); gathered twice and scattered in every one (ZeRO-3). */
static int64_t state_bytes(const struct drawn *d, int64_t group) {
  int64_t share = rows_sent(group, 2 * elements(d)), m = d->micro_batches;
  switch (d->zero) {
  case 0: return 2 * share;
  case 1: return 2 * share;
  case 2: return share * (m + 1);
  default: return 3 * share * m;
  }
}

/* ---- the laws ---- */

static void expect_bytes_kept(const struct drawn *d, const struct jobs_fixture *f) {
  const int64_t *r = f->memory.resident;
  int64_t n = elements(d), group = d->dp * d->su * d->sr;
  expect_i64(f->memory.kept_bytes[0], kept(d));
  /* the residual stream at the layer's door; cut over TP by Megatron's sequence parallelism */
  if (d->recompute)
    expect_i64(f->memory.checkpoint_bytes[0], 2 * tokens(d) * d->h / (d->megatron_sp ? d->tp : 1));
  if (n % group == 0) {
    expect_i64(r[SPP_PART_WEIGHTS], 2 * n / (d->zero >= 3 ? group : 1));
    expect_i64(r[SPP_PART_GRADIENTS], 2 * n / (d->zero >= 2 ? group : 1));
    expect_i64(r[SPP_PART_MASTER], 4 * n / (d->zero >= 1 ? group : 1));
    expect_i64(r[SPP_PART_OPTIMIZER], 8 * n / (d->zero >= 1 ? group : 1));
  }
  /* log-softmax, gradient of the log-probabilities and of the logits, fp32 (transformers loss/loss_utils.py)
   */
  expect_i64(jobs_part(f, SPP_PART_LOGITS, SPP_MOMENT_LOSS), 12 * tokens(d) * d->vocab / d->tp);
}

static int64_t op_bytes(const struct spp_comm *comm, enum spp_group group) {
  int64_t bytes = 0;
  for (int i = 0; i < comm->count; i++)
    if (comm->ops[i].group == group) bytes += comm->ops[i].sent_bytes * comm->ops[i].count_per_step;
  return bytes;
}

static void expect_bytes_sent(const struct drawn *d, const struct jobs_fixture *f, struct spp_comm *comm) {
  const int64_t *forward = comm->layer_forward_bytes, *backward = comm->layer_backward_bytes;
  int64_t group = d->dp * d->su * d->sr, n = elements(d);
  spp_comm_predict(&f->job, &f->layout, &f->geometry, comm);
  expect_i64(forward[SPP_GROUP_ULYSSES], d->su > 1 ? ulysses_bytes(d) : 0);
  expect_i64(backward[SPP_GROUP_ULYSSES], d->su > 1 ? ulysses_bytes(d) : 0);
  expect_i64(forward[SPP_GROUP_RING], d->sr > 1 ? (d->sr - 1) * block(d) : 0);
  expect_i64(backward[SPP_GROUP_RING], d->sr > 1 ? ring_backward(d) : 0);
  expect_i64(forward[SPP_GROUP_TP], 4 * tp_unit(d));
  expect_i64(backward[SPP_GROUP_TP], (d->megatron_sp ? 6 : 4) * tp_unit(d));
  if (n % group == 0) expect_i64(op_bytes(comm, SPP_GROUP_DP), group > 1 ? state_bytes(d, group) : 0);
}

static void random_dense_jobs_equal_the_closed_forms(void **state) {
  struct spp_comm *comm = malloc(sizeof *comm);
  struct jobs_fixture *f = malloc(sizeof *f);
  uint64_t seed = UINT64_C(88172645463325252);
  (void)state;
  assert_non_null(comm);
  assert_non_null(f);
  for (int job = 0; job < JOBS; job++) {
    struct drawn d = draw(&seed);
    set_up(&d, f);
    expect_note("job %d: h %lld i %lld heads %lld/%lld x %lld V %lld S %lld b %lld, TP %lld%s DP %lld kind "
                "%d U %lld R %lld impl "
                "%d zero %d%s%s",
                job, (long long)d.h, (long long)d.i, (long long)d.nq, (long long)d.nk, (long long)d.dh,
                (long long)d.vocab, (long long)d.seq, (long long)d.batch, (long long)d.tp,
                d.megatron_sp ? "+SP" : "", (long long)d.dp, (int)d.kind, (long long)d.su, (long long)d.sr,
                (int)d.ring, d.zero, d.fused ? " fused" : "", d.qk_norm ? " qk-norm" : "");
    expect_bytes_kept(&d, f);
    expect_bytes_sent(&d, f, comm);
    jobs_close(f);
  }
  expect_note("%s", "");
  free(comm);
  free(f);
}

/* Adapters of rank r on all seven linears, whose inputs are 5h + dq + i wide. The frozen norm keeps no
 * normalised input; dropout keeps a copy and a mask of every input in place of the shared ones; fp32 adapters
 * cast it (huggingface/peft). */
static void random_adapters_equal_the_closed_forms(void **state) {
  struct jobs_fixture *f = malloc(sizeof *f);
  uint64_t seed = UINT64_C(88172645463325252);
  (void)state;
  assert_non_null(f);
  for (int job = 0; job < JOBS / 4; job++) {
    struct drawn d = draw(&seed);
    int64_t rank = power(&seed, 7), t = d.batch * d.seq;
    bool fp32 = below(&seed, 2) != 0, dropout = below(&seed, 2) != 0;
    d.tp = d.su = d.sr = 1;
    d.kind = SPP_SP_NONE;
    d.megatron_sp = d.recompute = d.qk_norm = false;
    set_up(&d, f);
    f->job.method = SPP_METHOD_LORA;
    f->job.lora_rank = rank;
    f->job.lora_dropout = dropout ? 0.05 : 0;
    f->framework.lora_fp32_adapters = fp32;
    jobs_predict(f);
    int64_t dq = d.nq * d.dh, inputs = 5 * d.h + dq + d.i;
    int64_t base = kept(&d) - (d.fused ? 0 : 4 * t * d.h), shared = t * (4 * d.h + 2 * d.i);
    int64_t expected = fp32 ? base - shared + (dropout ? 5 : 4) * t * inputs + 28 * t * rank
                            : base - (dropout ? shared - 3 * t * inputs : 0) + 14 * t * rank;
    expect_note("job %d: h %lld i %lld dq %lld rank %lld%s%s%s", job, (long long)d.h, (long long)d.i,
                (long long)dq, (long long)rank, d.fused ? " fused" : "", fp32 ? " fp32" : "",
                dropout ? " dropout" : "");
    expect_i64(f->memory.kept_bytes[0], expected);
    jobs_close(f);
  }
  expect_note("%s", "");
  free(f);
}

/* Dense layers of DeepSeek-V3: v is padded to the width of q and k for FlashAttention-2, then sliced and
 * copied. */
static void random_latent_attention_equals_the_closed_forms(void **state) {
  struct jobs_fixture *f = malloc(sizeof *f);
  uint64_t seed = UINT64_C(88172645463325252);
  (void)state;
  assert_non_null(f);
  for (int job = 0; job < JOBS / 4; job++) {
    struct drawn d = draw(&seed);
    int64_t ql = 32 * (1 + below(&seed, 48)), kl = 32 * (1 + below(&seed, 16)),
            dn = 16 * (1 + below(&seed, 8));
    int64_t dr = 8 * (1 + below(&seed, 8)), dv = 16 * (1 + below(&seed, 8)), t = d.batch * d.seq,
            wide = dn + dr;
    char text[640];
    if (dv > wide) dv = wide;
    snprintf(
        text, sizeof text,
        "{\"model_type\":\"deepseek_v3\",\"hidden_size\":%lld,\"intermediate_size\":%lld,\"num_hidden_"
        "layers\":2,"
        "\"num_attention_heads\":%lld,\"num_key_value_heads\":%lld,\"vocab_size\":1024,\"q_lora_rank\":%lld,"
        "\"kv_lora_rank\":%lld,\"qk_nope_head_dim\":%lld,\"qk_rope_head_dim\":%lld,\"v_head_dim\":%lld,"
        "\"n_routed_experts\":4,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,\"n_shared_experts\":"
        "1,"
        "\"first_k_dense_replace\":2,\"num_nextn_predict_layers\":0}",
        (long long)d.h, (long long)d.i, (long long)d.nq, (long long)d.nq, (long long)ql, (long long)kl,
        (long long)dn, (long long)dr, (long long)dv);
    jobs_open(f);
    jobs_train(f, jobs_parse(f, text), d.seq);
    f->job.kernels = d.fused ? SPP_KERNELS_FUSED : SPP_KERNELS_EAGER;
    f->layout.micro_batch = d.batch;
    f->layout.recompute = SPP_RECOMPUTE_NONE;
    jobs_predict(f);
    int64_t attention = 8 * d.nq * wide + 2 * d.nq * dv + 4 * d.nq + 16;
    int64_t expected = d.fused ? t * (8 * d.h + 6 * d.i + 4 * ql + 2 * (kl + dr) + 2 * kl + attention)
                               : t * (16 * d.h + 8 * d.i + 8 * ql + 8 * kl + attention);
    expect_note("job %d: h %lld i %lld heads %lld ql %lld kl %lld dn %lld dr %lld dv %lld%s", job,
                (long long)d.h, (long long)d.i, (long long)d.nq, (long long)ql, (long long)kl, (long long)dn,
                (long long)dr, (long long)dv, d.fused ? " fused" : "");
    expect_i64(f->memory.kept_bytes[0], expected);
    jobs_close(f);
  }
  expect_note("%s", "");
  free(f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_dense_jobs_equal_the_closed_forms),
      cmocka_unit_test(random_adapters_equal_the_closed_forms),
      cmocka_unit_test(random_latent_attention_equals_the_closed_forms),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
