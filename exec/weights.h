/* The weights of one pipeline stage on one rank: which they are, which part of each is held here, where it
 * lies. */
#ifndef SPP_EXEC_WEIGHTS_H
#define SPP_EXEC_WEIGHTS_H

#include <stdbool.h>

#include "exec/plan.h"

/* What the engine asks a weight for; rows of a decoder layer, then those outside. */
enum spp_slot {
  SPP_SLOT_NORM1, /* in the order of the model's list; exec/layer_shape.h says where each stands */
  SPP_SLOT_NORM2,
  SPP_SLOT_NORM3,
  SPP_SLOT_NORM4,
  SPP_SLOT_NORM1_BIAS,
  SPP_SLOT_NORM2_BIAS,
  SPP_SLOT_NORM3_BIAS,
  SPP_SLOT_NORM4_BIAS,
  SPP_SLOT_Q,
  SPP_SLOT_K,
  SPP_SLOT_V,
  SPP_SLOT_Q_BIAS,
  SPP_SLOT_K_BIAS,
  SPP_SLOT_V_BIAS,
  SPP_SLOT_Q_NORM,
  SPP_SLOT_K_NORM,
  SPP_SLOT_SINKS,
  SPP_SLOT_Q_A,
  SPP_SLOT_Q_A_BIAS,
  SPP_SLOT_Q_A_NORM,
  SPP_SLOT_Q_B,
  SPP_SLOT_KV_A,
  SPP_SLOT_KV_A_BIAS,
  SPP_SLOT_KV_A_NORM,
  SPP_SLOT_KV_B,
  SPP_SLOT_O,
  SPP_SLOT_GATE,
  SPP_SLOT_UP,
  SPP_SLOT_DOWN,
  SPP_SLOT_EMBEDDING,
  SPP_SLOT_POSITIONS,
  SPP_SLOT_FINAL_NORM,
  SPP_SLOT_FINAL_NORM_BIAS,
  SPP_SLOT_HEAD,
  SPP_SLOT_HEAD_BIAS,
  SPP_SLOT_O_BIAS,
  SPP_SLOT_GATE_BIAS,
  SPP_SLOT_UP_BIAS,
  SPP_SLOT_DOWN_BIAS,
  SPP_SLOT_ROUTER,
  SPP_SLOT_ROUTER_BIAS,
  SPP_SLOT_SHARED_GATE,
  SPP_SLOT_SHARED_UP,
  SPP_SLOT_SHARED_DOWN,
  SPP_SLOT_SHARED_SWITCH, /* of the shared expert's output: one logit a token */
  SPP_SLOT_EXPERT_GATE,   /* from here on: of experts, which other ranks share than the rest */
  SPP_SLOT_EXPERT_UP,
  SPP_SLOT_EXPERT_DOWN,
  SPP_SLOT_EXPERT_GATE_BIAS,
  SPP_SLOT_EXPERT_UP_BIAS,
  SPP_SLOT_EXPERT_DOWN_BIAS,
  SPP_SLOT_COUNT
};
/* What makes the latents of latent attention: whole on every tensor-parallel rank, of its part of the stream.
 */
static inline bool spp_slot_makes_latents(int slot) {
  return slot >= SPP_SLOT_Q_A && slot <= SPP_SLOT_KV_A_NORM && slot != SPP_SLOT_Q_B;
}
static inline bool spp_slot_is_expert(int slot) {
  return slot >= SPP_SLOT_EXPERT_GATE;
}
/* Of a norm; SPP_SLOT_COUNT: its family has none. */
static inline enum spp_slot spp_slot_norm_bias(enum spp_slot norm) {
  if (norm >= SPP_SLOT_NORM1 && norm <= SPP_SLOT_NORM4)
    return (enum spp_slot)(norm - SPP_SLOT_NORM1 + SPP_SLOT_NORM1_BIAS);
  return norm == SPP_SLOT_FINAL_NORM ? SPP_SLOT_FINAL_NORM_BIAS : SPP_SLOT_COUNT;
}
/* Norms of the residual stream and their biases. */
static inline bool spp_slot_is_stream_norm(int slot) {
  return (slot >= SPP_SLOT_NORM1 && slot <= SPP_SLOT_NORM4_BIAS) || slot == SPP_SLOT_FINAL_NORM ||
         slot == SPP_SLOT_FINAL_NORM_BIAS;
}

