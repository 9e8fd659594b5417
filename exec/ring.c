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

static enum spp_status block_in(struct spp_rank *rank, const char *name, int64_t elements,
                                enum spp_storage storage, void **data) {
  return spp_heap_elements(&rank->heap, SPP_PART_TRANSIENT, name, elements, storage, data, rank->diag);
}

static enum spp_status allocate(struct spp_rank *rank, const struct spp_attention *a, const char *name,
                                enum spp_storage storage, struct spp_kv *kv) {
  SPP_TRY(block_in(rank, name, spp_attention_k_elements(a), storage, &kv->k));
  return block_in(rank, name, spp_attention_v_elements(a), storage, &kv->v);
}

/* Sums over blocks are taken in fp32; a single block is written as it stays. */
static enum spp_storage sums_of(const struct spp_attention *a) {
  return ranks(a) > 1 ? SPP_STORE_F32 : a->store;
}

/* *data, summed in fp32, in the storage of the rest. */
static enum spp_status settle(struct spp_rank *rank, const struct spp_attention *a, const char *name,
                              int64_t elements, void **data) {
  void *settled;
  if (sums_of(a) == a->store) return SPP_OK;
  SPP_TRY(block_in(rank, name, elements, a->store, &settled));
  rank->ops->convert(rank->queue, elements, *data, SPP_STORE_F32, settled, a->store);
  spp_heap_free(&rank->heap, *data);
  *data = settled;
  return SPP_OK;
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
                                 enum spp_storage storage, struct spp_kv from, struct spp_kv to,
                                 struct hop *hop) {
  int64_t k_bytes = spp_attention_k_elements(a) * spp_storage_bytes(storage),
          v_bytes = spp_attention_v_elements(a) * spp_storage_bytes(storage);
  SPP_TRY(spp_group_shift_start(a->ring, label, from.k, to.k, k_bytes, &hop->k, rank->diag));
  return spp_group_shift_start(a->ring, label, from.v, to.v, v_bytes, &hop->v, rank->diag);
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
    SPP_TRY(allocate(rank, a, "ring: KV blocks", a->store, &p->buffers[i]));
  return SPP_OK;
}
static bool passing_on(const struct spp_attention *a, int64_t step) {
  return step + 1 < ranks(a);
}
static enum spp_status passing_start(struct spp_rank *rank, const struct spp_attention *a, int64_t step,
                                     struct passing *p) {
  if (!passing_on(a, step)) return SPP_OK;
  return hop_start(rank, a, p->label, a->store, p->here, p->buffers[step % 2], &p->hop);
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

/* The merged result, and that of the block at hand. */
struct merge {
  void *out; /* fp32; kept->out where that is */
  struct spp_block_result block;
};
static enum spp_status merge_open(struct spp_rank *rank, const struct spp_attention *a,
                                  const struct spp_attention_kept *kept, struct merge *m) {
  int64_t elements = spp_attention_out_elements(a);
  *m = (struct merge){.out = kept->out, .block = {.storage = SPP_STORE_F32}};
  if (ranks(a) == 1) return SPP_OK;
  if (a->store != SPP_STORE_F32)
    SPP_TRY(block_in(rank, "ring: fp32 output accumulator", elements, SPP_STORE_F32, &m->out));
  SPP_TRY(block_in(rank, "ring: block output", elements, SPP_STORE_F32, &m->block.out));
  return spp_heap_floats(&rank->heap, SPP_PART_TRANSIENT, "ring: block output", a->heads_here * a->rows,
                         &m->block.lse, rank->diag);
}
static void merge_close(struct spp_rank *rank, const struct spp_attention *a,
                        const struct spp_attention_kept *kept, struct merge *m) {
  if (m->out != kept->out) {
    rank->ops->convert(rank->queue, spp_attention_out_elements(a), m->out, SPP_STORE_F32, kept->out,
                       a->store);
    spp_heap_free(&rank->heap, m->out);
  }
  spp_heap_free(&rank->heap, m->block.out);
  spp_heap_free(&rank->heap, m->block.lse);
}

enum spp_status spp_ring_forward(struct spp_rank *rank, const struct spp_attention *a, enum spp_pass pass,
                                 struct spp_attention_kept *kept) {
  struct passing passing;
  struct merge merge;
  int64_t width = a->heads_here * a->v_head_dim;
  SPP_TRY(passing_open(rank, a, (struct spp_label){"kv block", pass}, kept, &passing));
  SPP_TRY(merge_open(rank, a, kept, &merge));
  const struct spp_block_result first = {merge.out, sums_of(a), kept->lse, true};
  for (int64_t step = 0; step < ranks(a); step++) {
    const struct spp_kv_block block = block_at(a, step, passing.here);
    SPP_TRY(passing_start(rank, a, step, &passing));
    SPP_TRY(spp_attention_block_forward(rank, a, kept->q, &block, step == 0 ? &first : &merge.block));
    if (step > 0)
      rank->ops->lse_merge(rank->queue, a->rows, a->heads_here, a->v_head_dim, merge.out, width, kept->lse,
                           a->rows, merge.block.out, width, merge.block.lse, a->rows);
    SPP_TRY(passing_wait(rank, a, step, &passing));
  }
  merge_close(rank, a, kept, &merge);
  passing_close(rank, &passing);
  return SPP_OK;
}

static const char qkv_gradients[] = "gradients of q, k, v";

/* Gradients of the block at hand; dK and dV of what the ranks before have added arrive meanwhile. */
struct gradients {
  void *dq, *block_dq;
  struct spp_kv sum, arriving, block;
  struct hop hop;
};

static enum spp_status gradients_open(struct spp_rank *rank, const struct spp_attention *a,
                                      struct gradients *g) {
  *g = (struct gradients){.dq = NULL};
  const enum spp_storage storage = sums_of(a);
  SPP_TRY(block_in(rank, qkv_gradients, spp_attention_q_elements(a), storage, &g->dq));
  SPP_TRY(allocate(rank, a, qkv_gradients, storage, &g->sum));
  if (ranks(a) == 1) return SPP_OK;
  SPP_TRY(block_in(rank, "ring: fp32 dq", spp_attention_q_elements(a), storage, &g->block_dq));
  SPP_TRY(allocate(rank, a, "ring: fp32 dk, dv", storage, &g->arriving));
  return allocate(rank, a, "ring: fp32 dk, dv", storage, &g->block);
}

static void gradients_close(struct spp_rank *rank, struct gradients *g) {
  spp_heap_free(&rank->heap, g->block_dq);
  release(rank, &g->arriving);
  release(rank, &g->block);
}

/* The sum of the ranks before is here: this rank's share is added. */
static enum spp_status gradients_add(struct spp_rank *rank, const struct spp_attention *a,
                                     struct gradients *g) {
  rank->ops->add(rank->queue, spp_attention_q_elements(a), SPP_STORE_F32, g->dq, g->block_dq, g->dq);
  SPP_TRY(hop_wait(rank, a, &g->hop));
  struct spp_kv sum = g->arriving;
  g->arriving = g->sum;
  g->sum = sum;
  rank->ops->add(rank->queue, spp_attention_k_elements(a), SPP_STORE_F32, sum.k, g->block.k, sum.k);
  rank->ops->add(rank->queue, spp_attention_v_elements(a), SPP_STORE_F32, sum.v, g->block.v, sum.v);
  return SPP_OK;
}

static void give(struct spp_attention_grads *grads, void *dq, struct spp_kv dkv) {
  grads->q = dq;
  grads->k = dkv.k;
  grads->v = dkv.v;
}

enum spp_status spp_ring_backward(struct spp_rank *rank, const struct spp_attention *a,
                                  const struct spp_attention_kept *kept, const void *dout, const float *delta,
                                  struct spp_attention_grads *grads) {
  const struct spp_label travels = {"dkv block", SPP_PASS_BACKWARD};
  struct passing passing;
  struct gradients g;
  SPP_TRY(gradients_open(rank, a, &g));
  SPP_TRY(passing_open(rank, a, (struct spp_label){"kv block", SPP_PASS_BACKWARD}, kept, &passing));
  for (int64_t step = 0; step < ranks(a); step++) {
    const struct spp_kv_block block = block_at(a, step, passing.here);
    const struct spp_block_backward work = {
        kept->q,   dout, kept->lse, delta, step == 0 ? g.dq : g.block_dq, step == 0 ? g.sum : g.block,
        sums_of(a)};
    SPP_TRY(passing_start(rank, a, step, &passing));
    SPP_TRY(spp_attention_block_backward(rank, a, &block, &work));
    if (step > 0) SPP_TRY(gradients_add(rank, a, &g));
    SPP_TRY(passing_wait(rank, a, step, &passing));
    if (ranks(a) > 1) SPP_TRY(hop_start(rank, a, travels, SPP_STORE_F32, g.sum, g.arriving, &g.hop));
  }
  passing_close(rank, &passing);
  give(grads, g.dq, g.sum);
  if (ranks(a) == 1) return SPP_OK;
  /* The last hop brings this rank's own gradients home. */
  SPP_TRY(hop_wait(rank, a, &g.hop));
  give(grads, g.dq, g.arriving);
  g.arriving = g.sum;
  gradients_close(rank, &g);
  SPP_TRY(settle(rank, a, qkv_gradients, spp_attention_q_elements(a), &grads->q));
  SPP_TRY(settle(rank, a, qkv_gradients, spp_attention_k_elements(a), &grads->k));
  return settle(rank, a, qkv_gradients, spp_attention_v_elements(a), &grads->v);
}
