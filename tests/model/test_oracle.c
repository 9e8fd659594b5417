/* The model against what autograd keeps of the layers of Hugging Face transformers: tests/oracle/results,
 * recorded by tests/oracle/saved_tensors.py on a CPU. Each case must agree to the byte, but for differences
 * that the record explains tensor by tensor. */
#include "base/file.h"
#include "base/json.h"
#include "model/activations.h"
#include "model/predict.h"
#include "tests/model/timing_machines.h"

#define ORACLE  SPP_SOURCE_DIR "/tests/oracle"
#define CONFIGS SPP_SOURCE_DIR "/configs"

static struct spp_diag diag;

struct oracle {
  struct spp_arena arena;
  struct spp_gpu gpu;
  struct spp_cluster cluster;
  struct spp_calib calib;
  struct spp_framework framework; /* a copy, so that a case may say how its adapters are kept */
  struct spp_job job;
  struct spp_layout layout;
};

static void oracle_open(struct oracle *o) {
  const struct spp_framework *f = NULL;
  memset(o, 0, sizeof *o);
  spp_arena_init(&o->arena);
  o->gpu = h100_gpu();
  o->cluster = switched_cluster(50e9, true);
  o->calib = shipped_calib(&o->gpu);
  expect_status(spp_framework_load(CONFIGS, "fsdp2", &o->arena, &f, &diag), SPP_OK, &diag);
  o->framework = *f;
}

static const char *text_of(struct spp_json v, const char *key) {
  const char *text = NULL;
  expect_status(spp_json_string(spp_json_get(v, key), &text, &diag), SPP_OK, &diag);
  return text;
}
static int64_t count_of(struct spp_json v, const char *key) {
  int64_t n = 0;
  expect_status(spp_json_i64(spp_json_get(v, key), INT64_MIN / 1024, INT64_MAX / 1024, &n, &diag), SPP_OK,
                &diag);
  return n;
}
static bool flag_of(struct spp_json v, const char *key) {
  bool on = false;
  expect_status(spp_json_bool(spp_json_get(v, key), &on, &diag), SPP_OK, &diag);
  return on;
}

static unsigned targets_of(struct spp_json list) {
  static const char *const names[] = {"q", "k", "v", "o", "gate", "up", "down"};
  unsigned targets = 0;
  for (struct spp_json t = spp_json_first(list); t.node; t = spp_json_next(t)) {
    const char *name = NULL;
    expect_status(spp_json_string(t, &name, &diag), SPP_OK, &diag);
    for (unsigned i = 0; i < 7; i++)
      if (strcmp(name, names[i]) == 0) targets |= 1U << i;
  }
  return targets;
}

static enum spp_attention_impl attention_of(const char *word) {
  for (int i = 0; i < SPP_ATTN_IMPL_COUNT; i++)
    if (strcmp(word, spp_attention_impl_name((enum spp_attention_impl)i)) == 0)
      return (enum spp_attention_impl)i;
  fail_msg("%s is no attention", word);
  return SPP_ATTN_EAGER;
}

static void read_adapters(struct oracle *o, struct spp_json c, struct spp_job_spec *spec) {
  if (strcmp(text_of(c, "method"), "full") == 0) {
    spec->method = SPP_METHOD_FULL;
    return;
  }
  spec->method = strcmp(text_of(c, "method"), "qlora") == 0 ? SPP_METHOD_QLORA : SPP_METHOD_LORA;
  spec->lora_rank = count_of(c, "rank");
  expect_status(spp_json_real(spp_json_get(c, "dropout"), 0, 1, &spec->lora_dropout, &diag), SPP_OK, &diag);
  spec->lora_targets = targets_of(spp_json_get(c, "targets"));
  o->framework.lora_fp32_adapters = flag_of(c, "fp32_adapters");
  o->framework.lora_autocast = flag_of(c, "autocast");
}

/* A job in bf16 on one GPU, of the model whose config.json is at `path`. */
static void clear_spec(struct oracle *o, struct spp_job_spec *spec, const char *path) {
  spp_job_spec_clear(spec);
  expect_status(spp_arch_load(CONFIGS, path, &o->arena, &spec->arch, &diag), SPP_OK, &diag);
  spec->gpu = &o->gpu;
  spec->cluster = &o->cluster;
  spec->calib = &o->calib;
  spec->gpus = spec->global_batch = 1;
  spec->dtype = SPP_DTYPE_BF16;
  spec->kernels = SPP_KERNELS_EAGER;
}

