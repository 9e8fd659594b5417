/* Where options may stand and where their values come from, what --assert decides, and where the answer goes.
 */
#include "tests/cli/document.h"
#include "tests/report/schema.h"

#define JOB "--model qwen7b --seq 32k --gpus 8 --gpu h100-80gb "

static void options_stand_before_or_after_the_command_and_take_both_forms(void **state) {
  static const char *const lines[] = {
      "predict --model qwen7b --seq 32k --gpus 8 --sp 4 --csv",
      "--model qwen7b predict --seq 32k --gpus 8 --sp 4 --csv",
      "--model=qwen7b --seq=32k --gpus=8 --sp=4 --csv predict",
      "-m qwen7b -s 32768 -n8 --sp 4 predict --csv",
      "predict --sp 1 --model qwen7b --seq 32k --gpus 8 --sp 4 --csv",
      "predict --model Qwen/Qwen2.5-7B --seq 32_768 --gpus 8 --sp 4 --csv",
  };
  (void)state;
  struct run first = answer(lines[0], NULL, 0);
  for (size_t i = 1; i < sizeof lines / sizeof lines[0]; i++) {
    struct run run = answer(lines[i], NULL, 0);
    expect_str(run.out, first.out);
    run_free(&run);
  }
  run_free(&first);
}

static void a_model_is_a_name_or_a_file_or_a_folder(void **state) {
  char path[512], *text, line[700];
  (void)state;
  snprintf(path, sizeof path, "%s/configs/models/qwen2.5-7b.json", SPP_SOURCE_DIR);
  expect_status(spp_file_read(path, 1 << 20, &text, NULL, NULL), SPP_OK, NULL);
  run_put("config.json", text);
  free(text);
  struct run name = answer("predict " JOB "--sp 4 --csv", NULL, 0);
  struct run folder = answer("predict --model . --seq 32k --gpus 8 --gpu h100-80gb --sp 4 --csv", NULL, 0);
  snprintf(line, sizeof line, "predict --model %s --seq 32k --gpus 8 --gpu h100-80gb --sp 4 --csv", path);
  struct run file = answer(line, NULL, 0);
  expect_str(folder.out, name.out);
  expect_str(file.out, name.out);
  run_free(&name);
  run_free(&folder);
  run_free(&file);
  run_remove("config.json");
}

static void keep_is_the_layout_option(void **state) {
  (void)state;
  struct run keep = answer("plan " JOB "--keep zero=3 --keep sp=4 --csv", NULL, 0),
             option = answer("plan " JOB "--zero 3 --sp 4 --csv", NULL, 0);
  expect_str(keep.out, option.out);
  run_free(&keep);
  run_free(&option);
}

static int64_t seq_of(const char *line, const char *const *settings) {
  struct run run = answer(line, settings, 0);
  struct spp_json_doc *doc;
  expect_status(spp_json_parse(run.out, strlen(run.out), "answer", &doc, NULL), SPP_OK, NULL);
  int64_t seq = i64_at(spp_json_get(spp_json_root(doc), "inputs"), "seq_tokens");
  spp_json_free(doc);
  run_free(&run);
  return seq;
}

static void flags_win_over_environment_over_config_file(void **state) {
  const char line[] = "predict --model qwen7b --gpus 8 --json",
             flag[] = "predict --model qwen7b --gpus 8 --json --seq 1k";
  char home[200], xdg[256];
  (void)state;
  snprintf(home, sizeof home, "%s/spplan", run_folder);
  snprintf(xdg, sizeof xdg, "XDG_CONFIG_HOME=%s", run_folder);
  const char *const file[] = {xdg, NULL}, *const both[] = {xdg, "SPPLAN_SEQ=2k", NULL};
  expect_i64(mkdir(home, 0700), 0);
  run_put("spplan/config.json", "{\"seq\": \"4k\", \"vary\": \"seq=1k\"}");
  struct run refused = answer(line, file, 3); /* a question is no preference */
  run_free(&refused);
  run_put("spplan/config.json", "{\"seq\": 4096, \"zero\": 3, \"top\": 5}");
  expect_i64(seq_of(line, file), 4096);
  expect_i64(seq_of(line, both), 2048);
  expect_i64(seq_of(flag, both), 1024);
  run_remove("spplan/config.json");
  rmdir(home);
}

static void assertions_decide_the_exit_status(void **state) {
  static const struct {
    const char *expression;
    int rc;
  } cases[] = {
      {"memory.fits==true", 0},
      {"memory.fits!=true", 5},
      {"memory.peak_bytes<80GiB", 0},
      {"memory.peak_bytes>80GiB", 5},
      {"time.step_s<1h", 0},
      {"time.step_s>1h", 5},
      {"layout.sp==4", 0},
      {"layout.sp_kind==ulysses", 0},
      {"layout.sp_kind==ring", 5},
      {"inputs.seq_tokens>=32k", 0},
      {"comm.ops[0].ranks>0", 0},
      {"model.layers==28", 0},
      {"model.layers=<28", 2},
      {"memory.nothing<1", 2},
      {"comm.ops[999].ranks>0", 2},
      {"memory.peak_bytes<80G", 2},
      {"layout.sp_kind<5", 2},
      {"inputs.tp==null", 0},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char line[256];
    snprintf(line, sizeof line, "predict " JOB "--sp 4 --zero 3 --recompute full -q --assert '%s'",
             cases[i].expression);
    struct run run = answer(line, NULL, cases[i].rc);
    expect_i64(run_count_lines(run.err), cases[i].rc != 0);
    run_free(&run);
  }
  struct run plan = answer("plan " JOB "-q --assert memory.fits==true --assert plans[0].rank==1", NULL, 0);
  run_free(&plan);
}

