/* validate: real training steps of a small model over real ranks, predicted beside measured. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/num.h"
#include "base/progress.h"
#include "cli/answer.h"
#include "cli/mpirun.h"
#include "cli/setup.h"
#include "cli/validate_report.h"
#include "exec/calib.h"
#include "exec/host.h"
#include "exec/suite.h"
#include "kernels/table.h"

enum { STEPS_DEFAULT = 5, SEQ_DEFAULT = 64, CASES_MAX = 512 };

/* Did the command line name a layout, so that one case is meant? */
static bool names_layout(const struct spp_cli *cli) {
  for (int i = 0; i < spp_option_count; i++)
    if (spp_options[i].layout && cli->set_by[i] == SPP_SET_BY_FLAG) return true;
  return cli->args.ranks > 0 || cli->args.model || cli->args.spec.seq_tokens > 0 ||
         cli->args.spec.global_batch > 0 || cli->args.doc_lengths || cli->args.scale ||
         cli->args.spec.expert_capacity > 0 || cli->args.spec.ring_order != SPP_UNSET ||
         cli->args.spec.dtype != SPP_UNSET;
}

static int64_t or_one(int64_t degree) {
  return degree > 0 ? degree : 1;
}

/* Ranks of the one case: said, or what its degrees multiply to. */
static int64_t ranks_of(const struct spp_args *args) {
  const struct spp_request *r = &args->request;
  int64_t sp = r->sp > 0 ? r->sp : spp_sat_mul(or_one(r->ulysses), or_one(r->ring));
  if (args->ranks > 0) return args->ranks;
  return spp_sat_mul(spp_sat_mul(or_one(r->tp), or_one(r->pp)), spp_sat_mul(sp, or_one(r->dp)));
}

static enum spp_status load_model(struct spp_cli *cli, const char *text, const struct spp_arch **arch,
                                  struct spp_diag *diag) {
  if (text) return spp_arch_parse(text, strlen(text), "suite", &cli->arena, arch, diag);
  struct spp_arch_scale scale = {0};
  if (cli->args.scale) {
    enum spp_status status = spp_arch_scale_parse(cli->args.scale, &scale, diag);
    if (status != SPP_OK) return status;
    if (!cli->args.model)
      return spp_diag_set(diag, SPP_ERR_USAGE, "--scale", "add --model", "there is no model to scale");
  }
  if (cli->args.model)
    return spp_arch_load_scaled(cli->config_dir, cli->args.model, &scale, &cli->arena, arch, diag);
  return spp_arch_parse(spp_suite_model, strlen(spp_suite_model), "suite", &cli->arena, arch, diag);
}

/* Parts that the engine runs without; the prediction of the case is without them too. */
static const char *left_out(const struct spp_arch *whole) {
  if (whole->vision.kind != SPP_VISION_NONE)
    return whole->mtp_layers > 0 ? "the vision tower, and the modules that predict several tokens"
                                 : "the vision tower: its language model is trained";
  return whole->mtp_layers > 0 ? "the modules that predict several tokens" : NULL;
}

/* A prepared case, beside what is reported of it. */
struct prepared {
  struct spp_validate_case run;
  struct spp_validated *report;
};

static void prepare(struct prepared *p, const char *name, const struct spp_exec_setting *setting,
                    int64_t steps) {
  snprintf(p->report->name, sizeof p->report->name, "%s", name);
  p->report->layout = setting->layout;
  p->report->ranks = spp_layout_world(&setting->layout);
  p->report->seq_tokens = setting->seq_tokens;
  p->report->contiguous = setting->contiguous;
  p->run = (struct spp_validate_case){.name = p->report->name, .setting = *setting, .steps = steps};
}

/* `usual`: of the case; 0: it has no number of its own. */
static int64_t steps_of(const struct spp_args *args, int64_t usual) {
  if (args->steps > 0) return args->steps;
  return usual > 0 ? usual : STEPS_DEFAULT;
}