/* All sequences in one micro-batch. */
static void complete(struct oracle *o, const struct spp_job_spec *spec, enum spp_recompute recompute) {
  struct spp_request request;
  expect_status(spp_job_resolve(spec, &o->framework, &o->job, &diag), SPP_OK, &diag);
  spp_request_clear(&request);
  request.micro_batch = spec->global_batch;
  request.zero = 0;
  request.recompute = (int)recompute;
  expect_status(spp_layout_complete(&o->job, &request, &o->layout, &diag), SPP_OK, &diag);
}

static void read_case(struct oracle *o, struct spp_json c) {
  struct spp_job_spec spec;
  char path[1024];
  bool whole = strcmp(text_of(c, "checkpointing"), "none") == 0;
  snprintf(path, sizeof path, ORACLE "/configs/%s", text_of(c, "config"));
  clear_spec(o, &spec, path);
  spec.seq_tokens = count_of(c, "tokens");
  spec.global_batch = count_of(c, "sequences");
  spec.attention = (int)attention_of(text_of(c, "attention"));
  read_adapters(o, c, &spec);
  complete(o, &spec, whole ? SPP_RECOMPUTE_NONE : SPP_RECOMPUTE_FULL);
}

static void list_of(const struct oracle *o, struct spp_kept_list *list) {
  struct spp_geometry g;
  spp_geometry_resolve(&o->job, &o->layout, &g);
  spp_kept_layer(&o->job, &o->layout, &g, &o->job.arch->kinds[o->job.arch->kind_of_layer[1]], list);
}

/* An explanation names a module that was counted, or a tensor of the model's own list. */
static bool names_a_tensor(const struct oracle *o, struct spp_json c, const char *name) {
  struct spp_kept_list list;
  struct spp_json rows = spp_json_get(c, "tensors");
  for (struct spp_json t = spp_json_first(rows); t.node; t = spp_json_next(t)) {
    const char *module = text_of(t, "tensor");
    size_t length = strlen(module);
    if (strncmp(name, module, length) == 0 && name[length] == ' ') return true;
  }
  list_of(o, &list);
  for (int i = 0; i < list.count; i++)
    if (strcmp(list.items[i].tensor->name, name) == 0) return true;
  return false;
}

/* Signed bytes by which the count may exceed the prediction: each a tensor with a reason. */
static int64_t explained_bytes(const struct oracle *o, struct spp_json c) {
  int64_t bytes = 0;
  struct spp_json list = spp_json_get(c, "explained");
  for (struct spp_json e = spp_json_first(list); e.node; e = spp_json_next(e)) {
    bytes += count_of(e, "bytes");
    expect_true(names_a_tensor(o, c, text_of(e, "tensor")));
    expect_true(strlen(text_of(e, "why")) > 20);
  }
  return bytes;
}

static void print_case(const struct oracle *o, struct spp_json c, int64_t predicted, int64_t counted) {
  struct spp_kept_list list;
  list_of(o, &list);
  print_error("%s %s: predicted %" PRId64 ", counted %" PRId64 ", difference %" PRId64 "\n",
              text_of(c, "config"), text_of(c, "id"), predicted, counted, predicted - counted);
  for (int i = 0; i < list.count; i++)
    print_error("  %-36s %s %" PRId64 " x %" PRId64 "\n", list.items[i].tensor->name,
                spp_dtype_name(list.items[i].dtype), list.items[i].rows, list.items[i].cols);
}

/* Both lists of the record must add up to what the record says, too. */
static int64_t counted_bytes(struct spp_json c) {
  int64_t bytes = 0;
  struct spp_json list = spp_json_get(c, "tensors");
  for (struct spp_json t = spp_json_first(list); t.node; t = spp_json_next(t))
    bytes += count_of(t, "bytes");
  expect_i64(bytes, count_of(c, "layer_bytes"));
  expect_i64(bytes, count_of(c, "growth_bytes"));       /* hooks, two layers minus one */
  expect_i64(bytes, count_of(c, "alive_growth_bytes")); /* storages alive, two layers minus one */
  return bytes;
}

