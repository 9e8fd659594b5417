/* Keys of verl's configurations, generated from its sources. */
#include <stddef.h>

#include "interop/format.h"

/* verl 0.9.1 verl/trainer/config/{_generated_ppo_trainer,_generated_ppo_megatron_trainer,sft_trainer_engine,
 * engine/fsdp,engine/megatron,optim/megatron,model/hf_model}.yaml: keys, without those of profilers; those of
 * override_transformer_config are fields of megatron-core's TransformerConfig. "a|b: x y" are a.x, a.y, b.x
 * and b.y. */
const char *const spp_known_verl[] = {
    "actor_rollout_ref.actor.fsdp_config|actor_rollout_ref.ref.fsdp_config|critic.fsdp|engine: "
    "entropy_checkpointing forward_prefetch fsdp_size full_determinism model_dtype offload_policy "
    "reshard_after_forward strategy ulysses_sequence_parallel_size "
    "use_no_sync_for_gradient_accumulation use_orig_params use_torch_compile wrap_policy.min_num_params",
    "actor_rollout_ref.actor.megatron|actor_rollout_ref.ref.megatron|critic.megatron|engine: "
    "context_parallel_size dist_checkpointing_path dist_checkpointing_prefix "
    "dist_ckpt_optim_fully_reshardable distrib_optim_fully_reshardable_mem_efficient dtype "
    "dynamic_context_parallel entropy_from_logits_chunk_size entropy_from_logits_with_chunking "
    "expert_model_parallel_size expert_tensor_parallel_size forward_only max_seqlen_per_dp_cp_rank "
    "optimizer_offload override_ddp_config override_mcore_model_config "
    "override_transformer_config.attention_backend override_transformer_config.recompute_granularity "
    "override_transformer_config.recompute_method override_transformer_config.recompute_modules "
    "override_transformer_config.recompute_num_layers pad_bshd_to_minibatch_max pad_to_length "
    "pad_to_length_bucket param_offload pipeline_model_parallel_size qat.activation_observer "
    "qat.enable qat.group_size qat.ignore_patterns qat.mode qat.quantization_config_path "
    "router_replay.mode router_replay.record_file router_replay.replay_file seed sequence_parallel "
    "tensor_model_parallel_size use_dist_checkpointing use_distributed_optimizer use_mbridge "
    "use_megatron_fsdp use_remove_padding vanilla_mbridge virtual_pipeline_model_parallel_size",
    "actor_rollout_ref.rollout|distillation.teacher_models.teacher_model.inference|"
    "reward.reward_model.rollout|reward_model.rollout: cudagraph_capture_sizes data_parallel_size "
    "disable_log_stats dtype enable_chunked_prefill enable_prefix_caching enforce_eager "
    "expert_parallel_size free_cache_engine gpu_memory_utilization load_format max_model_len "
    "max_num_batched_tokens max_num_seqs name prompt_length response_length skip_tokenizer_init "
    "tensor_model_parallel_size",
    "actor_rollout_ref.actor.fsdp_config|actor_rollout_ref.ref.fsdp_config|critic.fsdp: dtype "
    "entropy_from_logits_chunk_size entropy_from_logits_with_chunking forward_only optimizer_offload "
    "pad_to_length pad_to_length_bucket param_offload qat.activation_observer qat.enable "
    "qat.group_size qat.ignore_patterns qat.mode qat.quantization_config_path seed "
    "turbo_config.distributed.expert_fully_shard_parallel_size "
    "turbo_config.distributed.expert_parallel_size "
    "turbo_config.distributed.fsdp_plan.fsdp_implementation "
    "turbo_config.distributed.fsdp_plan.num_to_backward_prefetch "
    "turbo_config.distributed.fsdp_plan.num_to_forward_prefetch "
    "turbo_config.distributed.fsdp_plan.output_dtype turbo_config.distributed.fsdp_plan.param_dtype "
    "turbo_config.distributed.fsdp_plan.reduce_dtype "
    "turbo_config.distributed.fully_shard_parallel_size turbo_config.distributed.tensor_parallel_size "
    "turbo_config.distributed.ulysses_parallel_size",
    "actor_rollout_ref.actor.megatron|actor_rollout_ref.ref.megatron|critic.megatron: "
    "override_transformer_config.account_for_embedding_in_pipeline_split "
    "override_transformer_config.account_for_loss_in_pipeline_split "
    "override_transformer_config.apply_rope_fusion override_transformer_config.bias_activation_fusion "
    "override_transformer_config.bias_dropout_fusion "
    "override_transformer_config.deallocate_pipeline_outputs "
    "override_transformer_config.gradient_accumulation_fusion "
    "override_transformer_config.masked_softmax_fusion override_transformer_config.moe_enable_deepep "
    "override_transformer_config.moe_grouped_gemm override_transformer_config.moe_permute_fusion "
    "override_transformer_config.moe_router_dtype "
    "override_transformer_config.moe_token_dispatcher_type "
    "override_transformer_config.num_layers_in_first_pipeline_stage "
    "override_transformer_config.num_layers_in_last_pipeline_stage "
    "override_transformer_config.persist_layer_norm",
    "actor_rollout_ref.model|critic.model|model: custom_chat_template enable_activation_offload "
    "enable_gradient_checkpointing exclude_modules external_lib fused_kernel_options.impl_backend "
    "hf_config_path lora.a2a_experimental lora.adapter_path lora.alpha lora.dropout "
    "lora.dropout_position lora.dtype lora.exclude_modules lora.freeze_language_model "
    "lora.freeze_vision_model lora.freeze_vision_projection lora.lora_A_init_method "
    "lora.lora_B_init_method lora.merge lora.rank lora.target_modules lora.type lora_adapter_path "
    "lora_alpha lora_rank override_config path target_modules tiled_mlp.enabled tiled_mlp.num_shards "
    "tokenizer_path trust_remote_code use_fused_kernels use_liger use_remove_padding use_shm",
    "actor_rollout_ref.actor|critic: data_loader_seed grad_clip loss_agg_mode loss_scale_factor "
    "ppo_epochs ppo_max_token_len_per_gpu ppo_micro_batch_size ppo_micro_batch_size_per_gpu "
    "ppo_mini_batch_size rollout_n shuffle strategy ulysses_sequence_parallel_size use_dynamic_bsz",
    "actor_rollout_ref.actor.checkpoint|critic.checkpoint: async_save load_contents mbridge_config "
    "save_contents",
    "actor_rollout_ref.actor.optim|critic.optim: betas clip_grad exp_avg_dtype exp_avg_sq_dtype lr "
    "lr_decay_steps lr_decay_style lr_scheduler_type lr_warmup_init lr_warmup_steps "
    "lr_warmup_steps_ratio lr_wsd_decay_steps lr_wsd_decay_style main_grads_dtype min_lr min_lr_ratio "
    "muon_coefficient_type muon_extra_scale_factor muon_fp32_matmul_prec muon_match_adamw_update_rms "
    "muon_momentum muon_nesterov muon_num_ns_steps muon_scalar_optimizer muon_scale_mode "
    "muon_split_qkv muon_tp_mode num_cycles optimizer optimizer_impl override_optimizer_config "
    "total_training_steps use_checkpoint_opt_param_scheduler use_layer_wise_distributed_optimizer "
    "use_precision_aware_optimizer warmup_style weight_decay weight_decay_incr_style zero_indexed_step",
    "actor_rollout_ref.model|critic.model: mtp.detach_encoder mtp.enable mtp.enable_rollout "
    "mtp.enable_train mtp.method mtp.mtp_loss_scaling_factor mtp.num_speculative_tokens "
    "mtp.speculative_algorithm mtp.speculative_eagle_topk mtp.speculative_num_draft_tokens "
    "mtp.speculative_num_steps",
    "actor_rollout_ref.rollout|reward.reward_model.rollout: disaggregation.bootstrap_port "
    "disaggregation.decode_replicas disaggregation.decode_tensor_model_parallel_size "
    "disaggregation.enabled disaggregation.ib_device disaggregation.prefill_replicas "
    "disaggregation.transfer_backend do_sample full_determinism ignore_eos layered_summon mtp "
    "multi_stage_wake_up n pipeline_model_parallel_size quantization quantization_config_file "
    "scheduling_policy seed temperature top_k top_p",
    "actor_rollout_ref.actor: calculate_entropy calculate_sum_pi_squared clip_ratio clip_ratio_c "
    "clip_ratio_high clip_ratio_low entropy_checkpointing entropy_coeff entropy_from_logits_chunk_size "
    "entropy_from_logits_with_chunking freeze_vision_tower kl_loss_coef kl_loss_type pad_to_length "
    "policy_loss.clip_cov_lb policy_loss.clip_cov_ratio policy_loss.clip_cov_ub policy_loss.dro_beta "
    "policy_loss.kl_cov_ratio policy_loss.loss_mode policy_loss.ppo_kl_coef qat.activation_observer "
    "qat.enable qat.group_size qat.ignore_patterns qat.mode qat.quantization_config_path tau_neg "
    "tau_pos use_fused_kernels use_kl_loss use_prefix_grouper use_remove_padding use_torch_compile",
    "actor_rollout_ref.ref: entropy_checkpointing entropy_from_logits_chunk_size "
    "entropy_from_logits_with_chunking log_prob_max_token_len_per_gpu log_prob_micro_batch_size "
    "log_prob_micro_batch_size_per_gpu log_prob_use_dynamic_bsz pad_to_length rollout_n strategy "
    "ulysses_sequence_parallel_size use_torch_compile",
    "actor_rollout_ref.rollout: agent.agent_loop_config_path agent.custom_async_server.name "
    "agent.custom_async_server.path agent.default_agent_loop agent.num_workers calculate_log_probs "
    "checkpoint_engine.backend checkpoint_engine.custom_backend_module checkpoint_engine.engine_kwargs "
    "checkpoint_engine.update_weights_bucket_megabytes enable_rollout_routing_replay "
    "engine_kwargs.sglang engine_kwargs.trtllm engine_kwargs.vllm log_prob_max_token_len_per_gpu "
    "log_prob_micro_batch_size log_prob_micro_batch_size_per_gpu log_prob_use_dynamic_bsz "
    "logprobs_mode mode moe_load_balance_metrics_interval n_gpus_per_node nnodes over_sample_rate "
    "prometheus.enable prometheus.file prometheus.port prometheus.served_model_name qat "
    "router_config_path trace.backend trace.experiment_name trace.max_samples_per_step_per_worker "
    "trace.project_name trace.token2text val_kwargs.do_sample val_kwargs.n val_kwargs.temperature "
    "val_kwargs.top_k val_kwargs.top_p",
    "actor_rollout_ref.rollout.multi_turn: enable format function_tool_path max_assistant_turns "
    "max_parallel_calls max_tool_response_length max_user_turns num_repeat_rollouts "
    "tokenization_sanity_check_mode tool_config_path tool_response_truncate_side "
    "use_inference_chat_template",
    "algorithm: * adv_estimator filter_groups.enable filter_groups.max_inflight_gen_batches "
    "filter_groups.max_num_gen_batches filter_groups.metric gamma kl_ctrl.horizon kl_ctrl.kl_coef "
    "kl_ctrl.target_kl kl_ctrl.type kl_penalty lam norm_adv_by_std_in_grpo pf_ppo.reweight_method "
    "pf_ppo.weight_pow rollout_correction.bypass_mode rollout_correction.loss_type "
    "rollout_correction.rollout_is rollout_correction.rollout_is_batch_normalize "
    "rollout_correction.rollout_is_threshold rollout_correction.rollout_rs "
    "rollout_correction.rollout_rs_threshold use_kl_in_reward use_pf_ppo",
    "checkpoint: * load_contents save_contents",
    "critic: cliprange_value enable forward_max_token_len_per_gpu forward_micro_batch_size "
    "forward_micro_batch_size_per_gpu nccl_timeout",
    "data: apply_chat_template_kwargs audio_key balance_dp_token custom_cls.name custom_cls.path "
    "dataloader_num_workers enable_thinking_default enable_thinking_key filter_overlong_prompts "
    "filter_overlong_prompts_workers function_tool_path gen_batch_size image_key image_patch_size "
    "max_length max_prompt_length max_response_length max_token_len_per_gpu messages_key "
    "micro_batch_size_per_gpu mm_processor_kwargs num_workers pad_mode prompt_key return_full_prompt "
    "return_multi_modal_inputs return_raw_chat return_raw_input_ids reward_fn_key seed shuffle "
    "tokenizer tool_config_path tools_key train_batch_size train_files train_max_samples truncation "
    "trust_remote_code use_dynamic_bsz use_shm val_batch_size val_files val_max_samples "
    "validation_shuffle video_key",
    "distillation: enabled n_gpus_per_node nnodes teacher_key",
    "distillation.distillation_loss: clip_ratio clip_ratio_high clip_ratio_low distillation_loss_coef "
    "log_prob_min_clamp loss_max_clamp loss_mode policy_loss_mode topk use_policy_gradient "
    "use_task_rewards",
    "distillation.teacher_models: teacher_model.key teacher_model.model_path teacher_model.num_replicas",
    "distillation.teacher_models.teacher_model.inference: engine_kwargs limit_images temperature",
    "reward.reward_model: enable enable_resource_pool model_path n_gpus_per_node nnodes",
    "reward_model: * enable enable_resource_pool model.external_lib model.path model.trust_remote_code "
    "n_gpus_per_node nnodes num_workers reward_loop_class_name reward_loop_module_path "
    "reward_loop_source reward_manager",
    "skip: async_rollout.action async_rollout.dump_dir async_rollout.enable async_rollout.steps "
    "rollout.action rollout.dump_dir rollout.enable rollout.steps rollout_tq.action "
    "rollout_tq.dump_dir rollout_tq.enable rollout_tq.steps",
    "trainer: balance_batch checkpoint_callback_class critic_warmup default_hdfs_dir default_local_dir "
    "del_local_ckpt_after_load device esi_redundant_time experiment_name log_val_generations logger "
    "max_actor_ckpt_to_keep max_ckpt_to_keep max_critic_ckpt_to_keep n_gpus_per_node nnodes "
    "profile_interval project_name ray_wait_register_center_timeout resume_from_path resume_mode "
    "rollout_data_dir save_freq seed test_freq total_epochs total_training_steps use_v1 "
    "val_before_train val_only validation_data_dir",
    "trainer.v1: colocate_async.num_warmup_batches sampler.custom_sampler.name "
    "sampler.custom_sampler.path sampler.max_off_policy_strategy sampler.max_off_policy_threshold "
    "sampler.sampler_kwargs sampler.sync_refill_failed_groups "
    "separate_async.hybrid_rollout.adaptive_switch_threshold "
    "separate_async.hybrid_rollout.enable_switch separate_async.hybrid_rollout.switch_cost_window_size "
    "separate_async.hybrid_rollout.switch_threshold_ratio "
    "separate_async.hybrid_rollout.switch_threshold_release_steps "
    "separate_async.hybrid_rollout.switch_threshold_step_down "
    "separate_async.hybrid_rollout.switch_threshold_step_up separate_async.num_warmup_batches "
    "separate_async.parameter_sync_step sync trainer_mode",
    "actor_rollout_ref.actor.checkpoint.strict actor_rollout_ref.hybrid_engine "
    "actor_rollout_ref.nccl_timeout actor_rollout_ref.ref.megatron.override_transformer_config "
    "config_name config_path custom_reward_function.* custom_reward_function.name "
    "custom_reward_function.path engine global_profiler.* hydra.run.dir model_engine optim.* "
    "profiler.* ray_kwargs.* ray_kwargs.ray_init.num_cpus "
    "ray_kwargs.ray_init.runtime_env.py_executable ray_kwargs.timeline_json_file "
    "reward.custom_reward_function.name reward.custom_reward_function.path reward.num_workers "
    "reward.reward_manager.module.name reward.reward_manager.module.path reward.reward_manager.name "
    "reward.reward_manager.source reward.reward_model.rollout.engine_kwargs "
    "reward.reward_model.rollout.limit_images reward.sandbox_fusion.max_concurrent "
    "reward.sandbox_fusion.memory_limit_mb reward.sandbox_fusion.url reward_model.rollout.limit_images "
    "sandbox_fusion.max_concurrent sandbox_fusion.memory_limit_mb sandbox_fusion.url transfer_queue.*",
    NULL,
};
