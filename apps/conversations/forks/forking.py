"""Forking a session: a new session continues from an event of its log. Nothing is copied.

The workspace is locked before any context, so that shared logs do not move in the meantime.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from itertools import count
from typing import Literal

from django.db.models import Q

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine import cancel
from apps.record import ledger, lineage
from apps.record.chain import newest_hash
from apps.record.errors import ContextNotFound, InvalidParams, KeyUsed, UnsupportedOperation
from apps.record.events import JSON, Edited, EventType, Fork, Opening
from apps.record.models import ENDLESS, MAX_TITLE, UNFINISHED_STATES, Context, Segment, Task, TaskState
from apps.record.reading import notifications
from apps.record.reading.lookup import check_may_use, check_may_write, find_session, restored
from parley.db.sql import write_transaction

Reason = Literal["fork", "edit", "retry", "agent"]
RunningPolicy = Literal["finish", "cancel"]

FORK_TITLE = re.compile(r"(Fork|Retry|Run|Edit)( \d+)?: ")
WORKING_STATES = (TaskState.SUBMITTED, TaskState.WORKING)


@dataclass(frozen=True, slots=True)
class ForkPoint:
    parent: Context
    at: int


def fork(
    principal: Principal,
    context: uuid.UUID | Context,
    at: int,
    *,
    reason: Reason,
    agent: Agent | None = None,
    options: JSON | None = None,
    key: str = "",
    running: RunningPolicy = "finish",
    edited_message: str = "",
    edited: Edited | None = None,
    title: str = "",
    dated: str = "",
) -> Context:
    """A session of the caller that begins with the events up to `at`; 0 is before the first event.

    In somebody else's shared session, nothing is canceled, and its log does not name the fork.

    The fork has `agent` with the checked `options`, or the session's agent at that event. Unfinished tasks are
    canceled in the fork. A fork that begins directly after another fork's beginning gets that fork's parent, so that
    the two are siblings. With `running="cancel"`, submitted and working tasks in the session itself are canceled.
    `edited_message` is the id of a message that the fork replaces, `edited` the history of the message that comes
    next. `title` replaces the usual title. `dated` is for an imported branch: when it began there. The caller chooses
    `key`; the same key gives the same fork again.

    Raises ContextNotFound, InvalidParams for an index out of range or a key that was used for another fork, and
    UnsupportedOperation for an agent that the caller may not use, or a child task's session; then nothing was recorded.
    """
    found = _forkable(principal, context, agent)
    is_own = found.owner_id == principal.user_id
    child = Context(pk=fork_id(found, _own_key(principal, found, key)) if key else uuid.uuid4())
    canceled: list[uuid.UUID] = []
    stopped: list[uuid.UUID] = []
    try:
        with write_transaction():
            lineage.lock_shared_logs(found.workspace_id)
            with ledger.writing(found.pk) as log:
                point = fork_point(log.context, at)
                if key and (earlier := _existing_fork(child.pk, point, reason, agent)):
                    return earlier
                child.title = title[:MAX_TITLE] or _title(log.context, point, at, agent)
                if _before_marks(log.context, at) == _before_marks(log.context, log.context.last_event):
                    child.memory = Context.objects.values_list("memory", flat=True).get(pk=found.pk)
                child.root = log.context.family_key if is_own else child.pk
                child.project, child.is_temporary = log.context.project, log.context.is_temporary
                if edited_message and is_own:  # before the fork, which is then the newest of its family
                    log.add(EventType.EDIT, {"messageId": edited_message, "session": str(child.pk)})
                elif is_own and not dated and point.parent.pk == log.context.pk:
                    log.add(EventType.SESSION_FORKED, {"session": str(child.pk), "at": point.at, "reason": reason})
                _create_fork(child, point, reason, agent, options, edited, principal, dated)
                if running == "cancel" and is_own:
                    working = Task.objects.filter(context=found.pk, state__in=WORKING_STATES).order_by("first_event")
                    canceled = list(working.values_list("pk", flat=True))
                    stopped = [run for task in canceled for run in cancel.record_cancel(log, task)]
    except Context.DoesNotExist:  # the context was deleted just now
        raise ContextNotFound from None
    for run in stopped:
        notifications.stop(run)
    for task in canceled:
        cancel.cancel_children(task)
    return child


def fork_id(context: Context, key: str) -> uuid.UUID:
    return uuid.uuid5(context.pk, key)


def find_fork(principal: Principal, context: Context, key: str) -> Context | None:
    return Context.objects.filter(pk=fork_id(context, _own_key(principal, context, key))).first()


def _own_key(principal: Principal, context: Context, key: str) -> str:
    """Two people who choose the same key in a shared session make two forks."""
    return key if context.owner_id == principal.user_id else f"{principal.sender} {key}"


def _forkable(principal: Principal, context: uuid.UUID | Context, agent: Agent | None) -> Context:
    key = context if isinstance(context, uuid.UUID) else context.pk
    found = find_session(principal, key, restore=False)
    check_may_write(principal, found)
    if found.parent_task is not None:
        raise UnsupportedOperation(
            "This session belongs to another agent's task. Fork the session that started the task."
        )
    if agent is not None:
        check_may_use(principal, agent)
    return found


def fork_point(context: Context, at: int) -> ForkPoint:
    """Where forks after event `at` of a context begin. Raises InvalidParams."""
    if not 0 <= at <= context.last_event:
        raise InvalidParams(f"There is no event {at}. Choose one from 0 to {context.last_event}.", "at")
    at = _before_marks(context, at)
    if context.forked_at is None or at > context.forked_at + 1:
        return ForkPoint(context, at)
    at = min(at, context.forked_at)
    if context.forked_at == 0:
        before = Context.objects.filter(forks=context, deleted_at=None).first()
        return ForkPoint(before or context, at)
    source = lineage.log_ranges(context, max(at, 1))[-1].source
    return ForkPoint(context, at) if source == context.pk else fork_point(Context.objects.get(pk=source), at)


def _before_marks(context: Context, at: int) -> int:
    """The newest event up to `at` that is no mark of a fork: forks from the same place are siblings. A query or two."""
    marks = lineage.events(context, at - 1, at).filter(type=EventType.SESSION_FORKED) if at else None
    if marks is None or not marks.exists():
        return at
    others = lineage.events(context, 0, at).exclude(type=EventType.SESSION_FORKED)
    return others.order_by("-index").values_list("index", flat=True).first() or 0


def _existing_fork(key: uuid.UUID, point: ForkPoint, reason: Reason, agent: Agent | None) -> Context | None:
    """The fork with the same key. Raises InvalidParams if that is a different fork."""
    child = Context.objects.filter(pk=key).first()
    if child is None:
        return None
    if child.deleted_at is not None:
        raise KeyUsed("The fork with this {} was deleted. Use a new {}.")
    payload: Fork = lineage.fork_events(child)[-1].payload
    is_same = (payload["at"], payload["reason"]) == (point.at, reason)
    if not is_same or (agent is not None and payload["opens"]["agent"] != agent.pk):
        raise KeyUsed("This {} was used for another fork. Use a new {}.")
    return child


def _title(context: Context, point: ForkPoint, at: int, agent: Agent | None) -> str:
    """A title until the fork's own first message gives it one; "" if nothing of the session's title is shared."""
    renamed = lineage.events(context).filter(type=EventType.SESSION_RENAMED).exclude(payload__title="")
    chosen = renamed.exclude(payload__has_key="by").exists()
    if not context.title or not (chosen or lineage.messages(context).filter(index__lte=at).exists()):
        return ""
    if agent is not None and agent.pk != context.agent_id:
        return numbered_title(point, agent.name, context.title)
    return numbered_title(point, "Fork", FORK_TITLE.sub("", context.title))


def numbered_title(point: ForkPoint, prefix: str, title: str) -> str:
    """`Fork: Title`; the next one of the same parent is `Fork 2: Title`."""
    siblings = Context.objects.filter(parent=point.parent, title__startswith=prefix).values_list("title", flat=True)
    taken = {one.partition(":")[0] for one in siblings}
    number = next(number for number in count(1) if (prefix if number == 1 else f"{prefix} {number}") not in taken)
    return f"{prefix}: {title}"[:MAX_TITLE] if number == 1 else f"{prefix} {number}: {title}"[:MAX_TITLE]


def _create_fork(
    child: Context,
    point: ForkPoint,
    reason: Reason,
    agent: Agent | None,
    chosen: JSON | None,
    edited: Edited | None,
    principal: Principal,
    dated: str,
) -> None:
    parent, at, memory, root, project = point.parent, point.at, child.memory, child.family_key, child.project
    is_temporary = child.is_temporary
    child.last_event = at
    restored(parent)
    child.head_hash = newest_hash(parent, at)
    before, options, number = lineage.agent_at(parent, at)
    with ledger.writing(child) as log:
        opens: Opening = {
            "contextId": "",
            "owner": principal.user_id,
            "workspace": parent.workspace_id,
            "agent": agent.pk if agent else before,
            "title": child.title,
        }
        is_with_same = opens["agent"] == before
        if options and is_with_same and chosen is None:
            chosen = options
        if is_with_same and number is not None:
            opens["version"] = number
        if chosen:
            opens["options"] = chosen
        if project is not None:
            opens["project"] = str(project)
        if is_temporary:
            opens["temporary"] = True
        left = [str(task) for task in _unfinished_tasks(parent, at)]
        payload: Fork = {
            "opens": log.opening(opens, None if is_with_same else agent),
            "parent": str(parent.pk),
            "at": at,
            "reason": reason,
            "left": left,
            "root": str(root),
        }
        if edited:
            payload["edited"] = edited
        if dated:
            payload["dated"] = dated
        log.add(EventType.FORK, payload)
        log.remember(memory, ())
    own = lineage.LogRange(child.pk, at + 1, ENDLESS)
    Segment.objects.bulk_create(
        Segment(context=child, source_id=one.source, first=one.first, last=one.last)
        for one in (*lineage.log_ranges(parent, at), own)
    )


def _unfinished_tasks(context: Context, at: int) -> list[uuid.UUID]:
    """A context's own tasks that had not ended at an event. Forks do not include unfinished tasks of the past."""
    unfinished_tasks = Q(state__in=UNFINISHED_STATES) | Q(status_event__gt=at)
    found = Task.objects.filter(unfinished_tasks, context=context, first_event__lte=at).order_by("first_event")
    return list(found.values_list("pk", flat=True))