/* Sequences of a step: enough to fill a pipeline twice, or to accumulate once. */
static int64_t default_batch(const struct spp_request *r, int64_t ranks, int64_t sp) {
  int64_t pp = or_one(r->pp), dp = ranks / (or_one(r->tp) * pp * sp);
  return or_one(r->micro_batch) * spp_max64(dp, 1) * 2 * pp;
}

static enum spp_status prepare_one(struct spp_cli *cli, struct spp_validate_answer *a, struct prepared *p,
                                   struct spp_diag *diag) {
  struct spp_args *args = &cli->args;
  struct spp_job_spec *spec = &args->spec;
  struct spp_job job;
  struct spp_layout layout;
  char name[96];
  const struct spp_arch *whole;
  enum spp_status status = load_model(cli, NULL, &whole, diag);
  if (status == SPP_OK) status = spp_arch_language_model(whole, &cli->arena, &spec->arch, diag);
  if (status != SPP_OK) return status;
  a->left_out = left_out(whole);
  int64_t sp =
      args->request.sp > 0 ? args->request.sp : or_one(args->request.ulysses) * or_one(args->request.ring);
  int64_t unit = spp_sat_mul(2 * sp, or_one(args->request.tp));
  spec->gpus = ranks_of(args);
  if (spec->gpus > SPP_EXEC_MAX_RANKS)
    return spp_diag_set(diag, SPP_ERR_USAGE, NULL, "choose smaller degrees",
                        "%lld ranks: at most %d are possible", (long long)spec->gpus, SPP_EXEC_MAX_RANKS);
  if (spec->dtype == SPP_UNSET) spec->dtype = SPP_DTYPE_FP32;
  if (spec->seq_tokens <= 0) spec->seq_tokens = spp_round_up(SEQ_DEFAULT, unit);
  if (spec->global_batch <= 0) spec->global_batch = default_batch(&args->request, spec->gpus, sp);
  if (spec->expert_capacity > 0 && spec->arch->experts == 0)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--moe-capacity", "leave it out", "the model has no experts");
  if ((status = spp_setup_documents(cli, args, diag)) != SPP_OK) return status;
  if ((status = spp_job_resolve(spec, a->framework, &job, diag)) != SPP_OK) return status;
  if (spec->arch->experts > 0 && args->request.etp == SPP_UNSET) args->request.etp = 1;
  if ((status = spp_layout_complete(&job, &args->request, &layout, diag)) != SPP_OK) return status;
  spp_layout_describe(&job, &layout, name, sizeof name);
  const struct spp_exec_setting setting = {.arch = spec->arch,
                                           .layout = layout,
                                           .seq_tokens = spec->seq_tokens,
                                           .dtype = job.dtype,
                                           .expert_capacity = job.expert_capacity,
                                           .contiguous = job.ring_order == SPP_RING_CONTIGUOUS,
                                           .doc_lengths = spec->documents.lengths,
                                           .doc_count = spec->documents.count};
  prepare(p, name, &setting, steps_of(args, 0));
  return SPP_OK;
}

static enum spp_status prepare_suite(struct spp_cli *cli, struct prepared *list,
                                     struct spp_validated *reports, int *count, struct spp_diag *diag) {
  enum spp_suite suite = cli->args.suite == SPP_UNSET ? SPP_SUITE_QUICK : (enum spp_suite)cli->args.suite;
  struct spp_suite_case c;
  for (*count = 0; *count < CASES_MAX && spp_suite_get(suite, *count, &c); ++*count) {
    struct spp_exec_setting setting = spp_suite_setting(&c);
    enum spp_status status = load_model(cli, c.model, &setting.arch, diag);
    if (status != SPP_OK) return status;
    list[*count].report = &reports[*count];
    prepare(&list[*count], c.name, &setting, steps_of(&cli->args, c.steps));
  }
  return SPP_OK;
}

