"""Messages as a conversation page shows them: words, values, files and what they are about, as HTML that is safe."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from apps.record import lineage
from apps.record.events import EventType
from apps.record.models import Context, Event, Message
from apps.record.parts import words_of
from apps.web.listed import size_of
from apps.web.templatetags.parley import icon

JSON = dict[str, Any]

CHIPS = 8  # files that are named below an answer; all of them are in the panel
LONGEST = 6000  # characters of one's own message beyond which it is folded
CODE = re.compile(r"<pre\b.*?</pre>", re.DOTALL)
COPY = '<button type="button" class="quiet small copy-code">Copy</button>'
SHOW_ALL = SafeString('<button type="button" class="quiet small show-all">Show all</button>')
ELSEWHERE, DOWNLOAD = SafeString('target="_blank" rel="noopener noreferrer nofollow"'), SafeString("download")
NOTHING = SafeString("")


def said(shown: Sequence[JSON]) -> SafeString:
    """The parts of a message (`parts.shown`): its words and values, and its files below."""
    words = _joined(_words(part) for part in shown if part["kind"] != "file")
    return prose(words) + _row(_file(part) for part in shown if part["kind"] == "file")


def prose(words: SafeString) -> SafeString:
    """Words at their place in a message, whichever way they are written."""
    return format_html('<div class="prose" dir="auto">{}</div>', words) if words else NOTHING


def with_copies(html: str) -> SafeString:
    """Safe HTML in which each piece of code can be copied (`session/code.js` does it)."""
    return SafeString(CODE.sub(rf'<div class="code">\g<0>{COPY}</div>', html))


def deliveries(artifacts: Sequence[JSON], text: str) -> SafeString:
    """A task's artifacts (`deliveries.delivered_artifact`) below its answer, whose words are not said twice."""
    worth = [one for one in artifacts if not one["words"] or one["words"].strip() != text.strip()]
    chips = [_delivery(one, one["chip"]) for one in worth[:CHIPS]]
    if more := worth[CHIPS:]:
        chips.append(_delivery(more[0], f"{len(more)} more"))
    return _row(chips)


def own(text: str, about: Mapping[uuid.UUID, str]) -> SafeString:
    """What a message of the person's own has below its words. `about`: how the tasks began that it refers to, by id."""
    refers = _row(_reference(task, words) for task, words in about.items())
    return refers + (SHOW_ALL if len(text) > LONGEST else NOTHING)


def openings(context: Context, events: Iterable[Event]) -> dict[uuid.UUID, str]:
    """What was said first to the tasks that these events' messages refer to, by task. No query where none does."""
    named = {task for event in events for task in references_of(event)}
    if not named:
        return {}
    said = lineage.messages(context).filter(role=Message.Role.USER, task__in=named).order_by("-index")
    return {task: words_of(parts) for task, parts in said.values_list("task", "parts") if task}


def references_of(event: Event) -> list[uuid.UUID]:
    """The tasks that a message of the person's own refers to."""
    message: JSON = event.payload["message"] if event.type == EventType.USER_MESSAGE else {}
    return ids_of(message.get("referenceTaskIds", []))


def ids_of(references: Iterable[str]) -> list[uuid.UUID]:
    """The ids of tasks that a message refers to, which are as they were sent: not all need be ids."""
    keys = []
    for one in references:
        try:
            keys.append(uuid.UUID(one))
        except ValueError:
            continue
    return keys


def _words(part: JSON) -> SafeString:
    if part["kind"] == "text":
        return with_copies(part["html"])
    match part["values"]:
        case [only]:
            return format_html('<p class="verbatim">{}</p>', only["value"])
        case values:
            pairs = ((one["name"], one["value"]) for one in values)
            return format_html('<dl class="values">{}</dl>', format_html_join("", "<dt>{}</dt><dd>{}</dd>", pairs))


def _file(part: JSON) -> SafeString:
    inside = inside_chip(part["name"], part["mediaType"], part["size"])
    if not part["href"]:
        return format_html('<span class="chip">{}</span>', inside)
    away = ELSEWHERE if part.get("elsewhere") else DOWNLOAD
    return format_html('<a class="chip" href="{}" {}>{}</a>', part["href"], away, inside)


def inside_chip(name: str, media_type: str, size: int | None, sign: str = "") -> SafeString:
    """What a file's chip shows: a sign (HTML; that of its type, where none is given), its name and size (bytes)."""
    sign = sign or icon("picture" if media_type.startswith("image/") else "file")
    said = "" if size is None else size_of(size)
    return format_html('{}<span class="name">{}</span><span class="size">{}</span>', sign, name or "File", said)


def _delivery(artifact: JSON, inside: str) -> SafeString:
    key = f"{artifact['taskId']}/{artifact['artifactId']}"
    return format_html('<button type="button" class="chip" data-artifact="{}">{}</button>', key, inside)


def _reference(task: uuid.UUID, words: str) -> SafeString:
    name = words or "An earlier task"
    inside = format_html('{}<span class="name" dir="auto">{}</span>', icon("refer"), name)
    return format_html('<a class="chip" href="{}">{}</a>', reverse("web:task", args=[task]), inside)


def _row(chips: Iterable[SafeString]) -> SafeString:
    inside = _joined(chips)
    return format_html('<div class="chips">{}</div>', inside) if inside else NOTHING


def _joined(pieces: Iterable[SafeString]) -> SafeString:
    return format_html_join("", "{}", ((piece,) for piece in pieces))
