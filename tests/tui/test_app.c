#include "tests/tui/fake.h"

static void left_and_right_change_the_sequence_and_plan_again(void **state) {
  struct fake *fake = fake_make(24, 80);
  (void)state;
  press(fake, SPP_KEY_DOWN); /* model, then sequence */
  int64_t before = fake->app.request;
  expect_true(press(fake, SPP_KEY_RIGHT) & SPP_EFFECT_PLAN);
  expect_str(spp_words_get(&fake->app.words, "seq"), "64k");
  press(fake, SPP_KEY_LEFT);
  press(fake, SPP_KEY_LEFT);
  expect_str(spp_words_get(&fake->app.words, "seq"), "16k");
  expect_i64(fake->app.request, before + 3);
  fake_free(fake);
}

static void numbers_step_to_powers_of_two_and_back_to_free(void **state) {
  static const struct {
    const char *option;
    int key;
    const char *after[3];
  } cases[] = {{"gpus", SPP_KEY_RIGHT, {"16", "32", "64"}},
               {"tp", SPP_KEY_RIGHT, {"1", "2", "4"}},
               {"zero", SPP_KEY_RIGHT, {"0", "1", "2"}},
               {"gpus", SPP_KEY_LEFT, {"4", "2", "1"}}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct fake *fake = fake_make(24, 80);
    expect_note("%s", cases[i].option);
    fake->app.form.cursor = spp_form_find(cases[i].option);
    for (int n = 0; n < 3; n++) {
      press(fake, cases[i].key);
      expect_str(spp_words_get(&fake->app.words, cases[i].option), cases[i].after[n]);
    }
    fake_free(fake);
  }
  struct fake *fake = fake_make(24, 80);
  fake->app.form.cursor = spp_form_find("tp");
  press(fake, SPP_KEY_RIGHT);
  press(fake, SPP_KEY_LEFT);
  expect_true(spp_words_get(&fake->app.words, "tp") == NULL);
  fake->app.form.cursor = spp_form_find("gpus");
  for (int n = 0; n < 9; n++)
    press(fake, SPP_KEY_LEFT);
  expect_str(spp_words_get(&fake->app.words, "gpus"), "1"); /* a plan needs one */
  expect_true(fake->app.message_bad);
  fake_free(fake);
}

static void words_turn_round_and_pass_by_free(void **state) {
  struct fake *fake = fake_make(24, 80);
  (void)state;
  fake->app.form.cursor = spp_form_find("method");
  press(fake, SPP_KEY_RIGHT);
  expect_str(spp_words_get(&fake->app.words, "method"), "full");
  press(fake, SPP_KEY_RIGHT);
  expect_str(spp_words_get(&fake->app.words, "method"), "lora");
  press(fake, SPP_KEY_RIGHT);
  expect_true(spp_words_get(&fake->app.words, "method") == NULL);
  fake->app.form.cursor = spp_form_find("model"); /* cannot be free: from the last to the first */
  press(fake, SPP_KEY_RIGHT);
  expect_str(spp_words_get(&fake->app.words, "model"), "llama-3.1-8b");
  fake_free(fake);
}

static void an_edit_that_will_not_do_stays_open_with_the_reason(void **state) {
  struct fake *fake = fake_make(24, 80);
  (void)state;
  press(fake, 't');
  press(fake, SPP_CTRL('u'));
  type(fake, "64x");
  expect_false(press(fake, SPP_KEY_ENTER) & SPP_EFFECT_PLAN);
  expect_i64(fake->app.prompt.kind, SPP_PROMPT_FIELD);
  expect_has(fake->app.prompt.error, "no number of tokens");
  expect_str(spp_words_get(&fake->app.words, "seq"), "32k");
  press(fake, SPP_KEY_BACKSPACE);
  press(fake, 'k');
  expect_true(press(fake, SPP_KEY_ENTER) & SPP_EFFECT_PLAN);
  expect_str(spp_words_get(&fake->app.words, "seq"), "64k");
  expect_i64(fake->app.prompt.kind, SPP_PROMPT_NONE);
  fake_free(fake);
}

