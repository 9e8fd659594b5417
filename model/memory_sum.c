#include "base/num.h"
#include "model/memory.h"

static const struct {
  const char *name, *label;
} parts[SPP_PART_COUNT] = {
    [SPP_PART_WEIGHTS] = {"weights", "weights"},
    [SPP_PART_GRADIENTS] = {"gradients", "gradients"},
    [SPP_PART_MASTER] = {"master", "fp32 master"},
    [SPP_PART_OPTIMIZER] = {"optimizer", "optimizer"},
    [SPP_PART_ACTIVATIONS] = {"activations", "activations"},
    [SPP_PART_LAYER_INPUTS] = {"layer_inputs", "layer inputs"},
    [SPP_PART_TRANSIENT] = {"transient", "transient"},
    [SPP_PART_LOGITS] = {"logits", "logits and loss"},
    [SPP_PART_KV_CACHE] = {"kv_cache", "KV cache"},
    [SPP_PART_SHARDING_BUFFERS] = {"sharding_buffers", "sharding buffers"},
    [SPP_PART_VISION] = {"vision", "vision tower"},
    [SPP_PART_NCCL] = {"nccl", "NCCL"},
    [SPP_PART_CONTEXT] = {"context", "CUDA context"},
    [SPP_PART_ALLOCATOR] = {"allocator", "allocator"},
};

const char *spp_part_name(enum spp_part part) {
  return parts[part].name;
}
const char *spp_part_label(enum spp_part part) {
  return parts[part].label;
}

const char *spp_part_words(const struct spp_job *job, enum spp_part part) {
  return job->mode == SPP_MODE_INFER && part == SPP_PART_LOGITS ? "logits and sampling" : parts[part].label;
}

enum spp_phase spp_moment_phase(enum spp_moment moment) {
  switch (moment) {
  case SPP_MOMENT_LOAD: return SPP_PHASE_LOAD;
  case SPP_MOMENT_FORWARD:
  case SPP_MOMENT_BACKWARD_HEAD:
  case SPP_MOMENT_LOSS: return SPP_PHASE_LOSS;
  case SPP_MOMENT_STEP: return SPP_PHASE_STEP;
  default: return SPP_PHASE_BACKWARD;
  }
}

const char *spp_phase_name(enum spp_phase phase) {
  static const char *const names[SPP_PHASE_COUNT] = {"load", "loss", "backward", "step"};
  return names[phase];
}

const char *spp_phase_words(const struct spp_job *job, enum spp_phase phase) {
  static const char *const serving[SPP_PHASE_COUNT] = {"load", "prompt", NULL, "last token"};
  return job->mode == SPP_MODE_INFER ? serving[phase] : spp_phase_name(phase);
}

static const char *const moment_names[SPP_MOMENT_COUNT] = {
    [SPP_MOMENT_LOAD] = "load",
    [SPP_MOMENT_FORWARD] = "forward",
    [SPP_MOMENT_LOSS] = "loss",
    [SPP_MOMENT_BACKWARD_HEAD] = "backward of the head",
    [SPP_MOMENT_BACKWARD_MLP] = "backward of the MLP",
    [SPP_MOMENT_BACKWARD_NORM] = "backward of a norm",
    [SPP_MOMENT_BACKWARD_ATTENTION] = "backward of attention",
    [SPP_MOMENT_BACKWARD_VISION] = "backward of the vision tower",
    [SPP_MOMENT_STEP] = "optimizer step",
};
const char *spp_moment_name(enum spp_moment moment) {
  return moment_names[moment];
}

/* Entries of equal tensor, shape and life are one line: layers of several kinds share their tensors. */
static void note(struct spp_ledger *ledger, const struct spp_ledger_entry *entry) {
  for (int i = ledger->count - 1; i >= 0; i--) {
    struct spp_ledger_entry *old = &ledger->entries[i];
    if (old->tensor != entry->tensor || old->live != entry->live || old->stage != entry->stage ||
        old->dtype != entry->dtype || old->rows != entry->rows || old->cols != entry->cols)
      continue;
    old->copies = spp_sat_add(old->copies, entry->copies);
    old->bytes = spp_sat_add(old->bytes, entry->bytes);
    return;
  }
  if (ledger->count == SPP_LEDGER_MAX) {
    ledger->overflow = true;
    return;
  }
  ledger->entries[ledger->count++] = *entry;
}

