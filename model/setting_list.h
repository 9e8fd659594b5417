/* What can be said about a job and its layout: one row a setting. The command line's options, the files that
 * --from reads, --keep, the interface's commands and the corpus's reading rules are all made from these rows
 * (model/setting.c, cli/option_table.c); to add a setting, add a row.
 *
 * X(group, name, letter, kind, arg, holder, field, scope, key, help): the heading it stands under, its name
 * and one-letter name on the command line, how its text is read (macros of model/setting.h), what help calls
 * its value, the struct and member it is stored in, the commands that take it (macros of
 * cli/option_table.c), its key in JSON (NULL: the row before has it), and a line of help. */
#ifndef SPP_MODEL_SETTING_LIST_H
#define SPP_MODEL_SETTING_LIST_H

#define SPP_SETTINGS_JOB(X)                                                                                  \
  X(JOB, "seq", 's', SPP_TOKENS(INT64_C(1) << 30), "TOKENS", spec, seq_tokens, RUNNABLE, "seq_tokens",       \
    "sequence length: 32768, 32k (= 32,768), 1m (= 1,048,576)"),                                             \
      X(JOB, "gpus", 'n', SPP_COUNT(1, 1 << 20), "N", spec, gpus, MODELLED, "gpus", "how many GPUs in all"), \
      X(JOB, "global-batch", 0, SPP_COUNT(1, INT64_C(1) << 30), "N", spec, global_batch, RUNNABLE,           \
        "global_batch", "sequences per optimizer step (default: one a GPU)")

#define SPP_SETTINGS_HARDWARE(X)                                                                             \
  X(HARDWARE, "max-memory", 0, SPP_BYTES, "BYTES", spec, max_memory_bytes, LAID_OUT, "max_memory_bytes",     \
    "stay below this on each GPU: 70GiB, 75GB")

#define SPP_SETTINGS_METHOD(X)                                                                               \
  X(METHOD, "mode", 0, SPP_CHOICE(spp_mode_word), "MODE", spec, mode, MODELLED, "mode", "what runs"),        \
      X(METHOD, "method", 0, SPP_CHOICE(spp_method_word), "METHOD", spec, method, MODELLED, "method",        \
        "which weights are trained (default: full)"),                                                        \
      X(METHOD, "lora-rank", 0, SPP_COUNT(1, 65536), "R", spec, lora_rank, MODELLED, "lora_rank",            \
        "rank of the adapters"),                                                                             \
      X(METHOD, "lora-dropout", 0, SPP_REAL(0, 0.999), "P", spec, lora_dropout, MODELLED, "lora_dropout",    \
        "dropout before the adapters; above 0 it keeps a copy of each input"),                               \
      X(METHOD, "lora-targets", 0, SPP_MASK(spp_lora_target_word), "LIST", spec, lora_targets, MODELLED,     \
        "lora_targets", "layers with adapters, joined by commas"),                                           \
      X(METHOD, "train-embeddings", 0, SPP_FLAG(1), NULL, spec, train_embeddings, MODELLED,                  \
        "train_embeddings", "beside the adapters, embedding and head are trained whole"),                    \
      X(METHOD, "quant", 0, SPP_CHOICE(spp_quant_word), "FORMAT", spec, quant, MODELLED, "quant",            \
        "how qlora, or --mode infer, stores the weights of linear layers"),                                  \
      X(METHOD, "galore-rank", 0, SPP_COUNT(1, 65536), "R", spec, galore_rank, MODELLED, "galore_rank",      \
        "rank of the projected gradients"),                                                                  \
      X(METHOD, "optimizer", 0, SPP_CHOICE(spp_optimizer_word), "NAME", spec, optimizer, MODELLED,           \
        "optimizer", "optimizer (default: adamw)"),                                                          \
      X(METHOD, "dtype", 0, SPP_CHOICE(spp_dtype_word), "TYPE", spec, dtype, NUMBERED, "dtype",              \
        "number format of the matrix products (default: bf16; validate: fp32)"),                             \
      X(METHOD, "kv-dtype", 0, SPP_CHOICE(spp_kv_dtype_word), "TYPE", spec, kv_dtype, MODELLED, "kv_dtype",  \
        "number format of the KV cache (mode infer, grpo)"),                                                 \
      X(METHOD, "prompt", 0, SPP_TOKENS(INT64_C(1) << 30), "TOKENS", spec, prompt_tokens, MODELLED,          \
        "prompt_tokens", "of --seq, tokens given at once; the rest is generated one by one (mode infer)"),   \
      X(METHOD, "reference", 0, SPP_FLAG(1), NULL, spec, reference, MODELLED, "reference",                   \
        "a frozen model of its own to compare with (mode dpo, grpo, ppo; default: unless adapters switch "   \
        "off)"),                                                                                             \
      X(METHOD, "no-reference", 0, SPP_FLAG(0), NULL, spec, reference, MODELLED, NULL,                       \
        "nothing to compare with"),                                                                          \
      X(METHOD, "completions", 0, SPP_COUNT(1, 65536), "N", spec, grpo_completions, MODELLED,                \
        "grpo_completions", "completions per prompt (mode grpo)")

