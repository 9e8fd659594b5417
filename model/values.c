#include "model/values.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"
#include "base/num.h"
#include "model/geometry.h"
#include "model/words.h"

typedef const struct spp_job job_arg;
typedef const struct spp_layout layout_arg;

/* How many layers in front have no experts where all others do; 0: none, or dense ones between them. */
static int64_t dense_first(const struct spp_arch *a) {
  int64_t dense = 0;
  while (dense < a->layers && !a->kinds[a->kind_of_layer[dense]].moe)
    dense++;
  for (int64_t i = dense; i < a->layers; i++)
    if (!a->kinds[a->kind_of_layer[i]].moe) return 0;
  return dense;
}

/* name, expression in `job` and `layout`; degrees come first. Of a rollout only the whole length is known:
 * prompt and response are halves of it, as in verl's defaults (verl 0.9.1
 * trainer/config/_generated_ppo_trainer.yaml: data.max_prompt_length and max_response_length 512 each). */
#define NUMBERS(X)                                                                                           \
  X(tp, layout->tp)                                                                                          \
  X(pp, layout->pp)                                                                                          \
  X(vpp, layout->vpp)                                                                                        \
  X(dp, layout->dp)                                                                                          \
  X(ep, layout->ep)                                                                                          \
  X(etp, layout->etp)                                                                                        \
  X(sp, spp_layout_sp(layout))                                                                               \
  X(ulysses, layout->ulysses)                                                                                \
  X(ring, layout->ring)                                                                                      \
  X(own_ulysses, spp_own_ulysses(job, spp_max64(spp_layout_sp(layout), 1)))                                  \
  X(own_ring, spp_max64(spp_layout_sp(layout), 1) / value_own_ulysses(job, layout))                          \
  X(zero, layout->zero)                                                                                      \
  X(dp_replicate, layout->dp_replicate)                                                                      \
  X(dp_shard, layout->dp / spp_max64(layout->dp_replicate, 1))                                               \
  X(megatron_sp, layout->megatron_sp)                                                                        \
  X(micro_batch, layout->micro_batch)                                                                        \
  X(grad_accum, layout->grad_accum)                                                                          \
  X(global_batch, job->global_batch)                                                                         \
  X(rank_batch, layout->pp > 1 ? spp_sat_mul(layout->micro_batch, layout->grad_accum) : layout->micro_batch) \
  X(batch_unit, spp_sat_mul(layout->micro_batch, layout->dp))                                                \
  X(batch_up, spp_round_up(job->global_batch, spp_max64(value_batch_unit(job, layout), 1)))                  \
  X(groups_up, spp_round_up(job->global_batch, spp_max64(job->grpo_completions, 1)))                         \
  X(recompute_layers, layout->recompute_layers)                                                              \
  X(recompute_chunk_layers, layout->recompute_layers < 0                                                     \
                                ? layout->recompute_layers                                                   \
                                : layout->recompute_layers / spp_max64(1, layout->vpp))                      \
  X(recompute_unit, layout->recompute_unit)                                                                  \
  X(fpdt_chunk, layout->fpdt_chunk)                                                                          \
  X(fpdt_chunk_down, fpdt_chunk_down(job, layout))                                                           \
  X(fpdt_offload, layout->fpdt_offload)                                                                      \
  X(offload_optimizer, spp_offload_optimizer(layout->offload))                                               \
  X(offload_params, spp_offload_params(layout->offload))                                                     \
  X(offload_activations, spp_offload_activations(layout->offload))                                           \
  X(gpus, job->gpus)                                                                                         \
  X(world, spp_layout_world(layout))                                                                         \
  X(model_parallel, spp_sat_mul(spp_sat_mul(layout->tp, layout->pp), spp_layout_sp(layout)))                 \
  X(nodes, spp_max64(spp_ceil_div(job->gpus, value_node_gpus(job)), 1))                                      \
  X(nproc, spp_max64(spp_ceil_div(job->gpus, value_nodes(job, layout)), 1))                                  \
  X(seq, job->seq_tokens)                                                                                    \
  X(pad_unit, spp_layout_pad_tokens(job, layout))                                                            \
  X(seq_up, spp_round_up(job->seq_tokens, value_pad_unit(job, layout)))                                      \
  X(seq_per_rank, spp_ceil_div(value_seq_up(job, layout), spp_max64(spp_layout_sp(layout), 1)))              \
  X(layers, job->arch->layers)                                                                               \
  X(chunks, spp_sat_mul(layout->pp, layout->vpp))                                                            \
  X(chunk_layers, job->arch->layers / spp_max64(value_chunks(job, layout), 1))                               \
  X(uneven, spp_layout_uneven(layout))                                                                       \
  X(first_stage_layers, spp_stage_count(layout, job->arch->layers).first)                                    \
  X(last_stage_layers, spp_stage_count(layout, job->arch->layers).last)                                      \
  X(ends_lack_one, ends_lack_one(job, layout))                                                               \
  X(heads, job->arch->heads)                                                                                 \
  X(kv_heads, spp_arch_kv_heads(job->arch))                                                                  \
  X(heads_local, job->arch->heads / spp_max64(layout->tp, 1))                                                \
  X(kv_heads_local, spp_max64(spp_arch_kv_heads(job->arch) / spp_max64(layout->tp, 1), 1))                   \
  X(hidden, job->arch->hidden)                                                                               \
  X(head_dim, job->arch->head_dim)                                                                           \
  X(vocab, job->arch->vocab)                                                                                 \
  X(tied, job->arch->tied)                                                                                   \
  X(expert_ffn, job->arch->expert_ffn)                                                                       \
  X(shared_ffn, spp_sat_mul(job->arch->shared_experts, job->arch->shared_expert_ffn))                        \
  X(shared_gate, job->arch->shared_expert_gate)                                                              \
  X(dense_first, dense_first(job->arch))                                                                     \
  X(sparse_last, spp_max64(job->arch->layers - dense_first(job->arch), 0))                                   \
  X(experts_per_token, job->arch->experts_per_token)                                                         \
  X(positions, spp_max64(job->arch->max_positions, value_seq_up(job, layout)))                               \
  X(micro_tokens, spp_sat_mul(layout->micro_batch, value_seq_up(job, layout)))                               \
  X(step_tokens, spp_sat_mul(job->global_batch, value_seq_up(job, layout)))                                  \
  X(tokens_per_rank, spp_ceil_div(value_micro_tokens(job, layout), spp_max64(spp_layout_sp(layout), 1)))     \
  X(offload_layers, spp_max64(spp_layout_layers_away(layout, value_chunk_layers(job, layout)), 1))           \
  X(qkv_bias, job->arch->qkv_bias)                                                                           \
  X(linear_bias, job->arch->mlp_bias)                                                                        \
  X(gated, job->arch->mlp == SPP_MLP_GATED)                                                                  \
  X(rms_norm, job->arch->norm == SPP_NORM_RMS)                                                               \
  X(learned_positions, job->arch->learned_positions)                                                         \
  X(qk_norm, job->arch->qk_norm != SPP_QK_NORM_NONE)                                                         \
  X(mla, job->arch->attention == SPP_ATTENTION_MLA)                                                          \
  X(q_lora_rank, job->arch->q_lora_rank)                                                                     \
  X(kv_lora_rank, job->arch->kv_lora_rank)                                                                   \
  X(qk_nope_dim, job->arch->qk_nope_dim)                                                                     \
  X(qk_rope_dim, job->arch->qk_rope_dim)                                                                     \
  X(v_head_dim, job->arch->v_head_dim)                                                                       \
  X(ffn, job->arch->ffn)                                                                                     \
  X(experts, job->arch->experts)                                                                             \
  X(vision, job->arch->vision.kind != SPP_VISION_NONE)                                                       \
  X(packing, job->packing)                                                                                   \
  X(lora_rank, job->lora_rank)                                                                               \
  X(galore_rank, job->galore_rank)                                                                           \
  X(loss_chunk, job->loss_chunk_tokens)                                                                      \
  X(graphs, job->graphs)                                                                                     \
  X(fp8_params, spp_job_keeps_fp8_only(job))                                                                 \
  X(grads_bytes, job->grads_bytes)                                                                           \
  X(completions, job->grpo_completions)                                                                      \
  X(prompts, spp_max64(job->global_batch / spp_max64(job->grpo_completions, 1), 1))                          \
  X(response_part, spp_ceil_div(job->seq_tokens, 2))                                                         \
  X(prompt_part, spp_max64(job->seq_tokens - value_response_part(job, layout), 1))

