/* Norms: a block a row; the gradients of weights by pieces of the rows, summed in order. */
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/ops.cuh"

template <int V, class T> __global__ void rms_forward(struct spp_rmsnorm a) {
  float *room = shared_memory<float>();
  const T *x = (const T *)a.x, *weight = (const T *)a.weight;
  for (int64_t r = blockIdx.x; r < a.rows; r += gridDim.x) {
    float squares = 0.0F, v[V], w[V];
    FOR_COLUMNS(i, a.width) {
      get(x, r * a.width + i, v);
      for (int k = 0; k < V; k++)
        squares = fmaf(v[k], v[k], squares);
    }
    squares = over_block<add_up>(squares, room);
    float rstd = 1.0F / sqrtf(squares / (float)a.width + a.eps);
    if (threadIdx.x == 0) a.rstd[r] = rstd;
    FOR_COLUMNS(i, a.width) {
      get(x, r * a.width + i, v);
      get(weight, i, w);
      for (int k = 0; k < V; k++)
        v[k] = (w[k] + a.offset) * v[k] * rstd;
      put((T *)a.y, r * a.width + i, v);
    }
  }
}

template <int V, class T> __global__ void rms_backward(struct spp_rmsnorm a) {
  float *room = shared_memory<float>();
  const T *x = (const T *)a.x, *dy = (const T *)a.dy, *weight = (const T *)a.weight;
  for (int64_t r = blockIdx.x; r < a.rows; r += gridDim.x) {
    float dot = 0.0F, rstd = a.rstd[r], v[V], w[V], d[V];
    FOR_COLUMNS(i, a.width) {
      get(x, r * a.width + i, v);
      get(dy, r * a.width + i, d);
      get(weight, i, w);
      for (int k = 0; k < V; k++)
        dot = fmaf((w[k] + a.offset) * d[k], v[k], dot);
    }
    dot = over_block<add_up>(dot, room);
    float pull = rstd * rstd * dot / (float)a.width;
    FOR_COLUMNS(i, a.width) {
      get(x, r * a.width + i, v);
      get(dy, r * a.width + i, d);
      get(weight, i, w);
      for (int k = 0; k < V; k++)
        d[k] = rstd * ((w[k] + a.offset) * d[k] - v[k] * pull);
      put((T *)a.dx, r * a.width + i, d);
    }
  }
}

template <int V, class T> __global__ void layer_forward(struct spp_layernorm a) {
  float *room = shared_memory<float>();
  const T *x = (const T *)a.x, *weight = (const T *)a.weight, *bias = (const T *)a.bias;
  for (int64_t r = blockIdx.x; r < a.rows; r += gridDim.x) {
    float sum = 0.0F, squares = 0.0F, v[V], w[V], b[V];
    FOR_COLUMNS(i, a.width) {
      get(x, r * a.width + i, v);
      for (int k = 0; k < V; k++)
        sum += v[k];
    }
    float mean = over_block<add_up>(sum, room) / (float)a.width;
    FOR_COLUMNS(i, a.width) {
      get(x, r * a.width + i, v);
      for (int k = 0; k < V; k++)
        squares = fmaf(v[k] - mean, v[k] - mean, squares);
    }
    float rstd = 1.0F / sqrtf(over_block<add_up>(squares, room) / (float)a.width + a.eps);
    if (threadIdx.x == 0) {
      a.mean[r] = mean;
      a.rstd[r] = rstd;
    }
    FOR_COLUMNS(i, a.width) {
      get(x, r * a.width + i, v);
      if (weight) get(weight, i, w);
      if (bias) get(bias, i, b);
      for (int k = 0; k < V; k++)
        v[k] = (weight ? w[k] + a.offset : 1.0F) * ((v[k] - mean) * rstd) + (bias ? b[k] : 0.0F);
      put((T *)a.y, r * a.width + i, v);
    }
  }
}

template <int V, class T> __global__ void layer_backward(struct spp_layernorm a) {
  float *room = shared_memory<float>();
  const T *x = (const T *)a.x, *dy = (const T *)a.dy, *weight = (const T *)a.weight;
  for (int64_t r = blockIdx.x; r < a.rows; r += gridDim.x) {
    float sum_g = 0.0F, sum_gn = 0.0F, mean = a.mean[r], rstd = a.rstd[r], v[V], w[V], d[V];
    FOR_COLUMNS(i, a.width) {
      get(x, r * a.width + i, v);
      get(dy, r * a.width + i, d);
      if (weight) get(weight, i, w);
      for (int k = 0; k < V; k++) {
        float g = (weight ? w[k] + a.offset : 1.0F) * d[k];
        sum_g += g;
        sum_gn = fmaf(g, (v[k] - mean) * rstd, sum_gn);
      }
    }
    sum_g = over_block<add_up>(sum_g, room) / (float)a.width;
    sum_gn = over_block<add_up>(sum_gn, room) / (float)a.width;
    FOR_COLUMNS(i, a.width) {
      get(x, r * a.width + i, v);
      get(dy, r * a.width + i, d);
      if (weight) get(weight, i, w);
      for (int k = 0; k < V; k++)
        d[k] = rstd * ((weight ? w[k] + a.offset : 1.0F) * d[k] - (sum_g + (v[k] - mean) * rstd * sum_gn));
      put((T *)a.dx, r * a.width + i, d);
    }
  }
}

/* Gradients of weights and biases. x and dy are read here before dx goes over one of them. */
struct weight_grad {
  int64_t rows, width, pieces, piece_rows;
  const void *x, *dy;
  const float *mean, *rstd; /* mean NULL: 0 */
  float *partial;           /* [pieces][2][width] */
  float *dweight, *dbias;   /* NULL: not wanted */
};

