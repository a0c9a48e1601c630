"""What was measured and concluded, as sections of a document; and the report on all of it."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from examples.prose import counted
from examples.report.document import Chart, Document, Grid, Section
from examples.report.figures import figure
from examples.research import planned
from examples.research.results import (
    CAPTIONS,
    EXPRESSION_CHART,
    MADE_UP,
    SCREENING_CHART,
    VALIDATION_CHART,
    Candidates,
    ExpressionAnalysis,
    FollowUpDesign,
    Hypotheses,
    LiteratureReview,
    ScreeningAnalysis,
    ScreeningAssay,
    Selection,
    Source,
    ValidationAnalysis,
    ValidationAssay,
)

MOST_ROWS = 25
LIMITS = (
    "The papers, targets, molecules and sample data are made up. The computations are real and "
    "hold for what was uploaded.",
    "Replicates on one plate are no independent experiments: effects of the plate or the day are not seen.",
    "The interval of g and the numbers of replicates rest on normal approximations, that of the IC50 on the profile of "
    "the likelihood; with three or four values they are rough.",
    "A hit, a candidate and a confirmation are what the stated rules make of these files, no judgement of a person.",
)


@dataclass(frozen=True)
class Research:
    """Everything that a report is about."""

    review: LiteratureReview
    hypotheses: Hypotheses
    assay: ScreeningAssay
    selection: Selection
    screened: ScreeningAnalysis
    follow_up: FollowUpDesign
    expressed: ExpressionAnalysis
    candidates: Candidates
    validation: ValidationAssay
    validated: ValidationAnalysis


def screening(analysis: ScreeningAnalysis, chart: Chart | None = None) -> Section:
    headers = ("Compound", "Dose, µM", "n", "Inhibition, %", "g", "95 % interval", "p", "q", "Hit")
    rows = [
        [
            one.compound, figure(one.dose_um), str(one.replicates), str(round(one.inhibition)), f"{one.g:.2f}",
            f"{one.low:.2f} to {one.high:.2f}", f"{one.p:.2g}", f"{one.q:.2g}", "yes" if one.hit else "no",
        ]
        for one in analysis.groups[:MOST_ROWS]
    ]  # fmt: skip
    return Section(
        "Screening",
        [hits_said(analysis), f"Z′ is {analysis.z_prime:.2f}.", *analysis.rules, *analysis.notes],
        chart,
        [Grid("Ranking", headers, rows, (False, *[True] * 7, False))],
    )


def expression(analysis: ExpressionAnalysis, chart: Chart | None = None) -> Section:
    headers = ("Compound", "Changed", "Drivers that fall", "Stress genes that rise", "Others")
    rows = [
        [
            one.compound, f"{one.changed} of {one.tested}", f"{one.pathway_down} of {one.pathway_measured}",
            ", ".join(one.stress_up) or "none", str(one.elsewhere),
        ]
        for one in analysis.signatures
    ]  # fmt: skip
    grid = Grid("Signatures", headers, rows, (False, True, True, False, True))
    return Section("Expression", [*analysis.rules, *analysis.notes], chart, [grid])


def candidates(chosen: Candidates) -> Section:
    headers = ("Compound", "Score", "Inhibition, %", "at µM", "Drivers that fall", "Others")
    rows = [
        [
            one.compound, f"{one.score:.2f}", str(round(one.inhibition)), figure(one.dose_um),
            f"{100 * one.pathway_share:.0f} %", str(one.elsewhere),
        ]
        for one in chosen.candidates
    ]  # fmt: skip
    grids = [Grid("Candidates", headers, rows, (False, *[True] * 5))]
    aside = [[one.name, one.why] for one in chosen.set_aside]
    grids += [Grid("Set aside", ("Compound", "Why"), aside, (False, False))] if aside else []
    return Section("Clinical candidates", ["The rules:", *chosen.rules], grids=grids)


def validation(analysis: ValidationAnalysis, chart: Chart | None = None) -> Section:
    headers = ("Compound", "IC50, µM", "95 % interval", "Slope", "R²", "Highest effect, %", "Confirmed")
    rows = [
        [
            one.compound, _or_none(one.ic50_um), f"{_or_none(one.low)} to {_or_none(one.high)}", _or_none(one.hill),
            _or_none(one.r_squared), f"{one.most:.0f}", "yes" if one.confirmed else "no",
        ]
        for one in analysis.curves
    ]  # fmt: skip
    whys = [f"{one.compound}: {one.why}" for one in analysis.curves]
    grid = Grid("Curves", headers, rows, (False, *[True] * 5, False))
    return Section("Validation", [*analysis.rules, *whys, *analysis.notes], chart, [grid])


def report(known: Research, charts: Mapping[str, Chart]) -> Document:
    """All of it, from the literature to what was confirmed."""
    sections = [
        planned.literature(known.review),
        planned.hypotheses(known.hypotheses),
        planned.screening_assay(known.assay),
        planned.selection(known.selection),
        screening(known.screened, charts.get(SCREENING_CHART)),
        planned.follow_up(known.follow_up),
        expression(known.expressed, charts.get(EXPRESSION_CHART)),
        candidates(known.candidates),
        planned.validation_assay(known.validation),
        validation(known.validated, charts.get(VALIDATION_CHART)),
        provenance(known),
        Section("Limitations", LIMITS),
    ]
    findings = [
        MADE_UP,
        known.hypotheses.hypotheses[0].statement,
        hits_said(known.screened),
        f"Candidates: {', '.join(one.compound for one in known.candidates.candidates)}.",
        *(f"{one.compound}: {one.why}" for one in known.validated.curves),
    ]
    title = f"{known.review.subject.capitalize()}: from the literature to candidates"
    return Document(title, conclusion(known), findings, None, (), (), sections)


def conclusion(known: Research) -> str:
    """The one sentence to read."""
    chosen = {one.compound for one in known.candidates.candidates}
    confirmed = [one for one in known.validated.confirmed if one in chosen]
    if not confirmed:
        return f"None of the candidates ({', '.join(sorted(chosen))}) was confirmed against {known.assay.target}."
    doses = {one.compound: one.ic50_um for one in known.validated.curves}
    said = ", ".join(f"{one} (IC50 {_or_none(doses[one])} µM)" for one in confirmed)
    return f"Confirmed against {known.assay.target} in {known.assay.cell_line} cells: {said}."


def hits_said(analysis: ScreeningAnalysis) -> str:
    """The hits in a sentence."""
    compounds = len({one.compound for one in analysis.groups})
    if not analysis.hits:
        return f"None of {counted(compounds, 'compound')} is a hit."
    more = f" and {len(analysis.hits) - 12} more" if len(analysis.hits) > 12 else ""
    return f"{len(analysis.hits)} of {counted(compounds, 'compound')} hit: {', '.join(analysis.hits[:12])}{more}."


def provenance(known: Research) -> Section:
    """The files that everything was computed from."""
    what: Sequence[tuple[str, Source]] = (
        ("papers, made up", known.review.corpus),
        ("library, made up", known.selection.library),
        ("screening, uploaded", known.screened.source),
        ("expression, uploaded", known.expressed.source),
        ("validation, uploaded", known.validated.source),
    )
    rows = [[said, one.file, f"{one.rows:,}", one.sha256[:16]] for said, one in what]
    grid = Grid("Files", ("What", "File", "Rows", "SHA-256 begins"), rows, (False, False, True, False))
    tested = {one.compound for one in known.screened.groups}
    strangers = sorted(tested - {one.id for one in known.selection.chosen})
    notes = [f"Tested, though not selected: {', '.join(strangers[:12])}."] if strangers else []
    return Section("Where the figures come from", notes, grids=[grid])


def chart_of(name: str, png: bytes) -> Chart:
    """A chart that another agent drew."""
    width, height = (int.from_bytes(png[at : at + 4]) for at in (16, 20))  # of its header (PNG 11.2.1)
    element = f'<img src="data:image/png;base64,{base64.b64encode(png).decode()}" alt="">'
    return Chart(png, element, CAPTIONS[name], (width / 200, height / 200), name)


def _or_none(value: float | None) -> str:
    return "–" if value is None else figure(value)
