/* Fitting finds the constants that made the points; a machine that is not quiet is refused; what is measured
 * here is within what processors can do. */
#include "tests/expect.h"

#include <stdlib.h>

#include "exec/calib_parts.h"

static const double rate = 100e9, gemm_t0_s = 2e-6, half = 16, memory_rate = 20e9, link_rate = 5e9,
                    link_t0_s = 10e-6, link_step_s = 4e-6;

/* The forms of docs/time.md with known constants. */
static double made_s(const struct spp_measured *p) {
  double a = (double)p->size[0], b = (double)p->size[1], c = (double)p->size[2];
  switch (p->what) {
  case SPP_MEASURED_GEMM: return gemm_t0_s + 2 * (a + half) * (b + half) * (c + half) / rate;
  case SPP_MEASURED_ATTENTION:
    return 5e-6 + 2 * a * a * b * c * (p->variant ? 2.5 : 1) / (0.5 * rate) + 16 * a * b * c / memory_rate;
  case SPP_MEASURED_MEMORY:
    return 1e-6 * fmax(1, spp_measured_launches(p->variant)) +
           a * b * spp_measured_bytes(p->variant) / memory_rate;
  case SPP_MEASURED_MESSAGE:
    return link_t0_s + link_step_s * (p->variant == SPP_SEND_RECV ? 0 : b - 1) + a / link_rate;
  case SPP_MEASURED_COUNT: break;
  }
  return 0;
}

static void add(struct spp_profile *p, enum spp_measured_what what, int variant, int64_t a, int64_t b,
                int64_t c) {
  struct spp_measured *m = &p->points[p->point_count++];
  *m = (struct spp_measured){.what = what, .variant = variant, .size = {a, b, c}, .samples = 5};
  m->median_s = made_s(m);
}

static struct spp_profile *made_profile(void) {
  struct spp_profile *p = calloc(1, sizeof *p);
  assert_non_null(p);
  p->ranks = p->hosts = 1;
  p->cluster.gpus_per_node = 1;
  for (int64_t m = 32; m <= 1024; m *= 2)
    for (int v = 0; v < 3; v++)
      add(p, SPP_MEASURED_GEMM, v, m, 64 + m / 2, 128);
  for (int64_t n = 64; n <= 1024; n *= 2)
    for (int v = 0; v < 4; v++)
      add(p, SPP_MEASURED_ATTENTION, v % 2, n, 4, v < 2 ? 32 : 128);
  for (int kind = 0; kind < SPP_MEMORY_KERNEL_COUNT; kind++)
    for (int64_t rows = 16; rows <= 1024; rows *= 4)
      add(p, SPP_MEASURED_MEMORY, kind, rows, 256, 0);
  for (int op = 0; op < SPP_COLLECTIVE_COUNT; op++)
    for (int64_t bytes = 1 << 10; bytes <= 1 << 22; bytes *= 8)
      for (int64_t n = 2; n <= 8; n *= 2)
        add(p, SPP_MEASURED_MESSAGE, op, bytes, n, 0);
  return p;
}

static void a_fit_finds_the_constants_that_made_the_points(void **state) {
  struct spp_profile *p = made_profile();
  struct spp_diag diag = {.status = SPP_OK};
  (void)state;
  enum spp_status status = spp_calib_conclude(p, &diag);
  if (status == SPP_ERR_ABSENT) {
    free(p);
    skip(); /* built without GSL */
  }
  expect_status(status, SPP_OK, &diag);
  expect_rel(p->calib.gemm.efficiency * p->gpu.flops_per_s[SPP_DTYPE_FP32], rate,
             0.1); /* sizes at half rate trade off with it */
  expect_rel(p->calib.attention[SPP_ATTN_FA2][1].backward.efficiency * p->gpu.flops_per_s[SPP_DTYPE_FP32],
             0.5 * rate, 0.05);
  expect_rel(p->calib.memory_share[SPP_MEMORY_NORM] * p->gpu.memory_bytes_per_s, memory_rate, 0.05);
  expect_rel(p->calib.launch_s, 1e-6, 0.1);
  expect_rel(p->calib.link[SPP_ALL_GATHER].link_share * p->gpu.link_bytes_per_s, link_rate, 0.05);
  expect_rel(p->calib.link[SPP_ALL_GATHER].a0_s + 3 * p->calib.link[SPP_ALL_GATHER].a1_s,
             link_t0_s + 3 * link_step_s, 0.1);
  for (int i = 0; i < p->fit_count; i++) {
    expect_note("%s %s", p->fits[i].section, p->fits[i].name);
    expect_true(p->fits[i].median_error < 0.03);
    for (int k = 0; k < p->fits[i].count; k++)
      expect_true(p->fits[i].values[k] > 0 && p->fits[i].errors[k] >= 0);
  }
  expect_note("%s", "");
  free(p);
}

/* One wild point in each form moves nothing: residuals above 10 % count linearly. */
static void one_wild_point_moves_little(void **state) {
  struct spp_profile *p = made_profile();
  struct spp_diag diag = {.status = SPP_OK};
  (void)state;
  p->points[4].median_s *= 5;
  enum spp_status status = spp_calib_conclude(p, &diag);
  if (status == SPP_OK) expect_rel(p->calib.gemm.efficiency * p->gpu.flops_per_s[SPP_DTYPE_FP32], rate, 0.1);
  free(p);
  if (status == SPP_ERR_ABSENT) skip();
}

static int progress_calls, progress_total;
static void count_progress(void *context, int done, int total) {
  (void)context;
  progress_calls++;
  progress_total = total;
  assert_true(done <= total);
}

static void this_machine_is_measured(void **state) {
  struct spp_profile *p = calloc(1, sizeof *p);
  struct spp_diag diag = {.status = SPP_OK};
  struct spp_calibrate_options options = {
      .quick = true, .ranks = 2, .timeout_s = 60, .progress = count_progress};
  (void)state;
  enum spp_status status = spp_calibrate(&spp_backend_self, &options, p, &diag);
  if (status == SPP_ERR_ABSENT) {
    free(p);
    skip();
  }
  expect_status(status, SPP_OK, &diag);
  expect_i64(progress_calls, progress_total);
  expect_i64(p->point_count, progress_total);
  expect_i64(p->hosts, 1);
  expect_i64(p->cluster.gpus_per_node, 2);
  expect_true(p->gpu.flops_per_s[SPP_DTYPE_FP32] > 1e7 && p->gpu.flops_per_s[SPP_DTYPE_FP32] < 1e13);
  expect_true(p->gpu.memory_bytes_per_s > 1e7 && p->gpu.memory_bytes_per_s < 1e13);
  options.progress = NULL;
  options.max_spread = 1e-12;
  expect_status(spp_calibrate(&spp_backend_self, &options, p, &diag), SPP_ERR_TOLERANCE, NULL);
  expect_true(strstr(diag.what, "times of the same call differ") != NULL);
  free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_fit_finds_the_constants_that_made_the_points),
      cmocka_unit_test(one_wild_point_moves_little),
      cmocka_unit_test(this_machine_is_measured),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
