/* What a layer computes beside its shapes: the activation, factors on the stream. Names and
 * defaults: the configuration_*.py and modeling_*.py of huggingface/transformers; scale factors of Granite
 * (modeling_granite.py), Cohere (modeling_cohere.py logit_scale), Gemma (embed_scale). */
#include <math.h>
#include <string.h>

#include "model/arch_read.h"

/* activations.py ACT2CLS of huggingface/transformers. */
static const struct {
  const char *name;
  enum spp_activation activation;
} functions[] = {
    {"silu", SPP_SILU},
    {"swish", SPP_SILU},
    {"gelu", SPP_GELU},
    {"gelu_python", SPP_GELU},
    {"gelu_new", SPP_GELU_TANH},
    {"gelu_fast", SPP_GELU_TANH},
    {"gelu_pytorch_tanh", SPP_GELU_TANH},
    {"relu", SPP_RELU},
    {"relu2", SPP_RELU2},
};

static struct spp_json first_of(struct spp_json object, const char *const *names, int count) {
  for (int i = 0; i < count; i++) {
    struct spp_json v = spp_json_get(object, names[i]);
    if (spp_json_kind(v) >= SPP_JSON_BOOL) return v;
  }
  return spp_json_get(object, names[0]);
}

static const char *usual_activation(const struct spp_arch_family *f) {
  if (f->activation) return f->activation;
  return f->mlp == SPP_MLP_GATED ? "silu" : "gelu";
}

/* hidden_activation, where Gemma has both, is the one its code reads. */
static void read_activation(struct spp_arch_reader *r) {
  static const char *const names[] = {"hidden_activation", "hidden_act", "activation_function", "activation"};
  struct spp_json v = first_of(r->text, names, sizeof names / sizeof names[0]);
  const char *name = "";
  if (spp_json_kind(v) == SPP_JSON_STRING && r->status == SPP_OK)
    r->status = spp_json_string(v, &name, r->diag);
  if (!name[0]) name = usual_activation(r->family);
  size_t count = sizeof functions / sizeof functions[0], i = 0;
  while (i < count && strcmp(functions[i].name, name) != 0)
    i++;
  if (i < count)
    r->arch->activation = functions[i].activation;
  else
    spp_arch_note(r->arch, "activation '%.40s' is not known: taken for silu", name);
}

static double read_real(struct spp_arch_reader *r, const char *key, double min, double fallback) {
  double value = fallback;
  struct spp_json v = spp_json_get(r->text, key);
  if (r->status == SPP_OK && spp_json_kind(v) != SPP_JSON_STRING)
    r->status = spp_json_real_or(v, min, 1e6, fallback, &value, r->diag);
  return value;
}

void spp_arch_read_block(struct spp_arch_reader *r) {
  struct spp_arch *a = r->arch;
  read_activation(r);
  a->norm_offset = r->family->norm_offset;
  a->logit_softcap = read_real(r, "final_logit_softcapping", 0, 0);
  a->attention_softcap = read_real(r, "attn_logit_softcapping", 0, 0);
  double usual = r->family->scaled_embedding ? sqrt((double)a->hidden) : 1;
  a->embedding_scale = read_real(r, "embedding_multiplier", 0, usual);
  a->residual_scale = read_real(r, "residual_multiplier", 0, 1);
  double divided = read_real(r, "logits_scaling", 1e-6, 1);
  a->logit_scale = read_real(r, "logit_scale", 0, 1) / divided;
}
