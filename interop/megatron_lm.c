/* Megatron-LM: pretrain_gpt.py and its like. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "interop/reading.h"

/* megatron-core 0.16.1 megatron/core: fields of its configurations; ms-swift 3.9.0 swift/megatron/argument,
 * which names the arguments of megatron/training as they are. megatron/training itself is not on PyPI: a
 * hundred and forty of its own names (logging, checkpoints, data), those in the last lines among them, are
 * recalled. A name too many only passes a flag over
 * in silence. */
const char *const spp_known_megatron[] = {
    "account_for_embedding_in_pipeline_split account_for_loss_in_pipeline_split activation_func",
    "activation_func_clamp_value activation_func_fp8_input_store adam_beta1 adam_beta2 adam_eps",
    "adapter_load add_bias_linear add_qkv_bias align_param_gather apply_query_key_layer_scaling",
    "apply_residual_connection_post_layernorm apply_rope_fusion apply_wd_to_qk_layernorm",
    "architectures async_tensor_model_parallel_allreduce attention_backend attention_dropout",
    "attention_output_gate attention_softmax_in_fp32 attr auto_detect_ckpt_format autocast_dtype",
    "average_in_collective barrier_with_L1_time batch_invariant_mode batch_p2p_comm batch_p2p_sync",
    "beta beta_fast beta_slow bf16 bias_activation_fusion bias_dropout_fusion bucket_size",
    "cache_mla_latents calculate_KL calculate_per_token_loss center_rewards_coefficient",
    "check_for_large_grads check_for_nan_in_grad ckpt_format clip_grad",
    "clone_scatter_output_in_embedding config_logger_dir context_parallel_size cp_comm_type",
    "cpu_offloading cpu_offloading_activations cpu_offloading_double_buffering",
    "cpu_offloading_num_layers cpu_offloading_weights cross_entropy_fusion_impl",
    "cross_entropy_loss_fusion cuda_graph_impl cuda_graph_retain_backward_graph cuda_graph_scope",
    "cuda_graph_use_single_mempool cuda_graph_warmup_steps data_cache_path",
    "data_parallel_sharding_strategy data_path dataloader_persistent_workers",
    "dataloader_prefetch_factor dataloader_type deallocate_pipeline_outputs",
    "decoder_first_pipeline_num_layers decoder_last_pipeline_num_layers decoupled_lr decoupled_min_lr",
    "decoupled_weight_decay defer_embedding_wgrad_compute delay_wgrad_compute desirable_weight",
    "deterministic_mode disable_bf16_reduced_precision_matmul disable_bias_linear",
    "disable_parameter_transpose_cache disable_symmetric_registration distribute_saved_activations",
    "distributed_backend distributed_timeout_minutes dsa_indexer_head_dim dsa_indexer_loss_coeff",
    "dsa_indexer_n_heads dsa_indexer_topk dsa_indexer_use_sparse_loss embedding_init_method",
    "embedding_init_method_std enable_autocast enable_channel_loss enable_cuda_graph enable_dft_loss",
    "ep_overlap_early_attn_memory_release eval_interval eval_iters exit_duration_in_mins",
    "exit_on_missing_checkpoint exp_avg_dtype exp_avg_sq_dtype experimental_attention_variant",
    "expert_model_parallel_size expert_tensor_parallel_size external_cuda_graph extra_megatron_kwargs",
    "f_divergence_type ffn_hidden_size finalize_model_grads_func fine_grained_activation_offloading",
    "finetune first_last_layers_bf16 flash_decode fn fp16 fp32_residual_connection fp4 fp4_param",
    "fp4_quantizer_factory fp4_recipe fp8 fp8_amax_compute_algo fp8_amax_history_len",
    "fp8_dot_product_attention fp8_format fp8_interval fp8_margin fp8_multi_head_attention fp8_param",
    "fp8_param_gather fp8_quantizer_factory fp8_recipe fp8_wgrad freeze_aligner freeze_llm",
    "freeze_parameters freeze_parameters_ratio freeze_parameters_regex freeze_vit fsdp_double_buffer",
    "fsdp_manual_registration fused_single_qkv_rope gated_linear_unit global_batch_size",
    "glu_linear_offset grad_reduce_in_fp32 grad_scale_func grad_sync_func",
    "gradient_accumulation_fusion gradient_checkpointing_kwargs gradient_reduce_div_fusion",
    "group_query_attention hetereogenous_dist_checkpoint heterogeneous_block_specs hidden_dropout",
    "hidden_size hierarchical_context_parallel_sizes hybrid_context_parallel hysteresis",
    "inference_fuse_tp_communication inference_rng_tracker inference_sampling_seed init_method",
    "init_method_std init_model_with_meta_device initial_loss_scale initialize_embedding",
    "is_hybrid_model keep_fp8_transpose_cache kitchen_attention_backend kv_channels kv_lora_rank",
    "label_smoothing layer_types layernorm_epsilon layernorm_zero_centered_gamma",
    "linear_attention_freq linear_conv_kernel_dim linear_key_head_dim linear_num_key_heads",
    "linear_num_value_heads linear_value_head_dim llm_architectures load local_rank log_interval",
    "log_max_attention_logit log_memory_to_tensorboard log_num_zeros_in_grad log_params_norm",
    "log_throughput log_timers_to_tensorboard log_validation_ppl_to_tensorboard logging_level",
    "lora_alpha lora_bias lora_dropout lora_dtype lora_rank loss_scale loss_scale_window loss_type lr",
    "lr_decay_iters lr_decay_samples lr_decay_style lr_warmup_fraction lr_warmup_iters",
    "lr_warmup_samples main_grads_dtype main_params_dtype make_vocab_size_divisible_by mamba_head_dim",
    "mamba_num_groups mamba_num_heads mamba_state_dim manual_gc manual_gc_interval",
    "masked_softmax_fusion max_epochs max_position_embeddings max_seqlen_per_dp_cp_rank",
    "memory_efficient_layer_norm merge_file micro_batch_size",
    "microbatch_group_size_per_virtual_pipeline_stage microbatch_group_size_per_vp_stage",
    "min_loss_scale min_lr min_offloaded_tensor_size mlp_chunks_for_prefill mlp_padding_free",
    "mock_data modules_to_save moe_apply_probs_on_input moe_aux_loss_coeff moe_deepep_num_sms",
    "moe_enable_deepep moe_enable_routing_replay moe_expert_capacity_factor moe_extended_tp",
    "moe_ffn_hidden_size moe_flex_dispatcher_backend moe_grouped_gemm moe_hybridep_num_sms",
    "moe_input_jitter_eps moe_latent_size moe_layer_freq moe_layer_recompute",
    "moe_pad_expert_input_to_capacity moe_per_layer_logging moe_permute_fusion",
    "moe_router_bias_update_rate moe_router_dtype moe_router_enable_expert_bias",
    "moe_router_force_load_balancing moe_router_fusion moe_router_group_topk",
    "moe_router_load_balancing_type moe_router_num_groups moe_router_padding_for_fp8",
    "moe_router_padding_for_quantization moe_router_pre_softmax moe_router_score_function",
    "moe_router_topk moe_router_topk_limited_devices moe_router_topk_scaling_factor",
    "moe_shared_expert_gate moe_shared_expert_intermediate_size moe_shared_expert_overlap",
    "moe_token_dispatcher_type moe_token_drop_policy moe_token_dropping moe_use_legacy_grouped_gemm",
    "moe_z_loss_coeff mrope_interleaved mrope_section mscale mscale_all_dim mtp_loss_scaling_factor",
    "mtp_num_layers mtp_standalone multi_latent_attention muon_extra_scale_factor",
    "muon_fp32_matmul_prec muon_momentum muon_num_ns_steps muon_scale_mode muon_split_qkv",
    "muon_tp_mode muon_use_nesterov name nccl_ub no_bias_dropout_fusion no_bias_gelu_fusion",
    "no_bias_swiglu_fusion no_create_attention_mask_in_dataloader no_gradient_accumulation_fusion",
    "no_initialization no_load_optim no_load_rng no_log_learning_rate_to_tensorboard",
    "no_masked_softmax_fusion no_mmap_bin_files no_position_embedding no_rope_freq no_rope_fusion",
    "no_save_optim no_save_rng no_sync_func norm_epsilon normalization null_tokenizer",
    "num_attention_heads num_distributed_optimizer_instances num_experts num_labels num_layers",
    "num_layers_at_end_in_bf16 num_layers_at_start_in_bf16 num_layers_in_first_pipeline_stage",
    "num_layers_in_last_pipeline_stage num_layers_per_virtual_pipeline_stage",
    "num_microbatches_with_partial_activation_checkpoints num_moe_experts num_query_groups",
    "num_virtual_stages_per_pipeline_rank num_workers offload_modules optimizer optimizer_cpu_offload",
    "optimizer_offload_fraction original_max_position_embeddings outer_dp_sharding_strategy",
    "output_layer_init_method overlap_cpu_optimizer_d2h_h2d overlap_grad_reduce",
    "overlap_moe_expert_parallel_comm overlap_p2p_comm overlap_p2p_comm_warmup_flush",
    "overlap_param_gather overlap_param_gather_with_optimizer_step override_opt_param_scheduler",
    "pad_buckets_for_high_nccl_busbw padded_vocab_size padding_free param_sync_func params_dtype",
    "partial_rotary_factor per_split_data_args_path perform_initialization persist_layer_norm",
    "pin_cpu_grads pin_cpu_params pipeline_dtype pipeline_model_parallel_comm_backend",
    "pipeline_model_parallel_layout pipeline_model_parallel_size position_embedding_type predicate",
    "preserve_fp32_weights problem_type q_lora_rank qk_clip qk_clip_alpha qk_clip_threshold",
    "qk_head_dim qk_l2_norm qk_layernorm qk_pos_emb_head_dim quant_recipe recompute_granularity",
    "recompute_method recompute_modules recompute_num_layers reduce_scatter_with_fp32_accumulation",
    "ref_adapter_load ref_load reference_free reuse_grad_buf_for_mxfp8_param_ag rlhf_type",
    "rope_scaling rope_type rotary_base rotary_interleaved rotary_percent rotary_scaling_factor",
    "rpo_alpha save save_interval seed seq_length sequence_parallel sgd_momentum softmax_scale",
    "softmax_type split store_param_remainders suggested_communication_unit_size swiglu",
    "symmetric_ar_type target_modules target_regex task_type tensor_model_parallel_size",
    "tensorboard_dir tensorboard_log_interval tensorboard_queue_size test_mode timers tokenizer_model",
    "tokenizer_type torch_dtype tp_comm_atomic_ag tp_comm_atomic_rs tp_comm_bootstrap_backend",
    "tp_comm_bulk_dgrad tp_comm_bulk_wgrad tp_comm_overlap tp_comm_overlap_ag",
    "tp_comm_overlap_disable_fc1 tp_comm_overlap_disable_qkv tp_comm_overlap_rs",
    "tp_comm_overlap_rs_dgrad tp_comm_split_ag tp_comm_split_rs tp_only_amax_red train_iters",
    "train_samples train_type trainable_parameters trainable_parameters_regex transformer_impl",
    "undesirable_weight untie_embeddings_and_output_weights use_checkpoint_args",
    "use_cpu_initialization use_custom_fsdp use_distributed_optimizer use_flash_attn",
    "use_fused_weighted_squared_relu use_inference_optimized_layers use_kitchen use_kitchen_attention",
    "use_mamba_mem_eff_path use_mcore_models use_megatron_fsdp use_precision_aware_optimizer",
    "use_ring_exchange_p2p use_rotary_position_embeddings use_rslora use_shared_expert_gate",
    "use_te_activation_func use_te_rng_tracker use_torch_optimizer_for_cpu_offload v_head_dim",
    "variable_seq_lengths virtual_pipeline_model_parallel_size vit_gradient_checkpointing vocab_file",
    "vocab_size wandb_exp_name wandb_project wandb_save_dir weight_decay wgrad_deferral_limit",
    "window_attn_skip_freq window_size with_name_predicate",
    "accumulate_allreduce_grads_in_fp32 adlr_autoresume adlr_autoresume_interval align_grad_reduce",
    "apply_layernorm_1p async_save ckpt_assume_constant_structure ckpt_convert_format",
    "ckpt_fully_parallel_load ckpt_fully_parallel_save ckpt_step data_args_path data_sharding",
    "ddp_average_in_collective ddp_bucket_size ddp_num_buckets ddp_pad_buckets_for_high_nccl_busbw",
    "disable_tp_comm_split_ag disable_tp_comm_split_rs dist_ckpt_format dist_ckpt_strictness",
    "empty_unused_memory_level enable_experimental enable_one_logger encoder_num_layers",
    "encoder_seq_length end_weight_decay eod_mask_loss error_injection_rate exit_interval",
    "exit_signal_handler fim_data full_validation high_priority_stream_groups hybrid_attention_ratio",
    "hybrid_mlp_ratio hybrid_override_pattern inprocess_restart lazy_mpu_init",
    "load_main_params_from_ckpt log_batch_size_to_tensorboard log_energy",
    "log_learning_rate_to_tensorboard log_loss_scale_to_tensorboard log_progress log_straggler",
    "log_world_size_to_tensorboard lr_warmup_init lr_wsd_decay_iters lr_wsd_decay_samples",
    "lr_wsd_decay_style memory_snapshot_path mid_level_dataset_surplus mmap_bin_files",
    "no_align_grad_reduce no_check_for_nan_in_loss_and_grad no_ckpt_fully_parallel_save",
    "no_data_sharding no_load_scheduler no_one_logger no_overlap_p2p_communication",
    "no_persist_layer_norm no_query_key_layer_scaling non_persistent_ckpt_type",
    "non_persistent_save_interval num_dataset_builder_threads object_storage_cache_path",
    "one_logger_async one_logger_project one_logger_run_name onnx_safe overlap_p2p_communication",
    "overlap_p2p_communication_warmup_flush overlap_param_gather_with_optim_step",
    "pretrained_checkpoint profile profile_ranks profile_step_end profile_step_start",
    "rampup_batch_size record_memory_history replication replication_factor rerun_mode",
    "reset_attention_mask reset_position_ids result_rejected_tracker_filename rope_scaling_factor",
    "rotary_seq_len_interpolation_factor s3_cache_path sample_rate save_retain_interval",
    "short_seq_prob skip_train spec squared_relu start_weight_decay straggler_minmax_count",
    "te_rng_tracker test_data_path tiktoken_num_special_tokens tiktoken_pattern",
    "tiktoken_special_tokens timing_log_level timing_log_option tokenizer_prompt_format",
    "train_data_path use_checkpoint_opt_param_scheduler use_dist_ckpt use_legacy_models",
    "use_one_sent_docs use_persistent_ckpt_worker use_pytorch_profiler use_rope_scaling",
    "use_tokenizer_model_from_checkpoint_args use_tp_pp_dp_mapping valid_data_path vocab_extra_ids",
    "wandb_entity weight_decay_incr_style world_size yaml_cfg",
    NULL,
};

