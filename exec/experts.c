/* A mixture of experts in place of the MLP: a router, tokens sent to the ranks that have their experts and
 * back by all-to-all, routing weights applied inside the activation (NVIDIA/Megatron-LM
 * megatron/core/transformer/moe/router.py, token_dispatcher.py, experts.py). How many rows an expert gets
 * does not depend on data, so that memory and messages can be predicted: exec/expert_choice.c. */
#include "exec/expert_rows.h"
#include "exec/try.h"

static const enum spp_part kept_part = SPP_PART_ACTIVATIONS, work_part = SPP_PART_TRANSIENT;

static struct spp_experts experts_of(struct spp_engine *e, const struct spp_unit_use *use, enum spp_pass pass,
                                     struct spp_layer_kept *kept) {
  const struct spp_arch *a = e->arch;
  return (struct spp_experts){.e = e,
                              .ops = e->rank->ops,
                              .q = e->rank->queue,
                              .use = use,
                              .pass = pass,
                              .kept = kept,
                              .tokens = e->g->stream_tokens,
                              .experts = a->experts,
                              .top_k = a->experts_per_token,
                              .hidden = a->hidden,
                              .ffn = a->expert_ffn,
                              .rows = spp_routed_rows(&e->plan->job, e->g),
                              .ranks = e->g->ep,
                              .local = a->experts / e->g->ep};
}

static enum spp_status block(const struct spp_experts *x, enum spp_part part, const char *name,
                             int64_t elements, void **data) {
  return spp_engine_block(x->e, part, name, elements, data);
}
static enum spp_status floats(const struct spp_experts *x, enum spp_part part, const char *name,
                              int64_t count, float **data) {
  return spp_engine_floats(x->e, part, name, count, data);
}
static void drop(const struct spp_experts *x, void *data) {
  spp_heap_free(&x->e->rank->heap, data);
}

/* The row, among those sent, of each choice of each token; -1: none. */
typedef void choice_visit(void *context, int64_t token, int64_t choice, int64_t row);
static void visit_choices(const struct spp_experts *x, choice_visit *visit, void *context) {
  for (int64_t t = 0; t < x->tokens; t++)
    for (int64_t i = 0; i < x->top_k; i++)
      visit(context, t, i, x->choice.rows[t * x->top_k + i]);
}

/* Rows of `width` elements of a storage between ranks: sent as [expert], received as [rank][local expert] and
 * put in the order [local expert][rank], or back. *data is replaced. */
struct exchange {
  const char *what;
  enum spp_storage storage;
  int64_t width;
};
static int64_t row_bytes(const struct exchange *c) {
  return c->width * spp_storage_bytes(c->storage);
}

static enum spp_status swap(const struct spp_experts *x, const struct exchange *c, void **data) {
  void *received;
  SPP_TRY(spp_heap_bytes(&x->e->rank->heap, work_part, "routed rows", x->rows * row_bytes(c), &received,
                         x->e->rank->diag));
  SPP_TRY(spp_group_all_to_all(&x->e->groups.ep, (struct spp_label){c->what, x->pass}, *data, received,
                               x->rows / x->ranks * row_bytes(c), x->e->rank->diag));
  drop(x, *data);
  *data = received;
  return SPP_OK;
}

static enum spp_status reorder(const struct spp_experts *x, const struct exchange *c, bool by_expert,
                               void **data) {
  int64_t each = x->rows / x->experts * row_bytes(c);
  void *ordered;
  if (x->local == 1) return SPP_OK;
  SPP_TRY(spp_heap_bytes(&x->e->rank->heap, work_part, "routed rows", x->rows * row_bytes(c), &ordered,
                         x->e->rank->diag));
  for (int64_t r = 0; r < x->ranks; r++)
    for (int64_t i = 0; i < x->local; i++) {
      int64_t by_rank = r * x->local + i, expert = i * x->ranks + r;
      spp_engine_copy(x->e, (char *)ordered + (by_expert ? expert : by_rank) * each,
                      (char *)*data + (by_expert ? by_rank : expert) * each, each);
    }
  drop(x, *data);
  *data = ordered;
  return SPP_OK;
}

static enum spp_status to_experts(const struct spp_experts *x, const struct exchange *c, void **data) {
  if (x->ranks == 1) return SPP_OK;
  SPP_TRY(swap(x, c, data));
  return reorder(x, c, true, data);
}
static enum spp_status to_tokens(const struct spp_experts *x, const struct exchange *c, void **data) {
  if (x->ranks == 1) return SPP_OK;
  SPP_TRY(reorder(x, c, false, data));
  return swap(x, c, data);
}

