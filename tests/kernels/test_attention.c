/* Every usable kernel variant against the reference, over shapes, masks and storage types. */
#include "tests/kernels/attn_case.h"

static const int64_t docs_a[] = {0, 5, 70, 70, 131, 200};
static const int64_t docs_b[] = {0, 200};
/* Positions 150..: documents that end before the queries leave rows without keys. */
static const int64_t docs_short[] = {10, 40, 90};

/* Chunks of a zigzag ring of 2: rank 0 holds chunks 0 and 3 of 50 tokens, rank 1 chunks 1 and 2. */
static const struct spp_pos_run zigzag0[] = {{0, 50}, {150, 50}};
static const struct spp_pos_run zigzag1[] = {{50, 50}, {100, 50}};

#define CAUSAL .mask = {.kind = SPP_MASK_CAUSAL}
#define SIZES(q, kv, heads_q, heads_kv, dim)                                                                 \
  .q_tokens = (q), .kv_tokens = (kv), .q_heads = (heads_q), .kv_heads = (heads_kv), .head_dim = (dim)
static const float slopes[] = {0.5F, 0.25F, 0.0625F, 1.0F};

static const struct {
  const char *name;
  struct spp_attn_shape shape;
} cases[] = {
    {"v narrower than q and k", {SIZES(133, 133, 2, 1, 96), CAUSAL, .v_head_dim = 64}},
    {"v wider than q and k", {SIZES(70, 201, 2, 2, 24), .mask = {.kind = SPP_MASK_FULL}, .v_head_dim = 128}},
    {"scores capped",
     {SIZES(150, 150, 4, 2, 64), .scale = 1.0F, .mask = {.kind = SPP_MASK_CAUSAL}, .cap = 5.0F}},
    {"scores hardly capped", {SIZES(77, 133, 2, 1, 64), .mask = {.kind = SPP_MASK_FULL}, .cap = 50.0F}},
    {"linear biases", {SIZES(193, 193, 4, 1, 32), CAUSAL, .slopes = slopes}},
    {"linear biases, keys earlier",
     {SIZES(60, 200, 4, 4, 64), .mask = {.kind = SPP_MASK_CAUSAL, .q = {.first = 140}}, .slopes = slopes}},
    {"linear biases, zigzag, capped, v of 8",
     {SIZES(100, 100, 2, 1, 64),
      .mask = {.kind = SPP_MASK_CAUSAL, .q = {0, zigzag0, 2}, .kv = {0, zigzag1, 2}}, .v_head_dim = 8,
      .cap = 2.0F, .slopes = slopes}},
    {"linear biases, packed, window of 33",
     {SIZES(200, 200, 2, 1, 64),
      .mask = {.kind = SPP_MASK_CAUSAL, .cu_seqlens = docs_a, .n_docs = 5, .window_tokens = 33},
      .slopes = slopes}},
    {"full, one head of 64", SHAPE(64, 64, 1, 1, 64, 0, {.kind = SPP_MASK_FULL})},
    {"full, odd lengths", SHAPE(77, 133, 2, 1, 64, 0, {.kind = SPP_MASK_FULL})},
    {"one query, one key", SHAPE(1, 1, 1, 1, 16, 0, {.kind = SPP_MASK_FULL})},
    {"one query, many keys", SHAPE(1, 301, 2, 2, 32, 0, {.kind = SPP_MASK_FULL})},
    {"a few queries, one key", SHAPE(5, 1, 2, 2, 32, 0, {.kind = SPP_MASK_FULL})},
    {"many queries, two keys", SHAPE(149, 2, 2, 2, 32, 0, {.kind = SPP_MASK_FULL})},
    {"no keys", SHAPE(5, 0, 1, 1, 16, 0, {.kind = SPP_MASK_FULL})},
    {"causal, grouped heads 4", SHAPE(193, 193, 4, 1, 96, 0, {.kind = SPP_MASK_CAUSAL})},
    {"causal, grouped heads 8", SHAPE(130, 130, 8, 1, 64, 0, {.kind = SPP_MASK_CAUSAL})},
    {"causal, head of 128", SHAPE(257, 257, 2, 2, 128, 0, {.kind = SPP_MASK_CAUSAL})},
    {"causal, head of 256", SHAPE(150, 150, 2, 1, 256, 0, {.kind = SPP_MASK_CAUSAL})},
    {"causal, head of 8", SHAPE(50, 50, 3, 3, 8, 0, {.kind = SPP_MASK_CAUSAL})},
    {"causal, head of 72", SHAPE(65, 65, 2, 1, 72, 0, {.kind = SPP_MASK_CAUSAL})},
    {"causal, queries later", SHAPE(60, 200, 2, 1, 64, 0, {.kind = SPP_MASK_CAUSAL, .q = {.first = 140}})},
    {"causal, keys later: first rows see none",
     SHAPE(200, 70, 2, 1, 64, 0, {.kind = SPP_MASK_CAUSAL, .kv = {.first = 100}})},
    {"causal, keys all later: nothing seen",
     SHAPE(64, 64, 1, 1, 32, 0, {.kind = SPP_MASK_CAUSAL, .kv = {.first = 64}})},
    {"zigzag, own block",
     SHAPE(100, 100, 2, 1, 64, 0, {.kind = SPP_MASK_CAUSAL, .q = {0, zigzag0, 2}, .kv = {0, zigzag0, 2}})},
    {"zigzag, later rank's keys: second half sees all",
     SHAPE(100, 100, 2, 1, 64, 0, {.kind = SPP_MASK_CAUSAL, .q = {0, zigzag0, 2}, .kv = {0, zigzag1, 2}})},
    {"zigzag, earlier rank's keys: first half seen",
     SHAPE(100, 100, 2, 1, 64, 0, {.kind = SPP_MASK_CAUSAL, .q = {0, zigzag1, 2}, .kv = {0, zigzag0, 2}})},
    {"packed documents",
     SHAPE(200, 200, 2, 1, 64, 0, {.kind = SPP_MASK_CAUSAL, .cu_seqlens = docs_a, .n_docs = 5})},
    {"packed, not causal",
     SHAPE(200, 200, 2, 2, 64, 0, {.kind = SPP_MASK_FULL, .cu_seqlens = docs_a, .n_docs = 5})},
    {"packed, one document",
     SHAPE(200, 200, 2, 1, 32, 0, {.kind = SPP_MASK_CAUSAL, .cu_seqlens = docs_b, .n_docs = 1})},
    {"packed, rows outside documents",
     SHAPE(120, 120, 1, 1, 32, 0, {.kind = SPP_MASK_CAUSAL, .cu_seqlens = docs_short, .n_docs = 2})},
    {"causal, window of 9", SHAPE(200, 200, 2, 1, 64, 0, {.kind = SPP_MASK_CAUSAL, .window_tokens = 9})},
    {"causal, blocks of 70",
     SHAPE(200, 200, 2, 1, 64, 0, {.kind = SPP_MASK_CAUSAL, .window_tokens = 70, .window_chunked = true})},
    {"packed, window of 33",
     SHAPE(200, 200, 2, 1, 64, 0,
           {.kind = SPP_MASK_CAUSAL, .cu_seqlens = docs_a, .n_docs = 5, .window_tokens = 33})},
    {"zigzag, window of 60",
     SHAPE(100, 100, 2, 1, 64, 0,
           {.kind = SPP_MASK_CAUSAL, .q = {0, zigzag1, 2}, .kv = {0, zigzag0, 2}, .window_tokens = 60})},
    {"packed zigzag", SHAPE(100, 100, 2, 1, 64, 0,
                            {.kind = SPP_MASK_CAUSAL,
                             .q = {0, zigzag1, 2},
                             .kv = {0, zigzag0, 2},
                             .cu_seqlens = docs_a,
                             .n_docs = 5})},
};
enum { CASES = sizeof cases / sizeof cases[0] };

