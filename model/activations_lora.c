#include "base/num.h"
#include "model/activations.h"

#define KEPT(text, reason)                                                                                   \
  { text, SPP_PART_ACTIVATIONS, reason }
struct adapter_tensors {
  struct spp_tensor inputs, masks, hidden, weights;
};
static const struct spp_tensor spread_output =
    KEPT("adapters of attention: output", "spread over the joined q, k, v product");
static const struct adapter_tensors attention_names = {
    KEPT("adapters of attention: inputs", "one copy per adapter: dropout or cast"),
    KEPT("adapters of attention: dropout masks", "dropout backward"),
    KEPT("adapters of attention: A x", "gradient of B"),
    KEPT("adapters of attention: weights in 16 bit", "copies that autocast makes, until backward"),
};
static const struct adapter_tensors mlp_names = {
    KEPT("adapters of the MLP: inputs", "one copy per adapter: dropout or cast"),
    KEPT("adapters of the MLP: dropout masks", "dropout backward"),
    KEPT("adapters of the MLP: A x", "gradient of B"),
    KEPT("adapters of the MLP: weights in 16 bit", "copies that autocast makes, until backward"),
};

/* peft keeps adapters in fp32 unless the engine casts the module (DeepSpeed does); x is then cast for each of
 * them (peft tuners/lora/layer.py _cast_input_dtype), back to 16 bit again under autocast. */
static bool adapters_fp32(const struct spp_job *job, const struct spp_layout *layout) {
  const struct spp_framework *f = job->framework;
  return f->lora_fp32_adapters && !(f->sharding == SPP_SHARDING_DEEPSPEED && layout->zero > 0) &&
         spp_autocast_dtype(job) != SPP_DTYPE_FP32;
}

bool spp_keeps_input(const struct spp_job *job, const struct spp_layout *layout, unsigned targets) {
  if (!spp_job_has_adapters(job)) return true;
  if (job->method == SPP_METHOD_QLORA && job->framework->quantised_keeps_input) return true;
  if (job->lora_dropout > 0.0 || adapters_fp32(job, layout)) return false;
  return (job->lora_targets & targets) != 0;
}

struct adapter_sum {
  int64_t widths, outs, modules; /* input and output widths, number of adapters */
};
static void adapt(struct adapter_sum *sum, unsigned chosen, unsigned target, int64_t width, int64_t out) {
  if (!(chosen & target)) return;
  sum->widths += width;
  sum->outs += out;
  sum->modules++;
}

/* `copies`: experts that hold adapters of these widths, 1 for a dense MLP. */
static void emit(const struct spp_layer_view *v, enum spp_block block, unsigned modules, int64_t rows,
                 int64_t copies, const struct adapter_sum *sum, const struct adapter_tensors *names) {
  bool fp32 = adapters_fp32(v->job, v->layout), autocast = v->job->framework->lora_autocast;
  bool dropout = v->job->lora_dropout > 0.0;
  enum spp_dtype dtype = fp32 && !autocast ? SPP_DTYPE_FP32 : spp_autocast_dtype(v->job);
  int64_t rank = v->job->lora_rank;
  if (fp32 || dropout) spp_kept_append(v, &names->inputs, block, modules, dtype, rows, sum->widths);
  if (dropout) spp_kept_append(v, &names->masks, block, modules, SPP_DTYPE_BOOL, rows, sum->widths);
  spp_kept_append(v, &names->hidden, block, modules, dtype, rows, sum->modules * rank);
  if (fp32 && autocast)
    spp_kept_append(v, &names->weights, block, modules, dtype, spp_sat_mul(copies, rank),
                    sum->widths + sum->outs);
}

/* Linears that are one module have one adapter: its input and its A x are there once. */
static void join(struct adapter_sum *sum, unsigned chosen, unsigned targets, int64_t width) {
  int64_t inputs = 0;
  for (unsigned bit = 1; bit <= targets; bit *= 2)
    inputs += (chosen & targets & bit) != 0;
  if (inputs < 2) return;
  sum->widths -= (inputs - 1) * width;
  sum->modules -= inputs - 1;
}

