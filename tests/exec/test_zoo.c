/* Every model of the zoo, made small, trains like one rank and uses what is predicted, each on the next of a
 * few layouts so that families meet layouts. What the engine cannot run stands in a list, with the reason. */
#include <string.h>

#include "exec/validate.h"
#include "exec/weights.h"
#include "tests/exec/ranks.h"

static const char *const scale =
    "layers=2,hidden=64,ffn=128,heads=4,kv-heads=2,head-dim=16,vocab=128,experts=4,experts-per-token=2,"
    "expert-ffn=48";

/* Models by the start of their name, and what is said of them. */
static const struct {
  const char *name, *reason;
} refused[] = {
    {"llama4-scout", "norms of q and k without weights"},
};
static const char *reason_of(const char *name) {
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
    if (strncmp(name, refused[i].name, strlen(refused[i].name)) == 0) return refused[i].reason;
  return NULL;
}

static const struct zoo_layout {
  const char *name;
  struct spp_layout layout;
  enum spp_dtype dtype;
} layouts[] = {
#define LAYOUT(...)                                                                                          \
  { .recompute_layers = SPP_UNSET, __VA_ARGS__ }
    {"TP 2 + SP", LAYOUT(.tp = 2, .megatron_sp = true), SPP_DTYPE_FP32},
    {"Ulysses 2", LAYOUT(.ulysses = 2, .sp_kind = SPP_SP_ULYSSES), SPP_DTYPE_FP32},
    {"PP 2, attention and norms again",
     LAYOUT(.pp = 2, .grad_accum = 3, .recompute = SPP_RECOMPUTE_SELECTIVE,
            .recompute_modules = SPP_RC_CORE_ATTN | SPP_RC_LAYERNORM),
     SPP_DTYPE_FP32},
    {"ring 2", LAYOUT(.ring = 2, .sp_kind = SPP_SP_RING), SPP_DTYPE_FP32},
    {"DP 2, ZeRO-3, recompute", LAYOUT(.dp = 2, .zero = 3, .recompute = SPP_RECOMPUTE_FULL), SPP_DTYPE_FP32},
    {"TP 2", LAYOUT(.tp = 2), SPP_DTYPE_BF16},
    {"all-gather 2, ZeRO-2", LAYOUT(.ring = 2, .sp_kind = SPP_SP_ALLGATHER, .zero = 2), SPP_DTYPE_FP32},
#undef LAYOUT
};
enum { LAYOUTS = sizeof layouts / sizeof layouts[0] };

/* A degree of 0 is 1. */
static struct spp_layout layout_of(const struct zoo_layout *z) {
  struct spp_layout l = spp_layout_plain();
  const struct spp_layout *from = &z->layout;
  if (from->tp > 0) l.tp = from->tp;
  if (from->pp > 0) l.pp = from->pp;
  if (from->dp > 0) l.dp = from->dp;
  if (from->ulysses > 0) l.ulysses = from->ulysses;
  if (from->ring > 0) l.ring = from->ring;
  if (from->grad_accum > 0) l.grad_accum = from->grad_accum;
  l.sp_kind = from->sp_kind;
  l.megatron_sp = from->megatron_sp;
  l.zero = from->zero;
  l.recompute = from->recompute;
  l.recompute_modules = from->recompute_modules;
  l.recompute_layers = from->recompute_layers;
  return l;
}

/* Dense layers and layers of experts in a stage: the prediction of memory is an upper bound. */
static bool is_mixed(const struct spp_arch *a) {
  for (int k = 1; k < a->kind_count; k++)
    if (a->kinds[k].moe != a->kinds[0].moe) return true;
  return false;
}

static bool passes(const struct spp_arch *arch, const struct spp_validate_result *r) {
  bool bounded = is_mixed(arch) && r->memory.measured_bytes <= r->memory.predicted_bytes;
  return r->numerics.ok && r->comm.ok && (r->memory.ok || bounded);
}

static void print_parts(const struct spp_validate_result *r) {
  print_message("  loss %.6f error %.1e gradients %.1e weights %.1e of %.1e, bytes sent %lld, %lld\n",
                r->numerics.loss, r->numerics.loss_rel_error, r->numerics.grad_rel_error,
                r->numerics.output_rel_error, r->numerics.tolerance, (long long)r->comm.predicted_sent_bytes,
                (long long)r->comm.measured_sent_bytes);
  for (int p = 0; p < SPP_PART_COUNT; p++)
    if (r->memory.predicted_parts[p] != r->memory.measured_parts[p])
      print_message("  %s predicted %lld measured %lld\n", spp_part_name((enum spp_part)p),
                    (long long)r->memory.predicted_parts[p], (long long)r->memory.measured_parts[p]);
}

/* Runs it on the first layout from `turn` on that is legal for it; the next turn. */
static int run_model(const char *name, const struct spp_arch *arch, int turn) {
  static struct spp_validate_result result;
  struct spp_diag diag = {.status = SPP_OK};
  for (int i = 0; i < LAYOUTS; i++) {
    const struct zoo_layout *z = &layouts[(turn + i) % LAYOUTS];
    struct spp_validate_case c = {.name = name, .steps = 2, .setting = {.arch = arch, .seq_tokens = 32}};
    c.setting.layout = layout_of(z);
    c.setting.dtype = z->dtype;
    expect_note("%s on %s", name, z->name);
    enum spp_status status =
        spp_validate_run(SPP_SOURCE_DIR "/configs", &spp_backend_self, &c, &result, &diag);
    if (status == SPP_ERR_USAGE || status == SPP_ERR_ABSENT) continue;
    expect_status(status, SPP_OK, &diag);
    if (!passes(arch, &result)) print_parts(&result);
    expect_true(passes(arch, &result));
    return turn + i + 1;
  }
  expect_status(diag.status, SPP_OK, &diag);
  return turn;
}

static void every_model_of_the_zoo_runs_or_says_why_not(void **state) {
  struct spp_arena names_arena;
  struct spp_arch_scale small;
  struct spp_diag diag = {.status = SPP_OK};
  const char *const *names;
  int count, turn = 0, run = 0;
  (void)state;
  spp_arena_init(&names_arena);
  expect_status(spp_arch_scale_parse(scale, &small, &diag), SPP_OK, &diag);
  expect_status(spp_arch_list(SPP_SOURCE_DIR "/configs", &names_arena, &names, &count, &diag), SPP_OK, &diag);
  for (int i = 0; i < count; i++) {
    struct spp_arena arena;
    const struct spp_arch *arch;
    const char *reason = reason_of(names[i]);
    spp_arena_init(&arena);
    expect_note("%s", names[i]);
    expect_status(spp_arch_load_scaled(SPP_SOURCE_DIR "/configs", names[i], &small, &arena, &arch, &diag),
                  SPP_OK, &diag);
    expect_status(spp_arch_language_model(arch, &arena, &arch, &diag), SPP_OK, &diag);
    enum spp_status status = spp_weights_supported(arch, &diag);
    expect_status(status, reason ? SPP_ERR_ABSENT : SPP_OK, &diag);
    if (reason) expect_true(strstr(diag.what, reason) != NULL);
    if (!reason) {
      turn = run_model(names[i], arch, turn);
      run++;
    }
    spp_arena_free(&arena);
  }
  expect_note("%s", "");
  expect_true(run > count / 2);
  spp_arena_free(&names_arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_model_of_the_zoo_runs_or_says_why_not)};
  return test_end(cmocka_run_group_tests(tests, NULL, NULL));
}
