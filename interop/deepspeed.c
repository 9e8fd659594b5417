/* A DeepSpeed configuration alone, and scripts of the Hugging Face Trainer that are given one. */
#include "interop/reading.h"

static const struct spp_format_row rows[] = {
    {"", "--model_name_or_path {hf_id} --max_length {seq} --max_seq_length {seq} --model_max_length {seq}"},
    {"method=qlora", "--load_in_4bit true"},
    {"zero=0", "--deepspeed_stage none"},
};
static const struct spp_format_rows own = SPP_ROWS(rows);

static const char *const known[] = {
    "deepspeed_config deepspeed local_rank dataset_name dataset_path data_path train_file validation_file "
    "tokenizer_name config_name "
    "model_revision use_fast_tokenizer cache_dir trust_remote_code",
    NULL,
};

/* The Trainer keeps its own rules beside the engine's. */
static void settle(struct spp_reading *r) {
  const struct spp_entry *e = spp_entries_find(&r->entries, SPP_ENTRY_FLAG, "per_device_train_batch_size");
  if (e && !e->assumed) spp_reading_bind(r, "framework", "hf-deepspeed", NULL);
}

const struct spp_format spp_format_deepspeed = {
    .name = "deepspeed",
    .framework = "deepspeed",
    .display = "DeepSpeed",
    .source = "deepspeed 0.19.8: deepspeed/runtime/{config,constants,zero/config,zero/offload_config}.py; "
              "transformers 4.57.3 "
              "training_args.py",
    .signs = "deepspeed *|--deepspeed|--deepspeed *|--deepspeed_config *",
    .keys = "zero_optimization|train_micro_batch_size_per_gpu|train_batch_size",
    .defaults = "--per_device_train_batch_size 8 --gradient_accumulation_steps 1 --gradient_checkpointing "
                "false --deepspeed_stage none",
    .files = "deepspeed deepspeed_config",
    .rows = {&spp_rows_launchers, &spp_rows_trainer, &own, &spp_rows_deepspeed},
    .known = {known, spp_known_trainer, spp_known_deepspeed},
    .settle = settle,
    .syntax = SPP_SYNTAX_COMMAND,
    .negates = true,
    .file_name = "ds_config.json",
};
