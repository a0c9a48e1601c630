"""LobeChat's export: all messages in one list, which name their session and topic."""

from __future__ import annotations

from typing import Any

from apps.optional.transfers.formats.openai import said_of
from apps.optional.transfers.formats.shape import Context, Said, Skip, Tree, tree_of_list
from apps.record.events import JSON


def is_one(document: JSON) -> bool:
    return "lobechat" in document


def split(document: Any) -> list[Any] | None:
    """One conversation for each topic, and for what a session has outside of topics."""
    state = document.get("state") if isinstance(document, dict) else None
    if not isinstance(state, dict) or not isinstance(state.get("messages"), list):
        return None
    titles = {_key(one): one.get("title") for one in _objects(state.get("topics"))}
    titles |= {_key(one): (one.get("meta") or {}).get("title") for one in _objects(state.get("sessions"))}
    found: dict[tuple[Any, Any], list[JSON]] = {}
    for one in _objects(state["messages"]):
        found.setdefault((str(one.get("sessionId")), str(one.get("topicId") or "")), []).append(one)
    return [
        {"title": titles.get(topic) or titles.get(session), "lobechat": said}
        for (session, topic), said in found.items()
    ]


def _objects(value: Any) -> list[JSON]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _key(row: JSON) -> str:
    return str(row.get("id"))


def read(document: JSON, about: Context) -> Tree:
    return tree_of_list(document["lobechat"], lambda one: _said(one, about))


def _said(message: JSON, about: Context) -> Said | None:
    said = said_of(message, about)
    if said is not None:
        said.at = message.get("createdAt")
        about.skipped[Skip.REASONING] += bool(message.get("reasoning"))
        for one in message.get("files") or []:
            said.attach(about.attachment(one if isinstance(one, str) else one.get("url")))
    return said