/* megatron-core 0.16.1
 * megatron/core/{model_parallel_config,transformer/transformer_config,optimizer/optimizer_config,
 * distributed/distributed_data_parallel_config}.py: a field a_b is the flag --a-b; NVIDIA/Megatron-LM
 * d98e8a64 megatron/training/arguments.py. */
static const struct spp_format_row rows[] = {
    {"zero=0", "--use-distributed-optimizer false"},
    {"zero=1", "--use-distributed-optimizer"},
    {"zero=3", "--use-torch-fsdp2"},
    {"zero=1", "--use-megatron-fsdp --data-parallel-sharding-strategy optim"},
    {"zero=2", "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads"},
    {"zero=3", "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params"},
    {"recompute=none", "--recompute-granularity none"},
    {"recompute=selective", "--recompute-activations"},
    {"recompute=selective", "--recompute-granularity selective"},
    {"", "--recompute-modules {recompute_modules}"},
    {"", "--cuda-graph-impl transformer_engine --cuda-graph-scope {cuda_graphs}"},
    {"recompute=full", "--recompute-granularity full"},
    {"", "--recompute-method uniform --recompute-num-layers {recompute_unit}"},
    {"", "--recompute-method block --recompute-num-layers {recompute_chunk_layers}"},
    {"offload_optimizer=1", "--optimizer-cpu-offload"},
    {"offload_activations=1", "--cpu-offloading"},
    {"dtype=fp32", "--bf16 false"},
    {"dtype=bf16", "--bf16"},
    {"dtype=fp16", "--fp16"},
    {"dtype=fp8", "--fp8-format hybrid"},
    {"dtype=fp8", "--fp8-format e4m3"},
    {"grads_dtype=bf16", "--grad-reduce-in-bf16"},
    {"optimizer=adamw", "--optimizer adam"},
    {"optimizer=sgd", "--optimizer sgd"},
    {"optimizer=muon", "--optimizer muon"},
    {"attention=fa2", "--use-flash-attn"},
    {"attention=te", "--attention-backend auto"},
    {"megatron_sp=0", "--sequence-parallel false"},
    {"", "--num-layers-per-virtual-pipeline-stage {chunk_layers}"},
    {"", "--num-virtual-stages-per-pipeline-rank {vpp}"},
    {"", "--virtual-pipeline-model-parallel-size {vpp}"},
    {"", "--decoder-first-pipeline-num-layers {first_stage_layers} --decoder-last-pipeline-num-layers "
         "{last_stage_layers}"},
    {"", "--expert-model-parallel-size {ep} --expert-tensor-parallel-size {etp}"},
    {"", "--moe-expert-capacity-factor {moe_capacity}"},
    {"",
     "--tensor-model-parallel-size {tp} --pipeline-model-parallel-size {pp} --context-parallel-size {sp}"},
    {"", "--num-layers {layers} --hidden-size {hidden} --ffn-hidden-size {ffn} --num-attention-heads {heads} "
         "--num-query-groups "
         "{kv_heads} --num-experts {experts}"},
    {"", "--seq-length {seq} --micro-batch-size {micro_batch} --global-batch-size {global_batch}"},
};
const struct spp_format_rows spp_rows_megatron = SPP_ROWS(rows);

