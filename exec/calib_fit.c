/* Robust nonlinear least squares: iteratively reweighted Levenberg-Marquardt of GSL multifit_nlinear, on the
 * logarithms of positive constants. The same method as tools/fit_kernels.c. */
#include <math.h>

#include "exec/calib_parts.h"

#ifdef SPP_HAVE_GSL
#include <gsl/gsl_blas.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_multifit_nlinear.h>

enum { ROUNDS = 6, ITERATIONS = 100 };
static const double soft_l1_scale = 0.1; /* residuals above 10 % count linearly */
/* Few points say nothing about some constants: a residual of 3 % for each factor of e from its start keeps
 * every one finite and moves none that the points determine. */
static const double prior_weight = 0.03;

static int residuals(const gsl_vector *logs, void *data, gsl_vector *out) {
  const struct spp_fit_problem *p = data;
  double c[SPP_FIT_CONSTANTS];
  for (int i = 0; i < p->constants; i++)
    c[i] = exp(gsl_vector_get(logs, (size_t)i));
  for (int i = 0; i < p->points; i++)
    gsl_vector_set(out, (size_t)i, log(p->predicted_s(p->context, i, c) / p->measured_s[i]));
  for (int i = 0; i < p->constants; i++)
    gsl_vector_set(out, (size_t)(p->points + i),
                   prior_weight * (gsl_vector_get(logs, (size_t)i) - log(p->start[i])));
  return GSL_SUCCESS;
}

struct solver {
  gsl_multifit_nlinear_workspace *work;
  gsl_vector *x, *weights, *r;
  gsl_matrix *covariance;
};

static bool solver_open(const struct spp_fit_problem *p, struct solver *s) {
  gsl_multifit_nlinear_parameters options = gsl_multifit_nlinear_default_parameters();
  size_t k = (size_t)p->constants, n = (size_t)p->points + k; /* the priors last */
  gsl_set_error_handler_off();
  *s = (struct solver){gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &options, n, k),
                       gsl_vector_alloc(k), gsl_vector_alloc(n), gsl_vector_alloc(n), gsl_matrix_alloc(k, k)};
  return s->work && s->x && s->weights && s->r && s->covariance;
}

static void solver_close(struct solver *s) {
  gsl_multifit_nlinear_free(s->work);
  gsl_vector_free(s->x);
  gsl_vector_free(s->weights);
  gsl_vector_free(s->r);
  gsl_matrix_free(s->covariance);
}

static bool iterate(struct solver *s, gsl_multifit_nlinear_fdf *fdf) {
  for (int round = 0; round < ROUNDS; round++) {
    int info = 0;
    if (gsl_multifit_nlinear_winit(s->x, s->weights, fdf, s->work) != GSL_SUCCESS) return false;
    (void)gsl_multifit_nlinear_driver(ITERATIONS, 1e-9, 1e-9, 0, NULL, NULL, &info, s->work);
    gsl_vector_memcpy(s->x, gsl_multifit_nlinear_position(s->work));
    residuals(s->x, fdf->params, s->r);
    for (size_t i = 0; i < s->r->size; i++)
      gsl_vector_set(s->weights, i, 1 / sqrt(1 + pow(gsl_vector_get(s->r, i) / soft_l1_scale, 2)));
  }
  return true;
}

static enum spp_status solve(const struct spp_fit_problem *p, struct solver *s, double *constants,
                             double *errors, struct spp_diag *diag) {
  struct spp_fit_problem copy = *p;
  gsl_multifit_nlinear_fdf fdf = {.f = residuals, .n = s->r->size, .p = s->x->size, .params = &copy};
  double chi2 = 0;
  for (size_t i = 0; i < s->x->size; i++)
    gsl_vector_set(s->x, i, log(p->start[i]));
  gsl_vector_set_all(s->weights, 1);
  if (!iterate(s, &fdf)) return spp_diag_set(diag, SPP_ERR_INTERNAL, NULL, NULL, "the fit does not converge");
  gsl_blas_ddot(gsl_multifit_nlinear_residual(s->work), gsl_multifit_nlinear_residual(s->work), &chi2);
  gsl_multifit_nlinear_covar(gsl_multifit_nlinear_jac(s->work), 0, s->covariance);
  for (size_t i = 0; i < s->x->size; i++) {
    double variance = gsl_matrix_get(s->covariance, i, i) * chi2 / (double)(s->r->size - s->x->size);
    constants[i] = exp(gsl_vector_get(s->x, i));
    errors[i] = constants[i] * sqrt(variance);
  }
  return SPP_OK;
}

enum spp_status spp_fit_solve(const struct spp_fit_problem *p, double *constants, double *errors,
                              struct spp_diag *diag) {
  struct solver s;
  if (p->points < 1) return spp_diag_set(diag, SPP_ERR_INTERNAL, NULL, NULL, "nothing measured to fit");
  enum spp_status status = solver_open(p, &s) ? solve(p, &s, constants, errors, diag) : spp_diag_oom(diag);
  solver_close(&s);
  return status;
}

#else

enum spp_status spp_fit_solve(const struct spp_fit_problem *p, double *constants, double *errors,
                              struct spp_diag *diag) {
  (void)p;
  (void)constants;
  (void)errors;
  return spp_diag_set(diag, SPP_ERR_ABSENT, "GSL", "install libgsl-dev and build again",
                      "constants cannot be fitted: built without GSL");
}

#endif
