#include "model/memory_parts.h"

static const struct spp_tensor layer_input = {"layer input", SPP_PART_LAYER_INPUTS,
                                              "start of a recomputed layer"};
static const struct spp_tensor captured = {"held by CUDA graphs", SPP_PART_ACTIVATIONS,
                                           "blocks of their own pool, which serve nothing else"};
static const struct spp_tensor unit_output = {"output of the recomputed layer", SPP_PART_TRANSIENT,
                                              "held by the checkpoint until its backward returns"};
static const struct spp_tensor unit_gradient = {"gradient of the layer's output", SPP_PART_TRANSIENT,
                                                "held by the checkpoint until its backward returns"};

enum {
  FORWARD = 1 << SPP_MOMENT_FORWARD,
  LOSS = (1 << SPP_MOMENT_LOSS) | (1 << SPP_MOMENT_BACKWARD_HEAD),
  MLP = 1 << SPP_MOMENT_BACKWARD_MLP,
  NORM = 1 << SPP_MOMENT_BACKWARD_NORM,
  ATTENTION = 1 << SPP_MOMENT_BACKWARD_ATTENTION,
  TEXT_BACKWARD = MLP | NORM | ATTENTION
};
/* Layer inputs on the GPU while the others are in host memory: ALST's, one of them on its way; DeepSpeed's
 * own checkpointing moves each as it is needed (0.17.6 runtime/activation_checkpointing/checkpointing.py
 * CheckpointFunction: copy_to_device, move_to_device). */
static int64_t offloaded_in_flight(const struct spp_memory_view *v) {
  return v->job->framework->offloads_all_inputs ? 1 : 2;
}

/* Moments at which the tensors of the running layer are still alive: backward frees the MLP first. */
static const unsigned running[SPP_BLOCK_COUNT] = {
    [SPP_BLOCK_INPUT] = FORWARD | TEXT_BACKWARD,     [SPP_BLOCK_NORM1] = FORWARD | TEXT_BACKWARD,
    [SPP_BLOCK_ATTENTION] = FORWARD | TEXT_BACKWARD, [SPP_BLOCK_NORM2] = FORWARD | MLP | NORM,
    [SPP_BLOCK_MLP_INPUT] = FORWARD | MLP,           [SPP_BLOCK_MLP] = FORWARD | MLP,
};
/* Same under recompute, where the forward of a layer has not reached its MLP when attention works. */
static const unsigned rerunning[SPP_BLOCK_COUNT] = {
    [SPP_BLOCK_INPUT] = FORWARD | TEXT_BACKWARD,
    [SPP_BLOCK_NORM1] = FORWARD | TEXT_BACKWARD,
    [SPP_BLOCK_ATTENTION] = FORWARD | TEXT_BACKWARD,
    [SPP_BLOCK_NORM2] = MLP | NORM,
    [SPP_BLOCK_MLP_INPUT] = MLP,
    [SPP_BLOCK_MLP] = MLP,
};

/* Where each tensor is freed at its last use and made again when backward reaches its block. */
static const unsigned remade[SPP_BLOCK_COUNT] = {
    [SPP_BLOCK_INPUT] = TEXT_BACKWARD, [SPP_BLOCK_NORM1] = TEXT_BACKWARD, [SPP_BLOCK_ATTENTION] = ATTENTION,
    [SPP_BLOCK_NORM2] = MLP | NORM,    [SPP_BLOCK_MLP_INPUT] = MLP,       [SPP_BLOCK_MLP] = FORWARD | MLP,
};

static void add_item(struct spp_memory_sum *sum, const struct spp_kept *k, unsigned live, int64_t copies) {
  if (copies > 0) spp_memory_add(sum, k->tensor, live, k->dtype, k->rows, k->cols, copies);
}

static const unsigned waits[SPP_WAIT_COUNT] = {
    [SPP_WAIT_FORWARD] = FORWARD,
    [SPP_WAIT_BACKWARD] = TEXT_BACKWARD,
    [SPP_WAIT_LOSS] = LOSS,
    [SPP_WAIT_END] = 1 << SPP_MOMENT_BACKWARD_VISION,
};

/* How many layers hold a tensor, by moments: those of equal numbers together. `running`: when the running
 * layer holds it as one of them. */
