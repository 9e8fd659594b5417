/* This host: its processors, and who else uses them. */
#ifndef SPP_EXEC_HOST_H
#define SPP_EXEC_HOST_H

#include <stddef.h>
#include <stdint.h>

/* A moment's sums: processor seconds of this host, of this process. */
struct spp_host_use {
  double clock_s;
  double busy_s; /* all processors, all programs, since the host started; negative: unknown */
  double own_s;  /* this process with all its threads */
};
void spp_host_use_read(struct spp_host_use *use);

/* Share of the host's processors that others used between two moments, 0 to 1; negative when unknown.
 * processes: how many like this one run here and used as much. */
double spp_host_others_share(const struct spp_host_use *before, const struct spp_host_use *after,
                             int processes);

/* Processor time of the calling thread. */
double spp_host_thread_s(void);

int64_t spp_host_processors(void);
/* Which kernel this host runs under: hosts that are namespaces of one machine have the same, and share its
 * processors. Linux /proc/sys/kernel/random/boot_id; without it the host's name. Ends in 0. */
void spp_host_machine(char *id, size_t size);
/* Memory of this host. */
int64_t spp_host_bytes(void);

#endif
