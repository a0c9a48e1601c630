"""The Research report agent: everything that the pipeline found, on paper."""

from __future__ import annotations

import asyncio
import io

from agentkit import Artifact, Completed, Outcome, Skill, SkillHandler, TaskContext
from examples import handover
from examples.report.document import Document
from examples.report.html import as_html
from examples.report.markdown import as_markdown
from examples.research import measured, results
from examples.research.measured import Research

MOST_DOTS = 20_000_000


class ResearchReport(SkillHandler):
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
    retry_safe = True

    async def on_request(self, task: TaskContext) -> Outcome:
        known = Research(
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
        pictures = {name: png for name, png in given.items() if await asyncio.to_thread(_is_sound, png)}
        charts = {name: measured.chart_of(name, png) for name, png in pictures.items()}
        document = measured.report(known, charts)
        await task.progress("Writing the PDF…")
        delivered = [
            handover.document("report.md", as_markdown(document), "text/markdown", document.title),
            Artifact.bytes("report.pdf", await asyncio.to_thread(_as_pdf, document), "application/pdf"),
            handover.document("report.html", as_html(document), "text/html", document.title),
            *(Artifact.bytes(name, png, "image/png") for name, png in pictures.items()),  # which the Markdown shows
        ]
        return Completed(document.summary, delivered)


def _is_sound(png: bytes) -> bool:
    """Can it be drawn? Whoever sends it may send anything."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(png), formats=["PNG"]) as picture:
            if picture.width * picture.height > MOST_DOTS:
                return False
            picture.load()
    except (
        OSError,
        SyntaxError,
        ValueError,
        Image.DecompressionBombError,
    ):  # which is what Pillow raises for damaged files
        return False
    return True


def _as_pdf(document: Document) -> bytes:
    from examples.report.pdf import as_pdf  # it takes seconds to import

    return as_pdf(document)
