#include "base/num.h"
#include "model/activations.h"

#define KEPT(text, reason)                                                                                   \
  { text, SPP_PART_ACTIVATIONS, reason }
static const struct spp_tensor attention_inputs =
    KEPT("adapters of attention: inputs", "one copy per adapter: dropout or cast");
static const struct spp_tensor attention_masks =
    KEPT("adapters of attention: dropout masks", "dropout backward");
static const struct spp_tensor attention_hidden = KEPT("adapters of attention: A x", "gradient of B");
static const struct spp_tensor mlp_inputs =
    KEPT("adapters of the MLP: inputs", "one copy per adapter: dropout or cast");
static const struct spp_tensor mlp_masks = KEPT("adapters of the MLP: dropout masks", "dropout backward");
static const struct spp_tensor mlp_hidden = KEPT("adapters of the MLP: A x", "gradient of B");

/* peft keeps adapters in fp32 unless the engine casts the module (DeepSpeed does); x is then cast for each of
 * them (peft tuners/lora/layer.py _cast_input_dtype), back to 16 bit again under autocast. */
static bool adapters_fp32(const struct spp_job *job, const struct spp_layout *layout) {
  const struct spp_framework *f = job->framework;
  return f->lora_fp32_adapters && !(f->sharding == SPP_SHARDING_DEEPSPEED && layout->zero > 0) &&
         spp_activation_dtype(job) != SPP_DTYPE_FP32;
}

bool spp_keeps_input(const struct spp_job *job, const struct spp_layout *layout, unsigned targets) {
  if (!spp_job_has_adapters(job)) return true;
  if (job->lora_dropout > 0.0 || adapters_fp32(job, layout)) return false;
  return (job->lora_targets & targets) != 0;
}

struct adapter_sum {
  int64_t widths, modules;
};
static void adapt(struct adapter_sum *sum, unsigned chosen, unsigned target, int64_t width) {
  if (!(chosen & target)) return;
  sum->widths += width;
  sum->modules++;
}

static void emit(const struct spp_layer_view *v, enum spp_block block, unsigned modules, int64_t rows,
                 const struct adapter_sum *sum, const struct spp_tensor *inputs,
                 const struct spp_tensor *masks, const struct spp_tensor *hidden) {
  bool fp32 = adapters_fp32(v->job, v->layout), autocast = v->job->framework->lora_autocast;
  bool dropout = v->job->lora_dropout > 0.0;
  enum spp_dtype dtype = fp32 && !autocast ? SPP_DTYPE_FP32 : v->act;
  if (fp32 || dropout) spp_kept_append(v, inputs, block, modules, dtype, rows, sum->widths);
  if (dropout) spp_kept_append(v, masks, block, modules, SPP_DTYPE_BOOL, rows, sum->widths);
  spp_kept_append(v, hidden, block, modules, dtype, rows, sum->modules * v->job->lora_rank);
}

static struct adapter_sum attention_adapters(const struct spp_layer_view *v) {
  const struct spp_arch *a = v->job->arch;
  unsigned chosen = v->job->lora_targets;
  struct adapter_sum sum = {0, 0};
  if (a->attention == SPP_ATTENTION_MLA) {
    adapt(&sum, chosen, SPP_LORA_Q, a->hidden);
    if (a->q_lora_rank > 0) adapt(&sum, chosen, SPP_LORA_Q, a->q_lora_rank);
    adapt(&sum, chosen, SPP_LORA_K, a->hidden);
    adapt(&sum, chosen, SPP_LORA_V, a->kv_lora_rank);
  } else {
    adapt(&sum, chosen, SPP_LORA_Q, a->hidden);
    adapt(&sum, chosen, SPP_LORA_K, a->hidden);
    adapt(&sum, chosen, SPP_LORA_V, a->hidden);
  }
  adapt(&sum, chosen, SPP_LORA_O, v->g->o_width);
  return sum;
}

static struct adapter_sum mlp_adapters(const struct spp_layer_view *v, int64_t width) {
  unsigned chosen = v->job->lora_targets;
  struct adapter_sum sum = {0, 0};
  if (v->job->arch->mlp == SPP_MLP_GATED) adapt(&sum, chosen, SPP_LORA_GATE, v->job->arch->hidden);
  adapt(&sum, chosen, SPP_LORA_UP, v->job->arch->hidden);
  adapt(&sum, chosen, SPP_LORA_DOWN, width);
  return sum;
}

/* peft tuners/lora/layer.py Linear.forward: B(A(dropout(x))). */
void spp_kept_adapters(const struct spp_layer_view *v) {
  const struct spp_geometry *g = v->g;
  struct adapter_sum sum = attention_adapters(v);
  emit(v, SPP_BLOCK_ATTENTION, 0, g->tokens, &sum, &attention_inputs, &attention_masks, &attention_hidden);
  if (!v->kind->moe) {
    sum = mlp_adapters(v, spp_mlp_width(g, v->kind, SPP_ROLE_MLP));
    emit(v, SPP_BLOCK_MLP, SPP_RC_MLP, g->tokens, &sum, &mlp_inputs, &mlp_masks, &mlp_hidden);
    return;
  }
  sum = mlp_adapters(v, spp_mlp_width(g, v->kind, SPP_ROLE_EXPERT));
  emit(v, SPP_BLOCK_MLP, SPP_RC_MOE, spp_expert_rows(v->job, g), &sum, &mlp_inputs, &mlp_masks, &mlp_hidden);
  int64_t shared_width = spp_mlp_width(g, v->kind, SPP_ROLE_SHARED_EXPERT);
  if (shared_width == 0) return;
  sum = mlp_adapters(v, shared_width);
  emit(v, SPP_BLOCK_MLP, SPP_RC_MOE | SPP_RC_SHARED_EXPERTS, g->tokens, &sum, &mlp_inputs, &mlp_masks,
       &mlp_hidden);
}
