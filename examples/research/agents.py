"""The agents of the research pipeline. Each states its input, its result and its rules."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from pydantic import BaseModel

from agentkit import (
    Artifact,
    Completed,
    InputRequired,
    Outcome,
    SkillHandler,
    TaskContext,
    by_words,
    file_schema,
    skill,
)
from examples import handover, pages
from examples.handover import Result, needed
from examples.pages import Picture
from examples.research import analyses, library, planning, results, sections
from examples.research.results import (
    Candidates,
    ExpressionAnalysis,
    FollowUpDesign,
    Hypotheses,
    LiteratureReview,
    Modality,
    ScreeningAnalysis,
)
from examples.research.tables import Unusable, Upload, find_upload
from examples.texts import counted

RESULTS = ("application/json", "text/plain")
DOCUMENTS = ("application/json", "text/markdown")


class ResearchAgent(SkillHandler):
    """The common part of the pipeline's agents. They accept any file and explain what is wrong with it."""

    input_modes: Sequence[str] = ("text/plain", "application/json", "*/*")
    output_modes: Sequence[str] = ("application/json", "text/markdown", "text/plain")
    retry_safe = True


def delivered(said: str, found: Result, title: str, section: str, *more: Artifact) -> Completed:
    """A result as JSON for the next agents and as Markdown for people."""
    page = sections.page(title, said, section)
    return Completed(said, [handover.as_json(found), *more, handover.document(f"{found.called()}.md", page)])


def choice(task: TaskContext, field: str, title: str, question: str, options: Iterable[str]) -> InputRequired:
    """Asks for one of `options`. The question says so if the last answer named none."""
    again = "I did not find any of these in your answer. " if task.slot == field else ""
    schema = {"type": "string", "title": title, "enum": list(options)}
    return InputRequired(f"{again}{question}", slot=field, schema=schema)


class Literature(ResearchAgent):
    """Reviews fourteen made-up papers on a subject and weighs the evidence for each target. Needs no model."""

    name = "Literature"

    @skill(
        "review-literature",
        name="Weigh the literature",
        tags=["literature", "research", "evidence", "demo"],
        examples=["What is known about lung fibrosis?", "osteoarthritis"],
        output_modes=DOCUMENTS,
    )
    async def review(self, task: TaskContext) -> Outcome:
        """Gathers the papers of a small made-up corpus on lung fibrosis or osteoarthritis, and weighs for each
        target what speaks for and against it. A demonstration: the papers do not exist."""
        known = library.subjects()
        options = {one: [one] for one in known}
        subject = handover.chosen(task, "subject", options) or library.subject_in(task.message.text)
        if subject is None:
            question = f"My made-up papers are about {' and '.join(known)}. Which one should I review?"
            return InputRequired(question, slot="subject", schema={"type": "string", "title": "Subject", "enum": known})
        found = library.review_papers(subject)
        first = found.targets[0]
        said = (
            f"{counted(len(found.papers), 'paper')} on {subject}; the best evidence is for {first.target}, "
            f"{first.what} (score {first.score})."
        )
        return delivered(said, found, f"Literature on {subject}", sections.literature_section(found))


MODALITIES: dict[Modality, tuple[str, ...]] = {
    "small molecules": ("small molecule", "small-molecule"),
    "biologics": ("biologic", "antibod"),
}
MODALITY_QUESTION = "Small molecules or biologics? Small molecules reach targets inside the cell; biologics do not."


