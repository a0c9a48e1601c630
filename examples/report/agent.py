"""The Report agent: finds a CSV file, asks for missing choices, and delivers a report."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from agentkit import (
    Artifact,
    Completed,
    File,
    InputRequired,
    Message,
    Outcome,
    Skill,
    SkillHandler,
    TaskContext,
    UnreadableContent,
    file_schema,
)
from examples import pages
from examples.pages import Picture, blocks
from examples.report.analysis import Analysis, Column, analyse, in_brief
from examples.report.numbers import NAMES, Decimal
from examples.report.tables import NotATable, Table, read_table
from examples.texts import counted, cut, figure, share

CHART = "chart.png"
ROWS_AT_A_GLANCE = 25

FORMAT_QUESTION = "Which format would you like: PDF, HTML or Markdown?"


class Length(StrEnum):
    FULL = "full"
    SHORT = "short"


class Format(StrEnum):
    PDF = "PDF"
    HTML = "HTML"
    MARKDOWN = "Markdown"

    @property
    def file_name(self) -> str:
        return "report.md" if self is Format.MARKDOWN else f"report.{self.lower()}"


FORMAT_SCHEMA = {"type": "string", "title": "Format", "enum": [each.value for each in Format]}
DECIMAL_LABELS: dict[Decimal, str] = {sign: f"{name.capitalize()} as decimal sign" for sign, name in NAMES.items()}
DECIMAL_SCHEMA = {"type": "string", "title": "Decimal sign", "enum": list(DECIMAL_LABELS.values())}
FILE_REQUEST = "Please send a CSV file: a table with one row a line, and commas, semicolons or tabs between its values."
FILE_SCHEMA = file_schema("CSV file", "text/csv", samples=[Path(__file__).parent / "orders.csv"])

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
    # Accept any file, so that the agent itself can explain what is wrong with it.
    input_modes = ("text/plain", "text/csv", "*/*")
    output_modes = ("application/pdf", "text/html", "text/markdown", "image/png", "text/plain")
    retry_safe = True

    async def on_request(self, task: TaskContext) -> Outcome:
        return await self._take_turn(task)

    async def on_input_received(self, task: TaskContext) -> Outcome:
        if task.slot == "format" and not requested_format(task.message) and not task.files:
            question = f"I did not find one of the formats in your answer. {FORMAT_QUESTION}"
            return InputRequired(question, slot="format", schema=FORMAT_SCHEMA)
        return await self._take_turn(task)

    async def _take_turn(self, task: TaskContext) -> Outcome:
        _remember_requests(task)
        try:
            source = await _source(task)
        except NoSource as problem:
            return InputRequired(f"{problem} {FILE_REQUEST}", slot="file", schema=FILE_SCHEMA)
        if not source:
            return InputRequired(FILE_REQUEST, slot="file", schema=FILE_SCHEMA)
        task.memory["source"] = source.memo
        if decimal := task.memory.get("decimal") or _earlier_decimal(task):
            source = replace(source, table=replace(source.table, chosen=decimal))
        if open_numbers := source.table.open_numbers:
            return InputRequired(_decimal_question(open_numbers), slot="decimal", schema=DECIMAL_SCHEMA)
        requested = task.memory.get("format") or _earlier_format(task)
        if not requested:
            table = source.table
            size = f"{counted(table.row_count, 'row')} and {counted(len(table.names), 'column')}"
            return InputRequired(f"Your table has {size}. {FORMAT_QUESTION}", slot="format", schema=FORMAT_SCHEMA)
        length = task.memory.get("length") or _earlier_length(task)
        return await _report(task, source, Format(requested), Length(length))


def _decimal_question(open_numbers: dict[str, str]) -> str:
    column, example = next(iter(open_numbers.items()))
    sign = "," if "," in example else "."
    decimal, thousands = example.replace(sign, "."), example.replace(sign, "")
    more = f" The same goes for {counted(len(open_numbers) - 1, 'more column')}." if len(open_numbers) > 1 else ""
    return (
        f"“{cut(column, 40)}” has numbers such as {example}, which can be {decimal} or {thousands}.{more} "
        "Which is the decimal sign: comma or point?"
    )


def _earlier_decimal(task: TaskContext) -> Decimal | None:
    """What was said about the same file before."""
    said = [one for one in _reachable(task) if one.role == "user"]
    return next((sign for one in said if (sign := requested_decimal(one))), None) if not task.files else None


def _remember_requests(task: TaskContext) -> None:
    if task.files:
        task.memory.pop("decimal", None)
    if decimal := requested_decimal(task.message, is_answer=task.slot == "decimal"):
        task.memory["decimal"] = decimal
    if requested := requested_format(task.message):
        task.memory["format"] = requested.value
    if length := requested_length(task.message):
        task.memory["length"] = length.value


@dataclass(frozen=True)
class Source:
    message_id: str
    name: str
    table: Table

    @property
    def memo(self) -> dict[str, Any]:
        """Data by which a later turn finds the file again."""
        return {"message": self.message_id, "name": self.name}


async def _source(task: TaskContext) -> Source | None:
    """The file of this turn, or else the remembered one, or else the nearest. Raises NoSource."""
    if task.files:
        return await _first_table(task.message)
    memo = task.memory.get("source")
    reachable = list(_reachable(task))
    for message, file in [(one, file) for one in reachable for file in one.files]:
        if memo == {"message": message.id, "name": file.name}:
            return await _read(message, file)
    if task.slot == "file":  # the question for another file was not answered: ask again
        return None
    for message in reachable:
        with suppress(NoSource):
            if message.files:
                return await _first_table(message)
    return None


def _earlier_format(task: TaskContext) -> str | None:
    """The format of the report that this one refines, or the format that was requested earlier."""
    by_name = {each.file_name: each for each in Format}
    for artifact in (artifact for reference in task.references for artifact in reference.artifacts):
        if artifact.name in by_name:
            return by_name[artifact.name].value
    if task.files or not task.memory.get("length"):
        return None
    for message in reversed(task.history):
        if message.role == "user" and (requested := requested_format(message)):
            return requested.value
    return None


def _earlier_length(task: TaskContext) -> str:
    descriptions = [artifact.description for reference in task.references for artifact in reference.artifacts]
    return Length.SHORT if any(each.startswith(SHORT_MARK) for each in descriptions) else Length.FULL


async def _report(task: TaskContext, source: Source, requested: Format, length: Length) -> Completed:
    steps = 4 if length is Length.FULL else 3
    await task.progress(f"Reading {counted(source.table.row_count, 'row')}…", 1, steps)
    await task.progress("Computing statistics…", 2, steps)
    analysis = await asyncio.to_thread(analyse, source.table, source.name)
    chart = None
    if length is Length.FULL:
        await task.progress("Drawing the chart…", 3, steps)
        chart = await asyncio.to_thread(_draw_chart, analysis.columns)
    await task.progress(f"Writing the {requested.value}…", steps, steps)
    page = short_page(analysis) if length is Length.SHORT else full_page(analysis, chart)
    shown = [chart] if chart else []
    description = f"{SHORT_MARK if length is Length.SHORT else 'Report'} on {analysis.source}"
    if requested is Format.PDF:
        content = await asyncio.to_thread(pages.as_pdf, analysis.title, page, shown)
        report = Artifact.bytes(requested.file_name, content, "application/pdf", description=description)
    elif requested is Format.HTML:
        html = pages.as_html(analysis.title, page, shown)
        report = Artifact.text(requested.file_name, html, "text/html", description=description)
    else:
        report = Artifact.text(requested.file_name, page, "text/markdown", description=description)
    return Completed(_closing_words(analysis, length), [report, *(one.artifact for one in shown)])


def _draw_chart(columns: Sequence[Column]) -> Picture | None:
    from examples.report.charts import draw_columns  # imported late, because the import takes seconds

    return draw_columns(columns, CHART)


def short_page(analysis: Analysis) -> str:
    """The findings as one paragraph, and a row for each column."""
    shown = analysis.columns[:ROWS_AT_A_GLANCE]
    rows = [[cut(one.name, 40), one.kind, f"{one.missing:,}", in_brief(one)] for one in shown]
    if more := len(analysis.columns) - len(shown):
        rows.append([f"and {counted(more, 'more column')}", "", "", ""])
    glance = pages.table(("Column", "Type", "Missing", "In brief"), rows, numeric=[2])
    findings = pages.escape(" ".join([*analysis.findings, *analysis.assumptions]))
    return blocks(f"# {pages.escape(analysis.title)}", findings, "## At a glance", glance) + "\n"


def full_page(analysis: Analysis, chart: Picture | None) -> str:
    """Findings, chart, all figures of all columns, and the notes."""
    first, *others = analysis.findings
    overview = [
        [cut(one.name, 40), one.kind, f"{len(one.present):,}", _missing(one), f"{len(one.common):,}"]
        for one in analysis.columns
    ]
    numbers, texts = _of_kind(analysis, "number"), _of_kind(analysis, "text")
    headers = ("Column", "Minimum", "25 %", "Median", "Mean", "75 %", "Maximum", "Std. dev.")
    figures = [[cut(one.name, 40), *map(figure, one.summary)] for one in numbers]
    common = [[cut(one.name, 40), _common(one)] for one in texts]
    return (
        blocks(
            f"# {pages.escape(analysis.title)}",
            pages.escape(first),
            pages.items(others),
            chart.markdown if chart else "",
            "## Columns",
            pages.table(("Column", "Type", "Values", "Missing", "Distinct"), overview, numeric=[2, 3, 4]),
            "## Numbers" if figures else "",
            pages.table(headers, figures, numeric=range(1, 8)) if figures else "",
            "## Text" if common else "",
            pages.table(("Column", "Most common values"), common) if common else "",
            "---",
            pages.items(analysis.notes),
        )
        + "\n"
    )


def _of_kind(analysis: Analysis, kind: str) -> list[Column]:
    return [column for column in analysis.columns if column.kind == kind]


def _missing(column: Column) -> str:
    return f"{column.missing:,} ({share(column.missing, len(column.values))})" if column.missing else "0"


def _common(column: Column) -> str:
    if column.common[0][1] == 1 < len(column.present):
        return "all different"
    return ", ".join(f"{cut(value, 30)} ({times:,})" for value, times in column.common[:5])


def _closing_words(analysis: Analysis, length: Length) -> str:
    ready = "The short report is ready." if length is Length.SHORT else "Your report is ready."
    return " ".join([ready, *analysis.findings[:2], *analysis.assumptions])


TABLE_ENDINGS = (".csv", ".tsv", ".tab", ".txt")


class NoSource(Exception):
    """There is no file to report on; the text says what to send."""


def _reachable(task: TaskContext) -> Iterator[Message]:
    for reference in task.references:
        yield from (message for message in reversed(reference.messages) if message.role == "user")
    yield task.message
    yield from reversed(task.history)


async def _first_table(message: Message) -> Source:
    """The table among the files of a message. Raises NoSource if no file is a table."""
    # Try files named like tables first, so that the error is about them.
    files = sorted(message.files, key=lambda file: not file.name.lower().endswith(TABLE_ENDINGS))
    problems: list[NoSource] = []
    for file in files:
        try:
            return await _read(message, file)
        except NoSource as problem:
            problems.append(problem)
    raise problems[0]


async def _read(message: Message, file: File) -> Source:
    try:
        table = await asyncio.to_thread(lambda: read_table(file.read()))
    except (NotATable, UnreadableContent) as error:
        name = cut(file.name, 60)
        raise NoSource(f"I cannot use {f'“{name}”' if name else 'this file'}. {error}") from error
    return Source(message.id, file.name, table)


_FORMATS = {
    Format.PDF: re.compile(r"(?<!not )(?<!no )\bpdf\b", re.IGNORECASE),
    Format.HTML: re.compile(r"(?<!not )(?<!no )\b(?:html?|web ?page|website)\b", re.IGNORECASE),
    Format.MARKDOWN: re.compile(r"(?<!not )(?<!no )\b(?:markdown|md)\b", re.IGNORECASE),
}
_SHORT = re.compile(r"\b(?:short(?:er|en|ened)?|brief(?:er|ly)?|concise(?:ly)?|condensed?|one page)\b", re.IGNORECASE)
_FULL = re.compile(r"\b(?:long(?:er)?|full(?:er)?|detail(?:s|ed)?|complete|everything)\b", re.IGNORECASE)


def requested_format(message: Message) -> Format | None:
    """The only format that the message names; None if it names none or several."""
    words = _words(message)
    named = [each for each, pattern in _FORMATS.items() if pattern.search(words)]
    return named[0] if len(named) == 1 else None


def requested_length(message: Message) -> Length | None:
    words = _words(message)
    short, full = bool(_SHORT.search(words)), bool(_FULL.search(words))
    if short == full:
        return None
    return Length.SHORT if short else Length.FULL


_DECIMAL = re.compile(r"\b(comma|point|dot)\b", re.IGNORECASE)
_DECIMAL_SAID = re.compile(
    r"\bdecimal (comma|point|dot)\b|\b(comma|point|dot) as (?:the )?decimal\b"
    r"|\A\s*(?:the )?(comma|point|dot|,|\.)\s*\Z",
    re.IGNORECASE,
)


def requested_decimal(message: Message, *, is_answer: bool = False) -> Decimal | None:
    """The only decimal sign that the message names. `is_answer`: to our question, which takes fewer words."""
    words = _words(message).strip()
    named = {next(filter(None, found.groups())).lower() for found in _DECIMAL_SAID.finditer(words)}
    if is_answer and not named:
        named = {found[1].lower() for found in _DECIMAL.finditer(words)}
    signs: set[Decimal] = {"," if one in ("comma", ",") else "." for one in named}
    return signs.pop() if len(signs) == 1 else None


def _words(message: Message) -> str:
    """The words of a text or a form: `{"format": "PDF"}`, or just `"PDF"`."""
    filled_in = [field for value in message.data for field in (value.values() if isinstance(value, dict) else [value])]
    return "\n".join([message.text, *(field for field in filled_in if isinstance(field, str))])
