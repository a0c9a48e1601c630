"""The charts of the pipeline: effect sizes with their intervals, volcanoes, and dose-response curves."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from examples.report.charts import ACCENT, HAIRLINE, INK, MUTED, blank, picture, style
from examples.report.document import Chart
from examples.report.figures import clipped, figure
from examples.research.curves import Fit
from examples.research.expression import LEAST_FOLD, has_changed
from examples.research.results import (
    CAPTIONS,
    EXPRESSION_CHART,
    SCREENING_CHART,
    VALIDATION_CHART,
    GeneChange,
    ScreeningAnalysis,
)
from examples.research.validation import Points

MOST_GROUPS, MOST_PANELS, MOST_NAMED = 24, 6, 4
QUIET = "#aab1bf"
SMALLEST_P = 1e-12


def screening(analysis: ScreeningAnalysis) -> Chart:
    """The groups that do most, the first at the top."""

    def draw() -> Figure:
        shown = analysis.groups[:MOST_GROUPS]
        canvas = blank(6.6, 1.1 + 0.24 * len(shown))
        axes = canvas.add_subplot()
        style(axes, "Effect sizes")
        for at, group in enumerate(shown):
            colour = ACCENT if group.hit else QUIET
            axes.plot([group.low, group.high], [at, at], color=colour, linewidth=1.6)
            axes.plot([group.g], [at], "o", color=colour, markersize=4)
        names = [f"{clipped(one.compound, 20)}, {figure(one.dose_um)} µM" for one in shown]
        axes.set_yticks(range(len(shown)))
        axes.set_yticklabels(names, parse_math=False)
        axes.set_ylim(len(shown) - 0.5, -0.5)
        axes.axvline(0, color=MUTED, linewidth=0.8)
        _labelled(axes, "Hedges' g towards the positive control", "")
        return canvas

    return picture(draw, CAPTIONS[SCREENING_CHART], SCREENING_CHART)


def expression(changes: Sequence[GeneChange]) -> Chart:
    """A volcano for each compound."""
    by_compound: dict[str, list[GeneChange]] = defaultdict(list)
    for change in changes:
        by_compound[change.compound].append(change)

    def draw() -> Figure:
        panels = list(by_compound.items())[:MOST_PANELS]
        across = min(3, len(panels))
        down = -(-len(panels) // across)
        canvas = blank(2.7 * max(across, 2), 2.6 * down)
        for at, (compound, mine) in enumerate(panels, 1):
            axes = canvas.add_subplot(down, across, at)
            style(axes, clipped(compound, 30))
            _volcano(axes, mine)
        return canvas

    return picture(draw, CAPTIONS[EXPRESSION_CHART], EXPRESSION_CHART)


def validation(drawn: Mapping[str, tuple[Points, Fit | None]]) -> Chart:
    """A panel for each compound."""

    def draw() -> Figure:
        panels = list(drawn.items())[:MOST_PANELS]
        across = min(3, len(panels))
        down = -(-len(panels) // across)
        canvas = blank(2.7 * max(across, 2), 2.6 * down)
        for at, (compound, (points, fit)) in enumerate(panels, 1):
            axes = canvas.add_subplot(down, across, at)
            style(axes, clipped(compound, 30))
            _curve(axes, points, fit)
        return canvas

    return picture(draw, CAPTIONS[VALIDATION_CHART], VALIDATION_CHART)


def _volcano(axes: Axes, changes: Sequence[GeneChange]) -> None:
    for colour, mine in (
        (QUIET, [one for one in changes if not has_changed(one)]),
        (ACCENT, [one for one in changes if has_changed(one)]),
    ):
        heights = [-math.log10(max(one.p, SMALLEST_P)) for one in mine]
        axes.plot([one.log2_fold_change for one in mine], heights, "o", color=colour, markersize=3)
    for one in [one for one in changes if has_changed(one)][:MOST_NAMED]:
        place = (one.log2_fold_change, -math.log10(max(one.p, SMALLEST_P)))
        axes.annotate(
            clipped(one.gene, 12),
            place,
            xytext=(3, 2),
            textcoords="offset points",
            fontsize=6,
            color=INK,
            parse_math=False,
        )
    axes.margins(x=0.2, y=0.08)
    for edge in (-LEAST_FOLD, LEAST_FOLD):
        axes.axvline(edge, color=HAIRLINE, linewidth=0.8)
    _labelled(axes, "log2 fold change", "−log10 p")


def _curve(axes: Axes, points: Points, fit: Fit | None) -> None:
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.plot([dose for dose, _ in points], [response for _, response in points], "o", color=QUIET, markersize=3)
    if fit:
        low, high = math.log10(min(points)[0]), math.log10(max(points)[0])
        doses = [10 ** (low + (high - low) * step / 80) for step in range(81)]
        axes.plot(doses, [fit.at(dose) for dose in doses], color=ACCENT, linewidth=1.6)
        if doses[0] <= fit.ic50 <= doses[-1]:
            axes.axvline(fit.ic50, color=MUTED, linewidth=0.8, linestyle="--")
    _labelled(axes, "dose, µM", "% of vehicle")


def _labelled(axes: Axes, across: str, up: str) -> None:
    axes.set_xlabel(across, fontsize=7.5, color=MUTED)
    axes.set_ylabel(up, fontsize=7.5, color=MUTED)
