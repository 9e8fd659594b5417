#include <string.h>

#include "model/memory_parts.h"
#include "model/nccl.h"

/* What the device holds outside the framework's allocator. */
static const struct spp_tensor context = {"CUDA context", SPP_PART_CONTEXT,
                                          "driver, loaded kernels, library handles"};
static const struct spp_tensor code = {"NCCL: device code", SPP_PART_NCCL, "kernels"};
static const struct spp_tensor world = {"NCCL: all ranks", SPP_PART_NCCL, "communicator buffers"};
static const struct spp_tensor data = {"NCCL: data parallel group", SPP_PART_NCCL, "communicator buffers"};
static const struct spp_tensor tensor = {"NCCL: tensor parallel group", SPP_PART_NCCL,
                                         "communicator buffers"};
static const struct spp_tensor shards = {"NCCL: ranks that share states", SPP_PART_NCCL,
                                         "communicator buffers"};
static const struct spp_tensor model = {"NCCL: ranks of one model", SPP_PART_NCCL, "communicator buffers"};
static const struct spp_tensor stages = {"NCCL: pipeline stages", SPP_PART_NCCL, "communicator buffers"};
static const struct spp_tensor pipe = {"NCCL: pipeline peers", SPP_PART_NCCL, "communicator buffers"};
static const struct spp_tensor ulysses = {"NCCL: Ulysses group", SPP_PART_NCCL, "one connection per peer"};
static const struct spp_tensor ring = {"NCCL: ring group", SPP_PART_NCCL, "one connection per neighbour"};
static const struct spp_tensor gather = {"NCCL: all-gather group", SPP_PART_NCCL, "communicator buffers"};
static const struct spp_tensor expert = {"NCCL: expert group", SPP_PART_NCCL, "one connection per peer"};

static const struct spp_tensor statistics = {"NCCL: gradient statistics", SPP_PART_NCCL,
                                             "communicator buffers"};
static const struct spp_tensor embedding = {"NCCL: embedding group", SPP_PART_NCCL, "communicator buffers"};
static const struct spp_tensor expert_data = {"NCCL: ranks with the same experts", SPP_PART_NCCL,
                                              "communicator buffers"};
static const struct spp_tensor expert_all = {"NCCL: ranks of all experts", SPP_PART_NCCL,
                                             "communicator buffers"};
static const struct spp_tensor bootstrap = {"NCCL: TP user buffers' groups", SPP_PART_NCCL,
                                            "communicator buffers"};
static const struct spp_tensor user = {"TP user buffers", SPP_PART_NCCL,
                                       "hidden states on their way to or from a product"};

struct groups {
  struct spp_nccl nccl;
  const struct spp_memory_view *v;
  struct spp_memory_sum *sum;
};

static void add(const struct groups *c, const struct spp_tensor *t, int64_t ranks, int64_t bytes) {
  int64_t fixed = c->nccl.framework->nccl_bytes_per_group;
  if (ranks > 1) spp_memory_add_bytes(c->sum, t, SPP_LIVE_ALWAYS, fixed > 0 ? fixed : bytes);
}
static void add_placed(const struct groups *c, const struct spp_tensor *t, const struct spp_placement *p,
                       unsigned used) {
  add(c, t, p->ranks, spp_nccl_communicator_bytes(&c->nccl, p, used));
}
static void add_collective(const struct groups *c, const struct spp_tensor *t, int64_t ranks, int64_t stride,
                           unsigned used) {
  struct spp_placement p = spp_nccl_place(&c->nccl, ranks, stride);
  add_placed(c, t, &p, used);
}
/* A communicator whose ranks send to and receive from `peers` of them: connections are made at first use. */
static void add_peers(const struct groups *c, const struct spp_tensor *t, int64_t ranks, int64_t stride,
                      int64_t peers) {
  struct spp_placement p = spp_nccl_place(&c->nccl, ranks, stride);
  int64_t near = spp_min64(peers, p.local - 1);
  add(c, t, ranks,
      spp_sat_add(spp_nccl_communicator_bytes(&c->nccl, &p, 0),
                  spp_nccl_messages_bytes(&c->nccl, &p, near, near < peers, 2)));
}
/* Messages that are not sent in a batch make a communicator for each pair of ranks (torch 2.6
 * ProcessGroupNCCL.cpp pointToPoint, getKeySendRecv). directions: 2 where both send, 1 where one does. */
