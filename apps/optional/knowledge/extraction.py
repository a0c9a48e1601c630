"""Reads the text of files and pages, and cuts it into passages: what the process of `reading` runs.

It knows neither Django nor a database. It may end at any time: a hostile file takes this process with it, and no other.
"""

from __future__ import annotations

import csv
import importlib
import json
import re
import resource
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import groupby, islice
from typing import Any, NamedTuple

from agentkit.llm.reading import DOCUMENTS, Line, NoText, decoded, document_lines
from apps.optional.knowledge.passages import BETWEEN, MAX_HEADING, Piece, cleaned, cut

MOST_CHARACTERS = 5_000_000  # of one source; the rest is left out
MOST_PASSAGES = 10_000  # of one source; the rest is left out
MEMORY_BYTES = 1024**3
CPU_SECONDS = 60
HTML = ("text/html", "application/xhtml+xml")
TABLES = {"text/csv": ",", "text/tab-separated-values": "\t"}
MARKDOWN = re.compile(r".*\.(md|markdown|mdx)", re.IGNORECASE)
NO_TEXT = "No text was found in it."
TOO_MUCH = "It takes too long, or too much memory, to read. Split it, or save it in another form."


class Read(NamedTuple):
    """What was read of a source. `is_whole`: nothing was left out."""

    passages: list[Piece]
    title: str = ""
    is_whole: bool = True


def read(content: bytes, media_type: str, name: str = "", charset: str = "") -> Read:
    """The passages of a file. Raises NoText, whose message says why."""
    if media_type in DOCUMENTS:
        return _cut(_of_document(document_lines(media_type, content)))
    text = decoded(content, charset or (_stated_charset(content) if media_type in HTML else ""))
    text = cleaned(text.replace("\r\n", "\n").replace("\r", "\n"))
    if media_type in HTML:
        title, lines = _html(text)
        return _cut(_joined(lines), title)
    if media_type in TABLES:
        return _cut(_of_table(_rows(text, TABLES[media_type])))
    if media_type == "text/markdown" or MARKDOWN.fullmatch(name):
        return _cut(_joined(_markdown(text)))
    return _cut([Piece(text)])


def _cut(pieces: Iterable[Piece], title: str = "") -> Read:
    length, found, is_whole = 0, list[Piece](), True
    for piece in pieces:
        left = MOST_CHARACTERS - length
        if len(piece.text) > left:
            is_whole = False
            piece = piece._replace(text=piece.text[:left])
        found.append(piece._replace(heading=piece.heading[:MAX_HEADING]))
        length += len(piece.text)
        if not is_whole:
            break
    passages = list(islice(cut(found), MOST_PASSAGES + 1))
    if len(passages) > MOST_PASSAGES:  # as of a table of contents: larger ones say the same
        passages = list(islice(cut(found, by_heading=False), MOST_PASSAGES + 1))
    if not passages:
        raise NoText(NO_TEXT)
    return Read(passages[:MOST_PASSAGES], cleaned(title)[:200], is_whole and len(passages) <= MOST_PASSAGES)


def _joined(lines: Iterable[Line]) -> Iterator[Piece]:
    """The lines under one heading and on one page, together."""
    for (headings, label, page), same in groupby(lines, lambda line: (line.headings, line.label, line.page)):
        trail = headings if page or not label else (label, *headings)
        yield Piece("\n".join(line.text for line in same), BETWEEN.join(trail), page)


def _of_document(lines: Iterable[Line]) -> Iterator[Piece]:
    for is_table, some in groupby(lines, lambda line: bool(line.cells)):
        if not is_table:
            yield from _joined(some)
            continue
        for label, rows in groupby(some, lambda line: line.label):
            yield from _of_table((row.cells for row in rows), label)


def _of_table(rows: Iterable[Iterable[str]], heading: str = "") -> Iterator[Piece]:
    """Each row with the names of its columns, which the first row has."""
    columns: list[str] | None = None
    for row in rows:
        cells = [" ".join(cell.split()) for cell in row]
        if not any(cells):
            continue
        if columns is None:
            columns = cells
            yield Piece(", ".join(filter(None, cells)), heading)
            continue
        named = zip([*columns, *[""] * len(cells)], cells, strict=False)
        yield Piece("; ".join(f"{column}: {cell}" if column else cell for column, cell in named if cell), heading)


def _rows(text: str, separator: str) -> Iterator[list[str]]:
    dialect: Any = csv.excel
    with suppress(csv.Error):
        dialect = csv.Sniffer().sniff(text[:8_192], f"{separator};\t|")
    csv.field_size_limit(MOST_CHARACTERS)
    with suppress(csv.Error):  # what is damaged ends the table
        yield from csv.reader(text.splitlines(), dialect)


