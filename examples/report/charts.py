"""Charts by Matplotlib, which takes seconds to import: import this module late."""

from __future__ import annotations

import io
import re
import threading
import warnings
from collections.abc import Callable, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from examples.pages import Picture
from examples.report.analysis import Column
from examples.texts import counted, cut, figure

MOST_PANELS, MOST_GROUPS, MOST_BINS = 6, 12, 20
ACCENT, MARK, MUTED = "#3d5a98", "#b3541e", "#5a6067"
UNITS = {
    "eur": "€", "euro": "€", "usd": "$", "gbp": "£", "chf": "CHF", "kg": "kg", "g": "g", "mg": "mg", "km": "km",
    "m": "m", "cm": "cm", "mm": "mm", "nm": "nm", "s": "s", "sec": "s", "seconds": "s", "ms": "ms", "min": "min",
    "minutes": "min", "h": "h", "hours": "h", "days": "days", "pct": "%", "percent": "%", "c": "°C",
    "celsius": "°C", "k": "K", "l": "l", "ml": "ml", "kwh": "kWh", "w": "W", "v": "V", "hz": "Hz", "kb": "kB",
    "mb": "MB", "gb": "GB",
}  # fmt: skip
"""Units by the last word of a column's name, as in `price_eur`."""
NAME_WITH_UNIT = re.compile(r"(?P<name>.+?)\s*[(\[](?P<unit>[^()\[\]]{1,12})[)\]]")

# A $ in a name is a dollar, not the start of a formula.
mpl.rcParams["text.parse_math"] = False
warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from font")

# Matplotlib's objects belong to one thread each, but threads share its fonts.
_drawing = threading.Lock()


def draw_panels[T](
    panels: Sequence[T], draw: Callable[[Axes, T], None], name: str, caption: str, title: str = ""
) -> Picture:
    """A picture of panels, three in a row; `draw` draws each."""
    across = 2 if len(panels) == 4 else min(len(panels), 3)
    down = -(-len(panels) // across)
    with _drawing:
        canvas = Figure(figsize=(max(6.6, 2.7 * across), 2.6 * down), layout="constrained")
        FigureCanvasAgg(canvas)
        if title:
            canvas.suptitle(title, fontsize=10, x=0.01, ha="left", weight="bold")
        for at, panel in enumerate(panels, 1):
            axes = canvas.add_subplot(down, across, at)
            axes.tick_params(labelsize=7)
            axes.spines[["top", "right"]].set_visible(False)
            draw(axes, panel)
            axes.title.set_fontsize(9)
            for label in (axes.xaxis.label, axes.yaxis.label):
                label.set_fontsize(8)
        png = io.BytesIO()
        canvas.savefig(png, format="png", dpi=150, metadata={"Software": None})
    return Picture(name, png.getvalue(), caption)


def draw_columns(columns: Sequence[Column], name: str) -> Picture | None:
    """The distribution of up to six columns, numbers first; None if there is nothing to draw."""
    numbers = [one for one in columns if one.kind == "number" and not one.is_label and len(one.common) > 1]
    groups = [one for one in columns if one.kind == "text" and 1 < len(one.common) <= MOST_GROUPS]
    shown = [one for one in numbers if max(map(abs, one.present)) < 1e100] + groups
    if not shown:
        return None
    shown = shown[:MOST_PANELS]
    rows = len(shown[0].values)
    return draw_panels(
        shown, _draw_column, name, _caption(shown), f"How the values of {counted(rows, 'row')} are spread"
    )


def _caption(columns: Sequence[Column]) -> str:
    """What the picture shows, for those who do not see it."""
    found = [
        f"{cut(one.name, 30)}: {_amount(min(one.present), one)} to {_amount(max(one.present), one)}, "
        f"median {_amount(one.summary[2], one)}"
        if one.kind == "number"
        else f"{cut(one.name, 30)}: most often {cut(one.common[0][0], 16)} ({one.common[0][1]:,})"
        for one in columns
    ]
    return f"How the values are spread. {'; '.join(found)}."


def named_with_unit(name: str) -> tuple[str, str]:
    """A column's name without its unit, and the unit: `price_eur`, `Depth (m)`."""
    if found := NAME_WITH_UNIT.fullmatch(name.strip()):
        return found["name"], found["unit"]
    first, sign, last = name.rpartition("_")
    unit = UNITS.get(last.lower(), "") if sign and first else ""
    return (first if unit else name), unit


def _amount(value: float, column: Column) -> str:
    unit = named_with_unit(column.name)[1]
    return f"{figure(value)} {unit}" if unit else figure(value)


def _draw_column(axes: Axes, column: Column) -> None:
    name, unit = named_with_unit(column.name)
    words = cut(name.replace("_", " "), 30)
    axes.set_title(words, loc="left", fontsize=9)
    if column.kind == "number":
        axes.set_xlabel(f"{words} ({unit})" if unit else words)
        axes.set_ylabel("rows")
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.hist(
            column.present, bins=min(MOST_BINS, len(column.common)), color=ACCENT, edgecolor="white", linewidth=0.5
        )
        median = column.summary[2]
        axes.axvline(median, color=MARK, linewidth=1.2)
        axes.set_title(f"median {_amount(median, column)}", loc="right", fontsize=7, color=MARK)
        return
    names, counts = zip(*column.common, strict=True)
    bars = axes.barh(range(len(names)), counts, color=ACCENT)
    axes.bar_label(bars, [f"{count:,}" for count in counts], padding=2, fontsize=7, color=MUTED)
    axes.margins(x=0.12)
    axes.set_xlabel("rows")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
    axes.set_yticks(range(len(names)), [cut(one, 16) for one in names])
    axes.invert_yaxis()
