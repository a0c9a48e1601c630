"""LangChain's messages: a client's become parts of an A2A message, and what is recorded becomes messages."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from apps.doors.clients import json_or_text
from apps.doors.links import markdown_link
from apps.doors.parts import linked_part
from apps.doors.turns import ClientCall, End, File, Piece, Text, ToolCall, ToolResult
from apps.record import wire
from apps.record.content import blobs
from apps.record.content.parts import media_type_of
from apps.record.errors import InvalidParams
from apps.record.events import JSON
from apps.record.models import Message

KEPT = "langgraph"
"""The key of a message's metadata with what the client sent besides its words."""
ROLES = {"user": "human", "assistant": "ai", "function": "tool", "developer": "system", "AIMessageChunk": "ai"}
TEXTS, MEDIA = ("text", "input_text"), ("image", "file", "audio", "video", "text-plain", "input_file")
DATA_KEYS, TYPE_KEYS = ("data", "base64", "file_data", "text"), ("mime_type", "mimeType", "media_type")
NAME_KEYS = ("filename", "name", "title")
MAX_ID = 200  # characters


@dataclass(frozen=True, slots=True)
class Said:
    """What is new in a client's messages: those after the last of an assistant.

    Attributes:
        id: of the newest message of a person.
        results: of tools, by the ids of their calls.
        instructions: what the client says to models.
    """

    id: str
    parts: list[JSON]
    results: dict[str, Any]
    instructions: str


def read_messages(given: Any) -> Said:
    """A message, a text, or a list of them. Raises InvalidParams."""
    listed = [_object(one) for one in (given if isinstance(given, list) else [given])]
    newest = list(takewhile(lambda one: _kind(one) != "ai", reversed(listed)))[::-1]
    people = [one for one in newest if _kind(one) == "human"]
    results = {str(one.get("tool_call_id")): one for one in newest if _kind(one) == "tool"}
    prompts = [_words(one) for one in listed if _kind(one) == "system"]
    return Said(
        next((one["id"] for one in reversed(people) if isinstance(one.get("id"), str)), "")[:MAX_ID],
        [part for one in people for part in _parts(one)],
        {key: json_or_text(_words(one)) for key, one in results.items()},
        "\n\n".join(filter(None, prompts)),
    )


def _object(given: Any) -> JSON:
    message = {"type": "human", "content": given} if isinstance(given, str) else given
    if not isinstance(message, dict) or _kind(message) not in ("human", "ai", "tool", "system"):
        raise InvalidParams("Must be a text, or an object with a type and a content.", "input.messages")
    return message


def _kind(message: JSON) -> str:
    named = message.get("type") or message.get("role")
    return ROLES.get(named, named) if isinstance(named, str) else ""


def _words(message: JSON) -> str:
    return "\n".join(part["text"] for part in _parts(message) if isinstance(part.get("text"), str))


def _parts(message: JSON) -> Iterator[JSON]:
    content = message.get("content") or []
    for block in content if isinstance(content, list) else [content]:
        if not isinstance(block, str | dict):
            raise InvalidParams("Must be a text, or a list of texts and blocks.", "input.messages.content")
        part = {"text": block} if isinstance(block, str) else _part(block)
        if part.get("text") != "":
            yield part


def _part(block: JSON) -> JSON:
    """A block in the shapes of LangChain, of OpenAI and of Anthropic. Raises InvalidParams."""
    kind = block.get("type")
    if kind in TEXTS:
        return {"text": block.get("text")}
    if kind == "image_url":
        image = block.get("image_url")
        return linked_part(image.get("url") if isinstance(image, dict) else image, "image_url", _named(block))
    if kind not in MEDIA:
        raise InvalidParams(f"Content of the type {str(kind)[:40]} is not taken.", "input.messages.content.type")
    held = next((block[name] for name in ("source", "file") if isinstance(block.get(name), dict)), block)
    data, url = _first(held, DATA_KEYS), held.get("url") or held.get("file_url")
    if not data or data.startswith("data:"):
        return linked_part(data or url, "input.messages.content.url", _named(block) or _named(held))
    if held.get("source_type") == "text" or kind == "text-plain":
        return {"text": data}
    about = {"mediaType": _first(held, TYPE_KEYS), "filename": _named(block) or _named(held)}
    return {"raw": data, **{name: value for name, value in about.items() if value}}


def _named(block: JSON) -> str:
    metadata = block.get("metadata") or block.get("extras")
    return _first(metadata if isinstance(metadata, dict) else {}, NAME_KEYS) or _first(block, NAME_KEYS)


