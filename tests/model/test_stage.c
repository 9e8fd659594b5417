#include "tests/model/framework_case.h"

#include "model/geometry.h"

struct pipe {
  struct spp_arch *arch;
  struct spp_job job;
  struct spp_layout layout;
  struct spp_geometry g;
};

static struct pipe pipeline(const char *framework, int64_t layers, int64_t pp, int64_t vpp,
                            int64_t micro_batches, enum spp_schedule schedule) {
  struct pipe p;
  p.arch = case_heads(32, 8);
  p.arch->layers = p.arch->kinds[0].count = layers;
  p.job = case_job(p.arch, framework, pp, 4096);
  p.layout = case_layout(&p.job, 1, pp, 1);
  p.layout.vpp = vpp;
  p.layout.grad_accum = micro_batches;
  p.layout.schedule = schedule;
  spp_geometry_resolve(&p.job, &p.layout, &p.g);
  return p;
}

/* NVIDIA/Megatron-LM schedules.py: 1F1B warm-up pp-r-1; interleaved warm-up 2(pp-r-1) + (vpp-1) pp chunks,
 * one more alive: pp 4, vpp 2: rank 0 holds 11 chunks of half a stage = 5.5, rank 3 holds 5 = 2.5. */
static void stages_keep_the_micro_batches_of_their_schedule(void **state) {
  static const struct {
    int64_t pp, vpp, micro_batches;
    enum spp_schedule schedule;
    int64_t rank, num, den;
  } rows[] = {
      {4, 1, 64, SPP_SCHEDULE_1F1B, 0, 4, 1},         {4, 1, 64, SPP_SCHEDULE_1F1B, 1, 3, 1},
      {4, 1, 64, SPP_SCHEDULE_1F1B, 2, 2, 1},         {4, 1, 64, SPP_SCHEDULE_1F1B, 3, 1, 1},
      {4, 1, 2, SPP_SCHEDULE_1F1B, 0, 2, 1},          {1, 1, 64, SPP_SCHEDULE_1F1B, 0, 1, 1},
      {4, 2, 64, SPP_SCHEDULE_INTERLEAVED, 0, 11, 2}, {4, 2, 64, SPP_SCHEDULE_INTERLEAVED, 3, 5, 2},
      {4, 2, 4, SPP_SCHEDULE_INTERLEAVED, 0, 8, 2},   {4, 1, 16, SPP_SCHEDULE_GPIPE, 3, 16, 1},
      {4, 1, 64, SPP_SCHEDULE_ZB_H1, 1, 3, 1},        {4, 1, 64, SPP_SCHEDULE_ZB_H2, 0, 7, 1},
      {4, 1, 64, SPP_SCHEDULE_ZB_H2, 3, 1, 1},        {4, 1, 5, SPP_SCHEDULE_ZB_H2, 0, 5, 1},
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct pipe p =
        pipeline("megatron-lm", 32, rows[i].pp, rows[i].vpp, rows[i].micro_batches, rows[i].schedule);
    struct spp_stage stage;
    spp_stage_resolve(&p.job, &p.layout, &p.g, rows[i].rank, &stage);
    expect_note("%s pp %d vpp %d m %d rank %d", spp_schedule_name(rows[i].schedule), (int)rows[i].pp,
                (int)rows[i].vpp, (int)rows[i].micro_batches, (int)rows[i].rank);
    expect_i64(stage.in_flight_num, rows[i].num);
    expect_i64(stage.in_flight_den, rows[i].den);
  }
  expect_note("%s", "");
}

/* 30 layers over 4: 7 each and 2 left: to the last two stages; torchtitan counts embedding and head as a
 * layer each (32/4 = 8: 7, 8, 8, 7); vLLM gives them to the inner stages from the last but one backwards. */
