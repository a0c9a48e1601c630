"""Which artifacts a conversation shows as text, and which the list of files leaves out.

A conversation shows up to MOST_TEXTS text artifacts of a task. A short text is open; a long one is a line that opens
the file. What is unfinished stays open. The list of files leaves out a text without a file name that the conversation
shows in full.
"""

from __future__ import annotations

import re
import uuid
from collections import Counter
from dataclasses import dataclass

from django.http import QueryDict
from django.utils.safestring import SafeString

from apps.conversations.pages.previews.files import BY_ENDING, File, preview_of
from apps.conversations.pages.session import messages
from apps.conversations.pages.session.pictures import surroundings_in
from apps.record.content import parts, rendering
from apps.record.content.rendering import NOWHERE, Surroundings
from apps.record.events import JSON
from apps.record.models import Artifact, TaskState

LONGEST_OPEN = 2_000  # characters
MOST_OPEN_LINES = 30
LONGEST_UNFINISHED = 20_000  # characters
MOST_TEXTS = 3  # of a task
DRAWN_TYPES = {"text/html", "text/csv", "text/tab-separated-values", "application/csv", "image/svg+xml"}
"""Texts that the panel shows as something else."""
FILE_NAME = re.compile(r".+\.[a-z][a-z0-9]{0,9}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Place:
    """Where people find an artifact.

    Attributes:
        kind: `said` by the answer, `answer` that was not finished, `text` in the conversation, or `file`.
        html: of a text that is open.
        text: of an answer that was not finished.
        is_listed: is it in the list of files?
    """

    kind: str
    html: str
    is_listed: bool
    text: str = ""


class Places:
    """The places of artifacts, given in order; with a `session` also what its conversation shows."""

    def __init__(self, session: uuid.UUID | None = None) -> None:
        self._session = session
        self._texts: Counter[uuid.UUID] = Counter()

    def place_of(self, row: Artifact, held: list[JSON]) -> Place:
        """`held` is the artifact's parts, with pieces joined. Reads `row.task`."""
        text = _text_of(held)
        has_name = has_file_name(row.name, held)
        is_whole = not row.is_cut and len(text) <= LONGEST_UNFINISHED
        if row.until is None and text.strip() and text.strip() == _answer_of(row):
            return Place("said", "", has_name)
        if row.is_answer:
            shown = text[:LONGEST_UNFINISHED]
            html = _laid_out(shown, self._around(row)) if self._session else ""
            return Place("answer", html, has_name or not is_whole, shown)
        if not text.strip() or not is_text(_media_type(held, row.name)) or self._texts[row.task_id] == MOST_TEXTS:
            return Place("file", "", is_listed=True)
        self._texts[row.task_id] += 1
        is_short = is_whole and len(text) <= LONGEST_OPEN and text.count("\n") <= MOST_OPEN_LINES
        is_open = self._session and (is_short or row.until is not None)
        html = _html_of(text[:LONGEST_UNFINISHED], held, row, self._around(row)) if is_open else ""
        return Place("text", html, has_name or not (is_short or (row.until is not None and is_whole)))

    def _around(self, row: Artifact) -> Surroundings:
        key = f"{row.task_id.hex}-{row.first_event}"
        return surroundings_in(self._session, key, row.task_id) if self._session else NOWHERE


def is_text(media_type: str) -> bool:
    """Can a conversation show this type as text?"""
    return bool(parts.TEXT_TYPES.fullmatch(media_type)) and media_type not in DRAWN_TYPES


def has_file_name(name: str, held: list[JSON]) -> bool:
    """Is the artifact's name, or a part's, that of a file?"""
    return bool(FILE_NAME.fullmatch(name)) or any(part.get("filename") for part in held)


def _text_of(held: list[JSON]) -> str:
    """The text of an artifact that is one text or value; otherwise ""."""
    if len(held) != 1:
        return ""
    [part] = held
    return rendering.json_text(part["data"]) if "data" in part else str(part.get("text", ""))


def _answer_of(row: Artifact) -> str:
    message: JSON = row.task.status_message or {}
    return parts.words_of(message.get("parts", [])).strip() if row.task.state == TaskState.COMPLETED else ""


def _media_type(held: list[JSON], name: str) -> str:
    """A plain text's type is that of its name's ending."""
    media_type = parts.media_type_of(held[0])
    ending = (held[0].get("filename") or name).rpartition(".")[2].lower()
    return BY_ENDING.get(f".{ending}", media_type) if media_type == "text/plain" else media_type


def _laid_out(markdown: str, around: Surroundings) -> str:
    return messages.prose_html(messages.with_code_tools(rendering.render_markdown(markdown, around)))


def _html_of(text: str, held: list[JSON], row: Artifact, around: Surroundings) -> str:
    media_type = _media_type(held, row.name)
    if media_type == "text/markdown":
        return _laid_out(text, around)
    if media_type == "text/plain" and not has_file_name(row.name, held):
        return messages.prose_html(SafeString(rendering.render_plain(text)))
    file = File({"text": text}, held[0].get("filename") or str(row), media_type, "")
    shown = str(preview_of(file, QueryDict("as=source")).content or "")
    return messages.prose_html(messages.with_code_tools(shown))
