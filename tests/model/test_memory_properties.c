/* Laws of the memory model over random legal jobs of every shipped framework. */
#include "tests/model/jobs.h"

static const char *const models[] = {"qwen2.5-0.5b", "qwen2.5-7b",    "qwen3-8b",    "llama3.1-8b",
                                     "mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3", "qwen2.5-vl-7b",
                                     "llama4-scout", "qwen2.5-72b"};
enum { MODELS = sizeof models / sizeof models[0], MAX_FRAMEWORKS = 32, LEGAL_JOBS = 20000, TRIES = 4000000 };

struct world {
  struct spp_arena arena;
  const struct spp_arch *arch[MODELS];
  const struct spp_framework *framework[MAX_FRAMEWORKS];
  int frameworks;
  const struct spp_gpu *gpu;
  const struct spp_cluster *cluster;
  uint64_t seed;
};

struct sample {
  struct spp_job job;
  struct spp_layout layout;
  struct spp_geometry geometry;
};

static uint64_t random_bits(struct world *w) { /* xorshift64* */
  w->seed ^= w->seed >> 12;
  w->seed ^= w->seed << 25;
  w->seed ^= w->seed >> 27;
  return w->seed * UINT64_C(2685821657736338717);
}
static int64_t pick(struct world *w, int64_t below) {
  return (int64_t)((random_bits(w) >> 33) % (uint64_t)below);
}
static int64_t power(struct world *w, int64_t largest) {
  return INT64_C(1) << pick(w, largest + 1);
}
static bool chance(struct world *w, int64_t of) {
  return pick(w, of) == 0;
}

static int open_world(void **state) {
  static struct world w;
  const char *const *names = NULL;
  int count = 0;
  struct spp_diag diag = {0};
  const char *configs = SPP_SOURCE_DIR "/configs";
  spp_arena_init(&w.arena);
  w.seed = UINT64_C(88172645463325252);
  for (int i = 0; i < MODELS; i++)
    expect_status(spp_arch_load(configs, models[i], &w.arena, &w.arch[i], &diag), SPP_OK, &diag);
  expect_status(spp_framework_list(configs, &w.arena, &names, &count, &diag), SPP_OK, &diag);
  for (int i = 0; i < count && w.frameworks < MAX_FRAMEWORKS; i++)
    expect_status(spp_framework_load(configs, names[i], &w.arena, &w.framework[w.frameworks++], &diag),
                  SPP_OK, &diag);
  expect_status(spp_gpu_load(configs, "h100-80gb", &w.arena, &w.gpu, &diag), SPP_OK, &diag);
  expect_status(spp_cluster_load(configs, NULL, w.gpu, &w.arena, &w.cluster, &diag), SPP_OK, &diag);
  *state = &w;
  return 0;
}
static int close_world(void **state) {
  spp_arena_free(&((struct world *)*state)->arena);
  return 0;
}

static void random_spec(struct world *w, struct spp_job_spec *spec) {
  spp_job_spec_clear(spec);
  spec->arch = w->arch[pick(w, MODELS)];
  spec->gpu = w->gpu;
  spec->cluster = w->cluster;
  spec->seq_tokens = chance(w, 3) ? 1 + pick(w, 300000) : 1024 * power(w, 9);
  spec->mode = chance(w, 4) ? (int)pick(w, SPP_MODE_COUNT) : SPP_MODE_TRAIN;
  spec->method = chance(w, 2) ? (int)pick(w, SPP_METHOD_COUNT) : SPP_METHOD_FULL;
  if (chance(w, 3)) spec->optimizer = (int)pick(w, SPP_OPTIMIZER_COUNT);
  if (chance(w, 4)) spec->attention = (int)pick(w, SPP_ATTN_IMPL_COUNT);
  if (chance(w, 3)) spec->kernels = (int)pick(w, 2);
  if (chance(w, 3)) spec->loss = (int)pick(w, SPP_LOSS_CHOICE_COUNT);
  if (chance(w, 8)) spec->dtype = SPP_DTYPE_FP8;
  if (chance(w, 3)) spec->packing = 1;
  if (chance(w, 3)) spec->quant = (int)pick(w, SPP_QUANT_COUNT);
  if (chance(w, 2)) spec->lora_dropout = 0.05;
  if (chance(w, 3)) spec->lora_targets = 1 + (unsigned)pick(w, 127);
  if (chance(w, 2)) {
    spec->images_per_sequence = 1;
    spec->image_patches = 4 * pick(w, 4096);
    spec->image_tokens = spec->image_patches / 4;
    spec->vision_trainable = (int)pick(w, 2);
  }
}

