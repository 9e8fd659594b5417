/* The formats that jobs are read from and written to. The flags a framework is started with stand once: in
 * the "launch" words of its file in configs/frameworks/, a condition and the flags that are given under it.
 * They are read in both directions. A format adds what no plan of ours is written with: older names, other
 * spellings, what holds when a flag is left out, and the names that change nothing. */
#ifndef SPP_INTEROP_FORMAT_H
#define SPP_INTEROP_FORMAT_H

#include <stdbool.h>
#include <stddef.h>

/* When a command says `text`, `when` holds: "zero=3&offload=none" for "--deepspeed zero3". Words in braces
 * stand for values: "--max_length {seq}". The syntax of launch words (model/values.h), where only '=' says
 * anything. */
struct spp_format_row {
  const char *when, *text;
};
enum { SPP_MAX_FORMAT_ROWS = 4 };
struct spp_format_rows {
  const struct spp_format_row *row;
  int count;
};
#define SPP_ROWS(table)                                                                                      \
  { (table), (int)(sizeof(table) / sizeof((table)[0])) }
/* Flags, apart by blanks, whose effect on memory or time is not in the model, and what they do. */
struct spp_format_note {
  const char *flags, *why;
};
/* How configurations are written out. */
enum spp_syntax { SPP_SYNTAX_COMMAND, SPP_SYNTAX_YAML, SPP_SYNTAX_TOML, SPP_SYNTAX_JSON };

struct spp_reading;

struct spp_format {
  const char *name;      /* as --to and the answer call it */
  const char *framework; /* file of configs/frameworks/ that predicts it */
  const char *display;
  const char *source; /* package, version and files the names and defaults were read in */
  const char *signs;  /* glob patterns, apart by '|', of neighbouring words of its commands: "swift sft" */
  const char
      *keys; /* of a configuration: alternatives apart by '|', names that must all be there apart by blanks */
  const char *aliases;  /* "old=new ...": other names of a flag or key */
  const char *defaults; /* what holds when it is not said, as a command would say it */
  const char *files;    /* flags whose value may be a file with more of the same */
  const struct spp_format_rows
      *rows[SPP_MAX_FORMAT_ROWS];                /* read before the launch words, which have their way */
  const struct spp_format_note *notes;           /* the last one's flags are NULL */
  const char *const *known[SPP_MAX_FORMAT_ROWS]; /* lines of names, apart by blanks, that change no
                                                    prediction; "a|b: x y" stands for a.x, a.y, b.x and b.y */
  void (*settle)(struct spp_reading *reading);   /* what the framework works out itself; NULL: nothing */
  enum spp_syntax syntax;
  bool negates;                   /* --no_x says x is false (transformers hf_argparser.py HfArgumentParser) */
  const char *file_name;          /* of the configuration it writes; NULL: the command says all */
  const char *file_flag;          /* that names it; NULL: it stands as a word */
  const char *unless, *otherwise; /* words added to a command that has no flag `unless`; NULL: none */
  const char *launcher_file;      /* of accelerate's launcher; NULL: its flags stay flags */
};
extern const struct spp_format *const spp_formats[];
extern const int spp_format_count;
/* NULL: no such format. */
const struct spp_format *spp_format_find(const char *name);
const char *spp_format_name(int i); /* NULL after the last */

/* Whether `name` is in a list of names apart by blanks. */
bool spp_names_have(const char *names, const char *name);
/* The next name of such a list, cut to size; false at the end. */
bool spp_names_next(const char **list, char *name, size_t size);
/* The names of a line "a|b: x y", which are a.x, a.y, b.x and b.y; NULL: it has no places. */
const char *spp_line_names(const char *line);
/* The same over lines of them, NULL after the last. */
bool spp_lines_have(const char *const *lines, const char *name);

extern const struct spp_format spp_format_ms_swift, spp_format_megatron_lm, spp_format_deepspeed,
    spp_format_llama_factory, spp_format_axolotl, spp_format_accelerate, spp_format_trl,
    spp_format_torchtitan, spp_format_megatron_swift, spp_format_verl;

/* Arguments of the Hugging Face Trainer, which several frameworks hand on. */
extern const char *const spp_known_trainer[]; /* lines of names, NULL after the last */
extern const struct spp_format_rows spp_rows_trainer;
/* The keys of a DeepSpeed configuration. "optimizer.*" stands for all below it. */
extern const char *const spp_known_deepspeed[];
extern const struct spp_format_rows spp_rows_deepspeed;
/* Launchers: torchrun, accelerate launch, deepspeed. */
extern const char *const spp_known_launchers[];
extern const struct spp_format_rows spp_rows_launchers;
extern const char *const spp_known_verl[];
/* Megatron's own arguments, which Megatron-SWIFT takes with '_'. */
extern const char *const spp_known_megatron[];
extern const struct spp_format_rows spp_rows_megatron;

#endif