static void tab_completes_from_the_lists(void **state) {
  struct fake *fake = fake_make(24, 80);
  (void)state;
  press(fake, SPP_KEY_ENTER); /* the model */
  press(fake, SPP_CTRL('u'));
  type(fake, "qw");
  press(fake, SPP_KEY_TAB);
  expect_str(fake->app.prompt.text, "qwen2.5-14b");
  press(fake, SPP_KEY_TAB);
  expect_str(fake->app.prompt.text, "qwen2.5-7b");
  press(fake, SPP_KEY_ESCAPE);
  press(fake, ':');
  type(fake, "meth");
  press(fake, SPP_KEY_TAB);
  expect_str(fake->app.prompt.text, "method");
  type(fake, " l");
  press(fake, SPP_KEY_TAB);
  expect_str(fake->app.prompt.text, "method lora");
  expect_true(press(fake, SPP_KEY_ENTER) & SPP_EFFECT_PLAN);
  expect_str(spp_words_get(&fake->app.words, "method"), "lora");
  fake_free(fake);
}

static void commands_take_the_words_of_the_command_line(void **state) {
  static const struct {
    const char *line, *option, *value;
    unsigned effects;
  } cases[] = {{"seq 64k", "seq", "64k", SPP_EFFECT_PLAN},
               {"--seq=128k", "seq", "128k", SPP_EFFECT_PLAN},
               {"  gpu a100-80gb ", "gpu", "a100-80gb", SPP_EFFECT_PLAN},
               {"packing", "packing", "", SPP_EFFECT_PLAN},
               {"--gpus 16 --seq=64k --packing", "seq", "64k", SPP_EFFECT_PLAN},
               {"--gpus 16 --seq=64k --packing", "gpus", "16", SPP_EFFECT_PLAN},
               {"q", "seq", "32k", SPP_EFFECT_QUIT},
               {"w out.json", "seq", "32k", SPP_EFFECT_SAVE},
               {"", "seq", "32k", 0}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct fake *fake = fake_make(24, 80);
    expect_note("%s", cases[i].line);
    press(fake, ':');
    type(fake, cases[i].line);
    unsigned effects = press(fake, SPP_KEY_ENTER) & ~(unsigned)SPP_EFFECT_DRAW;
    expect_i64(effects, cases[i].effects);
    expect_str(spp_words_get(&fake->app.words, cases[i].option), cases[i].value);
    fake_free(fake);
  }
  struct fake *fake = fake_make(24, 80);
  expect_note("%s", "");
  press(fake, ':');
  type(fake, "seqq 4k");
  press(fake, SPP_KEY_ENTER);
  expect_has(fake->app.prompt.error, "no option 'seqq'");
  fake_free(fake);
}

static void sorting_and_inverting_order_the_plans(void **state) {
  static const int orders[][FAKE_PLANS] = {{0, 1, 2, 3, 4, 5},  /* rank */
                                           {1, 3, 5, 0, 2, 4},  /* framework: deepspeed, ms-swift */
                                           {0, 1, 2, 3, 4, 5},  /* memory */
                                           {0, 1, 2, 3, 4, 5},  /* speed */
                                           {0, 1, 2, 3, 4, 5}}; /* step */
  struct fake *fake = fake_make(24, 80);
  (void)state;
  fake->app.focus = SPP_PANE_PLANS;
  for (int sort = 0; sort < SPP_SORT_COUNT; sort++) {
    expect_note("sort %d", sort);
    for (int i = 0; i < FAKE_PLANS; i++)
      expect_i64(fake->app.order[i], orders[sort][i]);
    press(fake, 'I');
    expect_i64(fake->app.order[0], orders[sort][FAKE_PLANS - 1]);
    press(fake, 'I');
    press(fake, 's');
  }
  fake_free(fake);
}

