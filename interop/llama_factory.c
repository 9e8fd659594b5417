/* LLaMA-Factory: `llamafactory-cli train FILE.yaml`. */
#include "interop/reading.h"

/* llamafactory 0.9.5 src/llamafactory/hparams: names of fields */
static const char *const known_llamafactory[] = {
    "adapter_folder adapter_name_or_path add_special_tokens add_tokens additional_target",
    "apollo_layerwise apollo_proj apollo_proj_type apollo_rank apollo_scale apollo_scale_front",
    "apollo_scale_type apollo_target apollo_update_interval asft_alpha audio_sampling_rate",
    "badam_mask_mode badam_mode badam_start_block badam_switch_interval badam_switch_mode",
    "badam_update_ratio badam_verbose batch_size block_diag_attn buffer_size cache_dir",
    "compute_accuracy compute_dtype create_new_adapter crop_to_patches cutoff_len",
    "data_shared_file_system dataset dataset_dir default_system device_map",
    "disable_gradient_checkpointing disable_shuffling do_eval do_predict do_sample do_train",
    "double_quantization download_mode dpo_label_smoothing eaft_alpha early_stopping_steps",
    "enable_liger_kernel enable_thinking enable_torch_profiler eval_dataset eval_num_beams",
    "eval_on_each_dataset export_device export_dir export_hub_model_id export_legacy_format",
    "export_quantization_bit export_quantization_dataset export_quantization_maxlen",
    "export_quantization_nsamples export_size finetuning_type flash_attn fp8 freeze_extra_modules",
    "freeze_language_model freeze_multi_modal_projector freeze_trainable_layers",
    "freeze_trainable_modules freeze_vision_tower galore_layerwise galore_proj_type galore_rank",
    "galore_scale galore_target galore_update_interval hf_hub_token hyper_parallel_args",
    "ignore_pad_token_for_loss image_do_pan_and_scan image_max_pixels image_min_pixels",
    "include_effective_tokens_per_second infer_backend infer_dtype init_special_tokens",
    "interleave_probs kt_expert_checkpoint_path kt_lora_expert_intermediate_size kt_lora_expert_num",
    "kt_use_lora_experts kt_weight_path kto_chosen_weight kto_rejected_weight lang ld_alpha",
    "length_penalty lora_alpha lora_dropout lora_rank lora_target loraplus_lr_embedding",
    "loraplus_lr_ratio low_cpu_mem_usage mask_history max_length max_new_tokens max_samples media_dir",
    "mix_strategy mixture_of_depths model_max_length model_name_or_path model_revision module_dropout",
    "moe_aux_loss_coef ms_hub_token n_shot neat_packing new_special_tokens_config num_beams",
    "offload_folder oft_block_size oft_rank oft_target om_hub_token overwrite_cache packing",
    "pissa_convert pissa_init pissa_iter plot_loss ppo_buffer_size ppo_epochs ppo_score_norm",
    "ppo_target ppo_whiten_rewards pref_bco_weight pref_beta pref_ftx pref_loss",
    "preprocessing_batch_size preprocessing_num_workers preserve_thinking print_param_status",
    "profile_modules profiler_active_steps profiler_output_dir profiler_profile_memory",
    "profiler_record_shapes profiler_repeat profiler_wait_steps profiler_warmup_steps",
    "profiler_with_stack pure_bf16 quantization_bit quantization_device_map quantization_method",
    "quantization_type ray_init_kwargs ray_num_workers ref_model ref_model_adapters",
    "ref_model_quantization_bit repetition_penalty resize_vocab reward_model reward_model_adapters",
    "reward_model_quantization_bit reward_model_type rope_scaling save_dir sglang_config",
    "sglang_lora_backend sglang_maxlen sglang_mem_fraction sglang_tp_size shift_attn simpo_gamma",
    "skip_special_tokens split_special_tokens stage streaming swanlab_api_key swanlab_lark_secret",
    "swanlab_lark_webhook_url swanlab_logdir swanlab_mode swanlab_project swanlab_run_name",
    "swanlab_workspace task task_dir temperature template tokenized_path tool_format top_k top_p",
    "train_from_scratch train_on_prompt trust_remote_code upcast_layernorm upcast_lmhead_output",
    "use_adam_mini use_apollo use_asft_loss use_audio_in_video use_badam use_dft_loss use_dora",
    "use_eaft_loss use_fast_tokenizer use_galore use_hyper_parallel use_kt use_kv_cache use_llama_pro",
    "use_mca use_muon use_reentrant_gc use_rslora use_swanlab use_unsloth use_unsloth_gc",
    "model_class sample_backend train_dataset eval_dataset batching_strategy batching_workers init_config.*",
    "kernel_config.* quant_config.* optim_config.* lr_scheduler_config.* dist_config.* peft_config.*",
    "full_determinism save_epochs save_ckpt_as_hf max_new_tokens fp8 fp8_backend",
    "fp8_enable_fsdp_float8_all_gather prerelease",
    "use_v1_kernels val_size video_fps video_max_pixels video_maxlen video_min_pixels vllm_config",
    "vllm_enforce_eager vllm_gpu_util vllm_max_lora_rank vllm_maxlen",
    NULL,
};

/* llamafactory 0.9.5 src/llamafactory/hparams/{data_args,model_args,finetuning_args}.py; examples/deepspeed/.
 */
