/* From the values a command gives to settings: some are settings as they are, others are worked out of
 * several. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/num.h"
#include "interop/reading.h"
#include "model/setting.h"
#include "model/words.h"

static void set_text(struct spp_reading *r, const char *name, const char *value,
                     const struct spp_entry *entry) {
  struct spp_imported *out = r->out;
  struct spp_import_setting *s = NULL;
  for (int i = 0; i < out->setting_count; i++)
    if (strcmp(out->settings[i].name, name) == 0) s = &out->settings[i];
  if (!s && out->setting_count == SPP_MAX_IMPORT_SETTINGS) return;
  if (!s) s = &out->settings[out->setting_count++];
  *s = (struct spp_import_setting){.name = spp_arena_strdup(r->arena, name),
                                   .value = spp_arena_strdup(r->arena, value)};
  if (!s->name || !s->value) {
    s->name = s->value = "";
    r->status = spp_diag_oom(r->diag);
  }
  s->file = entry && !entry->assumed ? entry->file : NULL;
  s->line = entry && !entry->assumed ? entry->line : 0;
  s->flag = entry ? entry->typed : NULL;
  s->assumed = entry && entry->assumed;
}
static void set_number(struct spp_reading *r, const char *name, int64_t value,
                       const struct spp_entry *entry) {
  char text[32];
  snprintf(text, sizeof text, "%" PRId64, value);
  set_text(r, name, text, entry);
}
static const struct spp_entry *entry_of(const struct spp_reading *r, const char *name) {
  const struct spp_binding *b = spp_reading_find(r, name);
  return b ? b->entry : NULL;
}
static bool has(const struct spp_reading *r, const char *name) {
  return spp_reading_find(r, name) != NULL;
}

/* ---- as they are ---- */

/* "grpo_completions" is the setting "completions": names of values and of settings differ by '_' alone. */
static const char *setting_called(const char *name) {
  for (int i = 0; i < spp_setting_count(); i++) {
    const char *setting = spp_setting_name(i), *a = setting, *b = name;
    while (*a && (*a == *b || (*a == '-' && *b == '_')))
      a++, b++;
    if (!*a && !*b) return setting;
  }
  return NULL;
}