/* The local part, [rows][cols], of a weight; the matrices of several experts follow each other. Where the
 * model joins several in one matrix (q, k and v; gate and up), each of them is a part of its own. */
struct spp_held {
  const struct spp_weight *weight;          /* NULL: the model has none */
  int64_t offset;                           /* floats from the start of the unit's dense or expert part */
  int64_t rows, cols;                       /* of all copies held */
  int64_t copy_rows;                        /* rows of one copy held */
  int64_t first_copy, first_row, first_col; /* in the whole weight, first_row in a copy */
  int64_t there;  /* of copy_rows, those that the weight has: a vocabulary is padded to what TP divides */
  int64_t number; /* of the whole weight's first element, counted through the model */
};

/* Weights that are gathered and reduced together: the embedding, a table of positions, a layer, final norm
 * and head, or a tied embedding's copy on another stage. */
struct spp_unit {
  int64_t floats, offset;               /* offset: from the start of the stage */
  int64_t expert_floats, expert_offset; /* its experts; those of all units follow the dense parts */
  int64_t segment;                      /* the first of its own (exec/states.c) */
  const struct spp_layer_kind *kind;    /* NULL outside the layers */
  int64_t layer;                        /* in the model */
  struct spp_held held[SPP_SLOT_COUNT];
};

struct spp_stage_weights {
  int64_t unit_count;
  int64_t floats, dense_floats; /* all, and without experts */
  struct spp_unit *units;       /* in the order of the forward pass, chunk after chunk */
  int64_t layer_count;
  int64_t first_layer_unit; /* behind the embedding and a table of positions, when they are here */
  int64_t position_unit;    /* -1: none */
  int64_t tail_unit;        /* final norm and an untied head */
  int64_t head_unit; /* what makes the logits: the tail, the embedding, or a copy of that behind the tail */
};

/* Architectures whose layers the engine does not have: SPP_ERR_ABSENT, naming what is missing. */
enum spp_status spp_weights_supported(const struct spp_arch *arch, struct spp_diag *diag);

/* Which rank of its groups a rank is, as far as its weights depend on it. */
struct spp_weights_rank {
  int64_t stage, tp, ep;
};
/* Units of the stage. They live in `arena`. */
enum spp_status spp_weights_place(const struct spp_exec_plan *plan, const struct spp_weights_rank *rank,
                                  struct spp_arena *arena, struct spp_stage_weights *weights,
                                  struct spp_diag *diag);

/* Elements of a weight, all its copies, and of the whole model. */
static inline int64_t spp_weight_total(const struct spp_weight *weight) {
  return weight->rows * weight->cols * weight->copies;
}
int64_t spp_weights_total(const struct spp_arch *arch);
/* Number of the first element of a layer; of what follows the last one, for layer = arch->layers. */
int64_t spp_weights_layer_first(const struct spp_arch *arch, int64_t layer);

/* Number, through the model, of element i of what is held. */
static inline int64_t spp_held_number(const struct spp_held *h, int64_t i) {
  int64_t row = i / h->cols, copy = h->first_copy + row / h->copy_rows;
  int64_t in_whole = copy * h->weight->rows + h->first_row + row % h->copy_rows;
  return h->number + in_whole * h->weight->cols + h->first_col + i % h->cols;
}

/* First value of the element with this number: the same however the model is cut. */
float spp_weight_initial(const struct spp_arch *arch, const struct spp_weight *weight, int64_t number);

#endif
