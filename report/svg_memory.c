#include "report/svg_memory.h"

#include <stdio.h>

#include "base/units.h"

/* States in blues and greens, activations in warm colours, what the libraries take in greys: each tells from
 * its neighbours in the stack on white and on black. */
static const char *const part_colours[SPP_PART_COUNT] = {
    [SPP_PART_WEIGHTS] = "#0072b2",     [SPP_PART_GRADIENTS] = "#56b4e9",
    [SPP_PART_MASTER] = "#00796b",      [SPP_PART_OPTIMIZER] = "#2fb98a",
    [SPP_PART_ACTIVATIONS] = "#d55e00", [SPP_PART_LAYER_INPUTS] = "#e69f00",
    [SPP_PART_TRANSIENT] = "#c9b400",   [SPP_PART_LOGITS] = "#cc5f9b",
    [SPP_PART_KV_CACHE] = "#9467bd",    [SPP_PART_SHARDING_BUFFERS] = "#8c564b",
    [SPP_PART_VISION] = "#6f7bd1",      [SPP_PART_NCCL] = "#9a9a9a",
    [SPP_PART_CONTEXT] = "#6e6e6e",     [SPP_PART_ALLOCATOR] = "#bdbdbd",
};
const char *spp_svg_part_colour(enum spp_part part) {
  return part_colours[part];
}

/* In the order of spp_time_parts. */
static const struct {
  const char *colour, *word;
} time_looks[] = {{"#0072b2", "compute"},
                  {"#2fb98a", "attention"},
                  {"#d55e00", "sequence parallel"},
                  {"#e69f00", "tensor parallel"},
                  {"#bdbdbd", "bubble"},
                  {"#8c564b", "pipeline sends"},
                  {"#cc5f9b", "data parallel, ZeRO"},
                  {"#9467bd", "expert parallel"},
                  {"#c9b400", "offload"},
                  {"#00796b", "optimizer"},
                  {"#6e6e6e", "host"}};
const char *spp_svg_time_colour(int part) {
  return time_looks[part].colour;
}
const char *spp_svg_time_word(int part) {
  return time_looks[part].word;
}

void spp_svg_memory_bar(const struct spp_svg_chart *chart, const struct spp_memory *memory, double y,
                        double thick) {
  double at = 0;
  char title[96], bytes[32];
  for (int i = 0; i < SPP_PART_COUNT; i++) {
    double wide = (double)memory->parts[i] / SPP_GIB;
    snprintf(title, sizeof title, "%s: %s", spp_part_label((enum spp_part)i),
             spp_bytes_print(memory->parts[i], bytes));
    if (wide > 0) spp_svg_bar(chart, at, at + wide, y, thick, part_colours[i], title);
    at += wide;
  }
}

void spp_svg_time_bar(const struct spp_svg_chart *chart, const struct spp_time *time, double y,
                      double thick) {
  double at = 0;
  char title[96], seconds[32];
  for (int i = 0; i < spp_time_part_count; i++) {
    double wide = spp_fact_time_part(time, i);
    snprintf(title, sizeof title, "%s: %s", spp_time_parts[i].label, spp_seconds_print(wide, seconds));
    if (wide > 0) spp_svg_bar(chart, at, at + wide, y, thick, time_looks[i].colour, title);
    at += wide;
  }
}
