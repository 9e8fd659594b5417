/* Vision towers: their part of config.json and their weights. Module shapes: huggingface/transformers
 * modeling_qwen2_vl.py, modeling_qwen2_5_vl.py, modeling_qwen3_vl.py, modeling_llama4.py. */
#include "model/arch_read.h"

/* What the preprocessor_config.json of the published checkpoints sets (recalled); the class defaults of the
 * Qwen2-VL processor are 3,136 and 1,003,520. A file beside the user's config.json overrides them. */
static const struct {
  int64_t min_pixels, max_pixels;
} published[] = {
    [SPP_VISION_QWEN2] = {3136, 12845056},
    [SPP_VISION_QWEN2_5] = {3136, 12845056},
    [SPP_VISION_QWEN3] = {65536, 16777216},
    [SPP_VISION_LLAMA4] = {0, 0},
};

/* Limits of a tower's figures: generous, and small enough for every product of them to stay in int64. */
enum {
  MAX_DEPTH = 4096,
  MAX_WIDTH = 1 << 14,
  MAX_FFN = 1 << 18,
  MAX_SMALL = 64,
  MAX_PX = 1 << 14,
  MAX_ROWS = 1 << 20
};

/* The member under its name, or under the older one (may be NULL). */
static struct spp_json member(struct spp_json config, const char *name, const char *older) {
  struct spp_json v = spp_json_get(config, name), other = v;
  if (older) other = spp_json_get(config, older);
  return spp_json_kind(v) == SPP_JSON_ABSENT && spp_json_kind(other) != SPP_JSON_ABSENT ? other : v;
}

static int64_t required(struct spp_arch_reader *r, struct spp_json config, const char *name, int64_t max) {
  return spp_arch_require_i64(r, spp_json_get(config, name), 1, max);
}

static int64_t optional(struct spp_arch_reader *r, struct spp_json config, const char *name, int64_t max,
                        int64_t fallback) {
  return spp_arch_read_i64(r, spp_json_get(config, name), 1, max, fallback);
}

static void read_qwen_widths(struct spp_arch_reader *r, struct spp_json config, struct spp_vision *v) {
  int64_t out = r->arch->hidden;
  if (v->kind == SPP_VISION_QWEN2) { /* the first generation calls the language model's width hidden_size */
    v->hidden = required(r, config, "embed_dim", MAX_WIDTH);
    v->out_hidden = optional(r, config, "hidden_size", MAX_FFN, out);
    v->ffn = v->hidden * optional(r, config, "mlp_ratio", 16, 4);
  } else {
    v->hidden = required(r, config, "hidden_size", MAX_WIDTH);
    v->out_hidden = optional(r, config, "out_hidden_size", MAX_FFN, out);
    v->ffn = required(r, config, "intermediate_size", MAX_FFN);
  }
}

static void read_qwen(struct spp_arch_reader *r, struct spp_json config, struct spp_vision *v) {
  v->depth = required(r, config, "depth", MAX_DEPTH);
  v->heads = required(r, config, "num_heads", MAX_WIDTH);
  read_qwen_widths(r, config, v);
  v->channels = spp_arch_read_i64(r, member(config, "in_channels", "in_chans"), 1, MAX_SMALL, 3);
  v->patch = optional(r, config, "patch_size", 1024, v->kind == SPP_VISION_QWEN3 ? 16 : 14);
  v->temporal_patch = optional(r, config, "temporal_patch_size", MAX_SMALL, 2);
  v->merge = optional(r, config, "spatial_merge_size", 16, 2);
  if (v->kind == SPP_VISION_QWEN2_5) {
    v->window_px = optional(r, config, "window_size", MAX_PX, 112);
    v->full_attention_blocks = spp_json_size(spp_json_get(config, "fullatt_block_indexes"));
  }
  if (v->kind == SPP_VISION_QWEN3) {
    struct spp_json taps = spp_json_get(config, "deepstack_visual_indexes");
    v->position_rows = optional(r, config, "num_position_embeddings", MAX_ROWS, 2304);
    v->deepstack_mergers = spp_json_size(taps);
    if (v->deepstack_mergers > MAX_SMALL) spp_arch_refuse(r, taps, NULL, "more than 64 mergers");
  }
}

static void read_llama4(struct spp_arch_reader *r, struct spp_json config, struct spp_vision *v) {
  v->depth = required(r, config, "num_hidden_layers", MAX_DEPTH);
  v->hidden = required(r, config, "hidden_size", MAX_WIDTH);
  v->ffn = required(r, config, "intermediate_size", MAX_FFN);
  v->heads = required(r, config, "num_attention_heads", MAX_WIDTH);
  v->out_hidden = r->arch->hidden;
  v->channels = optional(r, config, "num_channels", MAX_SMALL, 3);
  v->patch = optional(r, config, "patch_size", 1024, 14);
  v->temporal_patch = 1;
  v->merge = 2; /* pixel_shuffle_ratio 0.5 */
  v->tile_px = optional(r, config, "image_size", MAX_PX, 336);
  if (v->tile_px < 2 * v->patch)
    spp_arch_refuse(r, spp_json_get(config, "patch_size"), NULL, "a tile holds no 2 x 2 patches");
  v->position_rows = (v->tile_px / v->patch) * (v->tile_px / v->patch) + 1;
  v->projector_in = optional(r, config, "projector_input_dim", MAX_FFN, 4096);
  v->projector_out = optional(r, config, "projector_output_dim", MAX_FFN, 4096);
}