/* name, table of model/words.h, value */
#define WORDS(X)                                                                                             \
  X(sp_kind, SPP_WORDS_SP_KIND, layout->sp_kind)                                                             \
  X(ring_order, SPP_WORDS_RING_ORDER, job->ring_order)                                                       \
  X(recompute, SPP_WORDS_RECOMPUTE, layout->recompute)                                                       \
  X(offload, SPP_WORDS_OFFLOAD, layout->offload)                                                             \
  X(schedule, SPP_WORDS_SCHEDULE, layout->schedule)                                                          \
  X(method, SPP_WORDS_METHOD, job->method)                                                                   \
  X(mode, SPP_WORDS_MODE, job->mode)                                                                         \
  X(optimizer, SPP_WORDS_OPTIMIZER, job->optimizer)                                                          \
  X(dtype, SPP_WORDS_DTYPE, spp_job_format(job))                                                             \
  X(kv_dtype, SPP_WORDS_DTYPE, job->kv_dtype)                                                                \
  X(attention, SPP_WORDS_ATTENTION, job->attention)                                                          \
  X(kernels, SPP_WORDS_KERNELS, job->kernels)                                                                \
  X(allocator, SPP_WORDS_ALLOCATOR, job->allocator)                                                          \
  X(loss, SPP_WORDS_LOSS_CHOICE, job->loss)                                                                  \
  X(quant, SPP_WORDS_QUANT, job->quant)

