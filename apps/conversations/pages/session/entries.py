"""Events for a session page: entries with safe HTML, forms, and URLs instead of content.

An artifact comes again with the event that delivers it, or leaves it unfinished. `conversation` makes items of entries.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html

from agentkit.llm import mcp_apps
from agentkit.llm.approvals import visible
from agentkit.llm.models import SCRIPTED
from agentkit.outcomes import NO_ANSWER
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.conversations.pages import approvals
from apps.conversations.pages.artifacts import delivered_by, left_by
from apps.conversations.pages.session import messages
from apps.conversations.pages.session.pictures import surroundings_in
from apps.conversations.pages.session.texts import has_file_name, is_text
from apps.engine.claim import WORKER_KILLED
from apps.engine.finish import INTERRUPTED, WORKER_LOST
from apps.engine.turns import payments
from apps.model_agents.language_models import shows_apps
from apps.payments.paying import note_of
from apps.record import lineage, wire
from apps.record.content import parts, rendering, schema_forms
from apps.record.content.decisions import line_of
from apps.record.content.schema_forms import outline_of
from apps.record.events import JSON, EventType, imported_author
from apps.record.models import Context, Event, Message, TaskState
from apps.record.reading.lookup import author_names, edit_histories
from apps.routing.suggestions import NO_MODEL, SUGGESTIONS, Suggestion
from apps.web.templatetags.parley import HUES, avatar
from parley.faces.cells import money

LONGEST_BESIDE_HTML = 2000  # characters of an answer's Markdown, beside its HTML when a page opens
FORMAT = 15  # browsers drop cached items of other versions
LONGEST_VALUE = 2000  # characters
LOST_TURNS = {WORKER_LOST, WORKER_KILLED, INTERRUPTED}
"""The codes of turns that failed without an end of their own: what they had read waits again."""
LONGEST_SUGGESTION, MOST_SUGGESTIONS = 300, 6  # characters; below one answer


def entries_of(context: Context, events: Sequence[Event]) -> list[JSON]:
    """Entries of events, one for each."""
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
        entries.append(entry)
    return entries


@dataclass(frozen=True, slots=True)
class _Prefetched:
    """What entries show that is not in their events' payloads."""

    context: Context
    delivered: dict[uuid.UUID | None, list[JSON]]
    left: dict[int, list[JSON]]
    streamed: dict[int, tuple[int, datetime, str]]
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
        case EventType.AGENT_READ:
            entry["messages"] = payload["messages"]
        case EventType.GUARDRAIL:
            entry["text"] = line_of(payload)
        case EventType.AGENT_TOKEN_START | EventType.AGENT_TOKEN:
            entry |= {"artifactId": event.artifact_id, "text": payload.get("text", "")}
        case EventType.AGENT_TOKEN_END:
            entry |= {"artifactId": event.artifact_id, **_whole_text(prefetched, event)}
        case EventType.ARTIFACT_UPDATE:
            entry |= artifact_chunk(event)
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
            entry["isLost"] = payload.get("code") in LOST_TURNS
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


UNSHOWN = ("description", "isSigned", "chip", "look")  # fields of an artifact that a conversation has no use for


def _brief(artifacts: list[JSON]) -> list[JSON]:
    return [{name: value for name, value in artifact.items() if name not in UNSHOWN} for artifact in artifacts]


def _used(usage: JSON) -> JSON:
    """What language models used for an answer, in words, such as “1,250 tokens · 0.0042 USD”."""
    tokens = usage.get("inputTokens", 0) + usage.get("outputTokens", 0)
    if not tokens:
        return {}
    if (cost := usage.get("cost")) is None:
        return {"used": f"{tokens:,} tokens"}
    return {"used": f"{tokens:,} tokens · {money(cost)}"}


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
    if marked_up and len(said) == 1 and len(entry["text"]) > LONGEST_BESIDE_HTML:
        entry["textAt"] = reverse("web:message-file", args=[prefetched.context.pk, event.index, 0])
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
        status["decided"] = render_to_string("conversations/_decided.html", line)
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
        return status | {"form": render_to_string("conversations/_credential.html", wants)}
    slot = payload.get("slot")
    if payment := payments.price_in(slot, payload.get("message")):
        about = {"payment": payment, "note": note_of(event.task_id, event.index, slot)}
        return status | {"form": render_to_string("conversations/_payment.html", about)}
    if receipt := payments.receipt_in(payload):
        status["receipt"] = render_to_string("conversations/_payment.html", {"receipt": receipt})
    if card := approvals.card_of(event.context_id, event.task_id, event.index, slot, event.at):
        status["message"]["html"] = render_to_string("conversations/_call.html", card)
        status["form"] = render_to_string("conversations/_approval.html", card)
        return status
    fields, outline = schema_forms.fields_of(slot), outline_of(slot)
    if fields or outline:
        form = {"fields": fields, "outline": outline, "task": event.task_id, "asked": event.index}
        status["form"] = render_to_string("conversations/_question.html", form)
    return status


def wanted_credential(payload: JSON) -> JSON | None:
    """The credential that a status asks for, and the URL to give it; None if it asks for none."""
    if payload["state"] != TaskState.AUTH_REQUIRED or "service" not in payload.get("slot", {}):
        return None
    token = payload["message"]["metadata"]["url"].rpartition("/")[2]
    return {"service": payload["slot"]["service"], "href": reverse("web:credential", args=[token])}


def _whole_text(prefetched: _Prefetched, event: Event) -> JSON:
    begins, began, text = prefetched.streamed[event.index]
    around = surroundings_in(prefetched.context.pk, f"{event.index}-text", event.task_id)
    html = rendering.render_markdown(text, around)
    laid_out = messages.prose_html(messages.with_code_tools(html))
    return {"text": text, "html": laid_out, "begins": begins, "began": wire.timestamp(began)}


def artifact_chunk(event: Event) -> JSON:
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
    }


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


def streamed_by(events: Iterable[Event]) -> dict[int, tuple[int, datetime, str]]:
    """By the index of the last event of a stream, the index and time of the first, and the whole text."""
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
    streamed = {}
    for end in ends:
        own = [piece for piece in pieces[end.task_id, end.artifact_id] if piece.index <= end.index]
        text = "".join(piece.payload.get("text", "") for piece in own)
        streamed[end.index] = own[0].index, own[0].happened_at, text
    return streamed
