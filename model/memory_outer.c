#include "model/loss.h"
#include "model/memory_parts.h"

/* What is kept outside the layers: token ids, rotary table, final norm, loss. */
#define KEPT(id, text, reason) static const struct spp_tensor id = {text, SPP_PART_ACTIVATIONS, reason}
KEPT(ids, "token ids, labels, positions", "int64, one each");
KEPT(rotary, "rotary table", "cos and sin, shared by all layers");
KEPT(mask, "additive attention mask", "eager attention, shared by all layers");
KEPT(final_input, "final norm: input", "norm backward");
KEPT(final_scaled, "final norm: normalised", "gradient of the norm weight");
KEPT(final_stats, "final norm: statistics", "norm backward");
KEPT(final_output, "final norm: output", "input of the head");
static const struct spp_norm_tensors final_norm = {&final_input, &final_scaled, &final_stats};

static const unsigned whole_pass = SPP_LIVE(SPP_MOMENT_FORWARD) | SPP_LIVE_LOSS | SPP_LIVE_BACKWARD;

static void add_inputs(const struct spp_memory_stage *s, struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  const struct spp_geometry *g = v->g;
  const struct spp_arch *a = v->job->arch;
  spp_memory_add(sum, &ids, whole_pass, SPP_DTYPE_INT64, g->tokens, 1, 3);
  /* transformers repeats the angles of half a head; kernels that know read them once. */
  bool once = v->job->framework->sharding == SPP_SHARDING_UNITS;
  int64_t halves = once ? 1 : 2, tables = a->rope_local_theta > 0 ? 2 : 1;
  /* FPDT rotates what all ranks sent: each has the whole sequence's (fpdt_layer.py pos_emb_cos) */
  int64_t rows = g->pieces > 1 ? g->padded_tokens : g->tokens;
  if (a->rotary_dim > 0)
    spp_memory_add(sum, &rotary, whole_pass, once ? SPP_DTYPE_FP32 : v->act, rows, a->rotary_dim,
                   halves * tables);
  if (v->job->attention == SPP_ATTN_EAGER)
    spp_memory_add(sum, &mask, whole_pass, v->act, spp_sat_mul(g->sequences, g->padded_tokens),
                   g->padded_tokens, 1);
}

/* Counted like a layer's norm; freed before the last layer's backward. */
static void add_final_norm(const struct spp_memory_stage *s, struct spp_memory_sum *sum) {
  const struct spp_memory_view *v = s->view;
  const struct spp_job *job = v->job;
  const unsigned live = SPP_LIVE_LOSS;
  struct spp_kept_list list = {.count = 0};
  const struct spp_layer_view layer = {job, v->layout, v->g, NULL, v->act, v->act, &list, SPP_KEPT_IN_ALL};
  spp_kept_norm(&layer, &final_norm, SPP_BLOCK_NORM2, 0, v->g->stream_tokens, job->arch->hidden, 1);
  for (int i = 0; i < list.count; i++)
    spp_memory_add(sum, list.items[i].tensor, live, list.items[i].dtype, list.items[i].rows,
                   list.items[i].cols, 1);
  bool away = v->g->loss_path == SPP_LOSS_FPDT; /* FPDT_LogitsLoss.forward saves a copy in host memory */
  spp_memory_add(sum, &final_output, live, v->act, v->g->stream_tokens, job->arch->hidden, away ? 0 : 1);
}

void spp_memory_add_outer(const struct spp_memory_stage *s, struct spp_memory_sum *sum) {
  add_inputs(s, sum);
  if (!s->stage->last) return;
  add_final_norm(s, sum);
  const struct spp_memory_view *v = s->view;
  struct spp_loss_view loss = spp_loss_view_of(v->job, v->g);
  loss.head_sharded =
      v->job->framework->sharding == SPP_SHARDING_FSDP && v->regime.shard_grads && v->g->shard_group > 1;
  spp_loss_add(&loss, sum);
}