/* A thread has one column of one piece of the rows. */
template <class T> __global__ void weight_grad_pieces(struct weight_grad g) {
  const T *x = (const T *)g.x, *dy = (const T *)g.dy;
  int64_t columns = (g.width + blockDim.x - 1) / blockDim.x, piece = blockIdx.x / columns;
  int64_t i = blockIdx.x % columns * blockDim.x + threadIdx.x;
  if (i >= g.width) return;
  int64_t first = piece * g.piece_rows, end = first + g.piece_rows < g.rows ? first + g.piece_rows : g.rows;
  float weight = 0.0F, bias = 0.0F;
  for (int64_t r = first; r < end; r++) {
    float d = load(dy, r * g.width + i), mean = g.mean ? g.mean[r] : 0.0F;
    weight = fmaf(d, (load(x, r * g.width + i) - mean) * g.rstd[r], weight);
    bias += d;
  }
  g.partial[2 * piece * g.width + i] = weight;
  g.partial[(2 * piece + 1) * g.width + i] = bias;
}

static __global__ void weight_grad_sums(struct weight_grad g) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= g.width) return;
  float weight = 0.0F, bias = 0.0F;
  for (int64_t piece = 0; piece < g.pieces; piece++) {
    weight += g.partial[2 * piece * g.width + i];
    bias += g.partial[(2 * piece + 1) * g.width + i];
  }
  if (g.dweight) g.dweight[i] += weight;
  if (g.dbias) g.dbias[i] += bias;
}

/* As many pieces as the scratch holds, up to a number that fills a device, none of fewer rows than are worth
 * it. */
static void add_weight_grads(struct spp_queue *q, struct weight_grad g, enum spp_storage storage) {
  enum { MOST_PIECES = 128, FEWEST_ROWS = 16 };
  int64_t room = SPP_SCRATCH_BYTES / (2 * (int64_t)sizeof(float) * g.width);
  int64_t columns = (g.width + BLOCK - 1) / BLOCK;
  g.pieces = (g.rows + FEWEST_ROWS - 1) / FEWEST_ROWS;
  if (g.pieces > MOST_PIECES) g.pieces = MOST_PIECES;
  if (g.pieces > room) g.pieces = room > 0 ? room : 1;
  g.piece_rows = (g.rows + g.pieces - 1) / g.pieces;
  g.partial = (float *)q->scratch;
  with_storage(storage, [&](auto t) {
    SPP_LAUNCH(q, weight_grad_pieces<decltype(t)>, (unsigned)(columns * g.pieces), BLOCK, 0, g);
  });
  SPP_LAUNCH(q, weight_grad_sums, (unsigned)columns, BLOCK, 0, g);
}

enum { ROOM_BYTES = BLOCK / WARP * sizeof(float) };

void spp_cuda_rmsnorm_forward(struct spp_queue *q, const struct spp_rmsnorm *a) {
  int64_t bytes = spp_storage_bytes(a->storage);
  bool fours = in_fours(a->x, bytes) && in_fours(a->weight, bytes) && in_fours(a->y, bytes);
  with_row(a->storage, fours && a->width % 4 == 0, [&](auto v, auto t) {
    SPP_LAUNCH(q, (rms_forward<decltype(v)::value, decltype(t)>), spp_blocks(a->rows, 1), BLOCK, ROOM_BYTES,
               *a);
  });
}

void spp_cuda_rmsnorm_backward(struct spp_queue *q, const struct spp_rmsnorm *a) {
  int64_t bytes = spp_storage_bytes(a->storage);
  bool fours =
      in_fours(a->x, bytes) && in_fours(a->weight, bytes) && in_fours(a->dy, bytes) && in_fours(a->dx, bytes);
  struct weight_grad g = {a->rows, a->width, 0, 0, a->x, a->dy, NULL, a->rstd, NULL, a->dweight, NULL};
  if (a->rows == 0) return;
  add_weight_grads(q, g, a->storage);
  with_row(a->storage, fours && a->width % 4 == 0, [&](auto v, auto t) {
    SPP_LAUNCH(q, (rms_backward<decltype(v)::value, decltype(t)>), spp_blocks(a->rows, 1), BLOCK, ROOM_BYTES,
               *a);
  });
}

void spp_cuda_layernorm_forward(struct spp_queue *q, const struct spp_layernorm *a) {
  int64_t bytes = spp_storage_bytes(a->storage);
  bool fours = in_fours(a->x, bytes) && in_fours(a->weight, bytes) && in_fours(a->bias, bytes) &&
               in_fours(a->y, bytes);
  with_row(a->storage, fours && a->width % 4 == 0, [&](auto v, auto t) {
    SPP_LAUNCH(q, (layer_forward<decltype(v)::value, decltype(t)>), spp_blocks(a->rows, 1), BLOCK, ROOM_BYTES,
               *a);
  });
}

void spp_cuda_layernorm_backward(struct spp_queue *q, const struct spp_layernorm *a) {
  int64_t bytes = spp_storage_bytes(a->storage);
  bool fours =
      in_fours(a->x, bytes) && in_fours(a->weight, bytes) && in_fours(a->dy, bytes) && in_fours(a->dx, bytes);
  struct weight_grad g = {a->rows, a->width, 0, 0, a->x, a->dy, a->mean, a->rstd, NULL, NULL, NULL};
  if (a->rows == 0) return;
  if (a->weight) g.dweight = a->dweight;
  if (a->bias) g.dbias = a->dbias;
  if (g.dweight || g.dbias) add_weight_grads(q, g, a->storage);
  with_row(a->storage, fours && a->width % 4 == 0, [&](auto v, auto t) {
    SPP_LAUNCH(q, (layer_backward<decltype(v)::value, decltype(t)>), spp_blocks(a->rows, 1), BLOCK,
               ROOM_BYTES, *a);
  });
}
