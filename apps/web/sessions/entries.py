"""Events for a session page: entries with safe HTML, forms, and URLs instead of content.

Consecutive chunks of an artifact are one entry, with the last index. The artifact comes again with the event that
delivers it, or leaves it unfinished.
"""

from __future__ import annotations

import uuid
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html

from agentkit.llm import mcp_apps
from agentkit.llm.approvals import visible
from agentkit.llm.models import SCRIPTED
from agentkit.outcomes import NO_ANSWER
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine import payments
from apps.features.model_agents.language_models import shows_apps
from apps.features.payments.paying import note_of
from apps.features.routing.suggestions import NO_MODEL, SUGGESTIONS, Suggestion
from apps.record import lineage, wire
from apps.record.content import parts, rendering, schema_forms
from apps.record.content.schema_forms import outline_of
from apps.record.events import JSON, EventType, imported_author
from apps.record.lookup import author_names, edit_histories
from apps.record.models import Artifact, Context, Event, Message, TaskState
from apps.web import approvals
from apps.web.sessions import messages
from apps.web.sessions.artifacts import delivered_by, left_by
from apps.web.sessions.pictures import surroundings_in
from apps.web.sessions.texts import has_file_name, is_text
from apps.web.templatetags.parley import HUES, avatar

PIECES = (EventType.ARTIFACT_UPDATE, EventType.AGENT_TOKEN_START, EventType.AGENT_TOKEN)
LONGEST_BESIDE_HTML = 2000  # characters of an answer's Markdown, beside its HTML when a page opens
FORMAT = 12  # browsers drop cached entries of other versions
LONGEST_SO_FAR = 20_000  # characters of a file in progress: the newest
LONGEST_VALUE = 2000  # characters
LONGEST_SUGGESTION, MOST_SUGGESTIONS = 300, 6  # characters; below one answer


def entries_of(context: Context, events: Sequence[Event], *, is_merged: bool = True) -> list[JSON]:
    """Entries of consecutive events; one for each event unless `is_merged`."""
    openings = messages.opening_texts(context, events)
    delivered, left = delivered_by(context, events), left_by(context, events)
    has_own = any(event.type == EventType.USER_MESSAGE for event in events)
    histories = edit_histories(context) if has_own else {}
    suggested = suggested_by(context, events)
    prefetched = _Prefetched(context, delivered, left, streamed_by(events), openings, histories, suggested)
    authors, writers = authors_of(context, events), writers_of(context, events)
    entries: list[JSON] = []
    for event in events:
        entry = _entry(prefetched, event)
        if author := authors.get(event.index):
            entry["agent"] = author
        if writer := writers.get(event.index):
            entry["by"] = writer
        if not (is_merged and entries and _merge(entries[-1], entry)):
            entries.append(entry)
    return entries


def entries_between(context: Context, after: int, before: int) -> list[JSON]:
    """Entries of the events between. What is in progress is one entry, at the index of its first piece."""
    begun = _in_progress(context, after, before)
    log = lineage.events(context, after, before - 1)
    events = log.filter(~Q(type__in=PIECES) | Q(index__in=begun.keys())) if begun else log.exclude(type__in=PIECES)
    found = list(events)
    entries = entries_of(context, found, is_merged=False)
    for entry in entries:
        if entry["index"] in begun:
            entry |= begun[entry["index"]]
    _say_once(context, entries, found)
    return entries


def _say_once(context: Context, entries: list[JSON], events: list[Event]) -> None:
    """Leave out streamed texts that an answer repeats, and the Markdown of long answers, whose HTML says the same.

    The answer then names the stream that it `repeats`, and `textAt`: the address of its Markdown.
    """
    streams: dict[tuple[str, str], JSON] = {}
    for entry, event in zip(entries, events, strict=True):
        if event.type == EventType.AGENT_TOKEN_END:
            streams[entry["taskId"], entry["text"].strip()] = entry
        elif event.type in SPOKEN_EVENTS and (message := entry.get("message")):
            if stream := streams.pop((entry["taskId"], message["text"].strip()), None):
                message["repeats"] = stream["artifactId"]
                stream |= {"text": "", "html": ""}
            if len(message["text"]) > LONGEST_BESIDE_HTML and len(event.payload["message"]["parts"]) == 1:
                message["text"] = ""
                message["textAt"] = reverse("web:message-file", args=[context.pk, event.index, 0])


