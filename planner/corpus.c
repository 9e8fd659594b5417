#include "planner/corpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/num.h"
#include "base/units.h"
#include "model/calib.h"
#include "planner/corpus_reading.h"

enum { CORPUS_MAX_BYTES = 64 << 20, CORPUS_MAX_RUNS = 100000 };

static const char *keep(struct spp_corpus_reader *reader, struct spp_json record, const char *key) {
  const char *text = spp_arena_strdup(reader->arena, spp_record_text(record, key));
  return text ? text : "";
}

/* "torch max_memory_allocated" and the like: words in order of how much they say. */
static enum spp_memory_kind memory_kind(const char *text) {
  static const struct {
    const char *word;
    enum spp_memory_kind kind;
  } words[] = {{"capacity", SPP_MEASURED_CAPACITY},   {"comment", SPP_MEASURED_UNSTATED},
               {"NVML", SPP_MEASURED_DEVICE},         {"nvidia-smi", SPP_MEASURED_DEVICE},
               {"reserved", SPP_MEASURED_RESERVED},   {"logged", SPP_MEASURED_LOGGED},
               {"allocated", SPP_MEASURED_ALLOCATED}, {"active", SPP_MEASURED_ALLOCATED}};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (spp_text_contains(text, words[i].word)) return words[i].kind;
  return SPP_MEASURED_UNSTATED;
}

/* "usable_for" of a record that doubts its own figure leaves "memory" out; one that says nothing is used. */
static bool memory_is_usable(struct spp_json record) {
  struct spp_json uses = spp_json_get(record, "usable_for");
  if (spp_json_kind(uses) != SPP_JSON_ARRAY) return true;
  for (int i = 0; i < spp_json_size(uses); i++) {
    const char *word = "";
    if (spp_json_string(spp_json_at(uses, i), &word, NULL) == SPP_OK && !strcmp(word, "memory")) return true;
  }
  return false;
}

static void read_measured(struct spp_json record, struct spp_run *run) {
  struct spp_json measured = spp_json_get(record, "measured");
  double peak_gib = memory_is_usable(record) ? spp_record_number(measured, NULL, "peak_mem_gib", 0) : 0;
  run->memory_bytes = peak_gib * SPP_GIB;
  run->memory_tolerance = spp_record_number(measured, NULL, "mem_tol", 0);
  run->memory_kind = memory_kind(spp_record_text(measured, "mem_kind"));
  run->reserved_bytes = spp_record_number(measured, NULL, "peak_reserved_gib", 0) * SPP_GIB;
  run->step_s = spp_record_number(measured, NULL, "step_time_s", 0);
  run->tokens_per_s_per_gpu = spp_record_number(measured, NULL, "tokens_per_s_per_gpu", 0);
  run->max_seq_tokens = (int64_t)spp_record_number(measured, NULL, "max_seq", 0);
  bool oom = false;
  struct spp_json stated = spp_json_get(measured, "oom");
  run->oom = SPP_UNSET;
  if (spp_json_kind(stated) == SPP_JSON_BOOL && spp_json_bool(stated, &oom, NULL) == SPP_OK) run->oom = oom;
}

/* Serving: the cache takes what weights, activations and the rest leave of a share of the card. The share is
 * 0.9 unless stated (vllm-project/vllm gpu_memory_utilization). */
static void read_serving(struct spp_json record, struct spp_run *run) {
  if (!run->framework || run->framework->profiled_sequences < 1) return; /* a script: the whole card is its */
  struct spp_json measured = spp_json_get(record, "measured");
  double share = spp_record_number(measured, NULL, "gpu_mem_util", 0);
  double kv_gib = spp_record_number(measured, NULL, "kv_cache_gib_per_gpu", 0);
  if (share <= 0 || share > 1) {
    share = 0.9;
    spp_run_fill(run, "share of the card not stated: 0.9");
  }
  run->spec.max_memory_bytes = (int64_t)(share * (double)run->spec.gpu->capacity_bytes);
  run->kv_cache_tokens = spp_record_number(measured, NULL, "kv_cache_tokens", 0);
  if (run->memory_bytes > 0 || (kv_gib <= 0 && run->kv_cache_tokens <= 0)) return;
  run->memory_bytes =
      kv_gib > 0 ? kv_gib * SPP_GIB : 0; /* else from the tokens, once a token's bytes are known */
  if (kv_gib > 0) run->kv_cache_tokens = 0;
  run->memory_kind = SPP_MEASURED_KV_CACHE;
}

