/* verl: Hydra overrides of its SFT and PPO trainers. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "interop/reading.h"

/* verl 0.9.1 verl/trainer/config/{sft_trainer_engine,_generated_ppo_trainer,engine/fsdp,model/hf_model}.yaml.
 */
static const struct spp_format_row rows[] = {
    {"mode=train", "verl.trainer.sft_trainer"},
    {"mode=train", "verl.trainer.fsdp_sft_trainer"},
    {"mode=grpo", "verl.trainer.main_ppo"},
    {"", "model.path={hf_id} data.max_length={seq} data.micro_batch_size_per_gpu={micro_batch} "
         "data.train_batch_size={global_batch}"},
    {"", "engine.ulysses_sequence_parallel_size={sp}"},
    {"", "--ulysses_sequence_parallel_size {sp}"},
    {"", "trainer.n_gpus_per_node={nproc} trainer.nnodes={nodes}"},
    {"method=lora", "model.lora_rank={lora_rank}"},
    {"method=full", "model.lora_rank=0"},
    {"recompute=full", "model.enable_gradient_checkpointing=true"},
    {"recompute=none", "model.enable_gradient_checkpointing=false"},
    {"offload_params=1", "engine.param_offload=true"},
    {"offload_optimizer=1", "engine.optimizer_offload=true"},
    {"zero=3", "engine.reshard_after_forward=true"},
    {"zero=2", "engine.reshard_after_forward=false"},
    {"", "actor_rollout_ref.rollout.name={engine}"},
    {"", "actor_rollout_ref.model.path={hf_id} actor_rollout_ref.rollout.n={completions}"},
    {"", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu={micro_batch} "
         "actor_rollout_ref.actor.ppo_max_token_len_per_gpu="
         "{tokens_per_rank}"},
    {"", "actor_rollout_ref.actor.ulysses_sequence_parallel_size={sp}"},
    {"method=lora", "actor_rollout_ref.model.lora_rank={lora_rank}"},
    {"method=full", "actor_rollout_ref.model.lora_rank=0"},
    {"recompute=full", "actor_rollout_ref.model.enable_gradient_checkpointing=true"},
    {"recompute=none", "actor_rollout_ref.model.enable_gradient_checkpointing=false"},
    {"offload_params=1", "actor_rollout_ref.actor.fsdp_config.param_offload=true"},
    {"offload_optimizer=1", "actor_rollout_ref.actor.fsdp_config.optimizer_offload=true"},
    {"zero=3", "actor_rollout_ref.actor.fsdp_config.reshard_after_forward=true"},
    {"zero=2", "actor_rollout_ref.actor.fsdp_config.reshard_after_forward=false"},
    {"loss=fused", "model.use_fused_kernels=true"},
};
static const struct spp_format_rows own = SPP_ROWS(rows);

static const struct spp_format_note notes[] = {
    {"actor_rollout_ref.actor.megatron.param_offload actor_rollout_ref.actor.megatron.grad_offload "
     "actor_rollout_ref.actor.megatron.optimizer_offload",
     "what waits in host memory while completions are sampled is on the GPU in the step that is predicted"},
    {"actor_rollout_ref.rollout.gpu_memory_utilization actor_rollout_ref.rollout.tensor_model_parallel_size",
     "the engine that samples completions beside the training is not in the model"},
    {"model.target_modules actor_rollout_ref.model.target_modules",
     "adapters on all linear layers are assumed"},
    {NULL, NULL},
};

/* verl 0.9.1 verl/trainer/ppo/ray_trainer.py RayPPOTrainer._update_actor: an optimizer step takes
 * ppo_mini_batch_size prompts with all their completions, whatever a rollout samples; 256 unless said
 * (verl/trainer/config/actor/actor.yaml), and no more than the rollout has. */
static void settle_mini_batch(struct spp_reading *r) {
  static const char flag[] = "actor_rollout_ref.actor.ppo_mini_batch_size";
  const char *prompts = spp_reading_flag(r, flag), *mode = spp_reading_word(r, "mode");
  const struct spp_entry *entry = spp_entries_find(&r->entries, SPP_ENTRY_FLAG, flag);
  char text[32];
  if (!prompts && (!mode || strcmp(mode, "grpo") != 0)) return;
  if (!prompts) prompts = "256"; /* trainer/config/actor/actor.yaml */
  spp_reading_bind(r, "prompts", prompts, entry);
  int64_t count = spp_reading_number(r, "prompts", 1);
  if (!entry) count = spp_min64(count, spp_reading_number(r, "global_batch", count));
  count = spp_sat_mul(count, spp_reading_number(r, "completions", 1));
  spp_reading_unbind(r, "prompts");
  spp_reading_unbind(r, "global_batch");
  snprintf(text, sizeof text, "%" PRId64, count);
  spp_reading_bind(r, "global_batch", text, entry);
}

