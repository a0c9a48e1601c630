"""The report as Markdown, for reading as it is and for any renderer with tables."""

import re
from collections.abc import Sequence

from examples.report.document import Chart, Document, Grid, Section

_SPECIAL = re.compile(r"([\\`*_{}\[\]#|~!$])")


def as_markdown(document: Document) -> str:
    """The report; its charts are files beside it."""
    blocks = [f"# {escaped(document.title)}", escaped(document.summary)]
    if document.findings:
        blocks.append(_items(document.findings))
    if document.chart:
        blocks.append(_picture(document.chart))
    blocks += [f"## {grid.heading}\n\n{_table(grid)}" for grid in document.grids]
    for section in document.sections:
        blocks += _section(section)
    if document.notes:
        blocks.append(f"---\n\n{_items(document.notes)}")
    return "\n\n".join(blocks) + "\n"


def escaped(text: str) -> str:
    """The text as itself: no markup, no HTML, no table cell of its own, and no link that a renderer makes by itself."""
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", plain).replace("://", ":&#47;&#47;").replace("www.", "www&#46;")


def _section(section: Section) -> list[str]:
    pictures = [_picture(section.chart)] if section.chart else []
    grids = [f"### {escaped(grid.heading)}\n\n{_table(grid)}" for grid in section.grids]
    return [f"## {escaped(section.heading)}", *map(escaped, section.sentences), *pictures, *grids]


def _picture(chart: Chart) -> str:
    return f"![{escaped(chart.caption)}]({chart.name})"


def _items(sentences: Sequence[str]) -> str:
    return "\n".join(f"- {escaped(sentence)}" for sentence in sentences)


def _table(grid: Grid) -> str:
    rule = ["---:" if numeric else "---" for numeric in grid.numeric]
    rows = [[escaped(cell) for cell in row] for row in (grid.headers, *grid.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:]))
