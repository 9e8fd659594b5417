/* Whole screens, frozen: characters and roles, at three sizes; and that curses shows what the grid says, on a
 * terminal that is not there. */
#include "tests/tui/fake.h"

#include "tests/golden.h"
#include "tui/terminal.h"

#define NCURSES_WIDECHAR 1
#include <curses.h>
#include <locale.h>
#include <wchar.h>

/* ncurses keeps a block for good when it refuses a terminal type. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
  return "leak:new_prescr";
}

static const struct {
  const char *name;
  int keys[6];
} screens[] = {
    {"form", {0}},
    {"plans", {SPP_KEY_TAB, 'j'}},
    {"memory", {'1', 'j'}},
    {"comm", {'2'}},
    {"time", {'3'}},
    {"time of a micro-batch", {'3', 'z'}},
    {"time of a layer", {'3', 'z', 'z'}},
    {"compare", {'4'}},
    {"why", {'5'}},
    {"ledger", {'1', SPP_KEY_ENTER}},
    {"explain", {'1', SPP_KEY_ENTER, 'x'}},
    {"marked", {SPP_KEY_TAB, ' ', ' ', 'c'}},
    {"line", {SPP_KEY_TAB, 'y'}},
    {"edit", {'t', '1'}},
    {"command", {':', 'm', SPP_KEY_TAB}},
};
static const int sizes[][2] = {{24, 80}, {40, 120}, {12, 40}};

/* One file for all screens of a size: a heading, then the lines. */
static void add_screen(struct spp_str *out, const char *name, const struct spp_screen *screen, bool roles) {
  spp_str_addf(out, "==== %s\n", name);
  if (roles)
    spp_screen_roles(screen, out);
  else
    spp_screen_text(screen, out);
}

static void expect_screens(int rows, int cols, bool utf8) {
  struct spp_str text, roles;
  char name[64];
  spp_str_init(&text);
  spp_str_init(&roles);
  for (size_t i = 0; i < sizeof screens / sizeof screens[0]; i++) {
    struct fake *fake = fake_make(rows, cols);
    struct spp_screen screen = {.utf8 = utf8};
    expect_status(spp_screen_resize(&screen, rows, cols, NULL), SPP_OK, NULL);
    for (int k = 0; k < 6 && screens[i].keys[k]; k++)
      press(fake, screens[i].keys[k]);
    spp_draw(&fake->app, &screen);
    add_screen(&text, screens[i].name, &screen, false);
    add_screen(&roles, screens[i].name, &screen, true);
    spp_screen_free(&screen);
    fake_free(fake);
  }
  snprintf(name, sizeof name, "tui_%dx%d%s.txt", cols, rows, utf8 ? "" : "_ascii");
  expect_golden(spp_str_text(&text), name);
  snprintf(name, sizeof name, "tui_%dx%d.roles.txt", cols, rows);
  if (utf8) expect_golden(spp_str_text(&roles), name);
  spp_str_free(&text);
  spp_str_free(&roles);
}

/* Half way, and ended with a failure. */
static void a_validation_is_shown_as_it_goes(void **state) {
  struct spp_tui_trial trial = {.count = 3, .done = 2, .failed = 1, .running = "ring 4"};
  struct spp_str text;
  (void)state;
  snprintf(trial.cases[0].name, sizeof trial.cases[0].name, "one rank");
  trial.cases[0].ok = true;
  snprintf(trial.cases[0].text, sizeof trial.cases[0].text, "1.0 ms a step (0.5 ms to 2.0 ms), 1.0 MiB held");
  snprintf(trial.cases[1].name, sizeof trial.cases[1].name, "Ulysses 4");
  snprintf(trial.cases[1].text, sizeof trial.cases[1].text, "other traffic: 1.0 ms a step");
  spp_str_init(&text);
  for (int ended = 0; ended < 2; ended++)
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
      struct fake *fake = fake_make(sizes[i][0], sizes[i][1]);
      struct spp_screen screen = {.utf8 = true};
      expect_status(spp_screen_resize(&screen, sizes[i][0], sizes[i][1], NULL), SPP_OK, NULL);
      expect_true(press(fake, 'v') & SPP_EFFECT_TRIAL);
      trial.finished = ended;
      spp_app_handle(&fake->app, &(struct spp_event){.kind = SPP_EVENT_TRIAL, .trial = &trial});
      spp_draw(&fake->app, &screen);
      add_screen(&text, ended ? "ended" : "half way", &screen, false);
      add_screen(&text, "roles", &screen, true);
      spp_screen_free(&screen);
      fake_free(fake);
    }
  expect_golden(spp_str_text(&text), "tui_validate.txt");
  spp_str_free(&text);
}

static void screens_are_as_frozen(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
    expect_screens(sizes[i][0], sizes[i][1], true);
}

static void ascii_screens_are_as_frozen_and_ascii(void **state) {
  char *text = NULL;
  (void)state;
  expect_screens(24, 80, false);
  struct spp_diag diag;
  expect_status(
      spp_file_read(SPP_SOURCE_DIR "/tests/golden/tui_80x24_ascii.txt", 1 << 20, &text, NULL, &diag), SPP_OK,
      &diag);
  for (const char *c = text; *c; c++)
    expect_true((unsigned char)*c < 128);
  free(text);
}