def _first(held: JSON, names: Sequence[str]) -> str:
    return next((held[name] for name in names if isinstance(held.get(name), str) and held[name]), "")


def human(row: Message) -> JSON:
    """A person's message as it was recorded. Files are named."""
    blocks = [_block(part if part.get("stored", {}).get("kind") == "raw" else blobs.inline(part)) for part in row.parts]
    texts = [one["text"] for one in blocks if one["type"] == "text"]
    kept = row.metadata.get(KEPT)
    key = kept.get("id") if isinstance(kept, dict) else None
    content = "\n".join(texts) if len(texts) == len(blocks) else blocks
    return _message("human", key or str(row.pk), content, name=None, example=False)


def _block(part: JSON) -> JSON:
    if "text" in part:
        return {"type": "text", "text": part["text"]}
    if "url" in part and media_type_of(part).startswith("image/"):
        return {"type": "image_url", "image_url": {"url": part["url"]}}
    if "data" in part:
        return {"type": "text", "text": wire.json_text(part["data"])}
    return {"type": "text", "text": f"[{part.get('filename') or part.get('url') or media_type_of(part)}]"}


def _message(kind: str, key: str, content: Any, **fields: Any) -> JSON:
    common = {"type": kind, "id": key, "content": content, "additional_kwargs": {}, "response_metadata": {}}
    return common | fields


@dataclass(frozen=True, slots=True)
class Change:
    """A message that grew by `chunk`, or that is whole."""

    message: JSON
    chunk: JSON | None = None
    is_whole: bool = False


@dataclass(slots=True)
class Answer:
    """The messages of a run, made of its pieces: the agent's, and the results of its tools."""

    run_id: str
    context: uuid.UUID
    messages: list[JSON] = field(default_factory=list)
    end: End | None = None
    _open: JSON | None = None

    def take(self, piece: Piece) -> Iterator[Change]:
        match piece:
            case Text(text):
                yield from self.say(text)
            case File():
                yield from self.say(markdown_link(piece, self.context))
            case ToolCall() | ClientCall():
                yield self._call(piece)
            case ToolResult():
                yield from self.close()
                yield self._result(piece)
            case End():
                self.end = piece
                yield from self.close(_usage(piece))

    def say(self, text: str) -> Iterator[Change]:
        if self._open is not None and self._open["tool_calls"]:
            yield from self.close()
        message = self._opened()
        message["content"] += text
        yield Change(message, _chunk(message, text))

    def close(self, usage: JSON | None = None) -> Iterator[Change]:
        """The last message is whole."""
        if (message := self._open) is None:
            return
        self._open, message["usage_metadata"] = None, usage
        yield Change(message, {**_chunk(message, ""), "usage_metadata": usage} if usage else None, is_whole=True)

    def _opened(self) -> JSON:
        if self._open is None:
            fields: JSON = {"name": None, "tool_calls": [], "invalid_tool_calls": [], "usage_metadata": None}
            self._open = _message("ai", f"{self.run_id}-{len(self.messages)}", "", **fields)
            self.messages.append(self._open)
        return self._open

    def _call(self, call: ToolCall | ClientCall) -> Change:
        message = self._opened()
        made = {"name": call.name, "args": call.arguments, "id": call.id, "type": "tool_call"}
        index = len(message["tool_calls"])
        message["tool_calls"].append(made)
        streamed = {**made, "args": wire.json_text(call.arguments), "index": index, "type": "tool_call_chunk"}
        return Change(message, {**_chunk(message, ""), "tool_calls": [made], "tool_call_chunks": [streamed]})

    def _result(self, result: ToolResult) -> Change:
        text = result.result if isinstance(result.result, str) else wire.json_text(result.result)
        about = {"name": result.name, "tool_call_id": result.id, "status": "error" if result.is_error else "success"}
        message = _message("tool", f"{self.run_id}-{result.id}", text, artifact=None, **about)
        self.messages.append(message)
        return Change(message, message, is_whole=True)


def _chunk(message: JSON, text: str) -> JSON:
    added: JSON = {"content": text, "tool_calls": [], "tool_call_chunks": [], "usage_metadata": None}
    return {**message, "type": "AIMessageChunk", **added}


def _usage(end: End) -> JSON | None:
    if not end.usage:
        return None
    read, written = end.usage.get("inputTokens", 0), end.usage.get("outputTokens", 0)
    return {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
