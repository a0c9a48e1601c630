"""The Data analysis agent: computes what uploaded tables say, and asks for another where one cannot be used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from agentkit import Artifact, Completed, InputRequired, Outcome, SkillHandler, TaskContext, by_words, skill
from examples import handover
from examples.prose import counted
from examples.report.document import Chart
from examples.research import expression, measured, screening, validation
from examples.research.results import FollowUpDesign
from examples.research.tables import Unusable, Upload, uploaded, written

SCHEMA = {"type": "string", "format": "binary", "title": "CSV file", "contentMediaType": "text/csv"}
TAKEN, GIVEN = ("text/csv", "text/tab-separated-values", "text/plain"), ("application/json", "text/csv", "image/png")

RANKING = (
    "compound", "dose_um", "replicates", "mean", "inhibition_percent", "hedges_g", "low_95", "high_95", "p", "q", "hit",
)  # fmt: skip
CHANGES = ("compound", "gene", "log2_fold_change", "p", "q", "changed")
CURVES = (
    "compound", "ic50_um", "low_95", "high_95", "slope", "r_squared", "highest_effect_percent", "confirmed",
)  # fmt: skip

Analyse = Callable[[Upload], Completed]


class DataAnalysis(SkillHandler):
    """Computes effect sizes, tests with correction for their number, and dose-response curves from CSV files."""

    name = "Data analysis"
    # Any file may come in, so that the agent can say itself what is wrong with it.
    input_modes = ("text/plain", "text/csv", "application/json", "*/*")
    output_modes = ("application/json", "text/csv", "image/png", "text/plain")
    choose_skill = by_words(
        {
            "analyse-screening": ("screening", "plate", "hits"),
            "analyse-expression": ("expression", "genes", "volcano"),
            "analyse-validation": ("validation", "dose-response", "ic50"),
        }
    )
    retry_safe = True

    @skill("analyse-screening", tags=["screening", "statistics", "research"], input_modes=TAKEN, output_modes=GIVEN)
    async def analyse_screening(self, task: TaskContext) -> Outcome:
        """Hedges' g against the control with its interval, Z′, Welch's test with Benjamini and Hochberg, a ranking."""
        return await _analysed(task, screening.COLUMNS, _screened)

    @skill("analyse-expression", tags=["expression", "statistics", "research"], input_modes=TAKEN, output_modes=GIVEN)
    async def analyse_expression(self, task: TaskContext) -> Outcome:
        """Log2 fold changes against the control, Welch's test with Benjamini and Hochberg, and a volcano chart."""
        design = handover.optional(task, FollowUpDesign)
        pathway, stress = (design.pathway_genes, design.stress_genes) if design else ([], [])
        return await _analysed(task, expression.COLUMNS, lambda upload: _expressed(upload, pathway, stress))

    @skill(
        "analyse-validation", tags=["dose-response", "statistics", "research"], input_modes=TAKEN, output_modes=GIVEN
    )
    async def analyse_validation(self, task: TaskContext) -> Outcome:
        """Dose-response curves by least squares, IC50 with its interval, and whether the compound is confirmed."""
        return await _analysed(task, validation.COLUMNS, _validated)


async def _analysed(task: TaskContext, columns: Sequence[str], analyse: Analyse) -> Outcome:
    """What the analysis gives; or, where the file cannot be used, the question for another."""
    try:
        upload = await asyncio.to_thread(uploaded, task, columns)
        await task.progress(f"Computing {counted(upload.source.rows, 'row')}…")
        return await asyncio.to_thread(analyse, upload)
    except Unusable as problem:
        return InputRequired(str(problem), slot="file", schema=SCHEMA)


# Matplotlib takes seconds to import: when the first chart is drawn, not whenever a process starts.


def _screened(upload: Upload) -> Completed:
    from examples.research import charts

    found = screening.analysed(upload)
    rows = [
        [
            one.compound, one.dose_um, one.replicates, one.mean, one.inhibition, one.g, one.low, one.high, one.p, one.q,
            "yes" if one.hit else "no",
        ]
        for one in found.groups
    ]  # fmt: skip
    table = handover.document("screening-ranking.csv", written(RANKING, rows), "text/csv")
    said = f"{measured.hits_said(found)} Z′ is {found.z_prime:.2f}."
    return Completed(said, [handover.as_json(found), table, _drawn(charts.screening(found))])


def _expressed(upload: Upload, pathway: Sequence[str], stress: Sequence[str]) -> Completed:
    from examples.research import charts

    found, every = expression.analysed(upload, pathway, stress)
    rows = [
        [one.compound, one.gene, one.log2_fold_change, one.p, one.q, "yes" if expression.has_changed(one) else "no"]
        for one in every
    ]
    table = handover.document("expression-changes.csv", written(CHANGES, rows), "text/csv")
    said = "; ".join(f"{one.compound}: {one.changed} of {one.tested} genes changed" for one in found.signatures)
    return Completed(f"{said}.", [handover.as_json(found), table, _drawn(charts.expression(every))])


def _validated(upload: Upload) -> Completed:
    from examples.research import charts

    found, drawn = validation.analysed(upload)
    rows = [
        [
            one.compound, one.ic50_um, one.low, one.high, one.hill, one.r_squared, one.most,
            "yes" if one.confirmed else "no",
        ]
        for one in found.curves
    ]  # fmt: skip
    table = handover.document("validation-curves.csv", written(CURVES, rows), "text/csv")
    said = f"Confirmed: {', '.join(found.confirmed) or 'none'}."
    return Completed(said, [handover.as_json(found), table, _drawn(charts.validation(drawn))])


def _drawn(chart: Chart) -> Artifact:
    return Artifact.bytes(chart.name, chart.png, "image/png", description=chart.caption)