/* One of a list's modules, as the option names it; NULL: none of the decoder's linear layers. */
static const char *lora_word(const char *module, size_t n) {
  static const struct {
    const char *module, *word;
  } rows[] = {{"all-linear", "all"},
              {"all", "all"},
              {"q_proj", "q"},
              {"k_proj", "k"},
              {"v_proj", "v"},
              {"o_proj", "o"},
              {"gate_proj", "gate"},
              {"up_proj", "up"},
              {"down_proj", "down"},
              {"q", "q"},
              {"k", "k"},
              {"v", "v"},
              {"o", "o"},
              {"gate", "gate"},
              {"up", "up"},
              {"down", "down"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (strlen(rows[i].module) == n && strncmp(module, rows[i].module, n) == 0) return rows[i].word;
  return NULL;
}

static bool has_lora_word(const char *text, const char *word) {
  const size_t n = strlen(word);
  for (const char *at = text; (at = strstr(at, word)) != NULL; at += n)
    if ((at == text || at[-1] == ',') && (!at[n] || at[n] == ',')) return true;
  return false;
}

/* Names of modules or one pattern of them, "self_attn.q_proj", "(self_attn|mlp).(q|k|v|o)_proj" -> "q,k,v,o":
 * the words between signs that a layer is called; the others, such as parts of a path, count in `others`. */
static bool lora_targets(const char *value, char *text, size_t size, int *others) {
  static const char signs[] = " ,[]'\"()|.*\\^$?+/";
  size_t used = 0;
  text[0] = '\0';
  *others = 0;
  while (*(value += strspn(value, signs))) {
    const size_t n = strcspn(value, signs);
    const char *word = lora_word(value, n);
    const bool path = value[n] == '.' || value[n] == '\\' || (n > 0 && value[0] == '_') ||
                      strspn(value, "0123456789d") == n || memchr(value, '_', n) == NULL;
    if (word && !has_lora_word(text, word) && used + 12 < size)
      used += (size_t)snprintf(text + used, size - used, "%s%s", used ? "," : "", word);
    *others += !word && !path;
    value += n;
  }
  return used > 0;
}

static void set_targets(struct spp_reading *r, const struct spp_binding *b) {
  char text[80];
  int others;
  const char *flag = b->entry ? b->entry->typed : "targets";
  if (!lora_targets(b->value, text, sizeof text, &others))
    spp_reading_say(r, SPP_IMPORT_VALUE, b->entry, NULL, "%s %s: adapters on all linear layers are assumed",
                    flag, b->value);
  else
    set_text(r, "lora-targets", text, b->entry);
  if (*text && others > 0)
    spp_reading_say(r, SPP_IMPORT_UNMODELLED, b->entry, NULL,
                    "%s: adapters on %s are in the model, those on the other layers it names are not", flag,
                    text);
}

static void set_modules(struct spp_reading *r, const struct spp_binding *b) {
  char text[160];
  snprintf(text, sizeof text, "%s", b->value);
  for (char *c = text; *c; c++)
    if (*c == ' ') *c = ',';
  set_text(r, "recompute-modules", text, b->entry);
}

/* "full": the whole layer; other modules hold less, and are left out. */
static void set_graphs(struct spp_reading *r, const struct spp_binding *b) {
  bool attention = strstr(b->value, "attn") || strcmp(b->value, "full") == 0;
  bool mlp = strstr(b->value, "mlp") || strcmp(b->value, "full") == 0;
  if (strstr(b->value, "moe") || strstr(b->value, "mamba") || strstr(b->value, "iteration"))
    spp_reading_say(r, SPP_IMPORT_VALUE, b->entry, NULL,
                    "%s %s: of CUDA graphs those of attn and mlp are in the model",
                    b->entry ? b->entry->typed : "graphs", b->value);
  if (attention || mlp)
    set_text(r, "cuda-graphs", attention && mlp ? "attn,mlp" : attention ? "attn" : "mlp", b->entry);
}

/* A default of a method that is not asked for says nothing. */
static bool is_idle(const struct spp_reading *r, const struct spp_binding *b) {
  const char *method = spp_reading_word(r, "method");
  bool adapters = method && (strcmp(method, "lora") == 0 || strcmp(method, "qlora") == 0);
  bool projects = method && strstr(method, "galore");
  bool sampled = spp_reading_word(r, "mode") && strcmp(spp_reading_word(r, "mode"), "grpo") == 0;
  if (!b->entry || !b->entry->assumed) return false;
  return (strncmp(b->name, "lora_", 5) == 0 && !adapters) ||
         (strcmp(b->name, "galore_rank") == 0 && !projects) ||
         (strcmp(b->name, "quant") == 0 && !(adapters && method[0] == 'q')) ||
         (strcmp(b->name, "completions") == 0 && !sampled);
}

/* Settings that others below decide together. */
static bool is_derived(const char *name) {
  static const char derived[] = "global_batch gpus offload dp recompute_modules lora_targets sp cuda_graphs";
  return spp_names_have(derived, name);
}

static void set_plain(struct spp_reading *r) {
  const char *zero = spp_reading_word(r, "zero"); /* without shards every rank is a copy */
  for (int i = 0; i < r->binding_count && r->status == SPP_OK; i++) {
    const struct spp_binding *b = &r->bindings[i];
    const char *setting = setting_called(b->name);
    if (is_idle(r, b) || (strcmp(b->name, "dp_replicate") == 0 && zero && strcmp(zero, "0") == 0)) continue;
    if (strcmp(b->name, "lora_targets") == 0 || strcmp(b->name, "lora_target_list") == 0)
      set_targets(r, b);
    else if (strcmp(b->name, "recompute_modules") == 0)
      set_modules(r, b);
    else if (strcmp(b->name, "cuda_graphs") == 0)
      set_graphs(r, b);
    else if (setting && !is_derived(b->name))
      set_text(r, setting, b->value, b->entry);
  }
}

/* ---- worked out ---- */

/* "0,1,2,3": how many. */
static int64_t listed_gpus(const struct spp_reading *r) {
  const struct spp_entry *e = spp_entries_find(&r->entries, SPP_ENTRY_ENV, "CUDA_VISIBLE_DEVICES");
  int64_t count = 1;
  if (!e || !e->value || !*e->value || strchr(e->value, '$')) return 0;
  for (const char *c = e->value; *c; c++)
    count += *c == ',';
  return count;
}

static int64_t degree_of_sp(struct spp_reading *r) {
  if (has(r, "sp")) return spp_reading_number(r, "sp", 1);
  return spp_sat_mul(spp_reading_number(r, "ulysses", 1), spp_reading_number(r, "ring", 1));
}

/* How many GPUs the command says, and what says it; 0: it does not. */
static int64_t said_gpus(struct spp_reading *r, const struct spp_entry **entry) {
  const char *nproc = spp_reading_word(r, "nproc");
  int64_t nodes = spp_reading_number(r, "nodes", 1), here = listed_gpus(r);
  bool counted = nproc && nproc[0] >= '0' && nproc[0] <= '9'; /* "gpu", "auto": as many as there are */
  const struct spp_entry *e = counted ? entry_of(r, "nproc") : NULL;
  *entry = has(r, "gpus") ? entry_of(r, "gpus") : e;
  if (has(r, "gpus")) return spp_reading_number(r, "gpus", 0);
  if (counted && !(e && e->assumed && here > 0)) return spp_sat_mul(spp_reading_number(r, "nproc", 1), nodes);
  *entry = spp_entries_find(&r->entries, SPP_ENTRY_ENV, "CUDA_VISIBLE_DEVICES");
  if (here > 0 || !has(r, "dp_shard")) return spp_sat_mul(here, nodes);
  *entry = entry_of(r, "dp_shard"); /* degrees that are all said multiply to the GPUs */
  return spp_sat_mul(
      spp_sat_mul(spp_reading_number(r, "dp_shard", 1), spp_reading_number(r, "dp_replicate", 1)),
      spp_sat_mul(spp_sat_mul(spp_reading_number(r, "tp", 1), spp_reading_number(r, "pp", 1)),
                  spp_max64(1, degree_of_sp(r))));
}

int64_t spp_reading_gpus(struct spp_reading *r) {
  const struct spp_entry *entry;
  return r->options->gpus > 0 ? r->options->gpus : said_gpus(r, &entry);
}

static int64_t settle_gpus(struct spp_reading *r) {
  const struct spp_entry *entry;
  int64_t gpus = said_gpus(r, &entry), nodes = spp_reading_number(r, "nodes", 1);
  if (gpus > 0 && r->status == SPP_OK) set_number(r, "gpus", gpus, entry);
  if (gpus > 0 && nodes > 1 && gpus % nodes == 0 && gpus / nodes != 8)
    set_number(r, "gpus-per-node", gpus / nodes, entry);
  return r->options->gpus > 0 ? r->options->gpus : gpus;
}

/* Sequences a step over all replicas: said, or micro-batches times accumulation times replicas. */
static void settle_batch(struct spp_reading *r, int64_t gpus) {
  const struct spp_entry *said = entry_of(r, "micro_batch");
  const bool sequences = has(r, "micro_batch") && !(said && said->assumed); /* not tokens */
  int64_t seq = spp_reading_number(r, "seq", 0), sp = degree_of_sp(r);
  int64_t model =
      spp_sat_mul(spp_sat_mul(spp_reading_number(r, "tp", 1), spp_reading_number(r, "pp", 1)), sp);
  int64_t micro = spp_reading_number(r, "micro_batch", 1), accum = spp_reading_number(r, "grad_accum", 1);
  if (seq > 0 && has(r, "micro_tokens") && !sequences)
    micro = spp_max64(1, spp_reading_number(r, "micro_tokens", 1) / seq),
    set_number(r, "micro-batch", micro, entry_of(r, "micro_tokens"));
  if (seq > 0 && has(r, "tokens_per_rank") && !sequences)
    micro = spp_max64(1, spp_sat_mul(spp_reading_number(r, "tokens_per_rank", 1), sp) / seq),
    set_number(r, "micro-batch", micro, entry_of(r, "tokens_per_rank"));
  if (has(r, "global_batch"))
    set_number(r, "global-batch", spp_reading_number(r, "global_batch", 1), entry_of(r, "global_batch"));
  else if (has(r, "step_tokens") && seq > 0)
    set_number(r, "global-batch", spp_max64(1, spp_reading_number(r, "step_tokens", 1) / seq),
               entry_of(r, "step_tokens"));
  else if (gpus > 0 && gpus % spp_max64(model, 1) == 0 && (has(r, "grad_accum") || has(r, "micro_batch")))
    set_number(r, "global-batch", spp_sat_mul(spp_sat_mul(micro, accum), gpus / model),
               entry_of(r, "grad_accum"));
}

/* The word that has these parts: "optimizer+params". */
static void settle_offload(struct spp_reading *r) {
  static const char *const parts[] = {"optimizer", "params", "activations"};
  const struct spp_entry *entry = NULL;
  char name[40], word[80] = "";
  if (has(r, "offload")) snprintf(word, sizeof word, "%s", spp_reading_word(r, "offload"));
  if (strcmp(word, "none") == 0) word[0] = '\0';
  for (int i = 0; i < 3; i++) {
    snprintf(name, sizeof name, "offload_%s", parts[i]);
    const struct spp_binding *b = spp_reading_find(r, name);
    if (!b || strcmp(b->value, "1") != 0 || strstr(word, parts[i])) continue;
    entry = b->entry;
    if (i == 1 && !strstr(word, "optimizer"))
      snprintf(word, sizeof word, "optimizer"); /* parameters never go alone */
    size_t used = strlen(word);
    snprintf(word + used, sizeof word - used, "%s%s", used ? "+" : "", parts[i]);
  }
  if (!entry) entry = entry_of(r, "offload");
  if (spp_words_find(SPP_WORDS_OFFLOAD, word[0] ? word : "none") < 0)
    spp_reading_say(r, SPP_IMPORT_VALUE, entry, NULL, "offloading %s together is not in the model", word);
  else if (word[0] || has(r, "offload"))
    set_text(r, "offload", word[0] ? word : "none", entry);
}

/* What needs to know the layers of the model. */
static void settle_stages(struct spp_reading *r) {
  const int64_t layers = r->arch ? r->arch->layers : 0, pp = spp_reading_number(r, "pp", 1),
                vpp = spp_reading_number(r, "vpp", 1);
  const char *ends = spp_reading_word(r, "ends_lack_one");
  if (ends && strcmp(ends, "1") == 0 && layers > 0 && pp > 1 && (layers + 2) % pp == 0 &&
      (layers + 2) / pp > 1) {
    set_number(r, "first-stage-layers", (layers + 2) / pp - 1, entry_of(r, "ends_lack_one"));
    set_number(r, "last-stage-layers", (layers + 2) / pp - 1, entry_of(r, "ends_lack_one"));
  }
  if (has(r, "chunk_layers") && layers > 0 && !has(r, "vpp")) {
    int64_t chunk = spp_reading_number(r, "chunk_layers", 1);
    if (spp_sat_mul(pp, chunk) > 0 && layers / spp_sat_mul(pp, chunk) > 1)
      set_number(r, "vpp", layers / spp_sat_mul(pp, chunk), entry_of(r, "chunk_layers"));
  }
  if (has(r, "recompute_chunk_layers"))
    set_number(r, "recompute-layers", spp_sat_mul(spp_reading_number(r, "recompute_chunk_layers", 1), vpp),
               entry_of(r, "recompute_chunk_layers"));
}

/* A degree of 1 is no sequence parallelism, whatever else is said of it. */
static void settle_sp(struct spp_reading *r) {
  const struct spp_binding *sp = spp_reading_find(r, "sp");
  bool split = has(r, "ulysses") && has(r, "ring");
  if (sp && !split) set_number(r, "sp", spp_reading_number(r, "sp", 1), sp->entry);
  if (sp || split) return;
  for (int i = 0; i < r->out->setting_count; i++)
    if (strcmp(r->out->settings[i].name, "sp-kind") == 0 && !has(r, "ulysses") && !has(r, "ring"))
      r->out->settings[i] = r->out->settings[--r->out->setting_count];
}

/* A choice that the framework predicted with does not know would be refused: it is said, and left to the
 * framework. */
static void drop_unknown_choices(struct spp_reading *r, const char *framework) {
  const struct spp_framework *f = r->framework;
  struct spp_diag diag = {0};
  if (r->status != SPP_OK ||
      (strcmp(framework, r->format->framework) != 0 &&
       spp_framework_load(r->options->config_dir, framework, r->arena, &f, &diag) != SPP_OK))
    return;
  for (int i = 0; i < r->out->setting_count; i++) {
    struct spp_import_setting *s = &r->out->settings[i];
    const bool loss = strcmp(s->name, "loss") == 0, attention = strcmp(s->name, "attention") == 0;
    int choice = loss        ? spp_words_find(SPP_WORDS_LOSS_CHOICE, s->value)
                 : attention ? spp_words_find(SPP_WORDS_ATTENTION, s->value)
                             : -1;
    if (choice < 0 || (loss ? f->losses[choice] : f->attentions[choice])) continue;
    spp_reading_say(r, SPP_IMPORT_VALUE, spp_reading_find(r, s->name) ? entry_of(r, s->name) : NULL, NULL,
                    "%s %s is not in what is known of %s", s->name, s->value, f->display);
    *s = r->out->settings[--r->out->setting_count];
    i--;
  }
}

void spp_reading_settle(struct spp_reading *r) {
  const char *framework = spp_reading_word(r, "framework");
  if (r->status != SPP_OK) return;
  set_plain(r);
  int64_t gpus = settle_gpus(r);
  settle_sp(r);
  settle_batch(r, gpus);
  settle_offload(r);
  settle_stages(r);
  if (!framework) framework = r->format->framework;
  set_text(r, "framework", framework, NULL);
  drop_unknown_choices(r, framework);
}
