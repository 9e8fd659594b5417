#include "base/num.h"
#include "model/activations.h"

#define KEPT(text, reason)                                                                                   \
  { text, SPP_PART_ACTIVATIONS, reason }
/* One MLP's tensors; the shared and the routed experts have their own names. */
struct mlp_tensors {
  struct spp_tensor gate, activated, up, both, product, steps;
};
static const struct mlp_tensors dense = {
    KEPT("MLP: gate", "activation backward"),
    KEPT("MLP: activated gate", "product with up"),
    KEPT("MLP: up", "product with the activated gate"),
    KEPT("MLP: gate and up", "fused activation backward"),
    KEPT("MLP: input of down", "gradient of down"),
    KEPT("MLP: steps of the activation", "written out in Python"),
};
static const struct mlp_tensors routed = {
    KEPT("experts: gate", "activation backward"),
    KEPT("experts: activated gate", "product with up"),
    KEPT("experts: up", "product with the activated gate"),
    KEPT("experts: gate and up", "fused activation backward"),
    KEPT("experts: input of down", "gradient of down"),
    KEPT("experts: steps of the activation", "written out in Python"),
};
static const struct mlp_tensors shared = {
    KEPT("shared expert: gate", "activation backward"),
    KEPT("shared expert: activated gate", "product with up"),
    KEPT("shared expert: up", "product with the activated gate"),
    KEPT("shared expert: gate and up", "fused activation backward"),
    KEPT("shared expert: input of down", "gradient of down"),
    KEPT("shared expert: steps of the activation", "written out in Python"),
};
static const struct spp_tensor router_input = KEPT("router input, fp32", "gradient of the router");
static const struct spp_tensor router_logits = KEPT("router logits", "softmax in fp32");
static const struct spp_tensor router_probs = KEPT("router probabilities", "softmax backward");
static const struct spp_tensor expert_input = KEPT("experts: permuted input", "gradient of gate and up");
static const struct spp_tensor expert_output = KEPT("experts: output", "weighted by the router");
static const struct spp_tensor expert_indices =
    KEPT("experts: routing indices", "gather and scatter backward");
static const struct spp_tensor expert_probs =
    KEPT("experts: routing weights", "applied inside the activation");
static const struct spp_tensor shared_output = KEPT("shared expert: output", "scaled by its gate");

static void keep(const struct spp_layer_view *v, const struct spp_tensor *tensor, unsigned modules,
                 int64_t rows, int64_t width) {
  spp_kept_append(v, tensor, SPP_BLOCK_MLP, modules, v->act, rows, width);
}

/* Gated: eager silu keeps gate, the product keeps silu(gate) and up; a fused SwiGLU keeps gate and up only
 * (Liger ops/swiglu.py, Megatron fused_bias_swiglu.py). Plain: the activation keeps its input. down keeps its
 * input. */
static void keep_one(const struct spp_layer_view *v, const struct mlp_tensors *t, unsigned modules,
                     int64_t rows, int64_t width) {
  if (v->job->arch->mlp == SPP_MLP_PLAIN) {
    keep(v, &t->up, modules, rows, width);
    if (v->job->kernels == SPP_KERNELS_EAGER && (v->job->arch->keeps & SPP_KEEPS_GELU_STEPS) &&
        !v->job->framework->own_layers)
      keep(v, &t->steps, modules, rows, 3 * width);
  } else if (v->job->kernels == SPP_KERNELS_FUSED) {
    keep(v, &t->both, modules, rows, 2 * width);
  } else {
    keep(v, &t->gate, modules, rows, width);
    keep(v, &t->activated, modules, rows, width);
    keep(v, &t->up, modules, rows, width);
    if (v->job->arch->keeps & SPP_KEEPS_GLU_STEPS) keep(v, &t->steps, modules, rows, 3 * width);
  }
  unsigned activation = t == &routed ? modules | SPP_RC_MOE_ACT : modules;
  if (spp_keeps_input(v->job, v->layout, SPP_LORA_DOWN))
    spp_kept_append_input(v, &t->product, SPP_BLOCK_MLP, activation, rows, width, 1);
}