/* fp32: 1e-5 of the norm. bf16: results are rounded to 8 bits (2^-9 = 0.002 relative each); a variant may
 * also round probabilities to bf16 as GPU kernels do. */
static double tolerance(enum spp_storage storage) {
  return storage == SPP_STORE_F32 ? 1e-5 : 1e-2;
}

static void compare_stats(const struct attn_case *a, const struct attn_case *b, double bound) {
  for (int64_t h = 0; h < a->shape.q_heads; h++)
    for (int64_t t = 0; t < a->shape.q_tokens; t++) {
      double x = (double)a->lse.data[h * a->lse.head_stride + t];
      double y = (double)b->lse.data[h * b->lse.head_stride + t];
      if (y == -INFINITY)
        expect_true(x == -INFINITY);
      else
        expect_near(x, y, bound * fmax(1.0, fabs(y)));
    }
}

/* Reference results, and delta for everyone. */
static struct attn_case reference_of(struct spp_attn_shape shape, enum spp_storage storage,
                                     const float *sinks) {
  int count;
  const struct spp_kernels *reference = judged_rows(&count)[0];
  struct attn_case want = case_make(shape, storage);
  want.sinks = sinks;
  case_forward(reference, &want, (struct spp_attn_options){0});
  judged_attn_delta(reference, &want.shape, want.dout, want.out, want.delta);
  case_backward(reference, &want, (struct spp_attn_options){0});
  return want;
}