class HypothesisMaker(ResearchAgent):
    """Makes hypotheses of a literature review: which target to block, by small molecules or by biologics; it asks."""

    name = "Hypotheses"

    @skill(
        "make-hypotheses",
        tags=["hypotheses", "research", "targets", "demo"],
        examples=["Make hypotheses from this review", "Biologics"],
        input_modes=RESULTS,
        output_modes=DOCUMENTS,
    )
    async def make_hypotheses(self, task: TaskContext) -> Outcome:
        """Takes literature-review.json and says which targets to block, the best supported first, and why others
        are set aside. Asks whether by small molecules or by biologics. By stated rules, without a model."""
        review = needed(task, LiteratureReview)
        modality = handover.chosen(task, "modality", MODALITIES)
        if modality is None:
            return choice(task, "modality", "Modality", MODALITY_QUESTION, MODALITIES)
        found = planning.make_hypotheses(review, modality)
        first = found.hypotheses[0]
        said = f"{counted(len(found.hypotheses), 'hypothesis', 'hypotheses')} for {modality}. {first.statement}"
        return delivered(said, found, f"Hypotheses on {found.subject}", sections.hypotheses_section(found))


class AssayDesign(ResearchAgent):
    """Designs experiments on paper: numbers of wells, cells and doses, computed from what is to be seen."""

    name = "Assay design"
    choose_skill = by_words(
        {
            "design-screening": ("screening", "hypotheses", "cell line"),
            "design-follow-up": ("follow-up", "expression", "hits"),
            "design-validation": ("validation", "candidates", "dose-response"),
        }
    )

    @skill(
        "design-screening",
        tags=["assay", "screening", "research", "demo"],
        input_modes=RESULTS,
        output_modes=DOCUMENTS,
    )
    async def design_screening(self, task: TaskContext) -> Outcome:
        """Takes hypotheses.json and plans the screening of the first one. Asks for the cell line."""
        hypotheses = needed(task, Hypotheses)
        *lines, last = planning.cell_lines()
        options = {one: [one.casefold(), one.casefold().replace("-", "")] for one in [*lines, last]}
        line = handover.chosen(task, "cell_line", options)
        if line is None:
            suggested = planning.suggested_cell_line(hypotheses.subject)
            question = f"Which cell line: {', '.join(lines)} or {last}? {suggested}".strip()
            return choice(task, "cell_line", "Cell line", question, options)
        found = planning.design_screening(hypotheses, line)
        said = f"A screening in {line}: {found.seeded_per_well:,} cells a well, {found.replicates} wells of each dose."
        return delivered(said, found, "Screening assay", sections.screening_assay_section(found))

    @skill(
        "design-follow-up",
        tags=["follow-up", "expression", "research", "demo"],
        input_modes=RESULTS,
        output_modes=DOCUMENTS,
    )
    async def design_follow_up(self, task: TaskContext) -> Outcome:
        """Takes screening-analysis.json and hypotheses.json and plans an expression experiment with the best hits."""
        found = planning.design_follow_up(needed(task, ScreeningAnalysis), needed(task, Hypotheses).subject)
        names = ", ".join(one.compound for one in found.conditions)
        said = f"Expression under a control and {names}, {found.replicates} cultures each."
        return delivered(said, found, "Follow-up experiment", sections.follow_up_section(found))

    @skill(
        "design-validation",
        tags=["validation", "dose-response", "research", "demo"],
        input_modes=RESULTS,
        output_modes=DOCUMENTS,
    )
    async def design_validation(self, task: TaskContext) -> Outcome:
        """Takes candidates.json and plans a dose-response of each candidate."""
        found = planning.design_validation(needed(task, Candidates))
        said = f"{', '.join(found.compounds)} at {len(found.doses_um)} doses, {found.replicates} wells each."
        return delivered(said, found, "Validation assay", sections.validation_assay_section(found))


class Molecules(ResearchAgent):
    """Chooses molecules for a hypothesis from a made-up library, by properties computed from their formulas."""

    name = "Molecules"
    output_modes = ("application/json", "text/csv", "text/markdown", "text/plain")

    @skill(
        "select-molecules",
        tags=["molecules", "lipinski", "chemistry", "research", "demo"],
        examples=["Select molecules for these hypotheses"],
        input_modes=RESULTS,
        output_modes=("application/json", "text/csv", "text/markdown"),
    )
    async def select_molecules(self, task: TaskContext) -> Outcome:
        """Takes hypotheses.json and picks up to ten molecules for its first target: computes weight, acceptors and
        ligand efficiency from the formulas, applies the rules of Lipinski and Veber, and ranks by affinity. The
        library is made up."""
        hypotheses = needed(task, Hypotheses)
        found = library.select_molecules(hypotheses.hypotheses[0].target, hypotheses.modality)
        names = ", ".join(one.id for one in found.chosen)
        said = f"{len(found.chosen)} of {found.library.rows} {found.modality} for {found.target}: {names}."
        table = handover.csv_table("selection.csv", [{"molecule": one.id, **one.figures} for one in found.chosen])
        return delivered(said, found, f"Molecules for {found.target}", sections.selection_section(found), table)


