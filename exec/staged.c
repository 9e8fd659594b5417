#include "exec/staged.h"

#include <stdlib.h>

#include "exec/try.h"

/* One message under way: the carrier's transfer, and the bytes it is about. */
struct message {
  struct message *next, *previous;
  struct spp_transfer carried;
  void *memory; /* where it goes; NULL: it is sent */
  int64_t bytes;
  unsigned char data[];
};

struct staged {
  struct spp_endpoint end;
  struct spp_endpoint *carrier;
  struct message *under_way;
};

static struct staged *of(struct spp_endpoint *end) {
  return end->world;
}

static struct message *message_new(struct staged *s, int64_t bytes) {
  struct message *m = calloc(1, sizeof *m + (size_t)bytes);
  if (!m) return NULL;
  m->bytes = bytes;
  m->next = s->under_way;
  if (m->next) m->next->previous = m;
  s->under_way = m;
  return m;
}

static void message_free(struct staged *s, struct message *m) {
  if (m->previous)
    m->previous->next = m->next;
  else
    s->under_way = m->next;
  if (m->next) m->next->previous = m->previous;
  free(m);
}

static enum spp_status staged_isend(struct spp_endpoint *end, int to, int tag, const void *data,
                                    int64_t bytes, struct spp_transfer *t, struct spp_diag *diag) {
  struct staged *s = of(end);
  const struct spp_runner *r = &end->memory;
  struct message *m = message_new(s, bytes);
  if (!m) return spp_diag_oom(diag);
  *t = (struct spp_transfer){.from = end->rank, .to = to, .tag = tag, .bytes = bytes, .handle = {m}};
  r->device->download(r->queue, m->data, data, bytes);
  SPP_TRY(r->device->wait(r->queue, diag));
  return s->carrier->ops->isend(s->carrier, to, tag, m->data, bytes, &m->carried, diag);
}

static enum spp_status staged_irecv(struct spp_endpoint *end, int from, int tag, void *data, int64_t bytes,
                                    struct spp_transfer *t, struct spp_diag *diag) {
  struct staged *s = of(end);
  struct message *m = message_new(s, bytes);
  if (!m) return spp_diag_oom(diag);
  *t = (struct spp_transfer){.from = from, .to = end->rank, .tag = tag, .bytes = bytes, .handle = {m}};
  m->memory = data;
  return s->carrier->ops->irecv(s->carrier, from, tag, m->data, bytes, &m->carried, diag);
}

static enum spp_status staged_wait(struct spp_endpoint *end, struct spp_transfer *t, struct spp_diag *diag) {
  struct staged *s = of(end);
  struct message *m = t->handle[0];
  enum spp_status status = s->carrier->ops->wait(s->carrier, &m->carried, diag);
  if (status == SPP_OK && m->memory)
    end->memory.device->upload(end->memory.queue, m->memory, m->data, m->bytes);
  message_free(s, m);
  return status;
}

static enum spp_status staged_barrier(struct spp_endpoint *end, struct spp_diag *diag) {
  struct spp_endpoint *carrier = of(end)->carrier;
  return carrier->ops->barrier(carrier, diag);
}

static enum spp_status staged_check(struct spp_endpoint *end, struct spp_diag *diag) {
  struct spp_endpoint *carrier = of(end)->carrier;
  return carrier->ops->check(carrier, diag);
}

static void staged_abort(struct spp_endpoint *end, const struct spp_diag *why) {
  struct spp_endpoint *carrier = of(end)->carrier;
  carrier->ops->abort(carrier, why);
}

/* After a failure messages are left that no one waited for. */
static void staged_close(struct spp_endpoint *end) {
  struct staged *s = of(end);
  while (s->under_way)
    message_free(s, s->under_way);
  free(s);
}

static const struct spp_endpoint_ops ops = {.isend = staged_isend,
                                            .irecv = staged_irecv,
                                            .wait = staged_wait,
                                            .barrier = staged_barrier,
                                            .abort = staged_abort,
                                            .check = staged_check,
                                            .clock = spp_monotonic_s,
                                            .close = staged_close};

enum spp_status spp_staged_open(struct spp_endpoint *carrier, struct spp_runner memory,
                                struct spp_endpoint **end, struct spp_diag *diag) {
  struct staged *s = calloc(1, sizeof *s);
  if (!s) return spp_diag_oom(diag);
  s->carrier = carrier;
  s->end = *carrier;
  s->end.ops = &ops;
  s->end.world = s;
  s->end.memory = memory;
  *end = &s->end;
  return SPP_OK;
}