static const struct spp_format_note notes[] = {
    {"hybrid_context_parallel max_seqlen_per_dp_cp_rank",
     "lengths that decide the degree sequence by sequence are not in the model"},
    {"fine_grained_activation_offloading offload_modules", "offloading single modules is not in the model"},
    {"mtp_num_layers", "heads that predict further tokens are not in the model"},
    {"pipeline_model_parallel_layout",
     "layers laid over stages by hand are not in the model: they are split evenly"},
    {"moe_layer_recompute distribute_saved_activations", "this way of recomputing is not in the model"},
    {"fp8_param_gather fp8_param",
     "weights kept in FP8 alone are not in the model: 16-bit ones are counted beside them"},
    {NULL, NULL},
};

/* ---- which model ---- */

static bool is_said(struct spp_reading *r, const char *name, int64_t value) {
  return !spp_reading_find(r, name) || spp_reading_number(r, name, value) == value;
}

static bool has_sizes(struct spp_reading *r, const struct spp_arch *a) {
  bool grouped = spp_reading_find(r, "kv_heads") != NULL;
  return is_said(r, "layers", a->layers) && is_said(r, "hidden", a->hidden) &&
         is_said(r, "heads", a->heads) && (a->experts > 0 || is_said(r, "ffn", a->ffn)) &&
         (grouped ? is_said(r, "kv_heads", a->kv_heads) : a->kv_heads == a->heads) &&
         is_said(r, "experts", a->experts) && (spp_reading_find(r, "experts") != NULL) == (a->experts > 0);
}

