/* Ring attention: K and V blocks travel from rank r to r + 1 while the block at hand is worked on
 * (zhuzilin/ring-flash-attention ring_flash_attn.py, zigzag_ring_flash_attn.py). What a causal mask hides is
 * not computed, but every block is passed on. */
#include "exec/attention_pieces.h"
#include "exec/try.h"

static int64_t ranks(const struct spp_attention *a) {
  return a->cut.ring;
}

/* Owner of the block that is here at a step. */
static int64_t owner(const struct spp_attention *a, int64_t step) {
  int64_t me = a->ring ? a->ring->me : 0;
  return (me - step + ranks(a)) % ranks(a);
}

static struct spp_kv_block block_at(const struct spp_attention *a, int64_t step, struct spp_kv kv) {
  return (struct spp_kv_block){kv.k, kv.v, a->rows, a->positions[owner(a, step)]};
}

static enum spp_status allocate(struct spp_rank *rank, const struct spp_attention *a, const char *name,
                                struct spp_kv *kv) {
  int64_t floats = spp_attention_kv_floats(a);
  SPP_TRY(spp_heap_floats(&rank->heap, SPP_PART_TRANSIENT, name, floats, &kv->k, rank->diag));
  return spp_heap_floats(&rank->heap, SPP_PART_TRANSIENT, name, floats, &kv->v, rank->diag);
}

static void release(struct spp_rank *rank, struct spp_kv *kv) {
  spp_heap_free(&rank->heap, kv->k);
  spp_heap_free(&rank->heap, kv->v);
}

/* One pair of tensors on its way to the next rank. */
struct hop {
  struct spp_shift k, v;
};
static enum spp_status hop_start(struct spp_rank *rank, const struct spp_attention *a, struct spp_label label,
                                 struct spp_kv from, struct spp_kv to, struct hop *hop) {
  int64_t bytes = spp_attention_kv_floats(a) * (int64_t)sizeof(float);
  SPP_TRY(spp_group_shift_start(a->ring, label, from.k, to.k, bytes, &hop->k, rank->diag));
  return spp_group_shift_start(a->ring, label, from.v, to.v, bytes, &hop->v, rank->diag);
}
static enum spp_status hop_wait(struct spp_rank *rank, const struct spp_attention *a, struct hop *hop) {
  SPP_TRY(spp_group_shift_wait(a->ring, &hop->k, rank->diag));
  return spp_group_shift_wait(a->ring, &hop->v, rank->diag);
}

/* The blocks of K and V as they pass by: two buffers, one being read and sent on, one being filled. */
struct passing {
  struct spp_kv here, buffers[2];
  struct spp_label label;
  struct hop hop;
};

static enum spp_status passing_open(struct spp_rank *rank, const struct spp_attention *a,
                                    struct spp_label label, const struct spp_attention_kept *kept,
                                    struct passing *p) {
  *p = (struct passing){.here = {kept->k, kept->v}, .label = label};
  for (int i = 0; i < 2 && i < ranks(a) - 1; i++)
    SPP_TRY(allocate(rank, a, "ring: KV blocks", &p->buffers[i]));
  return SPP_OK;
}
static bool passing_on(const struct spp_attention *a, int64_t step) {
  return step + 1 < ranks(a);
}
static enum spp_status passing_start(struct spp_rank *rank, const struct spp_attention *a, int64_t step,
                                     struct passing *p) {
  if (!passing_on(a, step)) return SPP_OK;
  return hop_start(rank, a, p->label, p->here, p->buffers[step % 2], &p->hop);
}
static enum spp_status passing_wait(struct spp_rank *rank, const struct spp_attention *a, int64_t step,
                                    struct passing *p) {
  if (!passing_on(a, step)) return SPP_OK;
  SPP_TRY(hop_wait(rank, a, &p->hop));
  p->here = p->buffers[step % 2];
  return SPP_OK;
}
static void passing_close(struct spp_rank *rank, struct passing *p) {
  release(rank, &p->buffers[0]);
  release(rank, &p->buffers[1]);
}

/* A block's result and where it is merged. */
struct partial {
  float *out, *lse;
};
static enum spp_status partial_open(struct spp_rank *rank, const struct spp_attention *a, struct partial *p) {
  *p = (struct partial){NULL, NULL};
  if (ranks(a) == 1) return SPP_OK;
  SPP_TRY(spp_heap_floats(&rank->heap, SPP_PART_TRANSIENT, "ring: block output", spp_attention_q_floats(a),
                          &p->out, rank->diag));
  return spp_heap_floats(&rank->heap, SPP_PART_TRANSIENT, "ring: block output", a->heads_here * a->rows,
                         &p->lse, rank->diag);
}

