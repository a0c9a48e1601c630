"""The report as one HTML page that needs nothing else."""

from collections.abc import Sequence
from html import escape

from examples.report.document import Chart, Document, Grid, Section

# The page can run nothing and load nothing, whatever the file had in it.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

STYLE = """
:root { color-scheme: light; --ink: #1f2430; --muted: #5c6370; --line: #e3e5ea; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 3rem 1.5rem; background: #fff; color: var(--ink);
  font: 16px/1.6 system-ui, sans-serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .75rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
p, ul { max-width: 72ch; overflow-wrap: anywhere; }
.lead { font-size: 1.15rem; }
figure { margin: 2rem 0; }
figure svg, figure img { width: 100%; height: auto; }
figcaption, footer { color: var(--muted); font-size: .85rem; }
footer { margin-top: 3rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { padding: .4rem 1.25rem .4rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
th { color: var(--muted); font-weight: 600; }
th:last-child, td:last-child { padding-right: 0; }
.figure { text-align: right; white-space: nowrap; }
@media print { body { padding: 0; } tr { break-inside: avoid; } }
"""


def as_html(document: Document) -> str:
    """A complete page; everything that came from the file is escaped."""
    body = [f"<h1>{escape(document.title)}</h1>", f'<p class="lead">{escape(document.summary)}</p>']
    if document.findings:
        body.append(f"<ul>{_items(document.findings)}</ul>")
    if document.chart:
        body.append(_picture(document.chart))
    body += [_table(grid, "h2") for grid in document.grids]
    body += [_section(section) for section in document.sections]
    if document.notes:
        body.append(f"<footer><ul>{_items(document.notes)}</ul></footer>")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(document.title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n{'\n'.join(body)}\n</body>\n</html>\n"
    )


def _items(sentences: Sequence[str]) -> str:
    return "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)


def _section(section: Section) -> str:
    pictures = [_picture(section.chart)] if section.chart else []
    sentences = [f"<p>{escape(sentence)}</p>" for sentence in section.sentences]
    grids = [_table(grid, "h3") for grid in section.grids]
    return "\n".join([f"<h2>{escape(section.heading)}</h2>", *sentences, *pictures, *grids])


def _picture(chart: Chart) -> str:
    return f"<figure>{chart.svg}<figcaption>{escape(chart.caption)}</figcaption></figure>"


def _table(grid: Grid, heading: str) -> str:
    head = _row("th", grid.headers, grid.numeric)
    body = "\n".join(_row("td", row, grid.numeric) for row in grid.rows)
    table = f"<table>\n<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>\n</table>"
    return f'<section>\n<{heading}>{escape(grid.heading)}</{heading}>\n<div class="wide">{table}</div>\n</section>'


def _row(tag: str, cells: Sequence[str], numeric: Sequence[bool]) -> str:
    classes = (' class="figure"' if figure else "" for figure in numeric)
    pairs = zip(cells, classes, strict=True)
    return f"<tr>{''.join(f'<{tag}{label}>{escape(cell)}</{tag}>' for cell, label in pairs)}</tr>"
