#include "tests/expect.h"

#include "base/utf8.h"
#include "report/text.h"

static const struct spp_text_style narrow = {.width = 40, .utf8 = true};

static void paragraphs_break_between_items_and_keep_room_for_the_separator(void **state) {
  struct spp_str out;
  struct spp_para para;
  (void)state;
  spp_str_init(&out);
  spp_para_begin(&para, &narrow, "comm", &out);
  spp_para_item(&para, SPP_TONE_PLAIN, "first item");
  spp_para_item(&para, SPP_TONE_PLAIN, "second item");
  spp_para_item(&para, SPP_TONE_PLAIN, "third");
  spp_para_end(&para);
  /* 11 columns of label, "first item · second item" ends in column 35; with " · third" it would be 43 */
  expect_str(spp_str_text(&out), "comm       first item · second item ·\n           third\n");
  spp_str_free(&out);
}

static void an_item_longer_than_the_line_breaks_at_blanks(void **state) {
  struct spp_str out;
  (void)state;
  spp_str_init(&out);
  spp_text_line(&narrow, "why", SPP_TONE_PLAIN, "one two three four five six seven eight nine", &out);
  expect_str(spp_str_text(&out), "why        one two three four five six\n           seven eight nine\n");
  spp_str_free(&out);
}

static void a_separator_inside_an_item_is_a_place_to_break(void **state) {
  struct spp_str a, b;
  struct spp_para para;
  (void)state;
  spp_str_init(&a);
  spp_str_init(&b);
  spp_text_line(&narrow, "x", SPP_TONE_PLAIN, "DP 2 · SP 4 (Ulysses 4) · ZeRO-3 · micro-batch 1", &a);
  spp_para_begin(&para, &narrow, "x", &b);
  spp_para_item(&para, SPP_TONE_PLAIN, "DP 2");
  spp_para_item(&para, SPP_TONE_PLAIN, "SP 4 (Ulysses 4)");
  spp_para_item(&para, SPP_TONE_PLAIN, "ZeRO-3");
  spp_para_item(&para, SPP_TONE_PLAIN, "micro-batch 1");
  spp_para_end(&para);
  expect_str(spp_str_text(&a), spp_str_text(&b));
  spp_str_free(&a);
  spp_str_free(&b);
}

/* Words of every length against every width: no line too wide, no blank at an end, no word lost. */
static void no_line_passes_the_width(void **state) {
  (void)state;
  for (int width = 60; width <= 100; width++)
    for (int length = 1; length < 45; length++) {
      struct spp_text_style style = {.width = width, .utf8 = true};
      struct spp_para para;
      struct spp_str out;
      char word[64];
      memset(word, 'w', sizeof word);
      word[length] = '\0';
      spp_str_init(&out);
      spp_para_begin(&para, &style, "label", &out);
      for (int i = 0; i < 12; i++)
        spp_para_item(&para, SPP_TONE_PLAIN, i % 3 ? "%s" : "%s and more", word);
      spp_para_end(&para);
      expect_note("width %d, word %d", width, length);
      int letters = 0;
      for (const char *c = spp_str_text(&out); *c; c++)
        letters += *c == 'w';
      expect_i64(letters, 12 * length);
      for (char *line = strtok(out.data, "\n"); line; line = strtok(NULL, "\n")) {
        expect_true(spp_utf8_width(line) <= width);
        expect_true(line[strlen(line) - 1] != ' ');
      }
      spp_str_free(&out);
    }
  expect_note("%s", "");
}

static void ascii_keeps_the_columns(void **state) {
  struct spp_str s;
  (void)state;
  spp_str_init(&s);
  spp_str_add(&s, "a · b × c – d … e");
  int width = spp_utf8_width(spp_str_text(&s));
  spp_text_to_ascii(&s);
  expect_str(spp_str_text(&s), "a | b x c - d . e");
  expect_i64((int)s.len, width);
  spp_str_free(&s);
}

static void colour_wraps_text_without_changing_it(void **state) {
  struct spp_text_style style = {.width = 60, .utf8 = true, .color = true};
  struct spp_str out;
  (void)state;
  spp_str_init(&out);
  spp_text_paint(&style, SPP_TONE_PLAIN, "plain", &out);
  spp_text_paint(&style, SPP_TONE_BAD, "bad", &out);
  spp_text_paint(&style, SPP_TONE_BAD, "", &out);
  expect_str(spp_str_text(&out), "plain\033[1;31mbad\033[0m");
  spp_str_free(&out);
}

static void numbers_read_as_people_write_them(void **state) {
  char buf[32];
  (void)state;
  expect_str(spp_text_gib(INT64_C(1) << 30, buf), "1.0");
  expect_str(spp_text_percent(0.41, buf), "41");
  expect_str(spp_text_percent(0.021, buf), "2.1");
  expect_str(spp_text_percent(0, buf), "0");
  expect_str(spp_text_percent(NAN, buf), "?");
  expect_str(spp_text_rate(3410.4, buf), "3,410");
  expect_str(spp_text_rate(3.14159, buf), "3.14");
  expect_str(spp_text_signed_percent(1.06, buf), "+6 %");
  expect_str(spp_text_signed_percent(0.79, buf), "-21 %");
  expect_str(spp_text_signed_percent(0.9999, buf), "0 %");
  expect_str(spp_text_signed_percent(NAN, buf), "?");
}

