/* Image tokens: expected values are those of smart_resize and get_best_fit of huggingface/transformers 5.24
 * (qwen2_vl/image_processing_qwen2_vl.py, llama4/image_processing_llama4.py), run on the same sizes. */
#include "model/vision.h"

#include "base/arena.h"
#include "tests/expect.h"

#define CONFIGS SPP_SOURCE_DIR "/configs"

static struct spp_vision tower(const char *name) {
  struct spp_arena arena;
  struct spp_diag diag;
  const struct spp_arch *arch = NULL;
  spp_arena_init(&arena);
  expect_status(spp_arch_load(CONFIGS, name, &arena, &arch, &diag), SPP_OK, &diag);
  struct spp_vision vision = arch->vision;
  spp_arena_free(&arena);
  return vision;
}

static void qwen_images_are_resized_as_the_processor_does(void **state) {
  (void)state;
  static const struct {
    const char *model;
    int64_t height, width, min_pixels, max_pixels; /* 0 = the model's */
    int64_t resized_height, resized_width, patches, tokens;
  } cases[] = {
      {"qwen2.5-vl-7b", 1024, 1024, 0, 0, 1036, 1036, 5476, 1369},
      {"qwen2.5-vl-7b", 1024, 1024, 0, 1003520, 980, 980, 4900, 1225},
      {"qwen2.5-vl-7b", 480, 640, 0, 0, 476, 644, 1564, 391},
      {"qwen3-vl-8b", 1024, 1024, 0, 0, 1024, 1024, 4096, 1024},
      /* halves round to the even multiple: 42 = 1.5 x 28 -> 2, 70 = 2.5 x 28 -> 2, 98 = 3.5 x 28 -> 4 */
      {"qwen2-vl-7b", 42, 700, 0, 0, 56, 700, 200, 50},
      {"qwen2-vl-7b", 70, 98, 0, 0, 56, 112, 32, 8},
      /* too few pixels, too many, and nearly too long */
      {"qwen2.5-vl-7b", 20, 20, 0, 0, 56, 56, 16, 4},
      {"qwen2.5-vl-7b", 4000, 6000, 0, 0, 2912, 4368, 64896, 16224},
      {"qwen3-vl-8b", 100, 120, 65536, 16777216, 256, 288, 288, 72},
      {"qwen2.5-vl-7b", 10, 1999, 0, 0, 28, 812, 116, 29},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct spp_image_tokens t;
    struct spp_diag diag;
    expect_note("%s %dx%d", cases[i].model, (int)cases[i].height, (int)cases[i].width);
    struct spp_vision v = tower(cases[i].model);
    if (cases[i].min_pixels) v.min_pixels = cases[i].min_pixels;
    if (cases[i].max_pixels) v.max_pixels = cases[i].max_pixels;
    expect_status(spp_vision_tokens(&v, cases[i].height, cases[i].width, 1, &t, &diag), SPP_OK, &diag);
    expect_i64(t.resized_height, cases[i].resized_height);
    expect_i64(t.resized_width, cases[i].resized_width);
    expect_i64(t.patches, cases[i].patches);
    expect_i64(t.tokens, cases[i].tokens);
  }
}

/* grid_t = frames / temporal_patch_size, an odd frame out being repeated. */
static void frames_of_a_clip_are_merged_in_pairs(void **state) {
  (void)state;
  static const struct { int64_t frames, tokens; } cases[] = {{1, 391}, {2, 391}, {3, 782}, {16, 3128}};
  struct spp_vision v = tower("qwen2.5-vl-7b");
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct spp_image_tokens t;
    struct spp_diag diag;
    expect_note("%d frames", (int)cases[i].frames);
    expect_status(spp_vision_tokens(&v, 480, 640, cases[i].frames, &t, &diag), SPP_OK, &diag);
    expect_i64(t.tokens, cases[i].tokens);
  }
}

static void llama4_cuts_an_image_into_tiles_and_adds_the_whole(void **state) {
  (void)state;
  static const struct {
    int64_t height, width, tiles; /* tiles: with the whole image */
  } cases[] = {{336, 336, 1},   {100, 100, 1},    {672, 336, 3},   {480, 640, 5},
               {2000, 500, 13}, {1024, 1024, 17}, {4000, 6000, 16}};
  struct spp_vision v = tower("llama4-scout");
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct spp_image_tokens t;
    struct spp_diag diag;
    expect_note("%dx%d", (int)cases[i].height, (int)cases[i].width);
    expect_status(spp_vision_tokens(&v, cases[i].height, cases[i].width, 1, &t, &diag), SPP_OK, &diag);
    expect_i64(t.tokens, 144 * cases[i].tiles);  /* (336/14/2)^2 a tile */
    expect_i64(t.patches, 577 * cases[i].tiles); /* (336/14)^2 and a class token */
  }
}

static void shapes_the_tower_refuses_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *model, *words;
    int64_t height, width, frames;
  } cases[] = {{"qwen2.5-vl-7b", "200 times", 10, 2001, 1}, {"qwen2.5-vl-7b", "200 times", 2001, 10, 1},
               {"qwen2.5-vl-7b", "sides", 0, 10, 1},        {"qwen2.5-vl-7b", "sides", 10, 10, 0},
               {"qwen2.5-vl-7b", "sides", -1, 10, 1},       {"qwen2.5-vl-7b", "sides", INT64_MAX, 10, 1},
               {"qwen2.5-7b", "no vision tower", 10, 10, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct spp_image_tokens t = {.tokens = 7};
    struct spp_diag diag;
    expect_note("case %d", (int)i);
    struct spp_vision v = tower(cases[i].model);
    expect_status(spp_vision_tokens(&v, cases[i].height, cases[i].width, cases[i].frames, &t, &diag),
                  SPP_ERR_USAGE, &diag);
    expect_has(diag.what, cases[i].words);
    expect_i64(t.tokens, 7); /* nothing is written on failure */
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(qwen_images_are_resized_as_the_processor_does),
      cmocka_unit_test(frames_of_a_clip_are_merged_in_pairs),
      cmocka_unit_test(llama4_cuts_an_image_into_tiles_and_adds_the_whole),
      cmocka_unit_test(shapes_the_tower_refuses_are_refused),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