static void a_filter_keeps_the_plans_with_its_words(void **state) {
  struct fake *fake = fake_make(24, 80);
  (void)state;
  fake->app.focus = SPP_PANE_PLANS;
  press(fake, '/');
  type(fake, "DEEPSPEED");
  expect_i64(fake->app.order_count, 3); /* while it is typed */
  press(fake, SPP_KEY_ENTER);
  expect_i64(fake->app.order[0], 1);
  press(fake, 'n');
  expect_i64(fake->app.order[fake->app.plans.cursor], 3);
  press(fake, 'N');
  press(fake, 'N');
  expect_i64(fake->app.order[fake->app.plans.cursor], 5); /* round about */
  press(fake, SPP_KEY_ESCAPE);
  expect_i64(fake->app.order_count, FAKE_PLANS);
  press(fake, '/');
  type(fake, "ulysses !deepspeed");
  press(fake, SPP_KEY_ENTER);
  expect_i64(fake->app.order_count, 2); /* plans 2 and 4: even, and i % 3 > 0 */
  fake_free(fake);
}

static void marked_plans_stand_side_by_side(void **state) {
  struct fake *fake = fake_make(24, 80);
  (void)state;
  fake->app.focus = SPP_PANE_PLANS;
  press(fake, ' ');
  press(fake, 'c');
  expect_i64(fake->app.overlay_count, 0);
  expect_true(fake->app.message_bad);
  press(fake, ' ');
  press(fake, 'c');
  expect_i64(spp_app_overlay(&fake->app), SPP_OVERLAY_MARKED);
  press(fake, SPP_KEY_ESCAPE);
  expect_i64(fake->app.overlay_count, 0);
  fake_free(fake);
}

static void memory_opens_tensors_and_a_tensor_its_formula(void **state) {
  struct fake *fake = fake_make(24, 80);
  (void)state;
  press(fake, '1');
  press(fake, SPP_KEY_ENTER);
  expect_i64(spp_app_overlay(&fake->app), SPP_OVERLAY_LEDGER);
  expect_i64(fake->app.ledger_count, 3);
  expect_i64(fake->app.ledger_rows[1], 2); /* by size: weights, logits, attention output */
  press(fake, SPP_KEY_ENTER);
  expect_i64(spp_app_overlay(&fake->app), SPP_OVERLAY_TEXT);
  expect_has(fake->app.text, "1048576 x 4096 elements of bf16");
  expect_has(fake->app.text, "every parameter, in bf16");
  press(fake, 'q'); /* closes, one by one, before it quits */
  expect_i64(spp_app_overlay(&fake->app), SPP_OVERLAY_LEDGER);
  press(fake, SPP_KEY_ESCAPE);
  expect_i64(fake->app.overlay_count, 0);
  press(fake, SPP_KEY_DOWN); /* weights alone */
  press(fake, SPP_KEY_ENTER);
  expect_i64(fake->app.ledger_count, 1);
  fake_free(fake);
}

static void a_validation_runs_is_stopped_and_runs_again(void **state) {
  struct fake *fake = fake_make(24, 80);
  struct spp_tui_trial trial = {.count = 3, .done = 1};
  const struct spp_event news = {.kind = SPP_EVENT_TRIAL, .trial = &trial};
  (void)state;
  expect_true(press(fake, 'v') & SPP_EFFECT_TRIAL);
  expect_i64(spp_app_overlay(&fake->app), SPP_OVERLAY_TRIAL);
  spp_app_handle(&fake->app, &news);
  expect_i64(fake->app.trial.done, 1);
  press(fake, 'q'); /* leaves it running */
  expect_i64(fake->app.overlay_count, 0);
  expect_false(press(fake, 'v') & SPP_EFFECT_TRIAL); /* the same one */
  expect_true(press(fake, SPP_KEY_ESCAPE) & SPP_EFFECT_TRIAL_STOP);
  expect_i64(spp_app_overlay(&fake->app), SPP_OVERLAY_TRIAL);
  spp_app_handle(&fake->app, &news); /* sent before it heard of it */
  expect_true(fake->app.trial.stopped && !fake->app.trial.finished);
  trial.finished = trial.stopped = true;
  spp_app_handle(&fake->app, &news);
  expect_true(press(fake, 'v') & SPP_EFFECT_TRIAL); /* a new one, in the same window */
  expect_i64(fake->app.overlay_count, 1);
  expect_false(fake->app.trial.stopped);
  press(fake, 'q');
  trial.stopped = false;
  trial.done = 3;
  spp_app_handle(&fake->app, &news);
  expect_has(fake->app.message, "3 passed, 0 failed");
  fake_free(fake);
}

