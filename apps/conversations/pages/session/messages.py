"""Messages and their parts as safe HTML."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from apps.record import lineage
from apps.record.content import rendering
from apps.record.content.parts import media_type_of, size_of, words_of
from apps.record.content.rendering import NOWHERE, Surroundings
from apps.record.events import JSON, EventType
from apps.record.models import Context, Event, Message
from apps.routing.suggestions import Suggestion
from apps.web.first_steps import model_form_url
from apps.web.templatetags.parley import avatar, icon

MOST_CHIPS = 8  # below an answer; the panel lists all
LONGEST_UNFOLDED = 6000  # characters; longer messages are folded
CODE_BLOCK = re.compile(r"<pre\b.*?</pre>", re.DOTALL)
CODE_LANGUAGE = re.compile(r'<pre[^>]*><code class="language-([^"]{1,40})')
LONGEST_CODE = 25  # lines; longer code is folded
CODE_BUTTONS = (
    '<button type="button" class="quiet small wrap-code" aria-pressed="false">Wrap</button>'
    '<button type="button" class="quiet small copy-code">Copy</button>'
)
SHOW_ALL_BUTTON = SafeString('<button type="button" class="quiet small show-all">Show all</button>')
SAVED_NOTE = SafeString(
    '<div class="after"><span class="muted">Saved. The agent has not answered it.</span>'
    '<button type="button" class="small" data-run>Run</button></div>'
)
SUGGESTION = (
    '<li><button type="button" class="quiet" data-begin="{}">{}<span class="what">'
    '<span class="words" dir="auto">{}</span><span class="more">{}</span></span></button></li>'
)
CONNECT_LINK = '<p class="connect-model"><a class="button primary" href="{}">Connect a language model</a></p>'
"""Only operators see it, while there is none (`messages.css`)."""
MOST_VERSIONS = 20  # in a message's history
EXTERNAL_LINK, DOWNLOAD_LINK = SafeString('target="_blank" rel="noopener noreferrer nofollow"'), SafeString("download")
NOTHING = SafeString("")


def message_html(shown: Sequence[JSON]) -> SafeString:
    """Parts (`shown_part`): words and values, then files."""
    words = _joined(_part_html(part) for part in shown if part["kind"] != "file")
    return prose_html(words) + _chip_row(_file_chip(part) for part in shown if part["kind"] == "file")


def prose_html(words: SafeString) -> SafeString:
    return format_html('<div class="prose" dir="auto">{}</div>', words) if words else NOTHING


def with_code_tools(html: str) -> SafeString:
    """Safe HTML, with a language and buttons above each block of code. Long code is folded."""
    return SafeString(CODE_BLOCK.sub(_with_tools, html))


def _with_tools(block: re.Match[str]) -> str:
    language, lines = CODE_LANGUAGE.match(block[0]), block[0].count("\n")
    label = f'<span class="language">{language[1] if language else ""}</span>'
    head = f'<div class="code-head">{label}{CODE_BUTTONS}</div>'
    if lines <= LONGEST_CODE:
        return f'<div class="code">{head}{block[0]}</div>'
    unfold = f'<button type="button" class="quiet small unfold-code">Show all {lines} lines</button>'
    return f'<div class="code is-folded">{head}{block[0]}{unfold}</div>'


def artifact_chips(artifacts: Sequence[JSON]) -> SafeString:
    """A task's artifacts (`artifacts.shown_artifacts`) below its answer, except those that the conversation shows."""
    worth = [one for one in artifacts if one["kind"] == "file"]
    chips = [_artifact_chip(one, one["chip"]) for one in worth[:MOST_CHIPS]]
    if more := worth[MOST_CHIPS:]:
        chips.append(_artifact_chip(more[0], f"{len(more)} more"))
    return _chip_row(chips)


def suggestions_html(suggested: Sequence[Suggestion], *, lacks_model: bool) -> SafeString:
    """Buttons below an answer, each of which begins a session, and for operators the way to a language model."""
    tries = _joined(
        format_html(
            SUGGESTION,
            reverse("web:begin", args=[one.agent.slug]),
            avatar(one.agent),
            one.words,
            one.agent.name,
        )
        for one in suggested
    )
    shown = format_html('<ul class="plain tries" aria-label="Suggestions">{}</ul>', tries) if tries else NOTHING
    if lacks_model:
        shown += format_html(CONNECT_LINK, model_form_url())
    return shown


def own_message_footer(text: str, about: Mapping[uuid.UUID, str], earlier: Sequence[str] = ()) -> SafeString:
    """The line below a person's message.

    `about`: opening texts of the tasks it refers to, by id. `earlier`: the texts that it replaced, oldest first.
    """
    refers = _chip_row(_task_chip(task, words) for task, words in about.items())
    return refers + (SHOW_ALL_BUTTON if len(text) > LONGEST_UNFOLDED else NOTHING) + _edit_history(earlier)


def _edit_history(earlier: Sequence[str]) -> SafeString:
    if not earlier:
        return NOTHING
    versions = _joined(
        format_html('<li><div class="prose" dir="auto"><p class="verbatim">{}</p></div></li>', _beginning(text))
        for text in earlier[-MOST_VERSIONS:]
    )
    summary = format_html("Edited <span>· {} earlier version{}</span>", len(earlier), "" if len(earlier) == 1 else "s")
    return format_html('<details class="edited"><summary>{}</summary><ol>{}</ol></details>', summary, versions)


