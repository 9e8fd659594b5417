#include "exec/host.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "exec/backend.h"

/* Linux /proc/stat, first line: user nice system idle iowait irq softirq steal, in clock ticks. */
static double host_busy_s(void) {
  long long user, nice, system, idle, iowait, irq, softirq, steal;
  FILE *f = fopen("/proc/stat", "re");
  if (!f) return -1;
  int n = fscanf(f, "cpu %lld %lld %lld %lld %lld %lld %lld %lld", &user, &nice, &system, &idle, &iowait,
                 &irq, &softirq, &steal);
  fclose(f);
  if (n != 8) return -1;
  return (double)(user + nice + system + irq + softirq + steal) / (double)sysconf(_SC_CLK_TCK);
}

static double seconds(struct timeval t) {
  return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

void spp_host_use_read(struct spp_host_use *use) {
  struct rusage r;
  use->clock_s = spp_monotonic_s();
  use->busy_s = host_busy_s();
  use->own_s = getrusage(RUSAGE_SELF, &r) == 0 ? seconds(r.ru_utime) + seconds(r.ru_stime) : 0;
}

double spp_host_others_share(const struct spp_host_use *before, const struct spp_host_use *after,
                             int processes) {
  double elapsed_s = (after->clock_s - before->clock_s) * (double)spp_host_processors();
  if (before->busy_s < 0 || after->busy_s < 0 || elapsed_s <= 0) return -1;
  double others_s = after->busy_s - before->busy_s - processes * (after->own_s - before->own_s);
  return fmin(1, fmax(0, others_s / elapsed_s));
}

double spp_host_thread_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int64_t spp_host_processors(void) {
  int64_t n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? n : 1;
}

void spp_host_machine(char *id, size_t size) {
  FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
  bool read = f && fgets(id, (int)size, f);
  if (f) fclose(f);
  if (!read && gethostname(id, size - 1) != 0) id[0] = '\0';
  id[size - 1] = '\0';
}

int64_t spp_host_bytes(void) {
  int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? pages * page : 0;
}