static void zoom_goes_from_the_step_to_a_layer_and_back(void **state) {
  struct fake *fake = fake_make(24, 80);
  (void)state;
  press(fake, 'z');
  expect_i64(fake->app.view, SPP_VIEW_TIME);
  for (int zoom = 1; zoom <= SPP_ZOOM_COUNT; zoom++) {
    press(fake, 'z');
    expect_i64(fake->app.zoom, zoom % SPP_ZOOM_COUNT);
  }
  fake_free(fake);
}

static void the_command_line_says_job_and_layout(void **state) {
  struct fake *fake = fake_make(24, 80);
  (void)state;
  fake->app.focus = SPP_PANE_PLANS;
  press(fake, SPP_KEY_DOWN);
  press(fake, 'y');
  expect_has(fake->app.text, "spplan plan --model qwen2.5-7b --seq 32k --gpus 8");
  expect_has(fake->app.text, "spplan predict --model qwen2.5-7b --seq 32k --gpus 8 --framework deepspeed "
                             "--sp-kind ulysses --ulysses 2 --zero 3 --recompute full --micro-batch 1");
  fake_free(fake);
}

static void escape_stops_clears_and_goes_back_but_never_quits(void **state) {
  struct fake *fake = fake_make(24, 80);
  (void)state;
  expect_true(press(fake, 'r') & SPP_EFFECT_PLAN);
  expect_true(press(fake, SPP_KEY_ESCAPE) & SPP_EFFECT_CANCEL);
  fake->app.focus = SPP_PANE_DETAIL;
  for (int i = 0; i < 5; i++)
    expect_false(press(fake, SPP_KEY_ESCAPE) & SPP_EFFECT_QUIT);
  expect_i64(fake->app.focus, SPP_PANE_FORM);
  expect_true(press(fake, 'q') & SPP_EFFECT_QUIT);
  expect_true(press(fake, SPP_CTRL('c')) & SPP_EFFECT_QUIT);
  expect_true(press(fake, SPP_CTRL('z')) & SPP_EFFECT_SUSPEND);
  expect_true(press(fake, SPP_CTRL('l')) & SPP_EFFECT_REPAINT);
  fake_free(fake);
}

static void an_unknown_key_says_which_key_helps(void **state) {
  struct fake *fake = fake_make(24, 80);
  (void)state;
  press(fake, 0x20ac);
  expect_has(fake->app.message, "?");
  expect_true(fake->app.message_bad);
  fake_free(fake);
}

static void answers_to_old_questions_and_errors_leave_the_old_answer(void **state) {
  struct fake *fake = fake_make(24, 80);
  struct spp_tui_outcome late = fake->outcome, bad = {.status = SPP_ERR_USAGE};
  (void)state;
  press(fake, 'r');
  press(fake, 'r');
  late.request = fake->app.request - 1;
  spp_app_handle(&fake->app, &(struct spp_event){.kind = SPP_EVENT_OUTCOME, .outcome = &late});
  expect_true(fake->app.outcome == &fake->outcome && fake->app.searching);
  spp_diag_set(&bad.diag, SPP_ERR_USAGE, "--tp", NULL, "no layout is legal");
  bad.request = fake->app.request;
  spp_app_handle(&fake->app, &(struct spp_event){.kind = SPP_EVENT_OUTCOME, .outcome = &bad});
  expect_true(fake->app.outcome == &fake->outcome && fake->app.outdated && !fake->app.searching);
  expect_has(fake->app.message, "no layout is legal");
  fake_free(fake);
}