static void judge(const struct spp_kernels *kernels, const struct attn_case *want) {
  const struct spp_attn_shape *s = &want->shape;
  struct attn_case got = case_make(*s, want->storage);
  int64_t qw = s->q_heads * s->head_dim, kw = s->kv_heads * s->head_dim;
  int64_t ow = s->q_heads * spp_attn_v_dim(s), vw = s->kv_heads * spp_attn_v_dim(s);
  double bound = tolerance(want->storage);
  got.sinks = want->sinks;
  case_forward(kernels, &got, (struct spp_attn_options){0});
  expect_near(case_error(&got.out, &want->out, s->q_tokens, ow), 0.0, bound);
  compare_stats(&got, want, 1e-5);
  size_t stats_bytes = (size_t)(s->q_heads * want->lse.head_stride) * sizeof(float);
  memcpy(got.lse.data, want->lse.data, stats_bytes);
  memcpy(got.delta.data, want->delta.data, stats_bytes);
  case_backward(kernels, &got, (struct spp_attn_options){0});
  expect_near(case_error(&got.dq, &want->dq, s->q_tokens, qw), 0.0, bound);
  expect_near(case_error(&got.dk, &want->dk, s->kv_tokens, kw), 0.0, bound);
  expect_near(case_error(&got.dv, &want->dv, s->kv_tokens, vw), 0.0, bound);
  case_free(&got);
}

/* Sinks that hardly count, that count like a key, and that take nearly all. */
static void every_variant_agrees_with_the_reference_about_sinks(void **state) {
  static const float sinks[] = {-3.0F, 0.5F, 4.0F, 40.0F, -60.0F, 1.0F, 2.0F, 3.0F};
  (void)state;
  int count;
  const struct spp_kernels *const *all = judged_rows(&count);
  for (int i = 0; i < CASES; i += 4)
    for (int storage = SPP_STORE_F32; storage <= SPP_STORE_BF16; storage++) {
      struct attn_case want = reference_of(cases[i].shape, (enum spp_storage)storage, sinks);
      for (int v = 1; v < count; v++) {
        if (!spp_kernels_usable(all[v])) continue;
        expect_note("sinks, %s, %s, %s", all[v]->name, cases[i].name, storage ? "bf16" : "fp32");
        judge(all[v], &want);
      }
      case_free(&want);
    }
}

static void every_variant_agrees_with_the_reference(void **state) {
  (void)state;
  int count;
  const struct spp_kernels *const *all = judged_rows(&count);
  for (int i = 0; i < CASES; i++)
    for (int storage = SPP_STORE_F32; storage <= SPP_STORE_BF16; storage++) {
      struct attn_case want = reference_of(cases[i].shape, (enum spp_storage)storage, NULL);
      for (int v = 1; v < count; v++) {
        if (!spp_kernels_usable(all[v])) continue;
        expect_note("%s, %s, %s", all[v]->name, cases[i].name, storage ? "bf16" : "fp32");
        judge(all[v], &want);
      }
      case_free(&want);
    }
}

/* A ring keeps block results in fp32 while q, k, v stay bf16. Sums are fp32 in every variant; what may be
 * rounded to bf16 are probabilities, each by 2^-9 at most, so the norm errs by less than 4e-3. */
