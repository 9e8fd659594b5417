#include "model/memory_parts.h"

#define ROW(id, text, reason) static const struct spp_tensor id = {text, SPP_PART_SHARDING_BUFFERS, reason}
ROW(reduce_bucket, "gradient reduction bucket", "DeepSpeed ipg buffer, allocated whole");
ROW(joined_bucket, "joined gradients of a bucket", "copied, reduced and copied back");
ROW(gathered, "gathered layer weights", "used by the running layer");
ROW(prefetched, "prefetched weights", "next layer, gathered ahead");
ROW(layer_grads, "gradients of one layer", "whole, before they are reduced");
ROW(reduce_input, "gradients of one layer on the wire", "input of the reduce-scatter");
ROW(gathered_head, "gathered head", "whole vocabulary for the logits");
ROW(head_grads, "gradient of the head", "whole, before it is reduced");
ROW(root, "gathered root unit", "embedding, final norm and head stay gathered");
ROW(all_gathered, "gathered model", "kept from forward to backward");
ROW(whole_grads, "gradients of the stage", "whole until the last micro-batch is reduced");
ROW(ddp, "gradient buckets", "DDP reducer, as large as the gradients");

/* Reduced gradients are allocated on the reduce-scatter's stream, and the allocator lends a stream's blocks
 * to no other (torch _fsdp_collectives.py foreach_reduce; c10/cuda/CUDACachingAllocator). */
static const struct spp_tensor grads_pool = {"blocks of the last step's gradients", SPP_PART_ALLOCATOR,
                                             "belong to the reduce-scatter's stream"};
/* So are the buffers that weights are gathered into, before they are copied out of them. */
static const struct spp_tensor copy_pool = {"blocks of gathered shards", SPP_PART_ALLOCATOR,
                                            "belong to the all-gather's stream"};

/* The allocator lends the blocks of a stream to no other: neither loss nor step can have those that weights
 * were gathered into, two units beside the root (torch 2.0.1 and 2.2.1 distributed/fsdp/_runtime_utils.py
 * _unshard, _limiter_utils.py; c10/cuda/CUDACachingAllocator). */
static const struct spp_tensor gather_pool = {"blocks of gathered weights", SPP_PART_ALLOCATOR,
                                              "belong to the streams of the exchanges"};

static const unsigned forward = SPP_LIVE(SPP_MOMENT_FORWARD), loss = SPP_LIVE_LOSS,
                      head = SPP_LIVE(SPP_MOMENT_BACKWARD_HEAD),
                      not_load = SPP_LIVE_ALWAYS & ~SPP_LIVE(SPP_MOMENT_LOAD);

static int64_t bucket(const struct spp_job *job, int64_t automatic) {
  const struct spp_framework *f = job->framework;
  if (job->bucket_elements > 0) return job->bucket_elements;
  if (automatic > 0 && (f->bucket_auto || f->reduce_bucket_elements <= 0)) return automatic;
  return spp_max64(0, f->reduce_bucket_elements);
}

static enum spp_dtype wire(int bytes) {
  return bytes == 4 ? SPP_DTYPE_FP32 : SPP_DTYPE_BF16;
}

/* DeepSpeed stage_1_and_2.py setup_buckets: whole buckets, made anew in the next backward, so that they are
 * there in the step and in the next forward; two when communication overlaps. Updated parameters are gathered
 * in place, and after the step's copies are freed (runtime/utils.py all_gather_dp_groups). */
static void add_zero12(const struct spp_memory_stage *s, const struct spp_states *r,
                       struct spp_memory_sum *sum) {
  const struct spp_job *job = s->view->job;
  int copies = job->framework->bucket_copies > 1 ? job->framework->bucket_copies : 1;
  spp_memory_add(sum, &reduce_bucket, not_load, wire(r->grad_bytes), bucket(job, 0), 1, copies);
}

int64_t spp_memory_gathered(const struct spp_state_counts *c, int gather_bytes) {
  int64_t trained = spp_sat_mul(spp_sat_add(c->trainable, c->trainable_expert), gather_bytes);
  return spp_sat_add(trained, spp_sat_add(c->frozen_bytes, c->frozen_expert_bytes));
}

