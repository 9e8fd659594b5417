#include "exec/engine.h"

#include <string.h>

#include "base/num.h"
#include "exec/try.h"

enum { STAGING_BYTES = 65536 }; /* of each group: nccl_bytes_per_group of configs/frameworks/spplan.json */

static enum spp_status refuse(struct spp_diag *diag, const char *what, const char *hint) {
  return spp_diag_set(diag, SPP_ERR_ABSENT, NULL, hint, "the engine cannot run %s", what);
}

static enum spp_status check(const struct spp_engine *e, struct spp_diag *diag) {
  const struct spp_layout *l = &e->plan->layout;
  const struct spp_arch *a = e->arch;
  const unsigned modules =
      SPP_RC_CORE_ATTN | SPP_RC_LAYERNORM | SPP_RC_MLP | SPP_RC_MOE | SPP_RC_MOE_ACT | SPP_RC_SHARED_EXPERTS;
  SPP_TRY(spp_weights_supported(a, diag));
  if (l->recompute == SPP_RECOMPUTE_SELECTIVE && (l->recompute_modules & ~modules))
    return refuse(diag, "selective recompute of these modules",
                  "choose from core_attn, layernorm, mlp, moe, moe_act, shared_experts");
  if (l->dp_replicate > 1 || l->offload != SPP_OFFLOAD_NONE)
    return refuse(diag, "replicated shards or offload", "leave them out");
  if (a->experts > 0 && l->etp > 1)
    return refuse(diag, "experts cut by tensor parallelism", "use expert parallelism and --etp 1");
  if (a->learned_positions > 0 && e->g->padded_tokens > a->learned_positions - a->first_position)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--seq", "shorten the sequence",
                        "the model's table has %lld positions",
                        (long long)(a->learned_positions - a->first_position));
  if (e->plan->job.documents.count > 0 && !e->plan->job.packing)
    return refuse(diag, "documents that are not packed", "leave --no-packing out");
  return SPP_OK;
}

static enum spp_status open_group(struct spp_engine *e, struct spp_rank_group *group, enum spp_group purpose,
                                  int64_t first, int64_t stride, int64_t size) {
  void *staging;
  spp_group_make(group, e->rank->tensors, &e->rank->tally, purpose, (int)first, (int)stride, (int)size);
  if (size == 1) return SPP_OK;
  SPP_TRY(spp_heap_bytes(&e->rank->heap, SPP_PART_NCCL, "communicator buffers", STAGING_BYTES, &staging,
                         e->rank->diag));
  group->staging = staging;
  group->staging_floats = STAGING_BYTES / (int64_t)sizeof(float);
  return SPP_OK;
}

/* Ranks are numbered tensor-parallel first, then Ulysses, ring, data-parallel, pipeline (the strides of
 * model/comm_*.c). */
static enum spp_status open_groups(struct spp_engine *e) {
  const struct spp_layout *l = &e->plan->layout;
  struct spp_engine_groups *g = &e->groups;
  int64_t rank = e->rank->end->rank, world = spp_layout_world(l), sp = spp_layout_sp(l), dense = sp * l->dp;
  int64_t stage_ranks = l->tp * dense, in_stage = rank % stage_ranks;
  g->tp_rank = rank % l->tp;
  g->ulysses_rank = rank / l->tp % l->ulysses;
  g->ring_rank = rank / (l->tp * l->ulysses) % l->ring;
  g->dp_rank = rank / (l->tp * sp) % l->dp;
  g->stage = rank / stage_ranks;
  int64_t replica = rank - rank % (l->tp * sp), stage_first = rank - in_stage;
  int64_t ring_first = replica + g->tp_rank + l->tp * g->ulysses_rank;
  SPP_TRY(open_group(e, &g->world, SPP_GROUP_DP, 0, 1, world));
  SPP_TRY(open_group(e, &g->tp, SPP_GROUP_TP, rank - g->tp_rank, 1, l->tp));
  SPP_TRY(open_group(e, &g->pp, SPP_GROUP_PP, in_stage, stage_ranks, l->pp));
  SPP_TRY(open_group(e, &g->ulysses, SPP_GROUP_ULYSSES, rank - l->tp * g->ulysses_rank, l->tp, l->ulysses));
  SPP_TRY(open_group(e, &g->ring, SPP_GROUP_RING, ring_first, l->tp * l->ulysses, l->ring));
  g->reduce = dense > 1 ? &g->world : NULL;
  if (dense == 1 || dense == world) return SPP_OK;
  g->reduce = &g->dp;
  return open_group(e, &g->dp, SPP_GROUP_DP, stage_first + g->tp_rank, l->tp, dense);
}