static void bf16_inputs_may_give_fp32_results(void **state) {
  (void)state;
  int count;
  const struct spp_kernels *const *all = judged_rows(&count);
  struct spp_attn_shape shape = SHAPE(101, 101, 4, 2, 64, 0, {.kind = SPP_MASK_CAUSAL});
  struct attn_case want = {0};
  for (int v = 0; v < count; v++) {
    if (!spp_kernels_usable(all[v])) continue;
    expect_note("%s", all[v]->name);
    struct attn_case got = case_make(shape, SPP_STORE_BF16);
    struct spp_rows *results[] = {&got.out, &got.dq, &got.dk, &got.dv};
    for (int i = 0; i < 4; i++) {
      free(results[i]->data);
      *results[i] = case_rows(101, i < 2 ? 256 : 128, i, SPP_STORE_F32, 9);
    }
    case_forward(all[v], &got, (struct spp_attn_options){0});
    judged_attn_delta(all[v], &got.shape, got.dout, got.out, got.delta);
    case_backward(all[v], &got, (struct spp_attn_options){0});
    if (v == 0) {
      want = got;
      continue;
    }
    double bound = judged_rounds_bf16(all[v]) ? 4e-3 : 1e-5;
    expect_near(case_error(&got.out, &want.out, 101, 256), 0.0, bound);
    expect_near(case_error(&got.dq, &want.dq, 101, 256), 0.0, bound);
    expect_near(case_error(&got.dk, &want.dk, 101, 128), 0.0, bound);
    expect_near(case_error(&got.dv, &want.dv, 101, 128), 0.0, bound);
    case_free(&got);
  }
  case_free(&want);
}

static void rows_without_keys_give_zero_and_minus_infinity(void **state) {
  (void)state;
  int count;
  const struct spp_kernels *const *all = judged_rows(&count);
  struct spp_attn_shape shape = SHAPE(40, 40, 2, 1, 32, 0, {.kind = SPP_MASK_CAUSAL, .kv = {.first = 10}});
  for (int v = 0; v < count; v++) {
    if (!spp_kernels_usable(all[v])) continue;
    expect_note("%s", all[v]->name);
    struct attn_case c = case_make(shape, SPP_STORE_F32);
    case_forward(all[v], &c, (struct spp_attn_options){0});
    judged_attn_delta(judged_best(), &c.shape, c.dout, c.out, c.delta);
    case_backward(all[v], &c, (struct spp_attn_options){0});
    for (int64_t t = 0; t < 10; t++) {
      expect_true(c.lse.data[t] == -INFINITY);
      for (int64_t i = 0; i < 64; i++) {
        expect_true(case_at(&c.out, t, i) == 0.0F);
        expect_true(case_at(&c.dq, t, i) == 0.0F);
      }
    }
    /* Keys 30..39 are at positions 40..49, after every query. */
    for (int64_t t = 30; t < 40; t++)
      for (int64_t i = 0; i < 32; i++)
        expect_true(case_at(&c.dk, t, i) == 0.0F && case_at(&c.dv, t, i) == 0.0F);
    case_free(&c);
  }
}

/* The past of token 90 must not change by one bit when tokens from 90 on do. */
static void a_future_token_never_changes_the_past(void **state) {
  (void)state;
  enum { TOKENS = 150, CHANGED = 90, WIDTH = 128 };
  struct spp_attn_shape shape = SHAPE(TOKENS, TOKENS, 2, 2, 64, 0, {.kind = SPP_MASK_CAUSAL});
  struct attn_case a = case_make(shape, SPP_STORE_F32), b = case_make(shape, SPP_STORE_F32);
  case_fill((float *)b.k.data + CHANGED * b.k.row_stride, SPP_STORE_F32, (TOKENS - CHANGED) * b.k.row_stride,
            77, 9);
  case_fill((float *)b.v.data + CHANGED * b.v.row_stride, SPP_STORE_F32, (TOKENS - CHANGED) * b.v.row_stride,
            78, 9);
  case_forward(judged_best(), &a, (struct spp_attn_options){0});
  case_forward(judged_best(), &b, (struct spp_attn_options){0});
  for (int64_t t = 0; t < TOKENS; t++) {
    bool same = true;
    for (int64_t i = 0; i < WIDTH; i++)
      same = same && case_at(&a.out, t, i) == case_at(&b.out, t, i);
    expect_note("token %d", (int)t);
    expect_true(same == (t < CHANGED));
  }
  case_free(&a);
  case_free(&b);
}