/* Rows of the vocabulary that the command gives; 0: the tokenizer decides. */
static int64_t said_vocab(struct spp_reading *r) {
  const char *text = spp_reading_flag(r, "vocab_size");
  char *end = NULL;
  if (!text) text = spp_reading_flag(r, "padded_vocab_size");
  int64_t vocab = text ? strtoll(text, &end, 10) : 0;
  return text && end != text && !*end && vocab > 0 ? vocab : 0;
}

/* Known models that have the sizes: the one with the nearest vocabulary, and the names of the others. */
struct sized {
  const struct spp_arch *best;
  const char *name;
  int count;
  char others[160];
};

static void weigh(struct sized *s, const struct spp_arch *a, const char *name, int64_t vocab) {
  bool nearer = !s->best || (vocab > 0 && llabs(a->vocab - vocab) < llabs(s->best->vocab - vocab));
  const char *other = nearer ? (s->best ? s->best->display : NULL) : a->display;
  size_t used = strlen(s->others);
  if (other && used + strlen(other) + 3 < sizeof s->others)
    snprintf(s->others + used, sizeof s->others - used, "%s%s", used ? ", " : "", other);
  s->count++;
  if (!nearer) return;
  s->best = a;
  s->name = name;
}

static struct sized models_of_these_sizes(struct spp_reading *r, int64_t vocab) {
  struct sized s = {.best = NULL};
  const struct spp_arch *a;
  const char *const *names;
  int count = 0;
  if (spp_arch_list(r->options->config_dir, r->arena, &names, &count, NULL) != SPP_OK) return s;
  for (int i = 0; i < count && r->status == SPP_OK; i++)
    if (spp_arch_load(r->options->config_dir, names[i], r->arena, &a, NULL) == SPP_OK && has_sizes(r, a))
      weigh(&s, a, names[i], vocab);
  return s;
}