/* A rollout is as long as its prompt and its response together. */
static void settle_length(struct spp_reading *r) {
  const char *prompt = spp_reading_flag(r, "data.max_prompt_length"),
             *response = spp_reading_flag(r, "data.max_response_length");
  const struct spp_entry *entry = spp_entries_find(&r->entries, SPP_ENTRY_FLAG, "data.max_response_length");
  char text[32];
  if (!prompt || !response || spp_reading_find(r, "seq")) return;
  spp_reading_bind(r, "prompt_tokens", prompt,
                   spp_entries_find(&r->entries, SPP_ENTRY_FLAG, "data.max_prompt_length"));
  spp_reading_bind(r, "response_tokens", response, entry);
  int64_t seq =
      spp_sat_add(spp_reading_number(r, "prompt_tokens", 1), spp_reading_number(r, "response_tokens", 1));
  snprintf(text, sizeof text, "%" PRId64, seq);
  spp_reading_bind(r, "seq", text, entry);
}

/* ---- its Megatron engine ---- */

/* Every one of the flags is read, so that none is left over as unknown. */
static bool says_megatron(struct spp_reading *r) {
  static const char *const flags[] = {"actor_rollout_ref.actor.strategy", "model_engine", "engine",
                                      "config_name"};
  bool megatron = spp_entries_find(&r->entries, SPP_ENTRY_FLAG, "tensor_model_parallel_size") != NULL;
  for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
    const char *value = spp_reading_flag(r, flags[i]);
    if (value && strstr(value, "megatron")) megatron = true;
  }
  return megatron;
}

static void unless_said(struct spp_reading *r, const char *name, const char *value) {
  if (!spp_reading_find(r, name)) spp_reading_bind(r, name, value, NULL);
}

/* verl 0.9.1 verl/trainer/config/engine/megatron.yaml: what holds unless it is said; trained on
 * megatron-core, it is predicted as Megatron-SWIFT, which samples completions beside it too. */
static void settle_megatron(struct spp_reading *r) {
  if (!says_megatron(r)) return;
  unless_said(r, "zero", "1");
  unless_said(r, "recompute", "none");
  unless_said(r, "dtype", "bf16");
  if (spp_reading_number(r, "tp", 1) > 1) unless_said(r, "megatron_sp", "1");
  spp_reading_bind(r, "framework", "megatron-swift", NULL);
  spp_reading_say(
      r, SPP_IMPORT_NOTE, NULL, NULL,
      "verl's Megatron engine trains on megatron-core: it is predicted as Megatron-SWIFT, which does "
      "too");
}

static void settle(struct spp_reading *r) {
  settle_mini_batch(r);
  settle_length(r);
  settle_megatron(r);
}

/* Keys of the Megatron engine, by the names of Megatron's own arguments. */
#define MEGATRON_KEYS(place)                                                                                 \
  place ".tensor_model_parallel_size=tensor_model_parallel_size " place                                      \
        ".pipeline_model_parallel_size=pipeline_model_parallel_size " place                                  \
        ".virtual_pipeline_model_parallel_size=virtual_pipeline_model_parallel_size " place                  \
        ".context_parallel_size=context_parallel_size " place                                                \
        ".expert_model_parallel_size=expert_model_parallel_size " place                                      \
        ".expert_tensor_parallel_size=expert_tensor_parallel_size " place                                    \
        ".sequence_parallel=sequence_parallel " place                                                        \
        ".use_distributed_optimizer=use_distributed_optimizer " place                                        \
        ".use_megatron_fsdp=use_megatron_fsdp " place                                                        \
        ".override_transformer_config.recompute_granularity=recompute_granularity " place                    \
        ".override_transformer_config.recompute_method=recompute_method " place                              \
        ".override_transformer_config.recompute_num_layers=recompute_num_layers " place                      \
        ".override_transformer_config.recompute_modules=recompute_modules "

const struct spp_format spp_format_verl = {
    .name = "verl",
    .framework = "verl",
    .display = "verl",
    .source = "verl 0.9.1: verl/trainer/config/*.yaml, verl/trainer/config/engine/{fsdp,megatron}.yaml",
    .signs = "verl.trainer.*",
    .keys = "actor_rollout_ref",
    .aliases = MEGATRON_KEYS("actor_rollout_ref.actor.megatron") MEGATRON_KEYS("engine"),
    .rows = {&spp_rows_launchers, &own, &spp_rows_megatron},
    .notes = notes,
    .known = {spp_known_verl},
    .settle = settle,
    .syntax = SPP_SYNTAX_COMMAND,
};