static void add_pairs(const struct groups *c, const struct spp_tensor *t, int64_t ranks, int64_t stride,
                      int64_t pairs, int64_t directions) {
  struct spp_placement group = spp_nccl_place(&c->nccl, ranks, stride);
  int64_t bytes = 0;
  for (int64_t i = 0; i < pairs; i++) {
    bool near = i < group.local - 1;
    struct spp_placement pair = {
        .ranks = 2, .local = near ? 2 : 1, .domains = near ? 1 : 2, .fast = group.fast};
    bytes = spp_sat_add(bytes, spp_nccl_communicator_bytes(&c->nccl, &pair, 0));
    bytes = spp_sat_add(bytes,
                        spp_nccl_messages_bytes(&c->nccl, &pair, near, !near, directions) * directions / 2);
  }
  add(c, t, ranks, bytes);
}

/* Ranks of one model: a tensor parallel group of each stage. */
static struct spp_placement place_model(const struct groups *c, int64_t stages_apart) {
  const struct spp_geometry *g = c->v->g;
  struct spp_placement row = spp_nccl_place(&c->nccl, g->tp, 1),
                       stage = spp_nccl_place(&c->nccl, g->pp, stages_apart);
  struct spp_placement p = {.ranks = spp_sat_mul(g->tp, g->pp), .fast = row.fast};
  p.local = row.domains > 1 ? row.local : spp_sat_mul(row.local, stage.local);
  p.domains = spp_ceil_div(p.ranks, spp_max64(1, p.local));
  return p;
}

/* InternLM/InternEvo internlm/utils/gputest.py warmup_process_group: an all-reduce over each group that is
 * made, so that its buffers are there before training. */
static void add_all_groups(const struct groups *c, int64_t stages_apart) {
  const struct spp_geometry *g = c->v->g;
  struct spp_placement p = place_model(c, stages_apart);
  add_collective(c, &data, g->dense_group, g->tp, SPP_NCCL_RING);
  add_collective(c, &shards, c->v->layout->zero > 0 ? g->shard_group : 1, g->tp, SPP_NCCL_RING);
  add_placed(c, &model, &p, SPP_NCCL_SUMS);
  add_collective(c, &stages, g->pp, stages_apart, SPP_NCCL_SUMS);
}

/* Groups that a framework gives communicators though others do without: torch makes one for a group when it
 * is first used, also where the ranks are those of another. */
static void add_own_groups(const struct groups *c, int64_t stages_apart) {
  const bool *own = c->nccl.framework->nccl_groups;
  const struct spp_geometry *g = c->v->g;
  int64_t ranks = spp_layout_world(c->v->layout), experts = g->ep * g->etp;
  if (own[SPP_NCCL_GROUP_STATISTICS] && c->v->trains) add_collective(c, &statistics, ranks, 1, SPP_NCCL_SUMS);
  if (own[SPP_NCCL_GROUP_MODEL] && c->v->trains) {
    struct spp_placement p = place_model(c, stages_apart);
    add_placed(c, &model, &p, SPP_NCCL_SUMS);
  }
  if (own[SPP_NCCL_GROUP_EMBEDDING] && c->v->job->arch->tied && g->pp > 1)
    add_collective(c, &embedding, 2, spp_sat_mul(g->pp - 1, stages_apart), SPP_NCCL_RING);
  if (!own[SPP_NCCL_GROUP_EXPERTS] || g->ep <= 1) return;
  add_collective(c, &expert_data, g->expert_group, experts, SPP_NCCL_RING | SPP_NCCL_SUMS);
  if (!c->nccl.framework->ep_sends_once_per_node) add_collective(c, &expert_all, experts, 1, SPP_NCCL_RING);
}

