/* The lines that plan and predict share. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/units.h"
#include "model/launch.h"
#include "planner/advise.h"
#include "report/text.h"

static const char *method_words(const struct spp_job *job, char *buf, size_t size) {
  const char *optimizer =
      job->optimizer == SPP_OPTIMIZER_ADAMW ? "AdamW" : spp_optimizer_name(job->optimizer);
  const char *dtype = spp_dtype_name(spp_job_format(job));
  if (job->mode == SPP_MODE_INFER)
    snprintf(buf, size, "inference, %s", dtype);
  else if (spp_job_has_adapters(job))
    snprintf(buf, size, "%s rank %lld, %s, %s", job->method == SPP_METHOD_LORA ? "LoRA" : "QLoRA",
             (long long)job->lora_rank, dtype, optimizer);
  else
    snprintf(buf, size, "%s, %s, %s",
             job->method == SPP_METHOD_FULL ? "full fine-tuning" : spp_method_name(job->method), dtype,
             optimizer);
  return buf;
}

void spp_text_headline(const struct spp_report *report, const struct spp_job *job,
                       const struct spp_text_style *style, struct spp_str *out) {
  char params[32], active[32], seq[32], batch[32], method[128];
  int64_t nodes = spp_ceil_div(job->gpus, spp_max64(1, job->cluster->gpus_per_node));
  struct spp_para para;
  spp_para_begin(&para, style, NULL, out);
  if (job->params.active < job->params.total)
    spp_para_item(&para, SPP_TONE_TITLE, "%s (%s, %s active)", job->arch->display,
                  spp_int_print(job->params.total, params), spp_int_print(job->params.active, active));
  else
    spp_para_item(&para, SPP_TONE_TITLE, "%s (%s)", job->arch->display,
                  spp_int_print(job->params.total, params));
  spp_para_item(&para, SPP_TONE_PLAIN, "%s%s%s",
                job->mode == SPP_MODE_TRAIN || job->mode == SPP_MODE_INFER ? "" : spp_mode_name(job->mode),
                job->mode == SPP_MODE_TRAIN || job->mode == SPP_MODE_INFER ? "" : ", ",
                method_words(job, method, sizeof method));
  spp_para_item(&para, SPP_TONE_PLAIN, "%s tokens x %s per %s", spp_int_print(job->seq_tokens, seq),
                spp_int_print(job->global_batch, batch), spp_job_round(job));
  if (nodes == 1)
    spp_para_item(&para, SPP_TONE_PLAIN, "%lld x %s, one node", (long long)job->gpus, job->gpu->display);
  else
    spp_para_item(&para, SPP_TONE_PLAIN, "%lld x %s, %lld nodes", (long long)job->gpus, job->gpu->display,
                  (long long)nodes);
  if (report->searched_frameworks > 1)
    spp_para_item(&para, SPP_TONE_PLAIN, "best of %d frameworks", report->searched_frameworks);
  spp_para_end(&para);
}

/* "58.1 of 79.1 GiB a GPU (80 %: 56.4-60.2)" */
static void memory_words(const struct spp_memory *memory, char *buf, size_t size) {
  char device[32], capacity[32], low[32], high[32];
  snprintf(buf, size, "%s of %s GiB a GPU (80 %%: %s-%s)", spp_text_gib(memory->device_bytes, device),
           spp_text_gib(memory->capacity_bytes, capacity), spp_text_gib(memory->low_bytes, low),
           spp_text_gib(memory->high_bytes, high));
}

static void speed_words(const struct spp_time *time, char *buf, size_t size) {
  char rate[32], low[32], high[32];
  double per_step = time->tokens_per_s_per_gpu * time->step_s;
  if (!(time->step_s > 0) || !(time->low_s > 0) || !(time->high_s > 0)) {
    snprintf(buf, size, "speed unknown");
    return;
  }
  snprintf(buf, size, "%s tok/s a GPU (80 %%: %s-%s)", spp_text_rate(time->tokens_per_s_per_gpu, rate),
           spp_text_rate(per_step / time->high_s, low), spp_text_rate(per_step / time->low_s, high));
}

/* Pieces of the verdict, three spaces apart, on one line where they fit. */
static void verdict_piece(const struct spp_text_style *style, const char *text, int *column,
                          struct spp_str *out) {
  int width = (int)strlen(text);
  if (*column > 7 && *column + 3 + width > style->width) {
    spp_str_addc(out, '\n');
    spp_str_fill(out, ' ', 7);
    *column = 7;
  } else if (*column > 7) {
    spp_str_add(out, "   ");
    *column += 3;
  }
  spp_str_add(out, text);
  *column += width;
}

