"""Reads exports of ChatGPT, Open WebUI and Parley: the conversations of a file, each with its current path."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from apps.record.content import strict_json
from apps.record.errors import InvalidParams
from apps.record.events import JSON, Imported
from apps.transfers.package import FILE_ID, Attachment, Package, media_type_of_url

EXPORT_FORMAT, EXPORT_VERSION = "parley-session-export", 1
MOST_VALUES = 2_000_000  # in all documents of a file
MAX_CONVERSATIONS = 10_000  # of one file
MAX_MESSAGES = 2000  # of one conversation
MAX_TEXT_BYTES = 256 * 1024  # of one message
MAX_ATTACHMENTS = 50  # of one message
CHATGPT, OPEN_WEBUI, PARLEY = "ChatGPT", "Open WebUI", "Parley"
SPOKEN_ROLES = {"user": True, "assistant": False, "agent": False}
BROKEN = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, OSError)
NOT_KNOWN = (
    "This is not an export that Parley can read. Use conversations.json or the ZIP of ChatGPT, the chats of Open WebUI,"
    " or a session that Parley exported as JSON."
)


class Skip(StrEnum):
    """What a session does not get, and why."""

    MISSING = "missing_files"  # the export does not have them
    UNREADABLE = "unreadable_files"  # damaged, or larger than Parley takes
    TOOLS = "tool_messages"  # calls of tools, and their results
    REASONING = "reasoning"
    BRANCHES = "other_branches"
    HIDDEN = "hidden_messages"


SKIPPED_WORDS = {
    Skip.MISSING: "files that the export does not have",
    Skip.UNREADABLE: "files that are damaged or too large",
    Skip.TOOLS: "calls of tools and their results",
    Skip.REASONING: "passages of reasoning",
    Skip.BRANCHES: "other branches",
    Skip.HIDDEN: "hidden messages",
}


@dataclass(frozen=True)
class Turn:
    is_user: bool
    text: str
    imported: Imported
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True)
class Conversation:
    """One conversation of a file. `problem`: why it cannot be imported, a sentence, or ""."""

    title: str
    turns: tuple[Turn, ...] = ()
    problem: str = ""
    skipped: Counter[Skip] = field(default_factory=Counter)

    @property
    def digest(self) -> str:
        said = [[one.is_user, one.text, dict(one.imported), *_named(one)] for one in self.turns]
        return strict_json.digest_of([self.title, said])


def _named(turn: Turn) -> list[Any]:
    return [[[one.name, one.source] for one in turn.attachments]] if turn.attachments else []


def read_conversations(package: Package) -> list[Conversation]:
    """The conversations of an exported file. Raises InvalidParams for a file that is not one, as a whole."""
    found, values = list[Any](), 0
    for text in package.documents():
        values += sum(map(text.count, (b"{", b"[", b",")))
        if values > MOST_VALUES:  # in memory each takes many times its bytes
            raise InvalidParams(f"The file has more than {MOST_VALUES:,} values. Split it.", "file")
        found += _listed(_parse(text))
        if len(found) > MAX_CONVERSATIONS:
            raise InvalidParams(f"The file has more than {MAX_CONVERSATIONS:,} conversations. Split it.", "file")
    if not found:
        raise InvalidParams("The file has no conversations.", "file")
    readers = [_reader_of(one) for one in found]
    if not any(readers):
        raise InvalidParams(NOT_KNOWN, "file")
    return [_read(one, reader, package) for one, reader in zip(found, readers, strict=True)]


def _parse(text: bytes) -> Any:
    try:
        return strict_json.to_storable(strict_json.parse(text.removeprefix(b"\xef\xbb\xbf")))
    except strict_json.InvalidJSON as error:
        raise InvalidParams(str(error).replace("The body", "The file"), "file") from None
    except ValueError as error:
        raise InvalidParams(str(error), "file") from None


def _listed(document: Any) -> list[Any]:
    return document if isinstance(document, list) else [document]


@dataclass(frozen=True)
class Context:
    """What a reader of one conversation needs besides it."""

    package: Package
    skipped: Counter[Skip] = field(default_factory=Counter)

    def attachment(self, pointer: object, name: object = "", media_type: object = "") -> Attachment | None:
        """A file that the export has. Otherwise it is counted."""
        named, typed = (one if isinstance(one, str) else "" for one in (name, media_type))
        if isinstance(pointer, str) and (of_url := media_type_of_url(pointer)):
            return Attachment(named, typed or of_url, pointer)
        if key := self.package.find(pointer):
            return Attachment(named or self.package.name_of(key), typed, key)
        self.skipped[Skip.MISSING] += 1
        return None


@dataclass
class Said:
    """One message as it is in an export. `left_out`: the number of parts that it lost."""

    role: str
    texts: list[str]
    at: Any
    model: Any
    attachments: list[Attachment] = field(default_factory=list)
    left_out: int = 0

    def attach(self, found: Attachment | None) -> None:
        if found is None or len(self.attachments) == MAX_ATTACHMENTS:
            self.left_out += 1
        else:
            self.attachments.append(found)


Reader = Callable[[JSON, Context], Iterator[Turn]]


def _reader_of(document: Any) -> Reader | None:
    if not isinstance(document, dict):
        return None
    if document.get("format") == EXPORT_FORMAT:
        return _parley
    if "mapping" in document:
        return _chatgpt
    return _open_webui if isinstance(document.get("chat"), dict) else None


def _read(document: Any, reader: Reader | None, package: Package) -> Conversation:
    """A broken conversation keeps its title, so that its owner can find it."""
    if reader is None:
        return Conversation(_title_of(document), problem="It is not in a known format.")
    title, about = _title_of(document), Context(package)
    try:
        turns = tuple(reader(document, about))
    except _TooLarge as error:
        return Conversation(title, problem=str(error))
    except BROKEN:
        return Conversation(title, problem="It is damaged: its messages cannot be read.")
    return Conversation(title, turns, "" if turns else "It has no messages with text.", about.skipped)


def _title_of(document: Any) -> str:
    if not isinstance(document, dict):
        return ""
    holders = (document, document.get("session"), document.get("chat"))
    titles = (one.get("title") for one in holders if isinstance(one, dict))
    return " ".join(next((one for one in titles if one and isinstance(one, str)), "").split())


class _TooLarge(Exception):
    """The conversation is larger than Parley takes."""


def _path(nodes: JSON, newest: Any, parent: str) -> list[JSON]:
    """From the first message to the newest, by each one's parent. Raises ValueError for a loop."""
    path: list[JSON] = []
    while newest is not None:
        if len(path) > len(nodes):
            raise ValueError("loop")
        path.append(nodes[newest])
        newest = path[-1].get(parent)
    return path[::-1]


