"""Finding tasks and contexts for a caller. A context in cold storage is restored first."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import connection, models

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.record import lineage
from apps.record.errors import ContextNotFound, InvalidParams, SessionUnreadable, TaskNotFound, UnsupportedOperation
from apps.record.events import JSON
from apps.record.hooks import hook
from apps.record.models import (
    INTERRUPTED_STATES,
    Accepted,
    Artifact,
    ColdKey,
    Context,
    ContextQuerySet,
    Message,
    Run,
    Shown,
    Task,
    TaskQuerySet,
    TaskState,
)
from apps.record.sql import TASK, WHOLE_TASK


@dataclass(slots=True)
class Target:
    """The existing context and task that a message continues."""

    context: Context | None
    task: uuid.UUID | None


def find_target(principal: Principal, agent: Agent, message: JSON) -> Target:
    """The caller's context and task in a message. Raises TaskNotFound, InvalidParams."""
    context_id = message.get("contextId") or ""
    if task_id := message.get("taskId"):
        task = find_agent_task(principal, agent, task_id)
        if context_id and context_id != task.context.context_id:
            raise InvalidParams("The task belongs to another contextId.", "contextId")
        return Target(task.context, task.pk)
    return Target(find_context(principal, agent, context_id) if context_id else None, None)


def find_agent_task(
    principal: Principal, agent: Agent, task_id: str, find: Callable[[uuid.UUID], Task | None] = TASK.one
) -> Task:
    """The caller's task at this agent, as `find` reads it. Raises TaskNotFound."""
    try:
        key = uuid.UUID(task_id)
    except ValueError:
        raise TaskNotFound from None
    task = find(key)
    if task is None and restore_tasks(principal, [key]):
        task = find(key)
    if task is None or task.agent_id != agent.pk or task.owner_id != principal.user_id:
        raise TaskNotFound
    return task


def find_context(principal: Principal, agent: Agent, context_id: str) -> Context | None:
    """The caller's context of this A2A contextId; None if it is new.

    Anonymous callers need the unguessable id that the platform gave them.
    Raises InvalidParams if the context is with another agent.
    """
    context = restored_or_none(context_of(principal, context_id))
    if context is not None and context.agent_id != agent.pk:
        raise InvalidParams("This contextId belongs to another agent. Choose another contextId.", "contextId")
    return context


def context_of(principal: Principal, context_id: str) -> Context | None:
    """The same with any agent."""
    contexts = Context.objects.visible_to(principal)
    if principal.is_known:
        return contexts.filter(context_id=context_id).first()
    key = _uuid(context_id)
    return contexts.filter(pk=key, context_id=context_id).first() if key else None


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def references_of(principal: Principal, message: JSON, context: Context | None) -> list[str]:
    """The caller's tasks that the message references; without any, the context's newest task if it is completed.

    It may be another agent's: whoever continues a conversation gets its results.
    """
    named = [key for text in message.get("referenceTaskIds", []) if (key := _uuid(text))]
    if named:
        own = Task.objects.visible_to(principal).filter(pk__in=named).values_list("pk", flat=True)
        known = set(own)
        if known != set(named) and restore_tasks(principal, set(named) - known):
            known = set(own.all())
        return [str(key) for key in named if key in known]
    if context is None:
        return []
    latest = lineage.newest_task(context)
    return [str(latest.pk)] if latest and latest.state == TaskState.COMPLETED else []


def find_task(principal: Principal, key: uuid.UUID, *related: str) -> Task | None:
    """The caller's task, with its `related` rows."""
    named = Task.objects.visible_to(principal).select_related(*related).filter(pk=key)
    found = named.first()
    if found is None and restore_tasks(principal, [key]):
        found = named.all().first()
    return found


def waiting_tasks(principal: Principal) -> TaskQuerySet:
    """The caller's tasks that wait for an answer or a credential, in sessions that are not archived.

    Children are left out: their parents ask their questions.
    """
    waiting = Task.objects.visible_to(principal).filter(state__in=INTERRUPTED_STATES)
    return waiting.filter(parent=None, context__in=unarchived_contexts(principal))


def unarchived_contexts(principal: Principal) -> ContextQuerySet:
    """The caller's sessions that are not archived."""
    return Context.objects.visible_to(principal).listed().filter(archived_at=None)


def restored(context: Context) -> Context:
    """The context with its rows in the tables. Raises Context.DoesNotExist if it was deleted, DamagedArchive."""
    if context.cold_file:
        hook("RESTORE_CONTEXT")(context.pk)
        context.refresh_from_db(fields=["cold_file", "cold_at", "cold_messages", "warmed_at"])
    return context


def restored_or_none(context: Context | None) -> Context | None:
    return None if context is None else restored(context)


