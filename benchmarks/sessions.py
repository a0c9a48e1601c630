"""The demo user's sessions in a throwaway database: `python -m benchmarks.sessions COUNT EVENTS [TURN]`.

Makes COUNT short sessions without the ledger, and one of EVENTS events: streamed answers, or with a TURN of 2
messages only. Prints the long one's key.
"""

from __future__ import annotations

import datetime
import os
import sys
import uuid
from collections.abc import Iterator

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "parley.settings")
django.setup()

from django.utils import timezone  # noqa: E402  (needs Django's apps, as do those below)

from apps.accounts.models import User  # noqa: E402
from apps.agents.models import Agent  # noqa: E402
from apps.record.events import EventType  # noqa: E402
from apps.record.models import Context, Event, Message  # noqa: E402
from examples.showcase import DEMO  # noqa: E402

TURN = 50  # events from one message of the person to the next
WORDS = "Some words of an answer, about as many as a stream brings at once. "


def make(count: int, events: int, turn: int = TURN) -> uuid.UUID:
    owner, agent = User.objects.get(email=DEMO), Agent.objects.get(slug="echo")
    workspace = owner.membership.workspace
    began = timezone.now() - datetime.timedelta(days=3)
    lengths = [*[1] * count, events]
    contexts = []
    for number, length in enumerate(lengths):
        key, at = uuid.uuid4(), began + datetime.timedelta(seconds=number)
        about = {"owner": owner, "workspace": workspace, "agent": agent, "title": f"Session {number}"}
        contexts.append(Context(pk=key, context_id=str(key), last_event=length, created_at=at, updated_at=at, **about))
    Context.objects.bulk_create(contexts)
    log = [event for context in contexts for event in lines(context, turn)]
    Event.objects.bulk_create(log, batch_size=2000)
    Message.objects.bulk_create([said(event) for event in log if "message" in event.payload], batch_size=2000)
    return contexts[-1].pk


def lines(context: Context, turn: int) -> Iterator[Event]:
    for index in range(1, context.last_event + 1):
        kind, payload = line(context, index, turn)
        yield Event(context=context, index=index, type=kind, payload=payload, at=context.created_at)


def line(context: Context, index: int, turn: int) -> tuple[EventType, dict[str, object]]:
    place = index % turn
    role = "ROLE_USER" if place == 1 else "ROLE_AGENT"
    message = {"messageId": f"{context.pk} {index}", "role": role, "parts": [{"text": WORDS}]}
    if place == 1:
        opens = {
            "contextId": context.context_id, "owner": context.owner_id, "workspace": context.workspace_id,
            "agent": context.agent_id, "title": context.title,
        }  # fmt: skip
        return EventType.USER_MESSAGE, {"message": message, **({"opens": opens} if index == 1 else {})}
    if place == 0:
        return EventType.AGENT_MESSAGE, {"message": message, "agent": context.agent_id}
    return EventType.AGENT_TOKEN, {"artifactId": "answer", "name": "answer", "text": WORDS}


def said(event: Event) -> Message:
    message = event.payload["message"]
    is_users = event.type == EventType.USER_MESSAGE
    return Message(
        context_id=event.context_id,
        index=event.index,
        role=Message.Role.USER if is_users else Message.Role.AGENT,
        agent_id=event.payload.get("agent"),
        message_id=message["messageId"],
        parts=message["parts"],
        created_at=event.at,
    )


if __name__ == "__main__":
    print(make(*map(int, sys.argv[1:])))