def _in_progress(context: Context, after: int, before: int) -> dict[int, JSON]:
    """Texts and sizes of what is being made, by the index of its first piece between. At most two queries."""
    provisional = Artifact.objects.filter(task__context=context, state=Artifact.State.PROVISIONAL)
    begun = {(task, own): first for task, own, first in provisional.values_list("task", "artifact_id", "first_event")}
    if not begun:
        return {}
    tasks, ids = {task for task, _ in begun}, {own for _, own in begun}
    pieces = Event.objects.filter(task__in=tasks, artifact_id__in=ids, index__gt=after, index__lt=before)
    found: dict[tuple[uuid.UUID | None, str], _InProgress] = {}
    for piece in pieces.order_by("index").iterator():
        key = piece.task_id, piece.artifact_id
        if key in begun and piece.index >= begun[key]:
            found.setdefault(key, _InProgress(piece)).add(piece)
    return {one.first.index: one.entry for one in found.values()}


class _InProgress:
    """An artifact that is being made, or the streamed text of an answer."""

    def __init__(self, first: Event) -> None:
        self.first, self.size, self.chunks = first, 0, 0
        self.texts: deque[str] = deque()
        self.length = 0  # of the texts

    def add(self, piece: Event) -> None:
        is_chunk = piece.type == EventType.ARTIFACT_UPDATE
        chunk = _artifact_chunk(piece) if is_chunk else {"text": piece.payload.get("text", ""), "size": 0}
        self.size, self.chunks = self.size + chunk["size"], self.chunks + 1
        self.texts.append(chunk["text"])
        self.length += len(chunk["text"])
        while is_chunk and self.length - len(self.texts[0]) >= LONGEST_SO_FAR:
            self.length -= len(self.texts.popleft())

    @property
    def entry(self) -> JSON:
        is_artifact = self.first.type == EventType.ARTIFACT_UPDATE
        return {"text": "".join(self.texts), **({"size": self.size, "chunks": self.chunks} if is_artifact else {})}


@dataclass(frozen=True, slots=True)
class _Prefetched:
    """What entries show that is not in their events' payloads."""

    context: Context
    delivered: dict[uuid.UUID | None, list[JSON]]
    left: dict[int, list[JSON]]
    streamed: dict[int, str]
    openings: dict[uuid.UUID, str]
    histories: dict[str, list[Message]]
    suggested: dict[int, list[Suggestion]]