void spp_text_verdict(const struct spp_job *job, const struct spp_prediction *prediction,
                      const struct spp_text_style *style, struct spp_str *out) {
  const struct spp_memory *memory = &prediction->memory;
  const struct spp_time *time = &prediction->time;
  bool fits = memory->fits && memory->host_fits;
  char piece[160], seconds[32], share[32];
  int column = 7;
  spp_text_paint(style, fits ? SPP_TONE_GOOD : SPP_TONE_BAD,
                 fits           ? "FITS"
                 : memory->fits ? "HOST"
                                : "OOM",
                 out);
  spp_str_fill(out, ' ', fits || memory->fits ? 3 : 4);
  memory_words(memory, piece, sizeof piece);
  verdict_piece(style, piece, &column, out);
  if (memory->fits && memory->fit_probability < 0.9) {
    snprintf(piece, sizeof piece, "%s %% likely", spp_text_percent(memory->fit_probability, share));
    verdict_piece(style, piece, &column, out);
  }
  speed_words(time, piece, sizeof piece);
  verdict_piece(style, piece, &column, out);
  snprintf(piece, sizeof piece, "%s a %s", spp_seconds_print(time->step_s, seconds), spp_job_round(job));
  verdict_piece(style, piece, &column, out);
  snprintf(piece, sizeof piece, "MFU %s %%", spp_text_percent(time->mfu_causal, share));
  verdict_piece(style, piece, &column, out);
  spp_str_addc(out, '\n');
}

/* One letter a part; the colour of its background in colour mode. */
static const struct {
  char letter;
  int background; /* of 256 */
} bar_parts[SPP_PART_COUNT] = {
    [SPP_PART_WEIGHTS] = {'w', 67},      [SPP_PART_GRADIENTS] = {'g', 65},
    [SPP_PART_MASTER] = {'m', 61},       [SPP_PART_OPTIMIZER] = {'o', 97},
    [SPP_PART_ACTIVATIONS] = {'A', 130}, [SPP_PART_LAYER_INPUTS] = {'L', 136},
    [SPP_PART_TRANSIENT] = {'t', 94},    [SPP_PART_LOGITS] = {'l', 124},
    [SPP_PART_KV_CACHE] = {'k', 30},     [SPP_PART_SHARDING_BUFFERS] = {'s', 66},
    [SPP_PART_VISION] = {'v', 29},       [SPP_PART_NCCL] = {'n', 240},
    [SPP_PART_CONTEXT] = {'c', 238},     [SPP_PART_ALLOCATOR] = {'a', 242},
};

static void bar_cell(const struct spp_text_style *style, int part, struct spp_str *out) {
  if (style->color)
    spp_str_addf(out, "\033[48;5;%d;97m%c\033[0m", bar_parts[part].background, bar_parts[part].letter);
  else
    spp_str_addc(out, bar_parts[part].letter);
}

/* Cell i of the bar shows the part that lies over its middle; '|' marks the capacity when the need passes it.
 */
static void bar(const struct spp_memory *memory, const struct spp_text_style *style, struct spp_str *out) {
  int cells = style->width - SPP_TEXT_LABEL - 2;
  int64_t whole = spp_max64(memory->device_bytes, memory->capacity_bytes);
  double per_cell = (double)whole / cells;
  bool over = memory->device_bytes > memory->capacity_bytes;
  double end = (double)memory->parts[0];
  int part = 0;
  spp_str_addc(out, '[');
  for (int i = 0; i < cells; i++) {
    double middle = (i + 0.5) * per_cell;
    while (part < SPP_PART_COUNT && middle > end)
      if (++part < SPP_PART_COUNT) end += (double)memory->parts[part];
    if (over && (double)memory->capacity_bytes >= i * per_cell &&
        (double)memory->capacity_bytes < (i + 1) * per_cell)
      spp_text_paint(style, SPP_TONE_BAD, "|", out);
    else if (part < SPP_PART_COUNT)
      bar_cell(style, part, out);
    else
      spp_str_addc(out, '.');
  }
  spp_str_add(out, "]\n");
}

void spp_text_memory_bar(const struct spp_job *job, const struct spp_memory *memory,
                         const struct spp_text_style *style, struct spp_str *out) {
  char gib[32];
  struct spp_para para;
  spp_text_paint(style, SPP_TONE_DIM, "memory", out);
  spp_str_fill(out, ' ', SPP_TEXT_LABEL - 6);
  bar(memory, style, out);
  spp_para_begin(&para, style, "", out);
  for (int i = 0; i < SPP_PART_COUNT; i++)
    if (memory->parts[i] >= INT64_C(1) << 26)
      spp_para_item(&para, SPP_TONE_PLAIN, "%c %s %s", bar_parts[i].letter,
                    spp_part_words(job, (enum spp_part)i), spp_text_gib(memory->parts[i], gib));
  spp_para_item(&para, SPP_TONE_PLAIN, "peak in: %s",
                spp_phase_words(job, spp_moment_phase(memory->peak_moment)));
  if (memory->host_bytes_per_node > 0)
    spp_para_item(&para, memory->host_fits ? SPP_TONE_PLAIN : SPP_TONE_BAD, "host RAM %s a node%s",
                  spp_bytes_print(memory->host_bytes_per_node, gib),
                  memory->host_fits ? "" : ", more than there is");
  spp_para_end(&para);
}

