/* What the eager Hugging Face layers of a family keep beyond their plain operators. Each row was found with
 * saved-tensor hooks on the layers of transformers 5.24 (tests/oracle, docs/memory.md), or carries over to
 * the families that share the code. */
#include <string.h>

#include "model/arch_read.h"

static const struct {
  const char *model_type;
  unsigned keeps;
} rows[] = {
    {"baichuan", SPP_KEEPS_QKV_WHOLE},
    {"chatglm", SPP_KEEPS_QKV_WHOLE | SPP_KEEPS_OUTPUT_COPY},
    {"cohere", SPP_KEEPS_NORM_FP32},
    {"cohere2", SPP_KEEPS_NORM_FP32},
    {"deepseek_v2", SPP_KEEPS_ROUTER_FP32},
    {"deepseek_v3", SPP_KEEPS_ROUTER_FP32},
    {"falcon", SPP_KEEPS_SOFTMAX_16 | SPP_KEEPS_KV_SPREAD | SPP_KEEPS_MASK},
    {"gemma", SPP_KEEPS_NORM_FP32},
    {"gemma2", SPP_KEEPS_NORM_FP32},
    {"gemma3", SPP_KEEPS_NORM_FP32},
    {"gemma3_text", SPP_KEEPS_NORM_FP32},
    {"glm", SPP_KEEPS_OUTPUT_COPY},
    {"glm4", SPP_KEEPS_OUTPUT_COPY},
    {"glm4_moe", SPP_KEEPS_OUTPUT_COPY | SPP_KEEPS_ROUTER_FP32},
    {"glm4_moe_lite", SPP_KEEPS_ROUTER_FP32},
    {"gpt2", SPP_KEEPS_GELU_STEPS | SPP_KEEPS_SOFTMAX_16},
    {"gpt_neox", SPP_KEEPS_QKV_WHOLE | SPP_KEEPS_OUTPUT_COPY},
    {"gpt_oss", SPP_KEEPS_NORM_FP32 | SPP_KEEPS_GLU_STEPS | SPP_KEEPS_SOFTMAX_16},
    {"gptj", SPP_KEEPS_OUTPUT_COPY | SPP_KEEPS_GELU_STEPS},
    {"internlm2", SPP_KEEPS_QKV_WHOLE},
    {"kimi_k2", SPP_KEEPS_ROUTER_FP32},
    {"olmo2", SPP_KEEPS_NORM_FP32},
    {"olmo3", SPP_KEEPS_NORM_FP32},
    {"phi", SPP_KEEPS_OUTPUT_COPY | SPP_KEEPS_GELU_STEPS},
    {"phi3", SPP_KEEPS_QKV_WHOLE | SPP_KEEPS_OUTPUT_COPY},
    {"qwen", SPP_KEEPS_QKV_WHOLE},
    {"stablelm", SPP_KEEPS_OUTPUT_COPY},
};

unsigned spp_arch_keeps(const char *model_type) {
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (strcmp(rows[i].model_type, model_type) == 0) return rows[i].keeps;
  return 0;
}
