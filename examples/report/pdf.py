"""The report as a PDF: A4, upright, with the DejaVu fonts that come with Matplotlib."""

import io
import logging
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import matplotlib as mpl
from fpdf import FPDF
from matplotlib.ft2font import FT2Font

from examples.report.document import Chart, Document, Grid, Section

FONTS = Path(mpl.get_data_path()) / "fonts" / "ttf"
FONT = "DejaVu"
FACES = {"": FONTS / "DejaVuSans.ttf", "B": FONTS / "DejaVuSans-Bold.ttf"}
UNKNOWN = "□"
INK, MUTED, HAIRLINE = (31, 36, 48), (92, 99, 112), (214, 217, 224)

MARGIN = 18.0
"""Millimetres, as all lengths here."""

LINE = 5.2
ROW = 6.0
GUTTER = 4.0

# Both report at length on every font that they cut down to the characters in use.
logging.getLogger("fontTools").setLevel(logging.WARNING)
logging.getLogger("fpdf").setLevel(logging.ERROR)


class _Paper(FPDF):  # type: ignore[misc]  # its types are not read
    def __init__(self, title: str) -> None:
        super().__init__(format="A4")
        self.set_margins(MARGIN, MARGIN, MARGIN)
        self.set_auto_page_break(True, margin=MARGIN + 4)
        for style, path in FACES.items():
            self.add_font(FONT, style, path)
        self.set_title(title)
        self.set_creator("Parley")
        self.lacks_characters = False
        self.c_margin = 0.0  # cells begin where paragraphs do

    def footer(self) -> None:
        self.set_y(-MARGIN + 4)
        self.ink(MUTED, 7.5)
        self.cell(0, 4, f"{self.page_no()} / {{nb}}", align="R")

    def ink(self, colour: tuple[int, int, int], size: float, bold: bool = False) -> None:
        self.set_text_color(*colour)
        self.set_font(FONT, "B" if bold else "", size)

    def paragraph(self, text: str, line: float = LINE) -> None:
        self.multi_cell(0, line, self.printable(text), align="L", new_x="LMARGIN", new_y="NEXT")

    def keep_together(self, height: float) -> None:
        """A new page, when less than `height` is left on this one."""
        if self.get_y() + height > self.page_break_trigger:
            self.add_page()

    def printable(self, text: str) -> str:
        """The text with a sign for each character that the font lacks; nothing at all would be seen there otherwise."""
        known = _characters()
        shown = "".join(character if ord(character) in known else UNKNOWN for character in text)
        self.lacks_characters |= shown != text
        return shown

    def fitted(self, text: str, width: float) -> str:
        """The text, cut to the width by an ellipsis."""
        text = self.printable(text)
        if self.get_string_width(text) <= width:
            return text
        kept = len(text)
        while kept and self.get_string_width(text[:kept] + "…") > width:
            kept -= max(1, kept // 16)
        return text[:kept].rstrip() + "…"


@cache
def _characters() -> frozenset[int]:
    """The characters that both faces have, by code point."""
    regular, bold = (FT2Font(str(path)).get_charmap().keys() for path in FACES.values())
    return frozenset(regular & bold)


def as_pdf(document: Document) -> bytes:
    paper = _Paper(document.title)
    paper.add_page()
    paper.ink(INK, 20, bold=True)
    paper.paragraph(document.title, 9)
    paper.ln(3)
    paper.ink(INK, 11)
    paper.paragraph(document.summary, 6)
    paper.ln(2)
    paper.ink(INK, 9.5)
    for finding in document.findings:
        paper.paragraph(f"•  {finding}")
        paper.ln(0.8)
    if document.chart:
        _picture(paper, document.chart)
    for grid in document.grids:
        _table(paper, grid)
    for section in document.sections:
        _section(paper, section)
    notes = list(document.notes)
    if paper.lacks_characters:
        notes.append(f"Characters that this PDF has no font for show as {UNKNOWN}; the HTML report has them all.")
    if notes:
        _notes(paper, notes)
    return bytes(paper.output())


def _section(paper: _Paper, section: Section) -> None:
    paper.keep_together(12 + 4 * LINE)
    paper.ln(8)
    paper.ink(INK, 14, bold=True)
    paper.paragraph(section.heading, 8)
    paper.ln(1)
    paper.ink(INK, 9.5)
    for sentence in section.sentences:
        paper.paragraph(sentence)
        paper.ln(0.8)
    if section.chart:
        _picture(paper, section.chart)
    for grid in section.grids:
        _table(paper, grid)


def _picture(paper: _Paper, chart: Chart) -> None:
    width, height = chart.size
    shown = min(paper.epw, width * 25.4)
    paper.keep_together(shown * height / width + 16)
    paper.ln(5)
    paper.image(io.BytesIO(chart.png), w=shown, alt_text=chart.caption)
    paper.ln(1)
    paper.ink(MUTED, 8)
    paper.paragraph(chart.caption, 4.5)


def _table(paper: _Paper, grid: Grid) -> None:
    paper.keep_together(12 + 4 * ROW)
    paper.ln(6)
    paper.ink(INK, 12, bold=True)
    paper.paragraph(grid.heading, 7)
    paper.ln(1)
    paper.set_draw_color(*HAIRLINE)
    paper.set_line_width(0.2)
    widths = _widths(paper, grid)
    _header(paper, grid, widths)
    for row in grid.rows:
        if paper.get_y() + ROW > paper.page_break_trigger:
            paper.add_page()
            _header(paper, grid, widths)
        paper.ink(INK, 8)
        _row(paper, row, grid.numeric, widths)


def _header(paper: _Paper, grid: Grid, widths: Sequence[float]) -> None:
    paper.ink(MUTED, 7.5, bold=True)
    _row(paper, grid.headers, grid.numeric, widths)


def _row(paper: _Paper, cells: Sequence[str], numeric: Sequence[bool], widths: Sequence[float]) -> None:
    for cell, right, width in zip(cells, numeric, widths, strict=True):
        paper.cell(width, ROW, paper.fitted(cell, width), align="R" if right else "L")
        paper.set_x(paper.get_x() + GUTTER)
    paper.ln(ROW)
    paper.line(paper.l_margin, paper.get_y(), paper.l_margin + paper.epw, paper.get_y())


def _widths(paper: _Paper, grid: Grid) -> list[float]:
    """As wide as the content wants; where that is too much, the widest columns give way."""
    wanted = []
    for at, header in enumerate(grid.headers):
        paper.ink(INK, 7.5, bold=True)
        needed = paper.get_string_width(header)
        paper.ink(INK, 8)
        wanted.append(max(needed, *(paper.get_string_width(row[at]) for row in grid.rows)) + 0.1)
    room = paper.epw - GUTTER * (len(wanted) - 1)
    if sum(wanted) <= room:
        if not grid.numeric[-1]:
            return wanted
        spare = (room - sum(wanted)) / len(wanted)
        return [width + spare for width in wanted]
    while (excess := sum(wanted) - room) > 0.01:
        widest = max(wanted)
        second = max((width for width in wanted if width < widest - 0.01), default=0.0)
        giving = [at for at, width in enumerate(wanted) if width >= widest - 0.01]
        for at in giving:
            wanted[at] -= min(widest - second, excess / len(giving))
    return wanted


def _notes(paper: _Paper, notes: Sequence[str]) -> None:
    paper.ln(6)
    paper.ink(MUTED, 8)
    for note in notes:
        paper.paragraph(note, 4.5)
