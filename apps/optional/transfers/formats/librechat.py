"""LibreChat's export of a conversation: messages in a list or within each other, with their branches."""

from __future__ import annotations

from typing import Any

from apps.optional.transfers.formats.citations import with_searches
from apps.optional.transfers.formats.shape import Context, Said, Skip, Tree
from apps.record.events import JSON


def is_one(document: JSON) -> bool:
    messages = document.get("messages")
    first = messages[0] if isinstance(messages, list) and messages else None
    return isinstance(first, dict) and ("isCreatedByUser" in first or "messageId" in first)


def read(document: JSON, about: Context) -> Tree:
    messages = {one["messageId"]: one for one in _flat(document["messages"])}
    newest = next(reversed(messages), None)

    def before(key: Any) -> Any:
        parent = messages[key].get("parentMessageId")
        return parent if parent in messages else None

    first = next(iter(messages.values()), {})
    return Tree(messages, newest, before, lambda key: _said(messages[key], about), first.get("createdAt"))


def _flat(messages: list[JSON]) -> list[JSON]:
    """Messages before what follows them; the newest last."""
    found, waiting = [], messages[::-1]
    while waiting:
        found.append(one := waiting.pop())
        waiting += (one.get("children") or [])[::-1]
    return found


def _said(message: JSON, about: Context) -> Said:
    is_user = message.get("isCreatedByUser", message.get("sender") == "User")
    model = None if is_user else message.get("model") or message.get("sender")
    said = Said("user" if is_user else "assistant", [], message.get("createdAt"), model)
    blocks = message.get("content")
    only: list[JSON] = [{"type": "text", "text": message.get("text")}]
    for block in blocks if isinstance(blocks, list) and blocks else only:
        text = block.get("text")
        match block.get("type"):
            case "text":
                said.texts.append(text.get("value", "") if isinstance(text, dict) else text or "")
            case "think":
                about.skipped[Skip.REASONING] += 1
            case "tool_call":
                about.skipped[Skip.TOOLS] += 1
            case "image_url":
                said.attach(about.attachment((block.get("image_url") or {}).get("url")))
            case "error":
                said.texts.append(str(block.get("error") or ""))
            case _:
                said.left_out += 1
    attached = [*(message.get("files") or []), *(message.get("attachments") or [])]
    searches = [one["web_search"] for one in attached if isinstance(one.get("web_search"), dict)]
    said.texts = said.texts if is_user else [with_searches(one, searches) for one in said.texts]
    for one in (one for one in attached if "web_search" not in one):
        said.attach(about.attachment(one.get("filepath") or one.get("file_id"), one.get("filename"), one.get("type")))
    return said
