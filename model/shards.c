#include "model/shards.h"

#include <string.h>

#include "model/job.h"

static const struct {
  const char *word; /* part of the weight's name */
  unsigned bit;
} targets[] = {
    {"q_proj", SPP_LORA_Q},       {"q_a_proj", SPP_LORA_Q},
    {"q_b_proj", SPP_LORA_Q},     {"k_proj", SPP_LORA_K},
    {"v_proj", SPP_LORA_V},       {"kv_a_proj", SPP_LORA_K},
    {"kv_b_proj", SPP_LORA_V},    {"qkv", SPP_LORA_Q | SPP_LORA_K | SPP_LORA_V},
    {"o_proj", SPP_LORA_O},       {"gate_up", SPP_LORA_GATE | SPP_LORA_UP},
    {"gate_proj", SPP_LORA_GATE}, {"up_proj", SPP_LORA_UP},
    {"down_proj", SPP_LORA_DOWN},
};

static bool lora_targets_weight(const struct spp_weight *w, unsigned chosen) {
  if (!w->linear || w->role == SPP_ROLE_HEAD || w->role == SPP_ROLE_ROUTER || w->role == SPP_ROLE_EMBEDDING)
    return false;
  if (chosen == SPP_LORA_ALL_LINEAR) return true;
  for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++)
    if (strstr(w->name, targets[i].word)) return (targets[i].bit & chosen) != 0;
  return false;
}

/* Column parallel: A is whole on each rank and B is cut; row parallel the other way round. */
static void add_lora(struct spp_weight_sums *s, const struct spp_weight *w) {
  if (w->role == SPP_ROLE_EXPERT) {
    s->lora_expert += w->copies * (w->rows + w->cols);
    s->lora_expert_one += w->rows + w->cols;
    s->lora_expert_modules++;
    return;
  }
  s->lora_modules++;
  s->lora_split += w->split == SPP_SPLIT_OUTPUT ? w->rows : w->split == SPP_SPLIT_INPUT ? w->cols : 0;
  s->lora_replicated += w->split == SPP_SPLIT_OUTPUT  ? w->cols
                        : w->split == SPP_SPLIT_INPUT ? w->rows
                                                      : w->rows + w->cols;
}

/* Down-projections of latent attention, duplicated over tensor-parallel ranks: each sees its part of a
 * sequence-parallel stream, like a norm (NVIDIA/Megatron-LM
 * megatron/core/transformer/multi_latent_attention.py 0.14.0, parallel_mode "duplicated";
 * distributed/finalize_model_grads.py sums what is marked sequence_parallel). */
static bool makes_latents(const struct spp_weight *w) {
  return strncmp(w->name, "q_a_", 4) == 0 || strncmp(w->name, "kv_a_", 5) == 0;
}

/* Sees a part of the tokens where those are spread over tensor-parallel ranks: megatron-core 0.16.1 sets
 * `sequence_parallel` on norms, the router (moe/router.py) and the shared expert's gate
 * (moe/shared_experts.py). */
static bool is_partial(const struct spp_weight *w) {
  bool gate = w->role == SPP_ROLE_SHARED_EXPERT && w->split == SPP_SPLIT_NONE;
  return w->role == SPP_ROLE_NORM || w->role == SPP_ROLE_ROUTER || gate;
}

static void add_weight(struct spp_weight_sums *s, const struct spp_weight *w, unsigned lora_targets) {
  int64_t elements = w->rows * w->cols * w->copies;
  bool quantised = w->linear && w->role != SPP_ROLE_HEAD && w->role != SPP_ROLE_EMBEDDING;
  if (w->role == SPP_ROLE_EXPERT) {
    s->expert += elements;
    s->quantised_expert += quantised ? elements : 0;
    s->quantised_expert_modules += quantised;
  } else {
    s->split += w->split == SPP_SPLIT_NONE ? 0 : elements;
    s->replicated += w->split == SPP_SPLIT_NONE ? elements : 0;
    s->norm += is_partial(w) ? elements : 0;
    s->latent += makes_latents(w) ? elements : 0;
    s->latent_weights += makes_latents(w) ? 1 : 0;
    s->head_norm += strcmp(w->name, "q_norm") == 0 || strcmp(w->name, "k_norm") == 0 ? elements : 0;
    s->quantised += quantised ? elements : 0;
    s->quantised_modules += quantised;
  }
  if (lora_targets && lora_targets_weight(w, lora_targets)) add_lora(s, w);
}

/* Adapted linears of a layer that run as one with the one before: q, k, v; gate, up. */
static void add_joined(const struct spp_layer_kind *kind, unsigned lora_targets, struct spp_weight_sums *s) {
  s->lora_joined = s->lora_modules;
  for (int i = 1; lora_targets && i < kind->weight_count; i++) {
    const struct spp_weight *w = &kind->weights[i];
    if (!spp_weights_join(w - 1, w) || !lora_targets_weight(w, lora_targets) ||
        !lora_targets_weight(w - 1, lora_targets))
      continue;
    if (w->role == SPP_ROLE_EXPERT) {
      s->lora_expert_spared += w->copies * w->cols;
      s->lora_expert_one_spared += w->cols;
      continue;
    }
    s->lora_joined--;
    s->lora_spared += w->cols;
  }
}

void spp_model_sums_join(struct spp_model_sums *sums) {
  for (int k = 0; k < SPP_MAX_LAYER_KINDS; k++) {
    struct spp_weight_sums *s = &sums->kinds[k];
    s->lora_replicated -= s->lora_spared;
    s->lora_expert -= s->lora_expert_spared;
    s->lora_expert_one -= s->lora_expert_one_spared;
    s->lora_modules = s->lora_joined;
    s->lora_spared = s->lora_expert_spared = s->lora_expert_one_spared = 0;
  }
}

static struct spp_weight_sums *outer_place(struct spp_model_sums *sums, enum spp_weight_role role) {
  if (role == SPP_ROLE_EMBEDDING) return &sums->embedding;
  if (role == SPP_ROLE_POSITION) return &sums->position;
  if (role == SPP_ROLE_HEAD) return &sums->head;
  if (role == SPP_ROLE_VISION) return &sums->vision;
  return &sums->other;
}

void spp_model_sums_count(const struct spp_arch *arch, unsigned lora_targets, struct spp_model_sums *sums) {
  memset(sums, 0, sizeof *sums);
  for (int k = 0; k < arch->kind_count; k++) {
    for (int i = 0; i < arch->kinds[k].weight_count; i++)
      add_weight(&sums->kinds[k], &arch->kinds[k].weights[i], lora_targets);
    add_joined(&arch->kinds[k], lora_targets, &sums->kinds[k]);
  }
  for (int i = 0; i < arch->outer_weight_count; i++) {
    const struct spp_weight *w = &arch->outer_weights[i];
    if (w->role == SPP_ROLE_MTP) continue;
    add_weight(outer_place(sums, w->role), w, w->role == SPP_ROLE_VISION ? 0 : lora_targets);
  }
}
