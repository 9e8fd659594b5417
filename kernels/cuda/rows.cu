/* What is worked out row by row: embedding, cross-entropy, softmax, dot products; and the sum of squares. */
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/ops.cuh"

template <class T> __global__ void embed(struct spp_embedding a) {
  for (int64_t t = blockIdx.x; t < a.tokens; t += gridDim.x) {
    int64_t row = (int64_t)a.ids[t] - a.first;
    bool here = row >= 0 && row < a.rows;
    for (int64_t i = threadIdx.x; i < a.width; i += blockDim.x) {
      T x = {};
      if (here) x = ((const T *)a.table)[row * a.width + i];
      ((T *)a.out)[t * a.width + i] = x;
    }
  }
}

void spp_cuda_embedding_forward(struct spp_queue *q, const struct spp_embedding *a) {
  with_storage(a->storage,
               [&](auto t) { SPP_LAUNCH(q, embed<decltype(t)>, spp_blocks(a->tokens, 1), BLOCK, 0, *a); });
}

/* Is `id` among ids[from..to)? The same answer in all threads. */
static __device__ bool occurs(const int32_t *ids, int64_t from, int64_t to, int32_t id) {
  for (int64_t base = from; base < to; base += blockDim.x) {
    int64_t t = base + threadIdx.x;
    if (__syncthreads_or(t < to && ids[t] == id)) return true;
  }
  return false;
}

/* The block of a token whose id no earlier token has adds the gradients of all tokens of that id, in their
 * order, so that no other block writes to the row. `same`: which of the next blockDim.x tokens these are. */
template <class T> __global__ void embed_backward(struct spp_embedding a) {
  int *same = shared_memory<int>();
  for (int64_t t = blockIdx.x; t < a.tokens; t += gridDim.x) {
    int32_t id = a.ids[t];
    int64_t row = (int64_t)id - a.first;
    if (row < 0 || row >= a.rows || occurs(a.ids, 0, t, id)) continue;
    for (int64_t base = t; base < a.tokens; base += blockDim.x) {
      int64_t mine = base + threadIdx.x;
      same[threadIdx.x] = mine < a.tokens && a.ids[mine] == id;
      if (!__syncthreads_or(same[threadIdx.x])) continue;
      for (int k = 0; k < (int)blockDim.x; k++)
        for (int64_t i = threadIdx.x; same[k] && i < a.width; i += blockDim.x)
          a.dtable[row * a.width + i] += load((const T *)a.dout, (base + k) * a.width + i);
      __syncthreads();
    }
  }
}

void spp_cuda_embedding_backward(struct spp_queue *q, const struct spp_embedding *a) {
  with_storage(a->storage, [&](auto t) {
    SPP_LAUNCH(q, embed_backward<decltype(t)>, spp_blocks(a->tokens, 1), BLOCK, BLOCK * sizeof(int), *a);
  });
}

/* Maximum, and sum of e^(x - maximum), of the elements seen so far. */
struct running {
  float max, sum;
  __device__ __forceinline__ void see(float x) {
    if (x > max) {
      sum = sum * expf(max - x) + 1.0F;
      max = x;
    } else if (x != -INFINITY) {
      sum += expf(x - max);
    }
  }
  /* Of the whole block, to all threads. */
  __device__ __forceinline__ void over_the_block(float *room) {
    float top = over_block<take_most>(max, room);
    sum = over_block<add_up>(sum == 0.0F ? 0.0F : sum * expf(max - top), room);
    max = top;
  }
};

template <int V, class T> __global__ void cross_entropy_stats(struct spp_cross_entropy a) {
  float *room = shared_memory<float>();
  for (int64_t t = blockIdx.x; t < a.tokens; t += gridDim.x) {
    const T *row = (const T *)a.logits + t * a.row_stride;
    struct running r = {-INFINITY, 0.0F};
    FOR_COLUMNS(j, a.vocab) {
      float x[V];
      get(row, j, x);
      for (int k = 0; k < V; k++)
        r.see(x[k]);
    }
    r.over_the_block(room);
    if (threadIdx.x == 0) {
      int64_t target = (int64_t)a.targets[t] - a.first;
      bool here = a.targets[t] >= 0 && target >= 0 && target < a.vocab;
      a.max[t] = r.max;
      a.sum[t] = r.sum;
      a.target_logit[t] = here ? load(row, target) : 0.0F;
    }
  }
}

/* Are all rows aligned to four elements? */
static bool rows_in_fours(const struct spp_cross_entropy *a, const void *data) {
  return in_fours(data, spp_storage_bytes(a->storage)) && a->row_stride % 4 == 0 && a->vocab % 4 == 0;
}

void spp_cuda_cross_entropy_local(struct spp_queue *q, const struct spp_cross_entropy *a) {
  with_row(a->storage, rows_in_fours(a, a->logits), [&](auto v, auto t) {
    SPP_LAUNCH(q, (cross_entropy_stats<decltype(v)::value, decltype(t)>), spp_blocks(a->tokens, 1), BLOCK,
               BLOCK / WARP * sizeof(float), *a);
  });
}

