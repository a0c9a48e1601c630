"""A session as one Markdown text: who said what and when, what was delivered, and what was left unfinished."""

from __future__ import annotations

import json
import re
import uuid
from collections import defaultdict
from collections.abc import Iterator

from django.utils import timezone

from apps.record import lineage
from apps.record.content.parts import is_file, media_type_of, pieces_joined, size_of
from apps.record.events import JSON
from apps.record.models import Artifact, Context, Message
from apps.record.reading import unfinished
from apps.record.reading.lookup import Authors, authors_of, edit_histories
from parley.registry import added

TIME_FORMAT = "%Y-%m-%d %H:%M"
UNITS = ("B", "kB", "MB", "GB")
SIGNED = {
    "good": " · signature valid",
    "broken": " · **SIGNATURE INVALID**",
    "unknown key": " · signed by an unknown key",
    "pending": " · signed, not verified yet",
}
MARKDOWN_CHARACTERS = re.compile(r"([\\`*_\[\]<>#|])")


def markdown_of(context: Context) -> str:
    """The whole session in a few queries, however long it is; times are in the active time zone."""
    said = list(lineage.messages(context).order_by("index"))
    authors = authors_of(context, said)
    made: dict[uuid.UUID | None, list[Artifact]] = defaultdict(list)
    artifacts = unfinished.with_delivered(context)
    delivered = [one.task_id for one in artifacts if one.until is None]
    verdicts = {where: one for find in added["signature_verdicts"] for where, one in find(delivered).items()}
    for artifact in artifacts:
        made[artifact.task_id].append(artifact)
    last_of_task = {one.task_id: one.index for one in said}
    last_of_task |= {one.task_id: one.index for one in said if one.role == Message.Role.AGENT}
    edited = edit_histories(context)
    blocks = [f"# {_escape(str(context))}"]
    for one in said:
        mark = " · edited" if edited.get(one.message_id) else ""
        blocks += [_heading(one, authors) + mark, *_part_blocks(one.parts)]
        if last_of_task.get(one.task_id) == one.index:
            blocks += [
                block
                for artifact in made[one.task_id]
                if not _repeats_message(artifact, one)
                for block in _artifact_blocks(artifact, verdicts.get((artifact.task_id, artifact.artifact_id), ""))
            ]
    return "\n\n".join(blocks) + "\n"


def _heading(said: Message, authors: Authors) -> str:
    who = authors.name(said, "You") or "Agent"
    return f"## {_escape(who)} · {timezone.localtime(said.created_at).strftime(TIME_FORMAT)}"


def _part_blocks(parts: list[JSON]) -> Iterator[str]:
    for part in parts:
        if is_file(part):
            yield f"- File: {_file_details(part)}"
        elif "text" in part:
            yield part["text"].strip()
        else:
            yield f"```json\n{json.dumps(part['data'], ensure_ascii=False, indent=2)}\n```"


def _artifact_blocks(artifact: Artifact, verdict: str) -> Iterator[str]:
    """A line, with the verdict on a remote agent's signature, and the text of an unfinished artifact."""
    held = pieces_joined(artifact.parts)
    described = ", ".join(_file_details({"filename": "", **part}) for part in held)
    word = "Made" if artifact.until is None else "Unfinished"
    yield f"- {word}: {_escape(artifact.name or artifact.artifact_id)} ({described}){SIGNED.get(verdict, '')}"
    for part in held if artifact.until is not None else ():
        if text := part.get("text", "").strip():
            yield _fenced(text)


def _fenced(text: str) -> str:
    longest = max((len(found) for found in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _file_details(part: JSON) -> str:
    about = part["url"] if "url" in part else f"{media_type_of(part)}, {_readable_size(size_of(part) or 0)}"
    return f"{_escape(part['filename'])} ({about})" if part.get("filename") else about


def _readable_size(size: int) -> str:
    amount, unit = float(size), 0
    while amount >= 1000 and unit < len(UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{amount:.0f} {UNITS[unit]}" if amount >= 10 or not unit else f"{amount:.1f} {UNITS[unit]}"


def _repeats_message(artifact: Artifact, said: Message) -> bool:
    words = [part.get("text") for part in pieces_joined(artifact.parts)]
    return bool(words) and words == [part.get("text") for part in said.parts]


def _escape(name: str) -> str:
    return MARKDOWN_CHARACTERS.sub(r"\\\1", " ".join(name.split()))
