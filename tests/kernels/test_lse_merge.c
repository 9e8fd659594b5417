/* Merging block results, and attention split over keys as a ring does it. */
#include "tests/kernels/attn_case.h"

/* l = 0 and ln 3 weigh 1 : 3, so l = ln 4 and out = (1 * 1 + 3 * 5) / 4 = 4. */
static void two_rows_merge_by_their_weights(void **state) {
  (void)state;
  float out = 1.0F, lse = 0.0F, block_out = 5.0F, block_lse = logf(3.0F);
  judged_lse_merge(1, 1, 1, &out, 1, &lse, 1, &block_out, 1, &block_lse, 1);
  expect_rel((double)out, 4.0, 1e-6);
  expect_rel((double)lse, log(4.0), 1e-6);
}

static void a_side_without_keys_leaves_the_other(void **state) {
  (void)state;
  float out = 0.0F, lse = -INFINITY, block_out = 5.0F, block_lse = 2.0F;
  judged_lse_merge(1, 1, 1, &out, 1, &lse, 1, &block_out, 1, &block_lse, 1);
  expect_true(out == 5.0F && lse == 2.0F);
  float nothing = 0.0F, none = -INFINITY;
  judged_lse_merge(1, 1, 1, &out, 1, &lse, 1, &nothing, 1, &none, 1);
  expect_true(out == 5.0F && lse == 2.0F);
  out = 0.0F;
  lse = -INFINITY;
  judged_lse_merge(1, 1, 1, &out, 1, &lse, 1, &nothing, 1, &none, 1);
  expect_true(out == 0.0F && lse == -INFINITY);
}

static void far_apart_sums_do_not_overflow(void **state) {
  (void)state;
  float out = 1.0F, lse = -5000.0F, block_out = 5.0F, block_lse = 5000.0F;
  judged_lse_merge(1, 1, 1, &out, 1, &lse, 1, &block_out, 1, &block_lse, 1);
  expect_true(out == 5.0F && lse == 5000.0F);
}

enum { TOKENS = 120, HEADS = 4, KV_HEADS = 2, DIM = 64 };

/* Rows `first`.. of a key tensor. */
static struct spp_rows from(const struct spp_rows *x, int64_t first) {
  return (struct spp_rows){(float *)x->data + first * x->row_stride, x->row_stride, x->storage};
}

/* Forward of each key piece, merged; then backward of each piece with the merged lse: dq of the pieces add
 * up, dk and dv of a piece are final. */
static void attention_over_pieces_of_the_keys_equals_the_whole(void **state) {
  (void)state;
  static const int64_t cuts[] = {0, 40, 41, 120};
  struct spp_attn_options options = {0};
  struct spp_attn_shape shape = SHAPE(TOKENS, TOKENS, HEADS, KV_HEADS, DIM, 0, spp_mask_causal(0, 0));
  const struct spp_kernels *kernels = judged_best();
  struct attn_case whole = case_make(shape, SPP_STORE_F32), sum = case_make(shape, SPP_STORE_F32);
  case_forward(kernels, &whole, options);
  judged_attn_delta(judged_best(), &whole.shape, whole.dout, whole.out, whole.delta);
  case_backward(kernels, &whole, options);
  memset(sum.out.data, 0, (size_t)(TOKENS * sum.out.row_stride) * 4);
  for (int64_t i = 0; i < HEADS * sum.lse.head_stride; i++)
    sum.lse.data[i] = -INFINITY;
  for (int piece = 0; piece < 3; piece++) {
    struct attn_case block = case_make(shape, SPP_STORE_F32), view = block;
    view.shape.kv_tokens = cuts[piece + 1] - cuts[piece];
    view.shape.mask = spp_mask_causal(0, cuts[piece]);
    view.k = from(&block.k, cuts[piece]);
    view.v = from(&block.v, cuts[piece]);
    case_forward(kernels, &view, options);
    judged_lse_merge(TOKENS, HEADS, DIM, sum.out.data, sum.out.row_stride, sum.lse.data, sum.lse.head_stride,
                     view.out.data, view.out.row_stride, view.lse.data, view.lse.head_stride);
    case_free(&block);
  }
  expect_near(case_error(&sum.out, &whole.out, TOKENS, HEADS * DIM), 0.0, 1e-6);
  judged_attn_delta(judged_best(), &sum.shape, sum.dout, sum.out, sum.delta);
  memset(sum.dq.data, 0, (size_t)(TOKENS * sum.dq.row_stride) * 4);
  for (int piece = 0; piece < 3; piece++) {
    struct attn_case block = case_make(shape, SPP_STORE_F32), view = sum;
    view.shape.kv_tokens = cuts[piece + 1] - cuts[piece];
    view.shape.mask = spp_mask_causal(0, cuts[piece]);
    view.k = from(&sum.k, cuts[piece]);
    view.v = from(&sum.v, cuts[piece]);
    view.dk = from(&sum.dk, cuts[piece]);
    view.dv = from(&sum.dv, cuts[piece]);
    view.dq = block.dq;
    case_backward(kernels, &view, options);
    for (int64_t t = 0; t < TOKENS; t++)
      for (int64_t i = 0; i < HEADS * DIM; i++)
        ((float *)sum.dq.data)[t * sum.dq.row_stride + i] += case_at(&block.dq, t, i);
    case_free(&block);
  }
  expect_near(case_error(&sum.dq, &whole.dq, TOKENS, HEADS * DIM), 0.0, 5e-6);
  expect_near(case_error(&sum.dk, &whole.dk, TOKENS, KV_HEADS * DIM), 0.0, 5e-6);
  expect_near(case_error(&sum.dv, &whole.dv, TOKENS, KV_HEADS * DIM), 0.0, 5e-6);
  case_free(&whole);
  case_free(&sum);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_rows_merge_by_their_weights),
      cmocka_unit_test(a_side_without_keys_leaves_the_other),
      cmocka_unit_test(far_apart_sums_do_not_overflow),
      cmocka_unit_test(attention_over_pieces_of_the_keys_equals_the_whole),
  };
  if (!judged_ready()) return JUDGED_SKIPPED;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
