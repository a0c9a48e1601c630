"""Reads exports of other programs: the conversations of a file. `FORMATS` has one line for each program.

A format is a module that recognizes one conversation and reads it into a `Tree`; all the rest is shared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from apps.optional.transfers.formats import chatgpt, claude, gemini, librechat, lobechat, open_webui, openai, parley
from apps.optional.transfers.formats.damaged import ItemReader
from apps.optional.transfers.formats.parley import EXPORT_FORMAT, EXPORT_VERSION
from apps.optional.transfers.formats.shape import (
    BROKEN,
    MAX_TEXT_BYTES,
    SKIPPED_WORDS,
    Branch,
    Context,
    Conversation,
    Reader,
    Skip,
    TooLarge,
    Turn,
    in_order,
    read_tree,
)
from apps.optional.transfers.package import Package
from apps.record.content import strict_json
from apps.record.errors import InvalidParams

__all__ = [
    "EXPORT_FORMAT",
    "EXPORT_VERSION",
    "FORMATS",
    "MAX_CONVERSATIONS",
    "MAX_TEXT_BYTES",
    "SKIPPED_WORDS",
    "Branch",
    "Conversation",
    "Skip",
    "Turn",
    "in_order",
    "read_conversations",
]

MOST_VALUES = 2_000_000  # in all documents of a file
MAX_CONVERSATIONS = 10_000  # of one file


@dataclass(frozen=True)
class Format:
    """`is_one`: does an object hold a conversation of this program? `split`: the conversations of a document that has
    them otherwise than one by one, or None if it is none of this program.
    """

    name: str
    files: str
    is_one: Callable[[dict[str, Any]], bool]
    read: Reader
    split: Callable[[Any], list[Any] | None] = lambda _: None


FORMATS = [
    Format("Parley", "a session as JSON", parley.is_one, parley.read),
    Format("ChatGPT", "the ZIP file of its export, or a conversations.json of it", chatgpt.is_one, chatgpt.read),
    Format("Claude", "the ZIP file of its export, or its conversations.json", claude.is_one, claude.read),
    Format("Gemini", "MyActivity.json of Google Takeout, or its ZIP file", gemini.is_one, gemini.read, gemini.split),
    Format("Open WebUI", "exported chats", open_webui.is_one, open_webui.read),
    Format("LibreChat", "a conversation as JSON", librechat.is_one, librechat.read),
    Format("LobeChat", "exported sessions", lobechat.is_one, lobechat.read, lobechat.split),
    Format("OpenAI API", "messages as JSON, or JSONL for fine-tuning", openai.is_one, openai.read, openai.split),
]
NOT_KNOWN = f"Parley cannot read this file. It takes {', '.join(f'{one.name} ({one.files})' for one in FORMATS)}."


def read_conversations(package: Package) -> list[Conversation]:
    """The conversations of an exported file; each that cannot be taken says why.

    Raises InvalidParams for a file that is no export, as a whole.
    """
    found, values = list[Any](), 0
    for name, text in package.documents():
        values += sum(map(text.count, (b"{", b"[", b",")))
        if values > MOST_VALUES:  # in memory each takes many times its bytes
            raise InvalidParams(f"The file has more than {MOST_VALUES:,} values. Split it.", "file")
        found += [_storable(one) for document in _parse(name, text) for one in _split(document)]
        if len(found) > MAX_CONVERSATIONS:
            raise InvalidParams(f"The file has more than {MAX_CONVERSATIONS:,} conversations. Split it.", "file")
    if not found:
        raise InvalidParams("The file has no conversations.", "file")
    formats = [_format_of(one) for one in found]
    if not any(formats):
        raise InvalidParams(next((one.problem for one in found if isinstance(one, Conversation)), NOT_KNOWN), "file")
    return [_read(one, format_, package) for one, format_ in zip(found, formats, strict=True)]


def _parse(name: str, text: bytes) -> list[Any]:
    """A document; of JSONL, one for each line; of a damaged array, one for each item.

    One that is not JSON is a conversation with a problem.
    """
    text = text.removeprefix(b"\xef\xbb\xbf").decode(errors="replace").encode()
    whole = _value(name, text)
    if isinstance(whole, Conversation) and text.lstrip().startswith(b"["):
        return _items(name, text.decode()) or [whole]
    lines = [(number, one) for number, one in enumerate(text.split(b"\n"), 1) if one.strip()]
    begun = sum(one.startswith(b"{") for _, one in lines)
    if isinstance(whole, Conversation) and 1 < len(lines) <= MAX_CONVERSATIONS and 2 * begun > len(lines):
        found = [_value(f"{name}, line {number}" if name else f"Line {number}", one) for number, one in lines]
        return found if any(isinstance(one, dict) for one in found) else [whole]
    return [whole]


def _items(name: str, text: str) -> list[Any]:
    """The good items of an array as one document, and the others; nothing if none is good."""
    found = ItemReader(text, _kind_of, lambda one: _format_of(one) is not None).read()
    place = f"{name}, item" if name else "Item"
    damaged = [_problem(f"{place} {number}", problem) for number, problem in found.damaged.items()]
    return [found.whole, *damaged] if damaged and any(map(_kind_of, found.whole)) else []


def _kind_of(item: Any) -> str:
    if format_ := _format_of(item):
        return format_.name
    return next((f"part of {one.name}" for one in FORMATS if one.split([item]) is not None), "")


def _value(name: str, text: bytes) -> Any:
    try:
        return strict_json.parse(text, len(text))
    except strict_json.InvalidJSON as error:
        return _problem(name, str(error))


def _problem(name: str, sentence: str) -> Conversation:
    return Conversation(name, problem=sentence.replace("The body", "It" if name else "The file"))


def _storable(document: Any) -> Any:
    """Characters that no text has are replaced."""
    if isinstance(document, Conversation):
        return document
    try:
        return strict_json.to_storable(document, repair=True)
    except ValueError as error:
        return Conversation(_title_of(document), problem=str(error))


def _split(document: Any) -> list[Any]:
    if isinstance(document, Conversation):
        return [document]
    for one in FORMATS:
        if (found := one.split(document)) is not None:
            return found
    return document if isinstance(document, list) else [document]


def _format_of(document: Any) -> Format | None:
    if not isinstance(document, dict):
        return None
    return next((one for one in FORMATS if one.is_one(document)), None)


def _read(document: Any, format_: Format | None, package: Package) -> Conversation:
    """A broken conversation keeps its title, so that its owner can find it."""
    if isinstance(document, Conversation):
        return document
    title = _title_of(document)
    if format_ is None:
        return Conversation(title, problem="It is not in a known format.")
    about = Context(package)
    try:
        return read_tree(format_.name, title, format_.read(document, about), about.skipped)
    except TooLarge as error:
        return Conversation(title, problem=str(error), source=format_.name)
    except BROKEN:
        return Conversation(title, problem="It is damaged: its messages cannot be read.", source=format_.name)


def _title_of(document: Any) -> str:
    if not isinstance(document, dict):
        return ""
    holders = (document, document.get("session"), document.get("chat"))
    titles = (one.get(key) for one in holders if isinstance(one, dict) for key in ("title", "name"))
    return " ".join(next((one for one in titles if one and isinstance(one, str)), "").split())
