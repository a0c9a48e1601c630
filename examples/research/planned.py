"""What was read and planned, as sections of a document: literature, hypotheses, molecules, and the three designs."""

from __future__ import annotations

from examples.prose import counted
from examples.report.document import Document, Grid, Section
from examples.report.figures import figure
from examples.research.results import (
    MADE_UP,
    FollowUpDesign,
    Hypotheses,
    LiteratureReview,
    Molecule,
    ScreeningAssay,
    Selection,
    SetAside,
    ValidationAssay,
)


def page(title: str, summary: str, section: Section) -> Document:
    """One section as a document of its own."""
    return Document(title, summary, (), None, (), (MADE_UP,), (section,))


def literature(review: LiteratureReview) -> Section:
    targets = [
        [one.target, one.what, str(one.score), ", ".join(one.supporting) or "–", ", ".join(one.contradicting) or "–"]
        for one in review.targets
    ]
    papers = [
        [one.id, str(one.year), one.target, one.evidence, "speaks for" if one.supports else "speaks against", one.title]
        for one in review.papers
    ]
    return Section(
        "Literature",
        [
            f"{counted(len(review.papers), 'paper')} of {review.corpus.rows} in the made-up corpus "
            f"{'is' if len(review.papers) == 1 else 'are'} on {review.subject}; what is measured there is "
            f"{review.marker}.",
            "A paper weighs 3 where its evidence is genetic, 2 from animals, 1 from cells; one that contradicts counts "
            "against its target.",
        ],
        grids=[
            Grid(
                "Targets",
                ("Target", "What it is", "Score", "For", "Against"),
                targets,
                (False, False, True, False, False),
            ),
            Grid("Papers", ("Paper", "Year", "Target", "Evidence", "", "Title"), papers, (False, True, *[False] * 4)),
        ],
    )


def hypotheses(found: Hypotheses) -> Section:
    said = [f"{one.id} (score {one.score}, {', '.join(one.papers)}): {one.statement}" for one in found.hypotheses]
    return Section("Hypotheses", [f"By {found.modality}:", *said], grids=_aside("Targets set aside", found.set_aside))


def screening_assay(assay: ScreeningAssay) -> Section:
    doses = " and ".join(f"{dose:g}" for dose in assay.doses_um)
    return Section(
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


def selection(chosen: Selection) -> Section:
    names = list(chosen.chosen[0].figures) if chosen.chosen else []
    rows = [[one.id, *(figure(one.figures.get(name, float("nan"))) for name in names)] for one in chosen.chosen]
    headers = ("Molecule", *(name.replace("_", " ") for name in names))
    grid = Grid("Chosen", headers, rows, (False, *[True] * len(names)))
    return Section(
        "Molecules",
        [
            f"{len(chosen.chosen)} of the {chosen.library.rows} {chosen.modality} of the made-up library, for "
            f"{chosen.target}. The rules:",
            *chosen.rules,
        ],
        grids=[grid, *_aside("Left", chosen.refused)],
    )


def follow_up(design: FollowUpDesign) -> Section:
    conditions = ", ".join(f"{one.compound} at {figure(one.dose_um)} µM" for one in design.conditions)
    return Section(
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


def validation_assay(assay: ValidationAssay) -> Section:
    return Section(
        "Validation assay",
        [
            f"{', '.join(assay.compounds)} at {', '.join(f'{dose:g}' for dose in assay.doses_um)} µM, "
            f"{assay.replicates} wells each, and six wells of vehicle (dose 0).",
            f"Results as CSV with the columns {', '.join(assay.columns)}.",
        ],
    )


def selected_rows(chosen: Selection) -> tuple[list[str], list[list[object]]]:
    """The header and the rows of a CSV file of the molecules."""
    names = list(chosen.chosen[0].figures) if chosen.chosen else []

    def row(one: Molecule) -> list[object]:
        return [one.id, *(one.figures[name] for name in names)]

    return ["molecule", *names], [row(one) for one in chosen.chosen]


def _aside(heading: str, found: list[SetAside]) -> list[Grid]:
    return [Grid(heading, ("Name", "Why"), [[one.name, one.why] for one in found], (False, False))] if found else []