static bool check_case(struct spp_json c) {
  struct oracle o;
  struct spp_prediction p;
  expect_note("%s %s", text_of(c, "config"), text_of(c, "id"));
  oracle_open(&o);
  read_case(&o, c);
  spp_predict(&o.job, &o.layout, NULL, &p);
  int64_t counted = counted_bytes(c) - explained_bytes(&o, c);
  int64_t predicted = p.memory.checkpoint_bytes[o.job.arch->kind_of_layer[1]];
  if (predicted != counted) print_case(&o, c, predicted, counted);
  spp_arena_free(&o.arena);
  return predicted == counted;
}

static void layers_keep_what_transformers_keeps(void **state) {
  (void)state;
  struct spp_names files;
  int cases = 0, wrong = 0;
  expect_status(spp_dir_list(ORACLE "/results", ".json", &files, &diag), SPP_OK, &diag);
  for (int i = 0; i < files.count; i++) {
    struct spp_json_doc *doc = NULL;
    char path[1024];
    snprintf(path, sizeof path, ORACLE "/results/%s", files.names[i]);
    expect_status(spp_json_load(path, &doc, &diag), SPP_OK, &diag);
    struct spp_json list = spp_json_get(spp_json_root(doc), "cases");
    for (struct spp_json c = spp_json_first(list); c.node; c = spp_json_next(c), cases++)
      wrong += !check_case(c);
    spp_json_free(doc);
  }
  spp_names_free(&files);
  expect_note("%d of %d cases", wrong, cases);
  expect_true(cases > 300);
  expect_i64(wrong, 0);
  expect_note("%s", "");
}

/* The loss's largest moment, in its backward; hidden states and the head do not matter. */
static void check_loss(struct spp_json c) {
  struct oracle o;
  struct spp_prediction p;
  struct spp_job_spec spec;
  struct spp_arch arch;
  const char *path = text_of(c, "path");
  expect_note("%s, %" PRId64 " tokens", path, count_of(c, "tokens"));
  oracle_open(&o);
  o.framework.keeps_logits_reference = flag_of(c, "logits_referenced");
  clear_spec(&o, &spec, ORACLE "/configs/llama-small.json");
  arch = *spec.arch;
  arch.vocab = count_of(c, "vocab");
  spec.arch = &arch;
  spec.seq_tokens = count_of(c, "tokens");
  spec.method = flag_of(c, "head_trained") ? SPP_METHOD_FULL : SPP_METHOD_LORA;
  enum spp_loss_path forced =
      strcmp(path, spp_loss_path_name(SPP_LOSS_HF_FULL)) == 0 ? SPP_LOSS_HF_FULL : SPP_LOSS_SP_16BIT;
  expect_str(path, spp_loss_path_name(forced));
  spec.loss = (int)SPP_LOSS_CHOICE_COUNT + (int)forced;
  complete(&o, &spec, SPP_RECOMPUTE_NONE);
  spp_predict(&o.job, &o.layout, NULL, &p);
  int64_t explained = 0;
  struct spp_json list = spp_json_get(c, "explained");
  for (struct spp_json e = spp_json_first(list); e.node; e = spp_json_next(e))
    explained += count_of(e, "bytes");
  expect_true(explained <= 24); /* scalars */
  expect_i64(p.memory.logits_bytes, count_of(c, "backward_bytes") - explained);
  expect_true(count_of(c, "forward_bytes") < count_of(c, "backward_bytes"));
  spp_arena_free(&o.arena);
}

static void losses_hold_what_torch_holds(void **state) {
  (void)state;
  struct spp_json_doc *doc = NULL;
  int cases = 0;
  expect_status(spp_json_load(ORACLE "/losses/loss.json", &doc, &diag), SPP_OK, &diag);
  struct spp_json list = spp_json_get(spp_json_root(doc), "cases");
  for (struct spp_json c = spp_json_first(list); c.node; c = spp_json_next(c), cases++)
    check_loss(c);
  expect_true(cases >= 16);
  spp_json_free(doc);
  expect_note("%s", "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(layers_keep_what_transformers_keeps),
      cmocka_unit_test(losses_hold_what_torch_holds),
  };
  int failed = cmocka_run_group_tests_name("oracle", tests, NULL, NULL);
  return failed != 0;
}
