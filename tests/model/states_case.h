/* Qwen2.5 7B over eight ranks: what they hold of its states. */
#ifndef SPP_TESTS_MODEL_STATES_CASE_H
#define SPP_TESTS_MODEL_STATES_CASE_H

#include "model/states.h"
#include "tests/model/jobs.h"

static const int64_t qwen7b = 7615616512;

static inline int64_t resident(const struct jobs_fixture *f) {
  return f->memory.resident[SPP_PART_WEIGHTS] + f->memory.resident[SPP_PART_GRADIENTS] +
         f->memory.resident[SPP_PART_MASTER] + f->memory.resident[SPP_PART_OPTIMIZER];
}

static inline void open_qwen7b(struct jobs_fixture *f, int zero) {
  jobs_open(f);
  jobs_train(f, jobs_load(f, "qwen2.5-7b"), 1024);
  f->layout.dp = 8;
  f->layout.zero = zero;
}

#endif