static int64_t unit_trainable(const struct spp_memory_stage *s) {
  return spp_sat_add(s->unit.trainable, s->unit.trainable_expert);
}

/* DeepSpeed gathers on a stream of its own as well (deepspeed 0.12.6 partitioned_param_coordinator.py
 * __allgather_stream). */
static void add_gathered(const struct spp_memory_stage *s, const struct spp_states *r, int64_t layer,
                         int64_t next, struct spp_memory_sum *sum) {
  const struct spp_state_counts *used = spp_memory_head(s->view);
  int64_t head_bytes = s->stage->last ? spp_memory_gathered(used, r->gather_bytes) : 0;
  spp_memory_add_bytes(sum, &gathered, forward | SPP_LIVE_BACKWARD, layer);
  spp_memory_add_bytes(sum, &prefetched, forward | loss | SPP_LIVE_BACKWARD, next);
  spp_memory_add_bytes(sum, &gathered_head, loss, head_bytes);
  spp_memory_add_bytes(sum, &gather_pool, SPP_LIVE(SPP_MOMENT_STEP),
                       spp_max64(spp_sat_add(layer, next), head_bytes));
}

/* DeepSpeed stage3.py, partitioned_param_coordinator.py: the running layer and a prefetch bucket are
 * gathered, never more than max_live_parameters; gradients pass through the reduce bucket, which lives as
 * long as the optimizer; the head is one module. One rank uses its partition as it is, unless that is in host
 * memory (partition_parameters.py _no_gather_coalesced). */
static void add_zero3(const struct spp_memory_stage *s, const struct spp_states *r,
                      struct spp_memory_sum *sum) {
  const struct spp_job *job = s->view->job;
  const struct spp_framework *f = job->framework;
  int64_t h = job->arch->hidden, square = spp_sat_mul(h, h);
  int64_t ahead =
      f->bucket_auto || f->prefetch_elements <= 0 ? spp_sat_mul(square, 9) / 10 : f->prefetch_elements;
  int64_t limit =
      f->max_live_parameters > 0 ? spp_sat_mul(f->max_live_parameters, r->gather_bytes) : INT64_MAX;
  int64_t layer = spp_min64(limit, spp_memory_gathered(&s->unit, r->gather_bytes));
  int64_t next = spp_min64(limit - layer, spp_sat_mul(ahead, r->gather_bytes));
  bool copies = s->view->g->shard_group > 1 || s->view->g->expert_shard_group > 1 ||
                spp_offload_params(s->view->layout->offload);
  if (copies) add_gathered(s, r, layer, next, sum);
  spp_memory_add(sum, &layer_grads, SPP_LIVE_BACKWARD, wire(r->grad_bytes), unit_trainable(s), 1, 1);
  spp_memory_add(sum, &reduce_bucket, not_load, wire(r->grad_bytes), bucket(job, square), 1, 1);
  if (!s->stage->last) return;
  spp_memory_add(sum, &head_grads, head, wire(r->grad_bytes), spp_memory_head(s->view)->trainable, 1, 1);
}

/* Gradients of a unit are cut on a stream of their own, padded by a copy where ranks do not divide them
 * (torch 2.0.1 distributed/fsdp/_runtime_utils.py _post_backward_hook). */
static int64_t cut_bytes(const struct spp_memory_stage *s, const struct spp_states *r) {
  const struct spp_memory_view *v = s->view;
  int64_t largest = unit_trainable(s), group = spp_max64(1, v->g->shard_group);
  if (s->stage->first) largest = spp_max64(largest, v->embedding.trainable);
  if (s->stage->last) largest = spp_max64(largest, v->head.trainable);
  int64_t cut = spp_ceil_div(largest, group);
  if (largest % group != 0) cut = spp_sat_add(cut, largest);
  return spp_sat_mul(cut, r->grad_bytes);
}