static enum spp_status run_case(struct spp_cli *cli, const struct spp_backend *backend, int job_ranks,
                                bool suite, const struct prepared *p,
                                const struct spp_validate_hardware *hardware, struct spp_diag *diag) {
  struct spp_validated *v = p->report;
  if (job_ranks > 0 && v->ranks > job_ranks) {
    v->skipped = true;
    spp_diag_set(&v->why, SPP_ERR_USAGE, NULL, NULL, "needs %lld ranks, the MPI job has %d",
                 (long long)v->ranks, job_ranks);
    return SPP_OK;
  }
  struct spp_validate_case run = p->run;
  const char *lack = spp_validate_lack(backend, &run);
  run.hardware = hardware;
  if (lack && suite) {
    v->skipped = true;
    spp_diag_set(&v->why, SPP_ERR_ABSENT, NULL, NULL, "%s cannot carry %s", backend->name, lack);
    return SPP_OK;
  }
  return spp_validate_run(cli->config_dir, backend, &run, &v->result, diag);
}

static enum spp_status run_all(struct spp_cli *cli, const struct spp_backend *backend, int job_ranks,
                               const struct prepared *list, const struct spp_validate_hardware *hardware,
                               struct spp_validate_answer *a, struct spp_diag *diag) {
  enum spp_status status = SPP_OK;
  struct spp_progress progress;
  spp_progress_begin(&progress, &cli->term, cli->args.quiet > 0 || !backend->leads(), "validating");
  for (int i = 0; i < a->count; i++) {
    spp_progress_step(&progress, i, a->count, a->cases[i].name);
    if ((status = run_case(cli, backend, job_ranks, a->count > 1, &list[i], hardware, diag)) != SPP_OK) break;
    if (a->cases[i].skipped)
      a->skipped++;
    else if (spp_validate_ok(&a->cases[i].result))
      a->passed++;
    else
      a->failed++;
  }
  spp_progress_end(&progress);
  return status;
}

static void as_text(const void *what, const struct spp_cli *cli, struct spp_str *out) {
  spp_text_validate(what, cli->args.verbose > 0, cli->args.quiet > 0, out);
}
static void as_json(const void *what, struct spp_str *out) {
  spp_json_validate(what, out);
}
static void as_csv(const void *what, struct spp_str *out) {
  spp_csv_validate(what, out);
}

static enum spp_status write_junit(const struct spp_cli *cli, const struct spp_validate_answer *a,
                                   struct spp_diag *diag) {
  struct spp_str xml;
  if (!cli->args.junit) return SPP_OK;
  spp_str_init(&xml);
  spp_junit_validate(a, &xml);
  enum spp_status status =
      xml.failed ? spp_diag_oom(diag) : spp_answer_write_file(cli->args.junit, &xml, diag);
  spp_str_free(&xml);
  return status == SPP_OK ? SPP_OK : spp_answer_lost(cli, status, diag);
}

static enum spp_status report(struct spp_cli *cli, struct spp_validate_answer *a, struct spp_diag *diag) {
  struct spp_setup setup = {0};
  enum spp_status status = spp_setup_report(cli, &setup, NULL, false, &a->report, diag);
  a->style = spp_setup_style(cli);
  a->processors = sysconf(_SC_NPROCESSORS_ONLN);
  if (!a->device)
    spp_kernels_describe(spp_kernels_best(), a->kernels, sizeof a->kernels);
  else if (status == SPP_OK)
    status = a->device->describe(0, a->kernels, sizeof a->kernels, diag);
  if (status == SPP_OK) status = write_junit(cli, a, diag);
  if (status == SPP_OK)
    status = spp_answer_give(cli, &(struct spp_answer){a, as_text, as_json, as_csv, NULL}, diag);
  if (status != SPP_OK) return status;
  return a->failed > 0 ? SPP_ERR_TOLERANCE : SPP_OK;
}

/* Rates of this machine: a profile, or a second of measuring. Where neither is to be had time is not judged.
 */