static struct exchange rows_of(const struct spp_experts *x, const char *what) {
  return (struct exchange){what, x->e->store, x->hidden};
}
static const struct exchange probabilities = {"routing probabilities", SPP_STORE_F32, 1};

/* Between tokens and rows. */
struct spread {
  const struct spp_experts *x;
  const void *tokens;
  void *sums, *rows;
  float *weights, *gradients;
  const float *probs;
};
static int64_t hidden_bytes(const struct spp_experts *x) {
  return x->hidden * spp_storage_bytes(x->e->store);
}
static void copy_token(void *context, int64_t token, int64_t choice, int64_t row) {
  const struct spread *s = context;
  (void)choice;
  if (row < 0) return;
  spp_engine_copy(s->x->e, spp_engine_at(s->x->e, s->rows, row * s->x->hidden),
                  spp_at_const(s->tokens, s->x->e->store, token * s->x->hidden), hidden_bytes(s->x));
}
static void add_row(void *context, int64_t token, int64_t choice, int64_t row) {
  const struct spread *s = context;
  void *sum = spp_engine_at(s->x->e, s->sums, token * s->x->hidden);
  if (choice == 0 && row < 0) spp_engine_clear(s->x->e, sum, hidden_bytes(s->x));
  if (row < 0) return;
  const void *from = spp_engine_at(s->x->e, s->rows, row * s->x->hidden);
  if (choice == 0)
    spp_engine_copy(s->x->e, sum, from, hidden_bytes(s->x));
  else
    s->x->ops->add(s->x->q, s->x->hidden, s->x->e->store, sum, from, sum);
}

/* Tokens to the ranks of their experts: [routed rows][hidden]. */
static enum spp_status dispatch(const struct spp_experts *x, const char *what, const void *tokens,
                                void **rows) {
  const struct exchange c = rows_of(x, what);
  SPP_TRY(block(x, work_part, "routed rows", x->rows * x->hidden, rows));
  if (x->choice.leaves_room) spp_engine_clear(x->e, *rows, x->rows * hidden_bytes(x));
  visit_choices(x, copy_token, &(struct spread){.x = x, .tokens = tokens, .rows = *rows});
  return to_experts(x, &c, rows);
}

/* Rows back to their tokens, where they add up into `sums`; they are freed. */
static enum spp_status combine(const struct spp_experts *x, const char *what, void *rows, const char *name,
                               void **sums) {
  const struct exchange c = rows_of(x, what);
  SPP_TRY(to_tokens(x, &c, &rows));
  SPP_TRY(block(x, work_part, name, x->tokens * x->hidden, sums));
  visit_choices(x, add_row, &(struct spread){.x = x, .sums = *sums, .rows = rows});
  drop(x, rows);
  return SPP_OK;
}

static struct spp_router router_of(const struct spp_experts *x) {
  const struct spp_arch *a = x->e->arch;
  return (struct spp_router){.tokens = x->tokens,
                             .experts = x->experts,
                             .top_k = x->top_k,
                             .normalise = x->top_k > 1 && a->router_normalise,
                             .sigmoid = a->router_sigmoid,
                             .probs = x->kept->router_probs,
                             .chosen = x->choice.placed};
}

/* What a token's weights are divided by: the sum of its experts' probabilities where they are made to sum to
 * 1; that of a single one is not, or its weight would be 1 and no router trained. */
static float chosen_sum(const struct spp_experts *x, const float *probs, int64_t token) {
  const int32_t *chosen = x->choice.experts + token * x->top_k;
  float sum = 0;
  for (int64_t i = 0; i < x->top_k; i++)
    sum += probs[token * x->experts + chosen[i]];
  return sum;
}
static float scale_of(const struct spp_experts *x) {
  return (float)x->e->arch->routed_scale;
}
static void weigh(void *context, int64_t token, int64_t choice, int64_t row) {
  const struct spread *s = context;
  const struct spp_experts *x = s->x;
  if (row < 0) return;
  int32_t expert = x->choice.experts[token * x->top_k + choice];
  s->weights[row] = scale_of(x) * s->probs[token * x->experts + expert] /
                    (router_of(x).normalise ? chosen_sum(x, s->probs, token) : 1.0F);
}

static struct spp_view routing_view(const struct spp_experts *x, unsigned use) {
  return spp_view_floats(x->kept->routing, x->rows, use);
}

