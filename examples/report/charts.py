"""Charts by Matplotlib, which takes seconds to import: import this module late."""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Callable, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from examples.pages import Picture
from examples.report.analysis import Column
from examples.texts import cut

MOST_PANELS, MOST_GROUPS, MOST_BINS = 6, 12, 20
ACCENT = "#3d5a98"
CAPTION = "How the values are spread; the length of a bar is the number of rows."

# A $ in a name is a dollar, not the start of a formula.
mpl.rcParams["text.parse_math"] = False
warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from font")

# Matplotlib's objects belong to one thread each, but threads share its fonts.
_drawing = threading.Lock()


def draw_panels[T](panels: Sequence[T], draw: Callable[[Axes, T], None], name: str, caption: str) -> Picture:
    """A picture of panels, three in a row; `draw` draws each."""
    across = min(len(panels), 3)
    down = -(-len(panels) // across)
    with _drawing:
        canvas = Figure(figsize=(max(6.6, 2.7 * across), 2.6 * down), layout="constrained")
        FigureCanvasAgg(canvas)
        for at, panel in enumerate(panels, 1):
            axes = canvas.add_subplot(down, across, at)
            axes.tick_params(labelsize=7)
            draw(axes, panel)
            axes.title.set_fontsize(9)
        png = io.BytesIO()
        canvas.savefig(png, format="png", dpi=150, metadata={"Software": None})
    return Picture(name, png.getvalue(), caption)


def draw_columns(columns: Sequence[Column], name: str) -> Picture | None:
    """The distribution of up to six columns, numbers first; None if there is nothing to draw."""
    numbers = [one for one in columns if one.kind == "number" and not one.is_label and len(one.common) > 1]
    groups = [one for one in columns if one.kind == "text" and 1 < len(one.common) <= MOST_GROUPS]
    shown = [one for one in numbers if max(map(abs, one.present)) < 1e100] + groups
    return draw_panels(shown[:MOST_PANELS], _draw_column, name, CAPTION) if shown else None


def _draw_column(axes: Axes, column: Column) -> None:
    axes.set_title(cut(column.name, 30), loc="left")
    if column.kind == "number":
        axes.hist(column.present, bins=min(MOST_BINS, len(column.common)), color=ACCENT)
        return
    names, counts = zip(*column.common, strict=True)
    axes.barh(range(len(names)), counts, color=ACCENT)
    axes.set_yticks(range(len(names)), [cut(one, 16) for one in names])
    axes.invert_yaxis()
