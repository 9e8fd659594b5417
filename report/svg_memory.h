/* The colours of memory and time parts, and their bars: what several pictures share. */
#ifndef SPP_REPORT_SVG_MEMORY_H
#define SPP_REPORT_SVG_MEMORY_H

#include "report/facts.h"
#include "report/svg.h"

const char *spp_svg_part_colour(enum spp_part part);
const char *spp_svg_time_colour(int part); /* by spp_time_parts */
const char *spp_svg_time_word(int part);   /* a few words for legends */
/* The parts of a prediction as one stacked bar around y; with what each is, on hover. */
void spp_svg_memory_bar(const struct spp_svg_chart *chart, const struct spp_memory *memory, double y,
                        double thick);
void spp_svg_time_bar(const struct spp_svg_chart *chart, const struct spp_time *time, double y, double thick);

#endif
