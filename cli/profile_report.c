#include "cli/profile_report.h"

#include <inttypes.h>
#include <math.h>

#include "exec/host.h"
#include "report/json_parts.h"
#include "report/text.h"

/* ---- the members that `--cluster FILE` reads (configs/README.md) ---- */

static void json_cluster(struct spp_jo *jo, const struct spp_cluster *c) {
  spp_jo_str(jo, "name", c->name);
  spp_jo_str(jo, "display", c->display);
  spp_jo_i64(jo, "gpus_per_node", c->gpus_per_node);
  spp_jo_i64(jo, "domain_gpus", c->domain_gpus);
  spp_jo_str(jo, "fabric", "switch");
  spp_jo_real(jo, "processors_per_node", c->processors_per_node);
  spp_jo_real(jo, "link_bytes_per_s", c->link_bytes_per_s);
  spp_jo_i64(jo, "nics_per_node", c->nics_per_node);
  spp_jo_real(jo, "nic_bytes_per_s", c->nic_bytes_per_s);
  spp_jo_real(jo, "nic_bytes_per_s_per_gpu", c->nic_bytes_per_s_per_gpu);
  spp_jo_real(jo, "nic_latency_s", c->nic_latency_s);
  spp_jo_real(jo, "link_latency_s", c->link_latency_s);
  spp_jo_i64(jo, "host_bytes", c->host_bytes);
  spp_jo_real(jo, "host_memory_bytes_per_s", c->host_memory_bytes_per_s);
}

static void json_device(struct spp_jo *jo, const struct spp_gpu *g) {
  spp_jo_obj(jo, "device");
  spp_jo_str(jo, "name", g->name);
  spp_jo_str(jo, "display", g->display);
  spp_jo_i64(jo, "capacity_bytes", g->capacity_bytes);
  spp_jo_real(jo, "memory_bytes_per_s", g->memory_bytes_per_s);
  spp_jo_obj(jo, "flops_per_s");
  spp_jo_real(jo, "fp32", g->flops_per_s[SPP_DTYPE_FP32]);
  spp_jo_end(jo);
  spp_jo_str(jo, "link", "messages");
  spp_jo_real(jo, "link_bytes_per_s", g->link_bytes_per_s);
  spp_jo_real(jo, "pcie_bytes_per_s", g->pcie_bytes_per_s);
  spp_jo_end(jo);
}

static void json_pass(struct spp_jo *jo, const char *key, const struct spp_attention_pass *p) {
  spp_jo_obj(jo, key);
  spp_jo_real(jo, "t0_us", p->t0_s * 1e6);
  spp_jo_real(jo, "efficiency", p->efficiency);
  spp_jo_real(jo, "tile_us", p->tile_s * 1e6);
  spp_jo_real(jo, "memory_efficiency", p->memory_efficiency);
  spp_jo_end(jo);
}

static void json_attention(struct spp_jo *jo, const struct spp_calib *c) {
  static const char *const widths[2] = {"64", "128"}, *const same[] = {"eager", "sdpa", "fa3", "te", "fa1"};
  spp_jo_obj(jo, "attention");
  spp_jo_obj(jo, "fa2");
  for (int i = 0; i < 2; i++) {
    spp_jo_obj(jo, widths[i]);
    json_pass(jo, "forward", &c->attention[SPP_ATTN_FA2][i].forward);
    json_pass(jo, "backward", &c->attention[SPP_ATTN_FA2][i].backward);
    spp_jo_end(jo);
  }
  spp_jo_end(jo);
  for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
    spp_jo_obj(jo, same[i]);
    spp_jo_str(jo, "same_as", "fa2");
    spp_jo_end(jo);
  }
  spp_jo_end(jo);
}

static void json_collectives(struct spp_jo *jo, const char *key, const struct spp_collective_fit *fits) {
  spp_jo_obj(jo, key);
  for (int op = 0; op < SPP_COLLECTIVE_COUNT; op++) {
    spp_jo_obj(jo, spp_collective_name((enum spp_collective)op));
    spp_jo_real(jo, "a0_us", fits[op].a0_s * 1e6);
    spp_jo_real(jo, "a1_us", fits[op].a1_s * 1e6);
    spp_jo_real(jo, "link_share", fits[op].link_share);
    spp_jo_real(jo, "half_mb", fits[op].half_bytes / 1e6);
    spp_jo_end(jo);
  }
  spp_jo_end(jo);
}

