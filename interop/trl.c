/* TRL's scripts, and any other under `accelerate launch`: flags of the launcher, its configuration, the
 * Trainer's. */
#include <string.h>

#include "interop/reading.h"

/* trl 1.16.0 trl/trainer/{base,sft,dpo,grpo,model}_config.py, trl/scripts/utils.py: names of fields */
static const char *const known_trl[] = {
    "activation_offloading assistant_only_loss attn_implementation beta bnb_4bit_quant_storage",
    "bnb_4bit_quant_type cache_implementation cast_lm_head_to_fp32 chat_template_kwargs",
    "chat_template_path columns completion_only_loss data_dir data_files dataset_config",
    "dataset_kwargs dataset_name dataset_num_proc dataset_streaming dataset_test_split",
    "dataset_text_field dataset_train_split datasets delta disable_dropout discopop_tau",
    "ds3_gather_for_generation dtype entropy_coef entropy_coef_delta entropy_coef_max",
    "entropy_coef_min entropy_target eos_token epsilon epsilon_high eval_packing",
    "f_alpha_divergence_coef f_divergence_type fraction generation_batch_size generation_kwargs",
    "ignore_bias_buffers importance_sampling_level label_smoothing ld_alpha load_in_4bit load_in_8bit",
    "log_completions log_completions_hub_repo log_multimodal log_unique_prompts lora_alpha",
    "lora_dropout lora_modules_to_save lora_r lora_target_modules lora_target_parameters",
    "lora_task_type loss_type loss_weights mask_truncated_completions max_completion_length",
    "max_length max_tool_calling_iterations min_p model_init_kwargs model_name_or_path model_revision",
    "multi_objective_aggregation name num_completions_to_print num_generations num_generations_eval",
    "num_iterations off_policy_mask_threshold packing packing_strategy pad_to_multiple_of pad_token",
    "padding_free path precompute_ref_batch_size precompute_ref_log_probs ref_model_mixup_alpha",
    "ref_model_sync_steps repetition_penalty reward_weights router_aux_loss_coef sapo_temperature_neg",
    "sapo_temperature_pos scale_rewards shuffle_dataset split steps_per_generation streaming",
    "sync_ref_model temperature test_split_size top_entropy_quantile top_k top_p",
    "transformers_continuous_batching_config truncation_mode trust_remote_code use_adaptive_entropy",
    "use_bias_correction_kl use_bnb_nested_quant use_dora use_peft use_rslora",
    "use_transformers_continuous_batching use_transformers_paged use_vllm use_weighting vespo_k_neg",
    "vespo_k_pos vespo_lambda_neg vespo_lambda_pos vllm_enable_sleep_mode vllm_gpu_memory_utilization",
    "vllm_group_port vllm_importance_sampling_cap vllm_importance_sampling_clip_max",
    "vllm_importance_sampling_clip_min vllm_importance_sampling_correction",
    "vllm_importance_sampling_mode vllm_max_model_length vllm_mode vllm_model_impl",
    "vllm_server_base_url vllm_server_host vllm_server_port vllm_server_timeout",
    "vllm_structured_outputs_regex vllm_tensor_parallel_size",
    NULL,
};

/* accelerate 1.15.0 accelerate/commands/config/config_args.py: keys of its configuration */
static const char *const known_accelerate[] = {
    "additional_args base_job_name command_file commands compute_environment debug deepspeed_config",
    "deepspeed_config.* distributed_type downcast_bf16 dynamo_config dynamo_config.*",
    "ec2_instance_type enable_cpu_affinity fp8_config fp8_config.* fsdp_config fsdp_config.* gpu_ids",
    "iam_role_name image_uri ipex_config.* machine_rank main_process_ip main_process_port",
    "main_training_function megatron_lm_config megatron_lm_config.* mixed_precision mpirun_config",
    "mpirun_config.* num_machines num_processes parallelism_config parallelism_config.* profile",
    "py_version pytorch_version rdzv_backend region sagemaker_inputs_file sagemaker_metrics_file",
    "same_network tpu_env tpu_env.* tpu_name tpu_use_cluster tpu_use_sudo tpu_vm tpu_zone",
    "transformers_version use_cpu",
    NULL,
};

/* trl 1.16.0 trl/trainer/{base,sft,dpo,grpo,model}_config.py; accelerate 1.15.0
 * accelerate/commands/launch.py, accelerate/utils/dataclasses.py. */
