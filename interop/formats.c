#include <string.h>

#include "interop/format.h"

const struct spp_format *const spp_formats[] = {
    /* the more particular one first: TRL's scripts run under accelerate, and under any launcher with a
       DeepSpeed file */
    &spp_format_ms_swift,   &spp_format_megatron_lm, &spp_format_megatron_swift, &spp_format_llama_factory,
    &spp_format_axolotl,    &spp_format_trl,         &spp_format_torchtitan,     &spp_format_verl,
    &spp_format_accelerate, &spp_format_deepspeed,
};
const int spp_format_count = (int)(sizeof spp_formats / sizeof spp_formats[0]);

const struct spp_format *spp_format_find(const char *name) {
  for (int i = 0; i < spp_format_count; i++)
    if (strcmp(spp_formats[i]->name, name) == 0) return spp_formats[i];
  return NULL;
}
const char *spp_format_name(int i) {
  return i < spp_format_count ? spp_formats[i]->name : NULL;
}
