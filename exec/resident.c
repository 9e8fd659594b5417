#include "exec/resident.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

void spp_resident_keep(void) {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20); /* the most that glibc takes */
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

/* AddressSanitizer keeps what is freed, and notes beside all that is not; ThreadSanitizer shadows what
 * threads touch. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_SHADOWS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_SHADOWS 1
#endif
#endif
#ifndef HAS_SHADOWS
#define HAS_SHADOWS 0
#endif

int64_t spp_resident_begin(void) {
  long long whole, pages = -1;
  FILE *f;
  if (HAS_SHADOWS) return -1;
#ifdef __GLIBC__
  malloc_trim(0); /* freed pages that the allocator still holds would be given back in between, and look like
                     less growth */
#endif
  if (!(f = fopen("/proc/self/clear_refs", "we"))) return -1;
  int written = fputs("5", f); /* proc(5): sets the peak to what is resident */
  if (fclose(f) != 0 || written < 0 || !(f = fopen("/proc/self/statm", "re"))) return -1;
  if (fscanf(f, "%lld %lld", &whole, &pages) != 2) pages = -1;
  fclose(f);
  return pages < 0 ? -1 : (int64_t)pages * sysconf(_SC_PAGESIZE);
}

int64_t spp_resident_peak(void) {
  char line[256];
  long long kib = -1;
  FILE *f = fopen("/proc/self/status", "re");
  if (!f) return -1;
  while (kib < 0 && fgets(line, sizeof line, f))
    if (sscanf(line, "VmHWM: %lld kB", &kib) != 1) kib = -1;
  fclose(f);
  return kib < 0 ? -1 : (int64_t)kib * 1024;
}
