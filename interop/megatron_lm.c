/* Megatron-LM: pretrain_gpt.py and its like. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "interop/reading.h"

/* megatron-core 0.19.2 megatron/training/arguments.py, and the options that argument_utils.py
 * ArgumentGroupFactory makes of megatron/core's configurations: a field a_b is the flag --a-b. */
static const struct spp_format_row rows[] = {
    {"zero=0", "--use-distributed-optimizer false"},
    {"zero=1", "--use-distributed-optimizer"},
    {"zero=3", "--use-torch-fsdp2"},
    {"zero=3", "--use-megatron-fsdp"},
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
    {"fp8_params=1", "--fp8-param-gather"},
    {"fp8_params=1", "--fp4-param-gather"},
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
    /* whatever they say, it decides nothing */
    {"", "--tokenizer-type {tokenizer} --normalization {norm} --position-embedding-type {positions_kind} "
         "--cross-entropy-fusion-impl {cross_entropy} --ckpt-format {checkpoints}"},
};
const struct spp_format_rows spp_rows_megatron = SPP_ROWS(rows);

/* Megatron-DeepSpeed: deepspeed 0.19.8 sequence/fpdt_layer.py (args.ds_sequence_parallel_fpdt*); its other
 * names are those of its examples, recalled. */
static const struct spp_format_row deepspeed_rows[] = {
    {"sp_kind=ulysses", "--ds-sequence-parallel-size {sp}"},
    {"", "--ds-sequence-parallel-fpdt true --ds-sequence-parallel-fpdt-chunk-size {fpdt_chunk}"},
    {"fpdt_offload=1", "--ds-sequence-parallel-fpdt-offloading"},
    {"", "--zero-stage {zero}"},
    {"recompute=full", "--checkpoint-activations"},
    {"recompute=full", "--deepspeed-activation-checkpointing"},
    {"attention=fa2", "--use-flash-attn-v2"},
    {"offload_optimizer=1", "--cpu-optimizer"},
};
static const struct spp_format_rows spp_rows_megatron_deepspeed = SPP_ROWS(deepspeed_rows);
static const char *const known_megatron_deepspeed[] = {
    "deepspeed deepspeed_config no_pipeline_parallel train_tokens lr_decay_tokens lr_warmup_tokens "
    "cpu_optimizer",
    "force_ds_sequence_parallel remote_device curriculum_learning_legacy data_efficiency_curriculum_learning",
    NULL,
};

static const struct spp_format_note notes[] = {
    {"hybrid_context_parallel max_seqlen_per_dp_cp_rank",
     "lengths that decide the degree sequence by sequence are not in the model"},
    {"fine_grained_activation_offloading offload_modules", "offloading single modules is not in the model"},
    {"mtp_num_layers", "heads that predict further tokens are not in the model"},
    {"pipeline_model_parallel_layout",
     "layers laid over stages by hand are not in the model: they are split evenly"},
    {"checkpoint_in_cpu", "checkpoints that wait in host memory are counted on the GPU"},
    {"moe_extended_tp", "experts split over TP x EP are not in the model: see --expert-tensor-parallel-size"},
    {"moe_layer_recompute distribute_saved_activations", "this way of recomputing is not in the model"},
    {NULL, NULL},
};

/* ---- which model ---- */

static bool is_said(struct spp_reading *r, const char *name, int64_t value) {
  return !spp_reading_find(r, name) || spp_reading_number(r, name, value) == value;
}

/* A gated MLP is asked for; without its width a plain one has another. */
static bool has_mlp(struct spp_reading *r, const struct spp_arch *a) {
  const char *swiglu = spp_reading_flag(r, "swiglu");
  const bool gated = a->mlp == SPP_MLP_GATED, asked = swiglu && !spp_value_is_false(swiglu);
  return asked ? gated : !gated || spp_reading_find(r, "ffn") != NULL;
}

/* Latent attention, and what of experts is said. */
static bool has_kind(struct spp_reading *r, const struct spp_arch *a) {
  const char *latent = spp_reading_flag(r, "multi_latent_attention");
  const bool asked = latent && !spp_value_is_false(latent);
  if (asked != (a->attention == SPP_ATTENTION_MLA)) return false;
  return !asked || (is_said(r, "kv_lora_rank", a->kv_lora_rank) && is_said(r, "q_lora_rank", a->q_lora_rank));
}
static bool has_experts(struct spp_reading *r, const struct spp_arch *a) {
  if ((spp_reading_find(r, "experts") != NULL) != (a->experts > 0) || !is_said(r, "experts", a->experts))
    return false;
  return a->experts == 0 ||
         (is_said(r, "experts_per_token", a->experts_per_token) && is_said(r, "expert_ffn", a->expert_ffn) &&
          is_said(r, "shared_ffn", spp_sat_mul(a->shared_experts, a->shared_expert_ffn)));
}

