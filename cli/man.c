/* spplan(1). Prose is here; commands, options and exit codes come from the tables. */
#include <ctype.h>

#include "base/version.h"
#include "cli/help.h"

/* roff: a backslash, and a dot or quote that begins a line, would be commands; a dash is a minus. */
static void roff(const char *text, struct spp_str *out) {
  if (*text == '.' || *text == '\'') spp_str_add(out, "\\&");
  for (; *text; text++) {
    if (*text == '\\')
      spp_str_add(out, "\\e");
    else if (*text == '-')
      spp_str_add(out, "\\-");
    else
      spp_str_addc(out, *text);
  }
}

static void section(const char *title, struct spp_str *out) {
  spp_str_addf(out, ".SH %s\n", title);
}

static void paragraph(const char *text, struct spp_str *out) {
  spp_str_add(out, ".PP\n");
  roff(text, out);
  spp_str_addc(out, '\n');
}

static void option(const struct spp_option *row, struct spp_str *out) {
  int value;
  spp_str_add(out, ".TP\n");
  if (row->letter) spp_str_addf(out, "\\fB\\-%c\\fR, ", row->letter);
  spp_str_add(out, "\\fB\\-\\-");
  roff(row->name, out);
  spp_str_add(out, "\\fR");
  if (row->arg) {
    spp_str_add(out, row->type.kind == SPP_KIND_PART ? " [\\fI" : " \\fI");
    roff(row->arg, out);
    spp_str_add(out, row->type.kind == SPP_KIND_PART ? "\\fR]" : "\\fR");
  }
  spp_str_addc(out, '\n');
  spp_str_addc(out, (char)toupper((unsigned char)row->help[0]));
  roff(row->help + 1, out);
  for (int i = 0; row->type.word && row->type.word(i, &value); i++) {
    spp_str_add(out, i ? ", " : ": ");
    roff(row->type.word(i, &value), out);
  }
  spp_str_add(out, ".\n");
}

static void options(struct spp_str *out) {
  section("OPTIONS", out);
  for (int group = 0; group < SPP_GROUP_OPT_COUNT; group++) {
    spp_str_add(out, ".SS ");
    roff(spp_option_group_title((enum spp_option_group)group), out);
    spp_str_addc(out, '\n');
    for (int i = 0; i < spp_option_count; i++)
      if ((int)spp_options[i].group == group) option(&spp_options[i], out);
  }
}

static void commands(struct spp_str *out) {
  section("COMMANDS", out);
  for (int i = 0; i < spp_command_count; i++) {
    spp_str_addf(out, ".TP\n\\fB%s\\fR", spp_commands[i].name);
    if (spp_commands[i].positional) spp_str_addf(out, " \\fI%s\\fR", spp_commands[i].positional);
    spp_str_addc(out, '\n');
    roff(spp_commands[i].summary, out);
    spp_str_add(out, ".\n");
  }
}

static void examples(struct spp_str *out) {
  section("EXAMPLES", out);
  for (int i = 0; i < spp_command_count; i++)
    for (int e = 0; e < SPP_MAX_EXAMPLES && spp_commands[i].examples[e].line; e++) {
      spp_str_add(out, ".PP\n");
      roff(spp_commands[i].examples[e].what, out);
      spp_str_add(out, ":\n.PP\n.RS 4\n.nf\n");
      roff(spp_commands[i].examples[e].line, out);
      spp_str_add(out, "\n.fi\n.RE\n");
    }
}

static void exit_codes(struct spp_str *out) {
  section("EXIT STATUS", out);
  for (int i = 0; i < spp_exit_code_count; i++) {
    spp_str_addf(out, ".TP\n%d\n", spp_exit_codes[i].code);
    roff(spp_exit_codes[i].means, out);
    spp_str_add(out, ".\n");
  }
}

void spp_help_man(struct spp_str *out) {
  spp_str_addf(out, ".TH SPPLAN 1 \"\" \"spplan %s\" \"User Commands\"\n", spp_version());
  section("NAME", out);
  spp_str_add(out, "spplan \\- plan sequence\\-parallel training of language models\n");
  section("SYNOPSIS", out);
  spp_str_add(
      out,
      "\\fBspplan\\fR [\\fICOMMAND\\fR] \\fB\\-\\-model\\fR \\fINAME\\fR \\fB\\-\\-seq\\fR \\fITOKENS\\fR "
      "\\fB\\-\\-gpus\\fR \\fIN\\fR [\\fIOPTION\\fR]...\n");
  section("DESCRIPTION", out);
  paragraph("spplan predicts the memory, the communication and the step time of training a transformer under "
            "tensor, pipeline, "
            "data, expert and sequence parallelism (Ulysses, ring attention, all-gather and their hybrids), "
            "as each training "
            "framework implements them, and searches for the best layout.",
            out);
  paragraph("Every figure is for the worst GPU of the job and comes from a ledger that --explain prints: "
            "tensor by tensor, "
            "message by message. Nothing is measured and no GPU is needed.",
            out);
  paragraph("Options may stand before or after the command, as --name value or --name=value. Names are never "
            "abbreviated.",
            out);
  commands(out);
  options(out);
  section("SIZES", out);
  paragraph("32k is 32,768 tokens and 1m is 1,048,576. 80GiB is binary, 80GB decimal; a bare 80G is refused, "
            "because the two "
            "differ by 7 %.",
            out);
  examples(out);
  section("ENVIRONMENT", out);
  paragraph("SPPLAN_<OPTION> gives an option a default: SPPLAN_GPU, SPPLAN_GPUS_PER_NODE, SPPLAN_CONFIG_DIR "
            "and so on. NO_COLOR "
            "turns colours off; COLUMNS sets the width.",
            out);
  section("FILES", out);
  paragraph("$XDG_CONFIG_HOME/spplan/config.json, else ~/.config/spplan/config.json: one JSON object of "
            "option names and values, "
            "asked after the command line and the environment.",
            out);
  exit_codes(out);
}
