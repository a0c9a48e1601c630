"""Messages as OpenAI's API takes them: an array, an object with them, or lines for fine-tuning."""

from __future__ import annotations

from typing import Any

from apps.optional.transfers.formats.shape import Context, Said, Skip, Tree, tree_of_list
from apps.record.events import JSON


def is_one(document: JSON) -> bool:
    return _are_messages(document.get("messages"))


def split(document: Any) -> list[Any] | None:
    return [{"messages": document}] if _are_messages(document) else None


def _are_messages(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) and "role" in one for one in value)


def read(document: JSON, about: Context) -> Tree:
    return tree_of_list(document["messages"], lambda one: said_of(one, about), document.get("created_at"))


def said_of(message: JSON, about: Context) -> Said | None:
    if message["role"] in ("tool", "function") or message.get("tool_calls"):
        about.skipped[Skip.TOOLS] += 1
    if message["role"] not in ("user", "assistant"):
        about.skipped[Skip.HIDDEN] += message["role"] in ("system", "developer")
        return None
    said = Said(message["role"], [], message.get("created_at"), message.get("model"))
    content: Any = message.get("content") or ""
    parts: list[JSON] = content if isinstance(content, list) else [{"text": content}]
    for part in parts:
        url = (part.get("image_url") or {}).get("url")
        if isinstance(part.get("text"), str):
            said.texts.append(part["text"])
        elif url:
            said.attach(about.attachment(url))
        else:
            said.left_out += 1
    return said
