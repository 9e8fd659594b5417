/* Rotary positions (Su et al., arXiv 2104.09864), as a config.json gives them. */
#include "model/arch_read.h"

/* transformers before 5 write rope_theta (GPT-NeoX and Qwen: rotary_emb_base) beside the other members, later
 * ones in rope_parameters (modeling_rope_utils.py RopeParameters); llm-foundry in attn_config. */
void spp_arch_read_rope(struct spp_arch_reader *r) {
  static const char *const names[] = {"rotary_emb_base", "rope_theta"}, *const inside[] = {"rope_parameters",
                                                                                           "attn_config"};
  double theta = 10000.0;
  for (int i = 0; i < 4 && r->status == SPP_OK; i++) {
    struct spp_json v = i < 2 ? spp_json_get(r->text, names[i])
                              : spp_json_get(spp_json_get(r->text, inside[i - 2]), "rope_theta");
    r->status = spp_json_real_or(v, 1, 1e15, theta, &theta, r->diag);
  }
  r->arch->rope_theta = theta;
}
