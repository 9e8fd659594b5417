/* Which layers wait while one is at work: counted by hand from the order of the schedule. */
#include "model/memory_parts.h"

#include "tests/model/framework_case.h"

enum { STAGES = 2 };
static const char *const family[] = {
    "{\"model_type\":\"llama\",", /* dense */
    "{\"model_type\":\"glm4_moe\",\"n_routed_experts\":4,\"num_experts_per_tok\":2,\"n_shared_experts\":1,"
    "\"moe_intermediate_size\":32,\"first_k_dense_replace\":1,"};

struct counted {
  struct spp_job job;
  struct spp_layout layout;
  struct spp_geometry g;
  struct spp_stage stage;
  struct spp_memory_lists lists;
  struct spp_memory_view view;
  struct spp_memory_stage s;
  struct spp_memory_turn turns[SPP_TURNS_MAX];
  int count;
};

/* A stage of two under ZeRO-0, four micro-batches. */
static void count(struct counted *c, const char *framework, bool experts, int64_t layers, int64_t vpp,
                  int64_t recomputed, int64_t stage) {
  const struct spp_arch *arch;
  struct spp_diag diag;
  char text[512];
  snprintf(text, sizeof text,
           "%s\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":%lld,"
           "\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":8,\"vocab_size\":128}",
           family[experts], (long long)layers);
  expect_status(spp_arch_parse(text, strlen(text), "test", &case_arena, &arch, &diag), SPP_OK, &diag);
  memset(c, 0, sizeof *c);
  c->job = case_job(arch, framework, STAGES, 32);
  c->layout = case_layout(&c->job, 1, STAGES, 1);
  c->layout.zero = 0;
  c->layout.vpp = vpp;
  c->layout.schedule = vpp > 1 ? SPP_SCHEDULE_INTERLEAVED : SPP_SCHEDULE_1F1B;
  c->layout.grad_accum = 4;
  c->layout.recompute = recomputed == 0 ? SPP_RECOMPUTE_NONE : SPP_RECOMPUTE_FULL;
  c->layout.recompute_layers = recomputed == 0 ? SPP_UNSET : recomputed;
  spp_geometry_resolve(&c->job, &c->layout, &c->g);
  spp_stage_resolve(&c->job, &c->layout, &c->g, stage, &c->stage);
  spp_memory_view_begin(&c->job, &c->layout, &c->g, &c->view);
  spp_memory_view_layers(&c->view, &c->lists);
  spp_memory_stage_layers(&c->view, &c->stage, &c->s);
  c->count = spp_memory_turns(&c->s, c->turns);
}

static void expect_counts(const int64_t counts[SPP_WAIT_COUNT], int64_t pass, int64_t loss, int64_t end) {
  expect_i64(counts[SPP_WAIT_FORWARD], pass);
  expect_i64(counts[SPP_WAIT_BACKWARD], pass);
  expect_i64(counts[SPP_WAIT_LOSS], loss);
  expect_i64(counts[SPP_WAIT_END], end);
}

/* Four layers, the first dense, on two stages: D E | E E. The first stage has two micro-batches in flight.
 * While the dense layer of the second one works, its expert layer has not run yet, or is gone. At the end of
 * backward one micro-batch is left. */
static void layers_behind_the_running_one_do_not_wait(void **state) {
  struct counted c;
  (void)state;
  count(&c, "spplan", true, 4, 1, 0, 0);
  expect_i64(c.count, 2);
  expect_i64(c.turns[0].class, SPP_LAYER_DENSE);
  expect_counts(c.turns[0].kept[SPP_LAYER_DENSE], 2, 2, 1);
  expect_counts(c.turns[0].kept[SPP_LAYER_MOE], 1, 2, 1);
  expect_i64(c.turns[1].class, SPP_LAYER_MOE);
  expect_counts(c.turns[1].kept[SPP_LAYER_DENSE], 2, 2, 1);
  expect_counts(c.turns[1].kept[SPP_LAYER_MOE], 2, 2, 1);
}

/* Three of eight layers recomputed on D E E E | ...: a kept layer runs last, with three inputs of its own
 * micro-batch and of the other; when the last recomputed one runs, the kept one of its micro-batch is gone.
 */
