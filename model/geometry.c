#include "model/geometry.h"

#include <string.h>

#include "base/num.h"

/* Tokens a sequence or packed document is padded to a multiple of: the padding units of the framework file.
 */
int64_t spp_layout_pad_tokens(const struct spp_job *job, const struct spp_layout *layout) {
  const struct spp_framework *f = job->framework;
  int64_t sp = spp_layout_sp(layout), unit = 1;
  int64_t pad_ring = job->ring_order == SPP_RING_CONTIGUOUS && f->pad_ring_contiguous > 0
                         ? f->pad_ring_contiguous
                         : f->pad_ring;
  if (sp > 1) unit = spp_sat_mul(layout->ring > 1 ? pad_ring : f->pad_ulysses, sp);
  if (unit < 1) unit = 1;
  return f->pad_tp && layout->megatron_sp ? spp_sat_mul(unit, layout->tp) : unit;
}

static bool pads_documents(const struct spp_framework *f, const struct spp_layout *layout) {
  if (f->pad_scope == SPP_PAD_DOCUMENT_WITH_RING) return layout->ring > 1;
  return f->pad_scope == SPP_PAD_DOCUMENT;
}

/* Tokens of one sequence on the wire: the fullest packed one, or the longest document when each is a
 * sequence. */
static int64_t padded_sequence(const struct spp_job *job, const struct spp_layout *layout, int64_t unit) {
  const struct spp_documents *d = &job->documents;
  int64_t tokens = job->seq_tokens;
  if (d->count > 0 && !job->packing) tokens = spp_min64(d->longest_tokens, job->seq_tokens);
  if (d->count > 0 && job->packing && d->sequences > 0) {
    tokens = d->fullest_tokens > 0 ? d->fullest_tokens : spp_ceil_div(d->tokens, d->sequences);
    if (pads_documents(job->framework, layout))
      tokens += spp_ceil_div(spp_documents_padded(d, unit) - d->tokens, d->sequences);
  }
  return spp_round_up(tokens, unit);
}

/* Real tokens and real attention pairs of one sequence, on average. */
static void real_sequence(const struct spp_job *job, double *tokens, double *pairs) {
  const struct spp_documents *d = &job->documents;
  int64_t sequences = job->packing ? d->sequences : d->count;
  if (d->count > 0 && sequences > 0) {
    *tokens = (double)d->tokens / (double)sequences;
    *pairs = d->sum_squares / (double)sequences;
    return;
  }
  *tokens = (double)job->seq_tokens;
  *pairs = (double)job->seq_tokens * (double)job->seq_tokens;
}

static void resolve_tokens(const struct spp_job *job, const struct spp_layout *layout,
                           struct spp_geometry *g) {
  double real_tokens, real_pairs;
  /* both answers of a pair are rows of one batch; packed rows hold both (modelscope/ms-swift 3.9.3
   * llm/template/base.py encode: the length is the answers' sum) */
  g->sequences = layout->micro_batch * (job->mode == SPP_MODE_DPO && !job->packing ? 2 : 1);
  g->element_bytes = job->dtype == SPP_DTYPE_FP32 || spp_job_hidden_fp32(job) ? 4 : 2;
  g->pad_tokens = spp_layout_pad_tokens(job, layout);
  g->padded_tokens = padded_sequence(job, layout, g->pad_tokens);
  int64_t batch_tokens = spp_sat_mul(g->sequences, g->padded_tokens);
  g->tokens = spp_ceil_div(batch_tokens, g->sp);
  g->attention_tokens = spp_sat_mul(g->tokens, g->su);
  g->stream_tokens = layout->megatron_sp ? spp_ceil_div(g->tokens, g->tp) : g->tokens;
  g->chunk_tokens = spp_ceil_div(batch_tokens, 2 * g->sr);
  g->pieces = layout->fpdt_chunk > 0 ? spp_max64(1, spp_ceil_div(g->padded_tokens, layout->fpdt_chunk)) : 1;
  g->piece_tokens = spp_ceil_div(g->tokens, g->pieces);
  real_sequence(job, &real_tokens, &real_pairs);
  double step_sequences = (double)g->sequences * (double)g->m * (double)g->dp;
  g->real_tokens = step_sequences * real_tokens < 9e18 ? (int64_t)(step_sequences * real_tokens) : INT64_MAX;
  g->attention_pairs = (double)g->sequences * real_pairs;
}

/* Groups over which states are sharded and gradients reduced. Dense parameters are equal on all dp x sp ranks
 * (NVIDIA/ Megatron-LM "dp_cp" group; deepspeedai/DeepSpeed seq_data_parallel_group); an expert lives on ep x
 * etp ranks of a stage. */
static void resolve_groups(const struct spp_job *job, const struct spp_layout *layout,
                           struct spp_geometry *g) {
  int64_t replicate = spp_max64(layout->dp_replicate, 1);
  int64_t world = spp_sat_mul(spp_sat_mul(g->tp, g->pp), spp_sat_mul(g->sp, g->dp));
  g->dense_group = spp_sat_mul(g->dp, g->sp);
  g->expert_group = spp_max64(world / spp_sat_mul(spp_sat_mul(g->ep, g->etp), g->pp), 1);
  g->shard_group = spp_max64((job->framework->dp_shard_includes_sp ? g->dense_group : g->dp) / replicate, 1);
  g->expert_shard_group = spp_max64(g->expert_group / replicate, 1);
  if (!job->framework->dp_shard_includes_sp)
    g->expert_shard_group = spp_max64(g->expert_shard_group / g->sp, 1);
  int64_t per_node = job->cluster ? job->cluster->gpus_per_node : 8;
  g->nodes = spp_max64(spp_ceil_div(spp_max64(world, job->gpus), spp_max64(per_node, 1)), 1);
}