static enum spp_dtype read_serving_dtype(const char *precision, struct spp_run *run) {
  if (spp_text_contains(precision, "int4") || spp_text_contains(precision, "fp4"))
    run->skip = "4-bit weights are not modelled for serving";
  return spp_text_contains(precision, "fp8") ? SPP_DTYPE_FP8 : SPP_DTYPE_BF16;
}

static enum spp_dtype read_dtype(const char *precision) {
  if (spp_text_contains(precision, "fp8 weights") || spp_text_contains(precision, "int4"))
    return SPP_DTYPE_BF16;
  if (spp_text_contains(precision, "nvfp4")) return SPP_DTYPE_NVFP4;
  if (spp_text_contains(precision, "fp8") || spp_text_contains(precision, "float8")) return SPP_DTYPE_FP8;
  if (spp_text_contains(precision, "bf16")) return SPP_DTYPE_BF16;
  if (spp_text_contains(precision, "fp16")) return SPP_DTYPE_FP16;
  return spp_text_contains(precision, "fp32") ? SPP_DTYPE_FP32 : SPP_DTYPE_BF16;
}

static void read_recompute(struct spp_json record, struct spp_run *run) {
  const char *text = spp_record_text(record, "recompute");
  bool known = !spp_text_contains(text, "presumed") && !spp_text_contains(text, "unstated");
  if (!known)
    spp_run_fill(run, "recompute not stated: the framework's default");
  else if (spp_text_starts(text, "selective"))
    run->request.recompute = SPP_RECOMPUTE_SELECTIVE;
  else if (spp_text_starts(text, "no") || spp_text_starts(text, "off") || spp_text_starts(text, "false"))
    run->request.recompute = SPP_RECOMPUTE_NONE;
  else if (spp_text_starts(text, "full") || spp_text_contains(text, "checkpointing") ||
           spp_text_starts(text, "true"))
    run->request.recompute = SPP_RECOMPUTE_FULL;
  else
    spp_run_fill(run, "recompute not stated: the framework's default");
  int64_t modules = 0;
  for (int bit = 0; bit < 7 && run->request.recompute == SPP_RECOMPUTE_SELECTIVE; bit++) {
    const char *name = spp_recompute_module_name(bit);
    const char *at = strstr(text, name);
    if (at && (at[strlen(name)] == '\0' || at[strlen(name)] == '+')) modules |= INT64_C(1) << bit;
  }
  if (modules) run->request.recompute_modules = modules;
}

static void read_offload(const char *text, struct spp_run *run) {
  if (!*text) return;
  bool params = spp_text_contains(text, "param");
  bool optimizer = spp_text_contains(text, "optimizer");
  bool activations = spp_text_contains(text, "activation") || spp_text_contains(text, "checkpoint");
  if (!params && !optimizer && !activations && spp_text_contains(text, "cpu")) {
    optimizer = true; /* "cpu": what DeepSpeed's offload began with */
    params = run->request.zero == 3;
    spp_run_fill(run, "what is offloaded not stated: optimizer%s", params ? " and parameters" : "");
  }
  run->request.offload =
      params        ? activations ? SPP_OFFLOAD_OPTIMIZER_PARAMS_ACTIVATIONS : SPP_OFFLOAD_OPTIMIZER_PARAMS
      : optimizer   ? activations ? SPP_OFFLOAD_OPTIMIZER_ACTIVATIONS : SPP_OFFLOAD_OPTIMIZER
      : activations ? SPP_OFFLOAD_ACTIVATIONS
                    : SPP_OFFLOAD_NONE;
}