enum spp_status spp_ring_forward(struct spp_rank *rank, const struct spp_attention *a, enum spp_pass pass,
                                 struct spp_attention_kept *kept) {
  struct passing passing;
  struct partial partial;
  int64_t width = a->heads_here * a->head_dim;
  SPP_TRY(passing_open(rank, a, (struct spp_label){"kv block", pass}, kept, &passing));
  SPP_TRY(partial_open(rank, a, &partial));
  for (int64_t step = 0; step < ranks(a); step++) {
    const struct spp_kv_block block = block_at(a, step, passing.here);
    struct partial to = step == 0 ? (struct partial){kept->out, kept->lse} : partial;
    SPP_TRY(passing_start(rank, a, step, &passing));
    SPP_TRY(spp_attention_block_forward(rank, a, kept->q, &block, to.out, to.lse));
    if (step > 0)
      spp_lse_merge(a->rows, a->heads_here, a->head_dim, kept->out, width, kept->lse, a->rows, to.out, width,
                    to.lse, a->rows);
    SPP_TRY(passing_wait(rank, a, step, &passing));
  }
  spp_heap_free(&rank->heap, partial.out);
  spp_heap_free(&rank->heap, partial.lse);
  passing_close(rank, &passing);
  return SPP_OK;
}

/* Gradients of the block at hand; dK and dV of what the ranks before have added arrive meanwhile. */
struct gradients {
  float *dq, *block_dq;
  struct spp_kv sum, arriving, block;
  struct hop hop;
};

static enum spp_status gradients_open(struct spp_rank *rank, const struct spp_attention *a,
                                      struct gradients *g) {
  *g = (struct gradients){.dq = NULL};
  SPP_TRY(spp_heap_floats(&rank->heap, SPP_PART_TRANSIENT, "gradients of q, k, v", spp_attention_q_floats(a),
                          &g->dq, rank->diag));
  SPP_TRY(allocate(rank, a, "gradients of q, k, v", &g->sum));
  if (ranks(a) == 1) return SPP_OK;
  SPP_TRY(spp_heap_floats(&rank->heap, SPP_PART_TRANSIENT, "ring: fp32 dq", spp_attention_q_floats(a),
                          &g->block_dq, rank->diag));
  SPP_TRY(allocate(rank, a, "ring: fp32 dk, dv", &g->arriving));
  return allocate(rank, a, "ring: fp32 dk, dv", &g->block);
}

static void gradients_close(struct spp_rank *rank, struct gradients *g) {
  spp_heap_free(&rank->heap, g->block_dq);
  release(rank, &g->arriving);
  release(rank, &g->block);
}

/* The sum of the ranks before is here: this rank's share is added. */
static enum spp_status gradients_add(struct spp_rank *rank, const struct spp_attention *a,
                                     struct gradients *g) {
  const struct spp_ops *ops = rank->kernels->ops;
  int64_t floats = spp_attention_kv_floats(a);
  ops->add(spp_attention_q_floats(a), SPP_STORE_F32, g->dq, g->block_dq, g->dq);
  SPP_TRY(hop_wait(rank, a, &g->hop));
  struct spp_kv sum = g->arriving;
  g->arriving = g->sum;
  g->sum = sum;
  ops->add(floats, SPP_STORE_F32, sum.k, g->block.k, sum.k);
  ops->add(floats, SPP_STORE_F32, sum.v, g->block.v, sum.v);
  return SPP_OK;
}

enum spp_status spp_ring_backward(struct spp_rank *rank, const struct spp_attention *a,
                                  const struct spp_attention_kept *kept, const float *dout,
                                  const float *delta, struct spp_attention_grads *grads) {
  const struct spp_label travels = {"dkv block", SPP_PASS_BACKWARD};
  struct passing passing;
  struct gradients g;
  SPP_TRY(gradients_open(rank, a, &g));
  SPP_TRY(passing_open(rank, a, (struct spp_label){"kv block", SPP_PASS_BACKWARD}, kept, &passing));
  for (int64_t step = 0; step < ranks(a); step++) {
    const struct spp_kv_block block = block_at(a, step, passing.here);
    const struct spp_block_backward work = {
        kept->q, dout, kept->lse, delta, step == 0 ? g.dq : g.block_dq, step == 0 ? g.sum : g.block};
    SPP_TRY(passing_start(rank, a, step, &passing));
    SPP_TRY(spp_attention_block_backward(rank, a, &block, &work));
    if (step > 0) SPP_TRY(gradients_add(rank, a, &g));
    SPP_TRY(passing_wait(rank, a, step, &passing));
    if (ranks(a) > 1) SPP_TRY(hop_start(rank, a, travels, g.sum, g.arriving, &g.hop));
  }
  passing_close(rank, &passing);
  *grads = (struct spp_attention_grads){g.dq, g.sum.k, g.sum.v};
  if (ranks(a) == 1) return SPP_OK;
  /* The last hop brings this rank's own gradients home. */
  SPP_TRY(hop_wait(rank, a, &g.hop));
  *grads = (struct spp_attention_grads){g.dq, g.arriving.k, g.arriving.v};
  g.arriving = g.sum;
  gradients_close(rank, &g);
  return SPP_OK;
}