#define SPP_SETTINGS_PACKING(X)                                                                              \
  X(DATA, "packing", 0, SPP_FLAG(1), NULL, spec, packing, MODELLED, "packing",                               \
    "documents are packed into full sequences"),                                                             \
      X(DATA, "no-packing", 0, SPP_FLAG(0), NULL, spec, packing, MODELLED, NULL, "one document a sequence")

#define SPP_SETTINGS_VISION(X)                                                                               \
  X(DATA, "train-vision", 0, SPP_FLAG(1), NULL, spec, vision_trainable, LAID_OUT, "vision_trainable",        \
    "the vision tower is trained"),                                                                          \
      X(DATA, "freeze-vision", 0, SPP_FLAG(0), NULL, spec, vision_trainable, LAID_OUT, NULL,                 \
        "the vision tower is frozen")

#define SPP_SETTINGS_LAYOUT(X)                                                                               \
  X(LAYOUT, "tp", 0, SPP_COUNT(1, 65536), "N", request, tp, RUNNABLE, "tp", "tensor parallel degree"),       \
      X(LAYOUT, "pp", 0, SPP_COUNT(1, 65536), "N", request, pp, RUNNABLE, "pp", "pipeline parallel degree"), \
      X(LAYOUT, "vpp", 0, SPP_COUNT(1, 65536), "N", request, vpp, RUNNABLE, "vpp",                           \
        "model chunks a pipeline stage holds (interleaved)"),                                                \
      X(LAYOUT, "dp", 0, SPP_COUNT(1, 65536), "N", request, dp, RUNNABLE, "dp",                              \
        "data parallel degree (default: what is left)"),                                                     \
      X(LAYOUT, "ep", 0, SPP_COUNT(1, 65536), "N", request, ep, RUNNABLE, "ep", "expert parallel degree"),   \
      X(LAYOUT, "etp", 0, SPP_COUNT(1, 65536), "N", request, etp, RUNNABLE, "etp",                           \
        "tensor parallel degree inside experts"),                                                            \
      X(LAYOUT, "sp", 0, SPP_COUNT(1, 65536), "N", request, sp, RUNNABLE, "sp",                              \
        "sequence parallel degree, split as the framework does"),                                            \
      X(LAYOUT, "sp-kind", 0, SPP_CHOICE(spp_sp_kind_word), "KIND", request, sp_kind,                        \
        MODELLED | SPP_CMD_VALIDATE, "sp_kind", "how a sequence is split"),                                  \
      X(LAYOUT, "ulysses", 0, SPP_COUNT(1, 65536), "N", request, ulysses, RUNNABLE, "ulysses",               \
        "Ulysses (all-to-all) degree"),                                                                      \
      X(LAYOUT, "ring", 0, SPP_COUNT(1, 65536), "N", request, ring, RUNNABLE, "ring", "ring degree"),        \
      X(LAYOUT, "megatron-sp", 0, SPP_FLAG(1), NULL, request, megatron_sp, RUNNABLE, "megatron_sp",          \
        "split the residual stream over TP (Megatron sequence parallelism)"),                                \
      X(LAYOUT, "no-megatron-sp", 0, SPP_FLAG(0), NULL, request, megatron_sp, RUNNABLE, NULL,                \
        "keep the whole residual stream on each TP rank"),                                                   \
      X(LAYOUT, "zero", 0, SPP_INT(0, 3), "0..3", request, zero, RUNNABLE, "zero",                           \
        "what data parallel ranks share: 1 optimizer, 2 + gradients, 3 + weights"),                          \
      X(LAYOUT, "dp-replicate", 0, SPP_COUNT(1, 65536), "N", request, dp_replicate, RUNNABLE,                \
        "dp_replicate", "copies of the shared states (HSDP)"),                                               \
      X(LAYOUT, "recompute", 0, SPP_CHOICE(spp_recompute_word), "KIND", request, recompute, RUNNABLE,        \
        "recompute", "what the backward pass computes again"),                                               \
      X(LAYOUT, "recompute-modules", 0, SPP_WORDS(spp_recompute_module_word), "LIST", request,               \
        recompute_modules, RUNNABLE, "recompute_modules",                                                    \
        "modules of selective recompute, joined by commas"),                                                 \
      X(LAYOUT, "recompute-layers", 0, SPP_COUNT(1, SPP_MAX_LAYERS), "N", request, recompute_layers,         \
        RUNNABLE, "recompute_layers", "layers of a stage that full recompute covers (default: all)"),        \
      X(LAYOUT, "recompute-unit", 0, SPP_COUNT(1, SPP_MAX_LAYERS), "N", request, recompute_unit, LAID_OUT,   \
        "recompute_unit", "layers that full recompute keeps one input for (default: 1)"),                    \
      X(LAYOUT, "offload", 0, SPP_CHOICE(spp_offload_word), "WHAT", request, offload, RUNNABLE, "offload",   \
        "what moves to host memory"),                                                                        \
      X(LAYOUT, "fpdt-chunk", 0, SPP_TOKENS(INT64_C(1) << 30), "TOKENS", request, fpdt_chunk, LAID_OUT,      \
        "fpdt_chunk_tokens", "FPDT: tokens of a sequence that pass a layer at a time (default: all)"),       \
      X(LAYOUT, "fpdt-offload", 0, SPP_FLAG(1), NULL, request, fpdt_offload, LAID_OUT, "fpdt_offload",       \
        "FPDT: chunks wait in host memory (default)"),                                                       \
      X(LAYOUT, "no-fpdt-offload", 0, SPP_FLAG(0), NULL, request, fpdt_offload, LAID_OUT, NULL,              \
        "FPDT: chunks wait on the GPU"),                                                                     \
      X(LAYOUT, "offload-layers", 0, SPP_COUNT(1, SPP_MAX_LAYERS), "N", request, offload_layers, LAID_OUT,   \
        "offload_layers", "layers of a stage whose activations move (default: all but one)"),                \
      X(LAYOUT, "schedule", 0, SPP_CHOICE(spp_schedule_word), "NAME", request, schedule, RUNNABLE,           \
        "schedule", "pipeline schedule"),                                                                    \
      X(LAYOUT, "first-stage-layers", 0, SPP_COUNT(1, SPP_MAX_LAYERS), "N", request, first_stage_layers,     \
        RUNNABLE, "first_stage_layers", "layers of the first pipeline stage (default: as the others)"),      \
      X(LAYOUT, "last-stage-layers", 0, SPP_COUNT(1, SPP_MAX_LAYERS), "N", request, last_stage_layers,       \
        RUNNABLE, "last_stage_layers", "layers of the last pipeline stage (default: as the others)"),        \
      X(LAYOUT, "micro-batch", 0, SPP_COUNT(1, 65536), "N", request, micro_batch, RUNNABLE, "micro_batch",   \
        "sequences a replica works on at once")