struct waiting {
  int count;
  unsigned live[SPP_WAIT_COUNT], running;
  int64_t copies[SPP_WAIT_COUNT];
};

static void put(struct waiting *w, unsigned live, int64_t copies) {
  for (int i = 0; i < w->count; i++)
    if (w->copies[i] == copies) {
      w->live[i] |= live;
      return;
    }
  w->live[w->count] = live;
  w->copies[w->count++] = copies;
}

/* Of the layers counted all, or those beside the running one. */
static struct waiting waiting(const int64_t layers[SPP_WAIT_COUNT], bool beside) {
  struct waiting w = {.count = 0};
  if (beside && layers[SPP_WAIT_LOSS] > 0) w.running = LOSS;
  bool alike = layers[SPP_WAIT_FORWARD] == layers[SPP_WAIT_BACKWARD] &&
               layers[SPP_WAIT_FORWARD] == layers[SPP_WAIT_LOSS] && layers[SPP_WAIT_END] == 0;
  if (alike) { /* most stages: one test for the search */
    put(&w, FORWARD | TEXT_BACKWARD | LOSS, layers[SPP_WAIT_LOSS] - (beside && layers[SPP_WAIT_LOSS] > 0));
    return w;
  }
  for (int i = 0; i < SPP_WAIT_COUNT; i++) {
    bool one = beside && i != SPP_WAIT_END && layers[i] > 0;
    if (layers[i] > one) put(&w, waits[i], layers[i] - one);
  }
  return w;
}

static void add_waiting(struct spp_memory_sum *sum, const struct spp_kept *k, const struct waiting *w) {
  for (int i = 0; i < w->count; i++)
    add_item(sum, k, w->live[i], w->copies[i]);
}

/* Under NVFP4 the last layers stay in 16 bit; stages of a pipeline are taken to have their share of them. */
static int64_t fp4_layers(const struct spp_memory_stage *s, int64_t layers) {
  const struct spp_job *job = s->view->job;
  return job->fp4 ? layers * job->fp4_layers / spp_max64(1, job->arch->layers) : 0;
}

static int64_t layers_with(const struct spp_memory_stage *s, const struct spp_kept *k, int64_t layers) {
  int64_t fp4 = fp4_layers(s, layers);
  return k->in == SPP_KEPT_IN_FP4 ? fp4 : layers - fp4;
}

/* Does the running layer keep it? A 16-bit layer keeps most; where there is none, an FP4 one runs. */
static bool runs_with(const struct spp_memory_stage *s, const struct spp_kept *k, int64_t layers) {
  return k->in == SPP_KEPT_IN_ALL || (k->in == SPP_KEPT_IN_WIDE) == (fp4_layers(s, layers) < layers);
}

/* Of the layers that keep all they make, those that keep this. */
static struct waiting waiting_with(const struct spp_memory_stage *s, const struct spp_kept *k,
                                   const int64_t layers[SPP_WAIT_COUNT], bool beside) {
  int64_t some[SPP_WAIT_COUNT];
  for (int i = 0; i < SPP_WAIT_COUNT; i++)
    some[i] = layers_with(s, k, layers[i]);
  return waiting(some, beside);
}

/* Moments at which the running layer, a mixture, does not keep it: not yet, or not any more. */
static unsigned kept_otherwise(const struct spp_kept *k, const unsigned without[2]) {
  unsigned of = spp_kept_mixture_part(k);
  return (without[0] & of ? (unsigned)FORWARD : 0u) | (without[1] & of ? (unsigned)MLP : 0u);
}

/* Where attention reads the MLP's norm, too, its output stays while the MLP's gradient goes back to it: that
 * is more than the MLP holds inside where a rank's share of it is narrower than the stream
 * (exec/layer_mlp.c). */
static bool meets_its_gradient(const struct spp_memory_stage *s, const struct spp_kept *k) {
  const struct spp_job *job = s->view->job;
  return job->framework->sharding == SPP_SHARDING_UNITS && job->arch->parallel_block &&
         job->arch->norms_per_layer < 2 && spp_kept_is_widened(k);
}

/* ---- CUDA graphs ---- */

/* Do graphs of the layer hold it? Those of a module hold its tensors, the copy of the input that they read
 * and the output that they write, which the next module reads. A mixture has no dense MLP to capture. */
