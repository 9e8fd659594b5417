#include "cli/idle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "report/facts.h"

/* ---- by the job alone ---- */

static bool has_adapters(const struct spp_job *job) {
  return job->mode != SPP_MODE_INFER && spp_job_has_adapters(job);
}
static bool is_quantised(const struct spp_job *job) {
  return spp_job_quantises(job);
}
static bool has_groups(const struct spp_job *job) {
  return job->mode == SPP_MODE_GRPO;
}
static bool may_compare(const struct spp_job *job) {
  return job->mode == SPP_MODE_DPO || job->mode == SPP_MODE_GRPO || job->mode == SPP_MODE_PPO;
}
static bool trains(const struct spp_job *job) {
  return job->mode != SPP_MODE_INFER;
}
static bool generates(const struct spp_job *job) {
  return job->mode == SPP_MODE_INFER;
}
static bool has_experts(const struct spp_job *job) {
  return job->arch->experts > 0;
}
static bool is_below_the_card(const struct spp_job *job) {
  return !job->gpu || job->max_memory_bytes < job->gpu->capacity_bytes;
}
static bool sees(const struct spp_job *job) {
  return job->arch->vision.kind != SPP_VISION_NONE;
}

static const struct {
  const char *option;
  bool (*used)(const struct spp_job *job);
  const char *needs;
} by_job[] = {
    {"lora-rank", has_adapters, "only --method lora and qlora train adapters"},
    {"lora-dropout", has_adapters, "only --method lora and qlora train adapters"},
    {"lora-targets", has_adapters, "only --method lora and qlora train adapters"},
    {"quant", is_quantised, "only --method qlora and --mode infer quantise weights"},
    {"galore-rank", spp_job_has_projected_gradients, "only --method galore and q-galore project gradients"},
    {"kv-dtype", spp_job_has_kv_cache, "training keeps no KV cache; --mode infer and grpo do"},
    {"prompt", generates, "only --mode infer generates tokens"},
    {"reference", may_compare, "only --mode dpo, grpo and ppo compare with a reference"},
    {"completions", has_groups, "only --mode grpo samples completions"},
    {"optimizer", trains, "inference has no optimizer"},
    {"grads-dtype", trains, "inference makes no gradients"},
    {"fp8-params", trains, "inference keeps no masters beside the weights"},
    {"overlap", trains, "inference reduces no gradients"},
    {"loss-chunk", trains, "inference has no loss"},
    {"bucket-elements", trains, "inference reduces no gradients"},
    {"train-vision", sees, "the model has no vision tower"},
    {"cuda-graphs", trains, "inference is modelled without them"},
    {"moe-capacity", has_experts, "the model has no experts"},
    {"etp", has_experts, "the model has no experts"},
    {"max-memory", is_below_the_card, "the GPU has no more than that"},
    {"train-embeddings", has_adapters, "without adapters all weights are trained, or none"},
};

/* ---- by the other options ---- */

static bool fails_sometimes(const struct spp_args *args) {
  return args->mtbf_s > 0;
}
static bool counts_no_tokens(const struct spp_args *args) {
  return args->dataset_tokens <= 0;
}

static const struct {
  const char *option;
  bool (*used)(const struct spp_args *args);
  const char *needs;
} by_args[] = {
    {"checkpoint-rate", fails_sometimes, "without --mtbf nothing fails"},
    {"restart-time", fails_sometimes, "without --mtbf nothing fails"},
    {"dataset-samples", counts_no_tokens, "--dataset-tokens says how long an epoch is"},
};

/* ---- by trying another value under the layout ---- */

static void other_ring(struct spp_job *job) {
  job->ring_impl = (enum spp_ring_impl)((job->ring_impl + 1) % SPP_RING_IMPL_COUNT);
}
static void other_order(struct spp_job *job) {
  job->ring_order = job->ring_order == SPP_RING_ZIGZAG ? SPP_RING_CONTIGUOUS : SPP_RING_ZIGZAG;
}
static void other_chunk(struct spp_job *job) {
  job->loss_chunk_tokens = job->loss_chunk_tokens > 1 ? job->loss_chunk_tokens / 2 : 4096;
}
static void other_bucket(struct spp_job *job) {
  job->bucket_elements = spp_sat_mul(spp_max64(1, job->bucket_elements), 2);
}
static void other_overlap(struct spp_job *job) {
  job->overlap = !job->overlap;
}
static void other_gradients(struct spp_job *job) {
  job->grads_bytes = job->grads_bytes == 2 ? 4 : 2;
}

static void other_params(struct spp_job *job) {
  job->fp8_params = !spp_job_keeps_fp8_only(job);
}

static const struct {
  const char *option;
  void (*change)(struct spp_job *job);
  const char *needs;
} by_trial[] = {
    {"ring-impl", other_ring, "this layout runs no ring"},
    {"ring-order", other_order, "no ring or all-gather splits the keys here"},
    {"loss-chunk", other_chunk, "the chunks of this loss decide neither the peak nor the time"},
    {"bucket-elements", other_bucket, "this layout reduces or gathers nothing in buckets"},
    {"overlap", other_overlap, "this layout has no communication that could hide"},
    {"fp8-params", other_params, "only --dtype fp8 trained with Transformer Engine keeps 8-bit weights"},
    {"grads-dtype", other_gradients, "the gradients of this method and sharding have their own type"},
};

