/* Commands and configurations of the frameworks -> settings and messages. */
#include "interop/import.h"
#include "interop/layer_pattern.h"
#include "model/params.h"

#include <string.h>

#include "tests/expect.h"

#define CONFIG_DIR SPP_SOURCE_DIR "/configs"
#define DATA       SPP_SOURCE_DIR "/tests/interop/data/"

static struct spp_arena arena;
static const struct spp_import_options options = {.config_dir = CONFIG_DIR};

static int setup(void **state) {
  (void)state;
  spp_arena_init(&arena);
  return 0;
}
static int teardown(void **state) {
  (void)state;
  spp_arena_free(&arena);
  return 0;
}

static const struct spp_imported *import_text(const char *text, const char *name) {
  const struct spp_imported *in = NULL;
  struct spp_diag diag = {0};
  expect_note("%.80s", text);
  expect_status(spp_import_text(text, strlen(text), name, &options, &arena, &in, &diag), SPP_OK, &diag);
  return in;
}

/* "seq=2048 method=lora": each said so; "!zero" is not said at all. */
static void expect_settings(const struct spp_imported *in, const char *settings) {
  char term[128];
  while (*(settings += strspn(settings, " "))) {
    size_t n = strcspn(settings, " ");
    snprintf(term, sizeof term, "%.*s", (int)n, settings);
    settings += n;
    char *equals = strchr(term, '=');
    if (equals) *equals = '\0';
    const struct spp_import_setting *s = spp_imported_find(in, term + (term[0] == '!'));
    if (term[0] == '!' && s)
      expect_fail_at(__FILE__, __LINE__, "%s is %s, expected nothing", s->name, s->value);
    if (term[0] == '!') continue;
    if (!s) expect_fail_at(__FILE__, __LINE__, "%s is not said, expected %s", term, equals ? equals + 1 : "");
    if (equals) expect_str(s->value, equals + 1);
  }
}

static int count_of(const struct spp_imported *in, enum spp_import_said said) {
  int count = 0;
  for (int i = 0; i < in->message_count; i++)
    count += in->messages[i].said == said;
  return count;
}

/* Files quoted from the frameworks' own documentation and examples; the source stands in each. Values are
 * those written there, or the framework's defaults where it says nothing. */
