"""Experiments on paper: how many wells, cells and doses, computed from what is to be seen."""

from __future__ import annotations

from collections.abc import Sequence

from examples.research import expression, screening, validation
from examples.research.corpus import corpus, rows_of
from examples.research.inference import replicates_for
from examples.research.results import (
    Candidates,
    Condition,
    FollowUpDesign,
    Hypotheses,
    ScreeningAnalysis,
    ScreeningAssay,
    ValidationAssay,
)

CELL_LINES = "cell-lines.csv"
SCREENING_HOURS, FOLLOW_UP_HOURS = 72, 24
SCREENING_DOSES = [1.0, 10.0]
SHOWN_EFFECT = 2.0  # standard deviations that a screening is to see
EXPRESSION_EFFECT = 3.0
FOLLOWED = 3  # hits of which expression is measured
HALF_LOGS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # µM


def cell_lines() -> list[str]:
    return [row["name"] for row in rows_of(CELL_LINES)]


def fitting(subject: str) -> str:
    """The cell line that comes first for a subject, as a sentence."""
    for row in rows_of(CELL_LINES):
        if row["subject"] == subject:
            return f"For {subject} I would take {row['name']}: {row['cells']}."
    return ""


def screening_assay(hypotheses: Hypotheses, cell_line: str) -> ScreeningAssay:
    """The screening of the first hypothesis, with as many cells as fill a well when it ends."""
    (line,) = [row for row in rows_of(CELL_LINES) if row["name"] == cell_line]
    doublings = SCREENING_HOURS / float(line["doubling_hours"])
    return ScreeningAssay(
        target=hypotheses.hypotheses[0].target,
        marker=hypotheses.marker,
        cell_line=cell_line,
        cells=line["cells"],
        hours=SCREENING_HOURS,
        seeded_per_well=round(int(line["confluent_per_well"]) / 2**doublings / 100) * 100,
        replicates=replicates_for(SHOWN_EFFECT),
        doses_um=SCREENING_DOSES,
        columns=list(screening.COLUMNS),
    )


def follow_up(screened: ScreeningAnalysis, subject: str) -> FollowUpDesign:
    """Expression under the best hits, each at the lowest dose at which it is one. It needs at least one hit."""
    lowest: dict[str, float] = {}
    for group in screened.groups:
        if group.hit:
            lowest[group.compound] = min(group.dose_um, lowest.get(group.compound, group.dose_um))
    conditions = [Condition(compound=one, dose_um=lowest[one]) for one in screened.hits[:FOLLOWED]]
    replicates = replicates_for(EXPRESSION_EFFECT)
    names = [expression.CONTROL, *(one.compound for one in conditions)]
    return FollowUpDesign(
        subject=subject,
        conditions=conditions,
        replicates=replicates,
        hours=FOLLOW_UP_HOURS,
        pathway_genes=corpus()["subjects"][subject]["pathway_genes"],
        stress_genes=corpus()["stress_genes"],
        columns=["gene", *_numbered(names, replicates)],
    )


def validation_assay(candidates: Candidates) -> ValidationAssay:
    """Eight doses, half a decade apart, of each candidate."""
    return ValidationAssay(
        compounds=[one.compound for one in candidates.candidates],
        doses_um=list(HALF_LOGS),
        replicates=replicates_for(EXPRESSION_EFFECT),
        columns=list(validation.COLUMNS),
    )


def _numbered(names: Sequence[str], replicates: int) -> list[str]:
    return [f"{name}_{number}" for name in names for number in range(1, replicates + 1)]
