"""What crossed the A2A border for a task, as JSON: the request, the task, its events; and the request as a command."""

from __future__ import annotations

import json
import shlex
import uuid
from collections.abc import Callable

from apps.agents import cards
from apps.record import wire
from apps.record.events import JSON
from apps.record.models import Event, Message, Task
from apps.record.prose import json_text

MOST_EVENTS = 1000  # of one document
MOST_CHARACTERS = 4_000_000  # of the events of one document
END = "REQUEST"  # no line of JSON is that


def request_of(task: Task) -> JSON | None:
    """The message that opened the task, as it was accepted; None where nobody sent one."""
    first = _first_message(task)
    return wire.message(first, task.context) if first else None


def task_of(task: Task) -> JSON:
    """The answer to GetTask."""
    return wire.load_task(task)


def events_of(task: Task) -> list[JSON]:
    """What a stream of the task brought, from its beginning, as far as a document goes."""
    told, length = [], 0
    for event in Event.objects.filter(task=task).order_by("index")[:MOST_EVENTS].iterator(chunk_size=100):
        said = wire.stream_response(event, task.context)
        if said is None:
            continue
        length += len(json.dumps(said))
        if length > MOST_CHARACTERS:
            break
        told.append(said)
    return told


def curl_of(task: Task) -> str:
    """A command that sends the same again, as a new message, with a placeholder for the key.

    Its JSON stands in a here-document, whose quoted end lets the shell change nothing.
    """
    first = _first_message(task)
    if first is None:
        return ""
    # The platform named the task; and the session too, where this message was the first of it.
    dropped = {"taskId", *(("contextId",) if first.index == 1 else ())}
    said = {name: value for name, value in wire.message(first, task.context).items() if name not in dropped}
    params = {"message": {**said, "messageId": str(uuid.uuid4())}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    headers = ("Authorization: Bearer YOUR-KEY", "A2A-Version: 1.0", "Content-Type: application/json")
    lines = [f"curl -s {shlex.quote(cards.endpoint(task.agent))}", *(f"  -H {shlex.quote(one)}" for one in headers)]
    command = " \\\n".join([*lines, f"  --data-binary @- <<'{END}'"])
    return f"{command}\n{json_text(request)}\n{END}\n"


def _first_message(task: Task) -> Message | None:
    return Message.objects.filter(task=task, role=Message.Role.USER).order_by("index").first()


DOCUMENTS: dict[str, tuple[str, Callable[[Task], JSON | list[JSON] | str | None]]] = {
    "request": ("The request, as it was accepted", request_of),
    "task": ("The task, as GetTask answers", task_of),
    "events": (f"The events, as a stream brings them (at most {MOST_EVENTS:,})", events_of),
    "curl": ("The request as a curl command", curl_of),
}
"""What each document is called, and who writes it."""


def written(task: Task, name: str) -> str:
    """A document as text."""
    document = DOCUMENTS[name][1](task)
    return document if isinstance(document, str) else json_text(document)
