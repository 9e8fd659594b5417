/* Buffers and temporaries of a framework that gathers and reduces one unit (embedding, layer, head) at a
 * time, keeps nothing ahead and frees each tensor after its last use: the engine in exec/. Source:
 * exec/layer_*.c, exec/ring.c, exec/gather_kv.c, exec/ends.c, exec/pipeline.c, whose allocations are counted
 * and compared with this. */
#include "model/memory_parts.h"

#define ROW(id, text, part, reason) static const struct spp_tensor id = {text, part, reason}
ROW(gathered, "gathered layer weights", SPP_PART_SHARDING_BUFFERS, "used by the running layer");
ROW(unit_grads, "gradients of one layer", SPP_PART_SHARDING_BUFFERS, "whole, before they are reduced");
ROW(statistics, "loss statistics", SPP_PART_LOGITS, "maximum, sum, target logit");
ROW(stream, "stream", SPP_PART_TRANSIENT, "output of a layer, while it is made");
ROW(residual, "gradient of the residual stream", SPP_PART_TRANSIENT, "flows past the block");
ROW(routed, "routed rows", SPP_PART_TRANSIENT, "of the experts, on their way and while they work");
ROW(norm_grad, "norm backward", SPP_PART_TRANSIENT, "gradient of its input");
ROW(whole_stream, "gathered stream", SPP_PART_TRANSIENT, "sequence-parallel linear");
ROW(out_grad, "gradient of the attention output", SPP_PART_TRANSIENT, "attention backward");
ROW(qkv_grads, "gradients of q, k, v", SPP_PART_TRANSIENT, "attention backward");
ROW(row_sums, "softmax row statistics", SPP_PART_TRANSIENT, "attention backward");
ROW(ring_kv, "ring: KV blocks", SPP_PART_TRANSIENT, "one read and sent on, one filled");
ROW(ring_dq, "ring: fp32 dq", SPP_PART_TRANSIENT, "of one block");
ROW(ring_dkv, "ring: fp32 dk, dv", SPP_PART_TRANSIENT, "of one block, and what arrives");
ROW(all_kv, "gathered K and V", SPP_PART_TRANSIENT, "in order of position");
ROW(all_dkv, "gradients of gathered K and V", SPP_PART_TRANSIENT, "before they are scattered");
ROW(pipe, "pipeline buffers", SPP_PART_TRANSIENT, "on their way to another stage");

enum {
  FORWARD = 1 << SPP_MOMENT_FORWARD,
  LOSS = 1 << SPP_MOMENT_LOSS,
  MLP = 1 << SPP_MOMENT_BACKWARD_MLP,
  NORM = 1 << SPP_MOMENT_BACKWARD_NORM,
  ATTENTION = 1 << SPP_MOMENT_BACKWARD_ATTENTION,
  BACKWARD = MLP | NORM | ATTENTION,
  EMBEDDING = 1 << SPP_MOMENT_BACKWARD_VISION /* last of a backward pass */
};

struct units_view {
  const struct spp_memory_stage *s;
  const struct spp_geometry *g;
  struct spp_memory_sum *sum;
  bool stream_cut; /* the stream is a tp-th of the tokens */
};

static struct units_view view_of(const struct spp_memory_stage *s, struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  return (struct units_view){s, v->g, sum, v->layout->megatron_sp && v->g->tp > 1};
}

static void add(const struct units_view *u, const struct spp_tensor *t, unsigned live, int64_t rows,
                int64_t cols, int64_t copies) {
  if (rows > 0 && cols > 0 && copies > 0)
    spp_memory_add(u->sum, t, live, u->s->view->act, rows, cols, copies);
}

static void add_as(const struct units_view *u, const struct spp_tensor *t, unsigned live, int bytes,
                   int64_t rows, int64_t cols, int64_t copies) {
  enum spp_dtype dtype = bytes == 4 ? SPP_DTYPE_FP32 : u->s->view->act;
  if (rows > 0 && cols > 0 && copies > 0) spp_memory_add(u->sum, t, live, dtype, rows, cols, copies);
}
static void add_fp32(const struct units_view *u, const struct spp_tensor *t, unsigned live, int64_t rows,
                     int64_t cols, int64_t copies) {
  add_as(u, t, live, 4, rows, cols, copies);
}

static int64_t elements(const struct spp_state_counts *c) {
  return spp_sat_add(c->elements, c->expert_elements);
}

