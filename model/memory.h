/* Memory of one GPU, tensor by tensor. Everything is emitted through spp_memory_add(): the totals, the parts
 * and, when a ledger is attached, the list that --explain, alloc and the execution comparison read. One code
 * path feeds both. Formulas and sources: docs/memory.md. */
#ifndef SPP_MODEL_MEMORY_H
#define SPP_MODEL_MEMORY_H

#include "model/geometry.h"

enum spp_part {
  SPP_PART_WEIGHTS,
  SPP_PART_GRADIENTS,
  SPP_PART_MASTER,
  SPP_PART_OPTIMIZER,
  SPP_PART_ACTIVATIONS,  /* kept for backward inside layers */
  SPP_PART_LAYER_INPUTS, /* checkpoints: what full recompute keeps */
  SPP_PART_TRANSIENT,
  SPP_PART_LOGITS,
  SPP_PART_KV_CACHE,
  SPP_PART_SHARDING_BUFFERS,
  SPP_PART_VISION,
  SPP_PART_NCCL,
  SPP_PART_CONTEXT,
  SPP_PART_ALLOCATOR, /* rows of this part: blocks that are free but cannot serve what is asked then */
  SPP_PART_COUNT
};
const char *spp_part_name(enum spp_part part);  /* "layer_inputs" */
const char *spp_part_label(enum spp_part part); /* "layer inputs" */
/* The same, of a job that may have no loss. */
const char *spp_part_words(const struct spp_job *job, enum spp_part part);

/* Candidate moments of the peak. A tensor lives in a set of them. */
enum spp_moment {
  SPP_MOMENT_LOAD,
  SPP_MOMENT_FORWARD, /* last layer's forward, everything kept so far alive */
  SPP_MOMENT_LOSS,    /* logits forward and the loss's own backward */
  SPP_MOMENT_BACKWARD_HEAD,
  SPP_MOMENT_BACKWARD_MLP,
  SPP_MOMENT_BACKWARD_NORM,
  SPP_MOMENT_BACKWARD_ATTENTION,
  SPP_MOMENT_BACKWARD_VISION,
  SPP_MOMENT_STEP,
  SPP_MOMENT_COUNT
};
const char *spp_moment_name(enum spp_moment moment); /* "backward of attention" */
enum spp_phase { SPP_PHASE_LOAD, SPP_PHASE_LOSS, SPP_PHASE_BACKWARD, SPP_PHASE_STEP, SPP_PHASE_COUNT };
enum spp_phase spp_moment_phase(enum spp_moment moment);
const char *spp_phase_name(enum spp_phase phase);
/* As a person says it: serving has a prompt and a last token. NULL: the job has no such phase. */
const char *spp_phase_words(const struct spp_job *job, enum spp_phase phase);
#define SPP_LIVE(moment) (1u << (moment))
#define SPP_LIVE_ALWAYS  ((1u << SPP_MOMENT_COUNT) - 1u)
/* From the loss until the head's backward has made the gradient of the hidden states. */
#define SPP_LIVE_LOSS (SPP_LIVE(SPP_MOMENT_LOSS) | SPP_LIVE(SPP_MOMENT_BACKWARD_HEAD))
#define SPP_LIVE_BACKWARD                                                                                    \
  (SPP_LIVE(SPP_MOMENT_BACKWARD_MLP) | SPP_LIVE(SPP_MOMENT_BACKWARD_NORM) |                                  \
   SPP_LIVE(SPP_MOMENT_BACKWARD_ATTENTION) | SPP_LIVE(SPP_MOMENT_BACKWARD_VISION))

/* What a tensor is: one static row per tensor of the model. */
struct spp_tensor {
  const char *name; /* "attention output" */
  enum spp_part part;
  const char *why; /* "saved by flash attention and o_proj" */
};
struct spp_ledger_entry {
  const struct spp_tensor *tensor;
  enum spp_dtype dtype;
  int64_t rows, cols, copies; /* shape of one, and how many are alive at once */
  int64_t bytes;              /* all copies */
  unsigned live;              /* SPP_LIVE bits */
  int64_t stage;              /* pipeline stage */
};
enum { SPP_LEDGER_MAX = 512 };
struct spp_ledger {
  int count;
  bool overflow;
  struct spp_ledger_entry entries[SPP_LEDGER_MAX];
};