static void random_layout(struct world *w, struct spp_layout *l) {
  *l = spp_layout_plain();
  l->tp = chance(w, 2) ? power(w, 3) : 1;
  l->pp = chance(w, 3) ? power(w, 3) : 1;
  l->dp = power(w, 5);
  l->sp_kind = (enum spp_sp_kind)pick(w, SPP_SP_KIND_COUNT);
  if (l->sp_kind == SPP_SP_ULYSSES || l->sp_kind == SPP_SP_HYBRID) l->ulysses = 2 * power(w, 2);
  if (l->sp_kind >= SPP_SP_RING) l->ring = 2 * power(w, 2);
  if (chance(w, 2)) l->ep = power(w, 3);
  l->megatron_sp = l->tp > 1 && chance(w, 2);
  l->zero = (int)pick(w, 4);
  l->recompute = (enum spp_recompute)pick(w, SPP_RECOMPUTE_COUNT);
  l->recompute_modules = 1 + (unsigned)pick(w, 127);
  if (chance(w, 4)) l->recompute_layers = 1 + pick(w, 40);
  if (chance(w, 4)) l->recompute_unit = 1 + pick(w, 4);
  l->offload = chance(w, 3) ? (enum spp_offload)pick(w, SPP_OFFLOAD_COUNT) : SPP_OFFLOAD_NONE;
  l->schedule = chance(w, 3) ? (enum spp_schedule)pick(w, SPP_SCHEDULE_COUNT) : SPP_SCHEDULE_1F1B;
  if (l->schedule == SPP_SCHEDULE_INTERLEAVED) l->vpp = 2;
  if (l->pp > 1 && chance(w, 3)) l->last_stage_layers = 1 + pick(w, 40);
  if (l->pp > 1 && chance(w, 3)) l->first_stage_layers = 1 + pick(w, 40);
  l->micro_batch = power(w, 2);
  l->grad_accum = l->pp * power(w, 2);
}

static bool random_sample(struct world *w, struct sample *s) {
  struct spp_job_spec spec;
  random_spec(w, &spec);
  random_layout(w, &s->layout);
  spec.gpus = spp_layout_world(&s->layout);
  spec.global_batch = s->layout.micro_batch * s->layout.dp * s->layout.grad_accum;
  if (spp_job_resolve(&spec, w->framework[pick(w, w->frameworks)], &s->job, NULL) != SPP_OK) return false;
  if (spp_rules_first(&s->job, &s->layout) >= 0) return false;
  spp_geometry_resolve(&s->job, &s->layout, &s->geometry);
  return true;
}

static void predict(const struct sample *s, struct spp_memory *memory) {
  struct spp_geometry g;
  spp_geometry_resolve(&s->job, &s->layout, &g);
  spp_memory_predict(&s->job, &s->layout, &g, NULL, memory);
}

static void note(const struct sample *s) {
  char text[512];
  spp_layout_describe(&s->job, &s->layout, text, sizeof text);
  expect_note("%s, %s, %s, %s, seq %lld: %.160s", s->job.framework->name, s->job.arch->name,
              spp_method_name(s->job.method), spp_mode_name(s->job.mode), (long long)s->job.seq_tokens, text);
}

static void parts_add_up_and_none_is_negative(const struct spp_memory *m) {
  int64_t total = 0;
  for (int p = 0; p < SPP_PART_COUNT; p++) {
    expect_true(m->parts[p] >= 0);
    total = spp_sat_add(total, m->parts[p]);
  }
  expect_i64(total, m->device_bytes);
  expect_true(m->peak_bytes <= m->reserved_bytes && m->reserved_bytes <= m->device_bytes);
  expect_true(m->low_bytes <= m->device_bytes && m->device_bytes <= m->high_bytes);
  expect_true(m->fit_probability >= 0.0 && m->fit_probability <= 1.0);
  expect_true(m->phase_bytes[spp_moment_phase(m->peak_moment)] == m->device_bytes);
  for (int p = 0; p < SPP_PHASE_COUNT; p++)
    expect_true(m->phase_bytes[p] <= m->device_bytes);
}