/* The largest layer of the running class. */
static int64_t layer_elements(const struct units_view *u, enum spp_layer_class class) {
  const struct spp_memory_view *v = u->s->view;
  int64_t largest = 0;
  for (int k = 0; k < v->job->arch->kind_count; k++)
    if (u->s->stage->kind_layers[k] > 0 && v->job->arch->kinds[k].moe == (class == SPP_LAYER_MOE))
      largest = spp_max64(largest, elements(&v->kinds[k]));
  return largest;
}

/* A unit's weights from stage 3 on, its gradients from stage 2 on. */
static void add_units(const struct units_view *u, enum spp_layer_class class) {
  const struct spp_memory_view *v = u->s->view;
  const struct spp_stage *stage = u->s->stage;
  int64_t layer = layer_elements(u, class);
  int64_t embedding = spp_max64(elements(&v->embedding), elements(&v->position)); /* one after the other */
  int64_t tail = spp_sat_add(elements(&v->head), elements(&v->other));
  if (v->job->arch->tied) tail = spp_sat_add(tail, elements(&v->embedding));
  if (v->regime.shard_weights) add_as(u, &gathered, FORWARD | BACKWARD, v->regime.gather_bytes, layer, 1, 1);
  if (v->regime.shard_grads) add_as(u, &unit_grads, BACKWARD, v->regime.grad_bytes, layer, 1, 1);
  if (stage->first && v->regime.shard_weights)
    add_as(u, &gathered, EMBEDDING, v->regime.gather_bytes, embedding, 1, 1);
  if (stage->first && v->regime.shard_grads)
    add_as(u, &unit_grads, EMBEDDING, v->regime.grad_bytes, embedding, 1, 1);
  if (!stage->last) return;
  if (v->regime.shard_weights) add_as(u, &gathered, LOSS, v->regime.gather_bytes, tail, 1, 1);
  if (v->regime.shard_grads) add_as(u, &unit_grads, LOSS, v->regime.grad_bytes, tail, 1, 1);
}

/* The loss's largest moment: statistics beside the logits, or the gathered input, or whole gradients. */
static void add_loss(const struct units_view *u) {
  if (!u->s->stage->last) return;
  if (u->stream_cut)
    add(u, &whole_stream, LOSS, u->g->tokens, u->s->view->job->arch->hidden, 1);
  else if (!u->s->view->regime.shard_grads)
    add_fp32(u, &statistics, LOSS, u->g->tokens, 1, 3);
}

ROW(scaled, "scaled gradient", SPP_PART_TRANSIENT, "of what a block adds to the stream");

/* What runs again in the running layer's backward. */
struct again {
  bool full, mlp;
};

/* Beside attention's backward: the MLP's gradient where the two are parallel, a scaled copy of the stream's.
 */
static void add_beside(const struct units_view *u, struct again again, bool behind) {
  const struct spp_arch *a = u->s->view->job->arch;
  bool seen = !again.full || (behind && u->stream_cut); /* a rerun takes more */
  if (a->parallel_block) add(u, &norm_grad, ATTENTION, u->g->stream_tokens, a->hidden, 1);
  if (a->residual_scale != 1)
    add(u, &scaled, ATTENTION | (seen ? (unsigned)MLP : 0u), u->g->stream_tokens, a->hidden, 1);
}

/* The output of a layer is whole before it is cut; parallel attention's waits beside it. A norm behind the
 * MLP keeps the piece. A rerun under recompute makes it again beside the gradient. */
static void add_output(const struct units_view *u, struct again again, bool behind) {
  const struct spp_arch *a = u->s->view->job->arch;
  unsigned made = FORWARD | (again.full || again.mlp ? (unsigned)MLP : 0u);
  unsigned piece = behind ? (again.mlp ? (unsigned)MLP : 0u) : made;
  add(u, &stream, made, u->g->tokens, a->hidden, 1);
  if (u->stream_cut && piece) add(u, &stream, piece, u->g->stream_tokens, a->hidden, 1);
  if (a->parallel_block)
    add(u, &stream, FORWARD | (again.full ? (unsigned)MLP : 0u), u->g->stream_tokens, a->hidden, 1);
}