static void read_lora(struct spp_json record, struct spp_run *run) {
  struct spp_json lora = spp_json_get(record, "lora");
  if (spp_json_kind(lora) != SPP_JSON_OBJECT) return;
  const char *quant = spp_record_text(lora, "base_quant");
  run->spec.method = *quant || spp_text_contains(spp_record_text(lora, "kind"), "qlora") ? SPP_METHOD_QLORA
                                                                                         : SPP_METHOD_LORA;
  if (spp_text_contains(quant, "dq") || spp_text_contains(quant, "double"))
    run->spec.quant = SPP_QUANT_NF4_DOUBLE;
  else if (spp_text_contains(quant, "gptq"))
    run->spec.quant = SPP_QUANT_GPTQ4;
  else if (spp_text_contains(quant, "int8"))
    run->spec.quant = SPP_QUANT_INT8;
  else if (!strcmp(quant, "nf4"))
    run->spec.quant = SPP_QUANT_NF4; /* beside "nf4-dq": scales in fp32 */
  bool embeddings = false;
  (void)spp_json_bool_or(spp_json_get(lora, "trains_embeddings"), false, &embeddings, NULL);
  run->spec.train_embeddings = embeddings;
  double rank = spp_record_number(lora, NULL, "rank", 0);
  if (rank >= 1)
    run->spec.lora_rank = (int64_t)rank;
  else
    spp_run_fill(run, "LoRA rank not stated: the framework's default");
  run->spec.lora_targets = spp_record_targets(spp_record_text(lora, "targets"));
}

static int64_t degree(struct spp_json record, const char *key) {
  double value = spp_record_number(record, "parallel", key, 1);
  return value >= 1 ? (int64_t)value : 1;
}

static void read_parallel(struct spp_json record, struct spp_run *run) {
  struct spp_request *q = &run->request;
  q->tp = degree(record, "tp");
  q->pp = degree(record, "pp");
  q->vpp = degree(record, "vpp");
  q->ep = degree(record, "ep");
  if (q->ep > 1) q->etp = degree(record, "etp"); /* recipes that name EP keep their experts whole */
  int64_t cp = degree(record, "cp");
  const char *kind = spp_record_text(spp_json_get(record, "parallel"), "cp_kind");
  int found = spp_record_sp_kind(kind);
  if (cp > 1) {
    q->sp = cp;
    int64_t ulysses = (int64_t)spp_record_number(record, "parallel", "ulysses_degree", 0);
    if (found == SPP_SP_HYBRID && ulysses > 0) {
      q->ulysses = ulysses;
      q->ring = cp / ulysses;
    } else if (found >= 0) {
      q->sp_kind = found;
      q->ulysses = found == SPP_SP_ULYSSES ? cp : SPP_UNSET;
      q->ring = found == SPP_SP_RING || found == SPP_SP_ALLGATHER ? cp : SPP_UNSET;
    }
  }
  double zero = spp_record_number(record, "parallel", "zero", -1);
  if (zero >= 0 && zero <= 3) q->zero = (int)zero;
  double fsdp = spp_record_number(record, "parallel", "fsdp", 0);
  if (fsdp > 1 && zero < 2) q->zero = 3;
  bool sp = false;
  struct spp_json megatron_sp = spp_json_get(spp_json_get(record, "parallel"), "megatron_sp");
  if (spp_json_kind(megatron_sp) == SPP_JSON_BOOL && spp_json_bool(megatron_sp, &sp, NULL) == SPP_OK)
    q->megatron_sp = sp && q->tp > 1;
  double group = spp_record_number(record, "parallel", "zero_group", 0);
  double dp = spp_record_number(record, "parallel", "dp", 0);
  double shard = group > 0 ? group : fsdp;
  if (shard > 1 && dp > 0 && shard < dp * (double)cp) q->dp_replicate = (int64_t)(dp * (double)cp / shard);
}