/* The list behind the numbers: equal to the byte, part by part, at the peak. A tensor of more than 36 PB
 * makes the total all there is, and its part is held there (model/memory_sum.c). */
static void ledger_equals_fast_path(const struct sample *s, const struct spp_memory *fast) {
  static struct spp_ledger ledger;
  struct spp_memory listed;
  int64_t parts[SPP_PART_COUNT] = {0};
  spp_memory_predict(&s->job, &s->layout, &s->geometry, &ledger, &listed);
  expect_i64(listed.device_bytes, fast->device_bytes);
  expect_i64(memcmp(listed.parts, fast->parts, sizeof listed.parts), 0);
  expect_false(ledger.overflow);
  for (int i = 0; i < ledger.count; i++) {
    expect_true(ledger.entries[i].bytes > 0 && ledger.entries[i].live != 0);
    expect_i64(ledger.entries[i].stage, fast->worst_stage);
    if (ledger.entries[i].live & SPP_LIVE(fast->peak_moment))
      parts[ledger.entries[i].tensor->part] =
          spp_sat_add(parts[ledger.entries[i].tensor->part], ledger.entries[i].bytes);
  }
  for (int p = 0; p < SPP_PART_COUNT && fast->device_bytes < INT64_MAX; p++)
    expect_i64(parts[p], fast->parts[p]);
}

static void random_jobs_obey_the_books(void **state) {
  struct world *w = *state;
  int64_t legal = 0;
  struct sample s;
  struct spp_memory m;
  for (int64_t i = 0; i < TRIES && legal < LEGAL_JOBS; i++) {
    if (!random_sample(w, &s)) continue;
    legal++;
    note(&s);
    spp_memory_predict(&s.job, &s.layout, &s.geometry, NULL, &m);
    parts_add_up_and_none_is_negative(&m);
    ledger_equals_fast_path(&s, &m);
  }
  expect_note("%s", "");
  expect_i64(legal, LEGAL_JOBS);
}

static void expect_no_less(const struct sample *larger, int64_t than) {
  struct spp_memory m;
  predict(larger, &m);
  if (m.device_bytes < than)
    expect_fail_at(__FILE__, __LINE__, "%lld bytes, fewer than %lld", (long long)m.device_bytes,
                   (long long)than);
}

static void more_work_never_takes_less_memory(void **state) {
  struct world *w = *state;
  int64_t legal = 0;
  struct sample s;
  struct spp_memory m;
  for (int64_t i = 0; i < TRIES && legal < LEGAL_JOBS; i++) {
    if (!random_sample(w, &s)) continue;
    legal++;
    note(&s);
    predict(&s, &m);
    struct sample longer = s, fuller = s, deeper = s;
    longer.job.seq_tokens *= 2;
    expect_no_less(&longer, m.device_bytes);
    fuller.layout.micro_batch *= 2;
    expect_no_less(&fuller, m.device_bytes);
    if (s.job.arch->kind_count > 1) continue;
    struct spp_arch arch = *s.job.arch;
    arch.layers *= 2;
    arch.kinds[0].count *= 2;
    deeper.job.arch = &arch;
    expect_no_less(&deeper, m.device_bytes);
  }
  expect_note("%s", "");
  expect_i64(legal, LEGAL_JOBS);
}

/* Names of strategies cost nothing; only degrees do. */
static void degree_one_of_any_strategy_is_none(void **state) {
  struct world *w = *state;
  int64_t legal = 0;
  struct sample s;
  for (int64_t i = 0; i < TRIES && legal < 2000; i++) {
    if (!random_sample(w, &s) || s.layout.ulysses * s.layout.ring > 1) continue;
    legal++;
    note(&s);
    struct spp_memory none, named;
    s.layout.sp_kind = SPP_SP_NONE;
    predict(&s, &none);
    for (int kind = SPP_SP_ULYSSES; kind < SPP_SP_KIND_COUNT; kind++) {
      s.layout.sp_kind = (enum spp_sp_kind)kind;
      predict(&s, &named);
      expect_i64(memcmp(&none, &named, sizeof none), 0);
    }
    if (s.layout.tp > 1) continue;
    s.layout.megatron_sp = true;
    s.layout.sp_kind = SPP_SP_NONE;
    predict(&s, &named);
    expect_i64(named.device_bytes, none.device_bytes);
  }
  expect_note("%s", "");
  expect_i64(legal, 2000);
}

