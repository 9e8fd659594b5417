/* Which experts a token visits, and where its row stands among those sent. Every expert is sent as many rows
 * whatever the data say: a prediction knows shapes.
 *
 * Balanced (no capacity): a token's experts are fixed by its position, so that each gets as many tokens from
 * each rank (NVIDIA/Megatron-LM --moe-router-force-load-balancing does the same by chance).
 *
 * With a capacity F: a token visits the k experts with the largest scores. Experts have room for F times an
 * even share of each group of tokens; who comes when it is full is passed by, and room left over is sent
 * empty (GShard, arXiv 2006.16668; Megatron-LM --moe-expert-capacity-factor,
 * --moe-pad-expert-input-to-capacity,
 * --moe-token-drop-policy position). With F = experts / k nothing is ever dropped. A group is a run of tokens
 * that one rank holds: the same in a run on one rank that is compared with it. */
#ifndef SPP_EXEC_EXPERT_CHOICE_H
#define SPP_EXEC_EXPERT_CHOICE_H

#include "exec/engine.h"
#include "kernels/router.h"
#include "model/activations.h"

struct spp_expert_choice {
  int32_t *experts, *rows; /* [stream tokens][k]; row -1: no room */
  int32_t *placed;         /* the experts, as operators read them */
  bool leaves_room;        /* some rows stay empty */
};
/* For the micro-batch at hand. Its blocks are workspace, not predicted. */
enum spp_status spp_expert_choice_open(struct spp_engine *e, int64_t layer, const float *probs,
                                       struct spp_expert_choice *choice);
void spp_expert_choice_close(struct spp_engine *e, struct spp_expert_choice *choice);

#endif