def _entry(prefetched: _Prefetched, event: Event) -> JSON:
    entry: JSON = {
        "index": event.index,
        "type": event.type,
        "at": wire.timestamp(event.happened_at),
        "taskId": str(event.task_id) if event.task_id else None,
    }
    payload = event.payload
    match event.type:
        case EventType.USER_MESSAGE:
            entry |= {"message": _own_message(prefetched, event), "opensTask": "task" in payload}
        case EventType.AGENT_MESSAGE:
            entry["message"] = _answer(prefetched, event)
        case EventType.AGENT_STATUS:
            entry |= _status(prefetched, event)
        case EventType.AGENT_START:
            entry |= {name: payload[name] for name in ("attempt", "turn", "messageId", "again") if name in payload}
        case EventType.AGENT_TOKEN_START | EventType.AGENT_TOKEN:
            entry |= {"artifactId": event.artifact_id, "text": payload.get("text", "")}
        case EventType.AGENT_TOKEN_END:
            entry |= {"artifactId": event.artifact_id, **_whole_text(prefetched, event)}
        case EventType.ARTIFACT_UPDATE:
            entry |= _artifact_chunk(event)
        case EventType.AGENT_THOUGHT:
            entry["text"] = payload["text"]
        case EventType.AGENT_TOOL_CALL:
            entry |= {"callId": payload["callId"], "name": payload["name"], "value": _shortened(payload["arguments"])}
            if "ofApp" in payload:
                entry["ofApp"] = payload["ofApp"]
        case EventType.AGENT_TOOL_RESULT:
            entry |= {"callId": payload["callId"], "name": payload["name"], "value": _shortened(payload["result"])}
            entry["isError"] = payload["isError"]
            if "app" in payload and shows_apps(payload["app"]["server"]):
                entry["app"] = _app(prefetched.context, event)
        case EventType.AGENT_COMPLETE:
            entry["artifacts"] = _brief(prefetched.delivered[event.task_id])
            entry |= _used(payload.get("usage", {}))
        case EventType.AGENT_FAILED | EventType.AGENT_CANCELLED:
            entry |= {"artifacts": _brief(prefetched.left.get(event.index, [])), "discarded": payload["discarded"]}
        case EventType.AGENT_SWITCHED if payload.get("kept"):
            entry["isKept"] = True
        case EventType.FEEDBACK:
            entry["rating"] = payload["rating"]
        case EventType.FORK:
            entry |= {"left": payload["left"], "leftAt": _left_at(prefetched.context, event)}
            entry["artifacts"] = _brief(prefetched.left.get(event.index, []))
        case EventType.SESSION_RENAMED:
            entry["title"] = payload["title"]
        case EventType.SESSION_SHARED:
            entry["sharing"] = payload["sharing"]
    return entry


def _app(context: Context, event: Event) -> JSON:
    name, app = event.payload["name"], event.payload["app"]
    title, host = visible(schema_forms.label_of(name, {})), mcp_apps.host_of(app["server"])
    named = {"name": name, "title": title, "server": host}
    if "problem" in app:
        return named | {"problem": visible(app["problem"])}
    address = reverse("web:app", args=[context.pk, event.index])
    return named | {"address": address, "isBare": not app["ui"]["prefersBorder"]}


ARTIFACT_FIELDS = ("taskId", "artifactId", "name", "parts", "kind", "html", "text", "about", "isListed", "isUnfinished")


def _brief(artifacts: list[JSON]) -> list[JSON]:
    return [{name: artifact[name] for name in ARTIFACT_FIELDS} for artifact in artifacts]


def _used(usage: JSON) -> JSON:
    """What language models used for an answer, in words, such as “1,250 tokens · 0.0042 USD”."""
    tokens = usage.get("inputTokens", 0) + usage.get("outputTokens", 0)
    if not tokens:
        return {}
    if (cost := usage.get("cost")) is None:
        return {"used": f"{tokens:,} tokens"}
    amount = f"{cost:,.2f}" if cost >= 1 else f"{cost:.6f}".rstrip("0").rstrip(".")  # never as 1e-05
    return {"used": f"{tokens:,} tokens · {amount} {settings.CURRENCY}"}


def _message(prefetched: _Prefetched, event: Event, *, marked_up: bool = True, without_last: bool = False) -> JSON:
    """`without_last`: the page shows the last part separately."""
    message = event.payload["message"]
    said = message["parts"][:-1] if without_last else message["parts"]
    said = [approvals.decision_in_words(part) for part in said] if event.type == EventType.USER_MESSAGE else said
    labels = _labels(event) if any("data" in part for part in said) else {}
    names = ((prefetched.context.pk, event.index, number) for number in range(len(said)))
    shown = [
        messages.shown_part(
            part,
            reverse("web:message-file", args=name),
            marked_up=marked_up,
            labels=labels,
            around=surroundings_in(prefetched.context.pk, f"{name[1]}-{name[2]}", event.task_id),
        )
        for part, name in zip(said, names, strict=True)
    ]
    files = sum(part["kind"] == "file" for part in shown)
    entry = {"messageId": message["messageId"], "text": parts.words_of(said), "html": messages.message_html(shown)}
    return {**entry, "files": files} if files else entry


