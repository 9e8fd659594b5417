/* Which layouts a framework accepts. The table is in rules_general.c and rules_listed.c; index = general
 * rows, then listed. */
#include "model/rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "model/values.h"

static const struct spp_rule *rule_at(int index) {
  return index < spp_rules_general_count ? &spp_rules_general[index]
                                         : &spp_rules_listed[index - spp_rules_general_count];
}

int spp_rule_count(void) {
  return spp_rules_general_count + spp_rules_listed_count;
}

const char *spp_rule_id(int index) {
  return index >= 0 && index < spp_rule_count() ? rule_at(index)->id : "?";
}

unsigned spp_rule_axes(int index) {
  return index >= 0 && index < spp_rule_count() ? rule_at(index)->axes : 0;
}

int spp_rule_find(const char *id) {
  for (int i = 0; i < spp_rule_count(); i++)
    if (strcmp(rule_at(i)->id, id) == 0) return i;
  return -1;
}

int spp_rules_first(const struct spp_job *job, const struct spp_layout *layout) {
  for (int i = 0; i < spp_rules_general_count; i++)
    if (spp_rules_general[i].broken(job, layout)) return i;
  for (int i = 0; i < job->framework->rule_count; i++)
    if (rule_at(job->framework->rules[i].index)->broken(job, layout)) return job->framework->rules[i].index;
  return -1;
}

int spp_rules_first_of(const struct spp_job *job, const struct spp_layout *layout, unsigned axes) {
  for (int i = 0; i < spp_rules_general_count; i++)
    if ((spp_rules_general[i].axes & axes) && spp_rules_general[i].broken(job, layout)) return i;
  for (int i = 0; i < job->framework->rule_count; i++) {
    int index = job->framework->rules[i].index;
    if ((rule_at(index)->axes & axes) && rule_at(index)->broken(job, layout)) return index;
  }
  return -1;
}

int spp_rules_list(const struct spp_job *job, unsigned axes, unsigned but, int *rules, int max) {
  int count = 0;
  for (int i = 0; i < spp_rules_general_count + job->framework->rule_count; i++) {
    int index = i < spp_rules_general_count ? i : job->framework->rules[i - spp_rules_general_count].index;
    unsigned own = rule_at(index)->axes;
    if ((axes && !(own & axes)) || (own & but)) continue;
    if (count < max) rules[count] = index;
    count++;
  }
  return count;
}

int spp_rules_first_in(const struct spp_job *job, const struct spp_layout *layout, const int *rules,
                       int count) {
  for (int i = 0; i < count; i++)
    if (rule_at(rules[i])->broken(job, layout)) return rules[i];
  return -1;
}

/* Does any rule about the same field refuse this value of it? */
static bool refuses(const struct spp_job *job, struct spp_layout *layout, size_t vary, int64_t value) {
  memcpy((char *)layout + vary, &value, sizeof value);
  for (int i = 0; i < spp_rules_general_count; i++)
    if (spp_rules_general[i].vary == vary && spp_rules_general[i].broken(job, layout)) return true;
  for (int i = 0; i < job->framework->rule_count; i++) {
    const struct spp_rule *rule = rule_at(job->framework->rules[i].index);
    if (rule->vary == vary && rule->broken(job, layout)) return true;
  }
  return false;
}

/* ": use 1, 2, 4" after the text: the legal values of the field the rule is about, as many as fit in a line.
 */
static void add_legal_values(const struct spp_job *job, const struct spp_layout *layout, size_t vary,
                             char *text, size_t size) {
  enum { SHOWN = 8, LIMIT = 256 };
  struct spp_layout other = *layout;
  int64_t limit = job->gpus > 0 ? spp_min64(job->gpus, LIMIT) : 64;
  int shown = 0;
  /* Of TP and EP, whatever follows them follows: expert TP is TP unless it was set apart. */
  for (int64_t value = 1; value <= limit && shown < SHOWN; value++) {
    if (vary == SPP_VARY(tp) && layout->etp == layout->tp) other.etp = value;
    if (refuses(job, &other, vary, value)) continue;
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%" PRId64, shown == 0 ? ": use " : ", ", value);
    shown++;
  }
}

static const struct spp_framework_rule *listed(const struct spp_framework *framework, int index) {
  for (int i = 0; i < framework->rule_count; i++)
    if (framework->rules[i].index == index) return &framework->rules[i];
  return NULL;
}

/* What does as asked where a rule says that a framework does not. */
static const struct {
  const char *rule, *instead;
} others[] = {{"fpdt-support", "--framework megatron-deepspeed"}};

static const char *instead_of(const char *rule) {
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    if (strcmp(others[i].rule, rule) == 0) return others[i].instead;
  return "";
}

void spp_rule_explain(const struct spp_job *job, const struct spp_layout *layout, int index,
                      struct spp_violation *violation) {
  const struct spp_rule *rule = rule_at(index);
  const struct spp_framework_rule *row = listed(job->framework, index);
  struct spp_violation v;
  memset(&v, 0, sizeof v);
  snprintf(v.rule, sizeof v.rule, "%s", rule->id);
  snprintf(v.source, sizeof v.source, "%s", row ? row->source : rule->source ? rule->source : "");
  snprintf(v.instead, sizeof v.instead, "%s", instead_of(rule->id));
  spp_template_expand(rule->text, job, layout, v.text, sizeof v.text);
  if (rule->vary != SPP_VARY_NONE) add_legal_values(job, layout, rule->vary, v.text, sizeof v.text);
  size_t used = strlen(v.text);
  snprintf(v.text + used, sizeof v.text - used, " (%s)", row ? row->version : job->framework->version);
  *violation = v;
}

/* Counts one broken rule, with words where there is room. */
static void record(const struct spp_job *job, const struct spp_layout *layout, int index,
                   struct spp_violation *violations, int max, int *count) {
  if (*count < max) spp_rule_explain(job, layout, index, &violations[*count]);
  (*count)++;
}

int spp_rules_check(const struct spp_job *job, const struct spp_layout *layout,
                    struct spp_violation *violations, int max) {
  int count = 0;
  if (!violations) return spp_rules_first(job, layout) >= 0;
  for (int i = 0; i < spp_rules_general_count; i++) {
    if (spp_rules_general[i].broken(job, layout)) record(job, layout, i, violations, max, &count);
    if (i == 0 && count > 0) return count; /* degrees below 1: nothing else can be asked */
  }
  for (int i = 0; i < job->framework->rule_count; i++) {
    int index = job->framework->rules[i].index;
    if (rule_at(index)->broken(job, layout)) record(job, layout, index, violations, max, &count);
  }
  return count;
}