/* A source may name a file that sets what its page does not repeat: the recipe says it, where the record
 * leaves it out. */
static double recipe_number(struct spp_json recipe, struct spp_json record, const char *key,
                            struct spp_run *run) {
  double own = spp_record_number(record, NULL, key, 0), filled = spp_record_number(recipe, NULL, key, 0);
  if (own >= 1 || filled < 1) return own;
  spp_run_fill(run, "%s %.0f: %s", key, filled, spp_record_text(recipe, "file"));
  return filled;
}

static void read_batch(struct spp_json recipe, struct spp_json record, struct spp_run *run) {
  double micro = recipe_number(recipe, record, "micro_batch", run);
  double global = spp_record_number(record, NULL, "global_batch", 0);
  double seq = recipe_number(recipe, record, "seq", run);
  double accumulated = spp_record_number(recipe, NULL, "grad_accum", 1);
  if (seq < 1 && run->max_seq_tokens > 0) seq = (double)run->max_seq_tokens;
  if (seq < 1 && run->inference) {
    seq = 4096; /* one sequence: the budget beyond it does not depend on its length */
    spp_run_fill(run, "sequence length not stated: 4,096");
  }
  if (seq < 1) run->skip = "the record gives no sequence length";
  run->spec.seq_tokens = (int64_t)seq;
  run->request.micro_batch = micro >= 1 ? (int64_t)micro : 1;
  if (micro < 1) spp_run_fill(run, "micro-batch not stated: 1");
  int64_t model_parallel = run->request.tp * run->request.pp * (run->request.sp > 0 ? run->request.sp : 1);
  int64_t replicas = run->spec.gpus / model_parallel;
  run->spec.global_batch =
      global >= 1 ? (int64_t)global
                  : run->request.micro_batch * (replicas > 0 ? replicas : 1) * (int64_t)accumulated;
  if (global < 1) spp_run_fill(run, "global batch not stated: one micro-batch a replica");
}

/* A record may say that cards which could have a fabric have none. */
static void read_pcie(struct spp_cluster *own) {
  if (own->fabric == SPP_FABRIC_PCIE) return;
  own->fabric = SPP_FABRIC_PCIE;
  own->domain_gpus = 1;
  own->in_switch_reduction = false;
  own->link_bytes_per_s = 0; /* the card's own PCIe */
}

static enum spp_status read_hardware(struct spp_corpus_reader *reader, struct spp_json record,
                                     struct spp_run *run, struct spp_diag *diag) {
  struct spp_json hardware = spp_json_get(record, "hardware");
  run->spec.gpus = (int64_t)spp_record_number(hardware, NULL, "gpus", 0);
  if (run->spec.gpus < 1) run->skip = "the record gives no GPU count";
  struct spp_json rule = spp_reading_first(reader, "gpus", record);
  const char *name = spp_record_text(rule, "use");
  if (!*name) {
    name = spp_record_text(hardware, "gpu");
    if (!*name) run->skip = "the record names no GPU";
  }
  (void)spp_json_bool_or(spp_json_get(rule, "memory_only"), false, &run->memory_only, NULL);
  if (run->skip) return SPP_OK;
  run->spec.gpu = spp_shelf_gpu(reader, name, NULL);
  if (!run->spec.gpu) {
    run->skip = spp_arena_printf(reader->arena, "unknown GPU '%s'", name);
    return SPP_OK;
  }
  const struct spp_cluster *cluster = NULL;
  enum spp_status status =
      spp_cluster_load(reader->config_dir, NULL, run->spec.gpu, reader->arena, &cluster, diag);
  if (status != SPP_OK) return status;
  struct spp_cluster *own = spp_arena_alloc(reader->arena, sizeof *own);
  if (!own) return spp_diag_set(diag, SPP_ERR_INTERNAL, "corpus", NULL, "out of memory");
  *own = *cluster;
  int64_t per_node = (int64_t)spp_record_number(hardware, NULL, "gpus_per_node", 0);
  if (per_node > 0 && own->domain_gpus <= own->gpus_per_node)
    own->gpus_per_node = own->domain_gpus = per_node;
  if (spp_text_starts(spp_record_text(hardware, "intra"), "PCIe")) read_pcie(own);
  struct spp_json network = spp_reading_first(reader, "networks", record);
  double rate = spp_record_number(network, NULL, "nic_bytes_per_s_per_gpu", 0);
  if (rate > 0) own->nic_bytes_per_s_per_gpu = rate;
  run->spec.cluster = own;
  return spp_calib_load(reader->config_dir, run->spec.gpu, own, reader->arena, &run->spec.calib, diag);
}

