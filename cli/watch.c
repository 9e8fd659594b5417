#include "cli/watch.h"

static const double patience_s = 0.5;

void spp_watch_begin(struct spp_progress *progress, const struct spp_cli *cli, const char *what) {
  spp_progress_begin(progress, &cli->term, cli->args.quiet > 0, what);
  progress->patience_s = patience_s;
}

static void step(void *watcher, int64_t done, int64_t total) {
  spp_progress_step(watcher, done, total, NULL);
}

void spp_watch_search(struct spp_progress *progress, struct spp_search_options *options) {
  options->watch = step;
  options->watcher = progress;
}