static struct adapter_sum attention_adapters(const struct spp_layer_view *v) {
  const struct spp_arch *a = v->job->arch;
  const struct spp_geometry *g = v->g;
  unsigned chosen = v->job->lora_targets;
  int64_t h = a->hidden, ql = a->q_lora_rank, kl = a->kv_lora_rank;
  struct adapter_sum sum = {0, 0, 0};
  if (a->attention == SPP_ATTENTION_MLA) {
    adapt(&sum, chosen, SPP_LORA_Q, h, ql > 0 ? ql : g->q_width);
    if (ql > 0) adapt(&sum, chosen, SPP_LORA_Q, ql, g->q_width);
    adapt(&sum, chosen, SPP_LORA_K, h, kl + a->qk_rope_dim);
    adapt(&sum, chosen, SPP_LORA_V, kl, g->heads_local * (a->qk_nope_dim + a->v_head_dim));
  } else {
    adapt(&sum, chosen, SPP_LORA_Q, h, g->q_width);
    adapt(&sum, chosen, SPP_LORA_K, h, g->k_width);
    adapt(&sum, chosen, SPP_LORA_V, h, g->v_width);
    if (v->job->framework->joined_adapters) join(&sum, chosen, SPP_LORA_Q | SPP_LORA_K | SPP_LORA_V, h);
  }
  adapt(&sum, chosen, SPP_LORA_O, g->o_width, h);
  return sum;
}

static struct adapter_sum mlp_adapters(const struct spp_layer_view *v, int64_t width) {
  unsigned chosen = v->job->lora_targets;
  int64_t h = v->job->arch->hidden;
  struct adapter_sum sum = {0, 0, 0};
  if (v->job->arch->mlp == SPP_MLP_GATED) adapt(&sum, chosen, SPP_LORA_GATE, h, width);
  adapt(&sum, chosen, SPP_LORA_UP, h, width);
  adapt(&sum, chosen, SPP_LORA_DOWN, width, h);
  if (v->job->framework->joined_adapters) join(&sum, chosen, SPP_LORA_GATE | SPP_LORA_UP, h);
  return sum;
}

/* Lightning-AI/litgpt lora.py LoRAQKVLinear: q, k, v share one A and one dropped input; the joined output is
 * copied into the places of the adapted ones unless all three are, and index_copy keeps its source [counted
 * with hooks on litgpt 0.4.0]. */
static void join_qkv(const struct spp_layer_view *v, struct adapter_sum *sum) {
  const unsigned qkv = SPP_LORA_Q | SPP_LORA_K | SPP_LORA_V;
  unsigned chosen = v->job->lora_targets;
  int64_t inputs = ((chosen & SPP_LORA_Q) != 0) + ((chosen & SPP_LORA_K) != 0) + ((chosen & SPP_LORA_V) != 0);
  if (inputs == 0) return;
  sum->widths -= (inputs - 1) * v->job->arch->hidden;
  int64_t o_out = chosen & SPP_LORA_O ? v->job->arch->hidden : 0;
  if ((chosen & qkv) != qkv)
    spp_kept_append(v, &spread_output, SPP_BLOCK_ATTENTION, 0, v->act, v->g->tokens, sum->outs - o_out);
}

/* peft tuners/lora/layer.py Linear.forward: B(A(dropout(x))). */
void spp_kept_adapters(const struct spp_layer_view *v) {
  const struct spp_geometry *g = v->g;
  struct adapter_sum sum = attention_adapters(v);
  if (v->job->framework->joined_qkv) join_qkv(v, &sum);
  emit(v, SPP_BLOCK_ATTENTION, 0, g->tokens, 1, &sum, &attention_names);
  if (!v->kind->moe) {
    sum = mlp_adapters(v, spp_mlp_width(g, v->kind, SPP_ROLE_MLP));
    emit(v, SPP_BLOCK_MLP, SPP_RC_MLP, g->tokens, 1, &sum, &mlp_names);
    return;
  }
  int64_t experts = spp_ceil_div(v->job->arch->experts, spp_max64(1, g->ep));
  sum = mlp_adapters(v, spp_mlp_width(g, v->kind, SPP_ROLE_EXPERT));
  emit(v, SPP_BLOCK_MLP, SPP_RC_MOE, spp_expert_rows(v->job, g), experts, &sum, &mlp_names);
  int64_t shared_width = spp_mlp_width(g, v->kind, SPP_ROLE_SHARED_EXPERT);
  if (shared_width == 0) return;
  sum = mlp_adapters(v, shared_width);
  emit(v, SPP_BLOCK_MLP, SPP_RC_MOE | SPP_RC_SHARED_EXPERTS, g->tokens, 1, &sum, &mlp_names);
}
