"""The preview of a file: the modes of each kind of file, and the decoding of its text."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from django.http import QueryDict
from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound

from apps.conversations.pages.previews.tables import NotATable, Order, Table, table_of
from apps.conversations.pages.previews.trees import NotATree, tree_of
from apps.conversations.pages.session.messages import size_text, with_code_tools
from apps.record.content import blobs, parts, rendering
from apps.record.content.rendering import NOWHERE, Surroundings
from apps.record.events import JSON

READ_BYTES = 2_000_000  # of a table or tree
SHOWN_BYTES = 100_000  # of a text
HIGHLIGHTED_CHARACTERS = 40_000
SHORT_NUMBER = re.compile("[0-9]{1,3}")
LONG_LINE = 2_000  # longer lines are wrapped

PICTURE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/svg+xml")
BY_TYPE = {
    **dict.fromkeys(PICTURE_TYPES, ("picture",)),
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
"""The media type of a plain text, by the ending of its name."""

MODE_NAMES = {
    "picture": "Picture", "page": "Page", "laid out": "Text", "table": "Table", "tree": "Tree", "source": "Source",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class File:
    """A part of an artifact. `address` downloads it, with `?look` opens it; `media_type` is verified."""

    part: JSON
    name: str
    media_type: str
    address: str
    around: Surroundings = NOWHERE

    @property
    def size(self) -> int:
        return parts.size_of(self.part) or 0

    def text(self, most: int) -> str:
        said = str(self.part.get("mediaType", ""))
        return text_of(blobs.head_of(self.part, most), said, is_cut=self.size > most)


@dataclass(frozen=True, slots=True)
class Preview:
    """What `_preview.html` shows of a file: its content in one mode, with a note."""

    file: File
    mode: str
    content: object = None
    note: str = ""
    modes: tuple[str, ...] = ()

    @property
    def mode_choices(self) -> list[tuple[str, str]]:
        return [(mode, MODE_NAMES[mode]) for mode in self.modes] if len(self.modes) > 1 else []


def preview_of(file: File, asked: QueryDict) -> Preview:
    """The preview of a file. In `asked`, `as` names the mode, `sort` and `down` order a table."""
    modes = _modes(file)
    if not modes:
        return Preview(file, "none", note="This kind of file cannot be shown here. Download it to open it.")
    if file.size == 0:
        return Preview(file, "none", note="This file is empty.")
    mode = asked.get("as", "")
    mode = mode if mode in modes else modes[0]
    preview = READERS[mode](file, asked) if mode in READERS else Preview(file, mode)
    return replace(preview, modes=modes)


def _modes(file: File) -> tuple[str, ...]:
    if "url" in file.part:
        return ()
    media_type = file.media_type.partition(";")[0]
    if media_type == "text/plain":
        media_type = BY_ENDING.get(PurePosixPath(file.name.lower()).suffix, media_type)
    if modes := BY_TYPE.get(media_type):
        return modes
    if not parts.TEXT_TYPES.fullmatch(media_type):
        return ()
    return ("tree", "source") if media_type.endswith("+json") else ("source",)


def _source(file: File, _: QueryDict) -> Preview:
    text = file.text(SHOWN_BYTES)
    if "data" in file.part or file.part.get("stored", {}).get("kind") == "data":
        text = _indented(text)
    is_long = len(text) > HIGHLIGHTED_CHARACTERS or max(map(len, text.splitlines()), default=0) > LONG_LINE
    html = rendering.render_code(text, "" if is_long else _language(file))
    return Preview(file, "source", html, _cut_note(file, SHOWN_BYTES))


def _indented(text: str) -> str:
    try:
        return rendering.json_text(json.loads(text))
    except (ValueError, RecursionError):  # it is cut, or not JSON
        return text


def _markdown(file: File, _: QueryDict) -> Preview:
    return Preview(
        file,
        "laid out",
        with_code_tools(rendering.render_markdown(file.text(rendering.MAX_RENDERED), file.around)),
        _cut_note(file, rendering.MAX_RENDERED),
    )


def _tree(file: File, asked: QueryDict) -> Preview:
    if file.size > READ_BYTES:
        return _source(file, asked)
    try:
        return Preview(file, "tree", tree_of(file.text(READ_BYTES)))
    except NotATree as reason:
        return replace(_source(file, asked), note=f"{reason} Here is its text.")


def _table(file: File, asked: QueryDict) -> Preview:
    sort, is_cut = asked.get("sort", ""), file.size > READ_BYTES
    order = Order(int(sort), "down" in asked) if SHORT_NUMBER.fullmatch(sort) else None
    try:
        table = table_of(file.text(READ_BYTES), order, is_cut=is_cut)
    except NotATable:
        return replace(_source(file, asked), note="This cannot be read as a table. Here is its text.")
    return Preview(file, "table", table, _rows_shown(file, table))


def _rows_shown(file: File, table: Table) -> str:
    shown, unshown = len(table.rows), table.unshown_columns
    if file.size > READ_BYTES:
        note = f"{shown:,} of the first {table.total:,} rows of {size_text(file.size)}. Download the file to see all."
    elif shown < table.total:
        note = f"{shown:,} of {table.total:,} rows. Download the file to see all."
    else:
        note = f"{shown:,} {'row' if shown == 1 else 'rows'}."
    return f"{note} {unshown:,} more {'column is' if unshown == 1 else 'columns are'} not shown." if unshown else note


READERS: dict[str, Callable[[File, QueryDict], Preview]] = {
    "laid out": _markdown,
    "table": _table,
    "tree": _tree,
    "source": _source,
}
"""The function for each mode; files in other modes are left to the browser."""


def _cut_note(file: File, most: int) -> str:
    return (
        f"The first {size_text(most)} of {size_text(file.size)}. Download the file to see all."
        if file.size > most
        else ""
    )


def _language(file: File) -> str:
    endings = {"text/html": "x.html", "image/svg+xml": "x.svg", "application/json": "x.json"}
    try:
        aliases = get_lexer_for_filename(endings.get(file.media_type, file.name)).aliases
    except ClassNotFound:
        return ""
    return str(aliases[0]) if aliases and aliases[0] != "text" else ""


BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16: its mark begins with UTF-16's
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# Python's other codecs are not text encodings, or take quadratic time.
SAFE_ENCODINGS = re.compile(
    r"(us-)?ascii|utf-?(8|16|32)(le|be|-le|-be)?|(iso-?)?8859-\d+|iso-8859-\d+|latin-?1|(windows-|cp)125\d"
    r"|koi8-[ru]|mac-?roman|gbk|gb2312|gb18030|big5|shift_?jis|euc-(jp|kr)",
    re.IGNORECASE,
)
CHARSET = re.compile(r";\s*charset\s*=\s*\"?([\w.-]{1,40})", re.IGNORECASE | re.ASCII)


def text_of(content: bytes, media_type: str = "", *, is_cut: bool = False) -> str:
    """The text; it never fails. `is_cut`: there is more, and the last character may be incomplete."""
    return _decoded(content, encoding_of(content, media_type, is_cut=is_cut), is_cut)


def encoding_of(content: bytes, media_type: str = "", *, is_cut: bool = False) -> str:
    """The encoding named by the BOM or the media type, if it decodes the text; otherwise UTF-8, or a guess."""
    for encoding in _likely(content, media_type):
        try:
            _decoded(content, encoding, is_cut)
        except (UnicodeError, LookupError):
            continue
        return encoding
    return "iso-8859-1"  # in which every byte is a character


def _likely(content: bytes, media_type: str) -> Iterator[str]:
    yield from (encoding for mark, encoding in BYTE_ORDER_MARKS.items() if content.startswith(mark))
    said = CHARSET.search(media_type)
    if said and SAFE_ENCODINGS.fullmatch(said[1]):
        yield said[1]
    yield from ("utf-8", "windows-1252")


def _decoded(content: bytes, encoding: str, is_cut: bool) -> str:
    text = codecs.getincrementaldecoder(encoding)().decode(content, final=not is_cut)
    return text.removeprefix("\ufeff")