static void json_ratios(struct spp_jo *jo, const struct spp_calib *c) {
  spp_jo_obj(jo, "ratios");
  spp_jo_real(jo, "sustained", c->sustained);
  spp_jo_real(jo, "wgrad", c->wgrad_ratio);
  spp_jo_real(jo, "dgrad", c->dgrad_ratio);
  spp_jo_real(jo, "grouped", c->grouped_gemm_ratio);
  spp_jo_real(jo, "fp8", 1); /* processors have no products in 8 bit */
  spp_jo_end(jo);
}

static void json_calib(struct spp_jo *jo, const struct spp_profile *p) {
  const struct spp_calib *c = &p->calib;
  spp_jo_obj(jo, "calib");
  spp_jo_arr(jo, "measured_on");
  spp_jo_str(jo, NULL, p->gpu.name);
  spp_jo_end(jo);
  spp_jo_real(jo, "sigma", c->sigma);
  spp_jo_obj(jo, "gemm");
  spp_jo_real(jo, "t0_us", c->gemm.t0_s * 1e6);
  spp_jo_real(jo, "efficiency", c->gemm.efficiency);
  spp_jo_real(jo, "memory_efficiency", c->gemm.memory_efficiency);
  spp_jo_real(jo, "m_half", c->gemm.m_half);
  spp_jo_real(jo, "n_half", c->gemm.n_half);
  spp_jo_real(jo, "k_half", c->gemm.k_half);
  spp_jo_end(jo);
  json_ratios(jo, c);
  json_attention(jo, c);
  spp_jo_obj(jo, "memory");
  for (int i = 0; i < SPP_MEMORY_KERNEL_COUNT; i++)
    spp_jo_real(jo, spp_memory_kernel_name((enum spp_memory_kernel)i), c->memory_share[i]);
  spp_jo_real(jo, "launch_us", c->launch_s * 1e6);
  spp_jo_end(jo);
  json_collectives(jo, "link", c->link);
  json_collectives(jo, "pcie", c->pcie);
  json_collectives(jo, "network", c->network);
  spp_jo_obj(jo, "host_copy");
  spp_jo_real(jo, "pcie_share", c->pcie_share);
  spp_jo_real(jo, "host_memory_share", c->host_memory_share);
  spp_jo_end(jo);
  spp_jo_end(jo);
}

/* ---- what stands behind them ---- */

static void json_fit(struct spp_jo *jo, const struct spp_fit_row *row) {
  spp_jo_obj(jo, NULL);
  spp_jo_str(jo, "section", row->section);
  spp_jo_str(jo, "name", row->name);
  spp_jo_i64(jo, "points", row->points);
  spp_jo_real(jo, "median_error", row->median_error);
  spp_jo_real(jo, "p90_error", row->p90_error);
  spp_jo_arr(jo, "constants");
  for (int i = 0; i < row->count; i++) {
    spp_jo_obj(jo, NULL);
    spp_jo_str(jo, "constant", row->keys[i]);
    spp_jo_real(jo, "value", row->values[i]);
    spp_jo_real(jo, "standard_error", row->errors[i]);
    spp_jo_end(jo);
  }
  spp_jo_end(jo);
  spp_jo_end(jo);
}

static void json_point(struct spp_jo *jo, const struct spp_measured *m) {
  spp_jo_obj(jo, NULL);
  spp_jo_str(jo, "what", spp_measured_name(m->what));
  spp_jo_i64(jo, "variant", m->variant);
  spp_jo_arr(jo, "size");
  for (int i = 0; i < 3; i++)
    spp_jo_i64(jo, NULL, m->size[i]);
  spp_jo_end(jo);
  spp_jo_i64(jo, "samples", m->samples);
  spp_jo_real(jo, "median_s", m->median_s);
  spp_jo_real(jo, "mad_s", m->mad_s);
  spp_jo_end(jo);
}