static void add_gather_pool(const struct spp_memory_stage *s, const struct spp_states *r, int64_t outer_bytes,
                            struct spp_memory_sum *sum) {
  const struct spp_framework *f = s->view->job->framework;
  int64_t unit = spp_memory_gathered(&s->unit, r->gather_bytes), two = spp_sat_mul(2, unit);
  bool away = spp_offload_params(s->view->layout->offload);
  if (f->gathers_on_own_stream && r->shard_weights) {
    spp_memory_add_bytes(sum, &gather_pool, loss, unit); /* beside the one gathered ahead */
    spp_memory_add_bytes(sum, &gather_pool, SPP_LIVE(SPP_MOMENT_STEP),
                         spp_sat_add(spp_sat_add(outer_bytes, two), cut_bytes(s, r)));
  }
  if (!f->gathers_into_buffers || !(r->shard_weights || away)) return;
  spp_memory_add_bytes(sum, &copy_pool, forward | SPP_LIVE_BACKWARD, outer_bytes);
  spp_memory_add_bytes(sum, &copy_pool, loss, spp_sat_add(outer_bytes, unit));
}

/* The units outside the layers: one that is not resharded after forward, or embedding and head apart, each
 * gathered where it works (torchtitan 0.3.0 distributed/fsdp.py apply_fsdp_to_decoder). A gather goes into a
 * buffer of its own stream, which is held until the next unit's has been copied out (torch distributed/fsdp/
 * _fully_shard/_fsdp_param_group.py wait_for_unshard, all_gather_state). */
static int64_t add_outer(const struct spp_memory_stage *s, const struct spp_states *r,
                         struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  int64_t embedding = s->stage->first ? spp_memory_gathered(&v->embedding, r->gather_bytes) : 0;
  int64_t tail = s->stage->last ? spp_memory_gathered(&v->head, r->gather_bytes) : 0;
  if (!v->job->framework->outer_units_apart) {
    int64_t whole = spp_sat_add(embedding, tail);
    spp_memory_add_bytes(sum, &root, forward | loss | SPP_LIVE_BACKWARD, whole);
    return whole;
  }
  spp_memory_add_bytes(sum, &gathered_head, loss, tail);
  return spp_max64(embedding, tail);
}

static void add_fsdp_gradients(const struct spp_memory_stage *s, const struct spp_states *r, bool whole,
                               struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  int reduce_bytes = r->reduce_bytes > 0 ? r->reduce_bytes : r->grad_bytes;
  unsigned of_head = head | (v->job->framework->outer_units_apart ? 0u : (unsigned)SPP_LIVE_BACKWARD);
  spp_memory_add(sum, &head_grads, of_head, wire(r->gather_bytes),
                 s->stage->last ? spp_memory_head(v)->trainable : 0, 1, 1);
  if (whole)
    spp_memory_add(sum, &whole_grads, forward | loss | SPP_LIVE_BACKWARD, wire(reduce_bytes),
                   spp_sat_add(s->states.trainable, s->states.trainable_expert), 1, 1);
  if (!v->grads_persist && !spp_memory_gradients_away(v))
    spp_memory_add(sum, &grads_pool, forward | loss, wire(r->grad_bytes),
                   spp_memory_share(v->g, r->shard_grads, s->states.trainable, s->states.trainable_expert), 1,
                   1);
  spp_memory_add(sum, &layer_grads, SPP_LIVE_BACKWARD, wire(r->gather_bytes), unit_trainable(s), 1, 1);
  if (reduce_bytes > r->gather_bytes)
    spp_memory_add(sum, &reduce_input, SPP_LIVE_BACKWARD, wire(reduce_bytes), unit_trainable(s), 1, 1);
}

/* The weights of a unit that is whole; 8-bit ones are gathered as they are kept. */
static int64_t gathered_unit(const struct spp_memory_stage *s, const struct spp_states *r) {
  const struct spp_job *job = s->view->job;
  int64_t bytes = spp_memory_gathered(&s->unit, r->gather_bytes), linear = s->unit.linear;
  bool narrow = spp_job_keeps_fp8_only(job) && !spp_job_has_adapters(job);
  if (!narrow) return bytes;
  return bytes - spp_sat_mul(linear, r->gather_bytes) + spp_job_narrow_bytes(job, linear);
}

