"""The agents of the research pipeline. Each says what it was given, what it made of it, and by which rule."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Sequence

from pydantic import BaseModel

from agentkit import (
    AgentFailure,
    Artifact,
    Completed,
    InputRequired,
    Outcome,
    Skill,
    SkillHandler,
    TaskContext,
    by_words,
    skill,
)
from examples import handover, pages
from examples.pages import Picture
from examples.research import analyses, library, planning, results, sections
from examples.research.results import (
    Candidates,
    ExpressionAnalysis,
    FollowUpDesign,
    Hypotheses,
    LiteratureReview,
    Result,
    ScreeningAnalysis,
)
from examples.research.tables import Unusable, Upload, find_upload
from examples.texts import counted


class ResearchAgent(SkillHandler):
    """What the agents of the pipeline have in common. Any file may come in: the agent says what is wrong with it."""

    input_modes: Sequence[str] = ("text/plain", "application/json", "*/*")
    output_modes: Sequence[str] = ("application/json", "text/markdown", "text/plain")
    retry_safe = True


def delivered(said: str, found: Result, title: str, section: str, *more: Artifact) -> Completed:
    """A result as JSON, which the next agents read, and as Markdown, which people do."""
    page = sections.page(title, said, section)
    return Completed(said, [handover.as_json(found), *more, handover.document(f"{found.called()}.md", page)])


class Literature(ResearchAgent):
    """Reviews fourteen made-up papers on a subject and weighs what they say of each target. No model, no network."""

    name = "Literature"
    skills = (
        Skill(
            "review-literature",
            "Weigh the literature",
            "Gathers the papers of a small made-up corpus on lung fibrosis or osteoarthritis, and weighs for each "
            "target what speaks for and against it. A demonstration: the papers do not exist.",
            tags=["literature", "research", "evidence", "demo"],
            examples=["What is known about lung fibrosis?", "osteoarthritis"],
            output_modes=["application/json", "text/markdown"],
        ),
    )

    async def on_request(self, task: TaskContext) -> Outcome:
        known = library.subjects()
        subject = handover.chosen(task, "subject", {one: [one] for one in known}) or library.subject_in(
            task.message.text
        )
        if subject is None:
            question = f"My made-up papers are about {' and '.join(known)}. Which of these shall I review?"
            schema = {"type": "string", "title": "Subject", "enum": known}
            return InputRequired(question, slot="subject", schema=schema)
        found = library.review_papers(subject)
        first = found.targets[0]
        said = (
            f"{counted(len(found.papers), 'paper')} on {subject}; most speaks for {first.target}, {first.what} "
            f"(score {first.score})."
        )
        return delivered(said, found, f"Literature on {subject}", sections.literature_section(found))


MODALITIES = {
    "small molecules": ("small molecule", "small-molecule"),
    "biologics": ("biologic", "antibod"),
}
MODALITY_QUESTION = "Small molecules or biologics? Small molecules reach targets inside the cell; biologics do not."
MODALITY_SCHEMA = {"type": "string", "title": "Modality", "enum": list(MODALITIES)}


class HypothesisMaker(ResearchAgent):
    """Makes hypotheses of a literature review: which target to block, by small molecules or by biologics; it asks."""

    name = "Hypotheses"
    skills = (
        Skill(
            "make-hypotheses",
            "Make hypotheses",
            "Takes literature-review.json and says which targets to block, the best supported first, and why others "
            "are set aside. Asks whether by small molecules or by biologics. By stated rules, without a model.",
            tags=["hypotheses", "research", "targets", "demo"],
            examples=["Make hypotheses from this review", "Biologics"],
            input_modes=["application/json", "text/plain"],
            output_modes=["application/json", "text/markdown"],
        ),
    )

    async def on_request(self, task: TaskContext) -> Outcome:
        review = handover.needed(task, LiteratureReview)
        modality = handover.chosen(task, "modality", MODALITIES)
        if modality is None:
            again = "I did not find one of the two in your answer. " if task.slot == "modality" else ""
            return InputRequired(f"{again}{MODALITY_QUESTION}", slot="modality", schema=MODALITY_SCHEMA)
        try:
            found = planning.make_hypotheses(review, modality)
        except planning.NothingLeft as reason:
            raise AgentFailure(f"{reason} Choose the other modality, or another subject.", "no_hypothesis") from None
        first = found.hypotheses[0]
        said = f"{counted(len(found.hypotheses), 'hypothesis', 'hypotheses')} for {modality}. {first.statement}"
        return delivered(said, found, f"Hypotheses on {found.subject}", sections.hypotheses_section(found))


DESIGN_INPUT_MODES, DESIGN_OUTPUT_MODES = ("application/json", "text/plain"), ("application/json", "text/markdown")


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
        input_modes=DESIGN_INPUT_MODES,
        output_modes=DESIGN_OUTPUT_MODES,
    )
    async def design_screening(self, task: TaskContext) -> Outcome:
        """Takes hypotheses.json and plans the screening of the first one. Asks for the cell line."""
        hypotheses = handover.needed(task, Hypotheses)
        lines = planning.cell_lines()
        line = handover.chosen(
            task, "cell_line", {one: [one.casefold(), one.casefold().replace("-", "")] for one in lines}
        )
        if line is None:
            again = "I did not find one of them in your answer. " if task.slot == "cell_line" else ""
            question = f"{again}Which cell line: {', '.join(lines[:-1])} or {lines[-1]}?"
            schema = {"type": "string", "title": "Cell line", "enum": lines}
            return InputRequired(
                f"{question} {planning.suggested_cell_line(hypotheses.subject)}".strip(),
                slot="cell_line",
                schema=schema,
            )
        found = planning.design_screening(hypotheses, line)
        said = f"A screening in {line}: {found.seeded_per_well:,} cells a well, {found.replicates} wells of each dose."
        return delivered(said, found, "Screening assay", sections.screening_assay_section(found))

    @skill(
        "design-follow-up",
        tags=["follow-up", "expression", "research", "demo"],
        input_modes=DESIGN_INPUT_MODES,
        output_modes=DESIGN_OUTPUT_MODES,
    )
    async def design_follow_up(self, task: TaskContext) -> Outcome:
        """Takes screening-analysis.json and hypotheses.json and plans an expression experiment with the best hits."""
        screened, hypotheses = handover.needed(task, ScreeningAnalysis), handover.needed(task, Hypotheses)
        if not screened.hits:
            raise AgentFailure(
                f"The screening has no hit to follow up (Z′ {screened.z_prime:.2f}). Repeat it, with more compounds or "
                "higher doses, and analyse the new data.",
                "no_hits",
            )
        try:
            found = planning.design_follow_up(screened, hypotheses.subject)
        except KeyError:
            raise AgentFailure(f"I know no genes of {hypotheses.subject[:60]}.", "unknown_subject") from None
        names = ", ".join(one.compound for one in found.conditions)
        said = f"Expression under a control and {names}, {found.replicates} cultures each."
        return delivered(said, found, "Follow-up experiment", sections.follow_up_section(found))

    @skill(
        "design-validation",
        tags=["validation", "dose-response", "research", "demo"],
        input_modes=DESIGN_INPUT_MODES,
        output_modes=DESIGN_OUTPUT_MODES,
    )
    async def design_validation(self, task: TaskContext) -> Outcome:
        """Takes candidates.json and plans a dose-response of each candidate."""
        found = planning.design_validation(handover.needed(task, Candidates))
        said = f"{', '.join(found.compounds)} at {len(found.doses_um)} doses, {found.replicates} wells each."
        return delivered(said, found, "Validation assay", sections.validation_assay_section(found))


class Molecules(ResearchAgent):
    """Chooses molecules for a hypothesis from a made-up library, by properties computed from their formulas."""

    name = "Molecules"
    skills = (
        Skill(
            "select-molecules",
            "Select molecules",
            "Takes hypotheses.json and picks up to ten molecules for its first target: computes weight, acceptors and "
            "ligand efficiency from the formulas, applies the rules of Lipinski and Veber, and ranks by affinity. The "
            "library is made up.",
            tags=["molecules", "lipinski", "chemistry", "research", "demo"],
            examples=["Select molecules for these hypotheses"],
            input_modes=["application/json", "text/plain"],
            output_modes=["application/json", "text/csv", "text/markdown"],
        ),
    )
    output_modes = ("application/json", "text/csv", "text/markdown", "text/plain")

    async def on_request(self, task: TaskContext) -> Outcome:
        hypotheses = handover.needed(task, Hypotheses)
        try:
            found = library.select_molecules(hypotheses.hypotheses[0].target, hypotheses.modality)
        except library.NotInLibrary as reason:
            raise AgentFailure(f"{reason} Choose a hypothesis on one of those.", "not_in_library") from None
        names = ", ".join(one.id for one in found.chosen)
        said = f"{len(found.chosen)} of {found.library.rows} {found.modality} for {found.target}: {names}."
        table = handover.csv_table("selection.csv", [{"molecule": one.id, **one.figures} for one in found.chosen])
        return delivered(said, found, f"Molecules for {found.target}", sections.selection_section(found), table)


FILE_SCHEMA = {"type": "string", "format": "binary", "title": "CSV file", "contentMediaType": "text/csv"}
TABLE_MODES, ANALYSIS_MODES = (
    ("text/csv", "text/tab-separated-values", "text/plain"),
    ("application/json", "text/csv", "image/png"),
)

Analyse = Callable[[Upload], Completed]


class DataAnalysis(ResearchAgent):
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

    @skill(
        "analyse-screening",
        tags=["screening", "statistics", "research"],
        input_modes=TABLE_MODES,
        output_modes=ANALYSIS_MODES,
    )
    async def analyse_screening(self, task: TaskContext) -> Outcome:
        """Hedges' g against the control with its interval, Z′, Welch's test with Benjamini and Hochberg, a ranking."""
        return await _analysed(task, analyses.SCREENING_COLUMNS, _screened)

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
        return await _analysed(task, analyses.EXPRESSION_COLUMNS, lambda upload: _expressed(upload, pathway, stress))

    @skill(
        "analyse-validation",
        tags=["dose-response", "statistics", "research"],
        input_modes=TABLE_MODES,
        output_modes=ANALYSIS_MODES,
    )
    async def analyse_validation(self, task: TaskContext) -> Outcome:
        """Dose-response curves by least squares, IC50 with its interval, and whether the compound is confirmed."""
        return await _analysed(task, analyses.VALIDATION_COLUMNS, _validated)


async def _analysed(task: TaskContext, columns: Sequence[str], analyse: Analyse) -> Outcome:
    """What the analysis gives; or, where the file cannot be used, the question for another."""
    try:
        upload = await asyncio.to_thread(find_upload, task, columns)
        await task.progress(f"Computing {counted(upload.source.rows, 'row')}…")
        return await asyncio.to_thread(analyse, upload)
    except Unusable as problem:
        return InputRequired(str(problem), slot="file", schema=FILE_SCHEMA)


# Matplotlib takes seconds to import: when the first chart is drawn, not whenever a process starts.


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
    skills = (
        Skill(
            "choose-candidates",
            "Choose candidates",
            "Takes screening-analysis.json and expression-analysis.json and chooses up to three compounds: hits that "
            "lower the genes of the disease without stress or much else. A demonstration, no medical judgement.",
            tags=["candidates", "decision", "research", "demo"],
            examples=["Choose the candidates"],
            input_modes=["application/json", "text/plain"],
            output_modes=["application/json", "text/markdown"],
        ),
    )

    async def on_request(self, task: TaskContext) -> Outcome:
        try:
            found = planning.choose_candidates(
                handover.needed(task, ScreeningAnalysis), handover.needed(task, ExpressionAnalysis)
            )
        except planning.NothingLeft as reason:
            raise AgentFailure(f"{reason} Follow up other hits, or screen other molecules.", "no_candidates") from None
        names = ", ".join(f"{one.compound} ({one.score:.2f})" for one in found.candidates)
        said = f"Candidates, by score: {names}."
        return delivered(said, found, "Candidates", sections.candidates_section(found))


MOST_DOTS = 20_000_000


class ResearchReport(ResearchAgent):
    """Writes the final report of the research pipeline: results, charts, rules, provenance of the data, and limits."""

    name = "Research report"
    skills = (
        Skill(
            "write-research-report",
            "Write the final research report",
            "Takes the ten JSON results of the research pipeline, and its charts, and writes one report as Markdown, "
            "HTML and PDF. It adds nothing of its own.",
            tags=["research", "summary", "pipeline", "demo"],
            examples=["Write the final report of this research"],
            input_modes=["application/json", "image/png", "text/plain"],
            output_modes=["text/markdown", "text/html", "application/pdf"],
        ),
    )
    input_modes = ("text/plain", "application/json", "image/png", "*/*")
    output_modes = ("text/markdown", "text/html", "application/pdf", "image/png", "text/plain")

    async def on_request(self, task: TaskContext) -> Outcome:
        known = sections.Research(
            review=handover.needed(task, results.LiteratureReview),
            hypotheses=handover.needed(task, results.Hypotheses),
            assay=handover.needed(task, results.ScreeningAssay),
            selection=handover.needed(task, results.Selection),
            screened=handover.needed(task, results.ScreeningAnalysis),
            follow_up=handover.needed(task, results.FollowUpDesign),
            expressed=handover.needed(task, results.ExpressionAnalysis),
            candidates=handover.needed(task, results.Candidates),
            validation=handover.needed(task, results.ValidationAssay),
            validated=handover.needed(task, results.ValidationAnalysis),
        )
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
    """Can it be drawn? Whoever sends it may send anything."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(png), formats=["PNG"]) as picture:
            if picture.width * picture.height > MOST_DOTS:
                return False
            picture.load()
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):  # of damaged files
        return False
    return True