ATX = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t#]*")
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*")


def _markdown(text: str) -> Iterator[Line]:
    """Its lines, unchanged. Headings are those of CommonMark, outside of fenced code."""
    headings, fence, lines = dict[int, str](), "", text.split("\n")
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if fence:
            fence = "" if line.strip().startswith(fence) else fence
        elif found := FENCE.match(line):
            fence = found[1]
        elif found := ATX.fullmatch(line):
            headings = _below(headings, len(found[1]), found[2])
        elif line.strip() and line[:1] not in "#->|" and (under := UNDERLINE.fullmatch(following)):
            headings = _below(headings, 1 if under[1][0] == "=" else 2, line.strip())
        yield Line(line, headings=tuple(headings.values()))


def _below(headings: dict[int, str], level: int, heading: str) -> dict[int, str]:
    """The trail of headings once this one began."""
    above = {one: text for one, text in headings.items() if one < level}
    return above | {level: heading} if heading else above


SKIPPED = re.compile(r"script|style|noscript|template|svg|nav|footer|aside|iframe|button|select|head")
BLOCK = re.compile(
    r"address|article|blockquote|br|dd|details|div|dl|dt|fieldset|figcaption|figure|form|h[1-6]|header|hr|li|main|ol|p|pre"
    r"|section|summary|table|tbody|tr|ul"
)
HEADING = re.compile(r"h[1-6]")
STATED_CHARSET = re.compile(rb"<meta[^>]{0,200}charset=[\"']?([\w-]+)", re.IGNORECASE)


def _stated_charset(content: bytes) -> str:
    found = STATED_CHARSET.search(content[:2_048])
    return found[1].decode() if found else ""


def _html(text: str) -> tuple[str, Iterator[Line]]:
    """The title of a page, and the lines of its text, without what leads elsewhere."""
    library: Any = importlib.import_module("lxml.etree")
    parser = library.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True)
    root = library.fromstring(text.encode(errors="replace"), parser) if text.strip() else None
    if root is None:
        raise NoText(NO_TEXT)
    title = " ".join("".join(root.xpath("//head/title[1]//text()")).split())
    return title, _without_gaps(_html_lines(library.iterwalk(root, events=("start", "end"))))


def _without_gaps(lines: Iterable[Line]) -> Iterator[Line]:
    """At most one blank line between others."""
    is_blank = True
    for line in lines:
        if line.text or not is_blank:
            yield line
        is_blank = not line.text


def _html_lines(walker: Any) -> Iterator[Line]:
    headings, said, kept = dict[int, str](), list[str](), 0  # `kept`: open elements whose spaces count

    def line() -> Line:
        text = "".join(said) if kept else " ".join("".join(said).split())
        said.clear()
        return Line(text.strip("\n"), headings=tuple(headings.values()))

    for event, element in walker:
        tag = element.tag
        if BLOCK.fullmatch(tag) and said and (event == "start" or not HEADING.fullmatch(tag)):
            yield line()
        if event == "start":
            if SKIPPED.fullmatch(tag):
                walker.skip_subtree()
                continue
            kept += tag == "pre"
            said.append(element.text or "")
            continue
        if HEADING.fullmatch(tag):
            headings = _below(headings, int(tag[1]), " ".join("".join(said).split()))
            yield line()
        kept -= tag == "pre"
        if tag in ("p", "ul", "ol", "table", "pre"):
            yield Line("", headings=tuple(headings.values()))  # a paragraph ends
        said.append((" | " if tag in ("td", "th") else "") + (element.tail or ""))
    yield line()


def main() -> None:
    """Read what standard input has: a line of JSON that says what it is, then the content. Answers with JSON."""
    limits = {resource.RLIMIT_AS: MEMORY_BYTES, resource.RLIMIT_CPU: CPU_SECONDS, resource.RLIMIT_CORE: 0}
    for kind, most in limits.items():
        with suppress(OSError, ValueError):
            resource.setrlimit(kind, (most, most))
    stated = json.loads(sys.stdin.buffer.readline())
    try:
        answer = read(sys.stdin.buffer.read(), **stated)._asdict()
    except NoText as problem:
        answer = {"problem": str(problem)}
    except (MemoryError, RecursionError):
        answer = {"problem": TOO_MUCH}
    sys.stdout.buffer.write(json.dumps(answer, ensure_ascii=False).encode(errors="replace"))