/* 36 PB: 255 of them do not overflow. A larger tensor makes every total INT64_MAX. */
static const int64_t absurd_bytes = INT64_C(1) << 55;

/* All ones where the bit of a moment is set, four moments at once. */
#define BIT(bits, m) (-(int64_t)((bits) >> (m)&1))
#define FOUR(bits)                                                                                           \
  { BIT(bits, 0), BIT(bits, 1), BIT(bits, 2), BIT(bits, 3) }
static const int64_t alive_in[16][4] = {FOUR(0),  FOUR(1),  FOUR(2),  FOUR(3), FOUR(4),  FOUR(5),
                                        FOUR(6),  FOUR(7),  FOUR(8),  FOUR(9), FOUR(10), FOUR(11),
                                        FOUR(12), FOUR(13), FOUR(14), FOUR(15)};

static inline void account_four(int64_t *restrict alive, unsigned live, int64_t bytes) {
  const int64_t *restrict mask = alive_in[live & 15u];
  for (int m = 0; m < 4; m++)
    alive[m] += bytes & mask[m];
}

/* Without branches, so that it runs in vector registers: this is the search's innermost loop. */
static inline void account(struct spp_memory_sum *sum, enum spp_part part, unsigned live, int64_t bytes) {
  int64_t *alive = sum->moment[part];
  if (bytes > absurd_bytes) {
    bytes = absurd_bytes;
    sum->absurd = true;
  }
  if (live == SPP_LIVE_ALWAYS) {
    sum->always[part] += bytes;
    sum->always_total += bytes;
    return;
  }
  int m = 0;
  for (; m + 4 <= SPP_MOMENT_COUNT; m += 4)
    account_four(alive + m, live >> m, bytes);
  for (; m < SPP_MOMENT_COUNT; m++)
    alive[m] += bytes & BIT(live, m);
}

void spp_memory_add(struct spp_memory_sum *sum, const struct spp_tensor *tensor, unsigned live,
                    enum spp_dtype dtype, int64_t rows, int64_t cols, int64_t copies) {
  int64_t bytes = spp_sat_mul(spp_sat_mul(spp_sat_mul(rows, cols), copies), spp_dtype_bytes(dtype));
  if (bytes == 0 || live == 0) return;
  account(sum, tensor->part, live, bytes);
  if (sum->ledger)
    note(sum->ledger, &(struct spp_ledger_entry){tensor, dtype, rows, cols, copies, bytes, live, sum->stage});
}

void spp_memory_add_bytes(struct spp_memory_sum *sum, const struct spp_tensor *tensor, unsigned live,
                          int64_t bytes) {
  if (bytes == 0 || live == 0) return;
  account(sum, tensor->part, live, bytes);
  if (sum->ledger)
    note(sum->ledger,
         &(struct spp_ledger_entry){tensor, SPP_DTYPE_INT8, bytes, 1, 1, bytes, live, sum->stage});
}

void spp_memory_add_free(struct spp_memory_sum *sum, const struct spp_tensor *tensor, unsigned live,
                         int64_t bytes) {
  spp_memory_add_bytes(sum, tensor, live, bytes);
  for (int m = 0; m < SPP_MOMENT_COUNT; m++)
    if (live >> m & 1) sum->pass_free[m] = spp_sat_add(sum->pass_free[m], bytes);
}

void spp_memory_moments(const struct spp_memory_sum *sum, int64_t moments[SPP_MOMENT_COUNT]) {
  for (int m = 0; m < SPP_MOMENT_COUNT; m++)
    moments[m] = sum->always_total;
  for (int part = 0; part < SPP_PART_COUNT; part++)
    for (int m = 0; m < SPP_MOMENT_COUNT; m++)
      moments[m] += sum->moment[part][m];
}