static void say_model(struct spp_reading *r, const struct sized *s, const struct spp_entry *entry,
                      int64_t vocab) {
  /* Megatron pads to a multiple of 128 rows times the tensor-parallel degree. */
  int64_t slack = spp_sat_mul(128, spp_reading_number(r, "tp", 1));
  if (vocab > 0 && llabs(s->best->vocab - vocab) >= slack)
    spp_reading_say(r, SPP_IMPORT_VALUE, entry, NULL,
                    "the sizes are those of %s, which is predicted with its vocabulary of %" PRId64
                    ", not %" PRId64 ": a config.json under --model is exact",
                    s->best->display, s->best->vocab, vocab);
  else if (vocab == 0 && s->count > 1)
    spp_reading_say(r, SPP_IMPORT_NOTE, entry, NULL,
                    "the sizes are those of %s, which is predicted; also of %s: --model says which",
                    s->best->display, s->others);
  else
    spp_reading_say(r, SPP_IMPORT_NOTE, entry, NULL, "the sizes are those of %s, which is predicted",
                    s->best->display);
}

/* The command gives sizes, not a name: the known model that has them, the tokenizer's first. */
static void settle(struct spp_reading *r) {
  const struct spp_binding *hf = spp_reading_find(r, "hf_id"), *layers = spp_reading_find(r, "layers");
  const struct spp_arch *arch = NULL;
  if (r->options->model || !layers || r->status != SPP_OK) return;
  if (hf && spp_arch_load(r->options->config_dir, hf->value, r->arena, &arch, NULL) == SPP_OK &&
      has_sizes(r, arch))
    return;
  int64_t vocab = said_vocab(r);
  struct sized s = models_of_these_sizes(r, vocab);
  if (s.best) {
    spp_reading_bind(r, "hf_id", s.name, layers->entry);
    say_model(r, &s, layers->entry, vocab);
    return;
  }
  spp_reading_say(r, SPP_IMPORT_NOTE, layers->entry, NULL,
                  "no known model has these sizes: give --model, or a config.json with them");
  spp_reading_unbind(r, "hf_id");
}

const struct spp_format spp_format_megatron_lm = {
    .name = "megatron-lm",
    .framework = "megatron-lm",
    .display = "Megatron-LM",
    .source = "megatron-core 0.16.1: megatron/core/transformer/transformer_config.py, "
              "model_parallel_config.py, optimizer/, distributed/; "
              "NVIDIA/Megatron-LM megatron/training/arguments.py",
    .signs = "pretrain_*.py|train_gpt*.py",
    .aliases = "recompute_activations_num_layers=recompute_num_layers fp8_hybrid=fp8_format",
    .defaults = "--use-distributed-optimizer false --sequence-parallel false --recompute-granularity none "
                "--attention-backend auto "
                "--bf16 false --micro-batch-size 1",
    .rows = {&spp_rows_launchers, &spp_rows_megatron},
    .notes = notes,
    .known = {spp_known_megatron},
    .settle = settle,
    .syntax = SPP_SYNTAX_COMMAND,
};