static bool graphed(const struct spp_job *job, enum spp_layer_class class, const struct spp_kept *k) {
  bool attention = job->graphs & SPP_GRAPH_ATTN,
       mlp = job->graphs & SPP_GRAPH_MLP && class == SPP_LAYER_DENSE;
  if (k->block == SPP_BLOCK_INPUT) return attention || mlp;
  bool of_mlp = k->block == SPP_BLOCK_MLP_INPUT || k->block == SPP_BLOCK_MLP || k->block == SPP_BLOCK_NORM2;
  return of_mlp && !spp_kept_is_of_output(k) ? mlp : attention;
}

/* A layer and micro-batch in flight has graphs of its own, whose tensors lie where they were captured, in one
 * private pool: those of as many layers as ever wait at once, whatever is in use (megatron-core 0.19.2
 * transformer/cuda_graphs.py TECudaGraphHelper; transformer-engine 2.9.0 pytorch/graph.py
 * _make_graphed_callables, _reuse_graph_input_output_buffers; torch CUDACachingAllocator PrivatePool). What
 * is made again in backward lies there once. `live`: when the running layer, if it is one of these, holds it.
 */
static void hold(const struct spp_kept *k, const int64_t layers[SPP_WAIT_COUNT], bool again, bool here,
                 unsigned live, int64_t held[SPP_MOMENT_COUNT]) {
  int64_t one = spp_sat_mul(spp_sat_mul(k->rows, k->cols), spp_dtype_bytes(k->dtype)), most = 1;
  for (int w = 0; w < SPP_WAIT_COUNT && !again; w++)
    most = spp_max64(most, layers[w]);
  for (int m = SPP_MOMENT_LOAD + 1; m < SPP_MOMENT_COUNT; m++) {
    int64_t used = here && live >> m & 1;
    for (int w = 0; w < SPP_WAIT_COUNT && !again; w++)
      if (waits[w] >> m & 1) used += layers[w] - (here && w != SPP_WAIT_END && layers[w] > 0);
    held[m] = spp_sat_add(held[m], spp_sat_mul(spp_max64(0, most - used), one));
  }
}

static void add_held(const int64_t held[SPP_MOMENT_COUNT], struct spp_memory_sum *sum) {
  for (int m = 0; m < SPP_MOMENT_COUNT; m++) {
    sum->graphs[m] = spp_sat_add(sum->graphs[m], held[m]);
    spp_memory_add_bytes(sum, &captured, SPP_LIVE(m), held[m]);
  }
}

/* Layers that are not recomputed as a whole. Tensors that `dropped` modules own are made again in the running
 * layer's backward (NVIDIA/Megatron-LM transformer_config.py recompute_modules). `running_here`: the layer in
 * backward is one of these. */
static void add_kept(const struct spp_memory_stage *s, enum spp_layer_class class,
                     const int64_t layers[SPP_WAIT_COUNT], unsigned dropped, bool running_here,
                     struct spp_memory_sum *sum) {
  const struct spp_kept_list *list = &s->view->lists->kept[class];
  int64_t held[SPP_MOMENT_COUNT] = {0};
  const unsigned *made = s->view->job->framework->sharding == SPP_SHARDING_UNITS ? remade : rerunning;
  const bool graphs = s->view->job->graphs != 0;
  if (layers[SPP_WAIT_FORWARD] <= 0 && layers[SPP_WAIT_LOSS] <= 0) return;
  const struct waiting beside = waiting(layers, running_here);
  unsigned without[2];
  spp_memory_mixture_without(s->view, false, without);
  for (int i = 0; i < list->count; i++) {
    const struct spp_kept *k = &list->items[i];
    bool again = (k->modules & (dropped | SPP_RC_ALWAYS)) != 0, here = running_here;
    const struct waiting *w = &beside;
    struct waiting some;
    if (k->in != SPP_KEPT_IN_ALL) {
      here = here && runs_with(s, k, layers[SPP_WAIT_FORWARD]);
      some = waiting_with(s, k, layers, here);
      w = &some;
    }
    if (!again) add_waiting(sum, k, w);
    unsigned live = again ? made[k->block] : running[k->block] | w->running;
    if (!again && meets_its_gradient(s, k)) live |= NORM;
    if (without[0] | without[1]) live &= ~kept_otherwise(k, without);
    if (here) add_item(sum, k, live, 1);
    if (graphs && graphed(s->view->job, class, k)) hold(k, layers, again, here, live, held);
  }
  if (graphs) add_held(held, sum);
}