static void add_stream(const struct units_view *u, bool moe, struct again again) {
  const struct spp_arch *a = u->s->view->job->arch;
  int64_t h = a->hidden;
  bool behind = a->norms_behind || a->norms_per_layer >= 4;
  add(u, &residual, BACKWARD | EMBEDDING, u->g->stream_tokens, h, 1);
  add(u, &norm_grad, NORM, u->g->stream_tokens, h, 1);
  add_beside(u, again, behind);
  if (moe) { /* no block of all tokens around the experts */
    if (u->stream_cut) add(u, &whole_stream, ATTENTION | EMBEDDING, u->g->tokens, h, 1);
    return;
  }
  add_output(u, again, behind);
  bool rerun = again.full || again.mlp;
  if (u->stream_cut)
    add(u, &whole_stream, rerun ? ATTENTION | EMBEDDING : MLP | ATTENTION | EMBEDDING, u->g->tokens, h, 1);
}

/* Elements of a mixture at work: what a rank sends and, where ranks share the experts, what arrives, on the
 * way there or back; the gradient of the activation; the sums of a token's rows; what routed experts and what
 * the shared expert keep, whose output only where a gate scales it. */
struct mixture {
  int64_t rows, arriving, activation, sums, routed, shared, output;
  int64_t whole; /* all tokens of a stream that is cut, else 0 */
};
static struct mixture mixture_of(const struct spp_memory_view *v) {
  const struct spp_geometry *g = v->g;
  int64_t routed_rows = spp_expert_rows(v->job, g), h = v->job->arch->hidden;
  int64_t ffn = spp_mlp_width(g, v->kind[SPP_LAYER_MOE], SPP_ROLE_EXPERT);
  int64_t shared_ffn = spp_mlp_width(g, v->kind[SPP_LAYER_MOE], SPP_ROLE_SHARED_EXPERT);
  struct mixture m = {.rows = spp_sat_mul(routed_rows, h),
                      .activation = spp_sat_mul(routed_rows, ffn),
                      .sums = spp_sat_mul(g->stream_tokens, h),
                      .whole = v->layout->megatron_sp && g->tp > 1 ? spp_sat_mul(g->tokens, h) : 0};
  m.arriving = g->ep > 1 ? m.rows : 0;
  m.routed = spp_sat_add(m.rows, spp_sat_mul(m.activation, 3));
  if (shared_ffn == 0) return m;
  m.shared = spp_sat_mul(g->tokens, 3 * shared_ffn);
  m.output = v->job->arch->shared_expert_gate ? m.sums : 0;
  return m;
}

/* Moments of a mixture: rows come back and add up, the shared expert keeping nothing yet; its output is
 * added; it is made again; the rows and the gradient of the activation are there; the gradient of the shared
 * expert's input is added, what routed experts kept being gone. */
struct crest {
  int64_t transient;
  unsigned without; /* of what the layer keeps */
};
static int64_t crest_height(const struct mixture *m, struct crest c) {
  int64_t kept =
      spp_sat_add(c.without & SPP_MIX_SHARED ? 0 : m->shared, c.without & SPP_MIX_OUTPUT ? 0 : m->output);
  return spp_sat_add(spp_sat_add(c.transient, kept), c.without & SPP_MIX_ROUTED ? 0 : m->routed);
}
/* Of equal ones the first counts. */
static void rise(const struct mixture *m, int64_t transient, unsigned without, struct crest *most) {
  const struct crest c = {transient, without};
  if (crest_height(m, c) > crest_height(m, *most)) *most = c;
}

/* The shared expert's output is made: of all tokens, then this rank's piece of the sum. */
static void rise_shared(const struct mixture *m, int64_t beside, struct crest *most) {
  if (m->shared > 0) rise(m, spp_sat_add(spp_sat_add(beside, m->whole), m->sums), SPP_MIX_OUTPUT, most);
}

static struct crest forward_crest(const struct mixture *m) {
  struct crest most = {spp_sat_add(m->rows, spp_max64(m->arriving, m->sums)),
                       SPP_MIX_SHARED | SPP_MIX_OUTPUT};
  rise_shared(m, m->sums, &most);
  return most;
}

/* dropped: SPP_RC_MOE when the forward runs again, SPP_RC_SHARED_EXPERTS when the shared expert's does. */
static struct crest backward_crest(const struct mixture *m, unsigned dropped) {
  struct crest most = {0, SPP_MIX_ROUTED | SPP_MIX_SHARED | SPP_MIX_OUTPUT};
  if (dropped & SPP_RC_MOE)
    most = forward_crest(m);
  else if (dropped & SPP_RC_SHARED_EXPERTS)
    rise_shared(m, 0, &most);
  rise(m, spp_sat_add(m->rows, spp_max64(m->arriving, m->activation)), 0, &most);
  if (m->shared > 0 && m->whole > 0)
    rise(m, spp_sat_add(spp_sat_mul(2, m->sums), m->whole), SPP_MIX_ROUTED, &most);
  return most;
}

