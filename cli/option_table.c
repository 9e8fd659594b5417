/* The option table. Words of an enum come from the function that names it, so a new enum value needs nothing
 * here. */
#include <string.h>

#include "cli/options.h"
#include "exec/suite.h"
#include "exec/validate.h"
#include "planner/search.h"

#define WORDS_OF(function, type, name_of, count)                                                             \
  static const char *function(int i, int *value) {                                                           \
    *value = i;                                                                                              \
    return i < (int)(count) ? name_of((enum type)i) : NULL;                                                  \
  }
WORDS_OF(method_word, spp_method, spp_method_name, SPP_METHOD_COUNT)
WORDS_OF(optimizer_word, spp_optimizer, spp_optimizer_name, SPP_OPTIMIZER_COUNT)
WORDS_OF(mode_word, spp_mode, spp_mode_name, SPP_MODE_COUNT)
WORDS_OF(objective_word, spp_objective, spp_objective_name, SPP_OBJECTIVE_COUNT)
WORDS_OF(attention_word, spp_attention_impl, spp_attention_impl_name, SPP_ATTN_IMPL_COUNT)
WORDS_OF(sp_kind_word, spp_sp_kind, spp_sp_kind_name, SPP_SP_KIND_COUNT)
WORDS_OF(ring_impl_word, spp_ring_impl, spp_ring_impl_name, SPP_RING_IMPL_COUNT)
WORDS_OF(recompute_word, spp_recompute, spp_recompute_name, SPP_RECOMPUTE_COUNT)
WORDS_OF(offload_word, spp_offload, spp_offload_name, SPP_OFFLOAD_COUNT)
WORDS_OF(schedule_word, spp_schedule, spp_schedule_name, SPP_SCHEDULE_COUNT)
WORDS_OF(kernels_word, spp_kernel_style, spp_kernels_name, SPP_KERNELS_FUSED + 1)
WORDS_OF(quant_word, spp_quant, spp_quant_name, SPP_QUANT_COUNT)

/* --loss takes what the user wants done with the logits, or the exact path a framework implements. A word
 * that is both means the first. */
static bool is_loss_choice(const char *word) {
  for (int i = 0; i < SPP_LOSS_CHOICE_COUNT; i++)
    if (strcmp(word, spp_loss_choice_name((enum spp_loss_choice)i)) == 0) return true;
  return false;
}
static const char *loss_word(int i, int *value) {
  *value = i;
  if (i < SPP_LOSS_CHOICE_COUNT) return spp_loss_choice_name((enum spp_loss_choice)i);
  i -= SPP_LOSS_CHOICE_COUNT;
  for (int path = 0; path < SPP_LOSS_PATH_COUNT; path++) {
    const char *word = spp_loss_path_name((enum spp_loss_path)path);
    if (is_loss_choice(word) || i-- > 0) continue;
    *value = SPP_LOSS_CHOICE_COUNT + path;
    return word;
  }
  return NULL;
}

static const char *recompute_module_word(int i, int *value) {
  const char *name = i < 7 ? spp_recompute_module_name(i) : NULL;
  *value = 1 << i;
  return name;
}

struct word {
  const char *name;
  int value;
};
#define WORDS_IN(function, table)                                                                            \
  static const char *function(int i, int *value) {                                                           \
    if (i >= (int)(sizeof(table) / sizeof((table)[0]))) return NULL;                                         \
    *value = (table)[i].value;                                                                               \
    return (table)[i].name;                                                                                  \
  }
static const struct word dtypes[] = {
    {"bf16", SPP_DTYPE_BF16}, {"fp16", SPP_DTYPE_FP16}, {"fp32", SPP_DTYPE_FP32}, {"fp8", SPP_DTYPE_FP8}};
WORDS_IN(dtype_word, dtypes)
static const struct word kv_dtypes[] = {
    {"bf16", SPP_DTYPE_BF16}, {"fp16", SPP_DTYPE_FP16}, {"fp8", SPP_DTYPE_FP8}, {"int8", SPP_DTYPE_INT8}};
WORDS_IN(kv_dtype_word, kv_dtypes)
static const struct word grads_dtypes[] = {{"bf16", 2}, {"fp16", 2}, {"fp32", 4}};
WORDS_IN(grads_dtype_word, grads_dtypes)
/* "all" has its own bit: the mask of every target does not fit an int. cli/setup.c turns it into
 * SPP_LORA_ALL_LINEAR. */
