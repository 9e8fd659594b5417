/* Words for the layouts of the suites' tables. */
#ifndef SPP_EXEC_SUITE_LAYOUTS_H
#define SPP_EXEC_SUITE_LAYOUTS_H

/* What differs from one rank with one sequence; a degree of 0 is 1. */
#define LAYOUT(...)                                                                                          \
  { .recompute_layers = SPP_UNSET, __VA_ARGS__ }
#define ULYSSES(n)         .ulysses = (n), .sp_kind = SPP_SP_ULYSSES
#define RING(n)            .ring = (n), .sp_kind = SPP_SP_RING
#define GATHER(n)          .ring = (n), .sp_kind = SPP_SP_ALLGATHER
#define HYBRID(u, r)       .ulysses = (u), .ring = (r), .sp_kind = SPP_SP_HYBRID
#define RECOMPUTE          .recompute = SPP_RECOMPUTE_FULL
#define SELECTIVE(modules) .recompute = SPP_RECOMPUTE_SELECTIVE, .recompute_modules = (modules)
#define EACH_MODULE        (SPP_RC_CORE_ATTN | SPP_RC_LAYERNORM | SPP_RC_MLP)
#define MEGATRON(n)        .tp = (n), .megatron_sp = true
#define INTERLEAVED(n)     .vpp = (n), .schedule = SPP_SCHEDULE_INTERLEAVED

#endif
