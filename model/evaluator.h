/* Predictions of many layouts that differ little: the search's path. The parts of a prediction are kept by
 * what they depend on, so that the next layout only pays for what changed. The code that works a part out is
 * the ledger's, and so are the figures, to the last bit. */
#ifndef SPP_MODEL_EVALUATOR_H
#define SPP_MODEL_EVALUATOR_H

#include "model/predict.h"

/* What a search compares layouts by: members of spp_memory and spp_time. */
struct spp_memory_figures {
  int64_t device_bytes, reclaimable_bytes, capacity_bytes, host_bytes_per_node, host_capacity_bytes;
  bool fits, host_fits;
};
struct spp_time_figures {
  double step_s, tokens_per_s, usd_per_million_tokens;
};

struct spp_memory_figures spp_memory_figures_of(const struct spp_memory *memory);
struct spp_time_figures spp_time_figures_of(const struct spp_time *time);

/* Layouts that are evaluated together agree in everything but loss (of the job), virtual stages with
 * schedule, recompute with its number of layers, micro-batch with accumulation, Megatron sequence
 * parallelism, and how states are sharded and offloaded. Of the first four the values are numbered from 0.
 * Fastest where the others change slowest. */
struct spp_evaluator_place {
  int loss, pipe, recompute, micro;
};
struct spp_pipe {
  int64_t vpp, first_layers, last_layers; /* of the end stages, 0 = as the others */
  enum spp_schedule schedule;
};
struct spp_evaluator_shape {
  int losses, pipes, recomputes, micros; /* how many values there are */
  const struct spp_pipe *pipe;           /* those of the pipeline; read by spp_evaluator_begin() only */
};

struct spp_evaluator;
/* NULL when out of memory. */
struct spp_evaluator *spp_evaluator_create(void);
void spp_evaluator_free(struct spp_evaluator *evaluator); /* may be NULL */
/* Forget what was kept, and make room for layouts like this one; what follows allocates nothing. False when
 * out of memory. */
bool spp_evaluator_begin(struct spp_evaluator *evaluator, const struct spp_evaluator_shape *shape,
                         const struct spp_job *job, const struct spp_layout *layout);

/* Layers of the fullest stage; 0 = not known. */
int64_t spp_evaluator_most_layers(const struct spp_evaluator *evaluator,
                                  const struct spp_evaluator_place *place);

/* The figures of spp_predict(). */
void spp_evaluator_memory(struct spp_evaluator *evaluator, const struct spp_job *job,
                          const struct spp_layout *layout, const struct spp_evaluator_place *place,
                          struct spp_memory_figures *memory);
void spp_evaluator_time(struct spp_evaluator *evaluator, const struct spp_job *job,
                        const struct spp_layout *layout, const struct spp_evaluator_place *place,
                        struct spp_time_figures *time);
/* The same, or at least as much, for far less where the layers are new: what is held, and what all layers
 * keep when the forward is done. Only the bytes of the device are filled. */
void spp_evaluator_least_memory(struct spp_evaluator *evaluator, const struct spp_job *job,
                                const struct spp_layout *layout, const struct spp_evaluator_place *place,
                                struct spp_memory_figures *memory);
/* Seconds the step takes at least, however the states are sharded and offloaded: what layers and pipeline
 * need by themselves. */
double spp_evaluator_least_s(struct spp_evaluator *evaluator, const struct spp_job *job,
                             const struct spp_layout *layout, const struct spp_evaluator_place *place);

#endif
