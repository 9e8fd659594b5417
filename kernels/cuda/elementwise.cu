/* One result an element: what moves as many bytes a second as a copy does. */
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/ops.cuh"

/* f.run<V>(i) for all elements i of n, V at a time and the rest one by one. */
template <int V, class F> __global__ void each(int64_t n, F f) {
  int64_t first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, step = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = first; i < n / V; i += step)
    f.template run<V>(i * V);
  if constexpr (V > 1)
    for (int64_t i = n / V * V + first; i < n; i += step)
      f.template run<1>(i);
}

template <class F> static void launch(struct spp_queue *q, const char *name, int64_t n, bool fours, F f) {
  if (fours)
    spp_launch(q, name, __FILE__, __LINE__, each<4, F>, spp_blocks(n, 4 * BLOCK), BLOCK, 0, n, f);
  else
    spp_launch(q, name, __FILE__, __LINE__, each<1, F>, spp_blocks(n, BLOCK), BLOCK, 0, n, f);
}

template <class From, class To> struct converting {
  const From *src;
  To *dst;
  template <int V> __device__ void run(int64_t i) const {
    float x[V];
    get(src, i, x);
    put(dst, i, x);
  }
};

void spp_cuda_convert(struct spp_queue *q, int64_t n, const void *src, enum spp_storage src_storage,
                      void *dst, enum spp_storage dst_storage) {
  bool fours = in_fours(src, spp_storage_bytes(src_storage)) && in_fours(dst, spp_storage_bytes(dst_storage));
  with_storage(src_storage, [&](auto from) {
    with_storage(dst_storage, [&](auto to) {
      typedef decltype(from) From;
      typedef decltype(to) To;
      launch(q, "convert", n, fours, converting<From, To>{(const From *)src, (To *)dst});
    });
  });
}

template <class T> struct adding {
  const T *a, *b;
  T *out;
  template <int V> __device__ void run(int64_t i) const {
    float x[V], y[V];
    get(a, i, x);
    get(b, i, y);
    for (int v = 0; v < V; v++)
      x[v] += y[v];
    put(out, i, x);
  }
};

void spp_cuda_add(struct spp_queue *q, int64_t n, enum spp_storage storage, const void *a, const void *b,
                  void *out) {
  int64_t bytes = spp_storage_bytes(storage);
  bool fours = in_fours(a, bytes) && in_fours(b, bytes) && in_fours(out, bytes);
  with_storage(storage, [&](auto t) {
    typedef decltype(t) T;
    launch(q, "add", n, fours, adding<T>{(const T *)a, (const T *)b, (T *)out});
  });
}

template <class T> struct adding_row {
  const T *row;
  int64_t width;
  T *x;
  template <int V> __device__ void run(int64_t i) const {
    float y[V], more[V];
    get(x, i, y);
    get(row, i % width, more);
    for (int v = 0; v < V; v++)
      y[v] += more[v];
    put(x, i, y);
  }
};

void spp_cuda_add_row(struct spp_queue *q, int64_t rows, int64_t width, enum spp_storage storage,
                      const void *row, void *x) {
  int64_t bytes = spp_storage_bytes(storage);
  bool fours = width % 4 == 0 && in_fours(row, bytes) && in_fours(x, bytes);
  with_storage(storage, [&](auto t) {
    typedef decltype(t) T;
    launch(q, "add_row", rows * width, fours, adding_row<T>{(const T *)row, width, (T *)x});
  });
}

/* A thread takes whole columns, so that rows add up in their order. */
template <class T> struct summing_rows {
  const T *x;
  int64_t rows, width;
  float *sum;
  template <int V> __device__ void run(int64_t i) const {
    float s[V], more[V];
    get(sum, i, s);
    for (int64_t r = 0; r < rows; r++) {
      get(x, r * width + i, more);
      for (int v = 0; v < V; v++)
        s[v] += more[v];
    }
    put(sum, i, s);
  }
};

void spp_cuda_sum_rows(struct spp_queue *q, int64_t rows, int64_t width, enum spp_storage storage,
                       const void *x, float *sum) {
  bool fours = width % 4 == 0 && in_fours(x, spp_storage_bytes(storage)) && in_fours(sum, 4);
  with_storage(storage, [&](auto t) {
    typedef decltype(t) T;
    launch(q, "sum_rows", width, fours, summing_rows<T>{(const T *)x, rows, width, sum});
  });
}

struct taking_most {
  const float *x;
  float *most;
  template <int V> __device__ void run(int64_t i) const {
    float y[V], m[V];
    get(x, i, y);
    get(most, i, m);
    for (int v = 0; v < V; v++)
      m[v] = fmaxf(m[v], y[v]);
    put(most, i, m);
  }
};

