/* A made-up planner for the tests of the interface: fixed plans of round numbers, so that screens do not
 * change when the model does. */
#ifndef SPP_TESTS_TUI_FAKE_H
#define SPP_TESTS_TUI_FAKE_H

#include "tests/expect.h"

#include <stdlib.h>

#include "tui/draw.h"

enum { FAKE_PLANS = 6 };
#define FAKE_GIB (INT64_C(1) << 30)

struct fake {
  struct spp_arch arch;
  struct spp_gpu gpu;
  struct spp_cluster cluster;
  struct spp_framework frameworks[2];
  struct spp_plan plans[FAKE_PLANS];
  int pareto[2];
  struct spp_compare_row rows[3];
  struct spp_tui_outcome outcome;
  struct spp_tui_host host;
  struct spp_app app;
};

static const char *const fake_models[] = {"llama-3.1-8b", "qwen2.5-14b", "qwen2.5-7b"};
static const char *const fake_options[] = {"model", "seq", "gpus", "gpu", "method", "tp", "packing"};
static const struct spp_tensor fake_tensors[] = {
    {"weights", SPP_PART_WEIGHTS, "every parameter, in bf16"},
    {"attention output", SPP_PART_ACTIVATIONS, "saved by flash attention and the output projection"},
    {"logits", SPP_PART_LOGITS, "input of the loss"},
};

__attribute__((unused)) static enum spp_status fake_check(void *self, const char *option, const char *text,
                                                          struct spp_diag *diag) {
  bool known = false;
  (void)self;
  for (size_t i = 0; i < sizeof fake_options / sizeof fake_options[0]; i++)
    known = known || strcmp(option, fake_options[i]) == 0;
  known = known || spp_form_find(option) >= 0;
  if (!known) return spp_diag_set(diag, SPP_ERR_USAGE, NULL, "Tab lists them", "no option '%s'", option);
  if (!*text && strcmp(option, "packing") != 0)
    return spp_diag_set(diag, SPP_ERR_USAGE, option, "give one", "empty value");
  if (strcmp(option, "seq") == 0 && strspn(text, "0123456789km") != strlen(text))
    return spp_diag_set(diag, SPP_ERR_USAGE, "seq", "write 32k", "'%s' is no number of tokens", text);
  if (strcmp(option, "gpus") == 0 && atoll(text) > 1024)
    return spp_diag_set(diag, SPP_ERR_USAGE, "gpus", "at most 1,024", "too many");
  return SPP_OK;
}
__attribute__((unused)) static const char *fake_option(void *self, int i) {
  (void)self;
  return i < (int)(sizeof fake_options / sizeof fake_options[0]) ? fake_options[i] : NULL;
}
__attribute__((unused)) static const char *fake_choice(void *self, const char *option, int i) {
  (void)self;
  if (strcmp(option, "method") == 0) return i < 2 ? (i ? "lora" : "full") : NULL;
  if (strcmp(option, "model") != 0 || i < 0 || i >= 3) return NULL;
  return fake_models[i];
}
__attribute__((unused)) static void fake_details(void *self, const struct spp_plan *plan,
                                                 struct spp_plan_details *details) {
  (void)self;
  memset(details, 0, sizeof *details);
  details->plan = plan;
  details->ledger.count = 3;
  details->ledger.entries[0] = (struct spp_ledger_entry){
      &fake_tensors[0], SPP_DTYPE_BF16, 1 << 20, 1 << 12, 1, 8 * FAKE_GIB, SPP_LIVE_ALWAYS, 0};
  details->ledger.entries[1] = (struct spp_ledger_entry){&fake_tensors[1], SPP_DTYPE_BF16,    8192, 4096, 32,
                                                         2 * FAKE_GIB,     SPP_LIVE_BACKWARD, 0};
  details->ledger.entries[2] = (struct spp_ledger_entry){
      &fake_tensors[2], SPP_DTYPE_FP32, 8192, 131072, 1, 4 * FAKE_GIB, SPP_LIVE(SPP_MOMENT_LOSS), 0};
  details->warning_count = details->next_count = 1;
  snprintf(details->warnings[0].text, sizeof details->warnings[0].text,
           "a data parallel rank holds whole sequences");
  snprintf(details->next[0].text, sizeof details->next[0].text, "chunked loss: -3.0 GiB, same speed");
}