/* Megatron: logits and probabilities in fp32 [derived], the routing weights applied inside the activation
 * (moe/router.py, experts.py). transformers (Mixtral, Qwen3-MoE): softmax output, four int64 and two fp32
 * values a routed row, and the experts' output, which the routing weights scale [counted with hooks]. */
static void keep_routing(const struct spp_layer_view *v, int64_t rows) {
  const struct spp_arch *a = v->job->arch;
  const unsigned moe = SPP_RC_MOE;
  int64_t tokens = v->g->stream_tokens;
  spp_kept_append(v, &router_probs, SPP_BLOCK_MLP, moe, SPP_DTYPE_FP32, tokens, a->experts);
  if (v->job->kernels == SPP_KERNELS_FUSED) {
    spp_kept_append(v, &router_logits, SPP_BLOCK_MLP, moe, SPP_DTYPE_FP32, tokens, a->experts);
    spp_kept_append(v, &expert_probs, SPP_BLOCK_MLP, moe, SPP_DTYPE_FP32, rows, 1);
    return;
  }
  if ((a->keeps & SPP_KEEPS_ROUTER_FP32) && !spp_job_has_adapters(v->job))
    spp_kept_append(v, &router_input, SPP_BLOCK_MLP, moe, SPP_DTYPE_FP32, tokens, a->hidden);
  spp_kept_append(v, &expert_probs, SPP_BLOCK_MLP, moe, SPP_DTYPE_FP32, rows, 2);
  spp_kept_append(v, &expert_indices, SPP_BLOCK_MLP, moe, SPP_DTYPE_INT64, rows, 4);
  keep(v, &expert_output, moe, rows, a->hidden);
}

unsigned spp_kept_mixture_part(const struct spp_kept *kept) {
  const struct spp_tensor *t = kept->tensor;
  if (t == &expert_input || t == &routed.both || t == &routed.product) return SPP_MIX_ROUTED;
  if (t == &shared.both || t == &shared.product) return SPP_MIX_SHARED;
  return t == &shared_output ? SPP_MIX_OUTPUT : 0;
}

bool spp_kept_is_widened(const struct spp_kept *kept) {
  return kept->tensor == &dense.both || kept->tensor == &dense.up;
}

/* Grouped GEMM over permuted tokens (Megatron moe/token_dispatcher.py, transformers grouped experts). */
static void keep_moe(const struct spp_layer_view *v) {
  const struct spp_arch *a = v->job->arch;
  const struct spp_geometry *g = v->g;
  int64_t rows = spp_expert_rows(v->job, g), width = spp_mlp_width(g, v->kind, SPP_ROLE_EXPERT);
  const unsigned moe = SPP_RC_MOE, both = SPP_RC_MOE | SPP_RC_SHARED_EXPERTS;
  keep_routing(v, rows);
  bool reads = spp_keeps_input(v->job, v->layout, SPP_LORA_GATE | SPP_LORA_UP);
  if (reads && v->job->fp4 && spp_job_runs_te(v->job))
    spp_kept_append_input(v, &expert_input, SPP_BLOCK_MLP, moe, rows, a->hidden, 1);
  else if (reads)
    spp_kept_append(v, &expert_input, SPP_BLOCK_MLP, moe, v->gemm_in, rows, a->hidden);
  keep_one(v, &routed, moe, rows, width);
  int64_t shared_width = spp_mlp_width(g, v->kind, SPP_ROLE_SHARED_EXPERT);
  if (shared_width == 0) return;
  keep_one(v, &shared, both, g->tokens, shared_width);
  if (a->shared_expert_gate) keep(v, &shared_output, both, g->stream_tokens, a->hidden);
}

void spp_kept_mlp(const struct spp_layer_view *v) {
  unsigned modules = SPP_RC_MLP | (v->job->framework->tiles_mlp ? SPP_RC_ALWAYS : 0u);
  if (v->kind->moe)
    keep_moe(v);
  else if (!spp_mlp_in_chunks(v->job, v->g))
    keep_one(v, &dense, modules, spp_mlp_rows(v->job, v->g), spp_mlp_width(v->g, v->kind, SPP_ROLE_MLP));
}