def _branches(nodes: JSON, parent: str) -> int:
    """The number of ends: messages that nothing follows."""
    return len(nodes.keys() - {one.get(parent) for one in nodes.values()})


def _turns(source: str, said: Iterator[Said]) -> Iterator[Turn]:
    """Those with text or files."""
    count = 0
    for one in said:
        text = "\n\n".join(one.texts).strip()
        if not (text or one.attachments):
            text = "(not imported)" * bool(one.left_out)
        if one.role not in SPOKEN_ROLES or not (text or one.attachments):
            continue
        count += 1
        if count > MAX_MESSAGES:
            raise _TooLarge(f"It has more than {MAX_MESSAGES:,} messages.")
        if len(text.encode()) > MAX_TEXT_BYTES:
            raise _TooLarge(f"One of its messages has more than {MAX_TEXT_BYTES // 1024} KB.")
        imported: Imported = {"source": source}
        if one.at:
            imported["at"] = _time(one.at)
        if one.model and isinstance(one.model, str):
            imported["model"] = one.model[:200]
        if one.left_out:
            imported["leftOut"] = one.left_out
        yield Turn(SPOKEN_ROLES[one.role], text, imported, tuple(one.attachments))


def _time(at: Any) -> str:
    """Of seconds, milliseconds or nanoseconds since 1970, or of ISO 8601."""
    if isinstance(at, str):
        return datetime.datetime.fromisoformat(at).isoformat()
    seconds = at / 1e9 if at > 1e17 else at / 1e3 if at > 1e11 else at
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat()


def _chatgpt(document: JSON, about: Context) -> Iterator[Turn]:
    nodes = document["mapping"]
    newest = document.get("current_node") or _last_leaf(nodes)
    path = [one["message"] for one in _path(nodes, newest, "parent") if one.get("message")]
    about.skipped[Skip.BRANCHES] += max(0, _branches(nodes, "parent") - 1)
    return _turns(CHATGPT, (said for one in path if (said := _chatgpt_said(one, about))))


def _last_leaf(nodes: JSON) -> Any:
    return next((key for key in reversed(nodes) if not nodes[key].get("children")), None)


