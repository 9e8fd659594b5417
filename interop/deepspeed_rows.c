/* What several frameworks take alike: a DeepSpeed configuration, and the arguments of the Hugging Face
 * Trainer. */
#include <stddef.h>

#include "interop/format.h"

/* deepspeed 0.19.8 deepspeed/runtime/{constants,zero/config,zero/offload_config}.py */
const char *const spp_known_deepspeed[] = {
    "activation_checkpointing.* aio.* amp.* auto_cast autotuning.* bf16.*",
    "bf16_master_weights_and_grads bf16_optimizer_states bfloat16 buffer_dtype check_overflow",
    "checkpoint checkpoint.* comms_logger.* communication_data_type compile.* compression_training.*",
    "consecutive_hysteresis csv_monitor.* curriculum_learning.* data_efficiency.* data_parallel_group",
    "data_types data_types.* dataloader_drop_last ddp_bf16 disable_allgather disable_python_gc",
    "ds_pipe_replicated dtype dump_state elasticity.* enabled encode flops_profiler.* fp16.*",
    "fp16_master_weights_and_grads global_rank grad_accum_dtype gradient_accumulation_steps",
    "gradient_allreduce_op gradient_clipping gradient_predivide_factor hysteresis",
    "immediate_grad_update initial_scale_power keep_in_fp32_modules legacy_fusion load_universal",
    "log_level loss_scale loss_scale_window lower_precision_safe_modules",
    "managed_gradient_accumulation max_grad_norm memory_breakdown min_loss_scale monitor_config.*",
    "nebula.* optimizer optimizer.* parallel_write param_dtype params pipeline_stage predict",
    "prescale_gradients scheduler scheduler.* seq_parallel_communication_data_type steps_per_print",
    "tag_validation tensorboard.* torch_autocast torch_autocast.* train train_batch_size",
    "train_micro_batch_size_per_gpu use_data_before_expert_parallelism use_node_local_storage",
    "vocabulary_size wall_clock_breakdown wandb.* zero_allow_untested_optimizer",
    "zero_force_ds_cpu_optimizer zero_optimization.allgather_bucket_size",
    "zero_optimization.allgather_partitions zero_optimization.allgather_sequential",
    "zero_optimization.compute_grad_norm zero_optimization.contiguous_gradients",
    "zero_optimization.cpu_offload zero_optimization.cpu_offload_param",
    "zero_optimization.cpu_offload_use_pin_memory zero_optimization.elastic_checkpoint",
    "zero_optimization.enable_sanity_checks zero_optimization.gather_16bit_weights_on_model_save",
    "zero_optimization.ignore_unused_parameters zero_optimization.leaf_module",
    "zero_optimization.legacy_stage1 zero_optimization.load_from_fp32_weights",
    "zero_optimization.log_trace_cache_warnings zero_optimization.max_live_parameters",
    "zero_optimization.max_reuse_distance zero_optimization.memory_efficient_linear",
    "zero_optimization.model_persistence_threshold zero_optimization.module_granularity_threshold",
    "zero_optimization.offload_optimizer.buffer_count zero_optimization.offload_optimizer.buffer_size",
    "zero_optimization.offload_optimizer.cpuadam_cores_perc",
    "zero_optimization.offload_optimizer.device zero_optimization.offload_optimizer.fast_init",
    "zero_optimization.offload_optimizer.max_in_cpu zero_optimization.offload_optimizer.nvme_path",
    "zero_optimization.offload_optimizer.pin_memory zero_optimization.offload_optimizer.pipeline_read",
    "zero_optimization.offload_optimizer.pipeline_write zero_optimization.offload_optimizer.ratio",
    "zero_optimization.offload_optimizer.super_offload zero_optimization.offload_param.buffer_count",
    "zero_optimization.offload_param.buffer_size zero_optimization.offload_param.cpuadam_cores_perc",
    "zero_optimization.offload_param.device zero_optimization.offload_param.fast_init",
    "zero_optimization.offload_param.max_in_cpu zero_optimization.offload_param.nvme_path",
    "zero_optimization.offload_param.pin_memory zero_optimization.offload_param.pipeline_read",
    "zero_optimization.offload_param.pipeline_write zero_optimization.offload_param.ratio",
    "zero_optimization.offload_param.super_offload zero_optimization.overlap_comm",
    "zero_optimization.override_module_apply zero_optimization.param_persistence_threshold",
    "zero_optimization.parameter_alignment zero_optimization.pipeline_loading_checkpoint",
    "zero_optimization.prefetch_bucket_size zero_optimization.reduce_bucket_size",
    "zero_optimization.reduce_scatter zero_optimization.round_robin_gradients",
    "zero_optimization.save_muon_momentum_buffer_in_memory zero_optimization.stage",
    "zero_optimization.stage3_allgather_sequential",
    "zero_optimization.stage3_gather_16bit_weights_on_model_save",
    "zero_optimization.stage3_gather_fp16_weights_on_model_save",
    "zero_optimization.stage3_max_live_parameters zero_optimization.stage3_max_reuse_distance",
    "zero_optimization.stage3_model_persistence_threshold",
    "zero_optimization.stage3_module_granularity_threshold",
    "zero_optimization.stage3_param_persistence_threshold",
    "zero_optimization.stage3_prefetch_bucket_size",
    "zero_optimization.stage3_use_all_reduce_for_fetch_params zero_optimization.sub_group_size",
    "zero_optimization.use_all_reduce_for_fetch_params",
    "zero_optimization.use_multi_rank_bucket_allreduce zero_optimization.zenflow",
    "zero_optimization.zero_hpz_partition_size zero_optimization.zero_quantized_gradients",
    "zero_optimization.zero_quantized_nontrainable_weights zero_optimization.zero_quantized_weights",
    NULL,
};

