/* The shell that launch scripts are written in: words, variables, arrays, and what is no script at all. */
#include "interop/shell.h"
#include "interop/unwrap.h"

#include <string.h>

#include "tests/expect.h"

static struct spp_arena arena;
static struct spp_script script;

static enum spp_status read_length(const char *text, size_t length, struct spp_diag *diag) {
  expect_note("%.60s", text);
  return spp_shell_read(text, length, "f.sh", NULL, &arena, &script, diag);
}

/* The words of command number `at`, joined by '|'. */
static const char *words_of(int at) {
  static char text[8192];
  size_t used = 0;
  text[0] = '\0';
  for (int i = 0; at < script.count && i < script.commands[at].count; i++)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? "|" : "",
                             script.commands[at].words[i].text);
  return text;
}

static void words_are_cut_as_a_shell_cuts_them(void **state) {
  static const struct {
    const char *text, *words; /* of the first command */
  } rows[] = {
      {"a b  c", "a|b|c"},
      {"a \\\n  b \\\r\n c\n d", "a|b|c"},
      {"a 'b  c' \"d e\" f\\ g", "a|b  c|d e|f g"},
      {"a b'c'\"d\"e", "a|bcde"},
      {"# first\n\na # then\n", "a"},
      {"a b#c", "a|b#c"},
      {"X=1\na $X ${X} \"$X\" '$X'", "a|1|1|1|$X"},
      {"X=\"--p 1 --q 2\"\na $X \"$X\"", "a|--p|1|--q|2|--p 1 --q 2"},
      {"X=(--p 1\n # why\n --q \"2 3\")\na \"${X[@]}\"", "a|--p|1|--q|2 3"},
      {"X=(--p)\nX+=(--q 1)\na \"${X[@]}\" z", "a|--p|--q|1|z"},
      {"a ${N:-4} ${M-5} $K ${K}", "a|4|5|$K|${K}"},
      {"N=8; export M=$N\na $M", "a|8"},
      {"a $(nproc) `date`x", "a|$(nproc)|datex"},
      {"a $((1+2)) $((2 * (3 - 1) % 3)) $((7/2))", "a|3|1|3"},
      {"N=2\nM=$((N * 8))\na $((M / N)) ${M}k $(($N*$M))", "a|8|16k|32"},
      {"a $((K + 1)) $((1/0)) $((1+)) $((1.5*2))", "a|$((K + 1))|$((1/0))|$((1+))|$((1.5*2))"},
      {"#SBATCH --nodes=4\n#SBATCH --gres=gpu:h100:8\n#SBATCH -N x\na $SLURM_NNODES $SLURM_GPUS_PER_NODE",
       "a|4|8"},
      {"a >log 2>&1 b", "a|b"},
      {"A=1 B=2 c d", "A=1|B=2|c|d"},
      {"if true; then\n a b\nfi", "if|true"},
      {"cat >x <<'EOF'\nswift sft\nEOF\na b", "cat"},
      {"a;b", "a"},
      {"a && b", "a"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct spp_diag diag = {0};
    expect_status(read_length(rows[i].text, strlen(rows[i].text), &diag), SPP_OK, &diag);
    expect_str(words_of(0), rows[i].words);
  }
  expect_note("%s", "");
}

static void a_here_document_holds_no_command(void **state) {
  const char text[] = "cat >x <<'EOF'\nswift sft\nEOF\na b";
  (void)state;
  expect_status(read_length(text, strlen(text), NULL), SPP_OK, NULL);
  expect_i64(script.count, 2);
  expect_str(words_of(1), "a|b");
}

static void lines_are_counted_from_one(void **state) {
  const char text[] = "\nX='1\n2'\na \\\n b\n";
  (void)state;
  expect_status(read_length(text, strlen(text), NULL), SPP_OK, NULL);
  expect_i64(script.commands[0].words[0].line, 4);
  expect_i64(script.commands[0].words[1].line, 5);
}

/* bash: the comment runs to the end of its line, and that end ends the command. */
static void a_comment_inside_a_continued_command_ends_it(void **state) {
  const char text[] = "a --p 1 \\\n# --q 2 \\\n  --r 3\n";
  (void)state;
  expect_status(read_length(text, strlen(text), NULL), SPP_OK, NULL);
  expect_str(words_of(0), "a|--p|1");
  expect_i64(script.commands[0].cut_line, 2);
  expect_str(words_of(1), "--r|3");
}

static void only_exported_variables_reach_the_command(void **state) {
  const char text[] = "A=1\nexport B=2\nC=3\nexport C\na";
  (void)state;
  expect_status(read_length(text, strlen(text), NULL), SPP_OK, NULL);
  expect_i64(script.exported_count, 2);
  expect_str(script.exported[0].text, "B=2");
  expect_str(script.exported[1].text, "C=3");
}

static void what_is_no_script_is_refused_by_line(void **state) {
  static const struct {
    const char *text;
    size_t length;
    const char *what, *where;
  } rows[] = {
      {"a 'b", 4, "not closed", "f.sh:1"},  {"a\nb \"c\nd", 8, "not closed", "f.sh:2"},
      {"a `b", 4, "not closed", "f.sh:1"},  {"a ${b", 5, "not closed", "f.sh:1"},
      {"a $(b", 5, "not closed", "f.sh:1"}, {"a=(b", 4, "not closed", "f.sh:1"},
      {"a\0b", 3, "NUL", "f.sh:1"},         {"cat <<EOF\na", 11, "here-document", "f.sh:"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct spp_diag diag = {0};
    expect_i64(read_length(rows[i].text, rows[i].length, &diag), SPP_ERR_INPUT);
    expect_has(diag.what, rows[i].what);
    expect_has(diag.where, rows[i].where);
  }
  expect_note("%s", "");
}

/* Each line doubles the one before: 2^40 words when it were followed through. */
static void variables_that_double_stop(void **state) {
  static char text[4096];
  struct spp_diag diag = {0};
  size_t used = (size_t)snprintf(text, sizeof text, "a0='x y'\n");
  (void)state;
  for (int i = 1; i <= 40; i++)
    used += (size_t)snprintf(text + used, sizeof text - used, "a%d=\"$a%d $a%d\"\n", i, i - 1, i - 1);
  expect_i64(read_length(text, used, &diag), SPP_ERR_INPUT);
}

static int setup(void **state) {
  (void)state;
  spp_arena_init(&arena);
  return 0;
}
static int teardown(void **state) {
  (void)state;
  spp_arena_free(&arena);
  return 0;
}

/* Each row names the command that is in the end run, with the variables set for it. */
static void a_command_that_starts_another_gives_way_to_it(void **state) {
  static const struct {
    const char *text, *words;
    int at;
  } rows[] = {
      {"bash -c 'a b'", "a|b", 0},
      {"srun -N 2 bash -lc 'export X=1; a $X'", "srun|-N|2|a|1", 0},
      {"X=1 bash -c 'Y=2 a $X'", "X=1|Y=2|a|1", 0},
      {"export X=3\nbash -c 'a $X && b'", "b", 1},
      {"CMD=\"torchrun a.py\"\neval \"$CMD --x 1\"", "torchrun|a.py|--x|1", 0},
      {"sh -c \"bash -c 'a b'\"", "a|b", 0},
      {"bash -c \"a 'b\"", "bash|-c|a 'b", 0}, /* no script: it stays */
      {"bash run.sh", "bash|run.sh", 0},
      {"docker run --gpus all -e N=8 --shm-size 8g img swift sft", "N=8|swift|sft", 0},
      {"A=1 docker run img bash -c 'torchrun a.py'", "A=1|torchrun|a.py", 0},
      {"srun -N 2 singularity exec i.sif python a.py", "srun|-N|2|python|a.py", 0},
      {"nsys profile -o x torchrun a.py", "torchrun|a.py", 0},
      {"env A=1 timeout 3600 torchrun a.py", "A=1|torchrun|a.py", 0},
      {"ssh h 'cd x && python a.py'", "ssh|h|cd x && python a.py", 0},
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct spp_diag diag = {0};
    expect_status(read_length(rows[i].text, strlen(rows[i].text), &diag), SPP_OK, &diag);
    expect_status(spp_shell_unwrap(&script, "f.sh", &arena, &diag), SPP_OK, &diag);
    expect_str(words_of(rows[i].at), rows[i].words);
  }
}

/* A text that holds itself 1000 times over is read as far as the limit goes, not for ever. */
static void texts_within_texts_come_to_an_end(void **state) {
  static const char text[] = "X='eval $X; eval $X'\nexport X\neval $X\n";
  struct spp_diag diag = {0};
  (void)state;
  expect_status(read_length(text, strlen(text), &diag), SPP_OK, &diag);
  expect_status(spp_shell_unwrap(&script, "f.sh", &arena, &diag), SPP_OK, &diag);
  expect_i64(script.count <= SPP_MAX_COMMANDS, 1);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(words_are_cut_as_a_shell_cuts_them),
      TEST(a_command_that_starts_another_gives_way_to_it),
      TEST(texts_within_texts_come_to_an_end),
      TEST(a_here_document_holds_no_command),
      TEST(lines_are_counted_from_one),
      TEST(a_comment_inside_a_continued_command_ends_it),
      TEST(only_exported_variables_reach_the_command),
      TEST(what_is_no_script_is_refused_by_line),
      TEST(variables_that_double_stop),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
