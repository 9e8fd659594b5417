/* How the elements of a model spread over ranks: sums over the weight rows, made once per job so that the
 * search's path never walks the rows. Sources: NVIDIA/Megatron-LM megatron/core/tensor_parallel/layers.py
 * (column and row parallel), huggingface/peft tuners/lora (A [r, in], B [out, r]). */
#ifndef SPP_MODEL_SHARDS_H
#define SPP_MODEL_SHARDS_H

#include "model/arch.h"

struct spp_weight_sums {
  int64_t split;      /* elements divided by tp */
  int64_t replicated; /* elements every tensor-parallel rank holds: norms, router, biases of row-parallel
                         outputs */
  int64_t norm; /* the part of `replicated` that Megatron sequence parallelism all-reduces over tp: norms,
                   router, gate of the shared expert */
  int64_t latent, latent_weights; /* the part of `replicated` that makes the latents of latent attention:
                                     elements, and how many weights; all-reduced likewise, one by one */
  int64_t head_norm; /* the part of `replicated` that sees the heads of one rank only: norms of q and k */
  int64_t expert;    /* elements divided by ep and etp */
  int64_t
      quantised; /* elements of `split` + `replicated` that QLoRA stores in 4 bits: linears but the head */
  int64_t quantised_expert;
  /* LoRA: trainable elements per unit of rank over the chosen targets */
  int64_t lora_split, lora_replicated, lora_expert;
  int64_t lora_expert_one; /* of lora_expert, one expert's */
  /* the A of linears that share their input and cut with the one before: parts of lora_replicated and
   * lora_expert */
  int64_t lora_spared, lora_expert_spared, lora_expert_one_spared;
  /* linears: adapted ones (each of an expert's counted once, whatever the experts), the same where those that
   * share their input and cut run as one, and those that QLoRA stores in 4 bits, experts' likewise */
  int64_t lora_modules, lora_joined, quantised_modules, lora_expert_modules, quantised_expert_modules;
};
/* sums[k] for layer kind k; the outer weights apart, because their place in the pipeline differs. */
struct spp_model_sums {
  struct spp_weight_sums kinds[SPP_MAX_LAYER_KINDS];
  struct spp_weight_sums embedding, position, head, vision, other; /* other: final norm */
};
/* lora_targets: SPP_LORA_* bits of model/job.h or SPP_LORA_ALL_LINEAR; 0 = no adapters. */
void spp_model_sums_count(const struct spp_arch *arch, unsigned lora_targets, struct spp_model_sums *sums);

/* One adapter for linears that are one module (q, k, v; gate, up): a single A. */
void spp_model_sums_join(struct spp_model_sums *sums);

/* Matrices that share their input and their cut run as one product under fused kernels (q, k, v; gate, up).
 */
static inline bool spp_weights_join(const struct spp_weight *a, const struct spp_weight *b) {
  return b->linear && a->role == b->role && a->cols == b->cols && a->split == b->split &&
         a->split == SPP_SPLIT_OUTPUT;
}

/* Elements on one rank. */
static inline int64_t spp_sums_dense(const struct spp_weight_sums *s, int64_t tp) {
  return s->split / tp + s->replicated;
}
static inline int64_t spp_sums_expert(const struct spp_weight_sums *s, int64_t ep, int64_t etp) {
  return s->expert / (ep * etp);
}
static inline int64_t spp_sums_lora_dense(const struct spp_weight_sums *s, int64_t tp, int64_t rank) {
  return rank * (s->lora_split / tp + s->lora_replicated);
}
/* shared: a rank's experts have one adapter in common. */
static inline int64_t spp_sums_lora_expert(const struct spp_weight_sums *s, int64_t ep, int64_t etp,
                                           int64_t rank, bool shared) {
  return rank * (shared ? s->lora_expert_one / etp : s->lora_expert / (ep * etp));
}

#endif
