#include "kernels/parallel.h"

#include <sched.h>
#include <stdatomic.h>

#ifdef _OPENMP
#include <omp.h>
#endif

int spp_parallel_threads(int requested, int64_t tasks) {
  int threads = 1;
#ifdef _OPENMP
  threads = requested > 0 ? requested : omp_get_max_threads();
#else
  (void)requested;
#endif
  if (tasks < threads) threads = (int)tasks;
  return threads > 0 ? threads : 1;
}

/* A shared counter and not an OpenMP loop: its schedules do not promise that lower tasks start first. */
void spp_parallel_run(int threads, int64_t tasks, spp_task *run, void *context) {
#ifdef _OPENMP
  if (threads > 1) {
    _Atomic int64_t next = 0;
#pragma omp parallel num_threads(threads)
    {
      int thread = omp_get_thread_num();
      for (int64_t t = atomic_fetch_add(&next, 1); t < tasks; t = atomic_fetch_add(&next, 1))
        run(context, t, thread);
    }
    return;
  }
#else
  (void)threads;
#endif
  for (int64_t t = 0; t < tasks; t++)
    run(context, t, 0);
}

void spp_parallel_yield(void) {
  sched_yield();
}