/* One head's width of a projection, times the heads of this rank. */
static int64_t local_width(int64_t width, int64_t heads, int64_t local) {
  return heads > 0 ? width / heads * local : 0;
}

static void resolve_heads(const struct spp_job *job, const struct spp_layout *layout,
                          struct spp_geometry *g) {
  const struct spp_arch *a = job->arch;
  int64_t kv = spp_arch_kv_heads(a);
  g->heads_local = spp_max64(spp_ceil_div(a->heads, g->tp), 1);
  g->kv_heads_local = spp_max64(spp_ceil_div(kv, g->tp), 1);
  int64_t spread =
      job->framework->repeats_kv ? g->heads_local : g->su; /* heads that K and V are copied for */
  g->kv_repeat = spp_max64(spread / g->kv_heads_local, 1);
  bool gathers = layout->sp_kind == SPP_SP_ALLGATHER && layout->ring > 1;
  int64_t at_once = gathers ? job->framework->allgather_heads : 0;
  g->head_groups = at_once > 0 ? spp_ceil_div(g->kv_heads_local, at_once) : 1;
  g->q_width = local_width(spp_arch_q_width(a), a->heads, g->heads_local);
  g->k_width = local_width(spp_arch_k_width(a), kv, g->kv_heads_local);
  g->v_width = local_width(spp_arch_v_width(a), kv, g->kv_heads_local);
  g->o_width = local_width(spp_arch_o_width(a), a->heads, g->heads_local);
  g->ring_block_bytes = spp_sat_mul(spp_sat_mul(g->element_bytes, g->tokens),
                                    spp_sat_mul(g->k_width + g->v_width, g->kv_repeat));
  int64_t multiple = spp_max64(job->framework->vocab_multiple, 1);
  g->vocab_local = spp_round_up(a->vocab, spp_sat_mul(multiple, g->tp)) / g->tp;
}

/* A DeepSpeed engine casts the module; elsewhere accelerate runs it under autocast and casts what it returns
 * to fp32 (accelerate 1.10.1 accelerator.py prepare_model convert_outputs_to_fp32). */
static bool in_engine(const struct spp_job *job, const struct spp_layout *layout) {
  return job->framework->sharding == SPP_SHARDING_DEEPSPEED && layout->zero > 0;
}

/* Autocast takes cross entropy in fp32 (torch amp autocast lists); an engine has cast the module instead. */
static bool loss_in_16_bit(const struct spp_job *job, const struct spp_layout *layout) {
  const struct spp_framework *f = job->framework;
  if (!in_engine(job, layout) || job->loss_path_forced != SPP_UNSET) return false;
  for (int i = 0; i < SPP_MAX_REFUSED_TYPES && f->engine_loss_types[i][0]; i++)
    if (strcmp(f->engine_loss_types[i], job->arch->model_type) == 0) return true;
  return false;
}

void spp_geometry_resolve(const struct spp_job *job, const struct spp_layout *layout,
                          struct spp_geometry *geometry) {
  struct spp_geometry g = {.tp = layout->tp,
                           .pp = layout->pp,
                           .vpp = layout->vpp,
                           .dp = layout->dp,
                           .ep = layout->ep,
                           .etp = layout->etp,
                           .su = layout->ulysses,
                           .sr = layout->ring,
                           .sp = layout->ulysses * layout->ring,
                           .m = layout->grad_accum};
  resolve_tokens(job, layout, &g);
  resolve_groups(job, layout, &g);
  resolve_heads(job, layout, &g);
  const enum spp_loss_path *paths = g.sp > 1 ? job->framework->loss_path_sp : job->framework->loss_path;
  g.loss_path =
      job->loss_path_forced != SPP_UNSET ? (enum spp_loss_path)job->loss_path_forced : paths[job->loss];
  if (g.loss_path == SPP_LOSS_HF_SHIFTED && loss_in_16_bit(job, layout)) g.loss_path = SPP_LOSS_SP_16BIT;
  bool vocabulary = g.tp > 1 && job->loss == SPP_LOSS_CHOICE_FULL && job->loss_path_forced == SPP_UNSET;
  if (vocabulary && job->framework->loss_path_tp != SPP_LOSS_HF_FULL)
    g.loss_path = (enum spp_loss_path)job->framework->loss_path_tp;
  bool pairs = (job->mode == SPP_MODE_DPO || job->mode == SPP_MODE_PPO) &&
               job->loss == SPP_LOSS_CHOICE_FULL && job->loss_path_forced == SPP_UNSET;
  if (pairs && job->framework->loss_path_pairs != SPP_LOSS_HF_FULL)
    g.loss_path = (enum spp_loss_path)job->framework->loss_path_pairs;
  if (layout->fpdt_chunk > 0 && job->loss_path_forced == SPP_UNSET) g.loss_path = SPP_LOSS_FPDT;
  if (g.loss_path == SPP_LOSS_PAIRS_16BIT && !in_engine(job, layout)) g.loss_path = SPP_LOSS_PAIRS_AUTOCAST;
  *geometry = g;
}
