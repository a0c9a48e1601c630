"""Which look a file gets: each kind of file has one way to be seen, or two, the second mostly its source."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from django.http import QueryDict
from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound

from apps.record import blobs, media_types, prose
from apps.web import parts
from apps.web.previews.encodings import text_of
from apps.web.previews.tables import NoTable, Order, Table, table_of
from apps.web.previews.trees import NoTree, tree_of

JSON = dict[str, Any]

READ = 2_000_000  # bytes of a table or tree that are read
WRITTEN = 100_000  # bytes of a text that are shown
COLOURED = 40_000  # characters of a text that are highlighted
SHORT_NUMBER = re.compile("[0-9]{1,3}")
LONG_LINE = 2_000  # characters beyond which lines are wrapped, whatever the language

PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/svg+xml")
BY_TYPE = {
    **dict.fromkeys(PICTURES, ("picture",)),
    "image/svg+xml": ("picture", "source"),
    "application/pdf": ("paged",),
    "text/html": ("page", "source"),
    "text/markdown": ("laid out", "source"),
    "text/csv": ("table", "source"),
    "application/csv": ("table", "source"),
    "text/tab-separated-values": ("table", "source"),
    "application/json": ("tree", "source"),
}
BY_ENDING = {".csv": "text/csv", ".tsv": "text/csv", ".md": "text/markdown", ".json": "application/json"}
"""What a text is of which nothing more is said than that it is one."""

NAMES = {
    "picture": "Picture", "page": "Page", "laid out": "Text", "table": "Table", "tree": "Tree", "source": "Source",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class File:
    """A part of what was delivered. `address` gives it, and looks at it with `?look`; `media_type` is believed."""

    part: JSON
    name: str
    media_type: str
    address: str

    @property
    def size(self) -> int:
        return parts.size_of(self.part) or 0

    def text(self, most: int) -> str:
        """Its text, as far as it is in the first so many bytes."""
        said = str(self.part.get("mediaType", ""))
        return text_of(blobs.beginning_of(self.part, most), said, is_cut=self.size > most)


@dataclass(frozen=True, slots=True)
class Look:
    """What `_preview.html` shows of a file: its content, seen in one way, with a note about that."""

    file: File
    way: str
    content: object = None
    note: str = ""
    ways: tuple[str, ...] = ()

    @property
    def choices(self) -> list[tuple[str, str]]:
        """The ways there are to see it, and what they are called, where there is a choice."""
        return [(way, NAMES[way]) for way in self.ways] if len(self.ways) > 1 else []


def look_at(file: File, asked: QueryDict) -> Look:
    """How a file is seen. `asked`: `as` names the way, `sort` and `down` order a table."""
    ways = _ways(file)
    if not ways:
        return Look(file, "none", note="This kind of file cannot be shown here. Download it to open it.")
    if file.size == 0:
        return Look(file, "none", note="This file is empty.")
    way = asked.get("as", "")
    way = way if way in ways else ways[0]
    look = READERS[way](file, asked) if way in READERS else Look(file, way)
    return replace(look, ways=ways)


def _ways(file: File) -> tuple[str, ...]:
    if "url" in file.part:
        return ()
    media_type = file.media_type.partition(";")[0]
    if media_type == "text/plain":
        media_type = BY_ENDING.get(PurePosixPath(file.name.lower()).suffix, media_type)
    if ways := BY_TYPE.get(media_type):
        return ways
    if not media_types.TEXTUAL.fullmatch(media_type):
        return ()
    return ("tree", "source") if media_type.endswith("+json") else ("source",)


def _source(file: File, _: QueryDict) -> Look:
    """The text as it is written, highlighted where its language is known and it is not long."""
    text = file.text(WRITTEN)
    if "data" in file.part or file.part.get("stored", {}).get("kind") == "data":
        text = _indented(text)
    is_long = len(text) > COLOURED or max(map(len, text.splitlines()), default=0) > LONG_LINE
    html = prose.coloured(text, "" if is_long else _language(file))
    return Look(file, "source", html, _beginning(file, WRITTEN))


def _indented(text: str) -> str:
    try:
        return prose.json_text(json.loads(text))
    except (ValueError, RecursionError):  # it is cut, or nothing that we read
        return text


def _laid_out(file: File, _: QueryDict) -> Look:
    return Look(file, "laid out", prose.laid_out(file.text(prose.LONGEST)), _beginning(file, prose.LONGEST))


def _tree(file: File, asked: QueryDict) -> Look:
    if file.size > READ:
        return _source(file, asked)
    try:
        return Look(file, "tree", tree_of(file.text(READ)))
    except NoTree as reason:
        return replace(_source(file, asked), note=f"{reason} Here is its text.")


def _table(file: File, asked: QueryDict) -> Look:
    sort, is_cut = asked.get("sort", ""), file.size > READ
    order = Order(int(sort), "down" in asked) if SHORT_NUMBER.fullmatch(sort) else None
    try:
        table = table_of(file.text(READ), order, is_cut=is_cut)
    except NoTable:
        return replace(_source(file, asked), note="This cannot be read as a table. Here is its text.")
    return Look(file, "table", table, _rows_shown(file, table))


def _rows_shown(file: File, table: Table) -> str:
    shown, unshown = len(table.rows), table.unshown_columns
    if file.size > READ:
        note = f"{shown:,} of the first {table.total:,} rows of {_bytes(file.size)}. Download the file to see all."
    elif shown < table.total:
        note = f"{shown:,} of {table.total:,} rows. Download the file to see all."
    else:
        note = f"{shown:,} {'row' if shown == 1 else 'rows'}."
    return f"{note} {unshown:,} more {'column is' if unshown == 1 else 'columns are'} not shown." if unshown else note


READERS: dict[str, Callable[[File, QueryDict], Look]] = {
    "laid out": _laid_out,
    "table": _table,
    "tree": _tree,
    "source": _source,
}
"""How a text is read for each way of seeing it; the other ways leave that to the browser."""


def _beginning(file: File, most: int) -> str:
    """What is to be said where only so many bytes are shown."""
    return f"The first {_bytes(most)} of {_bytes(file.size)}. Download the file to see all." if file.size > most else ""


def _bytes(size: int) -> str:
    """A size as the page's script writes it (`sizes.js`)."""
    return f"{size / 1e6:.1f} MB" if size >= 1_000_000 else f"{size / 1000:.0f} kB"


def _language(file: File) -> str:
    """What Pygments calls the language: by the file's name, or by its type."""
    endings = {"text/html": "x.html", "image/svg+xml": "x.svg", "application/json": "x.json"}
    try:
        aliases = get_lexer_for_filename(endings.get(file.media_type, file.name)).aliases
    except ClassNotFound:
        return ""
    return str(aliases[0]) if aliases and aliases[0] != "text" else ""
