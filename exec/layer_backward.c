/* Backward of one decoder layer: the walk of exec/layer_forward.c from the end. Each tensor is freed as soon
 * as nothing needs it; what stands behind a branch, when the branch's backward is over. */
#include "exec/layer_shape.h"
#include "exec/layer_work.h"
#include "exec/try.h"

/* One layer on its way back. */
struct walk {
  struct spp_layer_work w;
  struct spp_layer_shape shape;
};

static struct spp_branch_kept *branch_of(const struct walk *b, int i) {
  bool shared = i > 0 && spp_layer_shares_norm(&b->shape);
  return &b->w.kept->branch[shared ? 0 : i];
}
/* The stream that branch i reads, or its norm does. */
static void **stream_of(const struct walk *b, int i) {
  struct spp_layer_kept *k = b->w.kept;
  return i == SPP_BRANCH_MLP && !b->shape.parallel ? &k->middle : &k->input;
}

/* Gradient of the branch's output from that of the layer's: through the norm behind it, over that norm's
 * input, or scaled in a block of its own. */
static enum spp_status enter(const struct walk *b, int i, const void *dy, const void **inner, void **scaled) {
  const struct spp_layer_work *w = &b->w;
  struct spp_branch_kept *k = &w->kept->branch[i];
  double scale = w->e->arch->residual_scale;
  int64_t n = spp_stream_elements(w->e);
  *inner = dy;
  *scaled = NULL;
  if (scale != 1) {
    SPP_TRY(spp_engine_block(w->e, SPP_PART_TRANSIENT, "scaled gradient", n, scaled));
    w->ops->convert(w->q, n, dy, w->e->store, *scaled, w->e->store);
    w->ops->scale(w->q, n, (float)scale, *scaled, w->e->store);
    *inner = *scaled;
  }
  if (b->shape.behind[i] == SPP_SLOT_COUNT) return SPP_OK;
  spp_stream_norm_grad_over(w, b->shape.behind[i], k->output, k->output_stats, *inner);
  *inner = k->output;
  return SPP_OK;
}

static void leave(const struct walk *b, int i, void *scaled) {
  struct spp_branch_kept *k = &b->w.kept->branch[i];
  spp_layer_drop(&b->w, &k->output);
  spp_layer_drop_floats(&b->w, &k->output_stats);
  spp_heap_free(&b->w.e->rank->heap, scaled);
}

/* What branch i read, made again where selective recompute dropped it; *spare: freed when its backward has
 * read it, unless the other branch reads it later. */
static enum spp_status input_of(const struct walk *b, int i, const void **x, void ***spare) {
  const struct spp_layer_work *w = &b->w;
  static const char *const names[2] = {"input norm: output", "post-attention norm: output"};
  struct spp_branch_kept *k = branch_of(b, i);
  bool later = i == SPP_BRANCH_MLP && (spp_layer_shares_norm(&b->shape));
  *spare = later ? NULL : &k->normed;
  if (b->shape.before[i] == SPP_SLOT_COUNT) {
    *spare = stream_of(b, i);
    *x = **spare;
    return SPP_OK;
  }
  if (!k->normed) {
    SPP_TRY(spp_engine_block(w->e, SPP_PART_ACTIVATIONS, names[i], spp_stream_elements(w->e), &k->normed));
    spp_stream_norm(w, b->shape.before[i], *stream_of(b, i), k->normed, k->stats);
  }
  *x = k->normed;
  return SPP_OK;
}

/* Gradient of what branch i read. */
static enum spp_status branch_back(const struct walk *b, int i, const void *dy, void **dx) {
  const void *inner, *x;
  void *scaled, **spare;
  SPP_TRY(enter(b, i, dy, &inner, &scaled));
  SPP_TRY(input_of(b, i, &x, &spare));
  if (i == SPP_BRANCH_MLP) {
    b->w.kept->mlp_input = x;
    SPP_TRY(spp_layer_mlp_backward(&b->w, spare, inner, dx));
  } else {
    SPP_TRY(spp_layer_attention_backward(&b->w, x, spare, inner, dx));
  }
  leave(b, i, scaled);
  return SPP_OK;
}

/* In place through the norm before branch i, whose statistics are done with. */
static void norm_back(const struct walk *b, int i, void *d) {
  struct spp_branch_kept *k = branch_of(b, i);
  if (b->shape.before[i] == SPP_SLOT_COUNT) return;
  spp_stream_norm_grad(&b->w, b->shape.before[i], *stream_of(b, i), k->stats, d);
  spp_layer_drop_floats(&b->w, &k->stats);
}

static void add_to(const struct walk *b, void *sum, void **d) {
  b->w.ops->add(b->w.q, spp_stream_elements(b->w.e), b->w.e->store, sum, *d, sum);
  spp_layer_drop(&b->w, d);
}

/* The MLP's gradient, added to that of the stream; beside attention it waits in *aside, before the norm if
 * that is attention's too. */
static enum spp_status mlp_back(const struct walk *b, void *dy, void **aside) {
  void *inner;
  b->w.e->rank->heap.moment = SPP_MOMENT_BACKWARD_MLP;
  SPP_TRY(branch_back(b, SPP_BRANCH_MLP, dy, &inner));
  b->w.e->rank->heap.moment = SPP_MOMENT_BACKWARD_NORM;
  if (!spp_layer_shares_norm(&b->shape)) norm_back(b, SPP_BRANCH_MLP, inner);
  *aside = inner;
  if (b->shape.parallel) return SPP_OK;
  add_to(b, dy, aside);
  spp_layer_drop(&b->w, stream_of(b, SPP_BRANCH_MLP));
  return SPP_OK;
}

enum spp_status spp_layer_backward(struct spp_engine *e, const struct spp_unit_use *use,
                                   struct spp_layer_kept *kept, void **dy) {
  const struct walk b = {spp_layer_work_of(e, use, SPP_PASS_BACKWARD, kept), spp_layer_shape_of(e->arch)};
  void *inner, *aside;
  spp_engine_turn_to(e, use->unit);
  SPP_TRY(mlp_back(&b, *dy, &aside));
  e->rank->heap.moment = SPP_MOMENT_BACKWARD_ATTENTION;
  SPP_TRY(branch_back(&b, SPP_BRANCH_ATTENTION, *dy, &inner));
  e->rank->heap.moment = SPP_MOMENT_BACKWARD_NORM;
  if (aside) add_to(&b, spp_layer_shares_norm(&b.shape) ? inner : *dy, &aside);
  norm_back(&b, SPP_BRANCH_ATTENTION, inner);
  add_to(&b, *dy, &inner);
  spp_layer_drop(&b.w, &kept->input);
  return SPP_OK;
}