/* A pipeline sends both ways, interleaved ones without a batch (megatron-core 0.19.2 p2p_communication.py
 * _p2p_ops, which overlap_p2p_comm asks for); then the ends are neighbours too, and two stages are so twice.
 */
static void add_pipeline(const struct groups *c, const struct spp_stage *stage, int64_t stages_apart) {
  const struct spp_geometry *g = c->v->g;
  int64_t neighbours = 2 - stage->first - stage->last;
  if (g->vpp > 1)
    add_pairs(c, &pipe, g->pp, stages_apart, 2, 2);
  else
    add_peers(c, &pipe, g->pp, stages_apart, neighbours);
}

/* A ring sends to one neighbour and receives from the other; TransformerEngine's without a batch where there
 * are more than two (transformer-engine 2.9.0 context_parallel.py NVTE_BATCH_MHA_P2P_COMM). */
static void add_ring(const struct groups *c) {
  const struct spp_geometry *g = c->v->g;
  int64_t apart = spp_sat_mul(g->tp, g->su);
  if (c->v->job->ring_impl == SPP_RING_TE && g->sr > 2)
    add_pairs(c, &ring, g->sr, apart, 2, 1);
  else
    add_peers(c, &ring, g->sr, apart, 1);
}

/* A dispatcher that relays tokens has buffers of its own instead of NCCL's: eight channels a peer of its
 * domain are taken for them. [assumption] */
static void add_experts(const struct groups *c) {
  const struct spp_geometry *g = c->v->g;
  const int64_t relay_bytes = INT64_C(8) * 10485760;
  if (!c->nccl.framework->ep_sends_once_per_node) {
    add_peers(c, &expert, g->ep, g->etp, g->ep - 1);
    return;
  }
  struct spp_placement p = spp_nccl_place(&c->nccl, g->ep, g->etp);
  add(c, &expert, g->ep, spp_sat_mul(relay_bytes, p.local - 1));
}

/* Recipes that cut the messages of a pipeline larger: full training of these models. */
static int64_t chunk_of(const struct spp_memory_view *v) {
  const int64_t chunk_bytes = 2097152;
  const struct spp_job *job = v->job;
  if (v->g->pp <= 1 || job->method != SPP_METHOD_FULL) return 0;
  for (int i = 0; i < SPP_MAX_REFUSED_TYPES && job->framework->nccl_chunk_types[i][0]; i++)
    if (strcmp(job->framework->nccl_chunk_types[i], job->arch->model_type) == 0) return chunk_bytes;
  return 0;
}

/* Every group of its own is a communicator with its own buffers; groups of one rank are not made. The data
 * parallel group is the world's when nothing else splits it, but where a framework makes one. */
static void add_nccl(const struct spp_memory_stage *s, struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  const struct spp_geometry *g = v->g;
  const struct spp_framework *f = v->job->framework;
  const struct groups c = {{f, v->job->gpu, v->job->cluster, chunk_of(v)}, v, sum};
  int64_t ranks = spp_layout_world(v->layout),
          stages_apart = spp_sat_mul(spp_sat_mul(g->tp, g->sp), v->layout->dp);
  bool apart = g->dense_group < ranks || f->nccl_groups[SPP_NCCL_GROUP_DATA];
  unsigned states = SPP_NCCL_RING | SPP_NCCL_SUMS | (v->layout->zero == 0 ? SPP_NCCL_SWITCH : 0);
  if (ranks > 1 && f->nccl_bytes_per_group == 0)
    spp_memory_add_bytes(sum, &code, SPP_LIVE_ALWAYS, spp_nccl_code_bytes(&c.nccl));
  add_collective(&c, &world, ranks, 1, apart ? SPP_NCCL_SUMS : states);
  if (f->nccl_all_groups)
    add_all_groups(&c, stages_apart);
  else if (apart)
    add_collective(&c, &data, g->dense_group, g->tp, states);
  add_collective(&c, &tensor, g->tp, 1,
                 SPP_NCCL_RING | SPP_NCCL_SUMS | (v->layout->megatron_sp ? 0 : SPP_NCCL_SWITCH));
  add_pipeline(&c, s->stage, stages_apart);
  add_peers(&c, &ulysses, g->su, g->tp, g->su - 1);
  if (v->layout->sp_kind == SPP_SP_ALLGATHER)
    add_collective(&c, &gather, g->sr, spp_sat_mul(g->tp, g->su), SPP_NCCL_RING);
  else
    add_ring(&c);
  add_experts(&c);
  add_own_groups(&c, stages_apart);
}

