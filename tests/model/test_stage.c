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

static int64_t stage_layers(const struct pipe *p, int64_t r) {
  struct spp_stage stage;
  spp_stage_resolve(&p->job, &p->layout, &p->g, r, &stage);
  return stage.layers;
}

/* Llama 3 405B lacks a layer on the first and last of 16 stages (arXiv 2407.21783, section 3.3.2): 7 + 14 x 8
 * + 7 = 126. DeepSeek-V3 on 16: 61 - 14 x 4 = 5 for the ends. 61 layers on 8: 8 x 6 + 7 + 6. */
static void uneven_ends_are_suggested(void **state) {
  static const struct {
    int64_t layers, pp, vpp, first, middle, last;
  } rows[] = {{126, 16, 1, 7, 8, 7}, {126, 16, 8, 7, 8, 7}, {61, 16, 1, 3, 4, 2},
              {61, 8, 1, 7, 8, 6},   {31, 2, 1, 16, 0, 15}, {94, 8, 2, 11, 12, 11}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct pipe p = pipeline("megatron-lm", rows[i].layers, rows[i].pp, rows[i].vpp, 64, SPP_SCHEDULE_1F1B);
    expect_note("%d layers on %d", (int)rows[i].layers, (int)rows[i].pp);
    expect_true(spp_stage_suggest(rows[i].layers, rows[i].pp, rows[i].vpp, &p.layout.first_stage_layers,
                                  &p.layout.last_stage_layers));
    expect_i64(stage_layers(&p, 0), rows[i].first);
    expect_i64(stage_layers(&p, rows[i].pp - 1), rows[i].last);
    for (int64_t r = 1; r < rows[i].pp - 1; r++)
      expect_i64(stage_layers(&p, r), rows[i].middle);
    expect_i64(spp_stage_most_layers(&p.job, &p.layout), spp_max64(rows[i].first, rows[i].middle));
  }
  expect_note("%s", "");
}

/* 8 chunks of 16 stages with ends that lack a layer: the very first and the very last chunk are empty, so
 * rank 0 begins with layer 15 (chunk 1) and rank 1 with layer 0. */
static void ends_that_lack_a_layer_have_an_empty_chunk(void **state) {
  (void)state;
  struct pipe p = pipeline("megatron-lm", 126, 16, 8, 64, SPP_SCHEDULE_INTERLEAVED);
  struct spp_stage stage;
  p.layout.first_stage_layers = p.layout.last_stage_layers = 7;
  p.arch->kind_count = 2;
  p.arch->kind_of_layer[0] = 1;   /* rank 1, chunk 0 */
  p.arch->kind_of_layer[15] = 1;  /* rank 0, chunk 1 */
  p.arch->kind_of_layer[125] = 1; /* rank 14, chunk 7 */
  int64_t owners[] = {0, 1, 14};
  for (int i = 0; i < 3; i++) {
    spp_stage_resolve(&p.job, &p.layout, &p.g, owners[i], &stage);
    expect_i64(stage.kind_layers[1], 1);
  }
}

/* DeepSeek-V3's three dense layers fill the first of 16 stages, which is longer than the last: the experts'
 * traffic is that of a stage between. */
static void the_busiest_stage_has_the_experts(void **state) {
  (void)state;
  struct pipe p = pipeline("megatron-lm", 61, 16, 1, 64, SPP_SCHEDULE_1F1B);
  struct spp_stage stage;
  p.layout.first_stage_layers = 3;
  p.layout.last_stage_layers = 2;
  p.arch->kind_count = 2;
  p.arch->kinds[1].moe = true;
  for (int i = 3; i < 61; i++)
    p.arch->kind_of_layer[i] = 1;
  spp_stage_busiest(&p.job, &p.layout, &p.g, &stage);
  expect_i64(stage.index, 1);
  expect_i64(stage.kind_layers[1], 4);
  p.layout.first_stage_layers = p.layout.last_stage_layers = 0; /* 3 each, 4 on the last 13 */
  spp_stage_busiest(&p.job, &p.layout, &p.g, &stage);
  expect_i64(stage.index, 15);
}

/* torchtitan counts embedding and head as a layer each: 63 over 32 is two a stage but for the last, which has
 * one. So the first holds layer 0 alone, the second 1 and 2, both dense, the last none but the head. */
static void experts_are_found_behind_two_dense_stages(void **state) {
  (void)state;
  struct pipe p = pipeline("torchtitan", 61, 32, 1, 128, SPP_SCHEDULE_1F1B);
  struct spp_stage stage;
  p.arch->kind_count = 2;
  p.arch->kinds[1].moe = true;
  for (int i = 3; i < 61; i++)
    p.arch->kind_of_layer[i] = 1;
  spp_stage_resolve(&p.job, &p.layout, &p.g, 31, &stage);
  expect_i64(stage.layers, 0);
  spp_stage_busiest(&p.job, &p.layout, &p.g, &stage);
  expect_i64(stage.index, 2);
  expect_i64(stage.kind_layers[1], 2);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, case_setup, case_teardown)
  const struct CMUnitTest tests[] = {
      TEST(stages_keep_the_micro_batches_of_their_schedule),
      TEST(left_over_layers_go_where_the_framework_puts_them),
      TEST(every_layer_lies_on_one_stage),
      TEST(virtual_stages_alternate),
      TEST(uneven_ends_are_suggested),
      TEST(ends_that_lack_a_layer_have_an_empty_chunk),
      TEST(the_busiest_stage_has_the_experts),
      TEST(experts_are_found_behind_two_dense_stages),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