def _answer(prefetched: _Prefetched, event: Event) -> JSON:
    message = _message(prefetched, event)
    return {**message, "html": message["html"] + _suggestions(prefetched, event)}


def _suggestions(prefetched: _Prefetched, event: Event) -> str:
    lacks_model = event.payload["message"].get("metadata", {}).get(NO_MODEL) is True
    return messages.suggestions_html(prefetched.suggested.get(event.index, []), lacks_model=lacks_model)


def suggested_by(context: Context, events: Sequence[Event]) -> dict[int, list[Suggestion]]:
    """By index, the suggestions of answers, of agents that the owner may use. At most one query."""
    told = {event.index: told for event in events if _speaks(event) and (told := _told_suggestions(event))}
    if not told:
        return {}
    usable = Agent.objects.visible_to(Principal(context.owner_id, context.workspace_id))
    agents = {agent.slug: agent for agent in usable.filter(slug__in={slug for one in told.values() for slug, _ in one})}
    return {
        index: [Suggestion(agents[slug], words) for slug, words in one if slug in agents] for index, one in told.items()
    }


def _told_suggestions(event: Event) -> list[tuple[str, str]]:
    """Slugs and words. They are an agent's data."""
    told = event.payload["message"].get("metadata", {}).get(SUGGESTIONS)
    found = []
    for one in told if isinstance(told, list) else []:
        match one:
            case {"agent": str(slug), "text": str(words)} if words.strip():
                found.append((slug, words[:LONGEST_SUGGESTION]))
    return found[:MOST_SUGGESTIONS]


def _own_message(prefetched: _Prefetched, event: Event) -> JSON:
    message = _message(prefetched, event, marked_up=False)
    about = {task: prefetched.openings.get(task, "") for task in messages.referenced_tasks(event)}
    earlier = prefetched.histories.get(message["messageId"], ())
    footer = messages.own_message_footer(message["text"], about, [parts.words_of(one.parts) for one in earlier])
    return {**message, "html": message["html"] + footer + messages.saved_note(event.payload)}


def _left_at(context: Context, fork: Event) -> str:
    goes_on_from = lineage.events(context, fork.index - 2, fork.index - 1).first()
    return wire.timestamp((goes_on_from or fork).happened_at)


def _labels(event: Event) -> dict[str, str]:
    before = Event.objects.filter(task=event.task_id, type=EventType.AGENT_STATUS, index__lt=event.index)
    asked = before.order_by("-index").first() if event.task_id else None
    return {field.name: field.label for field in schema_forms.fields_of(asked.payload.get("slot") if asked else None)}


