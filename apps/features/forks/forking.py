"""Forking a conversation: another one that goes on from an event of its log. Of its past nothing is copied.

Locks: the workspace before any context, so that what forks share is neither moved nor forked at the same time.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Literal

from django.db.models import Q

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine import canceling
from apps.record import ledger, lineage, notifications
from apps.record.cold import restored
from apps.record.errors import ContextNotFound, InvalidParams, UnsupportedOperation
from apps.record.events import JSON, EventType, Fork, Opening
from apps.record.lifecycle import UNFINISHED, TaskState
from apps.record.models import Context, Segment, Task
from apps.record.models.segments import ENDLESS
from db.transactions import transacting

Reason = Literal["fork", "edit", "retry", "agent"]
Running = Literal["finish", "cancel"]

AT_WORK = (TaskState.SUBMITTED, TaskState.WORKING)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a fork begins: after event `at` of `parent`, which goes on from there by lines of its own."""

    parent: Context
    at: int


def fork(
    principal: Principal,
    context: uuid.UUID | Context,
    at: int,
    *,
    reason: Reason,
    agent: Agent | None = None,
    key: str = "",
    running: Running = "finish",
    edited: str = "",
) -> Context:
    """A conversation that begins with the events up to `at` of the caller's; 0 is before its first.

    It is with `agent`, or with whom the conversation was with at that event. What had not ended there is canceled in
    the fork. Directly after a fork's own beginning it is the conversation before that which is forked, so that all
    that go on from the same place are siblings. `running` of "cancel" cancels what agents work at in the conversation
    itself; tasks that wait for an answer go on waiting. `edited` is the id of a message there that the fork has anew.
    The same `key` (the caller's own choice) gives the same fork again, whatever came of it.

    Raises ContextNotFound, InvalidParams for an index out of range or a key that was used for another fork, and
    UnsupportedOperation for an agent that the caller may not use, or a conversation in which agents work for other
    agents; then nothing was recorded.
    """
    found = _forkable(principal, context, agent)
    child = Context(pk=child_of(found, key) if key else uuid.uuid4())
    canceled: list[uuid.UUID] = []
    stopped: list[uuid.UUID] = []
    try:
        with transacting():
            lineage.hold_still(found.workspace_id)
            with ledger.writing(found.pk) as log:
                place = place_of(log.context, at)
                if key and (earlier := _earlier(child.pk, place, reason, agent)):
                    return earlier
                child.title = _title(log.context, at)
                child.memory = _memory_of(log.context) if at == log.context.last_event else {}
                _begin(child, place, reason, agent)
                if running == "cancel":
                    canceled = _at_work(log.context)
                    stopped = [run for task in canceled for run in canceling.record_cancel(log, task)]
                if edited:
                    log.add(EventType.EDIT, {"messageId": edited, "session": str(child.pk)})
    except Context.DoesNotExist:  # it was cleared just now
        raise ContextNotFound from None
    for run in stopped:
        notifications.stop(run)
    for task in canceled:
        canceling.cancel_children(task)
    return child


def child_of(context: Context, key: str) -> uuid.UUID:
    """The fork that is made of a context with a key, if it is made."""
    return uuid.uuid5(context.pk, key)


def made_of(context: Context, key: str) -> Context | None:
    """The fork that was made of a context with a key: who repeats a request says by it where that was."""
    return Context.objects.filter(pk=child_of(context, key)).first()


def _forkable(principal: Principal, context: uuid.UUID | Context, agent: Agent | None) -> Context:
    key = context if isinstance(context, uuid.UUID) else context.pk
    found = Context.objects.visible_to(principal).filter(pk=key).first()
    if found is None:
        raise ContextNotFound
    if found.parent_task is not None:
        raise UnsupportedOperation("Agents work here for another agent. Fork the conversation in which that was asked.")
    if agent is not None and not agent.is_open_to(principal):
        raise UnsupportedOperation("There is no such agent, or you may not use it. Choose another.")
    return found


def place_of(context: Context, at: int) -> Place:
    """From where all go on that are forked off after event `at` of a context. Raises InvalidParams."""
    if not 0 <= at <= context.last_event:
        raise InvalidParams(f"There is no event {at}. Choose one from 0 to {context.last_event}.", "at")
    if context.forked_at is None or at > context.forked_at + 1:
        return Place(context, at)
    at = min(at, context.forked_at)
    if context.forked_at == 0:
        before = Context.objects.filter(forks=context, deleted_at=None).first()
        return Place(before or context, at)
    source = lineage.stretches(context, max(at, 1))[-1].source
    return Place(context, at) if source == context.pk else place_of(Context.objects.get(pk=source), at)


def _earlier(key: uuid.UUID, place: Place, reason: Reason, agent: Agent | None) -> Context | None:
    """The fork that was made with the same key."""
    child = Context.objects.filter(pk=key).first()
    if child is None:
        return None
    if child.deleted_at is not None:
        raise InvalidParams("What was forked with this key was cleared. Use a new key.", "key")
    begun: Fork = lineage.forks(child)[-1].payload
    is_same = (begun["at"], begun["reason"]) == (place.at, reason)
    if not is_same or (agent is not None and begun["opens"]["agent"] != agent.pk):
        raise InvalidParams("This key was used for another fork. Use a new key.", "key")
    return child


def _title(context: Context, at: int) -> str:
    """What a fork is called: what the conversation is; without its first message not what that alone called it."""
    called = lineage.events(context).filter(type=EventType.SESSION_RENAMED).exclude(payload__title="")
    shares_some = lineage.messages(context).filter(index__lte=at).exists()
    return context.title if shares_some or called.exists() else ""


def _begin(child: Context, place: Place, reason: Reason, agent: Agent | None) -> None:
    """Open the fork, of which title and memory are given: its first event, and what it shares."""
    parent, at, memory = place.parent, place.at, child.memory
    child.last_event = at
    restored(parent)  # one of which nothing is shared may be in cold storage
    before, options = lineage.agent_at(parent, at)
    with ledger.writing(child) as log:
        opens: Opening = {
            "contextId": "",
            "owner": parent.owner_id,
            "workspace": parent.workspace_id,
            "agent": agent.pk if agent else before,
            "title": child.title,
        }
        if options and opens["agent"] == before:  # what one agent was set to means nothing to another
            opens["options"] = options
        left = [str(task) for task in _unended(parent, at)]
        begun: Fork = {"opens": log.opening(opens), "parent": str(parent.pk), "at": at, "reason": reason, "left": left}
        log.add(EventType.FORK, begun)
        log.remember(memory, ())
    own = lineage.Stretch(child.pk, at + 1, ENDLESS)
    Segment.objects.bulk_create(
        Segment(context=child, source_id=one.source, first=one.first, last=one.last)
        for one in (*lineage.stretches(parent, at), own)
    )


def _unended(context: Context, at: int) -> list[uuid.UUID]:
    """A context's own tasks that had not ended at an event; those of its past were left before."""
    unended = Q(state__in=UNFINISHED) | Q(status_event__gt=at)
    found = Task.objects.filter(unended, context=context, first_event__lte=at).order_by("first_event")
    return list(found.values_list("pk", flat=True))


def _at_work(context: Context) -> list[uuid.UUID]:
    found = Task.objects.filter(context=context, state__in=AT_WORK).order_by("first_event")
    return list(found.values_list("pk", flat=True))


def _memory_of(context: Context) -> JSON:
    memory: JSON = Context.objects.filter(pk=context.pk).values_list("memory", flat=True).get()
    return memory