static void add_checkpoints(const struct spp_memory_stage *s, const int64_t inputs[SPP_WAIT_COUNT],
                            struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  const struct waiting w = waiting(inputs, false);
  bool away = spp_offload_activations(v->layout->offload);
  unsigned gone = away && v->job->framework->offloads_all_inputs ? (unsigned)LOSS : 0u;
  for (int i = 0; i < w.count; i++)
    if (w.live[i] & ~gone)
      spp_memory_add(sum, &layer_input, w.live[i] & ~gone, spp_stream_dtype(v->job), v->g->stream_tokens,
                     v->job->arch->hidden,
                     away ? spp_min64(w.copies[i], offloaded_in_flight(v)) : w.copies[i]);
}

/* The unit that is recomputed for its backward: all its layers, one of them running. */
static void add_rerun(const struct spp_memory_stage *s, const struct spp_kept_list *list, int64_t layers,
                      struct spp_memory_sum *sum) {
  unsigned without[2];
  spp_memory_mixture_without(s->view, true, without);
  for (int i = 0; i < list->count; i++) {
    const struct spp_kept *k = &list->items[i];
    if (!runs_with(s, k, s->stage->layers)) continue;
    add_item(sum, k, TEXT_BACKWARD, layers - 1);
    if (!spp_kept_is_layer_input(s->view->job, k))
      add_item(sum, k, rerunning[k->block] & ~kept_otherwise(k, without), 1);
  }
}

/* A reentrant checkpoint calls backward on the outputs it made again, and holds those and their gradients
 * until it returns; up to attention the gradient is the residual stream's (torch 2.1.0 utils/checkpoint.py
 * CheckpointFunction.backward; megatron-core 0.16.1 tensor_parallel/random.py). */
static void add_unit_ends(const struct spp_memory_stage *s, struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  int64_t rows = v->g->stream_tokens, h = v->job->arch->hidden;
  if (!v->job->framework->reentrant_checkpoint) return;
  spp_memory_add(sum, &unit_output, TEXT_BACKWARD, v->act, rows, h, 1);
  spp_memory_add(sum, &unit_gradient, ATTENTION, v->act, rows, h, 1);
}

/* Where every tensor is freed at its last use, recomputed layers that run again have nothing of the others
 * beside them. Elsewhere one more layer is counted: what autograd and the allocator still hold. */
static void add_full(const struct spp_memory_stage *s, const struct spp_memory_turn *t,
                     enum spp_layer_class class, struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  bool active = class == t->class;
  add_kept(s, class, t->kept[class], 0, active && !t->again, sum);
  add_checkpoints(s, t->inputs[class], sum);
  if (!active || !t->again) return;
  add_rerun(s, &v->lists->kept[class], spp_min64(s->recomputed[class], spp_memory_recompute_unit(v->layout)),
            sum);
  add_unit_ends(s, sum);
}

/* The chosen products of every layer stay; the running layer has all its tensors again. */
static void add_op_level(const struct spp_memory_stage *s, enum spp_layer_class class, bool active,
                         const int64_t layers[SPP_WAIT_COUNT], struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  const struct waiting every = waiting(layers, false);
  if (s->layers[class] <= 0) return;
  for (int i = 0; i < v->lists->saved[class].count; i++) {
    const struct spp_kept *k = &v->lists->saved[class].items[i];
    struct waiting part = k->in == SPP_KEPT_IN_ALL ? every : waiting_with(s, k, layers, false);
    add_waiting(sum, k, &part);
  }
  if (active) add_rerun(s, &v->lists->kept[class], 1, sum);
}