static int64_t value_node_gpus(job_arg *job) {
  return job->cluster ? spp_max64(job->cluster->gpus_per_node, 1) : 8;
}

/* Whether both ends of an uneven pipeline have one layer less than the stages between. */
static bool ends_lack_one(job_arg *job, layout_arg *layout) {
  struct spp_stage_counts n = spp_stage_count(layout, job->arch->layers);
  return spp_layout_uneven(layout) && n.first == n.middle - 1 && n.last == n.middle - 1;
}

/* The largest chunk, no longer than asked, that FPDT takes; 0 = none is near. */
static int64_t fpdt_chunk_down(job_arg *job, layout_arg *layout) {
  int64_t seq = job->seq_tokens, sp = spp_max64(spp_layout_sp(layout), 1);
  if (layout->fpdt_chunk <= 0 || sp > seq || seq % sp != 0) return 0;
  for (int64_t count = spp_max64(1, seq / layout->fpdt_chunk), last = count + 65536; count <= last; count++)
    if (seq % spp_sat_mul(count, sp) == 0 && seq / count <= layout->fpdt_chunk) return seq / count;
  return 0;
}

#define DEFINE_NUMBER(name, expression)                                                                      \
  static int64_t value_##name(job_arg *job, layout_arg *layout) {                                            \
    (void)job, (void)layout;                                                                                 \
    return (int64_t)(expression);                                                                            \
  }
NUMBERS(DEFINE_NUMBER)

#define DEFINE_WORD(name, table, expression)                                                                 \
  static const char *word_##name(job_arg *job, layout_arg *layout) {                                         \
    (void)job, (void)layout;                                                                                 \
    return spp_words_name(table, (int)(expression));                                                         \
  }
WORDS(DEFINE_WORD)