/* FSDP2 fully_shard (torch distributed/fsdp/_fully_shard): the running and the next unit are gathered;
 * gradients of one unit are whole and, with an fp32 reduce type, copied. Where only gradients and optimizer
 * are sharded, the weights counted with the states are the gathered ones. Under a pipeline torchtitan does
 * not reshard after forward, and torch's stage reduces in the last micro-batch only (torchtitan
 * models/llama3/parallelize.py, torch distributed/pipelining/stage.py). */
static void add_fsdp(const struct spp_memory_stage *s, const struct spp_states *r,
                     struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  const struct spp_framework *f = v->job->framework;
  int64_t unit = gathered_unit(s, r), outer = add_outer(s, r, sum);
  bool whole = f->gathers_once_under_pp && v->g->pp > 1;
  bool away = spp_offload_params(v->layout->offload); /* then the states' weights are not on the GPU */
  if (r->shard_weights ? whole : away) {
    spp_memory_add_bytes(sum, &all_gathered, forward | loss | SPP_LIVE_BACKWARD,
                         spp_memory_gathered(&s->states, r->gather_bytes));
  } else if (r->shard_weights) {
    spp_memory_add_bytes(sum, &gathered, forward | SPP_LIVE_BACKWARD, unit);
    spp_memory_add_bytes(sum, &prefetched,
                         forward | SPP_LIVE_BACKWARD | (f->outer_units_apart ? 0u : (unsigned)loss), unit);
  }
  add_gather_pool(s, r, outer, sum);
  add_fsdp_gradients(s, r, whole, sum);
}

/* torch DDP without gradient_as_bucket_view: buckets of all gradients beside the gradients. */
static void add_ddp(const struct spp_memory_stage *s, const struct spp_states *r,
                    struct spp_memory_sum *sum) {
  int64_t trainable = spp_sat_add(s->states.trainable, s->states.trainable_expert);
  if (s->view->g->dense_group > 1)
    spp_memory_add(sum, &ddp, SPP_LIVE_ALWAYS & ~SPP_LIVE(SPP_MOMENT_LOAD), wire(r->grad_bytes), trainable, 1,
                   1);
}

/* InternLM/InternEvo hybrid_zero_optim.py _reduce_grads_by_rank: a full bucket is flattened and reduced,
 * whatever the number of ranks, and waits for the next one. */
static void add_joined_buckets(const struct spp_memory_stage *s, const struct spp_states *r,
                               struct spp_memory_sum *sum) {
  const struct spp_framework *f = s->view->job->framework;
  int64_t left = spp_sat_add(s->states.trainable, s->states.trainable_expert), full = bucket(s->view->job, 0);
  for (int i = 0; i < f->bucket_copies && left > 0; i++, left -= full)
    spp_memory_add(sum, &joined_bucket, SPP_LIVE_BACKWARD, wire(r->grad_bytes), spp_min64(left, full), 1, 1);
}

void spp_memory_add_sharding(const struct spp_memory_stage *s, struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  const struct spp_states *r = &v->regime;
  if (!v->trains) return;
  const struct spp_framework *f = v->job->framework;
  enum spp_sharding weights = (enum spp_sharding)f->sharding_weights;
  switch (r->shard_weights && weights != SPP_SHARDING_NONE ? weights : f->sharding) {
  case SPP_SHARDING_DEEPSPEED:
    if (v->layout->zero == 3)
      add_zero3(s, r, sum);
    else if (v->layout->zero > 0)
      add_zero12(s, r, sum);
    break;
  case SPP_SHARDING_FSDP:
    if (v->layout->zero >= 2 && spp_max64(v->g->shard_group, v->g->expert_shard_group) > 1)
      add_fsdp(s, r, sum);
    else if (!v->job->framework->flat_units) /* NO_SHARD reduces the flat gradients in place */
      add_ddp(s, r, sum);
    if (v->job->framework->flat_units && v->g->dense_group > 1) spp_memory_add_flat_units(s, sum);
    break;
  case SPP_SHARDING_UNITS: break; /* with the running layer: memory_units.c */
  case SPP_SHARDING_NONE: add_ddp(s, r, sum); break;
  default: /* Megatron's gradient buffer is the gradients themselves */
    if (f->joins_buckets) add_joined_buckets(s, r, sum);
    break;
  }
}