#define SPP_SETTINGS_CHOICES(X)                                                                              \
  X(FRAMEWORK, "attention", 0, SPP_CHOICE(spp_attention_word), "KERNEL", spec, attention, MODELLED,          \
    "attention", "attention kernels (default: the best the GPU and framework have)"),                        \
      X(FRAMEWORK, "kernels", 0, SPP_CHOICE(spp_kernels_word), "KIND", spec, kernels, MODELLED, "kernels",   \
        "norm and SwiGLU kernels"),                                                                          \
      X(FRAMEWORK, "ring-impl", 0, SPP_CHOICE(spp_ring_impl_word), "NAME", spec, ring_impl, MODELLED,        \
        "ring_impl", "which ring attention code"),                                                           \
      X(FRAMEWORK, "ring-order", 0, SPP_CHOICE(spp_ring_order_word), "ORDER", spec, ring_order, NUMBERED,    \
        "ring_order", "which tokens a rank of a ring or all-gather holds"),                                  \
      X(FRAMEWORK, "moe-capacity", 0, SPP_REAL(0.01, 1024), "F", spec, expert_capacity, NUMBERED,            \
        "expert_capacity", "experts have room for F times their even share of tokens (default: balanced)"),  \
      X(FRAMEWORK, "loss", 0, SPP_CHOICE(spp_loss_word), "HOW", spec, loss, MODELLED, "loss",                \
        "how the loss treats the logits"),                                                                   \
      X(FRAMEWORK, "loss-chunk", 0, SPP_TOKENS(INT64_C(1) << 30), "TOKENS", spec, loss_chunk_tokens,         \
        MODELLED, "loss_chunk_tokens", "tokens of one chunk (ms-swift CELOSS_PARALLEL_SIZE)"),               \
      X(FRAMEWORK, "grads-dtype", 0, SPP_CHOICE(spp_grads_dtype_word), "TYPE", spec, grads_bytes, MODELLED,  \
        "grads_dtype", "number format of the gradients"),                                                    \
      X(FRAMEWORK, "fp8-params", 0, SPP_FLAG(1), NULL, spec, fp8_params, MODELLED, "fp8_params",             \
        "with --dtype fp8, weights of matrix products are kept in 8 bit only, beside fp32 masters"),         \
      X(FRAMEWORK, "no-fp8-params", 0, SPP_FLAG(0), NULL, spec, fp8_params, MODELLED, NULL,                  \
        "16-bit weights stay beside the 8-bit ones"),                                                        \
      X(FRAMEWORK, "overlap", 0, SPP_FLAG(1), NULL, spec, overlap, MODELLED, "overlap",                      \
        "communication overlaps computation where the framework can"),                                       \
      X(FRAMEWORK, "no-overlap", 0, SPP_FLAG(0), NULL, spec, overlap, MODELLED, NULL, "nothing overlaps"),   \
      X(FRAMEWORK, "allocator", 0, SPP_CHOICE(spp_allocator_word), "KIND", spec, allocator, MODELLED,        \
        "allocator", "segments of torch's allocator (PYTORCH_CUDA_ALLOC_CONF expandable_segments)"),         \
      X(FRAMEWORK, "cuda-graphs", 0, SPP_MASK(spp_graph_word), "LIST", spec, graphs, MODELLED,               \
        "cuda_graphs", "modules captured in CUDA graphs: what they keep stays, their time is not changed"),  \
      X(FRAMEWORK, "bucket-elements", 0, SPP_COUNT(1, INT64_C(1) << 40), "N", spec, bucket_elements,         \
        MODELLED, "bucket_elements", "elements of a gradient bucket")

#define SPP_SETTINGS(X)                                                                                      \
  SPP_SETTINGS_JOB(X), SPP_SETTINGS_HARDWARE(X), SPP_SETTINGS_METHOD(X), SPP_SETTINGS_PACKING(X),            \
      SPP_SETTINGS_VISION(X), SPP_SETTINGS_LAYOUT(X), SPP_SETTINGS_CHOICES(X)

#endif