static const char *word_hf_id(job_arg *job, layout_arg *layout) {
  (void)layout;
  return job->arch->hf_id[0] ? job->arch->hf_id : job->arch->name;
}
static const char *word_model_type(job_arg *job, layout_arg *layout) {
  (void)layout;
  return job->arch->model_type;
}
static const char *word_framework(job_arg *job, layout_arg *layout) {
  (void)layout;
  return job->framework->display;
}
static const char *word_gpu(job_arg *job, layout_arg *layout) {
  (void)layout;
  return job->gpu ? job->gpu->display : "the GPU";
}
static void print_lora_dropout(job_arg *job, layout_arg *layout, char *buf, size_t size) {
  char number[32];
  (void)layout;
  snprintf(buf, size, "%s", spp_decimal_print(job->lora_dropout, 6, number));
}
/* As Hugging Face names them. */
static void print_lora_targets(job_arg *job, layout_arg *layout, char *buf, size_t size) {
  static const char *const modules[] = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                        "gate_proj", "up_proj", "down_proj"};
  const unsigned all = (1u << 7) - 1;
  size_t used = 0;
  (void)layout;
  buf[0] = '\0';
  if ((job->lora_targets & all) == all) snprintf(buf, size, "all-linear");
  for (int bit = 0; bit < 7 && (job->lora_targets & all) != all; bit++) {
    if (!(job->lora_targets >> bit & 1u)) continue;
    snprintf(buf + used, size - used, "%s%s", used ? " " : "", modules[bit]);
    used = strlen(buf);
  }
}
/* The same as LLaMA-Factory writes it: "all", "q_proj,v_proj". */
static void print_lora_target_list(job_arg *job, layout_arg *layout, char *buf, size_t size) {
  print_lora_targets(job, layout, buf, size);
  if (strcmp(buf, "all-linear") == 0) snprintf(buf, size, "all");
  for (char *c = buf; *c; c++)
    if (*c == ' ') *c = ',';
}
static void print_recompute_modules(job_arg *job, layout_arg *layout, char *buf, size_t size) {
  size_t used = 0;
  (void)job;
  buf[0] = '\0';
  for (int bit = 0; bit < spp_words_of(SPP_WORDS_MODULE)->count; bit++) {
    if (!(layout->recompute_modules >> bit & 1u)) continue;
    snprintf(buf + used, size - used, "%s%s", used ? " " : "", spp_recompute_module_name(bit));
    used = strlen(buf);
  }
}
/* As Megatron's --cuda-graph-scope takes them: "attn mlp". */
static void print_cuda_graphs(job_arg *job, layout_arg *layout, char *buf, size_t size) {
  size_t used = 0;
  (void)layout;
  buf[0] = '\0';
  for (int bit = 0; bit < SPP_GRAPH_COUNT; bit++) {
    if (!(job->graphs >> bit & 1u)) continue;
    snprintf(buf + used, size - used, "%s%s", used ? " " : "", spp_words_name(SPP_WORDS_GRAPH, bit));
    used = strlen(buf);
  }
}
/* For rules about layers: the nearest legal ends, where the framework takes any. */
static void print_uneven_hint(job_arg *job, layout_arg *layout, char *buf, size_t size) {
  int64_t first, last;
  buf[0] = '\0';
  if (!job->framework->stage_uneven ||
      !spp_stage_suggest(job->arch->layers, layout->pp, layout->vpp, &first, &last))
    return;
  snprintf(buf, size, " (or --first-stage-layers %" PRId64 " --last-stage-layers %" PRId64 ")", first, last);
}

/* What the framework has, for the rules that refuse what it has not. */
static void print_allowed(enum spp_words_table table, const bool *allowed, char *buf, size_t size) {
  const struct spp_words *words = spp_words_of(table);
  size_t used = 0;
  buf[0] = '\0';
  for (int i = 0; i < words->count && used + 1 < size; i++)
    if (allowed[i]) {
      snprintf(buf + used, size - used, "%s%s", used ? ", " : "", words->names[i]);
      used = strlen(buf);
    }
}
static void print_its_sp_kinds(job_arg *job, layout_arg *layout, char *buf, size_t size) {
  (void)layout;
  print_allowed(SPP_WORDS_SP_KIND, job->framework->sp_kinds, buf, size);
}
static void print_its_recomputes(job_arg *job, layout_arg *layout, char *buf, size_t size) {
  (void)layout;
  print_allowed(SPP_WORDS_RECOMPUTE, job->framework->recomputes, buf, size);
}
static void print_its_offloads(job_arg *job, layout_arg *layout, char *buf, size_t size) {
  (void)layout;
  print_allowed(SPP_WORDS_OFFLOAD, job->framework->offloads, buf, size);
}
static void print_its_schedules(job_arg *job, layout_arg *layout, char *buf, size_t size) {
  (void)layout;
  print_allowed(SPP_WORDS_SCHEDULE, job->framework->schedules, buf, size);
}
static void print_its_zeros(job_arg *job, layout_arg *layout, char *buf, size_t size) {
  size_t used = 0;
  (void)layout;
  buf[0] = '\0';
  for (int zero = 0; zero < 4 && used + 1 < size; zero++)
    if (job->framework->states[zero].supported) {
      snprintf(buf + used, size - used, "%s%d", used ? ", " : "", zero);
      used = strlen(buf);
    }
}

