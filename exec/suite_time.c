/* Steps long enough to be timed: some ten milliseconds and more. None of these shapes is a point that
 * calibrate measures. */
#include "exec/suite.h"

#include <stddef.h>
#include <stdio.h>

#include "exec/suite_layouts.h"

#define DECODER(hidden, ffn, layers, heads, kv, width, vocab)                                                \
  "{\"model_type\":\"qwen2\",\"hidden_size\":" #hidden ",\"intermediate_size\":" #ffn                        \
  ",\"num_hidden_layers\":" #layers ",\"num_attention_heads\":" #heads ",\"num_key_value_heads\":" #kv       \
  ",\"head_dim\":" #width ",\"vocab_size\":" #vocab ",\"tie_word_embeddings\":false}"
static const char narrow[] = DECODER(192, 544, 4, 8, 4, 24, 1000);
static const char medium[] = DECODER(320, 896, 4, 8, 4, 40, 1500);
static const char wide[] = DECODER(640, 1600, 2, 8, 8, 80, 2000);
static const char long_heads[] = DECODER(448, 800, 2, 4, 2, 112, 600);

/* Steps shorter than some 50 ms: more of them, or the host's clock (exec/validate_time.c) cannot tell whether
 * the machine was quiet. */
enum { MANY = 14 };

static const struct {
  const char *name, *model;
  struct spp_layout layout;
  int64_t seq_tokens;
  int64_t steps; /* 0: the usual number */
} rows[] = {
    {"narrow, 160", narrow, LAYOUT(.micro_batch = 2), 160, MANY},
    {"narrow, 320", narrow, LAYOUT(.grad_accum = 2), 320, MANY},
    {"narrow, 640", narrow, LAYOUT(.micro_batch = 1), 640, MANY},
    {"narrow, 1280", narrow, LAYOUT(.micro_batch = 1), 1280, 0},
    {"medium, 160", medium, LAYOUT(.grad_accum = 2), 160, MANY},
    {"medium, 320", medium, LAYOUT(.micro_batch = 2), 320, 0},
    {"medium, 640", medium, LAYOUT(.micro_batch = 1), 640, 0},
    {"medium, 1280", medium, LAYOUT(.micro_batch = 1), 1280, 0},
    {"medium, 640, recompute", medium, LAYOUT(RECOMPUTE), 640, 0},
    {"wide, 160", wide, LAYOUT(.grad_accum = 2), 160, 0},
    {"wide, 320", wide, LAYOUT(.micro_batch = 1), 320, 0},
    {"wide, 640", wide, LAYOUT(.micro_batch = 1), 640, 0},
    {"wide, 320, recompute", wide, LAYOUT(.micro_batch = 2, RECOMPUTE), 320, 0},
    {"long heads, 320", long_heads, LAYOUT(.micro_batch = 2), 320, MANY},
    {"long heads, 640", long_heads, LAYOUT(.micro_batch = 1), 640, 0},
    {"long heads, 1280", long_heads, LAYOUT(.micro_batch = 1), 1280, 0},
    {"narrow, DP 2", narrow, LAYOUT(.dp = 2), 320, MANY},
    {"medium, DP 2", medium, LAYOUT(.dp = 2), 320, MANY},
    {"medium, DP 2, ZeRO-1", medium, LAYOUT(.dp = 2, .zero = 1), 640, 0},
    {"wide, DP 2, ZeRO-2", wide, LAYOUT(.dp = 2, .zero = 2), 320, 0},
    {"medium, DP 2, ZeRO-3", medium, LAYOUT(.dp = 2, .zero = 3), 640, 0},
    {"wide, DP 2, ZeRO-3, recompute", wide, LAYOUT(.dp = 2, .zero = 3, RECOMPUTE), 320, 0},
    {"narrow, Ulysses 2", narrow, LAYOUT(ULYSSES(2)), 1280, MANY},
    {"medium, Ulysses 2", medium, LAYOUT(ULYSSES(2)), 640, MANY},
    {"wide, Ulysses 2", wide, LAYOUT(ULYSSES(2)), 640, 0},
    {"long heads, Ulysses 2", long_heads, LAYOUT(ULYSSES(2)), 1280, 0},
    {"narrow, ring 2", narrow, LAYOUT(RING(2)), 1280, MANY},
    {"medium, ring 2", medium, LAYOUT(RING(2)), 640, MANY},
    {"wide, ring 2", wide, LAYOUT(RING(2)), 640, 0},
    {"long heads, ring 2", long_heads, LAYOUT(RING(2)), 1280, 0},
    {"medium, all-gather 2", medium, LAYOUT(GATHER(2)), 1280, 0},
    {"wide, all-gather 2", wide, LAYOUT(GATHER(2)), 640, 0},
    {"medium, TP 2", medium, LAYOUT(.tp = 2), 320, MANY},
    {"wide, TP 2", wide, LAYOUT(.tp = 2), 640, 0},
    {"medium, TP 2 + SP", medium, LAYOUT(.tp = 2, .megatron_sp = true), 640, MANY},
    {"medium, PP 2", medium, LAYOUT(.pp = 2, .grad_accum = 4), 320, 0},
    {"wide, PP 2", wide, LAYOUT(.pp = 2, .grad_accum = 4), 320, 0},
    {"medium, PP 2 interleaved", medium, LAYOUT(.pp = 2, INTERLEAVED(2), .grad_accum = 4), 320, 0},
    {"medium, Ulysses 4", medium, LAYOUT(ULYSSES(4)), 640, MANY},
    {"medium, ring 4", medium, LAYOUT(RING(4)), 1280, 0},
    {"medium, Ulysses 2 x ring 2", medium, LAYOUT(HYBRID(2, 2)), 640, MANY},
    {"medium, DP 4, ZeRO-3", medium, LAYOUT(.dp = 4, .zero = 3), 320, 0},
    {"medium, TP 2 x DP 2", medium, LAYOUT(.tp = 2, .dp = 2), 320, MANY},
    {"wide, TP 4", wide, LAYOUT(.tp = 4), 640, 0},
    {"medium, PP 4", medium, LAYOUT(.pp = 4, .grad_accum = 6), 320, 0},
};

bool spp_suite_time_get(int i, struct spp_suite_case *c) {
  if (i < 0 || (size_t)i >= sizeof rows / sizeof rows[0]) return false;
  *c = (struct spp_suite_case){.model = rows[i].model,
                               .layout = rows[i].layout,
                               .seq_tokens = rows[i].seq_tokens,
                               .steps = rows[i].steps};
  snprintf(c->name, sizeof c->name, "%s", rows[i].name);
  return true;
}