void spp_arch_read_vision(struct spp_arch_reader *r) {
  struct spp_json config = spp_json_get(r->root, "vision_config");
  bool given = spp_json_kind(config) == SPP_JSON_OBJECT;
  if (spp_json_kind(spp_json_get(r->root, "audio_config")) == SPP_JSON_OBJECT)
    spp_arch_note(r->arch, "the audio tower of %.40s is not described and not counted", r->arch->model_type);
  if (r->family->vision == SPP_VISION_NONE) {
    if (given)
      spp_arch_note(r->arch, "the vision tower of %.40s is not described: language model only",
                    r->arch->model_type);
    return;
  }
  if (!given) {
    spp_arch_note(r->arch, "no vision_config: language model only");
    return;
  }
  struct spp_vision *v = &r->arch->vision;
  v->kind = r->family->vision;
  if (v->kind == SPP_VISION_LLAMA4)
    read_llama4(r, config, v);
  else
    read_qwen(r, config, v);
  v->min_pixels = published[v->kind].min_pixels;
  v->max_pixels = published[v->kind].max_pixels;
}

static void part(struct spp_arch *a, const char *name, int64_t out, int64_t in, int64_t copies) {
  struct spp_weight *w = spp_arch_add_outer(a, name, SPP_ROLE_VISION, SPP_SPLIT_NONE, out, in);
  w->copies = copies;
}

static void vectors(struct spp_arch *a, const char *name, int64_t elements, int64_t copies) {
  part(a, name, elements, 1, copies);
}

/* Attention and MLP of `depth` blocks; norm_vectors: weight (and bias) vectors of width hidden in one block.
 */
static void add_blocks(struct spp_arch *a, bool gated, int64_t norm_vectors) {
  const struct spp_vision *v = &a->vision;
  int64_t d = v->hidden;
  vectors(a, "vision.blocks.norms", norm_vectors * d, v->depth);
  part(a, "vision.blocks.qkv", 3 * d, d, v->depth);
  part(a, "vision.blocks.proj", d, d, v->depth);
  if (gated) part(a, "vision.blocks.gate", v->ffn, d, v->depth);
  part(a, "vision.blocks.fc1", v->ffn, d, v->depth);
  part(a, "vision.blocks.fc2", d, v->ffn, v->depth);
  vectors(a, "vision.blocks.biases", 3 * d + d + (gated ? 2 : 1) * v->ffn + d, v->depth);
}

/* Norm, then merge^2 patches through two linears. norm_elements: what the norm (and its bias) holds. */
static void add_merger(struct spp_arch *a, const char *const names[4], int64_t norm_elements,
                       int64_t copies) {
  const struct spp_vision *v = &a->vision;
  int64_t merged = v->hidden * v->merge * v->merge;
  vectors(a, names[0], norm_elements, copies);
  part(a, names[1], merged, merged, copies);
  part(a, names[2], v->out_hidden, merged, copies);
  vectors(a, names[3], merged + v->out_hidden, copies);
}

static void add_qwen(struct spp_arch *a) {
  static const char *const merger[4] = {"vision.merger.norm", "vision.merger.fc1", "vision.merger.fc2",
                                        "vision.merger.biases"};
  static const char *const deepstack[4] = {"vision.deepstack.norm", "vision.deepstack.fc1",
                                           "vision.deepstack.fc2", "vision.deepstack.biases"};
  const struct spp_vision *v = &a->vision;
  bool rms = v->kind == SPP_VISION_QWEN2_5, third = v->kind == SPP_VISION_QWEN3;
  int64_t d = v->hidden, merged = d * v->merge * v->merge;
  part(a, "vision.patch_embed", d, v->channels * v->temporal_patch * v->patch * v->patch, 1);
  if (third) {
    vectors(a, "vision.patch_embed.bias", d, 1);
    vectors(a, "vision.pos_embed", v->position_rows * d, 1);
  }
  add_blocks(a, rms, rms ? 2 : 4);
  add_merger(a, merger, rms ? d : 2 * d, 1);
  if (v->deepstack_mergers > 0) add_merger(a, deepstack, 2 * merged, v->deepstack_mergers);
}

static void add_llama4(struct spp_arch *a) {
  const struct spp_vision *v = &a->vision;
  int64_t d = v->hidden;
  vectors(a, "vision.class_and_positions", (1 + v->position_rows) * d, 1);
  part(a, "vision.patch_embed", d, v->channels * v->patch * v->patch, 1);
  vectors(a, "vision.norms", 4 * d, 1);
  add_blocks(a, false, 4);
  part(a, "vision.adapter.fc1", v->projector_in, v->ffn, 1);
  part(a, "vision.adapter.fc2", v->projector_out, v->projector_in, 1);
  part(a, "multi_modal_projector", v->out_hidden, v->projector_out, 1);
}

void spp_arch_vision_weights(struct spp_arch *a) {
  if (a->vision.kind == SPP_VISION_NONE) return;
  if (a->vision.kind == SPP_VISION_LLAMA4)
    add_llama4(a);
  else
    add_qwen(a);
}

enum spp_status spp_arch_language_model(const struct spp_arch *arch, struct spp_arena *arena,
                                        const struct spp_arch **text, struct spp_diag *diag) {
  *text = arch;
  if (arch->vision.kind == SPP_VISION_NONE) return SPP_OK;
  struct spp_arch *a = spp_arena_alloc(arena, sizeof *a);
  if (!a) return spp_diag_oom(diag);
  *a = *arch;
  a->vision = (struct spp_vision){.kind = SPP_VISION_NONE};
  a->outer_weight_count = 0;
  for (int i = 0; i < arch->outer_weight_count; i++)
    if (arch->outer_weights[i].role != SPP_ROLE_VISION)
      a->outer_weights[a->outer_weight_count++] = arch->outer_weights[i];
  *text = a;
  return SPP_OK;
}
