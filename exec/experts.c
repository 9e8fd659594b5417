/* A mixture of experts in place of the MLP: softmax router, tokens sent to the ranks that have their experts
 * and back by all-to-all, routing weights applied inside the activation, nothing dropped (NVIDIA/Megatron-LM
 * megatron/core/transformer/moe/router.py, token_dispatcher.py, experts.py).
 *
 * Which experts a token visits is fixed by its position, so that each gets as many tokens from each rank:
 * expert (position * k + i) mod E for i < k. The router's probabilities of those experts, made to sum to 1
 * where there are several, weigh their outputs and carry its gradient. A run that chose the k largest could
 * be compared with one rank too, but not with a prediction, which knows no data (Megatron-LM:
 * --moe-router-force-load-balancing). */
#include <string.h>

#include "exec/engine.h"
#include "exec/try.h"
#include "kernels/router.h"

static const enum spp_part kept_part = SPP_PART_ACTIVATIONS, work_part = SPP_PART_TRANSIENT;

struct experts {
  struct spp_engine *e;
  const struct spp_ops *ops;
  const struct spp_unit_use *use;
  enum spp_pass pass;
  struct spp_layer_kept *kept;
  int64_t tokens, experts, top_k, hidden, ffn;
  int64_t rows;  /* routed: sent, and received */
  int64_t ranks; /* that share the experts */
  int64_t local; /* experts of this rank */
};

static struct experts experts_of(struct spp_engine *e, const struct spp_unit_use *use, enum spp_pass pass,
                                 struct spp_layer_kept *kept) {
  const struct spp_arch *a = e->arch;
  return (struct experts){.e = e,
                          .ops = e->rank->kernels->ops,
                          .use = use,
                          .pass = pass,
                          .kept = kept,
                          .tokens = e->g->stream_tokens,
                          .experts = a->experts,
                          .top_k = a->experts_per_token,
                          .hidden = a->hidden,
                          .ffn = a->expert_ffn,
                          .rows = e->g->stream_tokens * a->experts_per_token,
                          .ranks = e->g->ep,
                          .local = a->experts / e->g->ep};
}

/* Expert i of a token of this rank's stream. */
static int64_t expert_of(const struct spp_engine *e, int64_t token, int64_t i) {
  const struct spp_sequence_cut *cut = &e->attention.cut;
  int64_t first = e->plan->layout.megatron_sp ? e->groups.tp_rank * e->g->stream_tokens : 0;
  int64_t place =
      spp_sequence_position(cut, e->groups.ulysses_rank, e->groups.ring_rank, first + token) % cut->tokens;
  return (place * e->arch->experts_per_token + i) % e->arch->experts;
}

enum spp_status spp_experts_check(const struct spp_engine *e, struct spp_diag *diag) {
  int64_t counts[SPP_ENGINE_MAX_EXPERTS] = {0}, experts = e->arch->experts,
          top_k = e->arch->experts_per_token;
  if (experts > SPP_ENGINE_MAX_EXPERTS || top_k > SPP_ROUTER_MAX_TOP_K)
    return spp_diag_set(diag, SPP_ERR_ABSENT, NULL, "choose a smaller model",
                        "the engine cannot run more than %d experts", SPP_ENGINE_MAX_EXPERTS);
  for (int64_t t = 0; t < e->g->stream_tokens; t++)
    for (int64_t i = 0; i < top_k; i++)
      counts[expert_of(e, t, i)]++;
  for (int64_t x = 0; x < experts; x++)
    if (counts[x] * experts != e->g->stream_tokens * top_k)
      return spp_diag_set(diag, SPP_ERR_USAGE, "--seq",
                          "choose a length that splits into multiples of experts / k",
                          "the %lld tokens of a rank do not spread evenly over %lld experts, %lld each",
                          (long long)e->g->stream_tokens, (long long)experts, (long long)top_k);
  return SPP_OK;
}

static enum spp_status block(const struct experts *x, enum spp_part part, const char *name, int64_t elements,
                             void **data) {
  return spp_engine_block(x->e, part, name, elements, data);
}
static enum spp_status floats(const struct experts *x, enum spp_part part, const char *name, int64_t count,
                              float **data) {
  return spp_engine_floats(x->e, part, name, count, data);
}
static void drop(const struct experts *x, void *data) {
  spp_heap_free(&x->e->rank->heap, data);
}