static const struct word lora_targets[] = {
    {"all", 1 << 30},    {"q", SPP_LORA_Q},       {"k", SPP_LORA_K},
    {"v", SPP_LORA_V},   {"o", SPP_LORA_O},       {"gate", SPP_LORA_GATE},
    {"up", SPP_LORA_UP}, {"down", SPP_LORA_DOWN}, {"all-linear", 1 << 30}};
WORDS_IN(lora_target_word, lora_targets)
static const struct word finds[] = {
    {"max-seq", SPP_FIND_MAX_SEQ}, {"min-gpus", SPP_FIND_MIN_GPUS}, {"max-batch", SPP_FIND_MAX_BATCH}};
WORDS_IN(find_word, finds)
static const struct word searches[] = {{"pruned", 0}, {"exhaustive", 1}};
WORDS_IN(search_word, searches)
static const struct word parts[] = {{"all", SPP_EXPLAIN_ALL},
                                    {"memory", SPP_EXPLAIN_MEMORY},
                                    {"comm", SPP_EXPLAIN_COMM},
                                    {"time", SPP_EXPLAIN_TIME},
                                    {"layer", SPP_EXPLAIN_LAYER}};
WORDS_IN(explain_word, parts)
static const struct word colors[] = {
    {"auto", SPP_COLOR_AUTO}, {"always", SPP_COLOR_ALWAYS}, {"never", SPP_COLOR_NEVER}};
WORDS_IN(color_word, colors)

static const char *backend_word(int i, int *value) {
  int count;
  const struct spp_backend *const *all = spp_backends_all(&count);
  *value = i;
  return i < count ? all[i]->name : NULL;
}
static const char *suite_word(int i, int *value) {
  *value = i;
  return spp_suite_name((enum spp_suite)i);
}

/* Which commands take which block of options. */
#define SEARCHING (SPP_CMD_PLAN | SPP_CMD_COMPARE | SPP_CMD_SWEEP | SPP_CMD_TUI | SPP_CMD_REPORT)
#define LAID_OUT  (SEARCHING | SPP_CMD_PREDICT | SPP_CMD_ALLOC)
#define RUNNABLE  (LAID_OUT | SPP_CMD_VALIDATE) /* what the engine can be told, too */
#define MODELLED  (LAID_OUT | SPP_CMD_DEGREES)
#define PAGES     (SPP_CMD_TUI | SPP_CMD_REPORT) /* no text, JSON or CSV */
#define ANSWERING ((MODELLED & ~PAGES) | SPP_CMD_LIST | SPP_CMD_ACCURACY | SPP_CMD_VALIDATE)

#define AT(field) .offset = offsetof(struct spp_args, field)
/* Bounds keep every product of the model far inside int64 and every loop short. */
#define DEGREE                                                                                               \
  .kind = SPP_KIND_COUNT, .min = 1, .max = 65536, .layout = true, .commands = RUNNABLE,                      \
  .group = SPP_GROUP_OPT_LAYOUT
#define LAYOUT        .layout = true, .commands = RUNNABLE, .group = SPP_GROUP_OPT_LAYOUT
#define JOB           .commands = MODELLED, .group = SPP_GROUP_OPT_JOB
#define HARDWARE      .commands = MODELLED, .group = SPP_GROUP_OPT_HARDWARE
#define METHOD        .commands = MODELLED, .group = SPP_GROUP_OPT_METHOD
#define DATA          .commands = LAID_OUT, .group = SPP_GROUP_OPT_DATA
#define CHOICES       .commands = MODELLED, .group = SPP_GROUP_OPT_FRAMEWORK
#define QUESTION      .no_default = true, .group = SPP_GROUP_OPT_QUESTION
#define OUTPUT        .group = SPP_GROUP_OPT_OUTPUT
#define FLAG          .kind = SPP_KIND_FLAG, .value = 1
#define UNFLAG        .kind = SPP_KIND_FLAG, .value = 0
#define CHOICE(w)     .kind = SPP_KIND_CHOICE, .word = w
#define COUNT(lo, hi) .kind = SPP_KIND_COUNT, .min = (lo), .max = (hi)
#define TOKENS(hi)    .kind = SPP_KIND_TOKENS, .min = 1, .max = (hi)
#define REAL(lo, hi)  .kind = SPP_KIND_REAL, .real_min = (lo), .real_max = (hi)