static enum spp_status read_framework(struct spp_corpus_reader *reader, struct spp_json record,
                                      struct spp_run *run, struct spp_diag *diag) {
  struct spp_json rule = spp_reading_first(reader, "frameworks", record);
  if (spp_json_kind(spp_json_get(rule, "skip")) == SPP_JSON_STRING) {
    run->skip = spp_arena_strdup(reader->arena, spp_record_text(rule, "skip"));
    return SPP_OK;
  }
  const char *name = spp_record_text(rule, "use");
  if (!*name) {
    run->skip = "no reading rule gives the framework";
    return SPP_OK;
  }
  struct spp_diag own = {0};
  run->framework = spp_shelf_framework(reader, name, &own);
  if (!run->framework && own.status == SPP_ERR_INPUT) {
    if (diag) *diag = own;
    return SPP_ERR_INPUT;
  }
  if (!run->framework) run->skip = spp_arena_printf(reader->arena, "no framework file '%s'", name);
  return SPP_OK;
}

/* A record may say less exactly than its framework does how a sequence is cut. torch's context parallelism is
 * called a ring, but gathers keys and values by default (torch distributed/tensor/experimental/
 * _context_parallel/_attention.py rotate_method allgather); and some frameworks take a degree alone and cut
 * it between Ulysses and ring themselves. */
static void read_split(struct spp_run *run) {
  const struct spp_framework *f = run->framework;
  struct spp_request *q = &run->request;
  if (!f || q->sp < 2) return;
  bool ring = q->sp_kind == SPP_SP_RING;
  if (ring && !f->sp_kinds[SPP_SP_RING] && f->sp_kinds[SPP_SP_ALLGATHER]) {
    q->sp_kind = SPP_SP_ALLGATHER;
    run->spec.attention = SPP_ATTN_SDPA; /* whose kernel it replaces; "flash" is one of SDPA's */
    spp_run_fill(run, "ring read as the all-gather of keys and values that this framework has");
  }
  int64_t asked = ring ? 1 : q->ulysses;
  if (f->sp_split != SPP_SPLIT_GCD_KV || asked == SPP_UNSET) return;
  if (asked == spp_gcd(run->spec.arch->kv_heads, q->sp)) return;
  q->sp_kind = SPP_UNSET;
  q->ulysses = q->ring = SPP_UNSET;
  spp_run_fill(run, "sequence cut between Ulysses and ring as the framework does");
}

/* Layers that do not divide into the stages, but do with embedding and head counted as one each: the first
 * and the last stage have one layer less (megatron-core 0.16.1 transformer_config.py
 * account_for_embedding_in_pipeline_split, account_for_loss_in_pipeline_split). */
static void read_stages(struct spp_run *run) {
  struct spp_request *q = &run->request;
  if (!run->framework || run->framework->sharding != SPP_SHARDING_MEGATRON || q->pp < 2) return;
  int64_t layers = run->spec.arch->layers, chunks = spp_sat_mul(q->pp, spp_max64(1, q->vpp));
  if (layers % chunks == 0 || (layers + 2) % chunks != 0) return;
  q->first_stage_layers = q->last_stage_layers = (layers + 2) / q->pp - 1;
  spp_run_fill(run, "embedding and head counted as a layer each by the pipeline");
}