static unsigned dropped_of(const struct spp_memory_view *v, bool again) {
  bool selective = v->layout->recompute == SPP_RECOMPUTE_SELECTIVE;
  return (selective ? v->layout->recompute_modules : 0u) | (again ? (unsigned)SPP_RC_MOE : 0u);
}

void spp_memory_mixture_without(const struct spp_memory_view *v, bool again, unsigned without[2]) {
  without[0] = without[1] = 0;
  if (v->job->framework->sharding != SPP_SHARDING_UNITS || !v->kind[SPP_LAYER_MOE]) return;
  const struct mixture m = mixture_of(v);
  without[0] = forward_crest(&m).without;
  without[1] = backward_crest(&m, dropped_of(v, again)).without;
}

static void add_experts(const struct units_view *u, bool again) {
  const struct mixture m = mixture_of(u->s->view);
  add(u, &routed, FORWARD, forward_crest(&m).transient, 1, 1);
  add(u, &routed, MLP, backward_crest(&m, dropped_of(u->s->view, again)).transient, 1, 1);
}

static void add_ring(const struct units_view *u, int64_t kv_width) {
  const struct spp_geometry *g = u->g;
  add(u, &ring_kv, ATTENTION, g->tokens, kv_width, spp_min64(2, g->sr - 1));
  add_fp32(u, &ring_dq, ATTENTION, g->tokens, g->q_width, 1);
  add_fp32(u, &ring_dkv, ATTENTION, g->tokens, kv_width, 2);
}

static void add_attention(const struct units_view *u) {
  const struct spp_geometry *g = u->g;
  int64_t kv_width = spp_sat_mul(g->k_width + g->v_width, g->kv_repeat);
  bool gathers = u->s->view->layout->sp_kind == SPP_SP_ALLGATHER && g->sr > 1;
  add(u, &out_grad, ATTENTION, g->tokens, g->o_width, 1);
  add_fp32(u, &row_sums, ATTENTION, g->tokens, g->heads_local, 1);
  int64_t summed = gathers ? g->q_width : g->q_width + kv_width;
  if (g->sr > 1 && !gathers) /* over the blocks of the ring */
    add_fp32(u, &qkv_grads, ATTENTION, g->tokens, summed, 1);
  else
    add(u, &qkv_grads, ATTENTION, g->tokens, summed, 1);
  if (gathers) {
    add(u, &all_kv, ATTENTION, spp_sat_mul(g->tokens, g->sr), kv_width, 1);
    add(u, &all_dkv, ATTENTION, spp_sat_mul(g->tokens, g->sr), kv_width, 1);
  } else if (g->sr > 1) {
    add_ring(u, kv_width);
  }
}

/* Moments of a set of waits. */
static unsigned moments_of(unsigned at) {
  static const unsigned live[SPP_WAIT_COUNT] = {[SPP_WAIT_FORWARD] = FORWARD,
                                                [SPP_WAIT_BACKWARD] = BACKWARD,
                                                [SPP_WAIT_LOSS] = LOSS,
                                                [SPP_WAIT_END] = EMBEDDING};
  unsigned moments = 0;
  for (int w = 0; w < SPP_WAIT_COUNT; w++)
    if (at >> w & 1) moments |= live[w];
  return moments;
}

/* What is on its way to another stage. */
static void add_pipeline(const struct units_view *u, const struct spp_memory_turn *t) {
  int64_t rows = u->g->stream_tokens, h = u->s->view->job->arch->hidden;
  if (t->sent) add(u, &pipe, moments_of(t->sent), rows, h, 1);
  if (t->returned) add(u, &pipe, moments_of(t->returned), rows, h, 1);
}

void spp_memory_add_unit_transients(const struct spp_memory_stage *s, const struct spp_memory_turn *t,
                                    struct spp_memory_sum *sum) {
  const struct units_view u = view_of(s, sum);
  const struct spp_layout *l = s->view->layout;
  bool mlp = l->recompute == SPP_RECOMPUTE_SELECTIVE && (l->recompute_modules & SPP_RC_MLP);
  bool moe = t->class == SPP_LAYER_MOE;
  add_units(&u, t->class);
  add_loss(&u);
  add_stream(&u, moe, (struct again){t->again, mlp});
  if (moe) add_experts(&u, t->again);
  add_attention(&u);
  add_pipeline(&u, t);
}
