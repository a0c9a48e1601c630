"""The results of the pipeline as sections of a Markdown page, and the final report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

from examples.pages import Picture, blocks, escape, items, table
from examples.research.results import (
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
    SetAside,
    Source,
    ValidationAnalysis,
    ValidationAssay,
)
from examples.texts import counted, figure

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


PARTS: dict[str, type[Any]] = get_type_hints(Research)
"""The type of each part, by its name."""


def screening_section(analysis: ScreeningAnalysis, chart: Picture | None = None) -> str:
    headers = ("Compound", "Dose, µM", "n", "Inhibition, %", "g", "95 % interval", "p", "q", "Hit")
    rows = [
        [
            one.compound, figure(one.dose_um), str(one.replicates), str(round(one.inhibition)), f"{one.g:.2f}",
            f"{one.low:.2f} to {one.high:.2f}", f"{one.p:.2g}", f"{one.q:.2g}", "yes" if one.hit else "no",
        ]
        for one in analysis.groups[:MOST_ROWS]
    ]  # fmt: skip
    said = [hits_sentence(analysis), f"Z′ is {analysis.z_prime:.2f}.", *analysis.rules, *analysis.notes]
    return section("Screening", said, grid("Ranking", headers, rows, range(1, 8)), chart=chart)


def expression_section(analysis: ExpressionAnalysis, chart: Picture | None = None) -> str:
    headers = ("Compound", "Changed", "Drivers that fall", "Stress genes that rise", "Others")
    rows = [
        [
            one.compound, f"{one.changed} of {one.tested}", f"{one.pathway_down} of {one.pathway_measured}",
            ", ".join(one.stress_up) or "none", str(one.elsewhere),
        ]
        for one in analysis.signatures
    ]  # fmt: skip
    signatures = grid("Signatures", headers, rows, [1, 2, 4])
    return section("Expression", [*analysis.rules, *analysis.notes], signatures, chart=chart)


def candidates_section(chosen: Candidates) -> str:
    headers = ("Compound", "Score", "Inhibition, %", "at µM", "Drivers that fall", "Others")
    rows = [
        [
            one.compound, f"{one.score:.2f}", str(round(one.inhibition)), figure(one.dose_um),
            f"{100 * one.pathway_share:.0f} %", str(one.elsewhere),
        ]
        for one in chosen.candidates
    ]  # fmt: skip
    candidates = grid("Candidates", headers, rows, range(1, 6))
    aside = _set_aside("Set aside", chosen.set_aside, "Compound")
    return section("Clinical candidates", ["The rules:", *chosen.rules], candidates, aside)


def validation_section(analysis: ValidationAnalysis, chart: Picture | None = None) -> str:
    headers = ("Compound", "IC50, µM", "95 % interval", "Slope", "R²", "Highest effect, %", "Confirmed")
    rows = [
        [
            one.compound, _or_dash(one.ic50_um), f"{_or_dash(one.low)} to {_or_dash(one.high)}", _or_dash(one.hill),
            _or_dash(one.r_squared), f"{one.most:.0f}", "yes" if one.confirmed else "no",
        ]
        for one in analysis.curves
    ]  # fmt: skip
    whys = [f"{one.compound}: {one.why}" for one in analysis.curves]
    curves = grid("Curves", headers, rows, range(1, 6))
    return section("Validation", [*analysis.rules, *whys, *analysis.notes], curves, chart=chart)


def final_report(known: Research, charts: Mapping[str, Picture]) -> tuple[str, str]:
    parts = [
        literature_section(known.review),
        hypotheses_section(known.hypotheses),
        screening_assay_section(known.assay),
        selection_section(known.selection),
        screening_section(known.screened, charts.get(SCREENING_CHART)),
        follow_up_section(known.follow_up),
        expression_section(known.expressed, charts.get(EXPRESSION_CHART)),
        candidates_section(known.candidates),
        validation_assay_section(known.validation),
        validation_section(known.validated, charts.get(VALIDATION_CHART)),
        provenance_section(known),
        section("Limitations", LIMITS),
    ]
    findings = [
        known.hypotheses.hypotheses[0].statement,
        hits_sentence(known.screened),
        f"Candidates: {', '.join(one.compound for one in known.candidates.candidates)}.",
        *(f"{one.compound}: {one.why}" for one in known.validated.curves),
    ]
    title = f"{known.review.subject.capitalize()}: from the literature to candidates"
    return title, page(title, conclusion(known), items(findings), *parts)


def conclusion(known: Research) -> str:
    chosen = {one.compound for one in known.candidates.candidates}
    confirmed = [one for one in known.validated.confirmed if one in chosen]
    if not confirmed:
        return f"None of the candidates ({', '.join(sorted(chosen))}) was confirmed against {known.assay.target}."
    doses = {one.compound: one.ic50_um for one in known.validated.curves}
    said = ", ".join(f"{one} (IC50 {_or_dash(doses[one])} µM)" for one in confirmed)
    return f"Confirmed against {known.assay.target} in {known.assay.cell_line} cells: {said}."


def hits_sentence(analysis: ScreeningAnalysis) -> str:
    compounds = len({one.compound for one in analysis.groups})
    if not analysis.hits:
        return f"None of {counted(compounds, 'compound')} is a hit."
    more = f" and {len(analysis.hits) - 12} more" if len(analysis.hits) > 12 else ""
    return f"{len(analysis.hits)} of {counted(compounds, 'compound')} hit: {', '.join(analysis.hits[:12])}{more}."


def provenance_section(known: Research) -> str:
    what: Sequence[tuple[str, Source]] = (
        ("papers, made up", known.review.corpus),
        ("library, made up", known.selection.library),
        ("screening, uploaded", known.screened.source),
        ("expression, uploaded", known.expressed.source),
        ("validation, uploaded", known.validated.source),
    )
    rows = [[said, one.file, f"{one.rows:,}", one.sha256[:16]] for said, one in what]
    files = grid("Files", ("What", "File", "Rows", "SHA-256 begins"), rows, [2])
    tested = {one.compound for one in known.screened.groups}
    strangers = sorted(tested - {one.id for one in known.selection.chosen})
    notes = [f"Tested, though not selected: {', '.join(strangers[:12])}."] if strangers else []
    return section("Where the figures come from", notes, files)


def _or_dash(value: float | None) -> str:
    return "–" if value is None else figure(value)


def section(heading: str, sentences: Sequence[str], *tables: str, chart: Picture | None = None) -> str:
    return blocks(f"## {heading}", *map(escape, sentences), chart.markdown if chart else "", *tables)


def grid(heading: str, headers: Sequence[str], rows: Sequence[Sequence[str]], numeric: Iterable[int] = ()) -> str:
    """A table with its heading; "" if it has no rows."""
    return blocks(f"### {heading}", table(headers, rows, numeric=numeric)) if rows else ""


def page(title: str, summary: str, *parts: str) -> str:
    return blocks(f"# {escape(title)}", escape(summary), *parts, "---", escape(MADE_UP)) + "\n"


def literature_section(review: LiteratureReview) -> str:
    targets = [
        [one.target, one.what, str(one.score), ", ".join(one.supporting) or "–", ", ".join(one.contradicting) or "–"]
        for one in review.targets
    ]
    papers = [
        [one.id, str(one.year), one.target, one.evidence, "speaks for" if one.supports else "speaks against", one.title]
        for one in review.papers
    ]
    return section(
        "Literature",
        [
            f"{counted(len(review.papers), 'paper')} of {review.corpus.rows} in the made-up corpus "
            f"{'is' if len(review.papers) == 1 else 'are'} on {review.subject}; what is measured there is "
            f"{review.marker}.",
            "A paper weighs 3 where its evidence is genetic, 2 from animals, 1 from cells; one that contradicts counts "
            "against its target.",
        ],
        grid("Targets", ("Target", "What it is", "Score", "For", "Against"), targets, [2]),
        grid("Papers", ("Paper", "Year", "Target", "Evidence", "", "Title"), papers, [1]),
    )


def hypotheses_section(found: Hypotheses) -> str:
    said = [f"{one.id} (score {one.score}, {', '.join(one.papers)}): {one.statement}" for one in found.hypotheses]
    aside = _set_aside("Targets set aside", found.set_aside)
    return section("Hypotheses", [f"By {found.modality}:", *said], aside)


def screening_assay_section(assay: ScreeningAssay) -> str:
    doses = " and ".join(f"{dose:g}" for dose in assay.doses_um)
    return section(
        "Screening assay",
        [
            f"{assay.cell_line} ({assay.cells}) in plates of 96 wells, {assay.seeded_per_well:,} cells a well, so that "
            f"it is full after {assay.hours} hours.",
            f"Each compound at {doses} µM, {assay.replicates} wells each: enough to see two standard deviations with a "
            "power of 80 % at the level of 5 %. Eight wells of vehicle alone (negative), eight of a reference "
            f"inhibitor of {assay.target} (positive).",
            f"Measured: {assay.marker}, as a number for each well.",
            f"Results as CSV with the columns {', '.join(assay.columns)}; role is sample, negative or positive.",
        ],
    )


def selection_section(chosen: Selection) -> str:
    names = list(chosen.chosen[0].figures) if chosen.chosen else []
    rows = [[one.id, *(figure(one.figures.get(name, float("nan"))) for name in names)] for one in chosen.chosen]
    headers = ("Molecule", *(name.replace("_", " ") for name in names))
    of_library = f"{len(chosen.chosen)} of the {chosen.library.rows} {chosen.modality} of the made-up library"
    return section(
        "Molecules",
        [f"{of_library}, for {chosen.target}. The rules:", *chosen.rules],
        grid("Chosen", headers, rows, range(1, len(names) + 1)),
        _set_aside("Left", chosen.refused),
    )


def follow_up_section(design: FollowUpDesign) -> str:
    conditions = ", ".join(f"{one.compound} at {figure(one.dose_um)} µM" for one in design.conditions)
    return section(
        "Follow-up experiment",
        [
            f"Expression of genes after {design.hours} hours, under a control and {conditions}; {design.replicates} "
            "cultures each, enough to see three standard deviations.",
            f"Genes that drive {design.subject}, which should fall: {', '.join(design.pathway_genes)}.",
            f"Genes of stressed cells, which should not rise: {', '.join(design.stress_genes)}.",
            f"Results as CSV, a row for each gene, with the columns {', '.join(design.columns)}.",
            "The values are counts, not logarithms.",
        ],
    )


def validation_assay_section(assay: ValidationAssay) -> str:
    return section(
        "Validation assay",
        [
            f"{', '.join(assay.compounds)} at {', '.join(f'{dose:g}' for dose in assay.doses_um)} µM, "
            f"{assay.replicates} wells each, and six wells of vehicle (dose 0).",
            f"Results as CSV with the columns {', '.join(assay.columns)}.",
        ],
    )


def _set_aside(heading: str, found: Sequence[SetAside], named: str = "Name") -> str:
    return grid(heading, (named, "Why"), [[one.name, one.why] for one in found])
