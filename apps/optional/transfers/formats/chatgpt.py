"""ChatGPT's export: a tree of messages for each conversation, with canvas documents and marks of citations."""

from __future__ import annotations

import json
from typing import Any

from apps.optional.transfers.formats.citations import resolved
from apps.optional.transfers.formats.documents import WHOLE, Document, Documents, literal_of, replaced
from apps.optional.transfers.formats.shape import BROKEN, SPOKEN_ROLES, Context, Said, Skip, Tree
from apps.optional.transfers.package import FILE_ID
from apps.record.events import JSON

CANVAS = "canmore."  # of the recipient of what a model writes into a canvas


def is_one(document: JSON) -> bool:
    return "mapping" in document


def read(document: JSON, about: Context) -> Tree:
    nodes: dict[str, JSON] = document["mapping"]
    documents = Documents(about)

    def said(key: str) -> Said | None:
        documents.begin(key, nodes[key].get("parent"))
        message = nodes[key].get("message")
        return _said(message, documents, about) if message else None

    newest = document.get("current_node") or _last_leaf(nodes)
    return Tree(nodes, newest, lambda key: nodes[key].get("parent"), said, document.get("create_time"))


def _last_leaf(nodes: dict[str, JSON]) -> Any:
    return next((key for key in reversed(nodes) if not nodes[key].get("children")), None)


def _said(message: JSON, canvas: Documents, about: Context) -> Said | None:
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
    recipient = message.get("recipient") or "all"
    if recipient.startswith(CANVAS) and role == "assistant":
        return _canvas(message, recipient, canvas, about)
    if role == "tool" and str(message["author"].get("name")).startswith(CANVAS):
        return None  # it only confirms
    makes_images = role == "tool" and kind == "multimodal_text" and any(map(_pointer_of, parts))
    is_spoken = role in SPOKEN_ROLES and kind in ("text", "multimodal_text", "code")
    if recipient != "all" or not (is_spoken or makes_images):
        about.skipped[Skip.TOOLS] += 1
        return None
    said = Said("assistant" if makes_images else role, [], message.get("create_time"), metadata.get("model_slug"))
    named = {one["id"]: one for one in metadata.get("attachments") or []}
    for part in parts if "parts" in content else [content["text"]]:
        _add_part(said, part, named, about, is_text=not makes_images)
    for key, one in named.items():  # files that are no images
        said.attach(about.attachment(key, one.get("name"), one.get("mimeType") or one.get("mime_type")))
    if said.role == "assistant":
        said.texts = resolved(said.texts, metadata)
    return said


def _add_part(said: Said, part: Any, named: dict[str, JSON], about: Context, *, is_text: bool) -> None:
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


def _canvas(message: JSON, recipient: str, canvas: Documents, about: Context) -> Said | None:
    """The version of a document that the model writes, as a message with this file."""
    said = Said("assistant", [], message.get("create_time"), (message.get("metadata") or {}).get("model_slug"))
    content = message["content"]
    try:
        asked = json.loads(content.get("text") or "".join(content.get("parts") or []))
        key = next(reversed(canvas.open), "")
        match recipient.removeprefix(CANVAS):
            case "create_textdoc":
                kind = str(asked.get("type", "document")).removeprefix("code/")
                kind = "markdown" if kind == "document" else kind
                document = Document(str(asked["name"]), kind, str(asked["content"]))
                canvas.save(f"{len(canvas.open)}", document, said)
            case "update_textdoc" if key:
                canvas.save(key, _updated(canvas.open[key], asked["updates"]), said)
            case _:  # comments
                about.skipped[Skip.TOOLS] += 1
    except (*BROKEN, RecursionError):
        about.skipped[Skip.EDITS] += 1
    return said if said.attachments else None


def _updated(document: Document, updates: list[JSON]) -> Document:
    """Raises ValueError if an update's place is not found."""
    for one in updates:
        pattern, new, everywhere = one["pattern"], one["replacement"], bool(one.get("multiple"))
        if WHOLE.fullmatch(pattern):
            document = Document(document.name, document.kind, new)
            continue
        old = literal_of(pattern)
        changed = replaced(document, old, new, everywhere=everywhere) if old else None
        if changed is None:
            raise ValueError(pattern)
        document = changed
    return document