static void the_selection_follows_its_layout_into_the_new_answer(void **state) {
  struct fake *fake = fake_make(24, 80);
  struct spp_plan turned[FAKE_PLANS];
  struct spp_tui_outcome fresh = fake->outcome;
  (void)state;
  for (int i = 0; i < FAKE_PLANS; i++)
    turned[i] = fake->plans[FAKE_PLANS - 1 - i];
  fresh.search.plans = turned;
  fake->app.plans.cursor = 2;
  spp_app_handle(&fake->app, &(struct spp_event){.kind = SPP_EVENT_OUTCOME, .outcome = &fresh});
  expect_i64(fake->app.plans.cursor, FAKE_PLANS - 1 - 2);
  fake_free(fake);
}

static void the_mouse_selects_sorts_and_presses_keys(void **state) {
  struct fake *fake = fake_make(24, 80);
  struct spp_panes panes;
  (void)state;
  spp_panes(&fake->app, 24, 80, &panes);
  struct spp_rect list = spp_panes_list(&fake->app, &panes, SPP_PANE_PLANS);
  struct spp_event click = {.kind = SPP_EVENT_CLICK, .rows = list.row + 2, .cols = list.col + 5};
  spp_app_handle(&fake->app, &click);
  expect_i64(fake->app.plans.cursor, 2);
  expect_i64(fake->app.focus, SPP_PANE_PLANS);
  click.rows = list.row - 1;
  spp_app_handle(&fake->app, &click);
  expect_i64(fake->app.sort, SPP_SORT_FRAMEWORK);
  struct spp_key_hint hints[SPP_HINTS_MAX];
  int count = spp_key_hints(SPP_IN_PLANS, 80, hints);
  click.rows = 23;
  click.cols = hints[count - 1].col;
  expect_true(spp_app_handle(&fake->app, &click) & SPP_EFFECT_QUIT);
  fake_free(fake);
}

/* Any key at any moment: whatever happens, lists stay inside themselves. */
static void no_sequence_of_keys_breaks_the_state(void **state) {
  struct fake *fake = fake_make(24, 80);
  struct spp_screen screen = {.utf8 = true};
  uint32_t random = 1;
  (void)state;
  expect_status(spp_screen_resize(&screen, 24, 80, NULL), SPP_OK, NULL);
  for (int i = 0; i < 20000; i++) {
    random = random * 1664525U + 1013904223U; /* Numerical Recipes */
    uint32_t pick = random >> 16;
    int key = pick % 4 == 0 ? (int)SPP_KEY_ENTER + (int)(pick / 4 % 18) : (int)(pick / 4 % 127);
    press(fake, key);
    spp_draw(&fake->app, &screen);
    expect_true(fake->app.overlay_count >= 0 && fake->app.overlay_count <= SPP_OVERLAYS_MAX);
    expect_true(fake->app.plans.cursor >= 0 && fake->app.plans.top >= 0);
  }
  spp_screen_free(&screen);
  fake_free(fake);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(left_and_right_change_the_sequence_and_plan_again),
      cmocka_unit_test(numbers_step_to_powers_of_two_and_back_to_free),
      cmocka_unit_test(words_turn_round_and_pass_by_free),
      cmocka_unit_test(an_edit_that_will_not_do_stays_open_with_the_reason),
      cmocka_unit_test(tab_completes_from_the_lists),
      cmocka_unit_test(commands_take_the_words_of_the_command_line),
      cmocka_unit_test(sorting_and_inverting_order_the_plans),
      cmocka_unit_test(a_filter_keeps_the_plans_with_its_words),
      cmocka_unit_test(marked_plans_stand_side_by_side),
      cmocka_unit_test(memory_opens_tensors_and_a_tensor_its_formula),
      cmocka_unit_test(a_validation_runs_is_stopped_and_runs_again),
      cmocka_unit_test(zoom_goes_from_the_step_to_a_layer_and_back),
      cmocka_unit_test(the_command_line_says_job_and_layout),
      cmocka_unit_test(escape_stops_clears_and_goes_back_but_never_quits),
      cmocka_unit_test(an_unknown_key_says_which_key_helps),
      cmocka_unit_test(answers_to_old_questions_and_errors_leave_the_old_answer),
      cmocka_unit_test(the_selection_follows_its_layout_into_the_new_answer),
      cmocka_unit_test(the_mouse_selects_sorts_and_presses_keys),
      cmocka_unit_test(no_sequence_of_keys_breaks_the_state),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