/* Plan i: 10 (i + 1) GiB of 80, 1000 (10 - i) tokens a second a GPU, a step of 1 + i seconds. */
__attribute__((unused)) static void fake_plan(struct fake *fake, int i) {
  struct spp_plan *plan = &fake->plans[i];
  struct spp_memory *memory = &plan->prediction.memory;
  struct spp_time *time = &plan->prediction.time;
  plan->job = (struct spp_job){.arch = &fake->arch,
                               .gpu = &fake->gpu,
                               .cluster = &fake->cluster,
                               .framework = &fake->frameworks[i % 2],
                               .gpus = 8,
                               .seq_tokens = 32768,
                               .global_batch = 8};
  plan->layout = spp_layout_plain();
  plan->layout.dp = 8 >> (i % 3);
  plan->layout.ulysses = 1 << (i % 3);
  plan->layout.sp_kind = i % 3 ? SPP_SP_ULYSSES : SPP_SP_NONE;
  plan->layout.zero = 3;
  plan->layout.recompute = SPP_RECOMPUTE_FULL;
  plan->layout.grad_accum = 1 << (i % 3);
  memory->parts[SPP_PART_WEIGHTS] = 8 * FAKE_GIB;
  memory->parts[SPP_PART_ACTIVATIONS] = (10 * (i + 1) - 9) * FAKE_GIB;
  memory->parts[SPP_PART_CONTEXT] = 1 * FAKE_GIB;
  memory->device_bytes = 10 * (i + 1) * FAKE_GIB;
  memory->peak_bytes = memory->reserved_bytes = memory->device_bytes - FAKE_GIB;
  memory->low_bytes = memory->device_bytes - 2 * FAKE_GIB;
  memory->high_bytes = memory->device_bytes + 2 * FAKE_GIB;
  memory->capacity_bytes = 80 * FAKE_GIB;
  memory->fits = memory->host_fits = true;
  memory->fit_probability = 1;
  memory->peak_moment = SPP_MOMENT_LOSS;
  for (int phase = 0; phase < SPP_PHASE_COUNT; phase++)
    memory->phase_bytes[phase] = (phase == SPP_PHASE_LOSS ? 10 * (i + 1) : 8) * FAKE_GIB;
  time->step_s = 1 + i;
  time->low_s = 0.9 * time->step_s;
  time->high_s = 1.1 * time->step_s;
  time->compute_s = 0.5 * time->step_s;
  time->attention_s = 0.25 * time->step_s;
  time->dp_exposed_s = 0.125 * time->step_s;
  time->optimizer_s = 0.125 * time->step_s;
  time->tokens_per_s_per_gpu = 1000 * (10 - i);
  time->tokens_per_s = 8 * time->tokens_per_s_per_gpu;
  time->mfu_causal = 0.4;
  time->mfu_full = 0.5;
  plan->prediction.geometry.real_tokens = 8 * 32768;
  plan->prediction.comm.count = 1;
  plan->prediction.comm.ops[0] = (struct spp_comm_op){.op = SPP_ALL_GATHER,
                                                      .what = "weights",
                                                      .group = SPP_GROUP_DP,
                                                      .ranks = 8,
                                                      .pass = SPP_PASS_FORWARD,
                                                      .per = SPP_PER_LAYER,
                                                      .count_per_step = 32,
                                                      .sent_bytes = 100000000,
                                                      .messages = 1,
                                                      .message_bytes = 100000000,
                                                      .overlap = SPP_OVERLAP_FORWARD,
                                                      .time_s = 0.5,
                                                      .exposed_s = 0.125};
  plan->prediction.comm.sent_bytes_per_step = INT64_C(3200000000);
}

__attribute__((unused)) static void fake_compare(struct fake *fake) {
  static const char *const names[] = {"none", "ulysses 4", "ring 8 zigzag"};
  struct spp_tui_outcome *outcome = &fake->outcome;
  outcome->has_compare = true;
  outcome->compare.rows = fake->rows;
  outcome->compare.count = 3;
  for (int i = 0; i < 3; i++) {
    snprintf(fake->rows[i].name, sizeof fake->rows[i].name, "%s", names[i]);
    fake->rows[i].legal = i < 2;
    fake->rows[i].plan = fake->plans[i];
  }
  snprintf(fake->rows[2].why_not, sizeof fake->rows[2].why_not, "8 does not divide 4 KV heads");
  for (int i = 0; i < SPP_COMPARE_LENGTHS; i++) { /* of 8 GPUs; from 4,096 << 2 the second is faster */
    fake->rows[0].tokens_per_s_at[i] = i < 5 ? 8 * (10000 - 2000 * i) : 0;
    fake->rows[1].tokens_per_s_at[i] = 8 * (8000 - 700 * i);
  }
  outcome->compare.crossover_count = 1;
  outcome->compare.crossovers[0] = (struct spp_crossover){"none", "ulysses 4", 4096 << 2};
}