void spp_cuda_maximum(struct spp_queue *q, int64_t n, const float *x, float *most) {
  launch(q, "maximum", n, in_fours(x, 4) && in_fours(most, 4), taking_most{x, most});
}

template <class T> struct accumulating {
  float factor;
  const T *x;
  float *sum;
  template <int V> __device__ void run(int64_t i) const {
    float s[V], more[V];
    get(sum, i, s);
    get(x, i, more);
    for (int v = 0; v < V; v++)
      s[v] = fmaf(factor, more[v], s[v]);
    put(sum, i, s);
  }
};

void spp_cuda_accumulate(struct spp_queue *q, int64_t n, float factor, const void *x,
                         enum spp_storage storage, float *sum) {
  bool fours = in_fours(x, spp_storage_bytes(storage)) && in_fours(sum, 4);
  with_storage(storage, [&](auto t) {
    typedef decltype(t) T;
    launch(q, "accumulate", n, fours, accumulating<T>{factor, (const T *)x, sum});
  });
}

template <class T> struct scaling {
  float factor;
  T *x;
  template <int V> __device__ void run(int64_t i) const {
    float y[V];
    get(x, i, y);
    for (int v = 0; v < V; v++)
      y[v] *= factor;
    put(x, i, y);
  }
};

void spp_cuda_scale(struct spp_queue *q, int64_t n, float factor, void *x, enum spp_storage storage) {
  with_storage(storage, [&](auto t) {
    typedef decltype(t) T;
    launch(q, "scale", n, in_fours(x, spp_storage_bytes(storage)), scaling<T>{factor, (T *)x});
  });
}

template <class T> struct capping {
  float cap;
  T *x;
  template <int V> __device__ void run(int64_t i) const {
    float y[V];
    get(x, i, y);
    for (int v = 0; v < V; v++)
      y[v] = cap * tanhf(y[v] / cap);
    put(x, i, y);
  }
};

void spp_cuda_softcap(struct spp_queue *q, int64_t n, float cap, void *x, enum spp_storage storage) {
  with_storage(storage, [&](auto t) {
    typedef decltype(t) T;
    launch(q, "softcap", n, in_fours(x, spp_storage_bytes(storage)), capping<T>{cap, (T *)x});
  });
}

/* The formulas of kernels/cross_entropy.c. */
struct rescaling {
  const float *local_max, *max;
  float *sum;
  template <int V> __device__ void run(int64_t i) const { sum[i] *= expf(local_max[i] - max[i]); }
};

void spp_cuda_cross_entropy_rescale(struct spp_queue *q, int64_t tokens, const float *local_max,
                                    const float *max, float *sum) {
  launch(q, "cross_entropy_rescale", tokens, false, rescaling{local_max, max, sum});
}

struct taking_losses {
  const int32_t *targets;
  const float *max, *sum, *target_logit;
  float *loss;
  template <int V> __device__ void run(int64_t i) const {
    double of_rest = log((double)sum[i]) + (double)max[i];
    loss[i] = targets[i] >= 0 ? (float)(of_rest - (double)target_logit[i]) : 0.0F;
  }
};

void spp_cuda_cross_entropy_loss(struct spp_queue *q, int64_t tokens, const int32_t *targets,
                                 const float *max, const float *sum, const float *target_logit, float *loss) {
  launch(q, "cross_entropy_loss", tokens, false, taking_losses{targets, max, sum, target_logit, loss});
}

/* Factors of kernels/ops_ref.c adamw, worked out in double. */
struct adam_factors {
  float beta1, rest1, beta2, rest2, keep, rate, root, eps, grad_scale;
};

template <class T> struct stepping {
  struct adam_factors f;
  const T *grad;
  float *master, *m, *v;
  bf16 *param;
  template <int V> __device__ void run(int64_t i) const {
    float g[V], p[V], first[V], second[V];
    get(grad, i, g);
    get(master, i, p);
    get(m, i, first);
    get(v, i, second);
    for (int k = 0; k < V; k++) {
      float x = g[k] * f.grad_scale;
      first[k] = fmaf(f.beta1, first[k], f.rest1 * x);
      second[k] = fmaf(f.beta2, second[k], f.rest2 * x * x);
      p[k] = f.keep * p[k] + f.rate * first[k] / fmaf(sqrtf(second[k]), f.root, f.eps);
    }
    put(m, i, first);
    put(v, i, second);
    put(master, i, p);
    if (param) put(param, i, p);
  }
};

