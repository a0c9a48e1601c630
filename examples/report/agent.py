"""The Report agent: looks for a CSV file, asks what it must, and delivers a report."""

import asyncio
from collections.abc import Sequence

from agentkit import Artifact, Completed, InputRequired, Outcome, Skill, SkillHandler, TaskContext
from examples.report import sources
from examples.report.columns import Column
from examples.report.document import CHART_NAME, Chart, Document, Length, composed
from examples.report.figures import quantity
from examples.report.findings import Analysis, analysed
from examples.report.html import as_html
from examples.report.markdown import as_markdown
from examples.report.sources import NoSource, Source
from examples.report.wishes import Format, wished_format, wished_length

FORMAT_QUESTION = "Which format would you like: PDF, HTML or Markdown?"
FORMAT_SCHEMA = {"type": "string", "title": "Format", "enum": [each.value for each in Format]}
FILE_REQUEST = "Please send a CSV file: a table with one row a line, and commas, semicolons or tabs between its values."
FILE_SCHEMA = {"type": "string", "format": "binary", "title": "CSV file", "contentMediaType": "text/csv"}

SHORT_MARK = "Short report"
"""How the description of a short report begins, by which a later task knows it."""


class Report(SkillHandler):
    """Turns a CSV file into a report with statistics, missing values and a chart, as PDF, HTML or Markdown."""

    name = "Report"
    skills = (
        Skill(
            "report",
            "Report on a table",
            "Describes every column of a CSV file: its type, missing values, distribution and most common values, "
            "with a chart. Asks for the format. A finished report can be made shorter, longer, or in another format.",
            tags=["csv", "statistics", "report", "chart", "pdf"],
            examples=["Make a report (with a CSV file)", "Make it shorter", "The same as HTML"],
            input_modes=["text/csv", "text/tab-separated-values", "text/plain"],
            output_modes=["application/pdf", "text/html", "text/markdown", "image/png"],
        ),
    )
    # Any file may come in, so that the agent can say itself what is wrong with it.
    input_modes = ("text/plain", "text/csv", "*/*")
    output_modes = ("application/pdf", "text/html", "text/markdown", "image/png", "text/plain")
    retry_safe = True

    async def on_request(self, task: TaskContext) -> Outcome:
        return await self._take_turn(task)

    async def on_input_received(self, task: TaskContext) -> Outcome:
        if task.slot == "format" and not wished_format(task.message) and not task.files:
            question = f"I did not find one of the formats in your answer. {FORMAT_QUESTION}"
            return InputRequired(question, slot="format", schema=FORMAT_SCHEMA)
        return await self._take_turn(task)

    async def _take_turn(self, task: TaskContext) -> Outcome:
        _remember_wishes(task)
        try:
            source = await _source(task)
        except NoSource as problem:
            return InputRequired(f"{problem} {FILE_REQUEST}", slot="file", schema=FILE_SCHEMA)
        if not source:
            return InputRequired(FILE_REQUEST, slot="file", schema=FILE_SCHEMA)
        task.memory["source"] = source.memo
        wished = task.memory.get("format") or _earlier_format(task)
        if not wished:
            table = source.table
            size = f"{quantity(table.row_count, 'row')} and {quantity(len(table.names), 'column')}"
            return InputRequired(f"Your table has {size}. {FORMAT_QUESTION}", slot="format", schema=FORMAT_SCHEMA)
        length = task.memory.get("length") or _earlier_length(task)
        return await _report(task, source, Format(wished), Length(length))


def _remember_wishes(task: TaskContext) -> None:
    if wished := wished_format(task.message):
        task.memory["format"] = wished.value
    if length := wished_length(task.message):
        task.memory["length"] = length.value


async def _source(task: TaskContext) -> Source | None:
    """This turn's file before one settled on earlier, and that before any other."""
    if source := await sources.newly_sent(task):
        return source
    if source := await sources.remembered(task, task.memory.get("source")):
        return source
    # Whoever was asked for another file and sent none is asked again.
    return None if task.slot == "file" else await sources.within_reach(task)


def _earlier_format(task: TaskContext) -> str | None:
    """The format of the report that this one refines, or that was asked for before."""
    by_name = {each.file_name: each for each in Format}
    for artifact in (artifact for reference in task.references for artifact in reference.artifacts):
        if artifact.name in by_name:
            return by_name[artifact.name].value
    if task.files or not task.memory.get("length"):
        return None
    for message in reversed(task.history):
        if message.role == "user" and (wished := wished_format(message)):
            return wished.value
    return None


def _earlier_length(task: TaskContext) -> str:
    descriptions = [artifact.description for reference in task.references for artifact in reference.artifacts]
    return Length.SHORT if any(each.startswith(SHORT_MARK) for each in descriptions) else Length.FULL


async def _report(task: TaskContext, source: Source, wished: Format, length: Length) -> Completed:
    steps = 4 if length is Length.FULL else 3
    await task.progress(f"Reading {quantity(source.table.row_count, 'row')}…", 1, steps)
    await task.progress("Computing statistics…", 2, steps)
    analysis = await asyncio.to_thread(analysed, source.table, source.name)
    chart = None
    if length is Length.FULL:
        await task.progress("Drawing the chart…", 3, steps)
        chart = await asyncio.to_thread(_drawn, analysis.columns)
    await task.progress(f"Writing the {wished.value}…", steps, steps)
    document = composed(analysis, length, chart)
    description = f"{SHORT_MARK if length is Length.SHORT else 'Report'} on {analysis.source}"
    if wished is Format.PDF:
        content = await asyncio.to_thread(_as_pdf, document)
        report = Artifact.bytes(wished.file_name, content, "application/pdf", description=description)
    elif wished is Format.HTML:
        report = Artifact.text(wished.file_name, as_html(document), "text/html", description=description)
    else:
        report = Artifact.text(wished.file_name, as_markdown(document), "text/markdown", description=description)
    pictures = [Artifact.bytes(CHART_NAME, chart.png, "image/png", description=chart.caption)] if chart else []
    return Completed(_closing_words(analysis, length), [report, *pictures])


# Matplotlib and fpdf2 take seconds to import: when the first report is made, not whenever a process starts.


def _drawn(columns: Sequence[Column]) -> Chart | None:
    from examples.report.charts import drawn

    return drawn(columns)


def _as_pdf(document: Document) -> bytes:
    from examples.report.pdf import as_pdf

    return as_pdf(document)


def _closing_words(analysis: Analysis, length: Length) -> str:
    ready = "The short report is ready." if length is Length.SHORT else "Your report is ready."
    return " ".join([ready, *analysis.findings[:2]])
