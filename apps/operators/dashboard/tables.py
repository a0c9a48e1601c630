"""Parts of the pages as data: tiles, tables and charts, which templates draw.

A chart always has its numbers as a table, too. The script `static/console/charts.js` draws it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.analytics.measures import Measures
from apps.analytics.reading import Period
from apps.analytics.rollup import DAY, HOUR, moment_of
from parley.faces import cells

SERIES = 6  # in one chart; the rest are added up


@dataclass(frozen=True, slots=True)
class Tile:
    """A number that leads to its rows."""

    title: Any
    number: Any
    note: Any = ""


@dataclass(frozen=True, slots=True)
class Table:
    """`empty` says what to do where there are no rows."""

    id: str
    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Any]]
    empty: str
    note: str = ""
    numeric: bool = True  # all columns but the first


@dataclass(frozen=True, slots=True)
class Chart:
    """`kind` is one of charts.js; `unit` says how it writes values. Colors are names of CSS variables."""

    id: str
    title: str
    summary: str
    kind: str
    unit: str
    labels: Sequence[str]
    series: Sequence[Series]
    table: Table

    @property
    def data(self) -> dict[str, Any]:
        """For the script."""
        series = [{"name": one.name, "values": one.values, "color": one.color, "dash": one.dash} for one in self.series]
        return {"kind": self.kind, "unit": self.unit, "labels": list(self.labels), "series": series}

    @property
    def is_empty(self) -> bool:
        return not any(value for one in self.series for value in one.values)


@dataclass(frozen=True, slots=True)
class Series:
    """`color` is a number of the palette, or the name of a state."""

    name: str
    values: Sequence[float | None]
    color: int | str = 0
    dash: bool = False


def chart_in_time(
    key: str,
    title: str,
    summary: str,
    kind: str,
    unit: str,
    period: Period,
    series: Sequence[Series],
    show: Callable[[Any], str],
    empty: str,
) -> Chart:
    """A chart of a period's points, whose table leaves out points without values."""
    points = period.points()
    rows = [
        (full_label(point, period.step), *(show(one.values[at]) for one in series))
        for at, point in enumerate(points)
        if any(one.values[at] for one in series)
    ]
    table = Table(key, "", ("from (UTC)", *(one.name for one in series)), rows, empty)
    labels = [point_label(point, period.step) for point in points]
    return Chart(key, title, summary, kind, unit, labels, series, table)


def chart_of_times(
    key: str, title: str, summary: str, period: Period, by_point: Mapping[int, Measures], empty: str
) -> Chart:
    at = [by_point.get(point, Measures()) for point in period.points()]
    series = [
        Series("median", [one.p50 for one in at], 0),
        Series("95% within", [one.p95 for one in at], 1, dash=True),
    ]
    return chart_in_time(key, title, summary, "lines", "seconds", period, series, cells.duration, empty)


def point_label(point: int, step: int) -> str:
    """When a point of a chart begins, in UTC."""
    at = moment_of(point)
    if step < HOUR:
        return f"{at:%H:%M}"
    if step == HOUR:
        return f"{at:%H:%M}" if at.hour else f"{at:%d %b}"
    return f"{at:%d %b %H:%M}" if step < DAY else f"{at:%d %b}"


def full_label(point: int, step: int) -> str:
    return f"{moment_of(point):%Y-%m-%d %H:%M}" if step < DAY else f"{moment_of(point):%Y-%m-%d}"


def bytes_of(number: int) -> str:
    """ "0 B", "12 kB", "3.4 GB"."""
    size = float(number)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError


def percent(share: float | None) -> str:
    """Never "100%" for less."""
    if share is None:
        return "–"
    return f"{share:.0%}" if share in (0, 1) else f"{min(max(share, 0.001), 0.999):.1%}".replace(".0%", "%")