struct value {
  const char *name;
  int64_t (*number)(job_arg *job, layout_arg *layout);
  const char *(*word)(job_arg *job, layout_arg *layout);
  void (*print)(job_arg *job, layout_arg *layout, char *buf,
                size_t size); /* for texts only, not conditions */
  int table;                  /* of a closed list of words, -1 = free text or number */
};
#define NUMBER_ROW(name, expression)       {#name, value_##name, NULL, NULL, -1},
#define WORD_ROW(name, table, expression)  {#name, NULL, word_##name, NULL, (int)table},
#define NUMBER_NAME(name, expression)      #name,
#define WORD_NAME(name, table, expression) #name,
#define TEXTS(X)                           X(hf_id) X(model_type) X(framework) X(gpu)
#define TEXT_ROW(name)                     {#name, NULL, word_##name, NULL, -1},
#define TEXT_NAME(name)                    #name,
static const struct value values[] = {NUMBERS(NUMBER_ROW) WORDS(WORD_ROW)
                                          TEXTS(TEXT_ROW){"lora_dropout", NULL, NULL, print_lora_dropout, -1},
                                      {"lora_targets", NULL, NULL, print_lora_targets, -1},
                                      {"lora_target_list", NULL, NULL, print_lora_target_list, -1},
                                      {"recompute_modules", NULL, NULL, print_recompute_modules, -1},
                                      {"cuda_graphs", NULL, NULL, print_cuda_graphs, -1},
                                      {"uneven_hint", NULL, NULL, print_uneven_hint, -1},
                                      {"its_sp_kinds", NULL, NULL, print_its_sp_kinds, -1},
                                      {"its_zeros", NULL, NULL, print_its_zeros, -1},
                                      {"its_recomputes", NULL, NULL, print_its_recomputes, -1},
                                      {"its_offloads", NULL, NULL, print_its_offloads, -1},
                                      {"its_schedules", NULL, NULL, print_its_schedules, -1}};
static const char *const names[] = {NUMBERS(NUMBER_NAME) WORDS(WORD_NAME) TEXTS(TEXT_NAME) "lora_dropout",
                                    "lora_targets",
                                    "lora_target_list",
                                    "recompute_modules",
                                    "cuda_graphs",
                                    "uneven_hint",
                                    "its_sp_kinds",
                                    "its_zeros",
                                    "its_recomputes",
                                    "its_offloads",
                                    "its_schedules"};
enum { VALUE_COUNT = sizeof values / sizeof values[0] };

const char *const *spp_value_names(int *count) {
  *count = VALUE_COUNT;
  return names;
}

static const struct value *find(const char *name, size_t length) {
  for (int i = 0; i < VALUE_COUNT; i++)
    if (strlen(values[i].name) == length && memcmp(values[i].name, name, length) == 0) return &values[i];
  return NULL;
}

static size_t name_length(const char *text) {
  size_t n = 0;
  while (islower((unsigned char)text[n]) || (n > 0 && isdigit((unsigned char)text[n])) || text[n] == '_')
    n++;
  return n;
}

/* The placeholder that begins at text ("{name}"), with its length; NULL for a brace that is none ("{}",
 * JSON). */
static const struct value *placeholder(const char *text, size_t *length, bool *unknown) {
  size_t n = text[0] == '{' ? name_length(text + 1) : 0;
  *unknown = false;
  if (n == 0 || text[n + 1] != '}') return NULL;
  *length = n + 2;
  const struct value *value = find(text + 1, n);
  *unknown = value == NULL;
  return value;
}

