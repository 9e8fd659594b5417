/* Opens the device; takes the arrays of a call there and back. */
#include "tests/kernels/stage.h"

static const struct spp_device *device;
static struct spp_queue *queue;

bool staged_ready(void) {
  int count;
  const struct spp_device *const *all = spp_devices_all(&count);
  struct spp_diag diag = {0};
  char text[1024] = "";
  for (int i = 0; i < count && !queue; i++)
    if (spp_device_usable(all[i], &diag) && all[i]->open(0, &queue, &diag) == SPP_OK) {
      device = all[i];
      if (device->describe(0, text, sizeof text, &diag) == SPP_OK) printf("%s\n", text);
    }
  if (!queue) printf("no device: %s\n", spp_diag_format(&diag, text, sizeof text));
  return queue != NULL;
}

const struct spp_device *staged_device(void) {
  return device;
}
struct spp_queue *staged_queue(void) {
  return queue;
}

/* Every other time, by chance, addresses that are not aligned to four elements. */
static int64_t shift(void) {
  static uint32_t state = 1;
  state = state * 1664525U + 1013904223U; /* Numerical Recipes */
  return state >> 31 ? 4 : 0;
}

void *stage_take(struct stage *s, const void *here, int64_t bytes, bool results) {
  struct spp_diag diag = {0};
  if (!here) return NULL;
  for (int i = 0; i < s->n; i++)
    if (s->items[i].here == here && bytes > 0) {
      expect_true(bytes <= s->items[i].bytes);
      s->items[i].results = s->items[i].results || results;
      return s->items[i].there;
    }
  struct item *it = &s->items[s->n++];
  int64_t by = shift();
  it->bytes = bytes;
  it->results = results;
  memcpy(&it->here, &here, sizeof here); /* results go back only where the caller gave a place to write to */
  expect_status(device->allocate(queue, bytes + by, &it->block, &diag), SPP_OK, &diag);
  it->there = (char *)it->block + by;
  device->upload(queue, it->there, here, bytes);
  return it->there;
}
void *stage_both(struct stage *s, void *here, int64_t bytes) {
  return stage_take(s, here, bytes, true);
}
void *stage_in(struct stage *s, const void *here, int64_t bytes) {
  return stage_take(s, here, bytes, false);
}

void stage_finish(struct stage *s) {
  struct spp_diag diag = {0};
  void *after[16];
  for (int i = 0; i < s->n; i++) {
    after[i] = malloc((size_t)s->items[i].bytes + 1);
    device->download(queue, after[i], s->items[i].there, s->items[i].bytes);
  }
  expect_status(device->wait(queue, &diag), SPP_OK, &diag);
  for (int i = 0; i < s->n; i++) {
    struct item *it = &s->items[i];
    if (it->results)
      memcpy(it->here, after[i], (size_t)it->bytes);
    else
      expect_true(memcmp(it->here, after[i], (size_t)it->bytes) == 0);
    device->release(queue, it->block);
    free(after[i]);
  }
}
