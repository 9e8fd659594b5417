/* The operations of an instance file, gathered. Included after the bodies. */
static const struct spp_tile_ops tile_ops = {
    .q_block = TILE_Q_BLOCK,
    .kv_block = TILE_KV_BLOCK,
    .gemm_tn = tile_gemm_tn,
    .pack = tile_pack,
    .pack_transposed = tile_pack_transposed,
    .unpack = tile_unpack,
    .add_rows = tile_add_rows,
    .softmax = tile_softmax,
    .scale_rows = tile_scale_rows,
    .softmax_grad = tile_softmax_grad,
    .transpose = tile_transpose,
    .exp2 = tile_exp2,
};

static const struct spp_ops vector_ops = SPP_OPS_BY_NAME;