TABLE_MODES = ("text/csv", "text/tab-separated-values", "text/plain")
ANALYSIS_MODES = ("application/json", "text/csv", "image/png")

Analyse = Callable[[Upload], Completed]


class DataAnalysis(ResearchAgent):
    """Computes effect sizes, tests with correction for their number, and dose-response curves from CSV files."""

    name = "Data analysis"
    input_modes = ("text/plain", "text/csv", "application/json", "*/*")
    output_modes = ("application/json", "text/csv", "image/png", "text/plain")
    choose_skill = by_words(
        {
            "analyse-screening": ("screening", "plate", "hits"),
            "analyse-expression": ("expression", "genes", "volcano"),
            "analyse-validation": ("validation", "dose-response", "ic50"),
        }
    )

    @skill(
        "analyse-screening",
        tags=["screening", "statistics", "research"],
        input_modes=TABLE_MODES,
        output_modes=ANALYSIS_MODES,
    )
    async def analyse_screening(self, task: TaskContext) -> Outcome:
        """Hedges' g against the control with its interval, Z′, Welch's test with Benjamini and Hochberg, a ranking."""
        return await _analysed(task, analyses.SCREENING_COLUMNS, _screened, "screening.csv")

    @skill(
        "analyse-expression",
        tags=["expression", "statistics", "research"],
        input_modes=TABLE_MODES,
        output_modes=ANALYSIS_MODES,
    )
    async def analyse_expression(self, task: TaskContext) -> Outcome:
        """Log2 fold changes against the control, Welch's test with Benjamini and Hochberg, and a volcano chart."""
        design = handover.optional(task, FollowUpDesign)
        pathway, stress = (design.pathway_genes, design.stress_genes) if design else ([], [])
        analyse = partial(_expressed, pathway=pathway, stress=stress)
        return await _analysed(task, analyses.EXPRESSION_COLUMNS, analyse, "expression.csv")

    @skill(
        "analyse-validation",
        tags=["dose-response", "statistics", "research"],
        input_modes=TABLE_MODES,
        output_modes=ANALYSIS_MODES,
    )
    async def analyse_validation(self, task: TaskContext) -> Outcome:
        """Dose-response curves by least squares, IC50 with its interval, and whether the compound is confirmed."""
        return await _analysed(task, analyses.VALIDATION_COLUMNS, _validated, "validation.csv")


async def _analysed(task: TaskContext, columns: Sequence[str], analyse: Analyse, sample: str) -> Outcome:
    """The result of the analysis, or the question for another file, such as the sample, if this one cannot be used."""
    try:
        upload = await asyncio.to_thread(find_upload, task, columns)
        await task.progress(f"Computing {counted(upload.source.rows, 'row')}…")
        return await asyncio.to_thread(analyse, upload)
    except Unusable as problem:
        schema = file_schema("CSV file", "text/csv", samples=[library.DATA / sample])
        return InputRequired(str(problem), slot="file", schema=schema)


# Import the charts here, because Matplotlib takes seconds to import.


def _screened(upload: Upload) -> Completed:
    from examples.research import charts

    found = analyses.analyse_screening(upload)
    said = f"{sections.hits_sentence(found)} Z′ is {found.z_prime:.2f}."
    return _computed(said, found, "screening-ranking.csv", found.groups, charts.screening(found))


