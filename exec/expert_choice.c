#include "exec/expert_choice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "exec/try.h"

static double capacity(const struct spp_engine *e) {
  return e->plan->job.expert_capacity;
}

/* Position, over all sequences of the micro-batch, of a token of this rank's stream. */
static int64_t place_of(const struct spp_engine *e, int64_t token) {
  int64_t first = e->plan->layout.megatron_sp ? e->groups.tp_rank * e->g->stream_tokens : 0;
  return spp_sequence_position(&e->attention.cut, e->groups.ulysses_rank, e->groups.ring_rank, first + token);
}

static int64_t balanced_expert(const struct spp_engine *e, int64_t token, int64_t i) {
  int64_t place = place_of(e, token) % e->attention.cut.tokens;
  return (place * e->arch->experts_per_token + i) % e->arch->experts;
}

static enum spp_status check_balance(const struct spp_engine *e, struct spp_diag *diag) {
  int64_t counts[SPP_ENGINE_MAX_EXPERTS] = {0}, experts = e->arch->experts,
          top_k = e->arch->experts_per_token;
  for (int64_t t = 0; t < e->g->stream_tokens; t++)
    for (int64_t i = 0; i < top_k; i++)
      counts[balanced_expert(e, t, i)]++;
  for (int64_t x = 0; x < experts; x++)
    if (counts[x] * experts != e->g->stream_tokens * top_k)
      return spp_diag_set(diag, SPP_ERR_USAGE, "--seq",
                          "choose a length that splits into multiples of experts / k",
                          "the %lld tokens of a rank do not spread evenly over %lld experts, %lld each",
                          (long long)e->g->stream_tokens, (long long)experts, (long long)top_k);
  return SPP_OK;
}

/* Rows of one expert that `tokens` tokens make room for. */
static double room(const struct spp_engine *e, int64_t tokens) {
  return capacity(e) * (double)(tokens * e->arch->experts_per_token) / (double)e->arch->experts;
}
static bool is_whole(double x) {
  return x > 0.5 && fabs(x - round(x)) < 1e-6;
}

static enum spp_status check_capacity(const struct spp_engine *e, struct spp_diag *diag) {
  int64_t group = e->plan->expert_group_tokens;
  bool whole = e->attention.cut.tokens % group == 0 && e->g->stream_tokens % group == 0;
  if (is_whole(room(e, 1)) || (whole && is_whole(room(e, group)))) return SPP_OK;
  return spp_diag_set(diag, SPP_ERR_USAGE, "--moe-capacity",
                      "choose another length, or experts / k as capacity",
                      "%lld tokens that are together on a rank make room for %g rows of an expert",
                      (long long)group, room(e, group));
}

enum spp_status spp_experts_check(const struct spp_engine *e, struct spp_diag *diag) {
  if (e->arch->experts > SPP_ENGINE_MAX_EXPERTS || e->arch->experts_per_token > SPP_ROUTER_MAX_TOP_K)
    return spp_diag_set(diag, SPP_ERR_ABSENT, NULL, "choose a smaller model",
                        "the engine cannot run more than %d experts", SPP_ENGINE_MAX_EXPERTS);
  return capacity(e) > 0 ? check_capacity(e, diag) : check_balance(e, diag);
}

static void choose_balanced(const struct spp_engine *e, struct spp_expert_choice *c) {
  int64_t next[SPP_ENGINE_MAX_EXPERTS], k = e->arch->experts_per_token, experts = e->arch->experts;
  int64_t each = e->g->stream_tokens * k / experts;
  for (int64_t i = 0; i < experts; i++)
    next[i] = i * each;
  for (int64_t t = 0; t < e->g->stream_tokens; t++)
    for (int64_t i = 0; i < k; i++) {
      c->experts[t * k + i] = (int32_t)balanced_expert(e, t, i);
      c->rows[t * k + i] = (int32_t)next[c->experts[t * k + i]]++;
    }
}

/* What another run chose for this token, or where this one's choice goes; NULL: not known (padding). */
static int16_t *route_of(const struct spp_engine *e, int64_t layer, int64_t token) {
  const struct spp_routes *r = e->routes;
  int64_t place = place_of(e, token), tokens = e->attention.cut.tokens;
  int64_t sequence = e->batch.first_sequence + place / tokens;
  if (!r || place % tokens >= r->tokens || sequence >= r->sequences) return NULL;
  return r->chosen +
         (((e->step * r->layers + layer) * r->sequences + sequence) * r->tokens + place % tokens) * r->top_k;
}

static void follow_route(struct spp_engine *e, const float *probs, int16_t *route, int32_t *chosen) {
  if (e->follows && route[0] == SPP_NO_ROUTE) return; /* padding there was none of */
  for (int64_t i = 0; i < e->arch->experts_per_token; i++) {
    if (!e->follows) {
      route[i] = (int16_t)chosen[i];
      continue;
    }
    double own = (double)probs[chosen[i]], theirs = (double)probs[route[i]];
    e->passed = fmax(e->passed, fabs(own - theirs) / fmax(own, theirs));
    chosen[i] = route[i];
  }
}