static const struct spp_format_row rows[] = {
    {"", "--model_name_or_path {hf_id} --cutoff_len {seq} --cp_size {sp}"},
    {"mode=train", "--stage sft"},
    {"mode=train", "--stage pt"},
    {"method=full", "--finetuning_type full"},
    {"method=lora", "--finetuning_type lora"},
    {"", "--lora_rank {lora_rank} --lora_dropout {lora_dropout} --lora_target {lora_targets}"},
    {"method=qlora", "--finetuning_type lora --quantization_bit 4"},
    {"method=qlora&quant=int8", "--finetuning_type lora --quantization_bit 8"},
    {"method=galore", "--use_galore true --galore_rank {galore_rank}"},
    {"zero=0", "--deepspeed none"},
    /* its v1: llamafactory 0.9.5 src/llamafactory/v1/config/{model,training}_args.py,
       plugins/trainer_plugins/distributed/fsdp2.py */
    {"", "--model {hf_id} --micro_batch_size {micro_batch} --global_batch_size {global_batch}"},
    {"zero=3", "--dist_config.name fsdp2"},
    {"zero=3", "--dist_config.name fsdp2 --dist_config.reshard_after_forward true"},
    {"zero=2", "--dist_config.name fsdp2 --dist_config.reshard_after_forward false"},
    {"offload_optimizer=1&offload_params=1", "--dist_config.offload_params true"},
    {"method=full", "--dist_config.name fsdp2"},
    {"method=full", "--dist_config.name deepspeed"},
    {"method=lora", "--peft_config.name lora"},
    {"method=qlora", "--peft_config.name lora --quant_config.quantization_bit 4"},
    {"method=qlora&quant=int8", "--peft_config.name lora --quant_config.quantization_bit 8"},
    {"recompute=full", "--enable_activation_checkpointing true"},
    {"recompute=none", "--enable_activation_checkpointing false"},
    {"packing=0", "--batching_strategy normal"},
    {"packing=0", "--batching_strategy dynamic_batching"},
    {"packing=1", "--batching_strategy padding_free"},
    {"packing=1", "--batching_strategy dynamic_padding_free"},
    {"loss=fused", "--kernel_config.name liger_kernel"},
    {"zero=0", "--deepspeed examples/deepspeed/ds_z0_config.json"},
    {"attention=sdpa", "--flash_attn auto"},
    {"attention=fa2", "--flash_attn flash_attention2"},
    {"recompute=full", "--disable_gradient_checkpointing false"},
    {"dtype=bf16", "--pure_bf16 true"},
    {"packing=1", "--packing true"},
    {"packing=1", "--neat_packing true"},
    {"train_vision=1", "--freeze_vision_tower false"},
    {"train_vision=0", "--freeze_vision_tower true"},
    {"zero=3", "--deepspeed examples/deepspeed/ds_z3_fp8_config.json"},
};
static const struct spp_format_rows own = SPP_ROWS(rows);

static const struct spp_format_note notes[] = {
    {"use_badam use_apollo use_adam_mini use_muon mixture_of_depths freeze_trainable_layers use_dora "
     "use_llama_pro",
     "this way of training is not in the model"},
    {"use_hyper_parallel hyper_parallel_args use_megatron_bridge use_mca tensor_model_parallel_size "
     "pipeline_model_parallel_size expert_model_parallel_size sequence_parallel use_distributed_optimizer "
     "virtual_pipeline_model_parallel_size recompute_granularity moe_grouped_gemm moe_token_dispatcher_type "
     "overlap_grad_reduce overlap_param_gather bias_activation_fusion apply_rope_fusion",
     "this engine is not predicted by this format: see megatron-lm and fsdp2"},
    {"freeze_multi_modal_projector freeze_language_model", "which parts stay frozen is not in the model"},
    {"fp8 fp8_enable_fsdp_float8_all_gather", "training in FP8 is not in the model of this framework"},
    {"use_kt", "experts that stay on the CPU are not in the model"},
    {"use_asft_loss", "the frozen model that this loss compares with is not in the model"},
    {"torch_compile", "compilation is not in the model: it keeps less and runs faster than predicted"},
    {"shift_attn", "attention within shifted blocks is not in the model"},
    {NULL, NULL},
};

const struct spp_format spp_format_llama_factory = {
    .name = "llama-factory",
    .framework = "llama-factory",
    .display = "LLaMA-Factory",
    .source = "llamafactory 0.9.5: src/llamafactory/hparams/*.py, v1/config/*.py, examples/; transformers "
              "4.57.3 training_args.py",
    .signs =
        "llamafactory-cli train|llamafactory-cli *|lmf train|src/train.py|*/src/train.py|src/train_bash.py",
    .keys = "model_name_or_path stage|model_name_or_path finetuning_type|model_name_or_path cutoff_len|"
            "train_dataset model dist_config|train_dataset model model_class",
    .aliases =
        "sequence_parallel_size=cp_size dist_config.cp_size=cp_size "
        "dist_config.config_file=deepspeed peft_config.r=lora_rank peft_config.lora_dropout=lora_dropout "
        "peft_config.target_modules=lora_target",
    .defaults =
        "--stage sft --finetuning_type lora --lora_rank 8 --lora_dropout 0.0 --lora_target all --cutoff_len "
        "2048 "
        "--per_device_train_batch_size 8 --gradient_accumulation_steps 1 --flash_attn auto --deepspeed none "
        "--disable_gradient_checkpointing false --galore_rank 16",
    .files = "deepspeed config",
    .rows = {&spp_rows_launchers, &spp_rows_trainer, &spp_rows_deepspeed, &own},
    .notes = notes,
    .known = {known_llamafactory, spp_known_trainer, spp_known_deepspeed},
    .syntax = SPP_SYNTAX_YAML,
    .negates = true,
    .file_name = "train.yaml",
};