/* 40 GiB of weights and 20 of optimizer on a card of 80: half and a quarter of the bar. */
static void the_bar_shares_its_cells_by_bytes(void **state) {
  struct spp_text_style style = {.width = 93, .utf8 = true}; /* 93 - 11 - 2 = 80 cells */
  struct spp_memory memory = {
      .capacity_bytes = INT64_C(80) << 30, .device_bytes = INT64_C(60) << 30, .host_fits = true};
  int letters[3] = {0, 0, 0};
  struct spp_str out;
  (void)state;
  const struct spp_job job = {.mode = SPP_MODE_TRAIN};
  memory.parts[SPP_PART_WEIGHTS] = INT64_C(40) << 30;
  memory.parts[SPP_PART_OPTIMIZER] = INT64_C(20) << 30;
  spp_str_init(&out);
  spp_text_memory_bar(&job, &memory, &style, &out);
  for (const char *c = strchr(spp_str_text(&out), '['); *c && *c != ']'; c++) {
    letters[0] += *c == 'w';
    letters[1] += *c == 'o';
    letters[2] += *c == '.';
  }
  expect_i64(letters[0], 40);
  expect_i64(letters[1], 20);
  expect_i64(letters[2], 20);
  expect_has(spp_str_text(&out), "w weights 40.0");
  spp_str_free(&out);
}

/* 120 GiB on a card of 80: the bar is the need, and the mark stands at two thirds. */
static void a_need_beyond_the_card_shows_where_the_card_ends(void **state) {
  struct spp_text_style style = {.width = 73, .utf8 = true}; /* 60 cells of 2 GiB */
  struct spp_memory memory = {
      .capacity_bytes = INT64_C(81) << 30, .device_bytes = INT64_C(120) << 30, .host_fits = true};
  struct spp_str out;
  (void)state;
  const struct spp_job job = {.mode = SPP_MODE_TRAIN};
  memory.parts[SPP_PART_LOGITS] = INT64_C(120) << 30;
  spp_str_init(&out);
  spp_text_memory_bar(&job, &memory, &style, &out);
  const char *bar = strchr(spp_str_text(&out), '[') + 1, *mark = strchr(bar, '|');
  expect_true(mark != NULL);
  expect_i64((int)(mark - bar), 40); /* 81 / 2 = cell 40 */
  expect_true(memchr(bar, '.', 60) == NULL);
  spp_str_free(&out);
}

static void communication_is_summed_by_collective_and_group(void **state) {
  struct spp_comm comm = {.count = 3};
  struct spp_comm_sum sums[8];
  (void)state;
  comm.ops[0] = (struct spp_comm_op){.op = SPP_ALL_TO_ALL,
                                     .group = SPP_GROUP_ULYSSES,
                                     .ranks = 4,
                                     .count_per_step = 10,
                                     .sent_bytes = 7,
                                     .time_s = 1,
                                     .exposed_s = 1};
  comm.ops[1] = (struct spp_comm_op){.op = SPP_ALL_GATHER,
                                     .group = SPP_GROUP_DP,
                                     .ranks = 8,
                                     .count_per_step = 2,
                                     .sent_bytes = 100,
                                     .time_s = 5,
                                     .exposed_s = 4};
  comm.ops[2] = (struct spp_comm_op){.op = SPP_ALL_TO_ALL,
                                     .group = SPP_GROUP_ULYSSES,
                                     .ranks = 4,
                                     .count_per_step = 1,
                                     .sent_bytes = 30,
                                     .time_s = 2,
                                     .exposed_s = 0.5};
  expect_i64(spp_fact_comm_sums(&comm, sums, 8), 2);
  expect_i64(sums[0].group, SPP_GROUP_DP); /* 4 s exposed against 1.5 */
  expect_i64(sums[1].step_bytes, 10 * 7 + 30);
  expect_i64(sums[1].count, 11);
  expect_rel(sums[1].time_s, 3, 0);
  expect_rel(sums[1].exposed_s, 1.5, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(paragraphs_break_between_items_and_keep_room_for_the_separator),
      cmocka_unit_test(an_item_longer_than_the_line_breaks_at_blanks),
      cmocka_unit_test(a_separator_inside_an_item_is_a_place_to_break),
      cmocka_unit_test(no_line_passes_the_width),
      cmocka_unit_test(ascii_keeps_the_columns),
      cmocka_unit_test(colour_wraps_text_without_changing_it),
      cmocka_unit_test(numbers_read_as_people_write_them),
      cmocka_unit_test(the_bar_shares_its_cells_by_bytes),
      cmocka_unit_test(a_need_beyond_the_card_shows_where_the_card_ends),
      cmocka_unit_test(communication_is_summed_by_collective_and_group),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
