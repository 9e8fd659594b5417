#include "exec/reference.h"

#include <math.h>
#include <string.h>

#include "exec/try.h"

enum spp_status spp_reference_open(const struct spp_arch *arch, struct spp_arena *arena,
                                   struct spp_reference *reference, struct spp_diag *diag) {
  struct spp_reference r = {.arch = arch, .total = spp_weights_total(arch)};
  r.gradients = spp_arena_array(arena, (size_t)r.total, sizeof *r.gradients);
  r.weights = spp_arena_array(arena, (size_t)r.total, sizeof *r.weights);
  if (!r.gradients || !r.weights) return spp_diag_oom(diag);
  *reference = r;
  return SPP_OK;
}

struct take {
  float *values;
  bool gradients;
};
static void take_one(void *context, const struct spp_weight *weight, int64_t number, float value,
                     float gradient) {
  const struct take *t = context;
  (void)weight;
  t->values[number] = t->gradients ? gradient : value;
}

enum spp_status spp_reference_take(const struct spp_engine *e, bool gradients, float *values) {
  struct take t = {values, gradients};
  return spp_engine_visit(e, take_one, &t);
}

/* The weight that the last element belonged to: its elements follow each other. */
struct compare {
  const float *values;
  bool gradients;
  const struct spp_arch *arch;
  int64_t first, last; /* numbers of the weight */
  double scale;
  double worst;
};

static double largest(const float *values, int64_t first, int64_t last) {
  double most = 0;
  for (int64_t i = first; i < last; i++)
    most = fmax(most, fabs((double)values[i]));
  return most;
}

/* A list of weights and the number of its first element: those outside the layers come first, then layer
 * after layer. */
struct weight_list {
  const struct spp_weight *weights;
  int count;
  int64_t first;
};
static struct weight_list list_of(const struct spp_arch *a, int64_t number) {
  int64_t layer = 0;
  if (number < spp_weights_layer_first(a, 0))
    return (struct weight_list){a->outer_weights, a->outer_weight_count, 0};
  while (number >= spp_weights_layer_first(a, layer + 1))
    layer++;
  const struct spp_layer_kind *kind = &a->kinds[a->kind_of_layer[layer]];
  return (struct weight_list){kind->weights, kind->weight_count, spp_weights_layer_first(a, layer)};
}

/* Is this the matrix of a product that adds that bias? */
static bool is_matrix_of(const struct spp_weight *matrix, const struct spp_weight *bias) {
  size_t length = strlen(matrix->name);
  return matrix->role == bias->role && strncmp(matrix->name, bias->name, length) == 0 &&
         strcmp(bias->name + length, ".bias") == 0;
}

/* Finds the weight that holds the element. Rounding of a bias's gradient is that of its matrix's, however
 * small it is itself: a bias of keys that are not rotated moves all scores of a query alike, and has none. */
static void turn_to(struct compare *c, const struct spp_weight *weight, int64_t number) {
  const struct weight_list list = list_of(c->arch, number);
  int64_t at = list.first;
  c->scale = 0;
  for (int i = 0; i < list.count; at += spp_weight_total(&list.weights[i]), i++) {
    int64_t next = at + spp_weight_total(&list.weights[i]);
    bool own = number >= at && number < next;
    if (own) c->first = at, c->last = next;
    if (own || (c->gradients && is_matrix_of(&list.weights[i], weight)))
      c->scale = fmax(c->scale, largest(c->values, at, next));
  }
}

static void compare_one(void *context, const struct spp_weight *weight, int64_t number, float value,
                        float gradient) {
  struct compare *c = context;
  double mine = (double)(c->gradients ? gradient : value), right = (double)c->values[number];
  if (number < c->first || number >= c->last) turn_to(c, weight, number);
  double error = mine == right ? 0.0 : fabs(mine - right) / c->scale;
  if (!(error <= c->worst)) c->worst = isnan(error) ? INFINITY : error;
}

enum spp_status spp_reference_error(const struct spp_engine *e, bool gradients, const float *values,
                                    double *error) {
  struct compare c = {.values = values, .gradients = gradients, .arch = e->arch};
  SPP_TRY(spp_engine_visit(e, compare_one, &c));
  *error = c.worst;
  return SPP_OK;
}

/* splitmix64 of the element's number and its bits (Steele, Lea, Flood, 2014). */
static void digest_one(void *context, const struct spp_weight *weight, int64_t number, float value,
                       float gradient) {
  uint32_t bits;
  (void)weight, (void)gradient;
  memcpy(&bits, &value, sizeof bits);
  uint64_t z = ((uint64_t)number << 32 ^ bits) + UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  *(uint64_t *)context += z ^ (z >> 31);
}

enum spp_status spp_reference_digest(const struct spp_engine *e, uint64_t *digest) {
  uint64_t sum = 0;
  SPP_TRY(spp_engine_visit(e, digest_one, &sum));
  *digest = sum;
  return SPP_OK;
}