static void results_do_not_depend_on_block_sizes(void **state) {
  (void)state;
  static const int64_t blocks[][2] = {{16, 16}, {16, 128}, {128, 16}, {48, 80}, {256, 256}};
  struct spp_attn_shape shape = SHAPE(201, 201, 2, 1, 64, 0, {.kind = SPP_MASK_CAUSAL});
  struct attn_case want = case_make(shape, SPP_STORE_F32);
  case_forward(judged_best(), &want, (struct spp_attn_options){0});
  judged_attn_delta(judged_best(), &want.shape, want.dout, want.out, want.delta);
  case_backward(judged_best(), &want, (struct spp_attn_options){0});
  for (int i = 0; i < 5; i++) {
    struct attn_case got = case_make(shape, SPP_STORE_F32);
    struct spp_attn_options options = {1, blocks[i][0], blocks[i][1]};
    expect_note("blocks %d x %d", (int)blocks[i][0], (int)blocks[i][1]);
    case_forward(judged_best(), &got, options);
    judged_attn_delta(judged_best(), &got.shape, got.dout, got.out, got.delta);
    case_backward(judged_best(), &got, options);
    expect_near(case_error(&got.out, &want.out, 201, 128), 0.0, 1e-6);
    expect_near(case_error(&got.dq, &want.dq, 201, 128), 0.0, 2e-6);
    expect_near(case_error(&got.dk, &want.dk, 201, 64), 0.0, 2e-6);
    expect_near(case_error(&got.dv, &want.dv, 201, 64), 0.0, 2e-6);
    case_free(&got);
  }
  case_free(&want);
}

static void expect_same_bits(const struct spp_rows *a, const struct spp_rows *b, int64_t tokens) {
  size_t bytes = (size_t)(tokens * a->row_stride * spp_storage_bytes(a->storage));
  expect_true(memcmp(a->data, b->data, bytes) == 0);
}

static void results_have_the_same_bits_for_any_number_of_threads(void **state) {
  (void)state;
  struct spp_attn_shape shape = SHAPE(260, 260, 4, 1, 64, 0, {.kind = SPP_MASK_CAUSAL});
  for (int storage = SPP_STORE_F32; storage <= SPP_STORE_BF16; storage++) {
    struct attn_case one = case_make(shape, (enum spp_storage)storage);
    case_forward(judged_best(), &one, (struct spp_attn_options){1, 32, 32});
    judged_attn_delta(judged_best(), &one.shape, one.dout, one.out, one.delta);
    case_backward(judged_best(), &one, (struct spp_attn_options){1, 32, 32});
    for (int run = 0; run < 6; run++) {
      struct attn_case many = case_make(shape, (enum spp_storage)storage);
      struct spp_attn_options options = {1 + run, 32, 32};
      case_forward(judged_best(), &many, options);
      judged_attn_delta(judged_best(), &many.shape, many.dout, many.out, many.delta);
      case_backward(judged_best(), &many, options);
      expect_note("%d threads", 1 + run);
      expect_same_bits(&many.out, &one.out, 260);
      expect_same_bits(&many.dq, &one.dq, 260);
      expect_same_bits(&many.dk, &one.dk, 260);
      expect_same_bits(&many.dv, &one.dv, 260);
      case_free(&many);
    }
    case_free(&one);
  }
}

/* Scores near 3e4: exp overflows unless the maximum is taken out first. An fp32 score of that size is only
 * known to 3e4 * 2^-24 = 0.002, so outputs are compared at that scale. */