void spp_memory_add_layers(const struct spp_memory_stage *s, const struct spp_memory_turn *t,
                           struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  bool selective = v->layout->recompute == SPP_RECOMPUTE_SELECTIVE;
  for (int c = 0; c < SPP_LAYER_CLASS_COUNT; c++) {
    enum spp_layer_class class = (enum spp_layer_class)c;
    const int64_t *kept = t->kept[c];
    if (s->layers[c] == 0) continue;
    if (v->layout->recompute == SPP_RECOMPUTE_FULL)
      add_full(s, t, class, sum);
    else if (selective && v->job->framework->selective_is_op_level)
      add_op_level(s, class, class == t->class, kept, sum);
    else
      add_kept(s, class, kept, selective ? v->layout->recompute_modules : 0, class == t->class, sum);
  }
  spp_memory_add_plain(s, sum);
}

/* TransformerEngine moves what a layer keeps while the next one runs, and fetches it one layer ahead
 * (transformer-engine 2.9.0 pytorch/cpu_offload.py AsyncDoubleBufferGroupOffloadHandler, layer_window_map);
 * megatron-core 0.19.2 transformer/transformer_config.py allows all layers but one
 * (cpu_offloading_num_layers) and no recompute. */
int64_t spp_memory_layers_here(const struct spp_memory_view *v, int64_t layers) {
  if (!spp_layout_offloads_layers(v->layout, v->job)) return layers;
  int64_t away = spp_layout_layers_away(v->layout, layers);
  return layers - away + spp_min64(away, 1);
}

int64_t spp_memory_input_bytes(const struct spp_memory_view *v) {
  return spp_sat_mul(spp_sat_mul(v->g->stream_tokens, v->job->arch->hidden), spp_dtype_bytes(v->act));
}

int64_t spp_memory_layer_keeps(const struct spp_memory_view *v, enum spp_layer_class class) {
  const struct spp_kept_list *list = &v->lists->kept[class];
  if (v->layout->recompute == SPP_RECOMPUTE_NONE) return spp_kept_without(list, SPP_RC_ALWAYS);
  if (v->layout->recompute == SPP_RECOMPUTE_FULL)
    return spp_ceil_div(spp_memory_input_bytes(v), spp_memory_recompute_unit(v->layout));
  if (v->job->framework->selective_is_op_level)
    return spp_min64(v->lists->saved[class].bytes, v->lists->saved[class].fp4_bytes);
  return spp_kept_without(list, v->layout->recompute_modules | SPP_RC_ALWAYS);
}

int64_t spp_memory_stage_keeps(const struct spp_memory_stage *s) {
  const struct spp_memory_view *v = s->view;
  int64_t bytes = 0;
  for (int c = 0; c < SPP_LAYER_CLASS_COUNT; c++) {
    enum spp_layer_class class = (enum spp_layer_class)c;
    bool full = v->layout->recompute == SPP_RECOMPUTE_FULL;
    int64_t each =
        full ? spp_kept_without(&v->lists->kept[class], SPP_RC_ALWAYS) : spp_memory_layer_keeps(v, class);
    int64_t inputs = spp_ceil_div(s->recomputed[c], spp_memory_recompute_unit(v->layout));
    if (spp_offload_activations(v->layout->offload)) inputs = spp_min64(inputs, offloaded_in_flight(v));
    int64_t here = spp_memory_layers_here(v, s->layers[c] - s->recomputed[c]);
    bytes = spp_sat_add(bytes, spp_sat_mul(here, each));
    bytes = spp_sat_add(bytes, spp_sat_mul(inputs, spp_memory_input_bytes(v)));
  }
  return bytes;
}

int64_t spp_memory_running_keeps(const struct spp_memory_stage *s) {
  const struct spp_memory_view *v = s->view;
  int64_t inputs = 0, most = 0;
  if (v->layout->recompute == SPP_RECOMPUTE_SELECTIVE && v->job->framework->selective_is_op_level) return 0;
  for (int c = 0; c < SPP_LAYER_CLASS_COUNT; c++) {
    if (s->recomputed[c] > 0)
      inputs = spp_sat_add(inputs, spp_memory_input_bytes(v));
    else if (s->layers[c] > 0 && v->layout->recompute != SPP_RECOMPUTE_FULL)
      most = spp_max64(most, spp_memory_layer_keeps(v, (enum spp_layer_class)c));
    else if (s->layers[c] > 0)
      most = spp_max64(most, spp_kept_without(&v->lists->kept[c], SPP_RC_ALWAYS));
  }
  return inputs > 0 ? inputs : most;
}