/* The weights of the chosen experts, by row. */
static enum spp_status weigh_choices(const struct spp_experts *x) {
  struct spp_view views[] = {routing_view(x, SPP_VIEW_READ | SPP_VIEW_WRITE),
                             spp_view_floats(x->kept->router_probs, x->tokens * x->experts, SPP_VIEW_READ)};
  if (x->choice.leaves_room)
    spp_engine_clear(x->e, x->kept->routing, x->rows * (int64_t)sizeof *x->kept->routing);
  SPP_TRY(spp_views_open(x->e->rank, views, 2));
  visit_choices(x, weigh, &(struct spread){.x = x, .weights = views[0].data, .probs = views[1].data});
  spp_views_close(x->e->rank, views, 2);
  return SPP_OK;
}

static void weigh_inputs(const struct spp_experts *x) {
  for (int64_t r = 0; r < x->rows && spp_experts_weigh_input(x); r++)
    x->ops->scale(x->q, x->hidden, x->routing[r], spp_engine_at(x->e, x->kept->expert_input, r * x->hidden),
                  x->e->store);
}
/* d(weight) = sum of d(row) * row / weight; the gradient of the token itself is the weight's part of d(row).
 */
static enum spp_status weighed_inputs_back(const struct spp_experts *x, void *drows) {
  float *dots;
  if (!spp_experts_weigh_input(x)) return SPP_OK;
  SPP_TRY(spp_engine_row_dots(x->e, x->rows, x->hidden, drows, x->kept->expert_input, x->hidden, &dots));
  struct spp_view view = spp_view_floats(dots, x->rows, SPP_VIEW_READ);
  SPP_TRY(spp_views_open(x->e->rank, &view, 1));
  const float *dot = view.data;
  for (int64_t r = 0; r < x->rows; r++) {
    float weight = x->routing[r];
    x->ops->scale(x->q, x->hidden, weight, spp_engine_at(x->e, drows, r * x->hidden), x->e->store);
    x->routing[r] = weight > 0 ? dot[r] / weight : 0;
  }
  spp_views_close(x->e->rank, &view, 1);
  drop(x, dots);
  return SPP_OK;
}

static void add_router_bias(const struct spp_experts *x) {
  if (!spp_use_has(x->use, SPP_SLOT_ROUTER_BIAS)) return;
  for (int64_t t = 0; t < x->tokens; t++)
    x->ops->accumulate(x->q, x->experts, 1.0F, spp_use_weight(x->use, SPP_SLOT_ROUTER_BIAS), x->e->store,
                       x->kept->router_logits + t * x->experts);
}
static void router_bias_back(const struct spp_experts *x) {
  if (!spp_use_has(x->use, SPP_SLOT_ROUTER_BIAS)) return;
  x->ops->sum_rows(x->q, x->tokens, x->experts, SPP_STORE_F32, x->kept->router_logits,
                   spp_use_grad(x->use, SPP_SLOT_ROUTER_BIAS));
}

/* Probabilities of all experts; the weights of the chosen ones go where the tokens go. */
static enum spp_status route(struct spp_experts *x, const void *input) {
  struct spp_layer_kept *k = x->kept;
  void *weights;
  SPP_TRY(floats(x, kept_part, "router logits", x->tokens * x->experts, &k->router_logits));
  SPP_TRY(floats(x, kept_part, "router probabilities", x->tokens * x->experts, &k->router_probs));
  SPP_TRY(spp_linear_forward(x->e->rank, x->tokens, x->hidden, x->experts,
                             (struct spp_linear_storage){x->e->store, SPP_STORE_F32}, input,
                             spp_use_weight(x->use, SPP_SLOT_ROUTER), k->router_logits));
  add_router_bias(x);
  struct spp_router router = router_of(x);
  router.logits = k->router_logits;
  x->ops->router_probabilities(x->q, &router);
  SPP_TRY(spp_expert_choice_open(x->e, x->use->unit->layer, k->router_probs, &x->choice));
  SPP_TRY(floats(x, work_part, "routing weights", x->rows, &k->routing));
  SPP_TRY(weigh_choices(x));
  weights = k->routing;
  SPP_TRY(to_experts(x, &probabilities, &weights));
  k->routing = weights;
  return spp_heap_rename(&x->e->rank->heap, weights, kept_part, "experts: routing weights", x->e->rank->diag);
}