/* deepspeed 0.19.8 deepspeed/runtime/config.py, runtime/zero/config.py, runtime/zero/offload_config.py,
 * runtime/activation_checkpointing/config.py. */
static const struct spp_format_row deepspeed[] = {
    {"", "zero_optimization.stage={zero}"},
    {"offload_optimizer=1", "zero_optimization.offload_optimizer.device=cpu"},
    {"offload_params=1", "zero_optimization.offload_param.device=cpu"},
    {"", "zero_optimization.reduce_bucket_size={bucket_elements}"},
    {"overlap=1", "zero_optimization.overlap_comm=true"},
    {"overlap=0", "zero_optimization.overlap_comm=false"},
    {"offload_activations=1", "activation_checkpointing.cpu_checkpointing=true"},
    {"dtype=bf16", "bf16.enabled=true"},
    {"dtype=fp16", "fp16.enabled=true"},
    {"", "--train_micro_batch_size_per_gpu {micro_batch}"},
    {"", "--gradient_accumulation_steps {grad_accum}"},
    {"", "--train_batch_size {global_batch}"},
    {"", "--sequence_parallel_size {sp}"},
};
const struct spp_format_rows spp_rows_deepspeed = SPP_ROWS(deepspeed);

/* transformers 4.57.3 src/transformers/training_args.py (TrainingArguments, OptimizerNames). */
static const struct spp_format_row trainer[] = {
    {"", "--per_device_train_batch_size {micro_batch} --gradient_accumulation_steps {grad_accum}"},
    {"recompute=full", "--gradient_checkpointing true"},
    {"recompute=none", "--gradient_checkpointing false"},
    {"dtype=bf16", "--bf16 true"},
    {"dtype=fp16", "--fp16 true"},
    {"optimizer=adamw", "--optim adamw_torch"},
    {"optimizer=adamw", "--optim adamw_torch_fused"},
    {"optimizer=adamw", "--optim adamw_hf"},
    {"optimizer=adamw-8bit", "--optim adamw_8bit"},
    {"optimizer=adamw-8bit", "--optim adamw_bnb_8bit"},
    {"optimizer=adamw-8bit", "--optim paged_adamw_8bit"},
    {"optimizer=adafactor", "--optim adafactor"},
    {"optimizer=sgd", "--optim sgd"},
    {"loss=fused", "--use_liger_kernel true"},
};
const struct spp_format_rows spp_rows_trainer = SPP_ROWS(trainer);

/* torch torch/distributed/run.py; accelerate 1.15.0 accelerate/commands/launch.py; deepspeed 0.19.8
 * deepspeed/launcher/runner.py; NPROC_PER_NODE and NNODES as ms-swift and LLaMA-Factory read
 * them; srun(1). */
static const struct spp_format_row launchers[] = {
    {"", "SLURM_NNODES={nodes} SLURM_NTASKS_PER_NODE={nproc} SLURM_GPUS_PER_NODE={nproc}"},
    {"", "--nodes {nodes} --ntasks_per_node {nproc} --gpus_per_node {nproc}"}, /* srun */
    {"", "NPROC_PER_NODE={nproc} NNODES={nodes}"},
    {"", "--nproc_per_node {nproc} --nnodes {nodes}"},
    {"", "--num_processes {gpus} --num_machines {nodes}"},
    {"", "--num_gpus {nproc} --num_nodes {nodes}"},
    {"allocator=expandable", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"},
    {"allocator=plain", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False"},
};
const struct spp_format_rows spp_rows_launchers = SPP_ROWS(launchers);