static void large_scores_stay_finite(void **state) {
  (void)state;
  int count;
  const struct spp_kernels *const *all = judged_rows(&count);
  struct spp_attn_shape shape = SHAPE(70, 70, 1, 1, 64, 1.0F, {.kind = SPP_MASK_CAUSAL});
  struct attn_case want = case_make(shape, SPP_STORE_F32);
  case_fill(want.q.data, SPP_STORE_F32, 70 * want.q.row_stride, 1, 40.0F);
  case_fill(want.k.data, SPP_STORE_F32, 70 * want.k.row_stride, 2, 40.0F);
  case_forward(all[0], &want, (struct spp_attn_options){0});
  for (int v = 1; v < count; v++) {
    if (!spp_kernels_usable(all[v])) continue;
    expect_note("%s", all[v]->name);
    struct attn_case got = want;
    got.out = case_rows(70, 64, 0, SPP_STORE_F32, 9);
    case_forward(all[v], &got, (struct spp_attn_options){0});
    expect_near(case_error(&got.out, &want.out, 70, 64), 0.0, 5e-3);
    free(got.out.data);
  }
  case_free(&want);
}

static void a_bad_shape_is_refused_with_the_rule(void **state) {
  (void)state;
  static const struct spp_pos_run backwards[] = {{50, 32}, {0, 32}};
  static const struct {
    struct spp_attn_shape shape;
    const char *words;
  } bad[] = {
      {SHAPE(64, 64, 3, 2, 64, 1, {.kind = SPP_MASK_FULL}), "not a multiple of the key heads"},
      {SHAPE(64, 64, 2, 0, 64, 1, {.kind = SPP_MASK_FULL}), "no heads"},
      {SHAPE(64, 64, 2, 2, 60, 1, {.kind = SPP_MASK_FULL}), "multiple of 8"},
      {SHAPE(64, 64, 2, 2, 264, 1, {.kind = SPP_MASK_FULL}), "256"},
      {SHAPE(64, 64, 2, 2, 64, 0, {.kind = SPP_MASK_FULL}), "scale"},
      {SHAPE(-1, 64, 2, 2, 64, 1, {.kind = SPP_MASK_FULL}), "negative"},
      {SHAPE(64, 64, 2, 2, 64, 1,
             {.kind = SPP_MASK_CAUSAL,
              .q = {0, backwards, 2},
              .kv = {0, NULL, 0},
              .cu_seqlens = NULL,
              .n_docs = 0}),
       "backwards"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct spp_attn_forward f = {.shape = bad[i].shape};
    struct spp_diag diag = {0};
    f.q.row_stride = f.k.row_stride = f.v.row_stride = f.out.row_stride = 100000;
    f.lse.head_stride = 64;
    expect_status(judged_attn_forward(judged_best(), &f, NULL, &diag), SPP_ERR_INPUT, NULL);
    expect_has(diag.what, bad[i].words);
  }
}

/* Full, 3 queries by 5 keys, 2 heads of 8: 15 pairs x 2 heads x 4 x 8 = 960 forward, x 2.5 backward.
 * Causal 4 x 4: 10 pairs. */
static void flops_count_visible_pairs(void **state) {
  (void)state;
  struct spp_attn_shape full = SHAPE(3, 5, 2, 1, 8, 1, {.kind = SPP_MASK_FULL});
  struct spp_attn_shape causal = SHAPE(4, 4, 1, 1, 8, 1, {.kind = SPP_MASK_CAUSAL});
  expect_i64(spp_attn_forward_flops(&full), 960);
  expect_i64(spp_attn_backward_flops(&full), 2400);
  expect_i64(spp_attn_forward_flops(&causal), 10 * 4 * 8);
  full.v_head_dim = 24; /* 2 x (8 + 24) a pair and head; backward 2 x (3 x 8 + 2 x 24) */
  expect_i64(spp_attn_forward_flops(&full), 30 * 64);
  expect_i64(spp_attn_backward_flops(&full), 30 * 144);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_variant_agrees_with_the_reference),
      cmocka_unit_test(every_variant_agrees_with_the_reference_about_sinks),
      cmocka_unit_test(bf16_inputs_may_give_fp32_results),
      cmocka_unit_test(rows_without_keys_give_zero_and_minus_infinity),
      cmocka_unit_test(a_future_token_never_changes_the_past),
      cmocka_unit_test(results_do_not_depend_on_block_sizes),
      cmocka_unit_test(results_have_the_same_bits_for_any_number_of_threads),
      cmocka_unit_test(large_scores_stay_finite),
      cmocka_unit_test(a_bad_shape_is_refused_with_the_rule),
      cmocka_unit_test(flops_count_visible_pairs),
  };
  if (!judged_ready()) return JUDGED_SKIPPED;
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed != 0;
}