/* Rows packed from documents: a rule gives their mean length, since records rarely do. */
static void read_documents(struct spp_corpus_reader *reader, struct spp_json record, struct spp_run *run) {
  struct spp_json rule = spp_reading_first(reader, "documents", record);
  int64_t mean = (int64_t)spp_record_number(rule, NULL, "mean_tokens", 0), seq = run->spec.seq_tokens;
  if (mean < 1 || mean >= seq) return;
  int64_t count = seq / mean;
  int64_t *lengths = spp_arena_array(reader->arena, (size_t)count, sizeof *lengths);
  if (!lengths) return;
  for (int64_t i = 0; i < count; i++)
    lengths[i] = seq / count + (i < seq % count);
  spp_documents_measure(lengths, count, seq, &run->spec.documents);
  run->spec.packing = 1;
  spp_run_fill(run, "rows packed from documents of %lld tokens (reading rule)", (long long)mean);
}

/* A rule may say that the record's micro-batch is what a pipeline cuts into as many pieces as it has stages.
 */
static void read_pipeline(struct spp_corpus_reader *reader, struct spp_json record, struct spp_run *run) {
  bool cut = false;
  struct spp_json rule = spp_reading_first(reader, "pipelines", record);
  (void)spp_json_bool_or(spp_json_get(rule, "cut_by_stages"), false, &cut, NULL);
  int64_t micro = (int64_t)spp_record_number(record, NULL, "micro_batch", 0);
  if (!cut || run->request.pp < 2 || micro < 2) return;
  run->request.micro_batch = micro > run->request.pp ? micro / run->request.pp : 1;
  spp_run_fill(run, "micro-batch cut by the stages of the pipeline (reading rule)");
}

/* A rule may say what a source's "GB" is, where its own figures tell; records without one count it as GiB. */
static void read_units(struct spp_corpus_reader *reader, struct spp_json record, struct spp_run *run) {
  struct spp_json rule = spp_reading_first(reader, "units", record);
  double bytes = spp_record_number(rule, NULL, "gb_bytes", 0);
  const char *unit = spp_record_text(spp_json_get(record, "measured"), "peak_mem_unit");
  if (bytes <= 0 || strcmp(unit, "GB") != 0) return;
  run->memory_bytes *= bytes / SPP_GIB;
  spp_run_fill(run, "GB of %.0f bytes (reading rule)", bytes);
}

static enum spp_status read_run(struct spp_corpus_reader *reader, struct spp_json record, struct spp_run *run,
                                struct spp_diag *diag) {
  memset(run, 0, sizeof *run);
  spp_job_spec_clear(&run->spec);
  spp_request_clear(&run->request);
  run->id = keep(reader, record, "id");
  run->group = keep(reader, record, "group");
  run->source = keep(reader, record, "source");
  (void)spp_json_bool_or(spp_json_get(record, "core"), false, &run->core, NULL);
  run->spec.settings_open = !run->core;
  run->inference = !strcmp(spp_record_text(record, "kind"), "inference");
  read_measured(record, run);
  read_units(reader, record, run);
  enum spp_status status = read_hardware(reader, record, run, diag);
  if (status != SPP_OK || run->skip) return status;
  read_parallel(record, run);
  struct spp_json recipe = spp_reading_first(reader, "recipes", record);
  read_batch(recipe, record, run);
  if (run->skip) return SPP_OK;
  run->spec.mode = run->inference ? SPP_MODE_INFER : SPP_MODE_TRAIN;
  const char *precision = spp_record_text(record, "precision");
  run->spec.dtype = (int)(run->inference ? read_serving_dtype(precision, run) : read_dtype(precision));
  if (run->skip) return SPP_OK;
  run->spec.attention = spp_record_attention(spp_record_text(record, "attention"));
  read_recompute(record, run);
  read_offload(spp_record_text(record, "offload"), run);
  read_lora(record, run);
  status = spp_corpus_model(reader, record, run, diag);
  if (status == SPP_OK && !run->skip) status = read_framework(reader, record, run, diag);
  if (run->inference && !run->skip) read_serving(record, run);
  read_split(run);
  read_stages(run);
  if (run->framework)
    run->spec.packing = run->framework->ring_needs_packing; /* rows are full length anyway */
  if (status == SPP_OK && !run->skip) read_documents(reader, record, run);
  if (status == SPP_OK && !run->skip) status = spp_reading_set(recipe, run, diag);
  if (status == SPP_OK && !run->skip) status = spp_reading_settings(reader, record, run, diag);
  if (status == SPP_OK && !run->skip) read_pipeline(reader, record, run);
  return status;
}