void spp_cuda_adamw(struct spp_queue *q, const struct spp_adamw *a) {
  double b1 = (double)a->beta1, b2 = (double)a->beta2, lr = (double)a->lr;
  double c1 = 1.0 - pow(b1, (double)a->step), c2 = sqrt(1.0 - pow(b2, (double)a->step));
  struct adam_factors f = {a->beta1,
                           (float)(1.0 - b1),
                           a->beta2,
                           (float)(1.0 - b2),
                           (float)(1.0 - lr * (double)a->weight_decay),
                           (float)(-lr / c1),
                           (float)(1.0 / c2),
                           a->eps,
                           a->grad_scale};
  bool fours = in_fours(a->grad, spp_storage_bytes(a->grad_storage)) && in_fours(a->master, 4) &&
               in_fours(a->m, 4) && in_fours(a->v, 4) && in_fours(a->param, 2);
  with_storage(a->grad_storage, [&](auto t) {
    typedef decltype(t) T;
    launch(q, "adamw", a->n, fours,
           stepping<T>{f, (const T *)a->grad, a->master, a->m, a->v, (bf16 *)a->param});
  });
}

template <class T> struct turning {
  struct spp_rope a;
  int64_t half, apart;
  /* Pair i of head h of token t. */
  template <int V> __device__ void run(int64_t which) const {
    int64_t i = which % half, head = which / half, t = head / a.heads, h = head % a.heads;
    int64_t at = t * a.row_stride + h * a.head_dim + a.first + (a.neighbours ? 2 * i : i);
    T *data = (T *)a.x;
    float c = a.cos[t * half + i], s = a.sin[t * half + i] * a.sign;
    float x = load(data, at), y = load(data, at + apart);
    store(data, at, x * c - y * s);
    store(data, at + apart, y * c + x * s);
  }
};

void spp_cuda_rope(struct spp_queue *q, const struct spp_rope *a) {
  int64_t half = spp_rope_width(a) / 2;
  with_storage(a->storage, [&](auto t) {
    typedef decltype(t) T;
    launch(q, "rope", a->tokens * a->heads * half, false, turning<T>{*a, half, a->neighbours ? 1 : half});
  });
}

/* The functions of base/activation.h; their derivation is in kernels/ops_ref.c. */
template <int F> static __device__ float value_of(float x) {
  const float limit = (float)SPP_CLAMP_LIMIT, slope = (float)SPP_CLAMP_SLOPE;
  if (F == SPP_GELU) return 0.5F * x * erfcf(-0.70710678F * x);
  if (F == SPP_GELU_TANH) return 0.5F * x * (1.0F + tanhf(0.79788456F * fmaf(0.044715F * x * x, x, x)));
  if (F == SPP_RELU) return fmaxf(x, 0.0F);
  if (F == SPP_RELU2) return fmaxf(x, 0.0F) * fmaxf(x, 0.0F);
  if (F == SPP_SILU_CLAMPED) return fminf(x, limit) / (1.0F + expf(-slope * fminf(x, limit)));
  return x / (1.0F + expf(-x));
}

template <int F> static __device__ float slope_of(float x) {
  const float limit = (float)SPP_CLAMP_LIMIT, slope = (float)SPP_CLAMP_SLOPE;
  if (F == SPP_GELU) return 0.5F * erfcf(-0.70710678F * x) + x * 0.39894228F * expf(-0.5F * x * x);
  if (F == SPP_GELU_TANH) {
    float t = tanhf(0.79788456F * fmaf(0.044715F * x * x, x, x));
    return 0.5F * (1.0F + t) + 0.5F * x * (1.0F - t * t) * 0.79788456F * fmaf(0.134145F * x, x, 1.0F);
  }
  if (F == SPP_RELU) return x > 0.0F ? 1.0F : 0.0F;
  if (F == SPP_RELU2) return 2.0F * fmaxf(x, 0.0F);
  float bent = F == SPP_SILU_CLAMPED ? slope * x : x, s = 1.0F / (1.0F + expf(-bent));
  if (F == SPP_SILU_CLAMPED && x > limit) return 0.0F;
  return s * (1.0F + bent * (1.0F - s));
}

/* What up contributes to a product of gate and up, and its slope. */
template <int F> static __device__ float factor_of(float up) {
  const float limit = (float)SPP_CLAMP_LIMIT;
  return F == SPP_SILU_CLAMPED ? 1.0F + fmaxf(fminf(up, limit), -limit) : up;
}
template <int F> static __device__ float factor_slope(float up) {
  return F == SPP_SILU_CLAMPED && fabsf(up) > (float)SPP_CLAMP_LIMIT ? 0.0F : 1.0F;
}

template <int F, class T> struct activating {
  const T *x;
  T *y;
  template <int V> __device__ void run(int64_t i) const {
    float v[V];
    get(x, i, v);
    for (int k = 0; k < V; k++)
      v[k] = value_of<F>(v[k]);
    put(y, i, v);
  }
};

