#include "model/nccl.h"

#include "tests/model/timing_machines.h"

static const int64_t mib = 1048576;

struct machine {
  const struct spp_gpu *gpu;
  const struct spp_cluster *cluster;
};

static struct spp_arena arena;

static struct machine load(const char *gpu, const char *cluster) {
  struct spp_diag diag = {0};
  struct machine m;
  expect_status(spp_gpu_load(SPP_SOURCE_DIR "/configs", gpu, &arena, &m.gpu, &diag), SPP_OK, &diag);
  expect_status(spp_cluster_load(SPP_SOURCE_DIR "/configs", cluster, m.gpu, &arena, &m.cluster, &diag),
                SPP_OK, &diag);
  return m;
}

/* "N coll channels, N p2p channels, N p2p channels per peer", as NCCL prints them. Worked from
 * src/graph/search.cc by hand. Links: A100 12 of 20 GB/s carry 6 rings of 40, doubled as rings of 20, and
 * doubled; H100 18 of 20.6: 6 of 60; H800 and A800 8: 4 of 40; B200 18 of 40.1: 8 of 90; V100 6 of 20: 3
 * of 40. Between nodes a ring a NIC, doubled: of H100 8 at 45 (eight of 48 are more than the links carry),
 * and up to four of 48 are doubled twice; of A100 8 of 24. */
static void channels_follow_links_and_nics(void **state) {
  (void)state;
  static const struct {
    const char *gpu, *cluster;
    int64_t ranks, stride, rings, messages, per_peer;
  } rows[] = {
      {"a100-80gb", "a100-sxm", 8, 1, 24, 32, 32}, {"h100-80gb", "h100-sxm", 8, 1, 24, 32, 32},
      {"h100-80gb", "h100-sxm", 2, 4, 24, 32, 32}, {"h800-80gb", "h800-sxm", 8, 1, 16, 16, 16},
      {"a800-80gb", "a800-sxm", 8, 1, 16, 16, 16}, {"b200-180gb", "b200-sxm", 8, 1, 32, 32, 32},
      {"v100-32gb", "v100-sxm", 8, 1, 12, 16, 16}, {"rtx-4090", "rtx-4090-pcie", 8, 1, 2, 2, 2},
      {"h100-80gb", "h100-sxm", 16, 1, 16, 16, 4}, {"h100-80gb", "h100-sxm", 64, 1, 16, 16, 2},
      {"h100-80gb", "h100-sxm", 16, 2, 16, 16, 4}, {"h100-80gb", "h100-sxm", 4, 8, 4, 4, 4},
      {"a100-80gb", "a100-sxm", 16, 1, 16, 16, 2}, {"a100-80gb", "a100-sxm", 2, 8, 2, 2, 2},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct machine m = load(rows[i].gpu, rows[i].cluster);
    struct spp_framework f = {.nccl_channels = 1, .nccl_version = 22705};
    struct spp_nccl n = {.framework = &f, .gpu = m.gpu, .cluster = m.cluster};
    struct spp_placement p = spp_nccl_place(&n, rows[i].ranks, rows[i].stride);
    struct spp_nccl_channels c = spp_nccl_channels(&n, &p);
    expect_i64(c.rings, rows[i].rings);
    expect_i64(c.messages, rows[i].messages);
    expect_i64(c.per_peer, rows[i].per_peer);
  }
}

/* MiB of a communicator on H100, by the source. Tables in pages of 2 MiB: 2 and 3 a channel. A ring is 10
 * received and 2 sent a channel, a chain both ways twice that; on the way out of a node both ends have 10.
 * Eight ranks: 98 pages, 24 channels of 12. Of four nodes: 50 pages, a chain of 16 channels, and for 2 of
 * them on average 2 neighbours less a fourth. Before 2.22 all at once, with a pool of 8 MiB a channel, and
 * where the switch reduces 17 pages and 32 MiB a rank; before 2.19 no pages. */