static void published_commands_are_read_right(void **state) {
  static const struct {
    const char *file, *format, *settings;
  } rows[] = {
      {"ms-swift-readme.sh", "ms-swift",
       "model=qwen3-4b seq=2048 method=lora lora-rank=8 lora-dropout=0.05 lora-targets=all dtype=bf16 gpus=1 "
       "micro-batch=1 "
       "global-batch=16 recompute=full zero=0 mode=train !packing"},
      {"llama-factory-full.yaml", "llama-factory",
       "model=qwen3-4b seq=2048 method=full zero=3 micro-batch=1 dtype=bf16 recompute=full attention=sdpa "
       "mode=train !gpus !lora-rank"},
      {"llama-factory-lora.yaml", "llama-factory",
       "model=qwen3-4b seq=2048 method=lora lora-rank=8 lora-targets=all lora-dropout=0.0 zero=3 "
       "micro-batch=1 "
       "dtype=bf16"},
      {"axolotl-alst.yaml", "axolotl",
       "model=llama3.1-8b seq=500_000 packing=1 sp=8 micro-batch=1 optimizer=adamw-8bit recompute=full "
       "offload=activations attention=fa2 zero=3 method=full loss=fused"},
      {"axolotl-qlora.yaml", "axolotl",
       "seq=512 method=qlora lora-rank=8 lora-dropout=0.05 zero=3 offload=optimizer+params recompute=full "
       "attention=fa2 optimizer=adamw micro-batch=1 !packing"},
      {"trl-readme.sh", "trl",
       "model=qwen2.5-0.5b mode=train seq=1024 micro-batch=8 recompute=full method=full zero=0 "
       "attention=sdpa"},
      {"trl-zero3.sh", "trl",
       "model=qwen2-0.5b mode=train packing=1 micro-batch=2 gpus=8 global-batch=128 zero=3 dtype=bf16 "
       "framework=hf-deepspeed"}, /* 2 x 8 x 8 */
      {"fsdp2.yaml", "accelerate", "gpus=8 zero=3 dtype=bf16 framework=fsdp2 !offload"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const struct spp_imported *in = NULL;
    struct spp_diag diag = {0};
    char path[512];
#ifndef SPP_HAVE_YAML
    if (strstr(rows[i].file, ".yaml") || strstr(rows[i].file, "zero3")) continue;
#endif
    snprintf(path, sizeof path, DATA "%s", rows[i].file);
    expect_note("%s", rows[i].file);
    expect_status(spp_import_file(path, &options, &arena, &in, &diag), SPP_OK, &diag);
    expect_str(in->format->name, rows[i].format);
    expect_settings(in, rows[i].settings);
    for (int m = 0; m < in->message_count; m++)
      if (in->messages[m].said == SPP_IMPORT_UNKNOWN)
        expect_fail_at(__FILE__, __LINE__, "unknown: %s", in->messages[m].text);
  }
  expect_note("%s", "");
}

static void ms_swift_flags_mean_what_its_source_says(void **state) {
  static const struct {
    const char *text, *settings;
  } rows[] = {
      /* trainers/arguments.py: ceil(16 / 2 / 4) = 2 steps; 2 sequences x 2 x 4 replicas */
      {"NPROC_PER_NODE=4 swift sft --model Qwen/Qwen2.5-7B --per_device_train_batch_size 2",
       "global-batch=16 gpus=4"},
      {"NPROC_PER_NODE=8 NNODES=2 swift sft --model x --per_device_train_batch_size 2 "
       "--sequence_parallel_size 4 "
       "--gradient_accumulation_steps 3",
       "gpus=16 sp=4 global-batch=24"}, /* 2 x 3 x 16 / 4 */
      {"swift sft --train_type full --model x", "method=full !lora-rank"},
      {"swift sft --sft_type lora --lora-rank 64 --model x", "method=lora lora-rank=64"},
      {"swift sft --model x --quant_bits 4 --quant_method bnb", "method=qlora"},
      {"swift sft --model x --deepspeed zero3_offload", "zero=3 offload=optimizer+params"},
      {"swift sft --model x --deepspeed zero2_offload", "zero=2 offload=optimizer"},
      {"swift sft --model x --deepspeed default-zero3", "zero=3"},
      {"swift rlhf --model x", "mode=dpo"},
      {"swift rlhf --rlhf_type grpo --model x --num_generations 16", "mode=grpo completions=16"},
      {"swift rlhf --rlhf_type ppo --model x", "mode=ppo"},
      {"swift rlhf --rlhf_type simpo --model x", "mode=dpo reference=0"},
      {"swift rlhf --rlhf_type grpo --beta 0 --model x", "mode=grpo reference=0"},
      {"swift pt --model x --tuner_type full", "mode=train method=full"},
      {"swift sft --model x --attn_impl flash_attn", "attention=fa2"},
      {"swift sft --model x",
       "attention=sdpa recompute=full micro-batch=1 gpus=1 zero=0 method=lora lora-rank=8"},
      {"swift sft --model x --gradient_checkpointing false", "recompute=none"},
      {"swift sft --model x --padding_free true", "packing=1"},
      {"swift sft --model x --packing false", "!packing"},
      {"swift sft --model x --packing true --max_length 1000 --packing_length 4000", "seq=4000"},
      {"swift sft --model /mnt/models/Qwen2.5-14B-Instruct/ --max_length 8", "model=qwen2.5-14b"},
      {"swift sft --model x --target_modules q_proj v_proj", "lora-targets=q,v"},
      {"CUDA_VISIBLE_DEVICES=0,1,2 NPROC_PER_NODE=3 swift sft --model x", "gpus=3"},
      {"CELOSS_PARALLEL_SIZE=2048 swift sft --model x --sequence_parallel_size 2",
       "loss=chunked loss-chunk=2048"},
      {"swift sft --model x --optim adamw_bnb_8bit", "optimizer=adamw-8bit"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    expect_settings(import_text(rows[i].text, "f.sh"), rows[i].settings);
  expect_note("%s", "");
}

/* Each format by its own names and defaults; the source of each is in its file in interop/. */
static const struct {
  const char *name, *text, *format, *settings;
} flag_rows[] = {
    {"f.sh",
     "torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
     "--ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention --num-query-groups 8 "
     "--tokenizer-type HuggingFaceTokenizer --tokenizer-model meta-llama/Llama-3.1-8B --seq-length 8192 "
     "--micro-batch-size 1 --global-batch-size 128 --bf16 --tensor-model-parallel-size 4 "
     "--sequence-parallel "
     "--pipeline-model-parallel-size 2 --context-parallel-size 2 --use-distributed-optimizer "
     "--recompute-activations --num-layers-per-virtual-pipeline-stage 4",
     "megatron-lm",
     "model=llama3.1-8b seq=8192 gpus=16 tp=4 pp=2 sp=2 vpp=4 megatron-sp=1 zero=1 recompute=selective "
     "dtype=bf16 global-batch=128 micro-batch=1"}, /* 32 layers / (2 stages x 4 a chunk) = 4 chunks */
    /* of the models with these sizes, the one with this vocabulary */
    {"f.sh",
     "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --ffn-hidden-size "
     "14336 "
     "--num-attention-heads 32 --group-query-attention --num-query-groups 8 --vocab-size 128256 "
     "--seq-length 8192",
     "megatron-lm", "model=llama3-8b seq=8192 gpus=8"},
    {"f.sh",
     "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --ffn-hidden-size "
     "14336 "
     "--num-attention-heads 32 --group-query-attention --num-query-groups 8 --vocab-size 92544",
     "megatron-lm", "model=internlm2-7b gpus=8"},
    /* Megatron-DeepSpeed with FPDT: deepspeed 0.19.8 sequence/fpdt_layer.py */
    {"f.sh",
     "deepspeed --num_gpus 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 "
     "--seq-length 524288 --max-position-embeddings 524288 --vocab-size 50304 --ds-sequence-parallel-size 8 "
     "--ds-sequence-parallel-fpdt --ds-sequence-parallel-fpdt-chunk-size 65536 "
     "--ds-sequence-parallel-fpdt-offloading --micro-batch-size 1 --global-batch-size 1 --zero-stage 3 "
     "--bf16 "
     "--use-flash-attn-v2 --deepspeed --deepspeed_config ds.json --checkpoint-activations",
     "megatron-lm",
     "gpus=8 sp=8 sp-kind=ulysses fpdt-chunk=65536 fpdt-offload=1 zero=3 seq=524288 recompute=full "
     "attention=fa2 "
     "framework=megatron-deepspeed"},
    /* the sizes alone, of no known model */
    {"f.sh",
     "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 26 --hidden-size 1664 --num-attention-heads "
     "16 "
     "--seq-length 2048 --max-position-embeddings 2048 --tokenizer-type GPT2BPETokenizer --vocab-file v "
     "--merge-file m --ckpt-format torch_dist",
     "megatron-lm", "model=26-layers-of-1664 seq=2048"},
    {"f.sh",
     "docker run --gpus all nvcr.io/nvidia/pytorch bash -c 'torchrun --nproc_per_node 8 pretrain_gpt.py "
     "--num-layers 4 --hidden-size 2048 --ffn-hidden-size 10944 --num-attention-heads 16 "
     "--multi-latent-attention --kv-lora-rank 512 --v-head-dim 128 --qk-head-dim 128 --qk-pos-emb-head-dim "
     "64 "
     "--swiglu --num-experts 64 --moe-router-topk 6 --moe-ffn-hidden-size 1408 --moe-layer-freq "
     "\"([0]+[1]*3)\" "
     "--moe-shared-expert-intermediate-size 2816 --vocab-size 102400 --bf16 --fp8-format hybrid "
     "--fp8-param-gather'",
     "megatron-lm", "model=4-layers-of-2048 gpus=8 dtype=fp8 fp8-params=1"},
    {"f.sh",
     "torchrun --nproc_per_node 8 pretrain_gpt.py --use-custom-fsdp --data-parallel-sharding-strategy "
     "optim_grads",
     "megatron-lm", "zero=2"},
    /* axolotl 0.19.0 docs/multi-node.qmd */
    {"f.sh",
     "axolotl train --base_model x --launcher torchrun -- --nnodes 2 --nproc_per_node 8 --rdzv_id 1 "
     "--rdzv_backend c10d",
     "axolotl", "gpus=16"},
    {"f.sh", "A=(--tensor-model-parallel-size 2)\ntorchrun --nproc_per_node 2 pretrain_gpt.py ${A[@]} --fp16",
     "megatron-lm", "tp=2 megatron-sp=0 dtype=fp16 zero=0 recompute=none gpus=2"},
    {"f.sh",
     "torchrun --nproc_per_node 8 pretrain_gpt.py --context-parallel-size 8 --cp-comm-type a2a+p2p "
     "--hierarchical-context-parallel-sizes 2 4 --recompute-granularity full --recompute-method uniform "
     "--recompute-num-layers 2 --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params",
     "megatron-lm", "ulysses=2 ring=4 sp-kind=hybrid recompute=full recompute-unit=2 zero=3"},
    {"f.sh",
     "NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --expert_model_parallel_size 8 --max_length "
     "8192",
     "megatron-swift",
     "model=qwen3-30b-a3b ep=8 seq=8192 gpus=8 global-batch=16 micro-batch=1 recompute=selective zero=1 "
     "method=full attention=fa2"},
    {"f.sh",
     "megatron sft --model x --tuner_type lora --target_modules all-linear --recompute_granularity full "
     "--recompute_method uniform --recompute_num_layers 1",
     "megatron-swift", "method=lora lora-rank=8 recompute=full"},
    {"f.json",
     "{\"train_micro_batch_size_per_gpu\":2,\"gradient_accumulation_steps\":4,\"bf16\":{\"enabled\":true},"
     "\"zero_optimization\":{\"stage\":3,\"reduce_bucket_size\":5e8,\"offload_optimizer\":{\"device\":"
     "\"cpu\"},"
     "\"offload_param\":{\"device\":\"cpu\"}}}",
     "deepspeed", "micro-batch=2 dtype=bf16 zero=3 offload=optimizer+params bucket-elements=500000000"},
    {"f.sh",
     "deepspeed --num_gpus 4 train.py --model_name_or_path Qwen/Qwen2.5-7B --deepspeed ds.json --bf16 true "
     "--per_device_train_batch_size 2 --gradient_accumulation_steps 3",
     "deepspeed", "model=qwen2.5-7b gpus=4 micro-batch=2 global-batch=24 dtype=bf16 framework=hf-deepspeed"},
    {"f.sh",
     "CUDA_VISIBLE_DEVICES=0,1 llamafactory-cli train --stage dpo --model_name_or_path Qwen/Qwen2.5-7B "
     "--finetuning_type lora --quantization_bit 4 --lora_target q_proj,v_proj --flash_attn fa2",
     "llama-factory",
     "mode=dpo method=qlora lora-targets=q,v attention=fa2 gpus=2 micro-batch=8 global-batch=16"},
    {"f.toml",
     "[model]\nname = \"llama3\"\nflavor = \"8B\" # the size\n[training]\nseq_len = 8192\nlocal_batch_size "
     "= 1\n"
     "[parallelism]\ndata_parallel_shard_degree = -1\ntensor_parallel_degree = 2\ncontext_parallel_degree "
     "= 4\n"
     "[activation_checkpoint]\nmode = \"full\"\n",
     "torchtitan", "model=llama3.1-8b seq=8192 micro-batch=1 tp=2 sp=4 recompute=full zero=3"},
    {"f.sh",
     "torchrun --nproc_per_node=8 -m torchtitan.train --training.seq_len 4096 "
     "--parallelism.pipeline_parallel_degree=2 --parallelism.pipeline_parallel_schedule Interleaved1F1B "
     "--activation_checkpoint.mode none",
     "torchtitan", "gpus=8 seq=4096 pp=2 schedule=interleaved recompute=none"},
    {"f.sh",
     "torchrun --standalone --nnodes=1 --nproc_per_node=8 -m verl.trainer.sft_trainer "
     "model.path=Qwen/Qwen2.5-7B data.max_length=4096 data.micro_batch_size_per_gpu=2 "
     "data.train_batch_size=64 "
     "engine.ulysses_sequence_parallel_size=2 model.enable_gradient_checkpointing=True",
     "verl", "model=qwen2.5-7b gpus=8 seq=4096 micro-batch=2 global-batch=64 sp=2 recompute=full mode=train"},
    {"f.sh",
     "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.max_prompt_length=512 "
     "data.max_response_length=1024 actor_rollout_ref.model.path=Qwen/Qwen2.5-7B trainer.n_gpus_per_node=8 "
     "trainer.nnodes=2 data.train_batch_size=256 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 "
     "actor_rollout_ref.rollout.n=5",
     "verl", "mode=grpo seq=1536 gpus=16 completions=5 global-batch=1280 micro-batch=4"}, /* 256 x 5 */
    /* verl 0.9.1 trainer/config/engine/megatron.yaml: distributed optimizer, sequence parallelism, bf16 */
    {"f.sh",
     "ray job submit --address http://h:8265 -- python3 -m verl.trainer.main_ppo "
     "--config-name=ppo_megatron_trainer "
     "algorithm.adv_estimator=grpo actor_rollout_ref.model.path=Qwen/Qwen3-30B-A3B "
     "data.max_prompt_length=1024 "
     "data.max_response_length=3072 actor_rollout_ref.actor.megatron.tensor_model_parallel_size=4 "
     "actor_rollout_ref.actor.megatron.expert_model_parallel_size=8 "
     "actor_rollout_ref.actor.megatron.context_parallel_size=2 "
     "actor_rollout_ref.actor.ppo_mini_batch_size=64 "
     "+actor_rollout_ref.actor.megatron.override_transformer_config.recompute_granularity=full "
     "+actor_rollout_ref.actor.megatron.override_transformer_config.recompute_method=uniform "
     "+actor_rollout_ref.actor.megatron.override_transformer_config.recompute_num_layers=1 "
     "actor_rollout_ref.rollout.n=8 trainer.n_gpus_per_node=8 trainer.nnodes=2",
     "verl",
     "mode=grpo seq=4096 gpus=16 tp=4 ep=8 sp=2 megatron-sp=1 zero=1 recompute=full recompute-unit=1 "
     "dtype=bf16 "
     "global-batch=512 completions=8 framework=megatron-swift"}, /* 64 x 8 */
    /* Slurm settles the nodes; srun starts one torchrun on each */
    {"f.sh",
     "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --gpus-per-node=8\nGPUS=8\nTP=2\n"
     "srun --ntasks-per-node=1 -N $SLURM_NNODES --export=ALL torchrun --nproc_per_node $GPUS --nnodes "
     "$SLURM_NNODES --rdzv_id 7 pretrain_gpt.py --tensor-model-parallel-size $TP --micro-batch-size 1 "
     "--global-batch-size $((GPUS * SLURM_NNODES * 4 / TP))",
     "megatron-lm", "gpus=32 tp=2 global-batch=64"}, /* 8 x 4 x 4 / 2 */
    /* accelerate 1.15.0 utils/dataclasses.py: the sizes as variables */
    {"f.sh",
     "ACCELERATE_USE_PARALLELISM_CONFIG=true PARALLELISM_CONFIG_SP_SIZE=4 accelerate launch --num_processes "
     "8 "
     "--use_deepspeed --zero_stage 3 -m trl.scripts.sft --model_name_or_path Qwen/Qwen2.5-7B "
     "--no_gradient_checkpointing",
     "trl", "gpus=8 sp=4 sp-kind=ulysses zero=3 recompute=none framework=fsdp2"},
    {"f.sh",
     "accelerate launch --num_processes 8 --use_deepspeed --zero_stage 3 --offload_optimizer_device cpu "
     "--offload_param_device cpu -m trl.scripts.sft --model_name_or_path Qwen/Qwen2.5-7B",
     "trl", "gpus=8 zero=3 offload=optimizer+params framework=hf-deepspeed !sp-kind"},
    /* what follows -- is the launcher's */
    {"f.sh",
     "axolotl train --base_model Qwen/Qwen2.5-7B --adapter lora --lora_target_modules "
     "'model.language_model.layers.[\\d]+.(mlp|self_attn).(up|down|q|v)_proj' --launcher torchrun -- "
     "--nproc_per_node=2 --nnodes=2",
     "axolotl", "gpus=4 method=lora lora-targets=up,down,q,v"},
    /* llamafactory 0.9.5 examples/v1/train_full/train_full_ulysses_cp.yaml: keys of its v1 */
    {"f.json",
     "{\"model\":\"Qwen/Qwen3-0.6B\",\"model_class\":\"llm\",\"dist_config\":{\"name\":\"fsdp2\",\"cp_mode\":"
     "\"ulysses\",\"cp_size\":2},\"train_dataset\":\"x.yaml\",\"micro_batch_size\":1,\"cutoff_len\":2048}",
     "llama-factory", "model=qwen3-0.6b zero=3 sp=2 micro-batch=1 seq=2048 method=full"},
    /* fewer prompts than the 256 of a mini-batch nobody named */
    {"f.sh",
     "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo trainer.n_gpus_per_node=8 "
     "data.train_batch_size=32 actor_rollout_ref.rollout.n=5",
     "verl", "mode=grpo gpus=8 completions=5 global-batch=160"},
    /* verl examples/grpo_trainer: 256 prompts x 5 completions an optimizer step = 40 x 8 GPUs x 4 */
    {"f.sh",
     "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.max_prompt_length=512 "
     "data.max_response_length=1024 actor_rollout_ref.model.path=Qwen/Qwen2.5-7B trainer.n_gpus_per_node=8 "
     "trainer.nnodes=1 data.train_batch_size=1024 actor_rollout_ref.actor.ppo_mini_batch_size=256 "
     "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=40 actor_rollout_ref.rollout.n=5",
     "verl", "mode=grpo seq=1536 gpus=8 completions=5 global-batch=1280 micro-batch=40"},
    /* Megatron-LM examples/llama: gradients in 16 bits, and options that decide nothing */
    {"f.sh",
     "torchrun --nproc_per_node 8 --master_port 6000 pretrain_gpt.py --grad-reduce-in-bf16 --bf16 "
     "--fp8-format hybrid --apply-layernorm-1p --empty-unused-memory-level 1 --rampup-batch-size 32 32 1000",
     "megatron-lm", "grads-dtype=bf16 dtype=fp8"},
    {"f.json",
     "{\"zero_optimization\":{\"stage\":3,\"stage3_max_live_parameters\":1e9,\"stage3_max_reuse_distance\":"
     "1e9,"
     "\"stage3_prefetch_bucket_size\":5e7,\"stage3_param_persistence_threshold\":1e5,"
     "\"stage3_gather_16bit_weights_on_model_save\":true}}",
     "deepspeed", "zero=3"},
    {"f.sh",
     "accelerate launch --num_processes 8 --use_fsdp --fsdp_version 2 --fsdp_reshard_after_forward false "
     "my.py "
     "--model_name_or_path Qwen/Qwen2.5-7B --gradient_checkpointing --bf16",
     "accelerate", "gpus=8 zero=2 recompute=full dtype=bf16 micro-batch=8"},
};

static void flags_of_every_format_mean_what_its_source_says(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof flag_rows / sizeof flag_rows[0]; i++) {
    const struct spp_imported *in = import_text(flag_rows[i].text, flag_rows[i].name);
    expect_str(in->format->name, flag_rows[i].format);
    expect_settings(in, flag_rows[i].settings);
    for (int m = 0; m < in->message_count; m++)
      if (in->messages[m].said == SPP_IMPORT_UNKNOWN)
        expect_fail_at(__FILE__, __LINE__, "unknown: %s", in->messages[m].text);
  }
  expect_note("%s", "");
}

static void an_unknown_flag_names_its_nearest(void **state) {
  (void)state;
  const struct spp_imported *in = import_text(
      "swift sft --model x \\\n --per-device-train-batch-szie 1 --zzzzzzzzzz 2 --learning_rate 1", "f.sh");
  expect_i64(count_of(in, SPP_IMPORT_UNKNOWN), 2);
  expect_i64(count_of(in, SPP_IMPORT_PASSED), 1);
  expect_str(in->messages[0].nearest, "--per-device-train-batch-size");
  expect_has(in->messages[0].text, "did you mean --per-device-train-batch-size?");
  expect_i64(in->messages[0].line, 2);
  expect_true(in->messages[1].nearest == NULL);
}

/* Narayanan et al. 2021 (arXiv 2104.04473) equation 2: P = 12 l h^2 (1 + 13 / 12h + (V + s) / 12 l h), here
 * with 2h more for the last norm. */
static void sizes_make_a_model(void **state) {
  (void)state;
  const struct spp_imported *in =
      import_text("torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 26 --hidden-size 1664 "
                  "--num-attention-heads 16 "
                  "--seq-length 2048 --max-position-embeddings 2048 --vocab-size 50304",
                  "f.sh");
  const int64_t l = 26, h = 1664;
  expect_true(in->arch != NULL);
  struct spp_params params;
  spp_params_count(in->arch, &params);
  expect_i64(params.total, 12 * l * h * h + 13 * l * h + (50304 + 2048) * h + 2 * h);
  in = import_text(
      "torchrun pretrain_gpt.py --num-layers 20 --hidden-size 3072 --ffn-hidden-size 8192 "
      "--num-attention-heads 24 --group-query-attention --num-query-groups 8 --swiglu --vocab-size 32000 "
      "--disable-bias-linear --untie-embeddings-and-output-weights --num-experts 8 --moe-router-topk 2",
      "f.sh");
  expect_true(in->arch != NULL);
  expect_i64(in->arch->experts, 8);
  expect_i64(in->arch->kv_heads, 8);
  in = import_text("torchrun pretrain_gpt.py --num-layers 20 --hidden-size 3072 --num-attention-heads 24 "
                   "--squared-relu --vocab-size 32000",
                   "f.sh");
  expect_true(in->arch == NULL);
}

#define SIZES_OF_7B                                                                                          \
  "torchrun --nproc_per_node 8 --master_addr localhost --master_port 6000 pretrain_gpt.py --num-layers 32 "  \
  "--hidden-size 4096 "                                                                                      \
  "--ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention --num-query-groups 8 "

static void what_cannot_be_told_is_said(void **state) {
  static const struct {
    const char *text;
    enum spp_import_said said;
    const char *words;
  } rows[] = {
      {"swift sft --model x --use_logits_to_keep true", SPP_IMPORT_UNMODELLED, "logits of the answers only"},
      {"swift sft --model x --deepspeed nowhere.json", SPP_IMPORT_VALUE, "nowhere.json"},
      {"axolotl train --base_model x --expert_parallel_size 4", SPP_IMPORT_UNMODELLED, "experts split"},
      {"axolotl train --base_model x --lora_mlp_kernel true", SPP_IMPORT_UNMODELLED, "keep less"},
      {"llamafactory-cli train --stage sft --fp8 true", SPP_IMPORT_UNMODELLED, "FP8"},
      {"torchrun pretrain_gpt.py --checkpoint-in-cpu", SPP_IMPORT_UNMODELLED, "host memory"},
      {"swift sft --model x --tuner_type adalora", SPP_IMPORT_VALUE, "adalora"},
      {"swift sft --model x --max_length $LENGTH", SPP_IMPORT_UNSET, "$LENGTH"},
      {"swift sft --model x \\\n# --packing true \\\n --max_length 8", SPP_IMPORT_NOTE, "line 2"},
      {"axolotl train --base_model x --deepspeed deepspeed_configs/zero2.json --context_parallel_size 2",
       SPP_IMPORT_UNMODELLED, "as FSDP2"},
      {SIZES_OF_7B, SPP_IMPORT_NOTE, "Llama-3-8B"}, /* among the others of these sizes */
      {SIZES_OF_7B "--vocab-size 50304", SPP_IMPORT_VALUE, "not 50304"},
      {"swift sft --model x\nswift sft --model y", SPP_IMPORT_NOTE, "line 2 starts another job"},
      {"swift sft --model x --max_length 8 --max_length 16", SPP_IMPORT_VALUE,
       "--max_length 16 counts instead"},
      {"swift sft --model x --max_length 16 --max_length 16", SPP_IMPORT_PASSED, "--max_length"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const struct spp_imported *in = import_text(rows[i].text, "f.sh");
    const struct spp_import_message *found = NULL;
    for (int m = 0; m < in->message_count; m++)
      if (in->messages[m].said == rows[i].said) found = &in->messages[m];
    if (!found) expect_fail_at(__FILE__, __LINE__, "nothing is said of %s", rows[i].words);
    expect_has(found->text, rows[i].words);
  }
  expect_note("%s", "");
}

/* transformers 5.24 integrations/deepspeed.py HfTrainerDeepSpeedConfig.fill_match: numbers that differ end in
 * a ValueError; deepspeed 0.19.8 runtime/config.py asks that the whole batch be the product of its parts. */
static void a_deepspeed_file_that_disagrees_with_the_command_is_said_to_stop_it(void **state) {
#define ENGINE(words) "{" words "\"zero_optimization\":{\"stage\":3}}"
#define TRAINER                                                                                              \
  "deepspeed --num_gpus 4 train.py --model_name_or_path Qwen/Qwen2.5-7B --deepspeed ds.json "                \
  "--per_device_train_batch_size 4 "
  static const struct {
    const char *file, *command, *settings;
    const char *said[2]; /* NULL: nothing */
  } rows[] = {
      {ENGINE("\"train_micro_batch_size_per_gpu\":2,"),
       TRAINER "--gradient_accumulation_steps 3",
       "micro-batch=4 global-batch=48", /* 4 x 3 x 4 */
       {"train_micro_batch_size_per_gpu 2 against --per_device_train_batch_size 4: this command will not "
        "start "
        "(transformers' HfTrainerDeepSpeedConfig raises ValueError); 4 is counted"}},
      {ENGINE("\"train_micro_batch_size_per_gpu\":4,\"gradient_accumulation_steps\":2,"),
       TRAINER "--gradient_accumulation_steps 3",
       "micro-batch=4 global-batch=48",
       {"gradient_accumulation_steps 2 against --gradient_accumulation_steps 3"}},
      {ENGINE("\"gradient_accumulation_steps\":2,"),
       TRAINER,
       "micro-batch=4 global-batch=32", /* what the Trainer takes by default is 1 */
       {"gradient_accumulation_steps 2 against --gradient_accumulation_steps 1 by default"}},
      {ENGINE("\"train_batch_size\":64,"),
       TRAINER "--gradient_accumulation_steps 3",
       "micro-batch=4 global-batch=48",
       {"train_batch_size 64 against micro-batch 4 x accumulation 3 x 4 GPUs"}},
      {ENGINE("\"train_micro_batch_size_per_gpu\":2,\"gradient_accumulation_steps\":2,"),
       TRAINER "--gradient_accumulation_steps 3",
       "micro-batch=4 global-batch=48",
       {"train_micro_batch_size_per_gpu 2", "gradient_accumulation_steps 2"}},
      {ENGINE("\"train_micro_batch_size_per_gpu\":2,"),
       "swift sft --model Qwen/Qwen2.5-7B --deepspeed ds.json --max_length 8",
       "micro-batch=2",
       {"against --per_device_train_batch_size 1 by default"}},
      {ENGINE("\"train_micro_batch_size_per_gpu\":\"auto\","), TRAINER, "micro-batch=4", {NULL}},
      {ENGINE("\"train_batch_size\":48,\"train_micro_batch_size_per_gpu\":4,"),
       TRAINER "--gradient_accumulation_steps 3",
       "micro-batch=4 global-batch=48",
       {NULL}},
      {ENGINE("\"train_micro_batch_size_per_gpu\":2,"), /* a script of one's own, without the Trainer */
       "deepspeed --num_gpus 4 train.py --deepspeed_config ds.json",
       "micro-batch=2",
       {NULL}},
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const struct spp_import_text beside = {.name = "ds.json", .text = rows[i].file};
    const struct spp_import_options with = {.config_dir = CONFIG_DIR, .texts = &beside, .text_count = 1};
    const struct spp_imported *in = NULL;
    struct spp_diag diag = {0};
    expect_note("row %zu", i);
    expect_status(
        spp_import_text(rows[i].command, strlen(rows[i].command), "f.sh", &with, &arena, &in, &diag), SPP_OK,
        &diag);
    expect_settings(in, rows[i].settings);
    int notes = 0;
    for (int m = 0; m < in->message_count; m++) {
      if (in->messages[m].said != SPP_IMPORT_NOTE && in->messages[m].said != SPP_IMPORT_VALUE) continue;
      expect_true(notes < 2 && rows[i].said[notes] != NULL);
      if (notes < 2 && rows[i].said[notes]) expect_has(in->messages[m].text, rows[i].said[notes]);
      notes++;
    }
    expect_i64(notes, (rows[i].said[0] != NULL) + (rows[i].said[1] != NULL));
  }
  expect_note("%s", "");
#undef ENGINE
#undef TRAINER
}

/* Launch words leave the address to the user. */
static void addresses_of_the_launcher_are_passed_over(void **state) {
  (void)state;
  const struct spp_imported *in = import_text(SIZES_OF_7B "--vocab-size 128256", "f.sh");
  expect_i64(count_of(in, SPP_IMPORT_VALUE), 0);
  expect_i64(count_of(in, SPP_IMPORT_UNKNOWN), 0);
}

static void what_is_no_framework_s_is_refused(void **state) {
  static const struct {
    const char *name, *text, *what, *where;
  } rows[] = {
      {"f.sh", "", "no framework", "f.sh"},
      {"f.sh", "ls -l", "no framework", "f.sh"},
      {"f.json", "{\"a\":1}", "no framework", "f.json"},
      {"f.json", "{\"a\":1", "", "f.json"},
      {"f.json", "{\"a\":1,\"a\":2}", "", "f.json"},
      {"f.sh", "swift sft --model 'x", "not closed", "f.sh:1"},
      {"f.sh", "swift sft --model x \\\n --sequence_parallel_size four", "", "f.sh:2"},
      {"f.sh", "swift sft --model x --gradient_accumulation_steps 0", "", "f.sh:1"},
#ifdef SPP_HAVE_YAML
      {"f.yaml", "tuner_type: [a", "", "f.yaml:"},
      {"f.yaml", "tuner_type: lora\ntuner_type: full\n", "twice", "f.yaml:2"},
      {"f.yaml", "a: &x 1\ntuner_type: *x\n", "alias", "f.yaml:2"},
      {"f.yaml", "a: 1\n---\nb: 2\n", "document", "f.yaml:"},
      {"f.yaml", "- a\n- b\n", "no framework", "f.yaml"},
#endif
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const struct spp_imported *in = NULL;
    struct spp_diag diag = {0};
    expect_note("%s", rows[i].text);
    expect_i64(
        spp_import_text(rows[i].text, strlen(rows[i].text), rows[i].name, &options, &arena, &in, &diag),
        SPP_ERR_INPUT);
    expect_has(diag.what, rows[i].what);
    expect_has(diag.where, rows[i].where);
    expect_true(diag.what[0] != '\0');
  }
  expect_note("%s", "");
}

/* A tree as deep as the text is long: refused at a depth, not walked to the end. */
static void depth_is_bounded(void **state) {
  enum { DEEP = 20000 };
  static char text[2 * DEEP + 32];
  static const struct {
    const char *name, *open;
  } rows[] = {{"f.json", "{\"a\":"}, {"f.json", "["}, {"f.yaml", "["}, {"f.yaml", "{a: "}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const struct spp_imported *in = NULL;
    struct spp_diag diag = {0};
    size_t n = strlen(rows[i].open), used = 0;
    for (; used + n < sizeof text - 1; used += n)
      memcpy(text + used, rows[i].open, n);
    text[used] = '\0';
    enum spp_status status = spp_import_text(text, used, rows[i].name, &options, &arena, &in, &diag);
    expect_true(status == SPP_ERR_INPUT || status == SPP_ERR_ABSENT);
  }
}

/* A Megatron-LM command of DeepSeek-V2-Lite's sizes but for its depth builds the blocks of DeepSeek-V2-Lite:
 * the difference is that of 23 layers with experts. Parameters of one (configs/models/deepseek-v2-lite.json):
 * attention 2048*16*192 + 2048*(512+64) + 512 + 512*16*(128+128) + 16*128*2048, norms 2*2048, router 64*2048,
 * experts 64*3*2048*1408, shared 3*2048*2816. */
static void sizes_of_latent_attention_and_shared_experts_make_a_model(void **state) {
  const int64_t attention = 2048 * 16 * 192 + 2048 * 576 + 512 + 512 * 16 * 256 + 16 * 128 * 2048,
                layer = attention + 2 * 2048 + 64 * 2048 + INT64_C(64) * 3 * 2048 * 1408 + 3 * 2048 * 2816;
  const struct spp_arch *whole = NULL;
  struct spp_diag diag = {0};
  (void)state;
  const struct spp_imported *in = import_text(
      "torchrun pretrain_gpt.py --num-layers 4 --hidden-size 2048 --ffn-hidden-size 10944 "
      "--num-attention-heads 16 --multi-latent-attention --kv-lora-rank 512 --v-head-dim 128 --swiglu "
      "--disable-bias-linear --untie-embeddings-and-output-weights --num-experts 64 --moe-router-topk 6 "
      "--moe-ffn-hidden-size 1408 --moe-layer-freq '([0]+[1]*3)' --moe-shared-expert-intermediate-size 2816 "
      "--vocab-size 102400",
      "f.sh");
  expect_status(spp_arch_load(CONFIG_DIR, "deepseek-v2-lite", &arena, &whole, &diag), SPP_OK, &diag);
  expect_i64(in->arch->kinds[in->arch->kind_of_layer[0]].moe, 0);
  expect_i64(in->arch->kinds[in->arch->kind_of_layer[1]].moe, 1);
  struct spp_params all, some;
  spp_params_count(whole, &all);
  spp_params_count(in->arch, &some);
  expect_i64(all.total - some.total, 23 * layer);
}

static void the_pattern_of_layers_with_experts_is_read(void **state) {
  static const struct {
    const char *text, *layers; /* NULL: no pattern of 6 layers */
  } rows[] = {{"1", "111111"},
              {"2", "101010"},
              {"([0]*2+[1]*4)", "001111"},
              {"[0,1]*3", "010101"},
              {"([1]*2+[0])*2", "110110"},
              {"[0]+[1]*5", "011111"},
              {"[1]*5", NULL},
              {"[1]*7", NULL},
              {"([1]*6", NULL},
              {"[1]*6)", NULL},
              {"[1]*99999999999", NULL},
              {"[2]*6", NULL},
              {"0", NULL},
              {"", NULL},
              {"[", NULL},
              {"((((((((([1]*6)))))))))", NULL}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    bool with[6] = {false};
    char text[7] = "";
    expect_note("%s", rows[i].text);
    bool read = spp_layer_pattern(rows[i].text, 6, with);
    expect_i64(read, rows[i].layers != NULL);
    for (int k = 0; k < 6; k++)
      text[k] = with[k] ? '1' : '0';
    if (read) expect_str(text, rows[i].layers);
  }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(published_commands_are_read_right),
      TEST(ms_swift_flags_mean_what_its_source_says),
      TEST(flags_of_every_format_mean_what_its_source_says),
      TEST(an_unknown_flag_names_its_nearest),
      TEST(sizes_make_a_model),
      TEST(sizes_of_latent_attention_and_shared_experts_make_a_model),
      TEST(the_pattern_of_layers_with_experts_is_read),
      TEST(what_cannot_be_told_is_said),
      TEST(a_deepspeed_file_that_disagrees_with_the_command_is_said_to_stop_it),
      TEST(addresses_of_the_launcher_are_passed_over),
      TEST(what_is_no_framework_s_is_refused),
      TEST(depth_is_bounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
