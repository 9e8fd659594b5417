/* A job and its layout -> the launch command and configuration files of a framework. */
#ifndef SPP_INTEROP_EXPORT_H
#define SPP_INTEROP_EXPORT_H

#include "interop/format.h"
#include "model/layout.h"

struct spp_export_file {
  const char *name, *text;
};
/* A setting of the job that the files do not say: read back, it is another. */
struct spp_export_lost {
  const char *name, *value, *read_back;
};
enum { SPP_MAX_EXPORT_FILES = 6, SPP_MAX_EXPORT_LOST = 48 };
struct spp_exported {
  struct spp_export_file files[SPP_MAX_EXPORT_FILES]; /* the first is the command */
  int file_count;
  struct spp_export_lost lost[SPP_MAX_EXPORT_LOST]; /* said in a comment of the first file, too */
  int lost_count;
};
/* The words are the launch words of job->framework. What was written is read again, and what is lost on the
 * way is in `lost`: nothing is left out in silence. Everything lives in the arena. SPP_ERR_USAGE: the
 * framework of the job has no launch words. */
enum spp_status spp_export(const struct spp_format *format, const char *config_dir, const struct spp_job *job,
                           const struct spp_layout *layout, struct spp_arena *arena,
                           const struct spp_exported **exported, struct spp_diag *diag);

#endif