void spp_json_profile(const struct spp_profile_answer *a, struct spp_str *out) {
  const struct spp_profile *p = a->profile;
  struct spp_jo jo;
  spp_jp_open(&jo, out, "spplan.calibrate/1", &a->report);
  json_cluster(&jo, &p->cluster);
  json_device(&jo, &p->gpu);
  json_calib(&jo, p);
  spp_jo_obj(&jo, "machine");
  spp_jo_str(&jo, "backend", a->backend);
  spp_jo_i64(&jo, "ranks", p->ranks);
  spp_jo_i64(&jo, "hosts", p->hosts);
  spp_jo_i64(&jo, "processors", spp_host_processors());
  spp_jo_str(&jo, "kernels", a->kernels);
  spp_jo_real(&jo, "spread", p->spread);
  spp_jo_real_if(&jo, "others_share", p->others_share, p->others_share >= 0);
  spp_jo_end(&jo);
  spp_jo_arr(&jo, "fits");
  for (int i = 0; i < p->fit_count; i++)
    json_fit(&jo, &p->fits[i]);
  spp_jo_end(&jo);
  spp_jo_arr(&jo, "points");
  for (int i = 0; i < p->point_count; i++)
    json_point(&jo, &p->points[i]);
  spp_jo_end(&jo);
  spp_jo_end(&jo);
}

/* "122 +- 1" */
static void constant(const struct spp_fit_row *row, int i, bool utf8, struct spp_str *out) {
  spp_str_addf(out, "%s %.3g", row->keys[i], row->values[i]);
  if (isfinite(row->errors[i])) spp_str_addf(out, " %s %.1g", utf8 ? "±" : "+-", row->errors[i]);
}

static void text_fit(const struct spp_profile_answer *a, const struct spp_fit_row *row, struct spp_str *out) {
  struct spp_para para;
  struct spp_str one;
  spp_str_addf(out, "%s, %s: %d points, off by %.1f %% (median), %.0f %% (nine of ten)\n", row->section,
               row->name, row->points, 100 * row->median_error, 100 * row->p90_error);
  if (!a->style.verbose) return;
  spp_para_begin(&para, &a->style, "", out);
  for (int i = 0; i < row->count; i++) {
    spp_str_init(&one);
    constant(row, i, a->style.utf8, &one);
    spp_para_item(&para, SPP_TONE_DIM, "%s", spp_str_text(&one));
    spp_str_free(&one);
  }
  spp_para_end(&para);
}

void spp_text_profile(const struct spp_profile_answer *a, struct spp_str *out) {
  const struct spp_profile *p = a->profile;
  spp_str_addf(out, "%s backend · %d rank%s on %d host%s · %" PRId64 " processors\n", a->backend, p->ranks,
               p->ranks == 1 ? "" : "s", p->hosts, p->hosts == 1 ? "" : "s", spp_host_processors());
  spp_text_line(&a->style, "runs on", SPP_TONE_DIM, a->kernels, out);
  spp_str_addf(out, "\none rank   products %.1f GFLOP/s, memory %.1f GB/s\n",
               p->gpu.flops_per_s[SPP_DTYPE_FP32] * p->calib.gemm.efficiency / 1e9,
               p->gpu.memory_bytes_per_s / 1e9);
  spp_str_addf(out, "messages   %.1f us, %.2f GB/s inside a host", p->cluster.link_latency_s * 1e6,
               p->cluster.link_bytes_per_s / 1e9);
  if (p->hosts > 1)
    spp_str_addf(out, " · %.1f us, %.3f GB/s between hosts", p->cluster.nic_latency_s * 1e6,
                 p->cluster.nic_bytes_per_s / 1e9);
  spp_str_addf(out, "\nspread     %.1f %% of a call's time", 100 * p->spread);
  if (p->others_share >= 0)
    spp_str_addf(out, " · others used %.0f %% of the processors", 100 * p->others_share);
  spp_str_add(out, "\n\n");
  for (int i = 0; i < p->fit_count; i++)
    text_fit(a, &p->fits[i], out);
  if (a->file)
    spp_str_addf(out, "\nwritten to %s: use it as --cluster %s\n", a->file, a->file);
  else
    spp_str_add(
        out,
        "\nnot kept: -o FILE writes the profile that plan, predict and validate take as --cluster FILE\n");
}

void spp_csv_profile(const struct spp_profile_answer *a, struct spp_str *out) {
  spp_str_add(out, "section,name,constant,value,standard_error,points,median_error,p90_error\n");
  for (int i = 0; i < a->profile->fit_count; i++) {
    const struct spp_fit_row *row = &a->profile->fits[i];
    for (int k = 0; k < row->count; k++)
      spp_str_addf(out, "%s,\"%s\",%s,%.6g,%.6g,%d,%.6g,%.6g\n", row->section, row->name, row->keys[k],
                   row->values[k], isfinite(row->errors[k]) ? row->errors[k] : 0, row->points,
                   row->median_error, row->p90_error);
  }
}