template <int V, class T> __global__ void cross_entropy_grad(struct spp_cross_entropy a) {
  float steep = a.softcap > 0.0F ? 1.0F / (a.softcap * a.softcap) : 0.0F;
  for (int64_t t = blockIdx.x; t < a.tokens; t += gridDim.x) {
    float grad = a.targets[t] < 0 ? 0.0F : a.grad[t], max = a.max[t], sum = a.sum[t];
    int64_t target = (int64_t)a.targets[t] - a.first;
    FOR_COLUMNS(j, a.vocab) {
      float x[V];
      get((const T *)a.logits, t * a.row_stride + j, x);
      for (int k = 0; k < V; k++) {
        float p = expf(x[k] - max) / sum, slope = fmaf(-steep * x[k], x[k], 1.0F);
        x[k] = grad * slope * (p - (j + k == target ? 1.0F : 0.0F));
      }
      put((T *)a.dlogits, t * a.row_stride + j, x);
    }
  }
}

void spp_cuda_cross_entropy_backward(struct spp_queue *q, const struct spp_cross_entropy *a) {
  bool fours = rows_in_fours(a, a->logits) && rows_in_fours(a, a->dlogits);
  with_row(a->storage, fours, [&](auto v, auto t) {
    SPP_LAUNCH(q, (cross_entropy_grad<decltype(v)::value, decltype(t)>), spp_blocks(a->tokens, 1), BLOCK, 0,
               *a);
  });
}

static __global__ void softmax_rows(int64_t rows, int64_t n, const float *x, float *y) {
  float *room = shared_memory<float>();
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    struct running seen = {-INFINITY, 0.0F};
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
      seen.see(x[r * n + i]);
    seen.over_the_block(room);
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
      y[r * n + i] = expf(x[r * n + i] - seen.max) / seen.sum;
  }
}

void spp_cuda_softmax(struct spp_queue *q, int64_t rows, int64_t n, const float *x, float *y) {
  int threads = n <= WARP ? WARP : n <= 4 * WARP ? 4 * WARP : BLOCK; /* rows of a router are short */
  SPP_LAUNCH(q, softmax_rows, spp_blocks(rows, 1), threads, BLOCK / WARP * sizeof(float), rows, n, x, y);
}

/* A warp a row. */
template <class A, class B>
__global__ void dots(int64_t rows, int64_t width, const A *a, int64_t a_stride, const B *b, int64_t b_stride,
                     float *dot, int64_t dot_stride) {
  int64_t warps = blockDim.x / WARP, first = blockIdx.x * warps + threadIdx.x / WARP;
  for (int64_t r = first; r < rows; r += gridDim.x * warps) {
    float sum = 0.0F;
    for (int64_t i = threadIdx.x % WARP; i < width; i += WARP)
      sum = fmaf(load(a, r * a_stride + i), load(b, r * b_stride + i), sum);
    sum = over_lanes<add_up>(sum);
    if (threadIdx.x % WARP == 0) dot[r * dot_stride] = sum;
  }
}

void spp_cuda_row_dots(struct spp_queue *q, int64_t rows, int64_t width, const void *a, int64_t a_stride,
                       enum spp_storage a_storage, const void *b, int64_t b_stride,
                       enum spp_storage b_storage, float *dot, int64_t dot_stride) {
  with_storage(a_storage, [&](auto ta) {
    with_storage(b_storage, [&](auto tb) {
      typedef decltype(ta) A;
      typedef decltype(tb) B;
      SPP_LAUNCH(q, (dots<A, B>), spp_blocks(rows, BLOCK / WARP), BLOCK, 0, rows, width, (const A *)a,
                 a_stride, (const B *)b, b_stride, dot, dot_stride);
    });
  });
}

/* A piece a block: blocks of 4096 in fp32, these in double, as on a processor. */
enum { SQUARES = 4096, MOST_PIECES = 4096 };

template <class T> __global__ void squares(int64_t n, const T *x, double *partial) {
  float *room = shared_memory<float>();
  double total = 0.0;
  for (int64_t base = (int64_t)blockIdx.x * SQUARES; base < n; base += (int64_t)gridDim.x * SQUARES) {
    float sum = 0.0F;
    for (int64_t i = base + threadIdx.x; i < base + SQUARES && i < n; i += blockDim.x)
      sum = fmaf(load(x, i), load(x, i), sum);
    total += (double)over_block<add_up>(sum, room);
  }
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

static __global__ void squares_sum(int64_t pieces, const double *partial, double *sum) {
  double *room = shared_memory<double>();
  double total = 0.0;
  for (int64_t i = threadIdx.x; i < pieces; i += blockDim.x)
    total += partial[i];
  total = over_block<add_up>(total, room);
  if (threadIdx.x == 0) *sum = total;
}

void spp_cuda_sum_squares(struct spp_queue *q, int64_t n, const void *x, enum spp_storage storage,
                          double *sum) {
  int64_t pieces = (n + SQUARES - 1) / SQUARES;
  if (pieces > MOST_PIECES) pieces = MOST_PIECES;
  double *partial = (double *)q->scratch;
  with_storage(storage, [&](auto t) {
    typedef decltype(t) T;
    SPP_LAUNCH(q, squares<T>, (unsigned)pieces, BLOCK, BLOCK / WARP * sizeof(float), n, (const T *)x,
               partial);
  });
  SPP_LAUNCH(q, squares_sum, 1, BLOCK, BLOCK / WARP * sizeof(double), pieces, partial, sum);
}
