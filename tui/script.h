/* The interface played from a file, without a terminal: for tests and for reports of faults. */
#ifndef SPP_TUI_SCRIPT_H
#define SPP_TUI_SCRIPT_H

#include "base/strbuf.h"
#include "tui/host.h"

enum { SPP_SCRIPT_MAX_BYTES = 1 << 20, SPP_SCRIPT_MAX_OUT = 1 << 24 };

/* Lines of `text`: `size COLSxROWS`, `key NAME...` (Enter, Esc, Tab, C-u, F2, Left, any character), `type
 * TEXT`, `screen`, `roles`, `expect TEXT`, `quit`; # begins a comment. It starts at 80x24 with `words` as the
 * job; each question is answered before the next line. Screens, at most 16 MiB of them, go to `out`.
 * SPP_ERR_INPUT names `file` and line; SPP_ERR_TOLERANCE: an expected text is not on the screen. */
enum spp_status spp_tui_play(const struct spp_tui_host *host, const struct spp_words *words, bool utf8,
                             const char *file, const char *text, struct spp_str *out, struct spp_diag *diag);

#endif
