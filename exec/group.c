#include "exec/group.h"

#include "base/num.h"
#include "exec/try.h"

void spp_group_make(struct spp_rank_group *group, struct spp_endpoint *end, struct spp_tally *tally,
                    enum spp_group purpose, int first, int stride, int size) {
  *group = (struct spp_rank_group){.end = end, .tally = tally, .purpose = purpose, .size = size, .me = -1};
  for (int i = 0; i < size; i++) {
    group->ranks[i] = first + i * stride;
    if (group->ranks[i] == end->rank) group->me = i;
  }
}

/* One running collective: where its messages are counted. */
struct call {
  const struct spp_rank_group *g;
  struct spp_traffic *row; /* NULL: not counted */
  struct spp_diag *diag;
};

static struct call begin(const struct spp_rank_group *g, enum spp_collective op, struct spp_label label,
                         struct spp_diag *diag) {
  struct call c = {g, NULL, diag};
  if (g->tally) {
    c.row = spp_tally_row(g->tally, op, g->purpose, label);
    c.row->calls++;
    if (op == SPP_ALL_GATHER || op == SPP_REDUCE_SCATTER || op == SPP_ALL_REDUCE) c.row->messages++;
  }
  return c;
}

/* Groups of different purpose may hold the same two ranks: the tag keeps their messages apart. */
static int tag_of(const struct spp_rank_group *g, int channel) {
  return (int)g->purpose + channel * SPP_GROUP_COUNT;
}

/* The only place where bytes leave, hence the only place where they are counted. */
static enum spp_status send(const struct call *c, int to, int channel, const void *data, int64_t bytes,
                            struct spp_transfer *t) {
  const struct spp_rank_group *g = c->g;
  if (c->row) {
    c->row->packets++;
    c->row->sent_bytes += bytes;
    if (c->row->op == SPP_ALL_TO_ALL || c->row->op == SPP_SEND_RECV) c->row->messages++;
  }
  return g->end->ops->isend(g->end, g->ranks[to], tag_of(g, channel), data, bytes, t, c->diag);
}

static enum spp_status receive(const struct call *c, int from, int channel, void *data, int64_t bytes,
                               struct spp_transfer *t) {
  const struct spp_rank_group *g = c->g;
  return g->end->ops->irecv(g->end, g->ranks[from], tag_of(g, channel), data, bytes, t, c->diag);
}

static enum spp_status wait(const struct call *c, struct spp_transfer *t) {
  return c->g->end->ops->wait(c->g->end, t, c->diag);
}

static int neighbour(const struct spp_rank_group *g, int distance) {
  return (int)(((int64_t)g->me + distance + 2 * (int64_t)g->size) % g->size);
}

enum spp_status spp_group_all_to_all(const struct spp_rank_group *g, struct spp_label label, const void *sent,
                                     void *received, int64_t bytes_each, struct spp_diag *diag) {
  const struct call c = begin(g, SPP_ALL_TO_ALL, label, diag);
  const char *from = sent;
  char *to = received;
  const struct spp_runner *r = &g->end->memory;
  r->device->copy(r->queue, to + g->me * bytes_each, from + g->me * bytes_each, bytes_each);
  for (int i = 1; i < g->size; i++) {
    struct spp_transfer out, in;
    int next = neighbour(g, i), previous = neighbour(g, -i);
    SPP_TRY(send(&c, next, 0, from + next * bytes_each, bytes_each, &out));
    SPP_TRY(receive(&c, previous, 0, to + previous * bytes_each, bytes_each, &in));
    SPP_TRY(wait(&c, &out));
    SPP_TRY(wait(&c, &in));
  }
  return SPP_OK;
}

/* Shard bounds of a collective. */
struct cut {
  struct spp_span span;
  int n;
};
static int64_t shard_first(const struct cut *cut, int i) {
  return spp_shard_first(cut->span.count, cut->n, i);
}
static int64_t shard_count(const struct cut *cut, int i) {
  return shard_first(cut, i + 1) - shard_first(cut, i);
}
static void *element(const struct cut *cut, int64_t i) {
  return spp_at(cut->span.data, cut->span.storage, i);
}
static int64_t bytes_of(const struct cut *cut, int64_t elements) {
  return elements * spp_storage_bytes(cut->span.storage);
}

static enum spp_status gather(const struct call *c, const struct cut *cut) {
  const struct spp_rank_group *g = c->g;
  for (int step = 0; step < g->size - 1; step++) {
    struct spp_transfer out, in;
    int has = neighbour(g, -step), gets = neighbour(g, -step - 1);
    SPP_TRY(send(c, neighbour(g, 1), 0, element(cut, shard_first(cut, has)),
                 bytes_of(cut, shard_count(cut, has)), &out));
    SPP_TRY(receive(c, neighbour(g, -1), 0, element(cut, shard_first(cut, gets)),
                    bytes_of(cut, shard_count(cut, gets)), &in));
    SPP_TRY(wait(c, &out));
    SPP_TRY(wait(c, &in));
  }
  return SPP_OK;
}

/* What is received is combined with what is there, where both lie. */
typedef void combine(const struct spp_runner *r, struct spp_span from, void *into);
static void combine_sum(const struct spp_runner *r, struct spp_span from, void *into) {
  r->device->ops->add(r->queue, from.count, from.storage, into, from.data, into);
}
static void combine_max(const struct spp_runner *r, struct spp_span from, void *into) {
  r->device->ops->maximum(r->queue, from.count, from.data, into);
}