static const struct spp_format_row rows[] = {
    {"mode=train", "trl sft"},
    {"mode=dpo", "trl dpo"},
    {"mode=grpo", "trl grpo"},
    {"mode=train", "sft.py"},
    {"mode=dpo", "dpo.py"},
    {"mode=grpo", "grpo.py"},
    {"mode=train", "trl.scripts.sft"},
    {"mode=dpo", "trl.scripts.dpo"},
    {"mode=grpo", "trl.scripts.grpo"},
    {"", "--max_length {seq} --vllm_max_model_length {seq}"},
    {"zero=0", "--use_fsdp false"},
    {"zero=0", "--multi_gpu true"},
    {"zero=3", "--use_fsdp true"},
    {"zero=3", "--distributed_type FSDP"},
    {"zero=0", "--use_fsdp true --parallelism_config_dp_shard_size 1 --use_parallelism_config true"},
    {"zero=0", "--distributed_type FSDP --parallelism_config_dp_shard_size 1"},
    {"zero=0", "--distributed_type MULTI_GPU"},
    {"zero=3", "--fsdp_reshard_after_forward FULL_SHARD"},
    {"zero=2", "--fsdp_reshard_after_forward SHARD_GRAD_OP"},
    {"zero=3", "--use_fsdp true --fsdp_reshard_after_forward true"},
    {"zero=2", "--use_fsdp true --fsdp_reshard_after_forward false"},
    {"zero=3", "--distributed_type FSDP --fsdp_reshard_after_forward true"},
    {"zero=2", "--distributed_type FSDP --fsdp_reshard_after_forward false"},
    {"offload_params=1", "--fsdp_offload_params true"},
    {"recompute=full", "--fsdp_activation_checkpointing true"},
    {"", "--zero_stage {zero}"},
    {"offload_optimizer=1", "--offload_optimizer_device cpu"},
    {"offload_params=1", "--offload_param_device cpu"},
    {"dtype=bf16", "--mixed_precision bf16"},
    {"dtype=fp16", "--mixed_precision fp16"},
    {"dtype=fp32", "--mixed_precision no"},
    {"sp_kind=allgather", "--parallelism_config_cp_size {sp}"},
    {"sp_kind=ulysses", "--parallelism_config_sp_size {sp}"},
    {"sp_kind=ulysses", "PARALLELISM_CONFIG_SP_SIZE={sp}"},
    {"", "PARALLELISM_CONFIG_TP_SIZE={tp}"},
    {"", "--deepspeed_multinode_launcher {launcher}"},
    {"", "PARALLELISM_CONFIG_DP_REPLICATE_SIZE={dp_replicate} PARALLELISM_CONFIG_DP_SHARD_SIZE={dp_shard}"},
    {"", "--parallelism_config_dp_replicate_size {dp_replicate} --parallelism_config_dp_shard_size "
         "{dp_shard}"},
    {"", "--parallelism_config_tp_size {tp} --parallelism_config_dp_replicate_size {dp_replicate}"},
    {"method=full", "--use_peft false"},
    {"method=lora", "--use_peft true"},
    {"method=qlora", "--use_peft true --load_in_4bit true"},
    {"method=qlora&quant=int8", "--use_peft true --load_in_8bit true"},
    {"", "--lora_r {lora_rank} --lora_dropout {lora_dropout} --lora_target_modules {lora_targets}"},
    {"packing=1", "--padding_free true"},
    {"", "--num_generations {completions}"},
};
static const struct spp_format_rows own = SPP_ROWS(rows);

static const struct spp_format_note notes[] = {
    {"use_vllm vllm_mode vllm_gpu_memory_utilization vllm_tensor_parallel_size",
     "the engine that samples completions beside the training is not in the model"},
    {"reward_model teacher_model", "the memory of a second model beside the trained one is not in the model"},
    {"use_megatron_lm", "Megatron-LM inside accelerate is not predicted by this format: see megatron-lm"},
    {NULL, NULL},
};

/* Sharded by DeepSpeed the same trainer is another framework here; its Ulysses is accelerate's (framework
 * fsdp2). */
static void settle(struct spp_reading *r) {
  const char *kind = spp_reading_flag(r, "distributed_type"), *use = spp_reading_flag(r, "use_deepspeed");
  const char *sp = spp_reading_word(r, "sp_kind"), *file = spp_reading_flag(r, "deepspeed");
  bool deepspeed = (kind && strcmp(kind, "DEEPSPEED") == 0) || (use && !spp_value_is_false(use)) || file;
  if (deepspeed && !(sp && strcmp(sp, "ulysses") == 0))
    spp_reading_bind(r, "framework", "hf-deepspeed", NULL);
}