static void recomputed_layers_are_a_sort_of_their_own_where_tensors_go_at_once(void **state) {
  struct counted c;
  (void)state;
  count(&c, "spplan", true, 8, 1, 3, 0);
  expect_i64(c.count, 3); /* dense again, experts kept, experts again */
  expect_true(c.turns[0].again && !c.turns[1].again && c.turns[2].again);
  expect_counts(c.turns[0].inputs[SPP_LAYER_DENSE], 2, 2, 1);
  expect_counts(c.turns[0].inputs[SPP_LAYER_MOE], 2, 4, 2);
  expect_counts(c.turns[0].kept[SPP_LAYER_MOE], 1, 2, 1);
  expect_counts(c.turns[1].inputs[SPP_LAYER_MOE], 4, 4, 2);
  expect_counts(c.turns[1].kept[SPP_LAYER_MOE], 2, 2, 1);
  expect_counts(c.turns[2].inputs[SPP_LAYER_MOE], 4, 4, 2);
  expect_counts(c.turns[2].kept[SPP_LAYER_MOE], 1, 2, 1);
}

/* Seven layers in four pieces: 1, 2, 2, 2. The first stage has those of 1 and 2 layers. It runs forward 1 1 2
 * 2, then 1, and seven layers are there when its first backward begins; two go; then 1 comes (6), 2 go, 2
 * come (6), 1 goes, 2 come (7). The other stage has 2 and 2: forward 2 2, then 2 (6), and from there one goes
 * for each that comes. */
static void unequal_chunks_are_counted_step_by_step(void **state) {
  static const char *const frameworks[] = {"spplan", "megatron-lm"};
  (void)state;
  for (int i = 0; i < 2; i++) {
    struct counted c;
    expect_note("%s", frameworks[i]);
    count(&c, frameworks[i], false, 7, 2, 0, 0);
    expect_i64(c.count, 1);
    expect_true(spp_memory_walks(&c.s));
    expect_i64(c.turns[0].kept[SPP_LAYER_DENSE][SPP_WAIT_FORWARD], 7);
    expect_i64(c.turns[0].kept[SPP_LAYER_DENSE][SPP_WAIT_BACKWARD], 7);
    count(&c, frameworks[i], false, 7, 2, 0, 1);
    expect_true(!spp_memory_walks(&c.s));
    expect_i64(c.turns[0].kept[SPP_LAYER_DENSE][SPP_WAIT_FORWARD], 6);
  }
  expect_note("%s", "");
}

/* Six layers in four pieces, of which embedding and head count as one: 1, 2, 2, 1. The last stage has those
 * of 2 and 1. It runs forward 2 2, then 1, which ends in the loss beside five; one goes, one comes (5); then
 * 2 come in the other chunk (6), none of them in the loss. */
static void the_loss_waits_beside_what_its_own_chunk_leaves(void **state) {
  struct counted c;
  (void)state;
  count(&c, "megatron-bridge", false, 6, 2, 0, 1);
  expect_true(spp_memory_walks(&c.s));
  expect_i64(c.turns[0].kept[SPP_LAYER_DENSE][SPP_WAIT_FORWARD], 6);
  expect_i64(c.turns[0].kept[SPP_LAYER_DENSE][SPP_WAIT_BACKWARD], 6);
  expect_i64(c.turns[0].kept[SPP_LAYER_DENSE][SPP_WAIT_LOSS], 5);
}

/* Four layers in four pieces, D E E E; the first stage has D and E. Forward D D E E, then D: three and two
 * are there when backward begins with E. At that step the expert layer has three dense ones beside it. Dense
 * backward begins when two of each chunk are left of four forwards and one more: never more than two and two.
 */
static void kinds_of_layers_in_different_chunks_have_moments_of_their_own(void **state) {
  struct counted c;
  (void)state;
  count(&c, "spplan", true, 4, 2, 0, 0);
  expect_i64(c.count, 2);
  expect_i64(c.turns[0].class, SPP_LAYER_DENSE);
  expect_i64(c.turns[0].kept[SPP_LAYER_DENSE][SPP_WAIT_FORWARD], 3);
  expect_i64(c.turns[0].kept[SPP_LAYER_MOE][SPP_WAIT_FORWARD], 2);
  expect_i64(c.turns[1].kept[SPP_LAYER_DENSE][SPP_WAIT_BACKWARD], 3);
  expect_i64(c.turns[1].kept[SPP_LAYER_MOE][SPP_WAIT_BACKWARD], 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(layers_behind_the_running_one_do_not_wait, case_setup, case_teardown),
      cmocka_unit_test_setup_teardown(recomputed_layers_are_a_sort_of_their_own_where_tensors_go_at_once,
                                      case_setup, case_teardown),
      cmocka_unit_test_setup_teardown(unequal_chunks_are_counted_step_by_step, case_setup, case_teardown),
      cmocka_unit_test_setup_teardown(the_loss_waits_beside_what_its_own_chunk_leaves, case_setup,
                                      case_teardown),
      cmocka_unit_test_setup_teardown(kinds_of_layers_in_different_chunks_have_moments_of_their_own,
                                      case_setup, case_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
