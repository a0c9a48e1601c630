"""Beginning a conversation in which nothing is said yet."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from django.db import IntegrityError

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.features.sessions.switching import check_open, read_options
from apps.record import ledger
from apps.record.cold import restored
from apps.record.errors import ContextNotFound, InvalidParams
from apps.record.events import JSON, EventType, Opening
from apps.record.models import Context, Event

OF_KEYS = uuid.UUID("8f0b6f0e-4c0f-5f6c-9a53-0a4f6f1d7f5e")


@dataclass(frozen=True, slots=True)
class Begun:
    """A conversation, and whether it was there already."""

    context: Context
    repeated: bool = False


def begin(
    principal: Principal,
    agent: Agent,
    *,
    title: str = "",
    context_id: str = "",
    options: JSON | None = None,
    key: str = "",
) -> Begun:
    """A conversation of a known caller with an agent; the same `key` of the caller's gives the same one again.

    Without a title it gets that of its first message; without a `context_id` (A2A's) it gets its own key.
    Raises UnsupportedOperation for an agent that the caller may not use, ContextNotFound where it was deleted since,
    and InvalidParams for options that the agent does not take, a `context_id` that is in use, or a key that was used
    for another conversation; then nothing was recorded.
    """
    check_open(principal, agent)
    opens: Opening = {
        "contextId": context_id,
        "owner": principal.user_id,
        "workspace": principal.workspace_id or agent.workspace_id,
        "agent": agent.pk,
        "title": title,
    }
    if read := read_options(agent, options or {}):
        opens["options"] = read
    session = uuid.uuid5(OF_KEYS, f"{principal.sender} {key}") if key else uuid.uuid4()
    if key and (earlier := _earlier(session, opens)):
        return earlier
    try:
        with ledger.writing(Context(pk=session)) as log:
            log.add(EventType.SESSION_RENAMED, {"title": title, "opens": log.opening(opens)})
    except IntegrityError:  # the same key came at this very moment, or the contextId is in use
        if earlier := _earlier(session, opens):
            return earlier
        raise InvalidParams("This contextId is in use. Choose another, or none.", "contextId") from None
    return Begun(log.context)


def _earlier(session: uuid.UUID, opens: Opening) -> Begun | None:
    """What was begun with the same key."""
    context = Context.objects.select_related("agent").filter(pk=session).first()
    if context is None:
        return None
    if context.deleted_at is not None:
        raise ContextNotFound
    restored(context)
    begun = Event.objects.get(context=context, index=1).payload["opens"]
    if begun != {**opens, "contextId": opens["contextId"] or str(session)}:
        raise InvalidParams("This key was used for another session. Use a new key.", "Idempotency-Key")
    return Begun(context, repeated=True)