/* States of one regime: a higher stage never keeps more, and the shards together hold the whole. */
static void stages_shard_without_loss(void **state) {
  struct world *w = *state;
  for (int i = 0; i < 2000; i++) {
    struct jobs_fixture f;
    jobs_open(&f);
    jobs_train(&f, w->arch[pick(w, MODELS)], 1024);
    if (chance(w, 3)) f.job.method = SPP_METHOD_LORA;
    if (chance(w, 2)) f.job.optimizer = (enum spp_optimizer)pick(w, SPP_OPTIMIZER_COUNT);
    f.layout.dp = power(w, 6);
    f.layout.tp = f.layout.etp = power(w, 3);
    int64_t last[SPP_PART_COUNT], whole[SPP_PART_COUNT];
    for (int zero = 0; zero < 4; zero++) {
      f.layout.zero = zero;
      jobs_predict(&f);
      for (int p = SPP_PART_WEIGHTS; p <= SPP_PART_OPTIMIZER; p++) {
        if (zero == 0) whole[p] = last[p] = f.memory.resident[p];
        expect_true(f.memory.resident[p] <= last[p]);
        expect_true(f.memory.resident[p] * f.layout.dp >= whole[p]);
        last[p] = f.memory.resident[p];
      }
    }
    jobs_close(&f);
  }
}

static void tensor_parallel_shards_hold_the_whole(void **state) {
  struct world *w = *state;
  for (int m = 0; m < MODELS; m++) {
    struct jobs_fixture f;
    jobs_open(&f);
    jobs_train(&f, w->arch[m], 1024);
    jobs_predict(&f);
    int64_t whole = f.memory.resident[SPP_PART_WEIGHTS], kept = f.memory.kept_bytes[0], last = whole;
    for (f.layout.tp = 2; f.layout.tp <= 8; f.layout.tp *= 2) {
      f.layout.etp = f.layout.tp;
      jobs_predict(&f);
      expect_true(f.memory.resident[SPP_PART_WEIGHTS] <= last);
      expect_true(f.memory.resident[SPP_PART_WEIGHTS] * f.layout.tp >= whole);
      expect_true(f.memory.kept_bytes[0] * f.layout.tp >= kept);
      last = f.memory.resident[SPP_PART_WEIGHTS];
    }
    jobs_close(&f);
  }
}

static void doubling_the_sequence_doubles_what_layers_keep(void **state) {
  struct world *w = *state;
  for (int m = 0; m < MODELS; m++) {
    struct jobs_fixture f;
    jobs_open(&f);
    jobs_train(&f, w->arch[m], 4096);
    jobs_predict(&f);
    int64_t kept = f.memory.kept_bytes[0];
    f.job.seq_tokens = 8192;
    jobs_predict(&f);
    expect_i64(f.memory.kept_bytes[0], 2 * kept);
    f.layout.ulysses =
        2; /* and halving the tokens of a rank takes them back, up to the second attention output */
    f.layout.sp_kind = SPP_SP_ULYSSES;
    jobs_predict(&f);
    expect_true(f.memory.kept_bytes[0] >= kept);
    expect_true(f.memory.kept_bytes[0] <= kept + 2 * 4096 * spp_arch_o_width(w->arch[m]));
    jobs_close(&f);
  }
}

static void absurd_sizes_saturate(void **state) {
  struct world *w = *state;
  struct jobs_fixture f;
  jobs_open(&f);
  jobs_train(&f, w->arch[1], INT64_C(1) << 40);
  f.layout.micro_batch = INT64_C(1) << 20;
  jobs_predict(&f);
  expect_true(f.memory.device_bytes > INT64_C(1) << 62);
  expect_false(f.memory.fits);
  jobs_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_jobs_obey_the_books),
      cmocka_unit_test(more_work_never_takes_less_memory),
      cmocka_unit_test(degree_one_of_any_strategy_is_none),
      cmocka_unit_test(stages_shard_without_loss),
      cmocka_unit_test(tensor_parallel_shards_hold_the_whole),
      cmocka_unit_test(doubling_the_sequence_doubles_what_layers_keep),
      cmocka_unit_test(absurd_sizes_saturate),
  };
  int failed = cmocka_run_group_tests_name("memory_properties", tests, open_world, close_world);
  return failed != 0;
}
