"""Reads exports of ChatGPT, Open WebUI and Parley: the conversations of a file, each with its current path."""

from __future__ import annotations

import datetime
import io
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from apps.record.content import strict_json
from apps.record.errors import InvalidParams
from apps.record.events import JSON, Imported

EXPORT_FORMAT, EXPORT_VERSION = "parley-session-export", 1
MOST_VALUES = 3_000_000  # in a file
MAX_FILE_BYTES = 50 * 1024**2  # of JSON, unpacked
MAX_ZIP_ENTRIES = 100_000
MAX_CONVERSATIONS = 10_000  # of one file
MAX_MESSAGES = 2000  # of one conversation
MAX_TEXT_BYTES = 256 * 1024  # of one message
CHATGPT, OPEN_WEBUI, PARLEY = "ChatGPT", "Open WebUI", "Parley"
SPOKEN_ROLES = {"user": True, "assistant": False, "agent": False}
BROKEN = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, OSError)
ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError, ValueError)
NOT_KNOWN = (
    "This is not an export that Parley can read. Use conversations.json or the ZIP of ChatGPT, the chats of Open WebUI,"
    " or a session that Parley exported as JSON."
)


@dataclass(frozen=True)
class Turn:
    is_user: bool
    text: str
    imported: Imported


@dataclass(frozen=True)
class Conversation:
    """One conversation of a file. `problem`: why it cannot be imported, a sentence, or ""."""

    title: str
    turns: tuple[Turn, ...] = ()
    problem: str = ""

    @property
    def digest(self) -> str:
        return strict_json.digest_of([self.title, [[one.is_user, one.text, dict(one.imported)] for one in self.turns]])


def read_conversations(content: bytes) -> list[Conversation]:
    """The conversations of an exported file. Raises InvalidParams for a file that is not one, as a whole."""
    found = [one for text in _documents(content) for one in _listed(_parse(text))]
    if not found:
        raise InvalidParams("The file has no conversations.", "file")
    if len(found) > MAX_CONVERSATIONS:
        raise InvalidParams(f"The file has more than {MAX_CONVERSATIONS:,} conversations. Split it.", "file")
    readers = [_reader_of(one) for one in found]
    if not any(readers):
        raise InvalidParams(NOT_KNOWN, "file")
    return [_read(one, reader) for one, reader in zip(found, readers, strict=True)]


def _documents(content: bytes) -> Iterator[bytes]:
    if not content.startswith(b"PK\x03\x04"):
        yield _bounded(content)
        return
    room = MAX_FILE_BYTES
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = [one for one in archive.namelist()[:MAX_ZIP_ENTRIES] if _is_conversations(one)]
            for name in sorted(names):
                with archive.open(name) as file:
                    text = _bounded(file.read(room + 1), room)
                room -= len(text)
                yield text
    except ZIP_ERRORS:
        raise InvalidParams("The ZIP file is damaged or encrypted.", "file") from None
    if not names:
        raise InvalidParams("The ZIP file has no conversations.json.", "file")


def _is_conversations(name: str) -> bool:
    last = name.rpartition("/")[2]
    return last.startswith("conversations") and last.endswith(".json")


def _bounded(content: bytes, room: int = MAX_FILE_BYTES) -> bytes:
    if len(content) > room:
        raise InvalidParams(f"The conversations have more than {MAX_FILE_BYTES // 1024**2} MB. Split the file.", "file")
    return content


def _parse(text: bytes) -> Any:
    if sum(map(text.count, (b"{", b"[", b","))) > MOST_VALUES:  # in memory each takes many times its bytes
        raise InvalidParams(f"The file has more than {MOST_VALUES:,} values. Split it.", "file")
    try:
        return strict_json.to_storable(strict_json.parse(text.removeprefix(b"\xef\xbb\xbf")))
    except strict_json.InvalidJSON as error:
        raise InvalidParams(str(error).replace("The body", "The file"), "file") from None
    except ValueError as error:
        raise InvalidParams(str(error), "file") from None


def _listed(document: Any) -> list[Any]:
    return document if isinstance(document, list) else [document]


Reader = Callable[[JSON], Iterator[Turn]]


def _reader_of(document: Any) -> Reader | None:
    if not isinstance(document, dict):
        return None
    if document.get("format") == EXPORT_FORMAT:
        return _parley
    if "mapping" in document:
        return _chatgpt
    return _open_webui if isinstance(document.get("chat"), dict) else None