static enum spp_status read_line(struct spp_corpus_reader *reader, const char *path, const char *line,
                                 size_t length, int number, struct spp_run *run, struct spp_diag *diag) {
  char where[512];
  snprintf(where, sizeof where, "%s:%d", path, number);
  struct spp_json_doc *doc = NULL;
  enum spp_status status = spp_json_parse(line, length, where, &doc, diag);
  if (status != SPP_OK) return status;
  status = spp_json_expect(spp_json_root(doc), SPP_JSON_OBJECT, diag);
  if (status == SPP_OK) status = read_run(reader, spp_json_root(doc), run, diag);
  if (status != SPP_OK && !strstr(diag->where, where))
    spp_diag_set(diag, SPP_ERR_INPUT, where, NULL, "%s", diag->what);
  spp_json_free(doc);
  return status;
}

static int count_lines(const char *text) {
  int n = 0;
  for (; *text; text++)
    n += *text == '\n';
  return n + 1;
}

static enum spp_status read_lines(struct spp_corpus_reader *reader, const char *path, char *text,
                                  struct spp_corpus *corpus, struct spp_diag *diag) {
  int most = corpus->count + count_lines(text);
  if (most > CORPUS_MAX_RUNS)
    return spp_diag_set(diag, SPP_ERR_INPUT, path, "split the file", "more than %d lines", CORPUS_MAX_RUNS);
  struct spp_run *runs = spp_arena_array(corpus->arena, (size_t)most, sizeof *runs);
  if (!runs) return spp_diag_set(diag, SPP_ERR_INTERNAL, path, NULL, "out of memory");
  if (corpus->count) memcpy(runs, corpus->runs, (size_t)corpus->count * sizeof *runs);
  int count = corpus->count, number = 0;
  for (char *line = text; *line;) {
    size_t length = strcspn(line, "\n");
    number++;
    if (strspn(line, " \t\r") < length) {
      enum spp_status status = read_line(reader, path, line, length, number, &runs[count], diag);
      if (status != SPP_OK) return status;
      count++;
    }
    line += length + (line[length] == '\n');
  }
  corpus->runs = runs;
  corpus->count = count;
  return SPP_OK;
}

enum spp_status spp_corpus_read(const char *config_dir, const char *path, struct spp_corpus *corpus,
                                struct spp_diag *diag) {
  struct spp_corpus_reader *reader = calloc(1, sizeof *reader);
  char *text = NULL;
  if (!reader) return spp_diag_set(diag, SPP_ERR_INTERNAL, path, NULL, "out of memory");
  reader->config_dir = config_dir;
  reader->arena = corpus->arena;
  char *rules = spp_arena_printf(corpus->arena, "%s/corpus/reading.json", config_dir);
  enum spp_status status = rules ? spp_json_load(rules, &reader->rules, diag) : SPP_ERR_INTERNAL;
  if (status == SPP_OK) status = spp_file_read(path, CORPUS_MAX_BYTES, &text, NULL, diag);
  if (status == SPP_OK) status = read_lines(reader, path, text, corpus, diag);
  free(text);
  spp_json_free(reader->rules);
  free(reader);
  return status;
}