static void the_help_lists_every_binding_and_is_as_frozen(void **state) {
  struct fake *fake = fake_make(80, 100);
  struct spp_screen screen = {.utf8 = true};
  struct spp_str text;
  (void)state;
  expect_status(spp_screen_resize(&screen, 80, 100, NULL), SPP_OK, NULL);
  press(fake, '?');
  spp_draw(&fake->app, &screen);
  spp_str_init(&text);
  spp_screen_text(&screen, &text);
  for (int i = 0; i < spp_binding_count; i++)
    expect_has(spp_str_text(&text), spp_bindings[i].help);
  expect_has(spp_str_text(&text), "edit the sequence length");
  expect_golden(spp_str_text(&text), "tui_help.txt");
  expect_i64(press(fake, '?') & SPP_EFFECT_QUIT, 0);
  expect_i64(fake->app.overlay_count, 0);
  spp_str_free(&text);
  spp_screen_free(&screen);
  fake_free(fake);
}

/* No key has two meanings in one place. */
static void a_key_means_one_thing_in_one_place(void **state) {
  (void)state;
  for (int a = 0; a < spp_binding_count; a++)
    for (int b = 0; b < a; b++)
      for (int i = 0; i < SPP_BINDING_KEYS && spp_bindings[a].keys[i]; i++)
        for (int j = 0; j < SPP_BINDING_KEYS && spp_bindings[b].keys[j]; j++) {
          expect_note("%s, %s", spp_bindings[a].help, spp_bindings[b].help);
          expect_false(spp_bindings[a].keys[i] == spp_bindings[b].keys[j] &&
                       (spp_bindings[a].contexts & spp_bindings[b].contexts));
        }
}

/* ---- curses on /dev/null ---- */

static void expect_shown(const struct spp_screen *screen) {
  for (int row = 0; row < screen->rows; row++)
    for (int col = 0; col < screen->cols; col++) {
      wchar_t text[8] = {0};
      attr_t attributes;
      short pair;
      cchar_t glyph;
      expect_true(mvin_wch(row, col, &glyph) == OK);
      getcchar(&glyph, text, &attributes, &pair, NULL);
      expect_note("row %d, column %d", row, col);
      expect_i64(text[0], screen->cells[row * screen->cols + col].ch);
    }
}

static void curses_shows_the_grid_and_survives_resizing(void **state) {
  FILE *null = fopen("/dev/null", "r+");
  struct spp_diag diag;
  struct spp_event event;
  struct fake *fake = fake_make(24, 80);
  struct spp_screen screen = {.utf8 = true};
  static const int sequence[][2] = {{24, 80}, {40, 120}, {12, 40}, {1, 1}, {5, 200}, {200, 30}, {24, 80}};
  (void)state;
  if (!setlocale(LC_CTYPE, "C.UTF-8")) skip();
  assert_non_null(null);
  expect_status(
      spp_terminal_open(
          &(struct spp_terminal_options){
              .color = true, .utf8 = true, .mouse = true, .type = "xterm-256color", .out = null, .in = null},
          &diag),
      SPP_OK, &diag);
  for (size_t i = 0; i < sizeof sequence / sizeof sequence[0]; i++) {
    int rows = sequence[i][0], cols = sequence[i][1];
    resizeterm(rows, cols);
    while (spp_terminal_event(&event))
      if (event.kind == SPP_EVENT_RESIZE) spp_app_handle(&fake->app, &event);
    expect_i64(fake->app.rows, rows);
    expect_i64(fake->app.cols, cols);
    expect_status(spp_screen_resize(&screen, rows, cols, NULL), SPP_OK, NULL);
    spp_draw(&fake->app, &screen);
    spp_terminal_show(&screen, true);
    expect_shown(&screen);
  }
  unget_wch(L'q');
  expect_true(spp_terminal_event(&event) && event.key == 'q');
  ungetch(KEY_F(1));
  expect_true(spp_terminal_event(&event) && event.key == SPP_KEY_F1);
  expect_false(spp_terminal_event(&event));
  spp_terminal_close();
  spp_screen_free(&screen);
  fake_free(fake);
  fclose(null);
}

static void an_unknown_terminal_is_refused(void **state) {
  FILE *null = fopen("/dev/null", "r+");
  struct spp_diag diag;
  (void)state;
  assert_non_null(null);
  expect_status(
      spp_terminal_open(&(struct spp_terminal_options){.type = "no-such-terminal", .out = null, .in = null},
                        &diag),
      SPP_ERR_USAGE, &diag);
  expect_has(diag.what, "terminal type");
  fclose(null);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(screens_are_as_frozen),
      cmocka_unit_test(a_validation_is_shown_as_it_goes),
      cmocka_unit_test(ascii_screens_are_as_frozen_and_ascii),
      cmocka_unit_test(the_help_lists_every_binding_and_is_as_frozen),
      cmocka_unit_test(a_key_means_one_thing_in_one_place),
      cmocka_unit_test(curses_shows_the_grid_and_survives_resizing),
      cmocka_unit_test(an_unknown_terminal_is_refused),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