static const char *collective_words(enum spp_collective op) {
  static const char *const words[SPP_COLLECTIVE_COUNT] = {
      [SPP_ALL_TO_ALL] = "all-to-all", [SPP_SEND_RECV] = "send/recv",
      [SPP_ALL_GATHER] = "all-gather", [SPP_REDUCE_SCATTER] = "reduce-scatter",
      [SPP_ALL_REDUCE] = "all-reduce",
  };
  return words[op];
}

/* The ring group carries keys and values, gathered whole or passed on. */
static const char *group_words(const struct spp_layout *layout, enum spp_group group) {
  static const char *const words[SPP_GROUP_COUNT] = {
      [SPP_GROUP_ULYSSES] = "Ulysses", [SPP_GROUP_RING] = "ring", [SPP_GROUP_TP] = "TP",
      [SPP_GROUP_PP] = "PP",           [SPP_GROUP_DP] = "DP",     [SPP_GROUP_EP] = "EP",
  };
  return group == SPP_GROUP_RING && layout->sp_kind == SPP_SP_ALLGATHER ? "KV" : words[group];
}

void spp_text_comm_line(const struct spp_job *job, const struct spp_layout *layout,
                        const struct spp_comm *comm, const struct spp_text_style *style,
                        struct spp_str *out) {
  struct spp_comm_sum sums[SPP_COLLECTIVE_COUNT * SPP_GROUP_COUNT];
  int count = spp_fact_comm_sums(comm, sums, SPP_COLLECTIVE_COUNT * SPP_GROUP_COUNT);
  char bytes[32], hidden[32], seconds[32];
  struct spp_para para;
  spp_para_begin(&para, style, "comm", out);
  if (count == 0) spp_para_item(&para, SPP_TONE_PLAIN, "none");
  for (int i = 0; i < count && (i < 4 || style->verbose); i++) {
    double share = sums[i].time_s > 0 ? 1.0 - sums[i].exposed_s / sums[i].time_s : 1.0;
    spp_para_item(
        &para, SPP_TONE_PLAIN, "%s %s %s a %s, %s (hidden %s %%)", group_words(layout, sums[i].group),
        collective_words(sums[i].op), spp_bytes_print_decimal(sums[i].step_bytes, bytes), spp_job_round(job),
        spp_seconds_print(sums[i].time_s, seconds), spp_text_percent(fmin(fmax(share, 0), 1), hidden));
  }
  spp_para_end(&para);
}

void spp_text_epoch_line(const struct spp_report *report, const struct spp_job *job,
                         const struct spp_prediction *prediction, const struct spp_text_style *style,
                         struct spp_str *out) {
  double epoch_s = spp_fact_epoch_s(report, prediction);
  double usd = job->usd_per_gpu_hour * (double)job->gpus * epoch_s / 3600.0;
  char seconds[32], dollars[32];
  struct spp_para para;
  if (!(epoch_s > 0)) return;
  spp_para_begin(&para, style, "epoch", out);
  spp_para_item(&para, SPP_TONE_PLAIN, "%s", spp_seconds_print(epoch_s, seconds));
  if (usd > 0 && usd < 1e15)
    spp_para_item(&para, SPP_TONE_PLAIN, "%s USD at %.2f USD a GPU-hour", spp_text_rate(usd, dollars),
                  job->usd_per_gpu_hour);
  spp_para_end(&para);
}

void spp_text_cost_item(const struct spp_job *job, const struct spp_time *time, struct spp_para *para) {
  char usd[32];
  if (time->usd_per_million_tokens > 0)
    spp_para_item(para, SPP_TONE_PLAIN, "%s USD a million tokens at %.2f USD a GPU-hour",
                  spp_text_rate(time->usd_per_million_tokens, usd), job->usd_per_gpu_hour);
}

