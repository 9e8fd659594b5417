#include "model/memory_parts.h"

static const struct spp_tensor layer_input = {"layer input", SPP_PART_LAYER_INPUTS,
                                              "start of a recomputed layer"};
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
enum { OFFLOADED_IN_FLIGHT = 2 }; /* layer inputs on the GPU while the others are in host memory (ALST) */

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

/* When the layers that are not running are alive. The end of backward has only the running one left. */
static unsigned waiting(const struct spp_memory_stage *s) {
  return FORWARD | LOSS | (s->late ? 0u : (unsigned)TEXT_BACKWARD);
}

/* Of `copies` that wait, those of other micro-batches when backward has passed all layers of one. Virtual
 * stages end theirs at different times: then all are taken to be there. */
static int64_t left_at_end(const struct spp_memory_stage *s, int64_t copies, int64_t layers) {
  if (s->view->g->pp == 1) return 0;
  bool frees = s->view->job->framework->sharding == SPP_SHARDING_UNITS && s->view->g->vpp == 1;
  return frees ? spp_max64(copies - layers, 0) : copies;
}

/* `live`: besides the end of backward, where `left` are there. */
static void add_waiting(struct spp_memory_sum *sum, const struct spp_kept *k, unsigned live, int64_t copies,
                        int64_t left) {
  const unsigned end = SPP_LIVE(SPP_MOMENT_BACKWARD_VISION);
  add_item(sum, k, left == copies ? live | end : live, copies);
  if (left != copies) add_item(sum, k, end, left);
}

/* Under NVFP4 the last layers stay in 16 bit; stages of a pipeline are taken to have their share of them. */
static int64_t fp4_layers(const struct spp_memory_stage *s, int64_t layers) {
  const struct spp_job *job = s->view->job;
  return job->fp4 ? layers * job->fp4_layers / spp_max64(1, job->arch->layers) : 0;
}

static int64_t layers_with(const struct spp_memory_stage *s, const struct spp_kept *k, int64_t layers) {
  if (k->in == SPP_KEPT_IN_ALL) return layers;
  int64_t fp4 = fp4_layers(s, layers);
  return k->in == SPP_KEPT_IN_FP4 ? fp4 : layers - fp4;
}

/* Does the running layer keep it? A 16-bit layer keeps most; where there is none, an FP4 one runs. */
static bool runs_with(const struct spp_memory_stage *s, const struct spp_kept *k, int64_t layers) {
  return k->in == SPP_KEPT_IN_ALL || (k->in == SPP_KEPT_IN_WIDE) == (fp4_layers(s, layers) < layers);
}

/* Layers that are not recomputed as a whole. Tensors that `dropped` modules own are made again in the running
 * layer's backward (NVIDIA/Megatron-LM transformer_config.py recompute_modules). `running_here`: the layer in
 * backward is one of these. */
static void add_kept(const struct spp_memory_stage *s, const struct spp_kept_list *list, int64_t layers,
                     unsigned dropped, bool running_here, struct spp_memory_sum *sum) {
  const unsigned *made = s->view->job->framework->sharding == SPP_SHARDING_UNITS ? remade : rerunning;
  unsigned rest = waiting(s);
  if (layers <= 0) return;
  for (int i = 0; i < list->count; i++) {
    const struct spp_kept *k = &list->items[i];
    bool again = (k->modules & (dropped | SPP_RC_ALWAYS)) != 0;
    bool here = running_here && runs_with(s, k, layers);
    int64_t mine = layers_with(s, k, layers), copies = spp_memory_in_flight(s->stage, mine);
    int64_t others = here ? copies - 1 : copies;
    if (!again) add_waiting(sum, k, rest, others, spp_min64(left_at_end(s, copies, mine), others));
    if (here) add_item(sum, k, again ? made[k->block] : running[k->block] | LOSS, 1);
  }
}

static int64_t recompute_unit(const struct spp_layout *layout) {
  return spp_max64(1, layout->recompute_unit);
}

static void add_checkpoints(const struct spp_memory_stage *s, int64_t layers, struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  int64_t copies = spp_memory_in_flight(s->stage, spp_ceil_div(layers, recompute_unit(v->layout)));
  if (layers <= 0) return;
  if (spp_offload_activations(v->layout->offload)) copies = spp_min64(copies, OFFLOADED_IN_FLIGHT);
  int64_t rows = v->g->stream_tokens, h = v->job->arch->hidden;
  int64_t left = spp_min64(left_at_end(s, copies, layers), copies);
  const struct spp_kept input = {&layer_input, v->act, SPP_BLOCK_INPUT, 0, rows, h, SPP_KEPT_IN_ALL};
  if (s->late) add_item(sum, &input, TEXT_BACKWARD, 1);
  add_waiting(sum, &input, s->late ? waiting(s) : waiting(s) | TEXT_BACKWARD, copies, left);
}