/* Consecutive ranks of a stage share the experts (stride 1: experts are not cut); those that hold the same
 * ones receive sums into the buffer of all ranks, which is never in use then. */
static enum spp_status open_expert_groups(struct spp_engine *e) {
  const struct spp_layout *l = &e->plan->layout;
  struct spp_engine_groups *g = &e->groups;
  int64_t rank = e->rank->end->rank, stage_ranks = spp_layout_world(l) / l->pp, in_stage = rank % stage_ranks;
  g->ep_rank = in_stage % l->ep;
  SPP_TRY(open_group(e, &g->ep, SPP_GROUP_EP, rank - g->ep_rank, 1, l->ep));
  if (e->arch->experts == 0 || e->g->expert_group == 1) return SPP_OK;
  spp_group_make(&g->expert_dp, e->rank->tensors, &e->rank->tally, SPP_GROUP_DP,
                 (int)(rank - in_stage + g->ep_rank), (int)l->ep, (int)e->g->expert_group);
  g->expert_dp.staging = g->world.staging;
  g->expert_dp.staging_floats = g->world.staging_floats;
  g->experts = &g->expert_dp;
  return SPP_OK;
}

static enum spp_status open_attention(struct spp_engine *e) {
  const struct spp_layout *l = &e->plan->layout;
  const struct spp_arch *a = e->arch;
  e->attention = (struct spp_attention){.cut = {.sequences = e->g->sequences,
                                                .tokens = e->g->padded_tokens,
                                                .ulysses = l->ulysses,
                                                .ring = l->ring,
                                                .zigzag = e->plan->job.ring_order == SPP_RING_ZIGZAG},
                                        .gathers = l->sp_kind == SPP_SP_ALLGATHER && l->ring > 1,
                                        .store = e->store,
                                        .heads = e->g->heads_local,
                                        .kv_heads = e->g->kv_heads_local,
                                        .head_dim = a->head_dim,
                                        .v_head_dim = a->v_head_dim,
                                        .scale = a->attention_scale,
                                        .cap = a->attention_softcap,
                                        .alibi = a->alibi,
                                        .first_head = e->groups.tp_rank * e->g->heads_local,
                                        .all_heads = a->heads,
                                        .has_sinks = a->attention_sinks,
                                        .ulysses = &e->groups.ulysses,
                                        .ring = &e->groups.ring};
  return spp_attention_open(e->rank, &e->attention);
}

void spp_engine_turn_to(struct spp_engine *e, const struct spp_unit *unit) {
  e->attention.window_tokens = unit->kind->window_tokens;
  e->attention.window_chunked = unit->kind->window_chunked;
}

static enum spp_status open_parts(struct spp_engine *e) {
  SPP_TRY(check(e, e->rank->diag));
  SPP_TRY(open_groups(e));
  SPP_TRY(open_expert_groups(e));
  SPP_TRY(open_attention(e));
  if (e->arch->experts > 0) SPP_TRY(spp_experts_check(e, e->rank->diag));
  const struct spp_weights_rank rank = {e->groups.stage, e->groups.tp_rank, e->groups.ep_rank};
  SPP_TRY(spp_weights_place(e->plan, &rank, &e->arena, &e->weights, e->rank->diag));
  SPP_TRY(spp_states_open(e));
  e->kept = spp_arena_array(&e->arena, (size_t)(e->g->m * e->weights.layer_count), sizeof *e->kept);
  if (!e->kept) return spp_diag_oom(e->rank->diag);
  return spp_batch_open(e);
}

enum spp_status spp_engine_open(struct spp_rank *rank, const struct spp_exec_plan *plan,
                                struct spp_engine *engine) {
  memset(engine, 0, sizeof *engine);
  engine->rank = rank;
  engine->plan = plan;
  engine->arch = plan->job.arch;
  engine->g = &plan->geometry;
  engine->store = plan->job.dtype == SPP_DTYPE_BF16 ? SPP_STORE_BF16 : SPP_STORE_F32;
  spp_arena_init(&engine->arena);
  rank->heap.moment = SPP_MOMENT_LOAD;
  return open_parts(engine);
}

void spp_engine_close(struct spp_engine *engine) {
  if (!engine->rank) return; /* never opened */
  spp_attention_close(engine->rank, &engine->attention);
  spp_arena_free(&engine->arena);
}

enum spp_status spp_engine_gradients(struct spp_engine *e) {
  e->loss = 0;
  spp_states_clear_grads(e);
  SPP_TRY(spp_pipeline_run(e));
  SPP_TRY(spp_states_reduce(e));
  return spp_rank_finish(e->rank);
}

bool spp_engine_counts_loss(const struct spp_engine *e) {
  return e->groups.stage == e->g->pp - 1 && e->groups.tp_rank == 0;
}