void spp_text_failures_line(const struct spp_report *report, const struct spp_plan *plan,
                            const struct spp_text_style *style, struct spp_str *out) {
  const struct spp_prediction *prediction = &plan->prediction;
  double epoch_s = spp_fact_epoch_s(report, prediction);
  char share[32], mtbf[32], every[32], steps[32], bytes[32], write[32], restart[32], epoch[32], rate[32];
  struct spp_goodput g;
  struct spp_para para;
  if (!spp_goodput_predict(&report->failures, &plan->job, &plan->layout, &prediction->time, &g)) return;
  spp_para_begin(&para, style, "failures", out);
  spp_para_item(&para, SPP_TONE_PLAIN, "goodput %s %%: %s tok/s in all", spp_text_percent(g.share, share),
                spp_text_rate(g.tokens_per_s, rate));
  spp_para_item(&para, SPP_TONE_PLAIN, "one every %s", spp_seconds_print(g.job_mtbf_s, mtbf));
  spp_para_item(&para, SPP_TONE_PLAIN, "checkpoint every %s (%s step%s): %s in %s",
                spp_seconds_print(g.interval_s, every), spp_int_print(g.interval_steps, steps),
                g.interval_steps == 1 ? "" : "s", spp_bytes_print_decimal(g.checkpoint_bytes, bytes),
                spp_seconds_print(g.checkpoint_s, write));
  spp_para_item(&para, SPP_TONE_PLAIN, "restart %s", spp_seconds_print(g.restart_s, restart));
  if (epoch_s > 0 && g.share > 0)
    spp_para_item(&para, SPP_TONE_PLAIN, "epoch %s", spp_seconds_print(epoch_s / g.share, epoch));
  spp_para_end(&para);
}

void spp_text_warnings(const struct spp_report *report, const struct spp_plan *plan,
                       const struct spp_text_style *style, struct spp_str *out) {
  struct spp_advice advice[SPP_MAX_ADVICE];
  int count = spp_fact_warnings(report, plan, advice, SPP_MAX_ADVICE);
  spp_text_advice(style, "warning", SPP_TONE_WARN, advice, count,
                  style->verbose ? SPP_MAX_ADVICE : 4 + report->idle_count, out);
}

void spp_text_assumed(const struct spp_report *report, const struct spp_plan *plan,
                      const struct spp_text_style *style, struct spp_str *out) {
  struct spp_advice advice[SPP_MAX_ADVICE];
  int count = spp_fact_assumed(report, plan, style->verbose, advice, SPP_MAX_ADVICE);
  struct spp_para para;
  if (count == 0) return;
  spp_para_begin(&para, style, "assumed", out);
  for (int i = 0; i < count; i++)
    spp_para_item(&para, SPP_TONE_PLAIN, "%s", advice[i].text);
  spp_para_end(&para);
}

/* Columns before the command: a narrow screen leaves no room for a label, since words of it cannot be broken.
 */
static int command_indent(const struct spp_text_style *style) {
  enum { ROOM_FOR_LABEL = 70 };
  return style->width < ROOM_FOR_LABEL ? 2 : SPP_TEXT_LABEL;
}

/* Words of a command, wrapped with backslashes. Returns the lines it took. */
static int wrap_command(const char *command, const struct spp_text_style *style, struct spp_str *out) {
  int indent = command_indent(style), column = indent, lines = 1;
  for (const char *word = command; *word;) {
    size_t length = strcspn(word, " ");
    if (column > indent && column + (int)length + 2 > style->width) {
      spp_str_add(out, "\\\n");
      spp_str_fill(out, ' ', indent);
      column = indent;
      lines++;
    }
    spp_str_addn(out, word, length);
    word += length + strspn(word + length, " ");
    if (*word) spp_str_addc(out, ' ');
    column += (int)length + 1;
  }
  spp_str_addc(out, '\n');
  return lines;
}

void spp_text_launch(const struct spp_job *job, const struct spp_layout *layout,
                     const struct spp_text_style *style, struct spp_str *out) {
  enum { SHORT_LINES = 14 }; /* the longest shipped template fits; a file of the user's may not */
  struct spp_str command, wrapped;
  spp_str_init(&command);
  spp_str_init(&wrapped);
  spp_framework_launch(job, layout, &command);
  if (command.len &&
      (wrap_command(spp_str_text(&command), style, &wrapped) <= SHORT_LINES || style->verbose)) {
    spp_text_paint(style, SPP_TONE_DIM, "run", out);
    int indent = command_indent(style);
    if (indent < SPP_TEXT_LABEL) spp_str_addc(out, '\n');
    spp_str_fill(out, ' ', indent < SPP_TEXT_LABEL ? indent : SPP_TEXT_LABEL - 3);
    spp_str_add(out, spp_str_text(&wrapped));
  } else if (command.len) {
    char words[160];
    snprintf(words, sizeof words, "%d characters of command for %s: -v or --json prints it", (int)command.len,
             job->framework->display);
    spp_text_line(style, "run", SPP_TONE_DIM, words, out);
  }
  spp_str_free(&wrapped);
  spp_str_free(&command);
}