static enum spp_status load_hardware(struct spp_cli *cli, struct spp_validate_hardware *hardware,
                                     struct spp_validate_answer *a, struct spp_diag *diag) {
  if (!cli->args.cluster) return SPP_OK;
  if (a->device)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--cluster", "leave it out",
                        "a profile is of the processor, the ranks work on %s", a->device->name);
  enum spp_status status =
      spp_cluster_load(cli->config_dir, cli->args.cluster, NULL, &cli->arena, &hardware->cluster, diag);
  if (status != SPP_OK) return status;
  if (!hardware->cluster->profile)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--cluster", "'spplan calibrate -o FILE' measures one",
                        "'%.100s' is no profile of this machine", cli->args.cluster);
  a->profile = spp_arena_printf(&cli->arena, "of %s", cli->args.cluster);
  if (!a->profile) return spp_diag_oom(diag);
  status = spp_cluster_device(hardware->cluster, &cli->arena, &hardware->gpu, diag);
  if (status != SPP_OK) return status;
  return spp_calib_load(cli->config_dir, hardware->gpu, hardware->cluster, &cli->arena, &hardware->calib,
                        diag);
}

/* Ranks that measure for cases of up to `most` ranks: no more than processors, but two for messages. */
static int measuring_ranks(int64_t most, int job_ranks) {
  int64_t ranks = spp_min64(most, spp_max64(2, spp_host_processors()));
  return (int)(job_ranks > 0 ? spp_min64(most, job_ranks) : ranks);
}

static enum spp_status measure_hardware(struct spp_cli *cli, const struct spp_backend *backend, int job_ranks,
                                        const struct spp_validate_answer *a,
                                        struct spp_validate_hardware *hardware, struct spp_diag *diag) {
  struct spp_profile *profile = spp_arena_alloc(&cli->arena, sizeof *profile);
  struct spp_calibrate_options options = {.quick = true, .timeout_s = 60};
  int64_t most = 1;
  if (hardware->gpu) return SPP_OK;
  if (a->device) {
    hardware->absent = "rates of devices are not measured";
    return SPP_OK;
  }
  if (!profile) return spp_diag_oom(diag);
  for (int i = 0; i < a->count; i++)
    most = spp_max64(most, a->cases[i].ranks);
  options.ranks = measuring_ranks(most, job_ranks);
  enum spp_status status = spp_calibrate(backend, &options, profile, diag);
  if (status == SPP_ERR_ABSENT) {
    hardware->absent = "rates cannot be fitted: built without GSL";
    return SPP_OK;
  }
  if (status != SPP_OK || !backend->leads()) return status;
  hardware->gpu = &profile->gpu;
  hardware->cluster = &profile->cluster;
  hardware->calib = &profile->calib;
  return SPP_OK;
}

/* A job too small for every case would pass without a run. */
static enum spp_status check_ranks(const struct spp_validate_answer *a, int job_ranks,
                                   struct spp_diag *diag) {
  const struct spp_validated *least = &a->cases[0];
  for (int i = 1; i < a->count; i++)
    if (a->cases[i].ranks < least->ranks) least = &a->cases[i];
  if (job_ranks == 0 || least->ranks <= job_ranks) return SPP_OK;
  return spp_diag_set(diag, SPP_ERR_USAGE, NULL, "start as many",
                      "%s needs %" PRId64 " ranks, the MPI job has %d", least->name, least->ranks, job_ranks);
}

/* Processes of an MPI job: all run the cases, one speaks. */
static enum spp_status run_and_report(struct spp_cli *cli, const struct spp_backend *backend,
                                      const struct prepared *list, struct spp_validate_answer *a,
                                      struct spp_validate_hardware *hardware, struct spp_diag *diag) {
  int job_ranks = 0;
  enum spp_status status = backend->start(&job_ranks, diag);
  if (status == SPP_OK && job_ranks > 0) status = spp_mpirun_check(job_ranks, diag);
  if (status == SPP_OK) status = check_ranks(a, job_ranks, diag);
  if (status == SPP_OK) status = measure_hardware(cli, backend, job_ranks, a, hardware, diag);
  if (status == SPP_OK) status = run_all(cli, backend, job_ranks, list, hardware, a, diag);
  bool leads = backend->leads();
  if (status == SPP_OK || !leads) backend->stop(status);
  if (leads) return status == SPP_OK ? report(cli, a, diag) : status;
  cli->args.output = NULL;
  *diag = (struct spp_diag){.status = SPP_OK};
  return SPP_OK;
}