def _read(document: Any, reader: Reader | None) -> Conversation:
    """A broken conversation keeps its title, so that its owner can find it."""
    if reader is None:
        return Conversation(_title_of(document), problem="It is not in a known format.")
    title = _title_of(document)
    try:
        turns = tuple(reader(document))
    except _TooLarge as error:
        return Conversation(title, problem=str(error))
    except BROKEN:
        return Conversation(title, problem="It is damaged: its messages cannot be read.")
    return Conversation(title, turns, "" if turns else "It has no messages with text.")


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


def _turns(source: str, said: Iterator[tuple[str, str, int, Any, Any]]) -> Iterator[Turn]:
    """Those with text. Each is a role, a text, the number of parts that it lost, a time and a model."""
    count = 0
    for role, text, left_out, at, model in said:
        if role not in SPOKEN_ROLES or not (text := text.strip() or "(not imported)" * bool(left_out)):
            continue
        count += 1
        if count > MAX_MESSAGES:
            raise _TooLarge(f"It has more than {MAX_MESSAGES:,} messages.")
        if len(text.encode()) > MAX_TEXT_BYTES:
            raise _TooLarge(f"One of its messages has more than {MAX_TEXT_BYTES // 1024} KB.")
        imported: Imported = {"source": source}
        if at:
            imported["at"] = _time(at)
        if model and isinstance(model, str):
            imported["model"] = model[:200]
        if left_out:
            imported["leftOut"] = left_out
        yield Turn(SPOKEN_ROLES[role], text, imported)


def _time(at: Any) -> str:
    """Of seconds, milliseconds or nanoseconds since 1970, or of ISO 8601."""
    if isinstance(at, str):
        return datetime.datetime.fromisoformat(at).isoformat()
    seconds = at / 1e9 if at > 1e17 else at / 1e3 if at > 1e11 else at
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat()


def _chatgpt(document: JSON) -> Iterator[Turn]:
    nodes = document["mapping"]
    newest = document.get("current_node") or _last_leaf(nodes)
    path = (one.get("message") for one in _path(nodes, newest, "parent"))
    return _turns(CHATGPT, (_chatgpt_said(one) for one in path if one and _is_shown(one)))


def _last_leaf(nodes: JSON) -> Any:
    return next((key for key in reversed(nodes) if not nodes[key].get("children")), None)


def _is_shown(message: JSON) -> bool:
    is_hidden = (message.get("metadata") or {}).get("is_visually_hidden_from_conversation")
    is_spoken = message["content"]["content_type"] in ("text", "multimodal_text", "code")
    return not is_hidden and is_spoken and message.get("recipient", "all") == "all"


def _chatgpt_said(message: JSON) -> tuple[str, str, int, Any, Any]:
    content, model = message["content"], (message.get("metadata") or {}).get("model_slug")
    parts = content["parts"] if "parts" in content else [content["text"]]
    texts = [one if isinstance(one, str) else one.get("text") for one in parts]
    kept = [one for one in texts if isinstance(one, str)]
    return message["author"]["role"], "\n\n".join(kept), len(texts) - len(kept), message.get("create_time"), model


def _open_webui(document: JSON) -> Iterator[Turn]:
    chat = document["chat"]
    history = chat.get("history") or {}
    newest = history.get("currentId")
    said = _path(history["messages"], newest, "parentId") if newest else chat["messages"]
    return _turns(OPEN_WEBUI, (_open_webui_said(one) for one in said))


def _open_webui_said(message: JSON) -> tuple[str, str, int, Any, Any]:
    content, files = message["content"], len(message.get("files") or [])
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [one["text"] for one in parts if isinstance(one.get("text"), str)]
    left_out = files + len(parts) - len(texts)
    return message["role"], "\n\n".join(texts), left_out, message.get("timestamp"), message.get("model")


def _parley(document: JSON) -> Iterator[Turn]:
    if document["version"] != EXPORT_VERSION:
        raise _TooLarge("It is of another version of Parley's export. Use the Parley that made it.")
    return _turns(PARLEY, (_parley_said(one) for one in document["messages"]))


def _parley_said(message: JSON) -> tuple[str, str, int, Any, Any]:
    texts = [one["text"] for one in message["parts"] if isinstance(one.get("text"), str)]
    left_out = len(message["parts"]) - len(texts)
    return message["role"], "\n\n".join(texts), left_out, message["timestamp"], message["metadata"].get("agent")
