/* ms-swift: `swift sft`, `swift pt`, `swift rlhf`, `swift infer`. */
#include <inttypes.h>
#include <stdio.h>

#include "base/num.h"
#include "interop/reading.h"

/* ms-swift 4.6.0 swift/arguments, swift/trainers/arguments.py, swift/rlhf_trainers/: names of fields */
static const char *const known_swift[] = {
    "acc_strategy adalora_beta1 adalora_beta2 adalora_deltaT adalora_init_r adalora_orth_reg_weight",
    "adalora_target_r adalora_tfinal adalora_tinit adapter_act adapter_length adapters",
    "add_non_thinking_prefix add_version advantage_estimator advantage_reweight agent_template",
    "aligner_lr async_generate attn_impl beta bnb_4bit_compute_dtype bnb_4bit_quant_storage",
    "bnb_4bit_quant_type bnb_4bit_use_double_quant boft_block_num boft_block_size boft_dropout",
    "boft_n_butterfly_factor cached_dataset cached_val_dataset callbacks center_rewards_coefficient",
    "check_model chord_enable_phi_function chord_mu_decay_steps chord_mu_peak chord_mu_valley",
    "chord_mu_warmup_steps chord_sft_dataset chord_sft_per_device_train_batch_size cliprange",
    "cliprange_value columns completion_length_limit_scope cosine_max_len",
    "cosine_max_len_value_correct cosine_max_len_value_wrong cosine_min_len_value_correct",
    "cosine_min_len_value_wrong cpo_alpha create_checkpoint_symlink custom_dataset_info",
    "custom_register_path dataset dataset_num_proc dataset_shuffle decision_drop_instructions",
    "decision_shuffle_fields decision_state_as_text decision_subsample_options deepspeed_autotp_size",
    "delta desirable_weight device_map disable_auto_column_mapping disable_ignore_empty_think",
    "discopop_tau download_mode ds3_gather_for_generation dynamic_sample early_stop_interval",
    "enable_channel_loss enable_dft_loss enable_flattened_weight_sync enable_npu_model_patch",
    "enable_thinking epsilon epsilon_high eval_dataset eval_dataset_args eval_generation_config",
    "eval_limit eval_metric eval_use_evalscope experts_impl external_plugins extra_eval_args",
    "fipo_clip_high_only fipo_clip_range fipo_decay_rate fipo_safety_threshold fourier_n_frequency",
    "fourier_scaling freeze_aligner freeze_llm freeze_parameters freeze_parameters_ratio",
    "freeze_parameters_regex freeze_vit galore_cos_threshold galore_gamma_proj",
    "galore_optim_per_parameter galore_proj_bits galore_proj_group_size galore_proj_quant",
    "galore_proj_type galore_quantization galore_queue_size galore_rank galore_scale",
    "galore_target_modules galore_update_proj_gap galore_with_embedding gamma generation_batch_size",
    "gkd_logits_topk gym_env hqq_axis ignore_args_error importance_sampling_level infer_backend",
    "init_strategy init_weights interleave_prob is_binary_loss_scale kl_coef kl_in_reward",
    "label_smoothing lam lazy_tokenize ld_alpha lisa_activated_layers lisa_step_interval",
    "llamapro_num_groups llamapro_num_new_blocks lmbda lmdeploy_cache_max_entry_count",
    "lmdeploy_quant_policy lmdeploy_session_len lmdeploy_tp lmdeploy_vision_batch_size load_args",
    "load_data_args load_from_cache_file local_repo_path local_rollout_forward_batch_size",
    "log_completions log_entropy log_rollout_offpolicy_metrics logprobs lora_alpha lora_bias",
    "lora_dropout lora_dtype lora_ga_batch_size lora_ga_direction lora_ga_iters lora_ga_max_length",
    "lora_ga_scale lora_ga_stable_gamma lora_rank lorap_lr_ratio loss_scale loss_type loss_weights",
    "max_batch_size max_completion_length max_epochs max_length max_memory max_model_len",
    "max_new_tokens max_pixels max_resample_times max_shard_size max_turns metric min_p",
    "missing_eos_penalty model model_author model_kwargs model_name model_revision model_type",
    "modules_to_save move_model_batches mrl_dims multi_turn_scheduler new_special_tokens norm_bbox",
    "num_beams num_generations num_generations_eval num_iterations num_labels num_mini_batches",
    "num_ppo_epochs num_sample_generations off_policy_sequence_mask_delta offload_model",
    "offload_optimizer offload_teacher_model optimizer overlong_filter packing packing_length",
    "packing_num_proc packing_strategy padding_free padding_side preserve_thinking problem_type",
    "quant_bits quant_method real_tau ref_adapter_name ref_adapters ref_model ref_model_mixup_alpha",
    "ref_model_revision ref_model_sync_steps ref_model_type reference_free reft_args",
    "reft_intervention_type reft_layer_key reft_layers reft_rank repetition_max_penalty",
    "repetition_n_grams repetition_penalty reranker_use_activation response_length response_prefix",
    "result_path resume_only_model reward_adapters reward_funcs reward_model reward_model_plugin",
    "reward_model_revision reward_model_type reward_template reward_weights rlhf_type rlsd_lambda",
    "rlsd_lambda_decay_steps rlsd_lambda_warmup_steps rlsd_negative_only rlsd_reweight_clip_range",
    "rollout_importance_sampling_mode rollout_importance_sampling_threshold rope_scaling",
    "router_aux_loss_coef rpo_alpha safe_serialization scale_rewards sdar_gate_beta sdar_loss_coef",
    "seq_kd sequence_parallel_size sft_alpha sglang_context_length sglang_disable_cuda_graph",
    "sglang_disable_custom_all_reduce sglang_dp_size sglang_enable_dp_attention sglang_enable_ep_moe",
    "sglang_ep_size sglang_kv_cache_dtype sglang_mem_fraction_static sglang_pp_size",
    "sglang_quantization sglang_speculative_algorithm sglang_speculative_eagle_topk",
    "sglang_speculative_num_draft_tokens sglang_speculative_num_steps sglang_tp_size",
    "shuffle_buffer_size simpo_gamma sleep_level soft_cache_length soft_max_length",
    "split_dataset_ratio steps_per_generation stop_words stopping_strategy stream streaming strict",
    "structured_outputs_regex swanlab_email_language swanlab_exp_name swanlab_mode",
    "swanlab_notification_method swanlab_project swanlab_receiver_email swanlab_secret",
    "swanlab_sender_email swanlab_smtp_port swanlab_smtp_server swanlab_token swanlab_webhook_url",
    "swanlab_workspace sync_ref_model system target_modules target_parameters target_regex task_type",
    "tau_neg tau_pos teacher_adapters teacher_deepspeed teacher_kl_coef teacher_model",
    "teacher_model_revision teacher_model_server teacher_model_type teacher_tag_key temperature",
    "template template_backend top_entropy_quantile top_k top_logprobs top_p torch_dtype",
    "train_dataloader_shuffle trainable_parameters trainable_parameters_regex truncation_strategy",
    "tuner_backend tuner_type undesirable_weight use_chat_template use_dora use_flash_ckpt use_galore",
    "use_gym_env use_hf use_logits_to_keep use_rslora use_swift_lora use_vllm val_dataset",
    "val_dataset_sample val_dataset_shuffle vera_d_initial vera_dropout vera_projection_prng_key",
    "vera_rank vf_coef vit_gradient_checkpointing vit_lr vllm_data_parallel_size",
    "vllm_disable_cascade_attn vllm_disable_custom_all_reduce vllm_enable_expert_parallel",
    "vllm_enable_lora vllm_enable_prefix_caching vllm_enforce_eager vllm_engine_kwargs",
    "vllm_gpu_memory_utilization vllm_limit_mm_per_prompt vllm_max_lora_rank vllm_max_model_len",
    "vllm_max_num_seqs vllm_mm_processor_cache_gb vllm_mode vllm_pipeline_parallel_size",
    "vllm_quantization vllm_reasoning_parser vllm_server_base_url vllm_server_group_port",
    "vllm_server_host vllm_server_pass_dataset vllm_server_port vllm_server_timeout",
    "vllm_speculative_config vllm_tensor_parallel_size vllm_use_async_engine wandb_log_unique_prompts",
    "whiten_rewards write_batch_size zero_hpz_partition_size",
    NULL,
};