/* Part by part: what a step that waits for the host hides is an effect too. */
static bool same_time(const struct spp_time *a, const struct spp_time *b) {
  for (int i = 0; i < spp_time_part_count; i++)
    if (spp_fact_time_part(a, i) < spp_fact_time_part(b, i) ||
        spp_fact_time_part(a, i) > spp_fact_time_part(b, i))
      return false;
  return true;
}

static bool same_answer(const struct spp_prediction *a, const struct spp_prediction *b) {
  const struct spp_memory *m = &a->memory, *n = &b->memory;
  return m->device_bytes == n->device_bytes && m->logits_bytes == n->logits_bytes &&
         memcmp(m->parts, n->parts, sizeof m->parts) == 0 &&
         memcmp(m->resident, n->resident, sizeof m->resident) == 0 &&
         m->host_bytes_per_node == n->host_bytes_per_node && same_time(&a->time, &b->time);
}

/* ---- by the layout ---- */

static bool selects(const struct spp_layout *layout) {
  return layout->recompute == SPP_RECOMPUTE_SELECTIVE;
}
static bool repeats_layers(const struct spp_layout *layout) {
  return layout->recompute == SPP_RECOMPUTE_FULL;
}
static bool has_stages(const struct spp_layout *layout) {
  return layout->pp > 1;
}
static bool shares_states(const struct spp_layout *layout) {
  return layout->zero > 0;
}
static bool has_tensor_parallelism(const struct spp_layout *layout) {
  return layout->tp > 1;
}
static bool splits_sequences(const struct spp_layout *layout) {
  return spp_layout_sp(layout) > 1;
}
static const struct {
  const char *option;
  bool (*used)(const struct spp_layout *layout);
  const char *needs;
} by_layout[] = {
    {"recompute-modules", selects, "only --recompute selective takes a list of modules"},
    {"recompute-layers", repeats_layers, "only --recompute full takes a number of layers"},
    {"schedule", has_stages, "one pipeline stage needs no schedule"},
    {"dp-replicate", shares_states, "without sharded states every rank is a copy"},
    {"megatron-sp", has_tensor_parallelism, "one tensor-parallel rank holds the whole residual stream"},
};

static bool given(const struct spp_cli *cli, const char *option) {
  return spp_cli_set_by(cli, option) == SPP_SET_BY_FLAG;
}

/* The name as it was typed: --no-overlap, --freeze-vision, --no-megatron-sp. */
static const char *typed(const struct spp_cli *cli, const char *option) {
  if (strcmp(option, "megatron-sp") == 0 && cli->args.request.megatron_sp == 0) return "no-megatron-sp";
  if (strcmp(option, "fp8-params") == 0 && cli->args.spec.fp8_params == 0) return "no-fp8-params";
  if (strcmp(option, "overlap") == 0 && cli->args.spec.overlap == 0) return "no-overlap";
  if (strcmp(option, "reference") == 0 && cli->args.spec.reference == 0) return "no-reference";
  if (strcmp(option, "train-vision") == 0 && cli->args.spec.vision_trainable == 0) return "freeze-vision";
  return option;
}

struct list {
  const struct spp_cli *cli;
  struct spp_advice *advice;
  int count, max;
};

static void add(struct list *list, const char *option, const char *needs) {
  struct spp_advice *advice = &list->advice[list->count];
  if (list->count >= list->max) return;
  for (int i = 0; i < list->count; i++) /* said already */
    if (strstr(list->advice[i].text, option)) return;
  snprintf(advice->code, sizeof advice->code, "no-effect");
  snprintf(advice->text, sizeof advice->text, "--%s has no effect: %s", typed(list->cli, option), needs);
  list->count++;
}

static void try_others(struct list *list, const struct spp_job *job, const struct spp_layout *layout) {
  struct spp_prediction *now = malloc(2 * sizeof *now);
  if (!now) return; /* a warning less */
  spp_predict(job, layout, NULL, &now[0]);
  for (size_t i = 0; i < sizeof by_trial / sizeof by_trial[0]; i++) {
    struct spp_job other = *job;
    if (!given(list->cli, by_trial[i].option)) continue;
    by_trial[i].change(&other);
    spp_predict(&other, layout, NULL, &now[1]);
    if (same_answer(&now[0], &now[1])) add(list, by_trial[i].option, by_trial[i].needs);
  }
  free(now);
}

int spp_idle_options(const struct spp_cli *cli, const struct spp_job *job, const struct spp_layout *layout,
                     struct spp_advice *advice, int max) {
  struct list list = {cli, advice, 0, max};
  for (size_t i = 0; i < sizeof by_job / sizeof by_job[0]; i++)
    if (given(cli, by_job[i].option) && !by_job[i].used(job)) add(&list, by_job[i].option, by_job[i].needs);
  for (size_t i = 0; i < sizeof by_args / sizeof by_args[0]; i++)
    if (given(cli, by_args[i].option) && !by_args[i].used(&cli->args))
      add(&list, by_args[i].option, by_args[i].needs);
  if (layout && given(cli, "sp-kind") && cli->args.request.sp_kind != SPP_SP_NONE &&
      !splits_sequences(layout))
    add(&list, "sp-kind", "no sequence is split: --sp, --ulysses or --ring say over how many GPUs");
  for (size_t i = 0; layout && i < sizeof by_layout / sizeof by_layout[0]; i++)
    if (given(cli, by_layout[i].option) && !by_layout[i].used(layout))
      add(&list, by_layout[i].option, by_layout[i].needs);
  if (layout) try_others(&list, job, layout);
  return list.count;
}
