/* The words of the settings. Those of an enum come from the function that names it, so a new enum value needs
 * nothing here. */
#include <string.h>

#include "model/setting.h"
#include "model/words.h"

#define WORDS_OF(function, type, name_of, count)                                                             \
  const char *function(int i, int *value) {                                                                  \
    *value = i;                                                                                              \
    return i < (int)(count) ? name_of((enum type)i) : NULL;                                                  \
  }
WORDS_OF(spp_method_word, spp_method, spp_method_name, SPP_METHOD_COUNT)
WORDS_OF(spp_optimizer_word, spp_optimizer, spp_optimizer_name, SPP_OPTIMIZER_COUNT)
WORDS_OF(spp_mode_word, spp_mode, spp_mode_name, SPP_MODE_COUNT)
WORDS_OF(spp_attention_word, spp_attention_impl, spp_attention_impl_name, SPP_ATTN_IMPL_COUNT)
WORDS_OF(spp_sp_kind_word, spp_sp_kind, spp_sp_kind_name, SPP_SP_KIND_COUNT)
WORDS_OF(spp_ring_impl_word, spp_ring_impl, spp_ring_impl_name, SPP_RING_IMPL_COUNT)
WORDS_OF(spp_ring_order_word, spp_ring_order, spp_ring_order_name, SPP_RING_ORDER_COUNT)
WORDS_OF(spp_recompute_word, spp_recompute, spp_recompute_name, SPP_RECOMPUTE_COUNT)
WORDS_OF(spp_offload_word, spp_offload, spp_offload_name, SPP_OFFLOAD_COUNT)
WORDS_OF(spp_schedule_word, spp_schedule, spp_schedule_name, SPP_SCHEDULE_COUNT)
WORDS_OF(spp_kernels_word, spp_kernel_style, spp_kernels_name, SPP_KERNELS_FUSED + 1)
WORDS_OF(spp_quant_word, spp_quant, spp_quant_name, SPP_QUANT_COUNT)

/* --loss takes what the user wants done with the logits, or the exact path a framework implements. A word
 * that is both means the first. */
static bool is_loss_choice(const char *word) {
  for (int i = 0; i < SPP_LOSS_CHOICE_COUNT; i++)
    if (strcmp(word, spp_loss_choice_name((enum spp_loss_choice)i)) == 0) return true;
  return false;
}
const char *spp_loss_word(int i, int *value) {
  *value = i;
  if (i < SPP_LOSS_CHOICE_COUNT) return spp_loss_choice_name((enum spp_loss_choice)i);
  i -= SPP_LOSS_CHOICE_COUNT;
  for (int path = 0; path < SPP_LOSS_PATH_COUNT; path++) {
    const char *word = spp_loss_path_name((enum spp_loss_path)path);
    if (is_loss_choice(word) || i-- > 0) continue;
    *value = SPP_LOSS_CHOICE_COUNT + path;
    return word;
  }
  return NULL;
}

const char *spp_recompute_module_word(int i, int *value) {
  const char *name = i < 7 ? spp_recompute_module_name(i) : NULL;
  *value = 1 << i;
  return name;
}

const char *spp_allocator_word(int i, int *value) {
  *value = i;
  return i < SPP_ALLOCATOR_COUNT ? spp_words_name(SPP_WORDS_ALLOCATOR, i) : NULL;
}
const char *spp_graph_word(int i, int *value) {
  *value = 1 << i;
  return i < SPP_GRAPH_COUNT ? spp_words_name(SPP_WORDS_GRAPH, i) : NULL;
}

struct word {
  const char *name;
  int value;
};
#define WORDS_IN(function, table)                                                                            \
  const char *function(int i, int *value) {                                                                  \
    if (i >= (int)(sizeof(table) / sizeof((table)[0]))) return NULL;                                         \
    *value = (table)[i].value;                                                                               \
    return (table)[i].name;                                                                                  \
  }
static const struct word dtypes[] = {{"bf16", SPP_DTYPE_BF16},
                                     {"fp16", SPP_DTYPE_FP16},
                                     {"fp32", SPP_DTYPE_FP32},
                                     {"fp8", SPP_DTYPE_FP8},
                                     {"nvfp4", SPP_DTYPE_NVFP4}};
WORDS_IN(spp_dtype_word, dtypes)
static const struct word kv_dtypes[] = {
    {"bf16", SPP_DTYPE_BF16}, {"fp16", SPP_DTYPE_FP16}, {"fp8", SPP_DTYPE_FP8}, {"int8", SPP_DTYPE_INT8}};
WORDS_IN(spp_kv_dtype_word, kv_dtypes)
static const struct word grads_dtypes[] = {{"bf16", 2}, {"fp16", 2}, {"fp32", 4}}; /* bytes */
WORDS_IN(spp_grads_dtype_word, grads_dtypes)
static const struct word lora_targets[] = {{"all", -1}, /* every bit: SPP_LORA_ALL_LINEAR */
                                           {"q", SPP_LORA_Q},
                                           {"k", SPP_LORA_K},
                                           {"v", SPP_LORA_V},
                                           {"o", SPP_LORA_O},
                                           {"gate", SPP_LORA_GATE},
                                           {"up", SPP_LORA_UP},
                                           {"down", SPP_LORA_DOWN},
                                           {"all-linear", -1}};
WORDS_IN(spp_lora_target_word, lora_targets)
