/* Settings by name: the fields of a job spec and a layout request that files, keep-lists and forms set from
 * text. */
#ifndef SPP_MODEL_SETTING_H
#define SPP_MODEL_SETTING_H

#include "model/layout.h"

/* Set `name` ("loss", "tp", "lora_rank", "recompute_modules", ...) from text ("fused", "8", "mlp+layernorm").
 * Words are those of the command line; sizes take their units. SPP_ERR_USAGE names the setting and the
 * nearest name or the choices. */
enum spp_status spp_setting_apply(const char *name, const char *text, struct spp_job_spec *spec,
                                  struct spp_request *request, struct spp_diag *diag);
int spp_setting_count(void);
const char *spp_setting_name(int index);

#endif
