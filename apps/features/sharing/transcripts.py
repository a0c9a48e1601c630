"""A conversation as one text, in Markdown: who said what and when, and what was made, for people to keep elsewhere."""

from __future__ import annotations

import json
import re
import uuid
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from django.utils import timezone

from apps.agents.models import Agent
from apps.record import lineage
from apps.record.models import Artifact, Context, Message
from apps.record.parts import is_file, media_type_of, pieces_joined, size_of

JSON = dict[str, Any]

TIME = "%Y-%m-%d %H:%M"
UNITS = ("B", "kB", "MB", "GB")
MARKS = re.compile(r"([\\`*_\[\]<>#|])")


def markdown_of(context: Context) -> str:
    """The whole conversation. Three queries, however long it is; times are in the active time zone."""
    said = list(lineage.messages(context).order_by("index"))
    agents = dict(Agent.objects.filter(pk__in={one.agent_id for one in said}).values_list("pk", "name"))
    made: dict[uuid.UUID | None, list[Artifact]] = defaultdict(list)
    for artifact in lineage.artifacts(context).order_by("first_event"):
        made[artifact.task_id].append(artifact)
    last_of_task = {one.task_id: one.index for one in said if one.role == Message.Role.AGENT}
    blocks = [f"# {_plain(str(context))}"]
    for one in said:
        blocks += [_head(one, agents), *_parts(one.parts)]
        if last_of_task.get(one.task_id) == one.index:
            blocks += [_named(artifact) for artifact in made[one.task_id] if not _repeats(artifact, one)]
    return "\n\n".join(blocks) + "\n"


def _head(said: Message, agents: dict[int, str]) -> str:
    who = agents.get(said.agent_id, "Agent") if said.role == Message.Role.AGENT and said.agent_id else "You"
    return f"## {_plain(who)} · {timezone.localtime(said.created_at).strftime(TIME)}"


def _parts(parts: list[JSON]) -> Iterator[str]:
    for part in parts:
        if is_file(part):
            yield f"- File: {_described(part)}"
        elif "text" in part:
            yield part["text"].strip()
        else:
            yield f"```json\n{json.dumps(part['data'], ensure_ascii=False, indent=2)}\n```"


def _named(artifact: Artifact) -> str:
    described = ", ".join(_described({"filename": "", **part}) for part in pieces_joined(artifact.parts))
    return f"- Made: {_plain(artifact.name or artifact.artifact_id)} ({described})"


def _described(part: JSON) -> str:
    """A file's name, type and size; of one that is elsewhere its address."""
    about = part["url"] if "url" in part else f"{media_type_of(part)}, {_bytes(size_of(part) or 0)}"
    return f"{_plain(part['filename'])} ({about})" if part.get("filename") else about


def _bytes(size: int) -> str:
    amount, unit = float(size), 0
    while amount >= 1000 and unit < len(UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{amount:.0f} {UNITS[unit]}" if amount >= 10 or not unit else f"{amount:.1f} {UNITS[unit]}"


def _repeats(artifact: Artifact, said: Message) -> bool:
    """Is the artifact nothing but the words of the message?"""
    words = [part.get("text") for part in pieces_joined(artifact.parts)]
    return bool(words) and words == [part.get("text") for part in said.parts]


def _plain(name: str) -> str:
    """A name in one line, of which nothing counts as Markdown."""
    return MARKS.sub(r"\\\1", " ".join(name.split()))
