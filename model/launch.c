#include "model/launch.h"

#include <stdio.h>

#include "model/values.h"

void spp_framework_launch(const struct spp_job *job, const struct spp_layout *layout, struct spp_str *out) {
  const struct spp_framework *f = job->framework;
  char word[512];
  bool first = true;
  for (int i = 0; i < f->launch_count; i++) {
    if (!spp_condition_holds(f->launch[i].when, job, layout)) continue;
    if (!first) spp_str_addc(out, ' ');
    spp_str_add(out, spp_template_expand(f->launch[i].text, job, layout, word, sizeof word));
    first = false;
  }
}

bool spp_launch_check(const struct spp_launch_word *word, char *wrong, size_t size) {
  char bad[64];
  if (!spp_template_check(word->text, bad, sizeof bad))
    snprintf(wrong, size, "no placeholder is called %s", bad);
  else if (!spp_condition_check(word->when, bad, sizeof bad))
    snprintf(wrong, size,
             "the condition \"%s\" cannot be read (name=value terms joined by '&', such as \"sp>1&zero=3\")",
             bad);
  else
    return true;
  return false;
}
