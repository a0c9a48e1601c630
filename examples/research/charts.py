"""The charts of the pipeline: effect sizes with their intervals, volcanoes, and dose-response curves."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from examples.pages import Picture
from examples.report.charts import ACCENT, MOST_PANELS, draw_panels
from examples.research.analyses import LEAST_FOLD, Points, has_changed
from examples.research.results import (
    CAPTIONS,
    EXPRESSION_CHART,
    SCREENING_CHART,
    VALIDATION_CHART,
    GeneChange,
    ScreeningAnalysis,
)
from examples.research.statistics import Fit
from examples.texts import cut, figure

MOST_GROUPS, MOST_NAMED = 24, 4
QUIET = "#aab1bf"
SMALLEST_P = 1e-12


def screening(analysis: ScreeningAnalysis) -> Picture:
    return draw_panels([analysis], _effects, SCREENING_CHART, CAPTIONS[SCREENING_CHART])


def expression(changes: Sequence[GeneChange]) -> Picture:
    by_compound: dict[str, list[GeneChange]] = defaultdict(list)
    for change in changes:
        by_compound[change.compound].append(change)
    panels = list(by_compound.values())[:MOST_PANELS]
    return draw_panels(panels, _volcano, EXPRESSION_CHART, CAPTIONS[EXPRESSION_CHART])


def validation(curves: Mapping[str, tuple[Points, Fit | None]]) -> Picture:
    panels = list(curves.items())[:MOST_PANELS]
    return draw_panels(panels, _curve, VALIDATION_CHART, CAPTIONS[VALIDATION_CHART])


def _effects(axes: Axes, analysis: ScreeningAnalysis) -> None:
    axes.set_title("Hedges' g towards the positive control", loc="left")
    shown = analysis.groups[:MOST_GROUPS]
    for at, group in enumerate(shown):
        colour = ACCENT if group.hit else QUIET
        axes.plot([group.low, group.high], [at, at], color=colour)
        axes.plot([group.g], [at], "o", color=colour, markersize=4)
    axes.set_yticks(range(len(shown)), [f"{cut(one.compound, 20)}, {figure(one.dose_um)} µM" for one in shown])
    axes.tick_params(labelsize=5)
    axes.invert_yaxis()
    axes.axvline(0, color=QUIET)


def _volcano(axes: Axes, changes: Sequence[GeneChange]) -> None:
    axes.set_title(cut(changes[0].compound, 30), loc="left")
    changed = [one for one in changes if has_changed(one)]
    for colour, mine in ((QUIET, [one for one in changes if one not in changed]), (ACCENT, changed)):
        axes.plot(
            [one.log2_fold_change for one in mine], [_height(one) for one in mine], "o", color=colour, markersize=3
        )
    for one in changed[:MOST_NAMED]:
        axes.annotate(cut(one.gene, 12), (one.log2_fold_change, _height(one)), fontsize=6)
    for edge in (-LEAST_FOLD, LEAST_FOLD):
        axes.axvline(edge, color=QUIET, linewidth=0.8)
    axes.set_xlabel("log2 fold change", fontsize=7)
    axes.set_ylabel("−log10 p", fontsize=7)


def _height(change: GeneChange) -> float:
    return -math.log10(max(change.p, SMALLEST_P))


def _curve(axes: Axes, shown: tuple[str, tuple[Points, Fit | None]]) -> None:
    compound, (points, fit) = shown
    axes.set_title(cut(compound, 30), loc="left")
    axes.set_xscale("log")
    axes.plot([dose for dose, _ in points], [response for _, response in points], "o", color=QUIET, markersize=3)
    if fit:
        low, high = math.log10(min(points)[0]), math.log10(max(points)[0])
        doses = [10 ** (low + (high - low) * step / 80) for step in range(81)]
        axes.plot(doses, [fit.at(dose) for dose in doses], color=ACCENT)
        if doses[0] <= fit.ic50 <= doses[-1]:
            axes.axvline(fit.ic50, color=QUIET, linestyle="--")
    axes.set_xlabel("dose, µM", fontsize=7)
    axes.set_ylabel("% of vehicle", fontsize=7)