def _status(prefetched: _Prefetched, event: Event) -> JSON:
    payload = event.payload
    status: JSON = {"state": payload["state"]}
    if "progress" in payload:
        return status | {"progress": {"text": parts.words_of(payload["message"]["parts"]), **payload["progress"]}}
    if "approval" in payload:
        line = approvals.decided(payload["approval"]) | {"at": wire.timestamp(event.at)}
        status["decided"] = render_to_string("web/_decided.html", line)
    wants = wanted_credential(payload)
    if "message" in payload:
        message = status["message"] = _message(prefetched, event, without_last=wants is not None)
        if payload["state"] == TaskState.COMPLETED:
            message["html"] += messages.artifact_chips(prefetched.delivered[event.task_id])
            message["html"] += _suggestions(prefetched, event)
    elif payload["state"] == TaskState.COMPLETED:
        made = prefetched.delivered[event.task_id]
        said = [] if made else [messages.shown_part({"text": NO_ANSWER}, "", marked_up=False)]
        html = messages.message_html(said) + messages.artifact_chips(made)
        status["message"] = {"messageId": "", "text": "" if made else NO_ANSWER, "html": html}
    if wants is not None:
        return status | {"wantsCredential": True, "form": render_to_string("web/_credential.html", wants)}
    slot = payload.get("slot")
    if payment := payments.price_in(slot, payload.get("message")):
        about = {"payment": payment, "note": note_of(event.task_id, event.index, slot)}
        return status | {"form": render_to_string("web/_payment.html", about)}
    if receipt := payments.receipt_in(payload):
        status["receipt"] = render_to_string("web/_payment.html", {"receipt": receipt})
    if card := approvals.card_of(event.context_id, event.task_id, event.index, slot, event.at):
        status["message"]["html"] = render_to_string("web/_call.html", card)
        status["form"] = render_to_string("web/_approval.html", card)
        return status
    fields, outline = schema_forms.fields_of(slot), outline_of(slot)
    if fields or outline:
        form = {"fields": fields, "outline": outline, "task": event.task_id, "asked": event.index}
        status["form"] = render_to_string("web/_question.html", form)
    return status


def wanted_credential(payload: JSON) -> JSON | None:
    """The credential that a status asks for, and the URL to give it; None if it asks for none."""
    if payload["state"] != TaskState.AUTH_REQUIRED or "service" not in payload.get("slot", {}):
        return None
    token = payload["message"]["metadata"]["url"].rpartition("/")[2]
    return {"service": payload["slot"]["service"], "href": reverse("web:credential", args=[token])}


def _whole_text(prefetched: _Prefetched, event: Event) -> JSON:
    text = prefetched.streamed[event.index]
    around = surroundings_in(prefetched.context.pk, f"{event.index}-text", event.task_id)
    html = rendering.render_markdown(text, around)
    return {"text": text, "html": messages.prose_html(messages.with_code_tools(html))}


def _artifact_chunk(event: Event) -> JSON:
    artifact = event.payload["artifact"]
    first: JSON = artifact["parts"][0] if artifact["parts"] else {}
    return {
        "artifactId": event.artifact_id,
        "name": artifact.get("name", ""),
        "isText": "text" in first and is_text(parts.media_type_of(first)),
        "hasName": has_file_name(artifact.get("name", ""), artifact["parts"]),
        "begins": not event.payload["append"],
        "text": parts.words_of(artifact["parts"]),
        "size": sum(parts.size_of(part) or 0 for part in artifact["parts"]),
        "chunks": 1,
    }


def _merge(last: JSON, entry: JSON) -> bool:
    if (last["taskId"], last.get("artifactId")) != (entry["taskId"], entry.get("artifactId")):
        return False
    if last["type"] == entry["type"] == EventType.ARTIFACT_UPDATE and not entry["begins"]:
        last |= {name: last[name] + entry[name] for name in ("text", "size", "chunks")}
    elif entry["type"] == EventType.AGENT_TOKEN and last["type"] in (
        EventType.AGENT_TOKEN,
        EventType.AGENT_TOKEN_START,
    ):
        last["text"] += entry["text"]
    else:
        return False
    last["index"] = entry["index"]
    return True


def _shortened(value: Any) -> str:
    text = value if isinstance(value, str) else rendering.json_text(value)
    return text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + "…"


LONGEST_MODEL = 80  # characters
SCRIPT = "script"
"""How people read that no language model wrote an answer."""
SPOKEN_EVENTS = (EventType.AGENT_MESSAGE, EventType.AGENT_STATUS)


def agent_label(agent: Agent, models: str = "") -> JSON:
    """An agent's label at its messages: `mark` is HTML, with the models that wrote them."""
    by = format_html('<span class="model">{}</span>', models) if models else ""
    mark = format_html('{}<span class="who">{}</span>{}', avatar(agent), agent.name, by)
    return {"name": agent.name, "slug": agent.slug, "mark": mark}