/* swift/arguments/sft_args.py (_init_deepspeed: the names of presets), tuner_args.py, base_args/model_args.py
 * (attn_impl), base_args/quant_args.py; older presets "default-zero3" as of ms-swift 2. */
static const struct spp_format_row rows[] = {
    {"mode=train", "swift pt"},
    {"mode=dpo", "swift rlhf"},
    {"mode=dpo&reference=0", "--rlhf_type simpo"},
    {"mode=dpo&reference=0", "--rlhf_type orpo"},
    {"mode=dpo&reference=0", "--rlhf_type cpo"},
    {"reference=0", "--rlhf_type grpo --beta 0"},
    {"reference=0", "--rlhf_type grpo --beta 0.0"},
    {"zero=0", "--deepspeed none"},
    {"zero=0", "--deepspeed zero0"},
    {"zero=2&offload=none", "--deepspeed default-zero2"},
    {"zero=3&offload=none", "--deepspeed default-zero3"},
    {"zero=2&offload=optimizer", "--deepspeed zero2-offload"},
    {"zero=3&offload=optimizer+params", "--deepspeed zero3-offload"},
    {"zero=3&offload=none", "--fsdp fsdp2"},
    {"method=full", "--tuner_type full"},
    {"method=lora", "--tuner_type lora"},
    {"", "--lora_rank {lora_rank} --lora_dropout {lora_dropout} --target_modules {lora_targets}"},
    {"method=qlora", "--tuner_type lora --quant_bits 4"},
    {"method=qlora&quant=int8", "--tuner_type lora --quant_bits 8"},
    {"quant=nf4", "--bnb_4bit_use_double_quant false"},
    {"quant=nf4-double", "--bnb_4bit_use_double_quant true"},
    {"", "--galore_rank {galore_rank}"},
    {"attention=fa2", "--attn_impl flash_attn"},
    {"packing=1", "--padding_free true"},
    {"train_vision=1", "--freeze_vit false"},
    {"train_vision=0", "--freeze_vit true"},
};

