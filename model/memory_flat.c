/* What FSDP1 (torch distributed/fsdp, 2.2) leaves with the allocator beside the tensors that are alive. */
#include "model/memory_parts.h"

#define ROW(id, text, part, reason) static const struct spp_tensor id = {text, part, reason}
ROW(cut, "units while they are cut", SPP_PART_SHARDING_BUFFERS, "parameters, broadcast copy, flat parameter");
ROW(copy_pool, "blocks of shards from the host", SPP_PART_ALLOCATOR, "belong to the copy's stream");
ROW(list_pool, "blocks of the last step's list", SPP_PART_ALLOCATOR, "in segments of small blocks");

enum { SMALL_BLOCK_BYTES = 1048576 }; /* torch c10/cuda/CUDACachingAllocator kSmallSize */

struct unit_bytes {
  int64_t layer, embedding, head;
};

static struct unit_bytes bytes_of(const struct spp_memory_stage *s) {
  const struct spp_memory_view *v = s->view;
  int gather = v->regime.gather_bytes;
  struct unit_bytes b = {spp_memory_gathered(&s->unit, gather), 0, 0};
  if (s->stage->first) b.embedding = spp_memory_gathered(&v->embedding, gather);
  if (s->stage->last) b.head = spp_memory_gathered(&v->head, gather);
  return b;
}

/* Unit by unit, the root (embedding, head) last: parameters come to the GPU, are sent from rank 0 in joined
 * copies of 250 MiB and more, a single one as it is, and are joined to the flat parameter, of which the shard
 * is a clone (_init_utils.py _init_param_handle_from_module, _flat_param.py shard, torch/csrc distributed
 * broadcast_coalesced). The collective holds its copy until the next unit's host copies have synchronised.
 * Blocks of a layer serve the root's tensors when they are as large. Without sharding the flat parameter
 * stays. */
static void add_cut(const struct spp_memory_stage *s, const struct unit_bytes *b,
                    struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  bool sharded = v->regime.shard_weights;
  int64_t root = spp_sat_add(b->embedding, b->head), flat = sharded ? root : 0;
  int64_t copy = spp_min64(b->embedding, b->head); /* of the last tensors; the first goes alone */
  int64_t layer = spp_sat_mul(b->layer, sharded ? 3 : 2);
  int64_t spare = spp_sat_add(spp_sat_add(layer, spp_sat_add(root, copy)), flat);
  if (sharded && spp_offload_params(v->layout->offload)) /* the shards themselves */
    spare = spp_sat_add(spare, spp_sat_add(root, b->layer) / spp_max64(1, v->g->shard_group));
  if (spp_max64(b->embedding, b->head) <= b->layer) spare -= root;
  spp_memory_add_bytes(sum, &cut, SPP_LIVE(SPP_MOMENT_LOAD), spare);
  sum->spare_bytes = spare;
  sum->spare_block_bytes = spp_max64(flat, spp_max64(b->layer, spp_max64(b->embedding, b->head)));
}

/* Shards come from the host into blocks of a stream of its own: the root's and a layer's (_runtime_utils.py
 * _unshard, _flat_param.py pre_unshard; c10/cuda/CUDACachingAllocator). */
static void add_copies(const struct spp_memory_stage *s, const struct unit_bytes *b,
                       struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  const unsigned not_load = SPP_LIVE_ALWAYS & ~SPP_LIVE(SPP_MOMENT_LOAD);
  int64_t root = spp_sat_add(b->embedding, b->head);
  if (v->regime.shard_weights && spp_offload_params(v->layout->offload))
    spp_memory_add_bytes(sum, &copy_pool, not_load,
                         spp_sat_add(root, b->layer) / spp_max64(1, v->g->shard_group));
}

/* Shards of adapters lie in segments of blocks up to 1 MiB, which nothing of a pass fits into. */
static void add_list(const struct spp_memory_stage *s, struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  const struct spp_job *job = v->job;
  if (!spp_job_has_adapters(job) || !job->framework->optimizer_foreach ||
      job->optimizer != SPP_OPTIMIZER_ADAMW || spp_offload_optimizer(v->layout->offload))
    return;
  int64_t ranks = v->regime.shard_optimizer ? spp_max64(1, v->g->shard_group) : 1;
  int bytes = v->regime.moment_bytes / 2;
  if (spp_sat_mul(spp_sat_mul(job->lora_rank, job->arch->hidden), bytes) / ranks > SMALL_BLOCK_BYTES) return;
  int64_t local =
      spp_memory_share(v->g, v->regime.shard_optimizer, s->states.trainable, s->states.trainable_expert);
  spp_memory_add_bytes(sum, &list_pool, SPP_LIVE(SPP_MOMENT_FORWARD) | SPP_LIVE_LOSS | SPP_LIVE_BACKWARD,
                       spp_sat_mul(local, bytes));
}

void spp_memory_add_flat_units(const struct spp_memory_stage *s, struct spp_memory_sum *sum) {
  struct unit_bytes b = bytes_of(s);
  add_cut(s, &b, sum);
  add_copies(s, &b, sum);
  add_list(s, sum);
}