/* Accumulator of one stage: bytes per part that are always alive, and per moment for the rest. */
struct spp_memory_sum {
  int64_t always[SPP_PART_COUNT];
  int64_t moment[SPP_PART_COUNT][SPP_MOMENT_COUNT];
  int64_t always_total; /* the same over all parts */
  int64_t pinned; /* of the allocator's part in the loss: free blocks that cannot go back to the driver */
  int64_t pass_free[SPP_MOMENT_COUNT]; /* of the allocator's part: blocks that the pass itself freed */
  int64_t spare_bytes,
      spare_block_bytes; /* free blocks that the making of the shards left, the largest one */
  int64_t step_block_bytes, pass_block_bytes; /* largest tensors of the step's copies and of the loss */
  int64_t step_made_bytes;                    /* joined tensors the step makes, one after the other */
  int64_t pass_blocks;                        /* blocks as large as the loss's largest */
  int64_t step_rows_bytes, norm_bytes;        /* temporaries of the update, and of the norm before it */
  int64_t graphs[SPP_MOMENT_COUNT];           /* what CUDA graphs hold beside what is in use */
  bool absurd;                                /* a tensor too large to be summed */
  int64_t stage;
  struct spp_ledger *ledger; /* NULL on the search's path */
};
/* rows x cols elements of dtype, `copies` of them, alive in `live`. Saturates instead of overflowing. */
void spp_memory_add(struct spp_memory_sum *sum, const struct spp_tensor *tensor, unsigned live,
                    enum spp_dtype dtype, int64_t rows, int64_t cols, int64_t copies);
/* Bytes that are no simple array (quantised weights, buffers of a library). */
void spp_memory_add_bytes(struct spp_memory_sum *sum, const struct spp_tensor *tensor, unsigned live,
                          int64_t bytes);
/* A row of the allocator's part: blocks that the pass itself freed. */
void spp_memory_add_free(struct spp_memory_sum *sum, const struct spp_tensor *tensor, unsigned live,
                         int64_t bytes);
/* Bytes alive at each moment, all parts, up to totals that are absurd. */
void spp_memory_moments(const struct spp_memory_sum *sum, int64_t moments[SPP_MOMENT_COUNT]);

struct spp_memory {
  int64_t parts[SPP_PART_COUNT]; /* alive at the peak; they sum to device_bytes */
  int64_t
      resident[SPP_PART_COUNT];  /* weights, gradients, master, optimizer whether alive at the peak or not */
  int64_t first_step_peak_bytes; /* peak_bytes of a run's first step, whose passes ran before the moments
                                    existed */
  int64_t peak_bytes;            /* allocator high-water mark: parts without allocator, nccl, context */
  int64_t reserved_bytes;        /* + allocator */
  int64_t device_bytes;          /* + nccl + context: what nvidia-smi shows */
  int64_t reclaimable_bytes;     /* of them, free blocks the allocator gives back before it fails */
  int64_t low_bytes, high_bytes; /* 80 % interval of device_bytes */
  int64_t capacity_bytes, headroom_bytes; /* headroom: capacity - (device - reclaimable) */
  double fit_probability;
  bool fits;
  bool host_fits;
  int64_t host_bytes_per_node, host_capacity_bytes;
  int64_t phase_bytes[SPP_PHASE_COUNT]; /* device_bytes of the worst moment of each phase on the worst rank */
  enum spp_moment peak_moment;
  int64_t worst_stage;                           /* pipeline rank */
  int64_t worst_rank;                            /* global rank: first of that stage */
  int64_t kept_bytes[SPP_MAX_LAYER_KINDS];       /* one layer of each kind, nothing recomputed */
  int64_t checkpoint_bytes[SPP_MAX_LAYER_KINDS]; /* under the chosen recompute */
  int64_t logits_bytes;                          /* the loss's largest moment */
};
/* What the job may use of a GPU: --max-memory, else all it has. */
int64_t spp_memory_capacity(const struct spp_job *job);
/* How likely device_bytes, of which the allocator can give reclaimable_bytes back, are to fit the job's GPU.
 */
double spp_memory_fit_probability(const struct spp_job *job, int64_t device_bytes, int64_t reclaimable_bytes);
void spp_memory_predict(const struct spp_job *job, const struct spp_layout *layout,
                        const struct spp_geometry *geometry, struct spp_ledger *ledger,
                        struct spp_memory *memory);

#endif