def _beginning(text: str) -> str:
    return text if len(text) <= LONGEST_UNFOLDED else text[:LONGEST_UNFOLDED] + "…"


def saved_note(payload: JSON) -> SafeString:
    """For a message that was saved without sending it to an agent."""
    return SAVED_NOTE if payload.get("saved") else NOTHING


def opening_texts(context: Context, events: Iterable[Event]) -> dict[uuid.UUID, str]:
    """The first message to each task that events refer to."""
    named = {task for event in events for task in referenced_tasks(event)}
    if not named:
        return {}
    said = lineage.messages(context).filter(role=Message.Role.USER, task__in=named).order_by("-index")
    return {task: words_of(parts) for task, parts in said.values_list("task", "parts") if task}


def referenced_tasks(event: Event) -> list[uuid.UUID]:
    message: JSON = event.payload["message"] if event.type == EventType.USER_MESSAGE else {}
    return task_ids(message.get("referenceTaskIds", []))


def task_ids(references: Iterable[str]) -> list[uuid.UUID]:
    keys = []
    for one in references:
        with suppress(ValueError):
            keys.append(uuid.UUID(one))
    return keys


def _part_html(part: JSON) -> SafeString:
    if part["kind"] == "text":
        return SafeString(part["html"])
    match part["values"]:
        case [only]:
            return format_html('<p class="verbatim">{}</p>', only["value"])
        case values:
            pairs = ((one["name"], one["value"]) for one in values)
            return format_html('<dl class="values">{}</dl>', format_html_join("", "<dt>{}</dt><dd>{}</dd>", pairs))


def _file_chip(part: JSON) -> SafeString:
    inside = chip_content(part["name"], part["mediaType"], part["size"])
    if not part["href"]:
        return format_html('<span class="chip">{}</span>', inside)
    away = EXTERNAL_LINK if part.get("elsewhere") else DOWNLOAD_LINK
    return format_html('<a class="chip" href="{}" {}>{}</a>', part["href"], away, inside)


def chip_content(name: str, media_type: str, size: int | None, sign: str = "") -> SafeString:
    """The content of a file's chip: icon (`sign` is HTML; by default the type's), name and size (bytes)."""
    sign = sign or icon("picture" if media_type.startswith("image/") else "file")
    said = "" if size is None else size_text(size)
    return format_html('{}<span class="name">{}</span><span class="size">{}</span>', sign, name or "File", said)


def _artifact_chip(artifact: JSON, inside: str) -> SafeString:
    key = f"{artifact['taskId']}/{artifact['artifactId']}"
    return format_html('<button type="button" class="chip" data-artifact="{}">{}</button>', key, inside)


def _task_chip(task: uuid.UUID, words: str) -> SafeString:
    name = words or "An earlier task"
    inside = format_html('{}<span class="name" dir="auto">{}</span>', icon("refer"), name)
    return format_html('<a class="chip" href="{}">{}</a>', reverse("web:task", args=[task]), inside)


def _chip_row(chips: Iterable[SafeString]) -> SafeString:
    inside = _joined(chips)
    return format_html('<div class="chips">{}</div>', inside) if inside else NOTHING


def _joined(pieces: Iterable[SafeString]) -> SafeString:
    return format_html_join("", "{}", ((piece,) for piece in pieces))


def shown_part(
    part: JSON,
    href: str,
    *,
    marked_up: bool,
    labels: Mapping[str, str] = MappingProxyType({}),
    around: Surroundings = NOWHERE,
) -> JSON:
    """One part for the page.

    `href` is its content's URL, `marked_up` renders Markdown, `labels` are a form's field labels.
    """
    if "text" in part and not part.get("filename"):
        text = str(part["text"])
        return {
            "kind": "text",
            "text": text,
            "html": with_code_tools(rendering.render_markdown(text, around))
            if marked_up
            else rendering.render_plain(text),
        }
    if "data" in part and not part.get("filename"):
        return {"kind": "data", "values": _values(part["data"], labels)}
    return shown_file(part, href)


def shown_file(part: JSON, href: str) -> JSON:
    """A part as a file. `size` is in bytes, None for a link; the URL is empty for a link that is not HTTP."""
    file = {"kind": "file", "name": part.get("filename", ""), "mediaType": media_type_of(part), "size": size_of(part)}
    if "url" not in part:
        return {**file, "href": href}
    return {**file, "href": part["url"] if part["url"].startswith(("https://", "http://")) else "", "elsewhere": True}


def _values(data: Any, labels: Mapping[str, str]) -> list[JSON]:
    if isinstance(data, dict) and all(_is_plain(value) for value in data.values()):
        names = dict.fromkeys([*(name for name in labels if name in data), *data])
        return [{"name": labels.get(name, name), "value": _value_text(data[name])} for name in names]
    name = next(iter(labels.values())) if len(labels) == 1 else ""
    return [{"name": name, "value": _value_text(data) if _is_plain(data) else rendering.json_text(data)}]


def _is_plain(value: object) -> bool:
    plain = (str, int, float, bool)
    return isinstance(value, plain) or (isinstance(value, list) and all(isinstance(one, plain) for one in value))


def _value_text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_value_text, value)) or "None"
    return {True: "Yes", False: "No"}[value] if isinstance(value, bool) else str(value)


def size_text(size: int) -> str:
    """As in `format.js`."""
    if size < 1000:
        return f"{size} B"
    if size < 1_000_000:
        return f"{size / 1e3:.{1 if size < 10_000 else 0}f} kB"
    return f"{size / 1e6:.1f} MB"