def authors_of(context: Context, events: Sequence[Event]) -> dict[int, JSON]:
    """By index, the agents that events name. At most one query; two for old logs without names."""
    keys = {event.index: key for event in events if (key := _agent_key(event)) is not None}
    if unnamed := [event.index for event in events if event.index not in keys and _speaks(event)]:
        rows = lineage.messages(context).filter(index__in=unnamed, agent__isnull=False)
        keys |= dict(rows.values_list("index", "agent"))
    agents = Agent.objects.in_bulk(set(keys.values())) if keys else {}
    spoken = (event for event in events if _speaks(event) and "imported" in event.payload)
    imported = {event.index: _imported_label(event) for event in spoken}
    return imported | {
        event.index: agent_label(agents[keys[event.index]], _models(event)) for event in events if event.index in keys
    }


def person_label(key: int, name: str) -> JSON:
    """A person's label at their messages: `mark` is HTML. Pages show their reader as “You”."""
    mark = format_html(
        '<span class="avatar hue-{}" aria-hidden="true">{}</span><span class="who">{}</span>',
        key % HUES,
        name[:1].upper(),
        name,
    )
    return {"id": key, "name": name, "mark": mark}


def writers_of(context: Context, events: Sequence[Event]) -> dict[int, JSON]:
    """By index, who wrote the messages, if not the owner alone. At most one query; two in a fork."""
    keys = {
        event.index: event.payload.get("by", context.owner_id)
        for event in events
        if event.type == EventType.USER_MESSAGE
    }
    if keys and context.forked_at is not None and min(keys) <= context.forked_at:  # perhaps another person's session
        rows = lineage.messages(context).filter(index__in=keys.keys())
        keys = dict(rows.values_list("index", "author"))
    names = author_names(context, keys.values())
    return {index: person_label(key, names[key]) for index, key in keys.items() if key in names}


def _imported_label(event: Event) -> JSON:
    """The label of an agent of another program."""
    name = imported_author(event.payload["imported"])[:LONGEST_MODEL]
    return {"name": name, "slug": "", "mark": format_html('<span class="who">{}</span>', name)}


def _models(event: Event) -> str:
    said: JSON = event.payload.get("message", {}).get("metadata", {}) if event.type in SPOKEN_EVENTS else {}
    models = said.get("models")
    names = [name for name in models if isinstance(name, str)] if isinstance(models, list) else []
    names = list(dict.fromkeys(SCRIPT if name.partition(":")[0] == SCRIPTED else name for name in names))
    return ", ".join(names)[:LONGEST_MODEL]


def _agent_key(event: Event) -> int | None:
    payload: JSON = event.payload
    opened: JSON = payload.get("task") or {}
    key = opened.get("agent") if event.type == EventType.USER_MESSAGE else payload.get("agent")
    return key if isinstance(key, int) else None


def _speaks(event: Event) -> bool:
    return event.type in SPOKEN_EVENTS and "message" in event.payload and "progress" not in event.payload


def streamed_by(events: Iterable[Event]) -> dict[int, str]:
    """Complete streamed texts, by the index of the last event."""
    ends = [event for event in events if event.type == EventType.AGENT_TOKEN_END]
    if not ends:
        return {}
    pieces_of = Event.objects.filter(
        task__in={end.task_id for end in ends},
        artifact_id__in={end.artifact_id for end in ends},
        index__lte=max(end.index for end in ends),
    )
    pieces: defaultdict[tuple[uuid.UUID | None, str], list[Event]] = defaultdict(list)
    for piece in pieces_of.order_by("index"):
        pieces[piece.task_id, piece.artifact_id].append(piece)
    return {
        end.index: "".join(
            piece.payload.get("text", "") for piece in pieces[end.task_id, end.artifact_id] if piece.index <= end.index
        )
        for end in ends
    }
