"""The report as Markdown, for reading as it is and for any renderer with tables."""

import re
from collections.abc import Sequence

from apps.showcase.report.document import Document, Grid

CHART_NAME = "chart.png"

_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~!$])")


def as_markdown(document: Document) -> str:
    """The report; the chart is a file beside it, named `chart.png`."""
    blocks = [f"# {escaped(document.title)}", escaped(document.summary)]
    if document.findings:
        blocks.append(_items(document.findings))
    if chart := document.chart:
        blocks.append(f"![{escaped(chart.caption)}]({CHART_NAME})")
    blocks += [f"## {grid.heading}\n\n{_table(grid)}" for grid in document.grids]
    if document.notes:
        blocks.append(f"---\n\n{_items(document.notes)}")
    return "\n\n".join(blocks) + "\n"


def escaped(text: str) -> str:
    """The text as itself: no markup, no HTML, no table cell of its own, and no link that a renderer makes by itself."""
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", plain).replace("://", ":&#47;&#47;").replace("www.", "www&#46;")


def _items(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {escaped(sentence)}" for sentence in sentences)


def _table(grid: Grid) -> str:
    rule = ["---:" if numeric else "---" for numeric in grid.numeric]
    rows = [[escaped(cell) for cell in row] for row in (grid.headers, *grid.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:]))