static void a_communicator_holds_what_it_is_used_for(void **state) {
  (void)state;
  static const struct {
    int64_t version, ranks, stride;
    unsigned used;
    bool cumem_off, nvls_off;
    int64_t mib;
  } rows[] = {
      {22705, 1, 1, SPP_NCCL_RING, false, true, 0},
      {22705, 8, 1, 0, false, true, 196},
      {22705, 8, 1, SPP_NCCL_RING, false, true, 196 + 288},
      {22705, 8, 1, SPP_NCCL_SUMS, false, true, 196 + 288},
      {22705, 8, 1, SPP_NCCL_RING, false, false, 196 + 288 + 34},
      {22705, 8, 1, SPP_NCCL_RING | SPP_NCCL_SWITCH, false, false, 196 + 288 + 34 + 256},
      {22705, 4, 1, SPP_NCCL_RING | SPP_NCCL_SWITCH, false, false, 196 + 288 + 34},
      {22705, 32, 1, SPP_NCCL_SUMS, false, true, 100 + 384 + 60},
      {22705, 32, 1, SPP_NCCL_RING, false, true, 100 + 192 + 16},
      {22705, 32, 1, SPP_NCCL_RING | SPP_NCCL_SUMS, false, true, 100 + 192 + 16 + 192 + 60},
      {22105, 8, 1, SPP_NCCL_RING, false, false, 196 + 288 + 288 + 256 + 34 + 256},
      {22105, 8, 1, SPP_NCCL_RING, true, false, 2 + 288 + 288 + 256},
      {21801, 8, 1, SPP_NCCL_RING, false, false, 2 + 288 + 288 + 256},
      {21403, 8, 1, SPP_NCCL_RING, false, false, 2 + 288 + 288 + 64},
      {21403, 2, 1, SPP_NCCL_RING, false, false, 2 + 288 + 64},
  };
  struct machine m = load("h100-80gb", "h100-sxm");
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct spp_framework f = {.nccl_channels = 1,
                              .nccl_version = rows[i].version,
                              .nccl_cumem_off = rows[i].cumem_off,
                              .nccl_nvls_off = rows[i].nvls_off};
    struct spp_nccl n = {.framework = &f, .gpu = m.gpu, .cluster = m.cluster};
    struct spp_placement p = spp_nccl_place(&n, rows[i].ranks, rows[i].stride);
    expect_i64(spp_nccl_communicator_bytes(&n, &p, rows[i].used), rows[i].mib * mib);
  }
}

/* Peers of a node: 32 channels of 12 MiB each; of 32 ranks on four nodes 4. Others share 16 steps of 128 KiB
 * for each of 16 channels and both directions, four times that in chunks of 512, which is the most. */
static void messages_have_connections_near_and_a_pool_far(void **state) {
  (void)state;
  struct machine m = load("h100-80gb", "h100-sxm");
  struct spp_framework f = {.nccl_channels = 1, .nccl_version = 22705};
  struct spp_nccl n = {.framework = &f, .gpu = m.gpu, .cluster = m.cluster};
  struct spp_placement node = spp_nccl_place(&n, 8, 1), nodes = spp_nccl_place(&n, 32, 1);
  expect_i64(spp_nccl_messages_bytes(&n, &node, 7, false, 2), 7 * 32 * 12 * mib);
  expect_i64(spp_nccl_messages_bytes(&n, &nodes, 7, true, 2), (7 * 4 * 12 + 2 * 32) * mib);
  n.chunk_bytes = 2097152;
  expect_i64(spp_nccl_messages_bytes(&n, &nodes, 0, true, 1), 4 * 32 * mib);
  f.nccl_channels = 0;
  expect_i64(spp_nccl_messages_bytes(&n, &node, 7, false, 2), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(channels_follow_links_and_nics),
      cmocka_unit_test(a_communicator_holds_what_it_is_used_for),
      cmocka_unit_test(messages_have_connections_near_and_a_pool_far),
  };
  spp_arena_init(&arena);
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  spp_arena_free(&arena);
  return failed != 0;
}