template <int F, class T> struct activating_back {
  const T *x, *dy;
  T *dx;
  template <int V> __device__ void run(int64_t i) const {
    float v[V], d[V];
    get(x, i, v);
    get(dy, i, d);
    for (int k = 0; k < V; k++)
      d[k] *= slope_of<F>(v[k]);
    put(dx, i, d);
  }
};

template <int F, class T> struct gating {
  const T *gate, *up;
  T *out;
  template <int V> __device__ void run(int64_t i) const {
    float g[V], u[V];
    get(gate, i, g);
    get(up, i, u);
    for (int k = 0; k < V; k++)
      g[k] = value_of<F>(g[k]) * factor_of<F>(u[k]);
    put(out, i, g);
  }
};

template <int F, class T> struct gating_back {
  const T *gate, *up, *dout;
  T *dgate, *dup;
  template <int V> __device__ void run(int64_t i) const {
    float g[V], u[V], d[V], dg[V], du[V];
    get(gate, i, g);
    get(up, i, u);
    get(dout, i, d);
    for (int k = 0; k < V; k++) {
      dg[k] = d[k] * factor_of<F>(u[k]) * slope_of<F>(g[k]);
      du[k] = d[k] * value_of<F>(g[k]) * factor_slope<F>(u[k]);
    }
    put(dgate, i, dg);
    put(dup, i, du);
  }
};

template <int F> struct constant { static const int value = F; };

/* call(constant<f>()) */
template <class C> static void with_activation(enum spp_activation f, C call) {
  switch (f) {
  case SPP_GELU: call(constant<SPP_GELU>()); break;
  case SPP_GELU_TANH: call(constant<SPP_GELU_TANH>()); break;
  case SPP_RELU: call(constant<SPP_RELU>()); break;
  case SPP_RELU2: call(constant<SPP_RELU2>()); break;
  case SPP_SILU_CLAMPED: call(constant<SPP_SILU_CLAMPED>()); break;
  default: call(constant<SPP_SILU>());
  }
}

void spp_cuda_activation_forward(struct spp_queue *q, enum spp_activation f, int64_t n,
                                 enum spp_storage storage, const void *x, void *y) {
  int64_t bytes = spp_storage_bytes(storage);
  bool fours = in_fours(x, bytes) && in_fours(y, bytes);
  with_storage(storage, [&](auto t) {
    typedef decltype(t) T;
    with_activation(f, [&](auto c) {
      launch(q, "activation", n, fours, activating<decltype(c)::value, T>{(const T *)x, (T *)y});
    });
  });
}

void spp_cuda_activation_backward(struct spp_queue *q, enum spp_activation f, int64_t n,
                                  enum spp_storage storage, const void *x, const void *dy, void *dx) {
  int64_t bytes = spp_storage_bytes(storage);
  bool fours = in_fours(x, bytes) && in_fours(dy, bytes) && in_fours(dx, bytes);
  with_storage(storage, [&](auto t) {
    typedef decltype(t) T;
    with_activation(f, [&](auto c) {
      launch(q, "activation", n, fours,
             activating_back<decltype(c)::value, T>{(const T *)x, (const T *)dy, (T *)dx});
    });
  });
}

void spp_cuda_glu_forward(struct spp_queue *q, enum spp_activation f, int64_t n, enum spp_storage storage,
                          const void *gate, const void *up, void *out) {
  int64_t bytes = spp_storage_bytes(storage);
  bool fours = in_fours(gate, bytes) && in_fours(up, bytes) && in_fours(out, bytes);
  with_storage(storage, [&](auto t) {
    typedef decltype(t) T;
    with_activation(f, [&](auto c) {
      launch(q, "glu", n, fours, gating<decltype(c)::value, T>{(const T *)gate, (const T *)up, (T *)out});
    });
  });
}

void spp_cuda_glu_backward(struct spp_queue *q, enum spp_activation f, int64_t n, enum spp_storage storage,
                           const void *gate, const void *up, const void *dout, void *dgate, void *dup) {
  int64_t bytes = spp_storage_bytes(storage);
  bool fours = in_fours(gate, bytes) && in_fours(up, bytes) && in_fours(dout, bytes) &&
               in_fours(dgate, bytes) && in_fours(dup, bytes);
  with_storage(storage, [&](auto t) {
    typedef decltype(t) T;
    with_activation(f, [&](auto c) {
      launch(q, "glu", n, fours,
             gating_back<decltype(c)::value, T>{(const T *)gate, (const T *)up, (const T *)dout, (T *)dgate,
                                                (T *)dup});
    });
  });
}
