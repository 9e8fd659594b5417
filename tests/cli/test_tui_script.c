/* The interactive planner played from a file, with real plans: what its keys do to real answers. */
#include "tests/cli/document.h"

static const char job[] =
    "tui --model qwen7b --seq 32k --gpus 8 --gpu h100-80gb --framework ms-swift --tui-script s";

static void play(const char *script, int rc, struct run *run) {
  run_put("s", script);
  *run = run_line(job, NULL);
  expect_note("%s -> %d %s", script, run->rc, run->err);
  if (run->rc == SPP_ERR_ABSENT) skip(); /* built without ncurses */
  expect_i64(run->rc, rc);
}

static void keys_change_the_job_and_the_screen_follows(void **state) {
  static const char *const scripts[] = {
      "expect 32k tokens\nkey ]\nexpect 64k tokens\nkey [ [\nexpect 16k tokens\n",
      "key t C-u\ntype 64k\nkey Enter\nexpect 64k tokens\n",
      "key :\ntype --gpus 16 --method lora\nkey Enter\nexpect 16 x H100\nexpect lora\n",
      "key Tab /\ntype ulysses\nkey Enter\nexpect filter: ulysses\nkey Esc\nkey s\nexpect framework↓\n",
      "key 2\nexpect 2 Communication\nkey 3\nexpect the step,\nkey z z\nexpect one layer, forward\n",
      "key 4\nexpect 4 Strategies\nexpect illegal: \n",
      "key 5\nexpect why not\n",
      "key 1 j Enter\nexpect Tensors: weights\nkey Enter\nexpect formula\nkey q q\nexpect 1 Memory\n",
      "key Tab Space Space c\nexpect Marked plans\n",
      "key y\nexpect spplan plan --model qwen7b --seq 32k --gpus 8\n",
      "size 40x12\nexpect quit\nsize 20x5\nexpect spplan needs\nsize 1x1\nscreen\n",
      "key ? G\nexpect quit at once\n",
      ("key Down Down Down Down Down Down Down Down Down Down Down Down Right\nexpect  1\nkey y\nexpect "
       "--ulysses 1\n"),
  };
  (void)state;
  for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
    struct run run;
    play(scripts[i], 0, &run);
    run_free(&run);
  }
}

static void what_is_saved_is_the_plan_on_the_screen(void **state) {
  struct run run;
  (void)state;
  play("key e C-u\ntype plan.json\nkey Enter\nexpect saved to plan.json\n"
       "key e C-u\ntype plan.html\nkey Enter\nexpect saved to plan.html\n"
       "key e C-u\ntype plan.sh\nkey Enter\nexpect saved to plan.sh\n"
       "key e C-u\ntype no/such/folder.json\nkey Enter\nexpect folder\n",
       0, &run);
  run_free(&run);
  struct document predict = open_json("predict --from plan.json --json", 0),
                  plan = open_json("plan --from plan.json --json", 0);
  expect_i64(
      i64_at(spp_json_get(predict.root, "memory"), "device_bytes"),
      i64_at(spp_json_get(spp_json_at(spp_json_get(plan.root, "plans"), 0), "memory"), "device_bytes"));
  close_json(&predict);
  close_json(&plan);
  struct run again = answer("tui plan.json --tui-script s", NULL, 0);
  run_free(&again);
  run_remove("plan.json");
  run_remove("plan.html");
  run_remove("plan.sh");
}

/* The command that y shows predicts the very plan under the cursor. */
static void the_command_line_shown_is_the_plan(void **state) {
  static const char *const jobs[] = {"--gpus 8 --seq 128k --framework ms-swift", "--gpus 32 --seq 32k --pp 4",
                                     "--gpus 8 --seq 32k --method lora --framework deepspeed"};
  (void)state;
  for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
    char line[900];
    run_put("s", "size 600x40\nkey Tab j j y\nscreen\nkey q\nkey e C-u\ntype p.json\nkey Enter\n");
    snprintf(line, sizeof line, "tui --model qwen7b --gpu h100-80gb %s --tui-script s", jobs[i]);
    struct run run = run_line(line, NULL);
    if (run.rc == SPP_ERR_ABSENT) skip();
    const char *command = strstr(run.out, "spplan predict ");
    assert_non_null(command);
    snprintf(line, sizeof line, "%.*s --json", (int)strcspn(command + 7, "\n"), command + 7);
    struct document shown = open_json(line, 0), saved = open_json("predict --from p.json --rank 3 --json", 0);
    expect_note("%s", line);
    expect_i64(i64_at(spp_json_get(shown.root, "memory"), "device_bytes"),
               i64_at(spp_json_get(saved.root, "memory"), "device_bytes"));
    expect_near(real_at(spp_json_get(shown.root, "time"), "step_s"),
                real_at(spp_json_get(saved.root, "time"), "step_s"), 0);
    close_json(&shown);
    close_json(&saved);
    run_free(&run);
    run_remove("p.json");
  }
}

static void a_validation_ends_with_what_passed(void **state) {
  struct run run;
  (void)state;
  play("key v\nexpect 0 FAILED\nexpect a step (\nkey Esc\nexpect Plans\n", 0, &run);
  run_free(&run);
}

static void a_bad_script_is_refused_with_its_line(void **state) {
  static const struct {
    const char *script, *says;
    int rc;
  } cases[] = {{"\n# comment\npress x\n", "s:3: ", 3},
               {"key Entre\n", "no key 'Entre'", 3},
               {"size 80\n", "COLSxROWS", 3},
               {"size 80x99999\n", "COLSxROWS", 3},
               {"expect no such text\n", "the screen lacks 'no such text'", 5}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct run run;
    play(cases[i].script, cases[i].rc, &run);
    expect_has(run.err, cases[i].says);
    expect_i64(run_count_lines(run.err), 1);
    run_free(&run);
  }
}

static void screens_fit_their_size(void **state) {
  struct run run;
  (void)state;
  play("size 100x30\nscreen\nroles\n", 0, &run);
  expect_i64(run_count_lines(run.out), 60);
  run_free(&run);
  struct run ascii = run_line(
      "tui --model qwen7b --seq 32k --gpus 8 --gpu h100-80gb --framework ms-swift --ascii --tui-script s",
      NULL);
  for (const char *c = ascii.out; *c; c++)
    expect_true((unsigned char)*c < 128);
  run_free(&ascii);
  run_remove("s");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keys_change_the_job_and_the_screen_follows),
      cmocka_unit_test(what_is_saved_is_the_plan_on_the_screen),
      cmocka_unit_test(the_command_line_shown_is_the_plan),
      cmocka_unit_test(a_validation_ends_with_what_passed),
      cmocka_unit_test(a_bad_script_is_refused_with_its_line),
      cmocka_unit_test(screens_fit_their_size),
  };
  int failed = cmocka_run_group_tests(tests, run_setup, run_teardown);
  return failed != 0;
}