/* What the ranks are to work on, and that it is there. NULL: the processor. */
static enum spp_status find_device(const struct spp_args *args, const struct spp_backend *backend,
                                   const struct spp_device **found, struct spp_diag *diag) {
  int count, asked = args->device == SPP_UNSET ? 0 : args->device;
  const struct spp_device *const *all = spp_devices_all(&count);
  *found = asked > 0 ? all[asked - 1] : NULL;
  for (int i = 0; i < count && backend->device && args->device == SPP_UNSET; i++)
    if (strcmp(all[i]->name, backend->device) == 0) *found = all[i];
  if (backend->device && (!*found || strcmp((*found)->name, backend->device) != 0))
    return spp_diag_set(diag, SPP_ERR_USAGE, "--device", "leave it out",
                        "%s sends between devices of the kind %s", backend->name, backend->device);
  struct spp_diag why = {.status = SPP_OK};
  if (!*found || spp_device_usable(*found, &why)) return SPP_OK;
  return spp_diag_set(diag, SPP_ERR_ABSENT, (*found)->name,
                      backend->device ? "use --backend mpi" : "leave --device out",
                      "no device can be used: %s", why.what);
}

/* Ranks of the job that mpirun is asked for: the most of any case, but of a suite no more than have a device
 * of their own where they need one. */
static int64_t job_size(const struct spp_validate_answer *a, const struct spp_backend *backend,
                        struct spp_diag *diag) {
  int64_t ranks = 1;
  for (int i = 0; i < a->count; i++)
    ranks = spp_max64(ranks, a->cases[i].ranks);
  return backend->device && a->count > 1 ? spp_min64(ranks, a->device->count(diag)) : ranks;
}

static enum spp_status prepare_cases(struct spp_cli *cli, struct prepared *list,
                                     struct spp_validate_answer *a, struct spp_diag *diag) {
  bool one = names_layout(cli);
  if (one && cli->args.suite != SPP_UNSET)
    return spp_diag_set(diag, SPP_ERR_USAGE, "--suite", "leave one of them out",
                        "a suite has its own models and layouts");
  if (!one) return prepare_suite(cli, list, a->cases, &a->count, diag);
  list[0].report = &a->cases[0];
  a->count = 1;
  return prepare_one(cli, a, &list[0], diag);
}

enum spp_status spp_run_validate(struct spp_cli *cli, struct spp_diag *diag) {
  struct spp_validate_answer *a = spp_arena_alloc(&cli->arena, sizeof *a);
  struct prepared *list = spp_arena_array(&cli->arena, CASES_MAX, sizeof *list);
  struct spp_validate_hardware hardware = {.gpu = NULL};
  const struct spp_backend *backend;
  int count;
  if (!a || !list) return spp_diag_oom(diag);
  a->profile = "measured before the cases";
  a->cases = spp_arena_array(&cli->arena, CASES_MAX, sizeof *a->cases);
  if (!a->cases) return spp_diag_oom(diag);
  a->backend = spp_backends_all(&count)[cli->args.backend == SPP_UNSET ? 0 : cli->args.backend]->name;
  enum spp_status status = spp_backend_find(a->backend, &backend, diag);
  if (status == SPP_OK)
    status = spp_framework_load(cli->config_dir, "spplan", &cli->arena, &a->framework, diag);
  if (status == SPP_OK) status = prepare_cases(cli, list, a, diag);
  if (status == SPP_OK) status = find_device(&cli->args, backend, &a->device, diag);
  if (status == SPP_OK) status = load_hardware(cli, &hardware, a, diag);
  if (status != SPP_OK) return status;
  for (int i = 0; i < a->count; i++)
    list[i].run.device = a->device;
  if (backend->starts_job && !spp_mpirun_inside())
    return spp_mpirun_start(cli, job_size(a, backend, diag), backend, diag);
  return run_and_report(cli, backend, list, a, &hardware, diag);
}