/* The row, among those sent, of each choice of each token: expert after expert, tokens in order. */
typedef void choice_visit(void *context, int64_t token, int64_t choice, int64_t expert, int64_t row);
static void visit_choices(const struct experts *x, choice_visit *visit, void *context) {
  int64_t next[SPP_ENGINE_MAX_EXPERTS], each = x->rows / x->experts;
  for (int64_t i = 0; i < x->experts; i++)
    next[i] = i * each;
  for (int64_t t = 0; t < x->tokens; t++)
    for (int64_t i = 0; i < x->top_k; i++) {
      int64_t expert = expert_of(x->e, t, i);
      visit(context, t, i, expert, next[expert]++);
    }
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

static enum spp_status swap(const struct experts *x, const struct exchange *c, void **data) {
  void *received;
  SPP_TRY(spp_heap_bytes(&x->e->rank->heap, work_part, "routed rows", x->rows * row_bytes(c), &received,
                         x->e->rank->diag));
  SPP_TRY(spp_group_all_to_all(&x->e->groups.ep, (struct spp_label){c->what, x->pass}, *data, received,
                               x->rows / x->ranks * row_bytes(c), x->e->rank->diag));
  drop(x, *data);
  *data = received;
  return SPP_OK;
}

static enum spp_status reorder(const struct experts *x, const struct exchange *c, bool by_expert,
                               void **data) {
  size_t each = (size_t)(x->rows / x->experts * row_bytes(c));
  void *ordered;
  if (x->local == 1) return SPP_OK;
  SPP_TRY(spp_heap_bytes(&x->e->rank->heap, work_part, "routed rows", x->rows * row_bytes(c), &ordered,
                         x->e->rank->diag));
  for (int64_t r = 0; r < x->ranks; r++)
    for (int64_t i = 0; i < x->local; i++) {
      size_t by_rank = (size_t)(r * x->local + i), expert = (size_t)(i * x->ranks + r);
      memcpy((char *)ordered + (by_expert ? expert : by_rank) * each,
             (char *)*data + (by_expert ? by_rank : expert) * each, each);
    }
  drop(x, *data);
  *data = ordered;
  return SPP_OK;
}

static enum spp_status to_experts(const struct experts *x, const struct exchange *c, void **data) {
  if (x->ranks == 1) return SPP_OK;
  SPP_TRY(swap(x, c, data));
  return reorder(x, c, true, data);
}
static enum spp_status to_tokens(const struct experts *x, const struct exchange *c, void **data) {
  if (x->ranks == 1) return SPP_OK;
  SPP_TRY(reorder(x, c, false, data));
  return swap(x, c, data);
}

static struct exchange rows_of(const struct experts *x, const char *what) {
  return (struct exchange){what, x->e->store, x->hidden};
}
static const struct exchange probabilities = {"routing probabilities", SPP_STORE_F32, 1};

/* Between tokens and rows. */
struct spread {
  const struct experts *x;
  const void *tokens;
  void *sums, *rows;
  float *weights, *gradients;
};
static size_t hidden_bytes(const struct experts *x) {
  return (size_t)(x->hidden * spp_storage_bytes(x->e->store));
}
static void copy_token(void *context, int64_t token, int64_t choice, int64_t expert, int64_t row) {
  const struct spread *s = context;
  (void)choice, (void)expert;
  memcpy(spp_engine_at(s->x->e, s->rows, row * s->x->hidden),
         spp_at_const(s->tokens, s->x->e->store, token * s->x->hidden), hidden_bytes(s->x));
}
static void add_row(void *context, int64_t token, int64_t choice, int64_t expert, int64_t row) {
  const struct spread *s = context;
  void *sum = spp_engine_at(s->x->e, s->sums, token * s->x->hidden);
  const void *from = spp_engine_at(s->x->e, s->rows, row * s->x->hidden);
  (void)expert;
  if (choice == 0)
    memcpy(sum, from, hidden_bytes(s->x));
  else
    s->x->ops->add(s->x->hidden, s->x->e->store, sum, from, sum);
}

/* Tokens to the ranks of their experts: [routed rows][hidden]. */
static enum spp_status dispatch(const struct experts *x, const char *what, const void *tokens, void **rows) {
  const struct exchange c = rows_of(x, what);
  SPP_TRY(block(x, work_part, "routed rows", x->rows * x->hidden, rows));
  visit_choices(x, copy_token, &(struct spread){.x = x, .tokens = tokens, .rows = *rows});
  return to_experts(x, &c, rows);
}

/* Rows back to their tokens, where they add up into `sums`; they are freed. */
static enum spp_status combine(const struct experts *x, const char *what, void *rows, const char *name,
                               void **sums) {
  const struct exchange c = rows_of(x, what);
  SPP_TRY(to_tokens(x, &c, &rows));
  SPP_TRY(block(x, work_part, name, x->tokens * x->hidden, sums));
  visit_choices(x, add_row, &(struct spread){.x = x, .sums = *sums, .rows = rows});
  drop(x, rows);
  return SPP_OK;
}

/* What a token's weights are divided by: the sum of its experts' probabilities, which a single one is not
 * (or its weight would be 1 and no router trained). */
static float chosen_sum(const struct experts *x, int64_t token) {
  float sum = 0;
  if (x->top_k == 1) return 1;
  for (int64_t i = 0; i < x->top_k; i++)
    sum += x->kept->router_probs[token * x->experts + expert_of(x->e, token, i)];
  return sum;
}
static void weigh(void *context, int64_t token, int64_t choice, int64_t expert, int64_t row) {
  const struct spread *s = context;
  (void)choice;
  s->weights[row] = s->x->kept->router_probs[token * s->x->experts + expert] / chosen_sum(s->x, token);
}

/* Probabilities of all experts; the weights of the chosen ones go where the tokens go. */
static enum spp_status route(struct experts *x, const void *input) {
  struct spp_layer_kept *k = x->kept;
  void *weights;
  SPP_TRY(floats(x, kept_part, "router logits", x->tokens * x->experts, &k->router_logits));
  SPP_TRY(floats(x, kept_part, "router probabilities", x->tokens * x->experts, &k->router_probs));
  SPP_TRY(spp_linear_forward(x->e->rank, x->tokens, x->hidden, x->experts,
                             (struct spp_linear_storage){x->e->store, SPP_STORE_F32}, input,
                             spp_use_weight(x->use, SPP_SLOT_ROUTER), k->router_logits));
  x->ops->softmax(x->tokens, x->experts, k->router_logits, k->router_probs);
  SPP_TRY(floats(x, work_part, "routing weights", x->rows, &k->routing));
  visit_choices(x, weigh, &(struct spread){.x = x, .weights = k->routing});
  weights = k->routing;
  SPP_TRY(to_experts(x, &probabilities, &weights));
  k->routing = weights;
  return spp_heap_rename(&x->e->rank->heap, weights, kept_part, "experts: routing weights", x->e->rank->diag);
}

/* One expert's rows. */
static enum spp_status expert_forward(const struct experts *x, int64_t i, void *out) {
  const struct spp_linear_storage store = spp_linear_in(x->e->store);
  struct spp_layer_kept *k = x->kept;
  int64_t n = x->rows / x->local, row = i * n, matrix = i * x->ffn * x->hidden;
  const void *input = spp_engine_at(x->e, k->expert_input, row * x->hidden);
  void *gate = spp_engine_at(x->e, k->gate_up, row * x->ffn),
       *up = spp_engine_at(x->e, k->gate_up, (x->rows + row) * x->ffn),
       *product = spp_engine_at(x->e, k->product, row * x->ffn);
  const void *gate_w = spp_at_const(spp_use_weight(x->use, SPP_SLOT_EXPERT_GATE), x->e->store, matrix),
             *up_w = spp_at_const(spp_use_weight(x->use, SPP_SLOT_EXPERT_UP), x->e->store, matrix),
             *down_w = spp_at_const(spp_use_weight(x->use, SPP_SLOT_EXPERT_DOWN), x->e->store, matrix);
  SPP_TRY(spp_linear_forward(x->e->rank, n, x->hidden, x->ffn, store, input, gate_w, gate));
  SPP_TRY(spp_linear_forward(x->e->rank, n, x->hidden, x->ffn, store, input, up_w, up));
  x->ops->swiglu_forward(n * x->ffn, x->e->store, gate, up, product);
  for (int64_t r = 0; r < n; r++)
    x->ops->scale(x->ffn, k->routing[row + r], spp_engine_at(x->e, product, r * x->ffn), x->e->store);
  return spp_linear_forward(x->e->rank, n, x->ffn, x->hidden, store, product, down_w,
                            spp_engine_at(x->e, out, row * x->hidden));
}

enum spp_status spp_experts_forward(struct spp_engine *e, const struct spp_unit_use *use, enum spp_pass pass,
                                    struct spp_layer_kept *k, void **out) {
  struct experts x = experts_of(e, use, pass, k);
  void *rows;
  SPP_TRY(route(&x, k->normed2));
  SPP_TRY(dispatch(&x, "dispatched tokens", k->normed2, &k->expert_input));
  SPP_TRY(
      spp_heap_rename(&e->rank->heap, k->expert_input, kept_part, "experts: permuted input", e->rank->diag));
  SPP_TRY(block(&x, kept_part, "experts: gate and up", 2 * x.rows * x.ffn, &k->gate_up));
  SPP_TRY(block(&x, kept_part, "experts: input of down", x.rows * x.ffn, &k->product));
  SPP_TRY(block(&x, work_part, "routed rows", x.rows * x.hidden, &rows));
  for (int64_t i = 0; i < x.local; i++)
    SPP_TRY(expert_forward(&x, i, rows));
  return combine(&x, "combined tokens", rows, "stream", out);
}

/* down and the weighted activation of one expert: gate and up become their gradients, the routing weights
 * theirs. d(weight) = sum of d(product) * product / weight. */
static enum spp_status activation_back(const struct experts *x, int64_t i, const void *dout, void *dproduct) {
  const struct spp_linear_storage store = spp_linear_in(x->e->store);
  struct spp_layer_kept *k = x->kept;
  int64_t n = x->rows / x->local, row = i * n, matrix = i * x->ffn * x->hidden;
  const void *dy = spp_at_const(dout, x->e->store, row * x->hidden);
  void *product = spp_engine_at(x->e, k->product, row * x->ffn),
       *d = spp_engine_at(x->e, dproduct, row * x->ffn);
  void *gate = spp_engine_at(x->e, k->gate_up, row * x->ffn),
       *up = spp_engine_at(x->e, k->gate_up, (x->rows + row) * x->ffn);
  SPP_TRY(spp_linear_weight(x->e->rank, n, x->ffn, x->hidden, store, dy, product,
                            spp_use_grad(x->use, SPP_SLOT_EXPERT_DOWN) + matrix));
  SPP_TRY(spp_linear_input(x->e->rank, n, x->ffn, x->hidden, store, dy,
                           spp_at_const(spp_use_weight(x->use, SPP_SLOT_EXPERT_DOWN), x->e->store, matrix),
                           false, d));
  for (int64_t r = 0; r < n; r++) {
    float weight = k->routing[row + r], dot;
    void *d_row = spp_engine_at(x->e, d, r * x->ffn);
    x->ops->row_dots(1, x->ffn, d_row, x->ffn, x->e->store, spp_engine_at(x->e, product, r * x->ffn), x->ffn,
                     x->e->store, &dot, 1);
    x->ops->scale(x->ffn, weight, d_row, x->e->store);
    k->routing[row + r] = weight > 0 ? dot / weight : 0;
  }
  x->ops->swiglu_backward(n * x->ffn, x->e->store, gate, up, d, gate, up);
  return SPP_OK;
}

/* Gate and up of one expert, whose gradients lie in gate_up. */
static enum spp_status inputs_back(const struct experts *x, int64_t i, void *drows) {
  static const enum spp_slot slots[] = {SPP_SLOT_EXPERT_GATE, SPP_SLOT_EXPERT_UP};
  const struct spp_linear_storage store = spp_linear_in(x->e->store);
  int64_t n = x->rows / x->local, row = i * n, matrix = i * x->ffn * x->hidden;
  for (int s = 0; s < 2; s++) {
    const void *dy = spp_engine_at(x->e, x->kept->gate_up, (s * x->rows + row) * x->ffn);
    SPP_TRY(spp_linear_weight(x->e->rank, n, x->hidden, x->ffn, store, dy,
                              spp_engine_at(x->e, x->kept->expert_input, row * x->hidden),
                              spp_use_grad(x->use, slots[s]) + matrix));
    SPP_TRY(spp_linear_input(x->e->rank, n, x->hidden, x->ffn, store, dy,
                             spp_at_const(spp_use_weight(x->use, slots[s]), x->e->store, matrix), s > 0,
                             spp_engine_at(x->e, drows, row * x->hidden)));
  }
  return SPP_OK;
}

/* Gradient of a token's choice, next to the others of the token. */
static void gather_gradient(void *context, int64_t token, int64_t choice, int64_t expert, int64_t row) {
  const struct spread *s = context;
  (void)expert;
  s->gradients[token * s->x->top_k + choice] = s->weights[row];
}

/* d(routing weights) back to the tokens, through the softmax, into the router's weight and its input. */
static enum spp_status router_back(struct experts *x, void *dx) {
  const struct spp_linear_storage store = {x->e->store, SPP_STORE_F32};
  struct spp_layer_kept *k = x->kept;
  float *gradients;
  void *weights = k->routing;
  SPP_TRY(to_tokens(x, &probabilities, &weights));
  k->routing = weights;
  SPP_TRY(floats(x, work_part, "routing weights", x->rows, &gradients));
  visit_choices(x, gather_gradient, &(struct spread){.x = x, .weights = k->routing, .gradients = gradients});
  for (int64_t t = 0; t < x->tokens; t++) {
    int32_t chosen[SPP_ROUTER_MAX_TOP_K];
    for (int64_t i = 0; i < x->top_k; i++)
      chosen[i] = (int32_t)expert_of(x->e, t, i);
    spp_router_backward(&(struct spp_router){.tokens = 1,
                                             .experts = x->experts,
                                             .top_k = x->top_k,
                                             .normalise = x->top_k > 1,
                                             .probs = k->router_probs + t * x->experts,
                                             .chosen = chosen,
                                             .dweights = gradients + t * x->top_k,
                                             .dlogits = k->router_logits + t * x->experts});
  }
  drop(x, gradients);
  SPP_TRY(spp_linear_weight(x->e->rank, x->tokens, x->hidden, x->experts, store, k->router_logits, k->normed2,
                            spp_use_grad(x->use, SPP_SLOT_ROUTER)));
  return spp_linear_input(x->e->rank, x->tokens, x->hidden, x->experts, store, k->router_logits,
                          spp_use_weight(x->use, SPP_SLOT_ROUTER), true, dx);
}

static void forget(struct experts *x) {
  struct spp_layer_kept *k = x->kept;
  drop(x, k->router_logits);
  drop(x, k->router_probs);
  drop(x, k->routing);
  drop(x, k->normed2);
  k->router_logits = k->router_probs = k->routing = NULL;
  k->normed2 = NULL;
}

enum spp_status spp_experts_backward(struct spp_engine *e, const struct spp_unit_use *use,
                                     struct spp_layer_kept *k, const void *dy, void **dx) {
  struct experts x = experts_of(e, use, SPP_PASS_BACKWARD, k);
  void *dout, *dproduct, *drows;
  SPP_TRY(dispatch(&x, "combined tokens", dy, &dout));
  SPP_TRY(block(&x, work_part, "gradients inside the MLP", x.rows * x.ffn, &dproduct));
  for (int64_t i = 0; i < x.local; i++)
    SPP_TRY(activation_back(&x, i, dout, dproduct));
  drop(&x, dproduct);
  drop(&x, dout);
  drop(&x, k->product);
  SPP_TRY(block(&x, work_part, "routed rows", x.rows * x.hidden, &drows));
  for (int64_t i = 0; i < x.local; i++)
    SPP_TRY(inputs_back(&x, i, drows));
  drop(&x, k->gate_up);
  drop(&x, k->expert_input);
  k->product = k->gate_up = k->expert_input = NULL;
  SPP_TRY(combine(&x, "dispatched tokens", drows, "norm backward", dx));
  SPP_TRY(router_back(&x, *dx));
  forget(&x);
  return SPP_OK;
}