def _chatgpt_said(message: JSON, about: Context) -> Said | None:
    """None for what people did not see as a message; it is counted."""
    content, metadata, role = message["content"], message.get("metadata") or {}, message["author"]["role"]
    kind, parts = content["content_type"], content.get("parts") or []
    if role == "system":
        return None
    if metadata.get("is_visually_hidden_from_conversation"):
        about.skipped[Skip.HIDDEN] += 1
        return None
    if kind in ("thoughts", "reasoning_recap"):
        about.skipped[Skip.REASONING] += kind == "thoughts"  # the recap only says how long they took
        return None
    makes_images = role == "tool" and kind == "multimodal_text" and any(map(_pointer_of, parts))
    is_spoken = role in SPOKEN_ROLES and kind in ("text", "multimodal_text", "code")
    if message.get("recipient", "all") != "all" or not (is_spoken or makes_images):
        about.skipped[Skip.TOOLS] += 1
        return None
    said = Said("assistant" if makes_images else role, [], message.get("create_time"), metadata.get("model_slug"))
    named = {one["id"]: one for one in metadata.get("attachments") or []}
    for part in parts if "parts" in content else [content["text"]]:
        _add_chatgpt_part(said, part, named, about, is_text=not makes_images)
    for key, one in named.items():  # files that are no images
        said.attach(about.attachment(key, one.get("name"), one.get("mimeType") or one.get("mime_type")))
    return said


def _add_chatgpt_part(said: Said, part: Any, named: dict[str, JSON], about: Context, *, is_text: bool) -> None:
    text = part if isinstance(part, str) else part.get("text")
    if isinstance(text, str):
        said.texts += [text] if is_text else []
    elif pointer := _pointer_of(part):
        key = FILE_ID.search(pointer.rpartition("://")[2])
        about_it = named.pop(key[0], {}) if key else {}
        said.attach(about.attachment(pointer, about_it.get("name"), about_it.get("mimeType")))
    else:
        said.left_out += 1


def _pointer_of(part: Any) -> str:
    """Of an image, a recording, or a recording with pictures."""
    if not isinstance(part, dict):
        return ""
    pointer = part.get("asset_pointer") or (part.get("audio_asset_pointer") or {}).get("asset_pointer")
    return pointer if isinstance(pointer, str) else ""


def _open_webui(document: JSON, about: Context) -> Iterator[Turn]:
    chat = document["chat"]
    history = chat.get("history") or {}
    newest = history.get("currentId")
    if newest:
        about.skipped[Skip.BRANCHES] += max(0, _branches(history["messages"], "parentId") - 1)
    said = _path(history["messages"], newest, "parentId") if newest else chat["messages"]
    return _turns(OPEN_WEBUI, (_open_webui_said(one, about) for one in said))


DETAILS = re.compile(r'<details type="(reasoning|tool_calls|code_interpreter)"')
END_OF_DETAILS = "</details>"


def _open_webui_said(message: JSON, about: Context) -> Said:
    content = message["content"]
    said = Said(message["role"], [], message.get("timestamp"), message.get("model"))
    for part in content if isinstance(content, list) else [{"text": content}]:
        url = (part.get("image_url") or {}).get("url")
        if isinstance(part.get("text"), str):
            said.texts.append(part["text"] if said.role == "user" else _without_details(part["text"], about))
        elif url:
            said.attach(about.attachment(url))
        else:
            said.left_out += 1
    for file in message.get("files") or []:
        inner = file.get("file") or {}
        name = file.get("name") or inner.get("filename")
        said.attach(about.attachment(file.get("url"), name, (inner.get("meta") or {}).get("content_type")))
    return said


def _without_details(text: str, about: Context) -> str:
    """An answer without the reasoning and the calls of tools that stand in it as HTML."""
    kept, place = [], 0
    while found := DETAILS.search(text, place):
        end = text.find(END_OF_DETAILS, found.end())
        if end < 0:
            break
        about.skipped[Skip.REASONING if found[1] == "reasoning" else Skip.TOOLS] += 1
        kept.append(text[place : found.start()])
        place = end + len(END_OF_DETAILS)
    return "".join([*kept, text[place:]])


def _parley(document: JSON, about: Context) -> Iterator[Turn]:
    if document["version"] != EXPORT_VERSION:
        raise _TooLarge("It is of another version of Parley's export. Use the Parley that made it.")
    return _turns(PARLEY, (_parley_said(one, about) for one in document["messages"]))


def _parley_said(message: JSON, about: Context) -> Said:
    said = Said(message["role"], [], message["timestamp"], message["metadata"].get("agent"))
    for part in message["parts"]:
        if isinstance(part.get("text"), str) and not part.get("filename"):
            said.texts.append(part["text"])
        elif isinstance(raw := part.get("raw"), str):
            media_type = part.get("mediaType") or "application/octet-stream"
            said.attach(about.attachment(f"data:;base64,{raw}", part.get("filename"), media_type))
        elif "url" in part:  # a link that needs a key of the other installation
            said.attach(about.attachment(None))
        else:
            said.left_out += 1
    return said
