"""The report's chart: how the values of each column are spread, side by side."""

import io
import math
import threading
import warnings
from collections.abc import Callable, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, MaxNLocator

from examples.report.columns import Column, NumberColumn, Numbers, TextColumn
from examples.report.document import CHART_NAME, Chart
from examples.report.figures import clipped, compact

MOST_PANELS = 6
MOST_GROUPS = 12
FEWEST_BINS, MOST_BINS = 6, 30
PNG_DOTS_PER_INCH = 200

INK, MUTED, HAIRLINE, ACCENT = "#1f2430", "#5c6370", "#e3e5ea", "#3d5a98"

# Text stays text, so that it can be searched, and shown in scripts that no font at hand has.
mpl.rcParams["svg.fonttype"] = "none"
warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from font")

# Matplotlib's objects belong to one thread each, but the fonts that they share do not.
_drawing = threading.Lock()


def drawn(columns: Sequence[Column]) -> Chart | None:
    """The spread of up to six columns, numbers first; None when there is nothing to draw."""
    numbers = [column for column in columns if isinstance(column, NumberColumn) and _spread(column)]
    groups = [column for column in columns if isinstance(column, TextColumn) and _repeats(column)]
    candidates: list[NumberColumn | TextColumn] = list(numbers)
    shown = (candidates + groups)[:MOST_PANELS]
    if not shown:
        return None
    return picture(lambda: _figure(shown), _caption(len(numbers), len(shown)))


def picture(draw: Callable[[], Figure], caption: str, name: str = CHART_NAME) -> Chart:
    """What `draw` draws, as a chart of a document."""
    with _drawing:
        figure = draw()
        png, svg = io.BytesIO(), io.StringIO()
        figure.savefig(png, format="png", dpi=PNG_DOTS_PER_INCH, metadata={"Software": None})
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    width, height = figure.get_size_inches()
    return Chart(png.getvalue(), _element(svg.getvalue()), caption, (width, height), name)


def _spread(column: NumberColumn) -> bool:
    return not column.label and 0 < column.maximum - column.minimum < np.inf


def _repeats(column: TextColumn) -> bool:
    return 1 < column.distinct <= MOST_GROUPS and column.common[0][1] > 1


def _caption(numbers: int, shown: int) -> str:
    if numbers > shown:
        return (
            f"How the values of the first {shown} of {numbers} number columns are spread; upright, the number of rows."
        )
    return "How the values are spread; the length of a bar is the number of rows."


def _figure(shown: Sequence[NumberColumn | TextColumn]) -> Figure:
    across = min(len(shown), 3)
    down = -(-len(shown) // across)
    figure = blank(2.7 * max(across, 2), 2.2 * down + 0.2)
    for at, column in enumerate(shown, 1):
        axes = figure.add_subplot(down, across, at)
        style(axes, clipped(column.name, 30))
        if isinstance(column, NumberColumn):
            _histogram(axes, column)
        else:
            _bars(axes, column)
    return figure


def blank(width: float, height: float) -> Figure:
    """A figure of that size, in inches, that finds room for its axes by itself."""
    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(h_pad=0.1, w_pad=0.08))
    FigureCanvasAgg(figure)
    return figure


def style(axes: Axes, title: str) -> None:
    """The title, and axes that stay in the background."""
    # parse_math=False: a $ in a column's name is a dollar.
    axes.set_title(title, loc="left", fontsize=9, color=INK, fontweight="bold", parse_math=False)
    axes.tick_params(labelsize=7.5, colors=MUTED, length=0)
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(HAIRLINE)
    axes.set_axisbelow(True)


def _histogram(axes: Axes, column: NumberColumn) -> None:
    numbers = column.values[~np.isnan(column.values)]
    edges = _edges(column, len(numbers))
    counts, _ = np.histogram(numbers, edges)
    axes.bar(edges[:-1], counts, width=np.diff(edges) * 0.9, align="edge", color=ACCENT)
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=column.whole))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: compact(value)))
    _count_axis(axes, "y")


def _edges(column: NumberColumn, count: int) -> Numbers:
    """Where the bars meet. Whole numbers are counted a fixed number of them a bar, or some bars would get one more."""
    low, high = column.minimum, column.maximum
    if column.whole and high - low < 1e9:
        step = math.ceil((high - low + 1) / MOST_BINS)
        return np.arange(low - 0.5, high + step + 0.5, step)
    bins = int(np.clip(np.sqrt(count), FEWEST_BINS, MOST_BINS))
    return np.linspace(low, high, bins + 1)


def _bars(axes: Axes, column: TextColumn) -> None:
    values, counts = zip(*column.common, strict=True)
    places = range(len(values))
    axes.barh(places, counts, height=0.7, color=ACCENT)
    axes.set_yticks(places)
    axes.set_yticklabels([clipped(value, 16) for value in values], parse_math=False)
    axes.set_ylim(max(len(values), 3) - 0.5, -0.5)
    _count_axis(axes, "x")


def _count_axis(axes: Axes, which: str) -> None:
    axis = axes.yaxis if which == "y" else axes.xaxis
    axis.set_major_locator(MaxNLocator(4, integer=True))
    axis.set_major_formatter(FuncFormatter(lambda value, _: compact(value)))
    axes.grid(axis="y" if which == "y" else "x", color=HAIRLINE, linewidth=0.7)


def _element(svg: str) -> str:
    """The picture alone, without the declarations that only a file of its own may have."""
    return svg[svg.index("<svg") :]
