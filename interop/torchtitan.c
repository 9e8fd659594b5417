/* torchtitan: its flags, and the TOML files of its earlier releases. */
#include <stdio.h>
#include <string.h>

#include "interop/reading.h"

/* torchtitan 0.3.0 torchtitan/config/configs.py: fields; sections of the TOML files of earlier releases */
static const char *const known_torchtitan[] = {
    "checkpoint.* comm.* comm.init_timeout_seconds comm.mode comm.save_traces_file_prefix",
    "comm.save_traces_folder comm.trace_buf_size comm.train_timeout_seconds compile.backend",
    "compile.components compile.enable compile.enable_async_tensor_parallel config dataloader.*",
    "debug.* debug.batch_invariant debug.detect_anomaly debug.deterministic",
    "debug.deterministic_warn_only debug.enable_structured_logging debug.moe_force_load_balance",
    "debug.print_config debug.save_config_file debug.seed debug.spmd_typechecking experimental.*",
    "fault_tolerance.* float8.* hf_transformers.* job.* job.config_file lr_scheduler.*",
    "memory_estimation.* metrics.* model.* module mx.* optimizer.*",
    "parallelism.context_parallel_degree parallelism.context_parallel_load_balancer",
    "parallelism.context_parallel_ptrr_mask_key parallelism.data_parallel_replicate_degree",
    "parallelism.data_parallel_shard_degree parallelism.enable_fsdp_symm_mem",
    "parallelism.enable_sequence_parallel parallelism.expert_parallel_degree",
    "parallelism.fsdp_reshard_after_forward parallelism.module_fqns_per_model_part",
    "parallelism.pipeline_parallel_degree parallelism.pipeline_parallel_first_stage_less_layers",
    "parallelism.pipeline_parallel_last_stage_less_layers",
    "parallelism.pipeline_parallel_layers_per_stage parallelism.pipeline_parallel_microbatch_size",
    "parallelism.pipeline_parallel_schedule parallelism.pipeline_parallel_schedule_csv",
    "parallelism.spmd_backend parallelism.tensor_parallel_degree profiling.* quantize.* tokenizer.*",
    "training.disable_cuda_graphs training.dtype training.enable_cpu_offload training.gc_debug",
    "training.gc_freq training.global_batch_size training.local_batch_size training.max_norm",
    "training.dataset training.dataset_path training.mixed_precision_param",
    "training.mixed_precision_reduce training.seq_len training.steps",
    "validation.*",
    NULL,
};

/* torchtitan 0.3.0 torchtitan/config/configs.py; activation_checkpoint.mode and training.batch_size as of
 * 0.1. */
static const struct spp_format_row rows[] = {
    {"", "--training.seq_len {seq} --training.local_batch_size {micro_batch} --training.global_batch_size "
         "{global_batch}"},
    {"", "--model.hf_assets_path {hf_id} --parallelism.context_parallel_degree {sp}"},
    {"zero=3", "--parallelism.fsdp_reshard_after_forward default"},
    {"zero=0", "--parallelism.data_parallel_shard_degree 1"},
    {"offload_params=1", "--training.enable_cpu_offload true"},
    {"dtype=fp32", "--training.mixed_precision_param float32"},
    {"megatron_sp=0", "--parallelism.enable_sequence_parallel false"},
    {"dtype=fp8", "--float8.enable_fsdp_float8_all_gather true"},
    {"dtype=fp8", "--model.converters float8"},
    {"", "--parallelism.pipeline_parallel_microbatch_size {micro_batch}"},
};
static const struct spp_format_rows own = SPP_ROWS(rows);

static const struct spp_format_note notes[] = {
    {"activation_checkpoint.selective_ac_option "
     "activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns",
     "which products or layers are kept is as torchtitan does it by default"},
    {"parallelism.enable_async_tensor_parallel compile.enable_async_tensor_parallel",
     "tensor-parallel exchanges under products are not in the model of this framework"},
    {"parallelism.module_fqns_per_model_part parallelism.pipeline_parallel_schedule_csv",
     "layers laid over stages by hand are not in the model: they are split evenly"},
    {NULL, NULL},
};

/* Files name a model by a family and a size: "llama3", "8B". */
static void settle(struct spp_reading *r) {
  const char *name = spp_reading_flag(r, "model.name"), *flavor = spp_reading_flag(r, "model.flavor");
  char model[120];
  if (spp_reading_find(r, "hf_id") || !name || !flavor) return;
  snprintf(model, sizeof model, "%.50s-%.50s", name, flavor);
  spp_reading_bind(r, "hf_id", model, spp_entries_find(&r->entries, SPP_ENTRY_FLAG, "model.flavor"));
}

const struct spp_format spp_format_torchtitan = {
    .name = "torchtitan",
    .framework = "torchtitan",
    .display = "torchtitan",
    .source = "torchtitan 0.2.2: torchtitan/config/job_config.py; 0.3.0: torchtitan/config/configs.py",
    .signs = "torchtitan.train|*torchtitan/train.py|run_train.sh|*/run_train.sh",
    .keys = "parallelism|training.seq_len|training.local_batch_size|training.batch_size",
    .aliases = "training.batch_size=training.local_batch_size "
               "training.tensor_parallel_degree=parallelism.tensor_parallel_degree "
               "experimental.context_parallel_degree=parallelism.context_parallel_degree "
               "experimental.pipeline_parallel_degree=parallelism.pipeline_parallel_degree "
               "training.data_parallel_shard_degree=parallelism.data_parallel_shard_degree "
               "training.data_parallel_replicate_degree=parallelism.data_parallel_replicate_degree "
               "training.compile=compile.enable",
    .defaults = "--training.seq_len 2048 --training.local_batch_size 8 "
                "--parallelism.fsdp_reshard_after_forward default "
                "--activation_checkpoint.mode selective",
    .files = "job.config_file",
    .rows = {&spp_rows_launchers, &own},
    .notes = notes,
    .known = {known_torchtitan},
    .settle = settle,
    .unless = "--model.name",
    .otherwise = "--model.name $MODEL_NAME --model.flavor $MODEL_FLAVOR",
    .syntax = SPP_SYNTAX_TOML,
    .file_name = "train.toml",
    .file_flag = "--job.config_file",
};