def restore_by_id(context_id: uuid.UUID) -> bool:
    """Restore a session; says whether it was in cold storage."""
    cold = Context.objects.filter(pk=context_id, deleted_at=None).exclude(cold_file="").first()
    if cold is not None:
        restored(cold)
    return cold is not None


def restore_tasks(principal: Principal, keys: Iterable[uuid.UUID]) -> bool:
    """Restore the caller's sessions that have these tasks; says whether there was one."""
    return _restore_by_keys(Task._meta.label_lower, keys, context__owner=principal.user_id)


def restore_run(principal: Principal, key: uuid.UUID) -> bool:
    """The same for a run."""
    return _restore_by_keys(Run._meta.label_lower, [key], context__owner=principal.user_id)


def restore_answer(accepted: Accepted) -> bool:
    """Restore the session that an accepted message led to."""
    return _restore_by_keys(Accepted._meta.label_lower, [accepted.pk])


def cold_task_counts(contexts: Sequence[uuid.UUID]) -> dict[uuid.UUID, int]:
    """The number of tasks of each context in cold storage."""
    kept = ColdKey.objects.filter(context__in=contexts, kind=Task._meta.label_lower)
    return dict(kept.values_list("context").annotate(models.Count("pk")).order_by())


def _restore_by_keys(kind: str, keys: Iterable[object], **whose: object) -> bool:
    found = ColdKey.objects.select_related("context").filter(kind=kind, key__in=[str(key) for key in keys], **whose)
    return bool([restored(kept.context) for kept in found])


MESSAGE_FIELDS = ("task_id", "role", "message_id", "parts", "references", "extensions", "metadata")
ARTIFACT_FIELDS = ("artifact_id", "name", "description", "parts", "signature", "extensions", "metadata")
"""What `wire` shows of each: text and JSON only, so that `json_agg` can transport them."""


def find_whole_task(task: uuid.UUID, history_length: int | None = None) -> Task | None:
    """The task with its context and, on PostgreSQL and once it is settled, `shown` for `wire.load_task`."""
    if connection.vendor != "postgresql":
        return TASK.one(task)
    length = settings.DEFAULT_HISTORY_LENGTH if history_length is None else history_length
    found = WHOLE_TASK.one(length, task)
    if found is None:
        return None
    row, shown = found
    if shown is not None:
        messages, artifacts = json.loads(shown)
        row.shown = Shown(
            length, _instances(Message, MESSAGE_FIELDS, messages), _instances(Artifact, ARTIFACT_FIELDS, artifacts)
        )
    return row


def _instances[M: models.Model](model: type[M], names: tuple[str, ...], rows: list[list[Any]] | None) -> list[M]:
    """Instances with these fields only."""
    return [model.from_db(connection.alias, names, row) for row in rows or []]


class DamagedArchive(SessionUnreadable):
    """The file of a session in cold storage is not what was written. Restore it from a backup of the file storage."""


def find_session(principal: Principal, key: uuid.UUID, *related: str) -> Context:
    """The caller's context, with its `related` rows. Raises ContextNotFound."""
    sessions = Context.objects.visible_to(principal)
    context = (sessions.select_related(*related) if related else sessions).filter(pk=key).first()
    if context is None:
        raise ContextNotFound
    return context


def find_restored_session(principal: Principal, key: uuid.UUID) -> Context:
    """The caller's context with its rows in the tables. Raises ContextNotFound, DamagedArchive."""
    try:
        return restored(find_session(principal, key))
    except Context.DoesNotExist:  # it was deleted just now
        raise ContextNotFound from None


def check_may_use(principal: Principal, agent: Agent) -> None:
    """Raises UnsupportedOperation if the caller may not use the agent."""
    if not agent.is_open_to(principal):
        raise UnsupportedOperation("There is no such agent, or you may not use it. Choose another.")


def edit_histories(context: Context, upto: int | None = None) -> dict[str, list[Message]]:
    """By the messageId of each edited message of a session: its earlier versions that still exist, oldest first.

    A query for each of forks and versions; none for a session that is no fork. Restores sessions from cold storage.
    """
    edited = [fork.payload["edited"] for fork in lineage.fork_events(context, upto) if "edited" in fork.payload]
    if not edited:
        return {}
    versions = {one["message"]: one["session"] for edit in edited for one in edit["versions"]}
    found = _versions(context, versions)
    if missing := {session for message, session in versions.items() if message not in found}:
        for cold in Context.objects.filter(pk__in=missing, owner=context.owner_id).exclude(cold_file=""):
            restored(cold)
            found = _versions(context, versions)
    return {
        edit["messageId"]: [found[one["message"]] for one in edit["versions"] if one["message"] in found]
        for edit in edited
    }


def _versions(context: Context, keys: Iterable[str]) -> dict[str, Message]:
    owned = Message.objects.filter(pk__in=list(keys), context__owner=context.owner_id, context__deleted_at=None)
    return {str(one.pk): one for one in owned}