def _expressed(upload: Upload, pathway: Sequence[str], stress: Sequence[str]) -> Completed:
    from examples.research import charts

    found, every = analyses.analyse_expression(upload, pathway, stress)
    said = "; ".join(f"{one.compound}: {one.changed} of {one.tested} genes changed" for one in found.signatures)
    return _computed(f"{said}.", found, "expression-changes.csv", every, charts.expression(every))


def _validated(upload: Upload) -> Completed:
    from examples.research import charts

    found, drawn = analyses.analyse_validation(upload)
    said = f"Confirmed: {', '.join(found.confirmed) or 'none'}."
    return _computed(said, found, "validation-curves.csv", found.curves, charts.validation(drawn))


def _computed(said: str, found: Result, table: str, rows: Sequence[BaseModel], chart: Picture) -> Completed:
    csv = handover.csv_table(table, [one.model_dump() for one in rows])
    return Completed(said, [handover.as_json(found), csv, chart.artifact])


class ClinicalCandidates(ResearchAgent):
    """Combines a screening and an expression analysis by stated rules, and says for each compound why or why not."""

    name = "Candidates"

    @skill(
        "choose-candidates",
        tags=["candidates", "decision", "research", "demo"],
        examples=["Choose the candidates"],
        input_modes=RESULTS,
        output_modes=DOCUMENTS,
    )
    async def choose_candidates(self, task: TaskContext) -> Outcome:
        """Takes screening-analysis.json and expression-analysis.json and chooses up to three compounds: hits that
        lower the genes of the disease without stress or much else. A demonstration, no medical judgement."""
        found = planning.choose_candidates(needed(task, ScreeningAnalysis), needed(task, ExpressionAnalysis))
        names = ", ".join(f"{one.compound} ({one.score:.2f})" for one in found.candidates)
        said = f"Candidates, by score: {names}."
        return delivered(said, found, "Candidates", sections.candidates_section(found))


MOST_DOTS = 20_000_000


class ResearchReport(ResearchAgent):
    """Writes the final report of the research pipeline: results, charts, rules, provenance of the data, and limits."""

    name = "Research report"
    input_modes = ("text/plain", "application/json", "image/png", "*/*")
    output_modes = ("text/markdown", "text/html", "application/pdf", "image/png", "text/plain")

    @skill(
        "write-research-report",
        name="Write the final research report",
        tags=["research", "summary", "pipeline", "demo"],
        examples=["Write the final report of this research"],
        input_modes=("application/json", "image/png", "text/plain"),
        output_modes=("text/markdown", "text/html", "application/pdf"),
    )
    async def write_report(self, task: TaskContext) -> Outcome:
        """Takes the ten JSON results of the research pipeline, and its charts, and writes one report as Markdown,
        HTML and PDF. It adds nothing of its own."""
        known = sections.Research(**{name: needed(task, kind) for name, kind in sections.PARTS.items()})
        given = {name: png for name in results.CAPTIONS if (png := handover.picture(task, name))}
        sound = {name: png for name, png in given.items() if await asyncio.to_thread(_is_sound, png)}
        charts = {name: Picture(name, png, results.CAPTIONS[name]) for name, png in sound.items()}
        title, page = sections.final_report(known, charts)
        shown = list(charts.values())
        await task.progress("Writing the PDF…")
        pdf = await asyncio.to_thread(pages.as_pdf, title, page, shown)
        files = [
            handover.document("report.md", page, "text/markdown", title),
            Artifact.bytes("report.pdf", pdf, "application/pdf"),
            handover.document("report.html", pages.as_html(title, page, shown), "text/html", title),
        ]
        return Completed(sections.conclusion(known), [*files, *(one.artifact for one in shown)])


def _is_sound(png: bytes) -> bool:
    """Can the PNG be drawn? Senders are not trusted."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(png), formats=["PNG"]) as picture:
            if picture.width * picture.height > MOST_DOTS:
                return False
            picture.load()
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):  # of damaged files
        return False
    return True