#define NESTED                                                                                               \
  "fsdp_config.fsdp_version=fsdp_version fsdp_config.fsdp_reshard_after_forward=fsdp_reshard_after_forward " \
  "fsdp_config.fsdp_sharding_strategy=fsdp_reshard_after_forward "                                           \
  "fsdp_sharding_strategy=fsdp_reshard_after_forward "                                                       \
  "fsdp_config.fsdp_offload_params=fsdp_offload_params "                                                     \
  "fsdp_config.fsdp_activation_checkpointing=fsdp_activation_checkpointing "                                 \
  "fsdp_config.fsdp_auto_wrap_policy=fsdp_auto_wrap_policy deepspeed_config.zero_stage=zero_stage "          \
  "deepspeed_config.offload_optimizer_device=offload_optimizer_device "                                      \
  "deepspeed_config.offload_param_device=offload_param_device "                                              \
  "deepspeed_config.gradient_accumulation_steps=gradient_accumulation_steps "                                \
  "parallelism_config.parallelism_config_cp_size=parallelism_config_cp_size "                                \
  "parallelism_config.parallelism_config_sp_size=parallelism_config_sp_size "                                \
  "parallelism_config.parallelism_config_tp_size=parallelism_config_tp_size "                                \
  "parallelism_config.parallelism_config_dp_shard_size=parallelism_config_dp_shard_size "                    \
  "parallelism_config.parallelism_config_dp_replicate_size=parallelism_config_dp_replicate_size "            \
  "parallelism_config.parallelism_config_cp_comm_strategy=parallelism_config_cp_comm_strategy "              \
  "parallelism_config.parallelism_config_sp_backend=parallelism_config_sp_backend "                          \
  "deepspeed_config.deepspeed_multinode_launcher=deepspeed_multinode_launcher "                              \
  "max_seq_length=max_length"

const struct spp_format spp_format_trl = {
    .name = "trl",
    .framework = "fsdp2",
    .display = "TRL",
    .source =
        "trl 1.16.0: trl/trainer/*_config.py, trl/scripts/; accelerate 1.15.0: accelerate/commands/launch.py",
    .signs = "trl sft|trl dpo|trl "
             "grpo|trl.scripts.*|*trl/scripts/sft.py|*trl/scripts/dpo.py|*trl/scripts/"
             "grpo.py|sft.py|dpo.py|grpo.py",
    .aliases = NESTED,
    .defaults = "--use_fsdp false --use_peft false --max_length 1024 --per_device_train_batch_size 8 "
                "--gradient_accumulation_steps 1 "
                "--gradient_checkpointing true --lora_r 16 --lora_dropout 0.05 --attn_implementation sdpa "
                "--num_generations 8",
    .files = "config_file config deepspeed accelerate_config deepspeed_config_file "
             "deepspeed_config.deepspeed_config_file",
    .rows = {&spp_rows_launchers, &spp_rows_trainer, &spp_rows_deepspeed, &own},
    .notes = notes,
    .known = {known_trl, known_accelerate, spp_known_trainer, spp_known_deepspeed},
    .settle = settle,
    .syntax = SPP_SYNTAX_YAML,
    .negates = true,
    .file_name = "train.yaml",
    .file_flag = "--config",
    .launcher_file = "accelerate.yaml",
};

const struct spp_format spp_format_accelerate = {
    .name = "accelerate",
    .framework = "fsdp2",
    .display = "accelerate",
    .source = "accelerate 1.15.0: accelerate/commands/launch.py, commands/config/config_args.py; "
              "transformers 4.57.3 training_args.py",
    .signs = "accelerate launch",
    .keys = "compute_environment|distributed_type",
    .aliases = NESTED,
    .defaults =
        "--use_fsdp false --use_peft false --per_device_train_batch_size 8 --gradient_accumulation_steps 1 "
        "--gradient_checkpointing false --attn_implementation sdpa --num_generations 8",
    .files = "config_file config deepspeed deepspeed_config_file deepspeed_config.deepspeed_config_file",
    .rows = {&spp_rows_launchers, &spp_rows_trainer, &spp_rows_deepspeed, &own},
    .notes = notes,
    .known = {known_trl, known_accelerate, spp_known_trainer, spp_known_deepspeed},
    .settle = settle,
    .syntax = SPP_SYNTAX_COMMAND,
    .negates = true,
    .launcher_file = "accelerate.yaml",
};