const char *spp_template_expand(const char *text, job_arg *job, layout_arg *layout, char *buf, size_t size) {
  size_t used = 0;
  while (*text && used + 1 < size) {
    size_t length = 1;
    bool unknown;
    const struct value *value = placeholder(text, &length, &unknown);
    int n = 1;
    if (value && value->number)
      n = snprintf(buf + used, size - used, "%" PRId64, value->number(job, layout));
    else if (value && value->print)
      value->print(job, layout, buf + used, size - used), n = (int)strlen(buf + used);
    else if (value)
      n = snprintf(buf + used, size - used, "%s", value->word(job, layout));
    else
      buf[used] = *text, length = 1;
    used = (size_t)spp_min64((int64_t)used + n, (int64_t)size - 1);
    text += length;
  }
  if (size > 0) buf[used] = '\0';
  return buf;
}

bool spp_template_check(const char *text, char *bad, size_t size) {
  for (; *text; text++) {
    size_t length = 0;
    bool unknown;
    placeholder(text, &length, &unknown);
    if (!unknown) continue;
    snprintf(bad, size, "%.*s", (int)length, text);
    return false;
  }
  return true;
}

enum comparison { OP_EQ, OP_NE, OP_GE, OP_LE, OP_GT, OP_LT, OP_COUNT };
static const char *const operators[OP_COUNT] = {"=", "!=", ">=", "<=", ">", "<"};

struct term {
  const struct value *value;
  enum comparison op;
  bool is_number;
  int64_t number;
  char word[40];
};

/* Reads the right side of a term up to '&' or the end; false when it is empty or too long. */
static bool read_operand(const char **text, struct term *term) {
  size_t n = 0;
  while ((*text)[n] && (*text)[n] != '&')
    n++;
  if (n == 0 || n >= sizeof term->word) return false;
  memcpy(term->word, *text, n);
  term->word[n] = '\0';
  term->is_number = n <= 15 && strspn(term->word, "0123456789") == n;
  term->number = 0;
  for (size_t i = 0; term->is_number && i < n; i++)
    term->number = term->number * 10 + (term->word[i] - '0');
  *text += n;
  if (**text != '&') return true;
  (*text)++;
  return **text != '\0'; /* a term follows */
}

/* Takes one term off the text. */
static bool read_term(const char **text, struct term *term) {
  size_t n = name_length(*text);
  term->value = find(*text, n);
  if (!term->value || term->value->print) return false;
  *text += n;
  for (int op = 0; op < OP_COUNT; op++) {
    size_t length = strlen(operators[op]);
    if (strncmp(*text, operators[op], length) != 0) continue;
    *text += length;
    term->op = (enum comparison)op;
    return read_operand(text, term);
  }
  return false;
}

static bool compare(enum comparison op, int64_t a, int64_t b) {
  switch (op) {
  case OP_EQ: return a == b;
  case OP_NE: return a != b;
  case OP_GE: return a >= b;
  case OP_LE: return a <= b;
  case OP_GT: return a > b;
  default: return a < b;
  }
}

bool spp_condition_holds(const char *when, job_arg *job, layout_arg *layout) {
  struct term term;
  while (*when) {
    if (!read_term(&when, &term)) return false;
    bool holds = term.value->number ? compare(term.op, term.value->number(job, layout), term.number)
                                    : compare(term.op, strcmp(term.value->word(job, layout), term.word), 0);
    if (!holds) return false;
  }
  return true;
}

bool spp_condition_check(const char *when, char *bad, size_t size) {
  struct term term;
  while (*when) {
    const char *start = when;
    bool ok = read_term(&when, &term);
    if (ok && term.value->number) ok = term.is_number;
    if (ok && term.value->word) ok = term.op == OP_EQ || term.op == OP_NE;
    if (ok && term.value->table >= 0)
      ok = spp_words_find((enum spp_words_table)term.value->table, term.word) >= 0;
    if (ok) continue;
    snprintf(bad, size, "%s", start);
    return false;
  }
  return true;
}
