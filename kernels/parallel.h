/* Threads of one rank. Work is cut by shape, never by the number of threads, so that results do not depend on
 * it; where OpenMP is absent everything runs on the calling thread. Internal to kernels/. */
#ifndef SPP_KERNELS_PARALLEL_H
#define SPP_KERNELS_PARALLEL_H

#include <stdint.h>

/* One piece of work; `thread` is in [0, threads) and names the scratch it may use. */
typedef void spp_task(void *context, int64_t task, int thread);

/* Threads that a request (0: all that OpenMP would use) gives for this many tasks; at least 1. */
int spp_parallel_threads(int requested, int64_t tasks);

/* Runs tasks 0..tasks-1, each once, started in increasing order: a task may wait for a lower one. */
void spp_parallel_run(int threads, int64_t tasks, spp_task *run, void *context);

/* Gives the processor away; for short waits on a lower task. */
void spp_parallel_yield(void);

#endif