static const struct spp_format_note notes[] = {
    {"freeze_parameters freeze_parameters_regex freeze_parameters_ratio trainable_parameters "
     "trainable_parameters_regex "
     "freeze_llm freeze_aligner",
     "which weights of the model stay frozen is not in the model: all or none are trained"},
    {"zero_hpz_partition_size",
     "the second copy of the weights that ZeRO++ keeps in a node is not in the model"},
    {"deepspeed_autotp_size", "tensor parallelism inside DeepSpeed is not in the model"},
    {"device_map max_memory", "a model cut over the GPUs of one process is not in the model"},
    {"use_logits_to_keep", "logits of the answers only: the loss needs less than predicted"},
    {"lisa_activated_layers llamapro_num_new_blocks use_dora",
     "this way of training a part is not in the model"},
    {"reward_model teacher_model", "the memory of a second model beside the trained one is not in the model"},
    {"use_vllm vllm_mode vllm_gpu_memory_utilization vllm_tensor_parallel_size vllm_max_model_len "
     "sleep_level offload_model "
     "offload_optimizer move_model_batches",
     "the engine that samples completions beside the training is not in the model"},
    {NULL, NULL},
};

static const struct spp_format_rows own = SPP_ROWS(rows);

/* swift/trainers/arguments.py (__post_init__): accumulation so that about 16 sequences make a step;
 * swift/arguments/rlhf_args.py: 1 for GRPO. base_args/template_args.py, data_args.py: packed rows are
 * packing_length long, max_length when that is not said; in GRPO max_completion_length comes after a prompt
 * of max_length. */
static void settle(struct spp_reading *r) {
  const char *mode = spp_reading_word(r, "mode"), *length = spp_reading_flag(r, "packing_length");
  const char *packing = spp_reading_word(r, "packing"),
             *answer = spp_reading_flag(r, "max_completion_length");
  const struct spp_entry *entry = NULL;
  char text[32];
  int64_t gpus = spp_reading_gpus(r), micro = spp_reading_number(r, "micro_batch", 1), accum = 1;
  bool grpo = mode && spp_names_have("grpo", mode);
  if (length && packing && packing[0] == '1')
    spp_reading_bind(r, "seq", length, spp_entries_find(&r->entries, SPP_ENTRY_FLAG, "packing_length"));
  if (grpo && answer) {
    int64_t prompt = spp_reading_number(r, "seq", 0);
    entry = spp_entries_find(&r->entries, SPP_ENTRY_FLAG, "max_completion_length");
    spp_reading_bind(r, "completion_tokens", answer, entry);
    snprintf(text, sizeof text, "%" PRId64,
             spp_sat_add(prompt, spp_reading_number(r, "completion_tokens", 0)));
    if (prompt > 0) spp_reading_bind(r, "seq", text, entry);
  }
  if (spp_reading_find(r, "grad_accum") || gpus <= 0) return;
  if (!grpo) accum = spp_max64(1, spp_ceil_div(16, spp_sat_mul(micro, gpus)));
  snprintf(text, sizeof text, "%" PRId64, accum);
  spp_reading_bind(r, "grad_accum", text, NULL);
}

const struct spp_format spp_format_ms_swift = {
    .name = "ms-swift",
    .framework = "ms-swift",
    .display = "ms-swift",
    .source = "ms-swift 4.6.0: swift/arguments/{base_args/*,sft_args,rlhf_args,tuner_args}.py, "
              "swift/trainers/arguments.py",
    .signs = "swift sft|swift pt|swift rlhf|swift "
             "infer|*swift/cli/sft.py|*swift/cli/pt.py|*swift/cli/rlhf.py|swift.cli.*",
    .keys = "tuner_type|train_type|sft_type",
    .aliases = "sft_type=tuner_type train_type=tuner_type lora_target_modules=target_modules "
               "target_module=target_modules "
               "model_id_or_path=model attention_impl=attn_impl quantization_bit=quant_bits "
               "batch_size=per_device_train_batch_size "
               "dtype=torch_dtype",
    .defaults =
        "NPROC_PER_NODE=1 --tuner_type lora --lora_rank 8 --lora_dropout 0.05 --target_modules all-linear "
        "--galore_rank 128 --attn_impl sdpa --per_device_train_batch_size 1 --gradient_checkpointing true "
        "--deepspeed none --num_generations 8",
    .files = "deepspeed config fsdp",
    .rows = {&spp_rows_launchers, &spp_rows_trainer, &spp_rows_deepspeed, &own},
    .notes = notes,
    .known = {known_swift, spp_known_trainer, spp_known_deepspeed},
    .settle = settle,
    .syntax = SPP_SYNTAX_COMMAND,
    .negates = true,
};