static bool has_sizes(struct spp_reading *r, const struct spp_arch *a) {
  if (!has_mlp(r, a) || !has_kind(r, a) || !has_experts(r, a)) return false;
  bool grouped = spp_reading_find(r, "kv_heads") != NULL;
  return is_said(r, "layers", a->layers) && is_said(r, "hidden", a->hidden) &&
         is_said(r, "heads", a->heads) && (a->experts > 0 || is_said(r, "ffn", a->ffn)) &&
         (grouped ? is_said(r, "kv_heads", a->kv_heads) : a->kv_heads == a->heads);
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

/* Rows of the vocabulary of a tokenizer that the command names; 0: not known. megatron-core 0.19.2
 * megatron/training/config: GPT2BPETokenizer reads the files of GPT-2; Llama2Tokenizer those of Llama 2. */
static int64_t tokenizer_vocab(struct spp_reading *r) {
  const char *type = spp_reading_flag(r, "tokenizer_type"), *model = spp_reading_flag(r, "tokenizer_model");
  const struct spp_arch *arch = NULL;
  if (model && (spp_arch_load(r->options->config_dir, model, r->arena, &arch, NULL) == SPP_OK ||
                spp_arch_load(r->options->config_dir, spp_base_name(model), r->arena, &arch, NULL) == SPP_OK))
    return arch->vocab;
  if (type && strcmp(type, "GPT2BPETokenizer") == 0) return 50257;
  return type && strcmp(type, "Llama2Tokenizer") == 0 ? 32000 : 0;
}

/* Trained by DeepSpeed's engine it is another framework here, whose attention is no Transformer Engine's. */
static void settle_deepspeed(struct spp_reading *r) {
  const struct spp_entry *said = spp_entries_find(&r->entries, SPP_ENTRY_FLAG, "deepspeed_config");
  const struct spp_binding *attention = spp_reading_find(r, "attention");
  if (!said && !spp_entries_find(&r->entries, SPP_ENTRY_FLAG, "ds_sequence_parallel_size")) return;
  spp_reading_bind(r, "framework", "megatron-deepspeed", said);
  if (attention && strcmp(attention->value, "te") == 0) spp_reading_unbind(r, "attention");
}

/* The command gives sizes, not a name: the known model that has them, the tokenizer's first. */
static void settle(struct spp_reading *r) {
  const struct spp_binding *hf = spp_reading_find(r, "hf_id"), *layers = spp_reading_find(r, "layers");
  const struct spp_arch *arch = NULL;
  settle_deepspeed(r);
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
  if (vocab == 0) vocab = tokenizer_vocab(r);
  r->out->arch = spp_reading_sized_model(r, vocab);
  if (r->out->arch) {
    spp_reading_bind(r, "hf_id", r->out->arch->name, layers->entry);
    spp_reading_say(r, SPP_IMPORT_NOTE, layers->entry, NULL,
                    "no known model has these sizes: one of them is predicted, %" PRId64
                    " rows of vocabulary "
                    "and the blocks of %s",
                    r->out->arch->vocab, r->out->arch->model_type);
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
    .source = "megatron-core 0.19.2: megatron/training/arguments.py, argument_utils.py, "
              "megatron/core/transformer/transformer_config.py",
    .signs = "pretrain_*.py|train_gpt*.py",
    .aliases = "recompute_activations_num_layers=recompute_num_layers fp8_hybrid=fp8_format "
               "fp8_param=fp8_param_gather use_custom_fsdp=use_megatron_fsdp",
    .defaults = "--use-distributed-optimizer false --sequence-parallel false --recompute-granularity none "
                "--attention-backend auto "
                "--bf16 false --micro-batch-size 1",
    .files = "deepspeed_config",
    .rows = {&spp_rows_launchers, &spp_rows_deepspeed, &spp_rows_megatron, &spp_rows_megatron_deepspeed},
    .notes = notes,
    .known = {spp_known_megatron, spp_known_deepspeed, known_megatron_deepspeed},
    .settle = settle,
    .syntax = SPP_SYNTAX_COMMAND,
};