/* One step of the reduction: a shard leaves while another arrives, a staging buffer at a time. */
static enum spp_status reduce_step(const struct call *c, const struct cut *cut, int leaves, int arrives,
                                   combine *with) {
  const struct spp_rank_group *g = c->g;
  int64_t left = shard_count(cut, leaves), right = shard_count(cut, arrives);
  int64_t from = shard_first(cut, leaves), into = shard_first(cut, arrives);
  int64_t room = g->staging_floats * (int64_t)sizeof(float) / spp_storage_bytes(cut->span.storage);
  for (int64_t at = 0; at < spp_max64(left, right); at += room) {
    struct spp_transfer out, in;
    int64_t sends = spp_min64(left - at, room), gets = spp_min64(right - at, room);
    if (sends > 0) SPP_TRY(send(c, neighbour(g, 1), 0, element(cut, from + at), bytes_of(cut, sends), &out));
    if (gets > 0) SPP_TRY(receive(c, neighbour(g, -1), 0, g->staging, bytes_of(cut, gets), &in));
    if (sends > 0) SPP_TRY(wait(c, &out));
    if (gets <= 0) continue;
    SPP_TRY(wait(c, &in));
    with(&g->end->memory, (struct spp_span){g->staging, gets, cut->span.storage}, element(cut, into + at));
  }
  return SPP_OK;
}

/* Shard s starts at the member behind its owner and travels forward, so its terms are always added in the
 * same order and end with the owner's. */
static enum spp_status scatter(const struct call *c, const struct cut *cut, combine *with) {
  for (int step = 0; step < c->g->size - 1; step++)
    SPP_TRY(reduce_step(c, cut, neighbour(c->g, -step - 1), neighbour(c->g, -step - 2), with));
  return SPP_OK;
}

enum spp_status spp_group_all_gather_span(const struct spp_rank_group *g, struct spp_label label,
                                          struct spp_span whole, struct spp_diag *diag) {
  if (g->size == 1) return SPP_OK;
  const struct call c = begin(g, SPP_ALL_GATHER, label, diag);
  const struct cut cut = {whole, g->size};
  return gather(&c, &cut);
}

enum spp_status spp_group_reduce_scatter_span(const struct spp_rank_group *g, struct spp_label label,
                                              struct spp_span data, struct spp_diag *diag) {
  if (g->size == 1) return SPP_OK;
  const struct call c = begin(g, SPP_REDUCE_SCATTER, label, diag);
  const struct cut cut = {data, g->size};
  return scatter(&c, &cut, combine_sum);
}

static enum spp_status all_reduce(const struct spp_rank_group *g, struct spp_label label,
                                  struct spp_span data, combine *with, struct spp_diag *diag) {
  if (g->size == 1) return SPP_OK;
  const struct call c = begin(g, SPP_ALL_REDUCE, label, diag);
  const struct cut cut = {data, g->size};
  SPP_TRY(scatter(&c, &cut, with));
  return gather(&c, &cut);
}

enum spp_status spp_group_all_reduce_span(const struct spp_rank_group *g, struct spp_label label,
                                          struct spp_span data, struct spp_diag *diag) {
  return all_reduce(g, label, data, combine_sum, diag);
}

enum spp_status spp_group_all_reduce_max(const struct spp_rank_group *g, struct spp_label label, float *data,
                                         int64_t count, struct spp_diag *diag) {
  return all_reduce(g, label, spp_floats(data, count), combine_max, diag);
}

enum spp_status spp_group_shift_start(const struct spp_rank_group *g, struct spp_label label,
                                      const void *sent, void *received, int64_t bytes,
                                      struct spp_shift *shift, struct spp_diag *diag) {
  const struct call c = begin(g, SPP_SEND_RECV, label, diag);
  SPP_TRY(send(&c, neighbour(g, 1), 0, sent, bytes, &shift->send));
  return receive(&c, neighbour(g, -1), 0, received, bytes, &shift->receive);
}

enum spp_status spp_group_shift_wait(const struct spp_rank_group *g, struct spp_shift *shift,
                                     struct spp_diag *diag) {
  SPP_TRY(g->end->ops->wait(g->end, &shift->send, diag));
  return g->end->ops->wait(g->end, &shift->receive, diag);
}

enum spp_status spp_group_send_start(const struct spp_rank_group *g, struct spp_label label, int to,
                                     int channel, const void *data, int64_t bytes,
                                     struct spp_transfer *transfer, struct spp_diag *diag) {
  const struct call c = begin(g, SPP_SEND_RECV, label, diag);
  return send(&c, to, channel, data, bytes, transfer);
}

enum spp_status spp_group_receive_start(const struct spp_rank_group *g, int from, int channel, void *data,
                                        int64_t bytes, struct spp_transfer *transfer, struct spp_diag *diag) {
  const struct call c = {g, NULL, diag};
  return receive(&c, from, channel, data, bytes, transfer);
}

enum spp_status spp_group_wait(const struct spp_rank_group *g, struct spp_transfer *transfer,
                               struct spp_diag *diag) {
  return g->end->ops->wait(g->end, transfer, diag);
}