static void left_over_layers_go_where_the_framework_puts_them(void **state) {
  static const struct {
    const char *framework;
    int64_t layers, counts[4];
  } rows[] = {{"megatron-lm", 30, {7, 7, 8, 8}}, {"torchtitan", 30, {7, 8, 8, 7}},
              {"torchtitan", 31, {8, 8, 8, 7}},  {"vllm", 30, {7, 8, 8, 7}},
              {"vllm", 29, {7, 7, 8, 7}},        {"megatron-lm", 32, {8, 8, 8, 8}}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct pipe p = pipeline(rows[i].framework, rows[i].layers, 4, 1, 8, SPP_SCHEDULE_1F1B);
    int64_t first = 0;
    expect_note("%s %d layers", rows[i].framework, (int)rows[i].layers);
    for (int64_t r = 0; r < 4; r++) {
      struct spp_stage stage;
      spp_stage_resolve(&p.job, &p.layout, &p.g, r, &stage);
      expect_i64(stage.layers, rows[i].counts[r]);
      expect_i64(stage.first_layer, first);
      expect_true(stage.first == (r == 0));
      expect_true(stage.last == (r == 3));
      first += stage.layers;
    }
  }
  expect_note("%s", "");
}

/* Whatever the split, each layer lies on exactly one stage, and the kinds add up. */
static void every_layer_lies_on_one_stage(void **state) {
  static const char *const frameworks[] = {"megatron-lm", "torchtitan", "vllm"};
  (void)state;
  for (size_t f = 0; f < 3; f++)
    for (int64_t layers = 8; layers <= 61; layers++)
      for (int64_t pp = 1; pp <= 4; pp++)
        for (int64_t vpp = 1; vpp <= 2; vpp++) {
          struct pipe p = pipeline(frameworks[f], layers, pp, vpp, 8, SPP_SCHEDULE_1F1B);
          int64_t total = 0, kinds[2] = {0, 0};
          p.arch->kind_count = 2;
          p.arch->kinds[0].count = 3;
          p.arch->kinds[1].count = layers - 3;
          for (int64_t i = 3; i < layers; i++)
            p.arch->kind_of_layer[i] = 1;
          for (int64_t r = 0; r < pp; r++) {
            struct spp_stage stage;
            spp_stage_resolve(&p.job, &p.layout, &p.g, r, &stage);
            total += stage.layers;
            kinds[0] += stage.kind_layers[0];
            kinds[1] += stage.kind_layers[1];
            expect_true(stage.layers >= 0);
          }
          expect_note("%s %d layers pp %d vpp %d", frameworks[f], (int)layers, (int)pp, (int)vpp);
          expect_i64(total, layers);
          expect_i64(kinds[0], 3);
          expect_i64(kinds[1], layers - 3);
        }
  expect_note("%s", "");
}

/* Interleaved: rank r holds chunks r and r + pp; 8 layers, pp 2, vpp 2: rank 0 has layers 0-1 and 4-5. */
static void virtual_stages_alternate(void **state) {
  (void)state;
  struct pipe p = pipeline("megatron-lm", 8, 2, 2, 8, SPP_SCHEDULE_INTERLEAVED);
  struct spp_stage stage;
  p.arch->kind_count = 2;
  for (int i = 4; i < 6; i++)
    p.arch->kind_of_layer[i] = 1;
  spp_stage_resolve(&p.job, &p.layout, &p.g, 0, &stage);
  expect_i64(stage.kind_layers[0], 2);
  expect_i64(stage.kind_layers[1], 2);
  spp_stage_resolve(&p.job, &p.layout, &p.g, 1, &stage);
  expect_i64(stage.kind_layers[0], 4);
  expect_i64(stage.first_layer, 2);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, case_setup, case_teardown)
  const struct CMUnitTest tests[] = {
      TEST(stages_keep_the_micro_batches_of_their_schedule),
      TEST(left_over_layers_go_where_the_framework_puts_them),
      TEST(every_layer_lies_on_one_stage),
      TEST(virtual_stages_alternate),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