/* A step of two micro-batches, each a forward of two layers with a ring of two hops, and a backward. */
__attribute__((unused)) static void fake_timeline(void *self, const struct spp_plan *plan,
                                                  struct spp_timeline *t) {
  double unit = plan->prediction.time.step_s / 8;
  (void)self;
  *t = (struct spp_timeline){.process_count = 1, .stages = 1, .layered = 1, .length_s = 8 * unit};
  t->slices = calloc(32, sizeof *t->slices);
  for (int m = 0; m < 2; m++) {
    double at = 3.5 * unit * m;
    t->slices[t->count++] =
        (struct spp_slice){0, SPP_LANE_SCHEDULE, "forward", m, -1, 0, 0, at, 1.5 * unit, 0};
    t->slices[t->count++] =
        (struct spp_slice){0, SPP_LANE_SCHEDULE, "backward", m, -1, 0, 0, at + 1.5 * unit, 2 * unit, 0};
    for (int layer = 0; layer < 2; layer++, at += 0.75 * unit) {
      t->slices[t->count++] =
          (struct spp_slice){0, SPP_LANE_COMPUTE, "forward", m, layer, 0, 0, at, 0.25 * unit, 0};
      for (int i = 0; i < 2; i++)
        t->slices[t->count++] = (struct spp_slice){0, SPP_LANE_ATTENTION,         "forward",   m, layer, i,
                                                   2, at + 0.25 * unit * (i + 1), 0.25 * unit, 0};
      t->slices[t->count++] = (struct spp_slice){0,
                                                 SPP_LANE_COMM + SPP_GROUP_RING,
                                                 "k and v",
                                                 m,
                                                 layer,
                                                 0,
                                                 2,
                                                 at + 0.25 * unit,
                                                 0.375 * unit,
                                                 0.125 * unit};
    }
    t->slices[t->count++] = (struct spp_slice){0, SPP_LANE_COMPUTE, "backward", m, -1, 0, 0, at, 2 * unit, 0};
  }
  t->slices[t->count++] =
      (struct spp_slice){0, SPP_LANE_OPTIMIZER, "optimizer step", -1, -1, 0, 0, 7 * unit, unit, 0};
}

/* The app with an answer, as after the first search. Free with fake_free(). */
__attribute__((unused)) static struct fake *fake_make(int rows, int cols) {
  struct fake *fake = calloc(1, sizeof *fake);
  assert_non_null(fake);
  snprintf(fake->arch.name, sizeof fake->arch.name, "qwen2.5-7b");
  snprintf(fake->arch.display, sizeof fake->arch.display, "Qwen2.5-7B");
  snprintf(fake->gpu.display, sizeof fake->gpu.display, "H100-80GB");
  snprintf(fake->frameworks[0].name, sizeof fake->frameworks[0].name, "ms-swift");
  snprintf(fake->frameworks[0].display, sizeof fake->frameworks[0].display, "ms-swift");
  snprintf(fake->frameworks[1].name, sizeof fake->frameworks[1].name, "deepspeed");
  snprintf(fake->frameworks[1].display, sizeof fake->frameworks[1].display, "DeepSpeed");
  for (int i = 0; i < FAKE_PLANS; i++)
    fake_plan(fake, i);
  fake->pareto[1] = 2;
  fake->outcome.status = SPP_OK;
  fake->outcome.search = (struct spp_search_result){.plans = fake->plans,
                                                    .count = FAKE_PLANS,
                                                    .top_count = 4,
                                                    .pareto = fake->pareto,
                                                    .pareto_count = 2,
                                                    .layouts = 1234};
  fake_compare(fake);
  fake->host = (struct spp_tui_host){.self = fake,
                                     .check = fake_check,
                                     .option = fake_option,
                                     .choice = fake_choice,
                                     .details = fake_details,
                                     .timeline = fake_timeline};
  spp_app_init(&fake->app, &fake->host);
  spp_words_set(&fake->app.words, "model", "qwen2.5-7b");
  spp_words_set(&fake->app.words, "seq", "32k");
  spp_words_set(&fake->app.words, "gpus", "8");
  spp_app_handle(&fake->app, &(struct spp_event){.kind = SPP_EVENT_RESIZE, .rows = rows, .cols = cols});
  spp_app_handle(&fake->app, &(struct spp_event){.kind = SPP_EVENT_OUTCOME, .outcome = &fake->outcome});
  return fake;
}

__attribute__((unused)) static void fake_free(struct fake *fake) {
  spp_app_free(&fake->app);
  free(fake);
}

__attribute__((unused)) static unsigned press(struct fake *fake, int key) {
  return spp_app_handle(&fake->app, &(struct spp_event){.kind = SPP_EVENT_KEY, .key = key});
}
__attribute__((unused)) static unsigned type(struct fake *fake, const char *text) {
  unsigned effects = 0;
  for (; *text; text++)
    effects |= press(fake, (unsigned char)*text);
  return effects;
}

#endif