/* They are set up over groups made for that, all ranks and those of a domain (transformer-engine 2.9.0
 * pytorch/module/base.py initialize_ub, backend nccl by megatron-core 0.19.2 model_parallel_config.py; of the
 * library's create_communicator_grouped2 the barriers of "world" and the gathers of "intra", disassembled).
 */
static void add_bootstrap(const struct spp_memory_view *v, struct spp_memory_sum *sum) {
  const struct groups c = {{v->job->framework, v->job->gpu, v->job->cluster, 0}, v, sum};
  struct spp_placement all = spp_nccl_place(&c.nccl, spp_layout_world(v->layout), 1);
  struct spp_placement domain = spp_nccl_place(&c.nccl, v->g->tp, 1);
  int64_t bytes = spp_nccl_communicator_bytes(&c.nccl, &all, SPP_NCCL_SUMS);
  if (domain.ranks < all.ranks)
    bytes = spp_sat_add(bytes, spp_nccl_communicator_bytes(&c.nccl, &domain, SPP_NCCL_RING | SPP_NCCL_SUMS));
  add(&c, &bootstrap, all.ranks, bytes);
}

/* A buffer of a sequence's hidden states for each product whose exchange is split to overlap: eight gather,
 * in the type of the products, four reduce, in 16 bit (transformer-engine 2.9.0 pytorch/module/base.py
 * initialize_ub; megatron-bridge 0.3.1 training/initialize.py). They are no memory of torch's allocator. */
void spp_memory_add_user_buffers(const struct spp_memory_view *v, struct spp_memory_sum *sum) {
  const int64_t gathers = 8, reduces = 4;
  if (!v->job->framework->tp_user_buffers || v->job->overlap == 0 || v->g->tp <= 1 || !v->layout->megatron_sp)
    return;
  if (v->job->fp4) return; /* such products exchange nothing by themselves: model/comm_tp.c */
  int64_t gathered = v->job->dtype == SPP_DTYPE_FP8 ? 1 : spp_dtype_bytes(v->act);
  int64_t bytes = gathers * gathered + reduces * spp_dtype_bytes(v->act);
  spp_memory_add_bytes(sum, &user, SPP_LIVE_ALWAYS,
                       spp_sat_mul(spp_sat_mul(v->g->tokens, v->job->arch->hidden), bytes));
  add_bootstrap(v, sum);
}

void spp_memory_add_fixed(const struct spp_memory_stage *s, struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  spp_memory_add_bytes(sum, &context, SPP_LIVE_ALWAYS, v->job->framework->context_bytes);
  /* groups that share states differ by more than is remembered */
  struct spp_memory_groups *groups = v->job->framework->nccl_all_groups ? NULL : v->groups;
  int sharded = v->layout->zero > 0, ends = s->stage->first + 2 * s->stage->last;
  if (groups && groups->known[sharded][ends]) {
    spp_memory_add_bytes(sum, &world, SPP_LIVE_ALWAYS, groups->bytes[sharded][ends]);
    return;
  }
  int64_t before = sum->always[SPP_PART_NCCL];
  add_nccl(s, sum);
  if (!groups) return;
  groups->known[sharded][ends] = true;
  groups->bytes[sharded][ends] = sum->always[SPP_PART_NCCL] - before;
}
