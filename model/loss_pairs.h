/* Losses of log-probabilities over whole logits: two answers compared, or rollouts weighed. */
#ifndef SPP_MODEL_LOSS_PAIRS_H
#define SPP_MODEL_LOSS_PAIRS_H

#include "model/loss.h"

bool spp_loss_is_pairs(enum spp_loss_path path);
/* Tensors of the largest of the loss's moments: its own backward, or the reference's forward before it.
 *
 * PAIRS_16BIT: huggingface/trl 0.23.0 trainer/utils.py selective_log_softmax, row by row in 16 bit. Kept:
 * each row's log-softmax; its backward stacks the rows' gradients, so that two matrices are there in either
 * pass. PAIRS_AUTOCAST: the same function takes fp32 logits, which exponentials row by row save, and their
 * rows' gradients. PAIRS_FP32: fp32 logits that the training loop holds, their log-softmax whole; in backward
 * the halves' gradients are padded to the whole and summed (torch SliceBackward): two matrices and a half's
 * log-softmax and gradient (hpcaitech/ColossalAI applications/ColossalChat/coati/trainer/dpo.py,
 * models/utils.py _log_probs_from_logits [recalled]; hiyouga/LLaMA-Factory train/trainer_utils.py
 * get_batch_logps). The reference runs behind the policy's forward: what backward needs of that is there, its
 * own logits, in fp32 where its code casts them, those of the last step where the loop holds them, and the
 * cache of its keys and values where the model is left to make one (transformers: config.use_cache, outside
 * training). */
void spp_loss_pairs_add(const struct spp_loss_view *view, struct spp_memory_sum *sum);

#endif