/* The experts one after the other, with the routing weights at hand. */
static enum spp_status all_forward(struct spp_experts *x, void *rows) {
  struct spp_view view = routing_view(x, SPP_VIEW_READ);
  SPP_TRY(spp_views_open(x->e->rank, &view, 1));
  enum spp_status status = SPP_OK;
  x->routing = view.data;
  weigh_inputs(x);
  for (int64_t i = 0; i < x->local && status == SPP_OK; i++)
    status = spp_expert_forward(x, i, rows);
  spp_views_close(x->e->rank, &view, 1);
  return status;
}

enum spp_status spp_experts_forward(struct spp_engine *e, const struct spp_unit_use *use, enum spp_pass pass,
                                    struct spp_layer_kept *k, void **out) {
  struct spp_experts x = experts_of(e, use, pass, k);
  void *rows;
  SPP_TRY(route(&x, k->mlp_input));
  SPP_TRY(dispatch(&x, "dispatched tokens", k->mlp_input, &k->expert_input));
  SPP_TRY(
      spp_heap_rename(&e->rank->heap, k->expert_input, kept_part, "experts: permuted input", e->rank->diag));
  SPP_TRY(block(&x, kept_part, "experts: gate and up", 2 * x.rows * x.ffn, &k->gate_up));
  SPP_TRY(block(&x, kept_part, "experts: input of down", x.rows * x.ffn, &k->product));
  SPP_TRY(block(&x, work_part, "routed rows", x.rows * x.hidden, &rows));
  SPP_TRY(all_forward(&x, rows));
  SPP_TRY(combine(&x, "combined tokens", rows, "stream", out));
  spp_expert_choice_close(e, &x.choice);
  return SPP_OK;
}

/* Gradient of a token's choice, next to the others of the token. */
static void gather_gradient(void *context, int64_t token, int64_t choice, int64_t row) {
  const struct spread *s = context;
  s->gradients[token * s->x->top_k + choice] = row < 0 ? 0 : scale_of(s->x) * s->weights[row];
}

static enum spp_status gather_gradients(const struct spp_experts *x, float *gradients) {
  struct spp_view views[] = {routing_view(x, SPP_VIEW_READ),
                             spp_view_floats(gradients, x->tokens * x->top_k, SPP_VIEW_WRITE)};
  SPP_TRY(spp_views_open(x->e->rank, views, 2));
  visit_choices(x, gather_gradient,
                &(struct spread){.x = x, .weights = views[0].data, .gradients = views[1].data});
  spp_views_close(x->e->rank, views, 2);
  return SPP_OK;
}

/* d(routing weights) back to the tokens, through the softmax, into the router's weight and its input. */
static enum spp_status router_back(struct spp_experts *x, void *dx) {
  const struct spp_linear_storage store = {x->e->store, SPP_STORE_F32};
  struct spp_layer_kept *k = x->kept;
  float *gradients;
  void *weights = k->routing;
  SPP_TRY(to_tokens(x, &probabilities, &weights));
  k->routing = weights;
  SPP_TRY(floats(x, work_part, "routing weights", x->tokens * x->top_k, &gradients));
  SPP_TRY(gather_gradients(x, gradients));
  struct spp_router router = router_of(x);
  router.dweights = gradients;
  router.dlogits = k->router_logits;
  x->ops->router_backward(x->q, &router);
  drop(x, gradients);
  router_bias_back(x);
  SPP_TRY(spp_linear_weight(x->e->rank, x->tokens, x->hidden, x->experts, store, k->router_logits,
                            k->mlp_input, spp_use_grad(x->use, SPP_SLOT_ROUTER)));
  return spp_linear_input(x->e->rank, x->tokens, x->hidden, x->experts, store, k->router_logits,
                          spp_use_weight(x->use, SPP_SLOT_ROUTER), true, dx);
}

static void forget(struct spp_experts *x) {
  struct spp_layer_kept *k = x->kept;
  drop(x, k->router_logits);
  drop(x, k->router_probs);
  drop(x, k->routing);
  k->router_logits = k->router_probs = k->routing = NULL;
}

/* Blocks of a mixture that a module of selective recompute covers. */
static void drop_blocks(struct spp_engine *e, void **const blocks[], size_t count) {
  for (size_t i = 0; i < count; i++) {
    spp_heap_free(&e->rank->heap, *blocks[i]);
    *blocks[i] = NULL;
  }
}

