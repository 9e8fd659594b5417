#include "report/html.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/decimal.h"

/* Colours by name for both themes; nothing is loaded from anywhere. */
static const char style[] =
    "<style>\n"
    ":root{color-scheme:light "
    "dark;--back:#fff;--card:#f5f6f8;--text:#1c1f24;--dim:#5b6470;--line:#d5d9df;--good:#0a7a3f;"
    "--bad:#c0261c}\n"
    "@media(prefers-color-scheme:dark){:root{--back:#14171b;--card:#1e2228;--text:#e6e8eb;--dim:#a0a8b3;--"
    "line:#3a414b;"
    "--good:#4cc987;--bad:#ff7a70}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;max-width:1100px;padding:16px;background:var(--back);color:var(--text);"
    "font:15px/1.45 system-ui,sans-serif;overflow-wrap:anywhere}\n"
    "h1{font-size:1.45rem;margin:.2em 0}h2{font-size:1.1rem;margin:0 0 .5em}p{margin:.3em 0}\n"
    "section{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:14px;margin:14px "
    "0}\n"
    ".dim{color:var(--dim)}.good{color:var(--good);font-weight:700}.bad{color:var(--bad);font-weight:700}\n"
    ".figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:10px;margin:12px 0}\n"
    ".figures div{border:1px solid var(--line);border-radius:8px;padding:8px 10px}\n"
    ".figures b{display:block;font-size:1.25rem}.figures span{color:var(--dim);font-size:.85rem}\n"
    "table{border-collapse:collapse;width:100%;font-size:.88rem}\n"
    "th,td{padding:3px 8px;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}\n"
    "th{color:var(--dim);font-weight:600}td.r,th.r{text-align:right;white-space:nowrap;font-variant-numeric:"
    "tabular-nums}\n"
    ".strip{display:grid;grid-template-columns:11rem minmax(0,1fr) "
    "6rem;gap:8px;align-items:center;margin:3px 0;"
    "font-size:.88rem}\n"
    ".strip svg{width:100%;height:18px;display:block;background:var(--back)}\n"
    ".legend{display:flex;flex-wrap:wrap;gap:4px 14px;margin:8px 0;font-size:.85rem}\n"
    ".legend span{display:inline-flex;align-items:center;gap:5px}.legend svg{width:11px;height:11px}\n"
    ".mark{fill:var(--bad)}.chart{width:100%;max-width:640px;display:block}\n"
    "pre{white-space:pre-wrap;background:var(--back);border:1px solid "
    "var(--line);border-radius:6px;padding:10px;margin:0;"
    "font-size:.85rem}\n"
    "ul{margin:.3em 0;padding-left:1.2em}details{margin-top:.5em}summary{cursor:pointer}\n"
    "@media(max-width:640px){.strip{grid-template-columns:minmax(0,1fr) auto}.strip "
    "svg{grid-column:1/3;grid-row:2}"
    "td,th{padding:3px 4px}table.wide th{display:none}"
    "table.wide tr{display:block;padding:5px 0;border-bottom:1px solid var(--line)}"
    "table.wide td{display:flex;justify-content:space-between;gap:12px;border:0;padding:1px "
    "0;text-align:right}"
    "table.wide td:empty{display:none}"
    "table.wide td::before{content:attr(data-head);color:var(--dim);text-align:left;flex:none}}\n"
    "@media print{body{max-width:none;font-size:11px}section{break-inside:avoid;background:none}}\n"
    "</style>\n";

void spp_html_element(struct spp_str *out, const char *element, const char *class, const char *text) {
  spp_str_addf(out, class ? "<%s class=\"%s\">" : "<%s>", element, class ? class : "");
  spp_svg_text(out, text);
  spp_str_addf(out, "</%s>\n", element);
}

void spp_html_open(struct spp_str *out, const char *title) {
  spp_str_add(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
                   "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n");
  spp_html_element(out, "title", NULL, title);
  spp_str_add(out, style);
  spp_str_add(out, "</head>\n<body>\n");
}
void spp_html_close(struct spp_str *out) {
  spp_str_add(out, "</body>\n</html>\n");
}

void spp_html_section(struct spp_str *out, const char *heading) {
  spp_str_add(out, "<section>\n");
  spp_html_element(out, "h2", NULL, heading);
}
void spp_html_section_end(struct spp_str *out) {
  spp_str_add(out, "</section>\n");
}

void spp_html_table(struct spp_html_table *t, const char *align, const char *const *head,
                    struct spp_str *out) {
  *t = (struct spp_html_table){.out = out, .align = align, .head = head, .columns = (int)strlen(align)};
  /* on a narrow page a table of many columns becomes one card a row */
  spp_str_add(out, t->columns > 3 ? "<table class=\"wide\">\n<tr>" : "<table>\n<tr>");
  for (int i = 0; i < t->columns; i++)
    spp_html_element(out, "th", align[i] == 'r' ? "r" : NULL, head[i]);
  spp_str_add(out, "</tr>\n");
}

void spp_html_cell(struct spp_html_table *t, const char *fmt, ...) {
  char text[1024];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  if (t->column == 0) spp_str_add(t->out, "<tr>");
  spp_str_addf(t->out, t->align[t->column] == 'r' ? "<td class=\"r\" data-head=\"" : "<td data-head=\"");
  spp_svg_text(t->out, t->head[t->column]);
  spp_str_add(t->out, "\">");
  spp_svg_text(t->out, text);
  spp_str_add(t->out, "</td>");
  t->column = (t->column + 1) % t->columns;
  if (t->column == 0) spp_str_add(t->out, "</tr>\n");
}
void spp_html_table_end(struct spp_html_table *t) {
  spp_str_add(t->out, "</table>\n");
}

void spp_html_strip(struct spp_str *out, const char *label) {
  spp_str_add(out, "<div class=\"strip\">");
  spp_html_element(out, "span", NULL, label);
  spp_str_add(out, "<svg viewBox=\"0 0 1000 20\" preserveAspectRatio=\"none\">");
}
void spp_html_strip_bar(struct spp_str *out, double from, double to, const char *colour, const char *title) {
  char x[32], width[32];
  if (!(to > from)) return;
  spp_str_addf(out, "<rect x=\"%s\" y=\"0\" width=\"%s\" height=\"20\" fill=\"%s\"><title>",
               spp_decimal_fixed(from * 1000, 2, x), spp_decimal_fixed((to - from) * 1000, 2, width), colour);
  spp_svg_text(out, title);
  spp_str_add(out, "</title></rect>");
}
void spp_html_strip_mark(struct spp_str *out, double at) {
  char x[32];
  spp_str_addf(out, "<rect class=\"mark\" x=\"%s\" y=\"0\" width=\"3\" height=\"20\"/>",
               spp_decimal_fixed(at * 1000, 2, x));
}
void spp_html_strip_end(struct spp_str *out, const char *value) {
  spp_str_add(out, "</svg>");
  spp_html_element(out, "span", NULL, value);
  spp_str_add(out, "</div>\n");
}

void spp_html_legend(struct spp_str *out, const char *const *names, const char *const *colours, int count) {
  spp_str_add(out, "<div class=\"legend\">");
  for (int i = 0; i < count; i++) {
    spp_str_addf(out, "<span><svg viewBox=\"0 0 1 1\"><rect width=\"1\" height=\"1\" fill=\"%s\"/></svg>",
                 colours[i]);
    spp_svg_text(out, names[i]);
    spp_str_add(out, "</span>\n");
  }
  spp_str_add(out, "</div>\n");
}
