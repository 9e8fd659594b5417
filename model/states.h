/* Weights, gradients, masters and optimizer states: bytes of single matrices, and what a layer or a stage
 * adds up to on one rank before ZeRO / FSDP sharding. */
#ifndef SPP_MODEL_STATES_H
#define SPP_MODEL_STATES_H

#include "model/geometry.h"

/* Bytes of n quantised elements of one weight of `rows` output features, scales included, fixed code tables
 * (a kilobyte per model) left out.
 * NF4, block 64: n/2 + 4 ceil(n/64); double quantisation keeps the scales in 8 bits, one fp32 per 256 of them
 * and one fp32 mean (bitsandbytes/functional.py quantize_4bit). GPTQ 4 bit, groups of 128: fp16 scale and
 * 4-bit zero per group and output, int32 group index per input (AutoGPTQ qlinear). Its 8-bit form has 8-bit
 * zeros. LLM.int8: one byte and one fp32 scale per output feature (bitsandbytes/functional.py
 * int8_vectorwise_quant). */
int64_t spp_quant_bytes(enum spp_quant quant, int64_t rows, int64_t cols);

/* bitsandbytes 8-bit Adam: 2n + 2*4*ceil(n/256), and plain fp32 moments below 4096 elements (min_8bit_size,
 * bitsandbytes/optim/optimizer.py). */
int64_t spp_adam8_bytes(int64_t elements);
/* Moments at rank q in the gradient's element size and one projector of the short side
 * (GaLore galore_torch/galore_projector.py, adamw.py): q (2 max + min) g. */
int64_t spp_galore_bytes(int64_t rows, int64_t cols, int64_t rank, int grad_bytes);
/* 4-bit projector, 8-bit moments on the projected shape [recalled: VITA-Group/Q-GaLore]. */
int64_t spp_qgalore_bytes(int64_t rows, int64_t cols, int64_t rank);
/* Optimizer state of one trainable matrix (cols 1: vector) under the job's optimizer and method.
 * moment_bytes: of the framework's regime, for AdamW. `hidden`: a matrix inside a layer (Muon, GaLore
 * targets). */
int64_t spp_optimizer_bytes(const struct spp_job *job, int moment_bytes, int64_t rows, int64_t cols,
                            bool hidden);

/* One layer, the embedding, ... on one rank, before sharding. "dense" parts are sharded over
 * geometry->shard_group, expert parts over expert_shard_group. Elements unless _bytes. */
struct spp_state_counts {
  int64_t trainable, trainable_expert;
  int64_t optimizer_bytes, optimizer_expert_bytes; /* moments only, no master */
  int64_t frozen_bytes, frozen_expert_bytes;       /* 16-bit or quantised weights without gradients */
  int64_t scale_bytes;                /* of quantised weights: sharded where they are part of a parameter */
  int64_t elements, expert_elements;  /* all, as a 16-bit model would hold them */
  int64_t linear;                     /* of them, matrices (8-bit GEMM copies, autocast copies) */
  int64_t largest_rows, largest_cols; /* of the largest matrix, where single matrices matter */
};
/* What the job's framework keeps at a ZeRO stage in the job's number format, without user overrides. */
struct spp_states spp_states_in_dtype(const struct spp_job *job, int zero);
/* `regime`: the states the job's framework keeps at the layout's ZeRO stage, after user overrides. */
struct spp_states spp_states_regime(const struct spp_job *job, const struct spp_layout *layout);
void spp_states_count_layer(const struct spp_job *job, const struct spp_layout *layout,
                            const struct spp_geometry *g, int kind, struct spp_state_counts *counts);
enum spp_outer { SPP_OUTER_EMBEDDING, SPP_OUTER_POSITION, SPP_OUTER_HEAD, SPP_OUTER_OTHER, SPP_OUTER_VISION };
void spp_states_count_outer(const struct spp_job *job, const struct spp_layout *layout,
                            const struct spp_geometry *g, enum spp_outer which,
                            struct spp_state_counts *counts);
/* total += times * part; the largest matrix is the larger of the two. */
void spp_states_accumulate(struct spp_state_counts *total, const struct spp_state_counts *part,
                           int64_t times);

#endif