const struct spp_option spp_options[] = {
    {"model", 'm', .kind = SPP_KIND_TEXT, .arg = "NAME", AT(model), .commands = MODELLED | SPP_CMD_VALIDATE,
     .group = SPP_GROUP_OPT_JOB, .source = SPP_VALUES_MODEL, .key = "model",
     .help = "a known model, a Hugging Face config.json, or a folder that holds one"},
    {"seq", 's', TOKENS(INT64_C(1) << 30), .arg = "TOKENS", AT(spec.seq_tokens), .commands = RUNNABLE,
     .group = SPP_GROUP_OPT_JOB, .key = "seq_tokens",
     .help = "sequence length: 32768, 32k (= 32,768), 1m (= 1,048,576)"},
    {"gpus", 'n', COUNT(1, 1 << 20), .arg = "N", AT(spec.gpus), JOB, .key = "gpus",
     .help = "how many GPUs in all"},
    {"global-batch", 0, COUNT(1, INT64_C(1) << 30), .arg = "N", AT(spec.global_batch), .commands = RUNNABLE,
     .group = SPP_GROUP_OPT_JOB, .key = "global_batch",
     .help = "sequences per optimizer step (default: one a GPU)"},

    {"gpu", 0, .kind = SPP_KIND_TEXT, .arg = "NAME", AT(gpu), HARDWARE, .source = SPP_VALUES_GPU,
     .key = "gpu",
     .help = "GPU type (default: the one in this machine, else h100-80gb); plan: several, joined by commas"},
    {"gpus-per-node", 0, COUNT(1, 1024), .arg = "N", AT(gpus_per_node), HARDWARE, .key = "gpus_per_node",
     .help = "GPUs that share a node (default: the cluster's)"},
    {"cluster", 0, .kind = SPP_KIND_TEXT, .arg = "NAME", AT(cluster), HARDWARE, .source = SPP_VALUES_CLUSTER,
     .key = "cluster",
     .help = "node and network: a known name or a JSON file (default: the GPU's usual node)"},
    {"max-memory", 0, .kind = SPP_KIND_BYTES, .arg = "BYTES", AT(spec.max_memory_bytes), .commands = LAID_OUT,
     .group = SPP_GROUP_OPT_HARDWARE, .key = "max_memory_bytes",
     .help = "stay below this on each GPU: 70GiB, 75GB"},
    {"price-per-gpu-hour", 0, .kind = SPP_KIND_REALS, .real_max = 1e6, .arg = "USD", AT(prices),
     .commands = LAID_OUT, .group = SPP_GROUP_OPT_HARDWARE, .key = "usd_per_gpu_hour",
     .help =
         "what one GPU costs an hour (default: a list price); one for each type of --gpu, or one for all"},
    {"framework", 'f', .kind = SPP_KIND_TEXT, .arg = "NAME", AT(framework), JOB,
     .source = SPP_VALUES_FRAMEWORK, .key = "framework",
     .help = "training framework, or any (default: any for plan and compare, else ms-swift)"},

    {"mode", 0, CHOICE(mode_word), .arg = "MODE", AT(spec.mode), METHOD, .key = "mode", .help = "what runs"},
    {"method", 0, CHOICE(method_word), .arg = "METHOD", AT(spec.method), METHOD, .key = "method",
     .help = "which weights are trained (default: full)"},
    {"lora-rank", 0, COUNT(1, 65536), .arg = "R", AT(spec.lora_rank), METHOD, .key = "lora_rank",
     .help = "rank of the adapters"},
    {"lora-dropout", 0, REAL(0, 0.999), .arg = "P", AT(spec.lora_dropout), METHOD, .key = "lora_dropout",
     .help = "dropout before the adapters; above 0 it keeps a copy of each input"},
    {"lora-targets", 0, .kind = SPP_KIND_WORDS, .word = lora_target_word, .arg = "LIST", AT(lora_targets),
     METHOD, .key = "lora_targets", .help = "layers with adapters, joined by commas"},
    {"quant", 0, CHOICE(quant_word), .arg = "FORMAT", AT(spec.quant), METHOD, .key = "quant",
     .help = "how qlora stores the frozen weights"},
    {"galore-rank", 0, COUNT(1, 65536), .arg = "R", AT(spec.galore_rank), METHOD, .key = "galore_rank",
     .help = "rank of the projected gradients"},
    {"optimizer", 0, CHOICE(optimizer_word), .arg = "NAME", AT(spec.optimizer), METHOD, .key = "optimizer",
     .help = "optimizer (default: adamw)"},
    {"dtype", 0, CHOICE(dtype_word), .arg = "TYPE", AT(spec.dtype), METHOD, .key = "dtype",
     .help = "number format of the matrix products (default: bf16)"},
    {"kv-dtype", 0, CHOICE(kv_dtype_word), .arg = "TYPE", AT(spec.kv_dtype), METHOD, .key = "kv_dtype",
     .help = "number format of the KV cache (mode infer, grpo)"},
    {"completions", 0, COUNT(1, 65536), .arg = "N", AT(spec.grpo_completions), METHOD,
     .key = "grpo_completions", .help = "completions per prompt (mode grpo)"},

    {"packing", 0, FLAG, AT(spec.packing), .commands = MODELLED, .group = SPP_GROUP_OPT_DATA,
     .key = "packing", .help = "documents are packed into full sequences"},
    {"no-packing", 0, UNFLAG, AT(spec.packing), .commands = MODELLED, .group = SPP_GROUP_OPT_DATA,
     .help = "one document a sequence"},
    {"doc-lengths", 0, .kind = SPP_KIND_TEXT, .arg = "FILE", AT(doc_lengths), DATA, .source = SPP_VALUES_FILE,
     .key = "doc_lengths", .help = "token counts of the packed documents, one a line (- = standard input)"},
    {"image", 0, .kind = SPP_KIND_IMAGE, .arg = "WxH[xN]", AT(image), DATA, .key = "image",
     .help = "N images of this size in each sequence (vision models)"},
    {"train-vision", 0, FLAG, AT(spec.vision_trainable), DATA, .key = "vision_trainable",
     .help = "the vision tower is trained"},
    {"freeze-vision", 0, UNFLAG, AT(spec.vision_trainable), DATA, .help = "the vision tower is frozen"},
    {"dataset-tokens", 0, TOKENS(INT64_C(1) << 50), .arg = "TOKENS", AT(dataset_tokens),
     .commands = SPP_CMD_PLAN | SPP_CMD_PREDICT, .group = SPP_GROUP_OPT_DATA, .key = "dataset_tokens",
     .help = "tokens of the data set: the time of one epoch is printed"},
    {"dataset-samples", 0, COUNT(1, INT64_C(1) << 50), .arg = "N", AT(dataset_samples),
     .commands = SPP_CMD_PLAN | SPP_CMD_PREDICT, .group = SPP_GROUP_OPT_DATA, .key = "dataset_samples",
     .help = "the same, in sequences"},

    {"tp", 0, DEGREE, .arg = "N", AT(request.tp), .key = "tp", .help = "tensor parallel degree"},
    {"pp", 0, DEGREE, .arg = "N", AT(request.pp), .key = "pp", .help = "pipeline parallel degree"},
    {"vpp", 0, DEGREE, .arg = "N", AT(request.vpp), .key = "vpp",
     .help = "model chunks a pipeline stage holds (interleaved)"},
    {"dp", 0, DEGREE, .arg = "N", AT(request.dp), .key = "dp",
     .help = "data parallel degree (default: what is left)"},
    {"ep", 0, DEGREE, .arg = "N", AT(request.ep), .key = "ep", .help = "expert parallel degree"},
    {"etp", 0, DEGREE, .arg = "N", AT(request.etp), .key = "etp",
     .help = "tensor parallel degree inside experts"},
    {"sp", 0, DEGREE, .arg = "N", AT(request.sp), .key = "sp",
     .help = "sequence parallel degree, split as the framework does"},
    {"sp-kind", 0, CHOICE(sp_kind_word), .arg = "KIND", AT(request.sp_kind), .layout = true,
     .commands = MODELLED | SPP_CMD_VALIDATE, .group = SPP_GROUP_OPT_LAYOUT, .key = "sp_kind",
     .help = "how a sequence is split"},
    {"ulysses", 0, DEGREE, .arg = "N", AT(request.ulysses), .key = "ulysses",
     .help = "Ulysses (all-to-all) degree"},
    {"ring", 0, DEGREE, .arg = "N", AT(request.ring), .key = "ring", .help = "ring degree"},
    {"megatron-sp", 0, FLAG, AT(request.megatron_sp), LAYOUT, .key = "megatron_sp",
     .help = "split the residual stream over TP (Megatron sequence parallelism)"},
    {"no-megatron-sp", 0, UNFLAG, AT(request.megatron_sp), LAYOUT,
     .help = "keep the whole residual stream on each TP rank"},
    {"zero", 0, COUNT(0, 3), .arg = "0..3", AT(request.zero), LAYOUT, .key = "zero",
     .help = "what data parallel ranks share: 1 optimizer, 2 + gradients, 3 + weights"},
    {"dp-replicate", 0, DEGREE, .arg = "N", AT(request.dp_replicate), .key = "dp_replicate",
     .help = "copies of the shared states (HSDP)"},
    {"recompute", 0, CHOICE(recompute_word), .arg = "KIND", AT(request.recompute), LAYOUT, .key = "recompute",
     .help = "what the backward pass computes again"},
    {"recompute-modules", 0, .kind = SPP_KIND_WORDS, .word = recompute_module_word, .arg = "LIST",
     AT(request.recompute_modules), LAYOUT, .key = "recompute_modules",
     .help = "modules of selective recompute, joined by commas"},
    {"recompute-layers", 0, COUNT(1, SPP_MAX_LAYERS), .arg = "N", AT(request.recompute_layers), LAYOUT,
     .key = "recompute_layers", .help = "layers of a stage that full recompute covers (default: all)"},
    {"offload", 0, CHOICE(offload_word), .arg = "WHAT", AT(request.offload), LAYOUT, .key = "offload",
     .help = "what moves to host memory"},
    {"schedule", 0, CHOICE(schedule_word), .arg = "NAME", AT(request.schedule), LAYOUT, .key = "schedule",
     .help = "pipeline schedule"},
    {"micro-batch", 0, COUNT(1, 65536), .arg = "N", AT(request.micro_batch), LAYOUT, .key = "micro_batch",
     .help = "sequences a replica works on at once"},

    {"attention", 0, CHOICE(attention_word), .arg = "KERNEL", AT(spec.attention), CHOICES, .key = "attention",
     .help = "attention kernels (default: the best the GPU and framework have)"},
    {"kernels", 0, CHOICE(kernels_word), .arg = "KIND", AT(spec.kernels), CHOICES, .key = "kernels",
     .help = "norm and SwiGLU kernels"},
    {"ring-impl", 0, CHOICE(ring_impl_word), .arg = "NAME", AT(spec.ring_impl), CHOICES, .key = "ring_impl",
     .help = "which ring attention code"},
    {"loss", 0, CHOICE(loss_word), .arg = "HOW", AT(loss), CHOICES, .key = "loss",
     .help = "how the loss treats the logits"},
    {"loss-chunk", 0, TOKENS(INT64_C(1) << 30), .arg = "TOKENS", AT(spec.loss_chunk_tokens), CHOICES,
     .key = "loss_chunk_tokens", .help = "tokens of one chunk (ms-swift CELOSS_PARALLEL_SIZE)"},
    {"grads-dtype", 0, CHOICE(grads_dtype_word), .arg = "TYPE", AT(spec.grads_bytes), CHOICES,
     .key = "grads_dtype", .help = "number format of the gradients"},
    {"overlap", 0, FLAG, AT(spec.overlap), CHOICES, .key = "overlap",
     .help = "communication overlaps computation where the framework can"},
    {"no-overlap", 0, UNFLAG, AT(spec.overlap), CHOICES, .help = "nothing overlaps"},
    {"bucket-elements", 0, COUNT(1, INT64_C(1) << 40), .arg = "N", AT(spec.bucket_elements), CHOICES,
     .key = "bucket_elements", .help = "elements of a gradient bucket"},

    {"objective", 0, CHOICE(objective_word), .arg = "WHAT", AT(objective), .commands = SEARCHING,
     .group = SPP_GROUP_OPT_QUESTION, .key = "objective", .help = "what is best (default: throughput)"},
    {"find", 0, CHOICE(find_word), .arg = "WHAT", AT(find), QUESTION, .commands = SPP_CMD_PLAN, .key = "find",
     .help = "answer another question: the longest sequence, the fewest GPUs, the largest batch"},
    {"top", 'k', COUNT(1, 1000), .arg = "K", AT(top),
     .commands = SPP_CMD_PLAN | SPP_CMD_ALLOC | SPP_CMD_TUI | SPP_CMD_REPORT, .group = SPP_GROUP_OPT_QUESTION,
     .key = "top", .help = "how many answers (default: 3 plans, 40 in the tui, 10 tensors)"},
    {"keep", 0, .kind = SPP_KIND_LIST, .arg = "FIELD=VALUE", AT(keep), QUESTION, .commands = SEARCHING,
     .key = "keep", .help = "fix one field of the layout: --keep tp=2 is --tp 2"},
    {"vary", 0, .kind = SPP_KIND_LIST, .arg = "OPTION=RANGE", AT(vary), QUESTION, .commands = SPP_CMD_SWEEP,
     .key = "vary", .help = "seq=4k:1m:x2, tp=1,2,4, gpus=8:64:+8; twice for two variables"},
    {"search", 0, CHOICE(search_word), .arg = "HOW", AT(search), .commands = SEARCHING,
     .group = SPP_GROUP_OPT_QUESTION, .key = "search",
     .help = "exhaustive evaluates every layout: same answer, slower"},
    {"threads", 0, COUNT(1, 1024), .arg = "N", AT(threads), .commands = SEARCHING,
     .group = SPP_GROUP_OPT_QUESTION, .key = "threads", .help = "threads of the search (default: all cores)"},
    {"explain", 0, .kind = SPP_KIND_PART, .word = explain_word, .value = SPP_EXPLAIN_ALL, .arg = "PART",
     AT(explain), QUESTION, .commands = SPP_CMD_PLAN | SPP_CMD_PREDICT,
     .help = "the ledger behind the answer, tensor by tensor, op by op"},
    {"assert", 0, .kind = SPP_KIND_LIST, .arg = "EXPR", AT(asserts), QUESTION, .commands = MODELLED & ~PAGES,
     .help = "exit 5 unless true of the JSON: 'memory.peak_bytes<70GiB', 'time.step_s<=2'"},

    {"corpus", 0, .kind = SPP_KIND_LIST, .arg = "FILE", AT(corpus), QUESTION, .commands = SPP_CMD_ACCURACY,
     .source = SPP_VALUES_FILE, .key = "corpus",
     .help = "measured runs, one JSON object a line (default: those shipped)"},
    {"core", 0, FLAG, AT(core), QUESTION, .commands = SPP_CMD_ACCURACY, .key = "core",
     .help = "only the runs whose settings are all stated"},
    {"group", 0, .kind = SPP_KIND_TEXT, .arg = "NAME", AT(group), QUESTION, .commands = SPP_CMD_ACCURACY,
     .key = "group", .help = "only the runs of one source"},
    {"worst", 0, COUNT(1, 1000), .arg = "N", AT(worst), QUESTION, .commands = SPP_CMD_ACCURACY,
     .key = "worst", .help = "list the N runs predicted worst"},

    {"backend", 0, CHOICE(backend_word), .arg = "NAME", AT(backend), QUESTION, .commands = SPP_CMD_VALIDATE,
     .key = "backend", .help = "how ranks reach each other (default: self; mpi starts its own ranks)"},
    {"ranks", 'r', COUNT(1, SPP_EXEC_MAX_RANKS), .arg = "N", AT(ranks), QUESTION,
     .commands = SPP_CMD_VALIDATE, .key = "ranks",
     .help = "ranks of one case (default: the product of its degrees)"},
    {"suite", 0, CHOICE(suite_word), .arg = "NAME", AT(suite), QUESTION, .commands = SPP_CMD_VALIDATE,
     .key = "suite", .help = "which table of cases (default: quick, unless a layout is named)"},
    {"steps", 0, COUNT(1, SPP_VALIDATE_MAX_STEPS), .arg = "N", AT(steps), QUESTION,
     .commands = SPP_CMD_VALIDATE, .key = "steps", .help = "optimizer steps of each case (default: 5)"},
    {"junit", 0, .kind = SPP_KIND_TEXT, .arg = "FILE", AT(junit), QUESTION, .commands = SPP_CMD_VALIDATE,
     .source = SPP_VALUES_FILE, .help = "write the cases as JUnit XML there, too"},

    {"json", 0, FLAG, AT(json), OUTPUT, .commands = ANSWERING, .help = "one JSON object (docs/schema)"},
    {"csv", 0, FLAG, AT(csv), OUTPUT, .commands = ANSWERING, .help = "a header line and one line a row"},
    {"svg", 0, FLAG, AT(svg), OUTPUT, .no_default = true,
     .commands = SPP_CMD_ACCURACY | SPP_CMD_COMPARE | SPP_CMD_SWEEP, .help = "a picture"},
    {"output", 'o', .kind = SPP_KIND_TEXT, .arg = "FILE", AT(output), OUTPUT, .no_default = true,
     .commands = SPP_CMD_ALL, .source = SPP_VALUES_FILE,
     .help = "write the answer there, whole or not at all (- = standard output)"},
    {"trace", 0, .kind = SPP_KIND_TEXT, .arg = "FILE", AT(trace), OUTPUT, .no_default = true,
     .commands = SPP_CMD_PLAN | SPP_CMD_PREDICT, .source = SPP_VALUES_FILE,
     .help = "also write one step as a Chrome/Perfetto trace"},
    {"ascii", 0, FLAG, AT(ascii), OUTPUT, .commands = SPP_CMD_TUI,
     .help = "draw with ASCII characters only (default: as the locale has it)"},
    {"no-mouse", 0, FLAG, AT(no_mouse), OUTPUT, .commands = SPP_CMD_TUI,
     .help = "leave the mouse to the terminal"},
    {"quiet", 'q', FLAG, AT(quiet), OUTPUT, .commands = ANSWERING, .help = "the verdict only"},
    {"verbose", 'v', FLAG, AT(verbose), OUTPUT, .commands = ANSWERING,
     .help = "more: every reason, the search, sources"},
    {"color", 0, CHOICE(color_word), .arg = "WHEN", AT(color), OUTPUT, .commands = SPP_CMD_ALL,
     .help = "colours (default: auto; NO_COLOR is obeyed)"},
    {"config-dir", 0, .kind = SPP_KIND_TEXT, .arg = "DIR", AT(config_dir), OUTPUT, .commands = SPP_CMD_ALL,
     .source = SPP_VALUES_FOLDER, .help = "folder of models/, gpus/, clusters/, frameworks/, calib/"},
    {"help", 'h', FLAG, AT(help), OUTPUT, .no_default = true, .commands = SPP_CMD_ALL,
     .help = "this help; with a command: that command's"},
    {"version", 0, FLAG, AT(version), OUTPUT, .no_default = true, .commands = SPP_CMD_ALL,
     .help = "version, commit, compiler, features built"},
    {"help-man", 0, FLAG, AT(help_man), OUTPUT, .no_default = true, .commands = SPP_CMD_ALL,
     .help = "the manual page, as roff"},
    {"complete-options", 0, FLAG, AT(complete_options), OUTPUT, .no_default = true, .commands = SPP_CMD_ALL,
     .help = "the options of a command, one a line (for shell completion)"},
    {"complete-values", 0, .kind = SPP_KIND_TEXT, .arg = "OPTION", AT(complete_values), OUTPUT,
     .no_default = true, .commands = SPP_CMD_ALL,
     .help = "the values of an option, one a line (for shell completion)"},
};
const int spp_option_count = (int)(sizeof(spp_options) / sizeof(spp_options[0]));
_Static_assert(sizeof(spp_options) / sizeof(spp_options[0]) <= SPP_MAX_OPTIONS, "raise SPP_MAX_OPTIONS");

static const char *const titles[SPP_GROUP_OPT_COUNT] = {
    [SPP_GROUP_OPT_JOB] = "Job",
    [SPP_GROUP_OPT_HARDWARE] = "Hardware",
    [SPP_GROUP_OPT_METHOD] = "Method",
    [SPP_GROUP_OPT_DATA] = "Data",
    [SPP_GROUP_OPT_LAYOUT] = "Layout (predict: the layout; plan: fields the search must keep)",
    [SPP_GROUP_OPT_FRAMEWORK] = "Framework choices (default: what the framework does)",
    [SPP_GROUP_OPT_QUESTION] = "Question",
    [SPP_GROUP_OPT_OUTPUT] = "Output",
};
const char *spp_option_group_title(enum spp_option_group group) {
  return titles[group];
}
