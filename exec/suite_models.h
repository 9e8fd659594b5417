/* config.json texts of small models, each with something that the others lack. */
#ifndef SPP_EXEC_SUITE_MODELS_H
#define SPP_EXEC_SUITE_MODELS_H

extern const char spp_suite_mha[], spp_suite_mqa[], spp_suite_four[], spp_suite_five[], spp_suite_tied[],
    spp_suite_odd[], spp_suite_narrow[], spp_suite_mixture[], spp_suite_top1[], spp_suite_mixtral[],
    spp_suite_shared[], spp_suite_sigmoids[], spp_suite_windows[], spp_suite_biases[], spp_suite_gpt2[],
    spp_suite_falcon[], spp_suite_neox[], spp_suite_cohere[], spp_suite_gemma[], spp_suite_behind[],
    spp_suite_bare[], spp_suite_alibi[], spp_suite_neighbours[], spp_suite_capped[], spp_suite_wide[],
    spp_suite_sinks[], spp_suite_latent[], spp_suite_latent_kv[], spp_suite_head_norms[];

#endif