void spp_experts_drop(struct spp_engine *e, struct spp_layer_kept *k) {
  bool all = spp_engine_drops(e, SPP_RC_MOE);
  void **const inputs[] = {&k->expert_input, &k->gate_up}, **const product[] = {&k->product},
               **const shared[] = {&k->shared_gate_up, &k->shared_product, &k->shared_out};
  if (all) {
    drop_blocks(e, inputs, 2);
    spp_heap_free(&e->rank->heap, k->router_logits);
    spp_heap_free(&e->rank->heap, k->router_probs);
    spp_heap_free(&e->rank->heap, k->routing);
    k->router_logits = k->router_probs = k->routing = NULL;
  }
  if (all || spp_engine_drops(e, SPP_RC_MOE_ACT)) drop_blocks(e, product, 1);
  if (all || spp_engine_drops(e, SPP_RC_SHARED_EXPERTS)) drop_blocks(e, shared, 3);
}

/* The activation of all experts, from gate and up. */
static enum spp_status activate_again(struct spp_experts *x) {
  struct spp_layer_kept *k = x->kept;
  struct spp_view view = routing_view(x, SPP_VIEW_READ);
  SPP_TRY(block(x, kept_part, "experts: input of down", x->rows * x->ffn, &k->product));
  SPP_TRY(spp_views_open(x->e->rank, &view, 1));
  x->routing = view.data;
  for (int64_t i = 0; i < x->local; i++)
    spp_expert_activate(x, i);
  spp_views_close(x->e->rank, &view, 1);
  return SPP_OK;
}

/* What spp_experts_drop dropped. */
static enum spp_status make_again(struct spp_engine *e, const struct spp_unit_use *use,
                                  struct spp_layer_kept *k) {
  struct spp_experts x = experts_of(e, use, SPP_PASS_RECOMPUTE, k);
  bool shares = spp_use_has(use, SPP_SLOT_SHARED_UP);
  void *out = NULL;
  if (!k->router_probs) SPP_TRY(spp_experts_forward(e, use, SPP_PASS_RECOMPUTE, k, &out));
  if (!k->product) SPP_TRY(activate_again(&x));
  if (shares && !k->shared_gate_up) SPP_TRY(spp_shared_expert_forward(e, use, SPP_PASS_RECOMPUTE, k, out));
  spp_heap_free(&e->rank->heap, out);
  return SPP_OK;
}

/* From the gradient of what the experts gave, which is freed, to that of their input, [routed rows][hidden];
 * the routing weights become their own gradients. */
static enum spp_status all_back(struct spp_experts *x, void *dout, void **drows) {
  struct spp_layer_kept *k = x->kept;
  void *dproduct;
  SPP_TRY(block(x, work_part, "gradients inside the MLP", x->rows * x->ffn, &dproduct));
  for (int64_t i = 0; i < x->local; i++)
    SPP_TRY(spp_expert_activation_back(x, i, dout, dproduct));
  drop(x, dproduct);
  drop(x, dout);
  drop(x, k->product);
  SPP_TRY(block(x, work_part, "routed rows", x->rows * x->hidden, drows));
  for (int64_t i = 0; i < x->local; i++)
    SPP_TRY(spp_expert_inputs_back(x, i, *drows));
  SPP_TRY(weighed_inputs_back(x, *drows));
  drop(x, k->gate_up);
  drop(x, k->expert_input);
  k->product = k->gate_up = k->expert_input = NULL;
  return SPP_OK;
}

enum spp_status spp_experts_backward(struct spp_engine *e, const struct spp_unit_use *use,
                                     struct spp_layer_kept *k, const void *dy, void **dx) {
  struct spp_experts x = experts_of(e, use, SPP_PASS_BACKWARD, k);
  void *dout, *drows = NULL;
  SPP_TRY(make_again(e, use, k));
  SPP_TRY(spp_expert_choice_open(e, use->unit->layer, k->router_probs, &x.choice));
  SPP_TRY(dispatch(&x, "combined tokens", dy, &dout));
  struct spp_view view = routing_view(&x, SPP_VIEW_READ | SPP_VIEW_WRITE);
  SPP_TRY(spp_views_open(e->rank, &view, 1));
  x.routing = view.data;
  enum spp_status status = all_back(&x, dout, &drows);
  spp_views_close(e->rank, &view, 1);
  if (status != SPP_OK) return status;
  SPP_TRY(combine(&x, "dispatched tokens", drows, "norm backward", dx));
  SPP_TRY(router_back(&x, *dx));
  if (spp_use_has(use, SPP_SLOT_SHARED_UP)) SPP_TRY(spp_shared_expert_backward(e, use, k, dy, *dx));
  spp_expert_choice_close(e, &x.choice);
  forget(&x);
  return SPP_OK;
}