static void documents_are_read_from_a_file(void **state) {
  (void)state;
  run_put("lengths.txt", "4096\n8192, 4096\n16384\n");
  struct run run = answer("predict " JOB "--sp 4 --doc-lengths lengths.txt --json", NULL, 0);
  expect_schema(run.out, "predict");
  run_free(&run);
  run_remove("lengths.txt");
}

/* ---- output ---- */

static void output_goes_to_a_file_whole(void **state) {
  char path[256], *text;
  (void)state;
  struct run direct = answer("list gpus --csv", NULL, 0),
             run = answer("list gpus --csv -o gpus.csv", NULL, 0);
  expect_str(run.out, "");
  expect_str(run.err, "");
  snprintf(path, sizeof path, "%s/gpus.csv", run_folder);
  expect_status(spp_file_read(path, 1 << 20, &text, NULL, NULL), SPP_OK, NULL);
  expect_str(text, direct.out);
  expect_i64(run_files(), 1);
  free(text);
  run_remove("gpus.csv");
  run_free(&direct);
  run_free(&run);
}

/* A line of bash in the test's folder, because it is about what stands around the program. */
static void expect_shell(const char *line, int rc, const char *err_has) {
  char err[200], *text;
  int status = -1;
  snprintf(err, sizeof err, "%s.shell", run_folder);
  pid_t pid = fork();
  if (pid == 0) {
    int fd = open(err, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || chdir(run_folder) != 0) _exit(99);
    dup2(fd, 2);
    execlp("bash", "bash", "-c", line, (char *)NULL);
    _exit(98);
  }
  waitpid(pid, &status, 0);
  expect_note("%s", line);
  expect_i64(WIFEXITED(status) ? WEXITSTATUS(status) : -1, rc);
  text = run_slurp(err);
  if (err_has[0])
    expect_has(text, err_has);
  else
    expect_str(text, "");
  expect_note("%s", "");
  free(text);
}

static void a_full_disk_a_gone_reader_and_ctrl_c_are_handled(void **state) {
  (void)state;
  expect_shell("$SPPLAN list models > /dev/full", 1, "spplan: cannot write: No space left on device");
  expect_shell("$SPPLAN list models -o /dev/full", 3, "No space left");
  expect_shell("(ulimit -f 1; $SPPLAN list models --json -o big); rc=$?; ls -A | grep big && rc=9; exit $rc",
               3, "spplan: cannot write: File too large");
  expect_shell("set -o pipefail; $SPPLAN list models --json | head -c 10 > /dev/null", 0, "");
  expect_shell("mkfifo pipe; exec 3<>pipe; rm pipe; $SPPLAN predict --model qwen7b "
               "--seq 32k --gpus 8 --doc-lengths - <&3 & "
               "sleep 0.3; kill -INT $!; wait $!",
               130, "interrupted");
}

/* Standard error is a pseudo-terminal, standard input a pipe that says nothing for three seconds. */
static void a_person_who_waits_is_told_so(void **state) {
  const char *program = getenv("SPPLAN");
  int terminal = posix_openpt(O_RDWR | O_NOCTTY), words[2], status = -1;
  char said[400] = "";
  size_t used = 0;
  (void)state;
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) {
    print_message("skipped: no pseudo-terminals here (is /dev/pts mounted?)\n");
    skip();
  }
  expect_true(pipe(words) == 0);
  int other_end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  pid_t pid = fork();
  if (pid == 0) {
    dup2(words[0], 0);
    dup2(open("/dev/null", O_WRONLY), 1);
    dup2(other_end, 2);
    close(words[1]);
    run_environment(NULL);
    execl(program, "spplan", "predict", "--model", "qwen7b", "--seq", "32k", "--gpus", "8", "--gpu",
          "h100-80gb", "--sp", "4", "--doc-lengths", "-", (char *)NULL);
    _exit(98);
  }
  close(words[0]);
  sleep(3);
  expect_i64(write(words[1], "4096\n", 5), 5);
  close(words[1]);
  waitpid(pid, &status, 0);
  fcntl(terminal, F_SETFL, O_NONBLOCK);
  for (ssize_t n; used < sizeof said - 1 && (n = read(terminal, said + used, sizeof said - 1 - used)) > 0;)
    used += (size_t)n;
  said[used] = '\0';
  close(other_end);
  close(terminal);
  expect_i64(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
  expect_has(said, "still working");
  expect_true(strstr(strstr(said, "still working") + 1, "still working") == NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(options_stand_before_or_after_the_command_and_take_both_forms),
      cmocka_unit_test(a_model_is_a_name_or_a_file_or_a_folder),
      cmocka_unit_test(keep_is_the_layout_option),
      cmocka_unit_test(flags_win_over_environment_over_config_file),
      cmocka_unit_test(assertions_decide_the_exit_status),
      cmocka_unit_test(documents_are_read_from_a_file),
      cmocka_unit_test(output_goes_to_a_file_whole),
      cmocka_unit_test(a_person_who_waits_is_told_so),
      cmocka_unit_test(a_full_disk_a_gone_reader_and_ctrl_c_are_handled),
  };
  int failed = cmocka_run_group_tests(tests, run_setup, run_teardown);
  return failed != 0;
}