/* Of the groups whose one or, where experts score by themselves, two best score most (modeling_deepseek_v2.py
 * DeepseekV2TopkRouter, modeling_deepseek_v3.py DeepseekV3TopkRouter). */
static void choose(const struct spp_arch *a, const float *probs, int32_t *chosen) {
  const struct spp_router_groups groups = {a->router_groups, a->router_open, a->router_sigmoid ? 2 : 1};
  if (a->router_groups > 0)
    spp_router_choose_in_groups(probs, a->experts, &groups, a->experts_per_token, chosen);
  else
    spp_router_choose(probs, a->experts, a->experts_per_token, chosen);
}

/* Rows of a group stand together in each expert's; the group's tokens take them in order. */
static void choose_by_score(struct spp_engine *e, int64_t layer, const float *probs,
                            struct spp_expert_choice *c) {
  int64_t taken[SPP_ENGINE_MAX_EXPERTS] = {0}, k = e->arch->experts_per_token, experts = e->arch->experts;
  int64_t each = spp_routed_rows(&e->plan->job, e->g) / experts, group = -1, first = 0, rows = 0;
  for (int64_t t = 0; t < e->g->stream_tokens; t++) {
    int64_t place = place_of(e, t), tokens = e->attention.cut.tokens;
    int64_t here = place / tokens * tokens + place % tokens / e->plan->expert_group_tokens;
    if (here != group) {
      memset(taken, 0, sizeof taken);
      group = here;
      first = (int64_t)llround(room(e, t));
      rows = (int64_t)llround(room(e, e->plan->expert_group_tokens));
    }
    int32_t *chosen = c->experts + t * k;
    choose(e->arch, probs + t * experts, chosen);
    int16_t *route = route_of(e, layer, t);
    if (route) follow_route(e, probs + t * experts, route, chosen);
    for (int64_t i = 0; i < k; i++) {
      int64_t at = taken[chosen[i]]++;
      c->rows[t * k + i] = at < rows ? (int32_t)(chosen[i] * each + first + at) : -1;
    }
  }
}

static int64_t choice_bytes(const struct spp_engine *e) {
  return e->g->stream_tokens * e->arch->experts_per_token * (int64_t)sizeof(int32_t);
}

static enum spp_status workspace(struct spp_engine *e, int32_t **data) {
  void *block;
  SPP_TRY(spp_heap_bytes(&e->rank->heap, SPP_PART_CONTEXT, "routing workspace", choice_bytes(e), &block,
                         e->rank->diag));
  *data = block;
  return SPP_OK;
}

/* On a device the program has its own copy. */
static enum spp_status open_choice(struct spp_engine *e, struct spp_expert_choice *c) {
  *c = (struct spp_expert_choice){.leaves_room = capacity(e) > 0};
  SPP_TRY(workspace(e, &c->placed));
  if (spp_rank_is_processor(e->rank)) {
    c->experts = c->placed;
    return workspace(e, &c->rows);
  }
  c->experts = malloc((size_t)choice_bytes(e));
  c->rows = malloc((size_t)choice_bytes(e));
  return c->experts && c->rows ? SPP_OK : spp_diag_oom(e->rank->diag);
}

static enum spp_status choose_all(struct spp_engine *e, int64_t layer, const float *probs,
                                  struct spp_expert_choice *c) {
  struct spp_view view = spp_view_floats(probs, e->g->stream_tokens * e->arch->experts, SPP_VIEW_READ);
  if (capacity(e) <= 0) {
    choose_balanced(e, c);
    return SPP_OK;
  }
  SPP_TRY(spp_views_open(e->rank, &view, 1));
  choose_by_score(e, layer, view.data, c);
  spp_views_close(e->rank, &view, 1);
  return SPP_OK;
}

enum spp_status spp_expert_choice_open(struct spp_engine *e, int64_t layer, const float *probs,
                                       struct spp_expert_choice *c) {
  enum spp_status status = open_choice(e, c);
  if (status == SPP_OK) status = choose_all(e, layer, probs, c);
  if (status != SPP_OK)
    spp_expert_choice_close(e, c);
  else if (c->placed != c->experts)
    e->rank->device->upload(e->rank->queue, c->placed, c->experts, choice_bytes(e));
  return status;
}

void spp_expert_choice_close(struct spp_engine *e, struct spp_expert_choice *c) {
  spp_heap_free(&e->rank->heap, c->placed);
  if (spp_rank_is_processor(e->rank)) {
    spp_heap_free(&e->rank->heap, c->rows);
  } else {
    free(c->experts);
    free(c->rows);
  }
  *c = (struct spp_expert_choice){.experts = NULL};
}
