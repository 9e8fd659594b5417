/* Which kernels the tests of this folder judge, always against the reference in row 0: those of the
 * processor, or, compiled with SPP_TEST_DEVICE, those of a device, whose arguments are carried there and back
 * (staged.h). */
#ifndef SPP_TESTS_KERNELS_ROWS_H
#define SPP_TESTS_KERNELS_ROWS_H

#include "kernels/attention.h"
#include "kernels/gemm.h"
#include "kernels/router.h"
#include "kernels/table.h"

#ifdef SPP_TEST_DEVICE

#include "tests/kernels/staged.h"

#define judged_ready                   staged_ready
#define judged_rows                    staged_rows
#define judged_best                    staged_best
#define judged_rounds_bf16             staged_rounds_bf16
#define judged_attn_forward            staged_attn_forward
#define judged_attn_backward           staged_attn_backward
#define judged_attn_delta              staged_attn_delta
#define judged_attn_sink_grad          staged_attn_sink_grad
#define judged_lse_merge               staged_lse_merge
#define judged_gemm                    staged_gemm
#define judged_router_forward          staged_router_forward
#define judged_router_choose_in_groups staged_router_choose_in_groups
#define judged_router_backward         staged_router_backward

#else

#define judged_ready()                 true
#define judged_rows                    spp_kernels_all
#define judged_best                    spp_kernels_best
#define judged_rounds_bf16(kernels)    ((kernels)->tile_bf16 != NULL)
#define judged_attn_forward            spp_attn_forward
#define judged_attn_backward           spp_attn_backward
#define judged_attn_delta              spp_attn_delta
#define judged_attn_sink_grad          spp_attn_sink_grad
#define judged_lse_merge               spp_lse_merge
#define judged_gemm                    spp_gemm
#define judged_router_forward          spp_router_forward
#define judged_router_choose_in_groups spp_router_choose_in_groups
#define judged_router_backward         spp_router_backward

#endif

enum { JUDGED_SKIPPED = 77 }; /* ctest counts it as skipped */

#endif