/* The unit that is recomputed for its backward: all its layers, one of them running. */
static void add_rerun(const struct spp_memory_stage *s, const struct spp_kept_list *list, int64_t layers,
                      struct spp_memory_sum *sum) {
  for (int i = 0; i < list->count; i++) {
    const struct spp_kept *k = &list->items[i];
    if (!runs_with(s, k, s->stage->layers)) continue;
    add_item(sum, k, TEXT_BACKWARD, layers - 1);
    if (!spp_kept_is_layer_input(s->view->job, k)) add_item(sum, k, rerunning[k->block], 1);
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

/* The first layers of a stage are those recomputed: when their turn comes in backward the others are gone, if
 * every tensor is freed at its last use. Elsewhere one more layer is counted: what autograd and the allocator
 * still hold. */
static bool reruns(const struct spp_memory_stage *s, enum spp_layer_class class) {
  bool frees = s->view->job->framework->sharding == SPP_SHARDING_UNITS;
  return s->recomputed[class] > 0 && (!frees || s->recomputed[class] == s->layers[class]);
}

static void add_full(const struct spp_memory_stage *s, enum spp_layer_class class, bool active,
                     struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  int64_t again = s->recomputed[class];
  bool rerun = active && reruns(s, class);
  add_kept(s, &v->kept[class], s->layers[class] - again, 0, active && !rerun, sum);
  add_checkpoints(s, again, sum);
  if (!rerun) return;
  add_rerun(s, &v->kept[class], spp_min64(again, recompute_unit(v->layout)), sum);
  add_unit_ends(s, sum);
}

/* The chosen products of every layer stay; the running layer has all its tensors again. */
static void add_op_level(const struct spp_memory_stage *s, enum spp_layer_class class, bool active,
                         struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  if (s->layers[class] <= 0) return;
  for (int i = 0; i < v->saved[class].count; i++) {
    const struct spp_kept *k = &v->saved[class].items[i];
    int64_t layers = layers_with(s, k, s->layers[class]), copies = spp_memory_in_flight(s->stage, layers);
    add_waiting(sum, k, waiting(s), copies, left_at_end(s, copies, layers));
  }
  if (active) add_rerun(s, &v->kept[class], 1, sum);
}

void spp_memory_add_layers(const struct spp_memory_stage *s, enum spp_layer_class active,
                           struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  bool selective = v->layout->recompute == SPP_RECOMPUTE_SELECTIVE;
  for (int c = 0; c < SPP_LAYER_CLASS_COUNT; c++) {
    enum spp_layer_class class = (enum spp_layer_class)c;
    bool here = class == active;
    if (v->layout->recompute == SPP_RECOMPUTE_FULL)
      add_full(s, class, here, sum);
    else if (selective && v->job->framework->selective_is_op_level)
      add_op_level(s, class, here, sum);
    else
      add_kept(s, &v->kept[class], s->layers[class], selective ? v->layout->recompute_modules : 0, here, sum);
  }
  spp_memory_add_plain(s, sum);
}

static int64_t input_bytes(const struct spp_memory_view *v) {
  return spp_sat_mul(spp_sat_mul(v->g->stream_tokens, v->job->arch->hidden), spp_dtype_bytes(v->act));
}

int64_t spp_memory_layer_keeps(const struct spp_memory_view *v, enum spp_layer_class class) {
  const struct spp_kept_list *list = &v->kept[class];
  if (v->layout->recompute == SPP_RECOMPUTE_NONE) return spp_kept_without(list, SPP_RC_ALWAYS);
  if (v->layout->recompute == SPP_RECOMPUTE_FULL)
    return spp_ceil_div(input_bytes(v), recompute_unit(v->layout));
  if (v->job->framework->selective_is_op_level)
    return spp_min64(v->saved[class].bytes, v->saved[class].fp4_bytes);
  return spp_kept_without(list, v->layout->recompute_modules | SPP_RC_ALWAYS);
}

int64_t spp_memory_stage_keeps(const struct spp_memory_stage *s) {
  const struct spp_memory_view *v = s->view;
  int64_t bytes = 0;
  for (int c = 0; c < SPP_LAYER_CLASS_COUNT; c++) {
    enum spp_layer_class class = (enum spp_layer_class)c;
    bool full = v->layout->recompute == SPP_RECOMPUTE_FULL;
    int64_t each = full ? spp_kept_without(&v->kept[class], SPP_RC_ALWAYS) : spp_memory_layer_keeps(v, class);
    int64_t inputs = spp_ceil_div(s->recomputed[c], recompute_unit(v->layout));
    if (spp_offload_activations(v->layout->offload)) inputs = spp_min64(inputs, OFFLOADED_IN_FLIGHT);
    bytes = spp_sat_add(bytes, spp_sat_mul(s->layers[c] - s->recomputed[c], each));
    bytes = spp_sat_add(bytes, spp_sat_mul(inputs, input_bytes(v)));
  }
  return bytes;
}

int64_t spp_memory_running_keeps(const struct spp_memory_stage *s) {
  const struct spp_memory_view *v = s->view;
  int64_t inputs = 0, most = 0;
  if (v->layout->recompute == SPP_RECOMPUTE_SELECTIVE && v->job->framework->selective_is_op_level) return 0;
  for (int c = 0; c < SPP_LAYER_CLASS_COUNT; c++) {
    if (s->recomputed[c] > 0)
      inputs = spp_sat_add(inputs, input_bytes(v));
    else if (s->layers[c] > 0 && v->layout->recompute != SPP_RECOMPUTE_FULL)
      most = spp_max64(most, spp_memory_layer_keeps(v, (enum spp_layer_class)c));
    else if (s->layers[c] > 0)
      most = spp_max64(most, spp_kept_without(&v->kept[c], SPP_RC_ALWAYS));
  }
  return inputs > 0 ? inputs : most;
}
