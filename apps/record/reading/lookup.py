"""Finding tasks and contexts for a caller. A context in cold storage is restored first."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from django.db import models

from apps.accounts.models import User
from apps.accounts.permissions import Permission
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.record import lineage
from apps.record.errors import ContextNotFound, InvalidParams, SessionUnreadable, TaskNotFound, UnsupportedOperation
from apps.record.events import JSON, imported_author
from apps.record.execution import Accepted, Run
from apps.record.models import (
    INTERRUPTED_STATES,
    ColdKey,
    Context,
    ContextQuerySet,
    Message,
    Task,
    TaskQuerySet,
    TaskState,
)
from apps.record.reading.visibility import may_write_shared, seen_by, shared_workspace
from apps.record.sql import CONTEXT_BY_NAME, TASK
from parley.registry import added


@dataclass(slots=True)
class Target:
    """The existing context and task that a message continues; `asked` is the event of a question that was found."""

    context: Context | None
    task: uuid.UUID | None
    asked: int | None = None


def find_target(principal: Principal, agent: Agent, message: JSON, *, finds_question: bool = False) -> Target:
    """The context and the caller's task in a message. Raises TaskNotFound, InvalidParams, UnsupportedOperation.

    `finds_question`: a message without a task is for the caller's newest one here that waits for an answer.
    """
    context_id = message.get("contextId") or ""
    if task_id := message.get("taskId"):
        task = find_seen_task(principal, agent, task_id)
        check_may_write(principal, task.context)
        check_may_continue(principal, task)
        if context_id not in ("", task.context.context_id, task.context.name_for(principal)):
            raise InvalidParams("The task belongs to another contextId.", "contextId")
        return Target(task.context, task.pk)
    context = find_context(principal, agent, context_id) if context_id else None
    if context is not None:
        check_may_write(principal, context)
        asking = find_asking(principal, agent, context) if finds_question else None
        if asking is not None:
            return Target(context, asking.pk, asking.status_event)
    return Target(context, None)


def find_asking(principal: Principal, agent: Agent, context: Context) -> Task | None:
    """The caller's newest task of the agent that waits for an answer or a credential in the context."""
    own = lineage.newest_task(context, agent=agent, owner=principal.user_id, state__in=INTERRUPTED_STATES)
    return own if own is not None and TaskState(own.state).is_interrupted else None


def find_at_work(principal: Principal, agent: Agent, context: Context) -> Task | None:
    """The caller's newest task of the agent in the context that is at work, or about to be."""
    at_work = (TaskState.SUBMITTED, TaskState.WORKING)
    own = Task.objects.filter(context=context, agent=agent, owner=principal.user_id, state__in=at_work)
    return own.order_by("-created_at", "-pk").first()


class NotYourTask(UnsupportedOperation):
    """Somebody else began this task, and only they can go on with it. Send a new message in the session."""


class ReadOnlySession(UnsupportedOperation):
    """You may read this session, but not write in it. Ask a manager of the workspace for another role."""


def check_may_continue(principal: Principal, task: Task) -> None:
    """Who began a task goes on with it; managers decide about answers that wait for them. Raises NotYourTask."""
    if task.owner_id == principal.user_id:
        return
    slot = task.slot if principal.can(Permission.SETTINGS) else None
    while slot and "child" in slot:  # a called agent asks
        slot = Task.objects.filter(pk=slot["child"]).values_list("slot", flat=True).first()
    if not (slot and slot.get("guard", {}).get("byManagers") and task.workspace_id == principal.workspace_id):
        raise NotYourTask


def check_may_write(principal: Principal, context: Context) -> None:
    """Raises ReadOnlySession if the caller sees the context, but is only a viewer of its workspace."""
    if context.owner_id != principal.user_id and not may_write_shared(principal):
        raise ReadOnlySession


class OfTask(Protocol):
    """What is read of a task, with its agent and owner."""

    @property
    def agent_id(self) -> int: ...
    def is_seen_by(self, principal: Principal) -> bool: ...


def find_agent_task(principal: Principal, agent: Agent, task_id: str) -> Task:
    """The task at this agent that the caller began. Raises TaskNotFound."""
    task = find_seen_task(principal, agent, task_id)
    if task.owner_id != principal.user_id:
        raise TaskNotFound
    return task


def find_seen_task(principal: Principal, agent: Agent, task_id: str) -> Task:
    """The task at this agent, if the caller may see it. Raises TaskNotFound."""
    return read_agent_task(principal, agent, task_id, cast(Callable[[uuid.UUID], Task | None], TASK.one))


def read_agent_task[T: OfTask](
    principal: Principal, agent: Agent, task_id: str, find: Callable[[uuid.UUID], T | None]
) -> T:
    """The task of an agent, as `find` reads it, if the caller may see it. Raises TaskNotFound."""
    try:
        key = uuid.UUID(task_id)
    except ValueError:
        raise TaskNotFound from None
    task = find(key)
    if task is None and restore_tasks(principal, [key]):
        task = find(key)
    if task is None or not may_read(principal, agent, task):
        raise TaskNotFound
    return task


def may_read(principal: Principal, agent: Agent, task: OfTask) -> bool:
    """Is it a task of this agent that the caller may see?"""
    return task.agent_id == agent.pk and task.is_seen_by(principal)


def find_context(principal: Principal, agent: Agent, context_id: str) -> Context | None:
    """The caller's context of this A2A contextId, or one that is shared with them, by its key; None if it is new.

    Anonymous callers need the unguessable id that the platform gave them.
    Raises InvalidParams if the context is with another agent.
    """
    context = restored_or_none(context_of(principal, context_id))
    if context is not None and context.agent_id != agent.pk:
        raise InvalidParams("This contextId belongs to another agent. Choose another contextId.", "contextId")
    return context


def context_of(principal: Principal, context_id: str) -> Context | None:
    """The caller's context of this A2A contextId with any agent, or a shared one by its key."""
    key = _uuid(context_id)
    if not principal.is_known:
        return Context.objects.filter(context_id=context_id).find_or_none(principal, key)
    shared = shared_workspace(principal), key
    found = CONTEXT_BY_NAME.all(principal.user_id, principal.workspace_id, context_id, *shared)
    return min(found, key=lambda one: one.owner_id != principal.user_id, default=None)


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def references_of(principal: Principal, message: JSON, context: Context | None) -> list[str]:
    """The tasks of the caller and of the context that the message references; without any, the context's newest task
    if it is completed.

    It may be another agent's: whoever continues a conversation gets its results.
    """
    named = [key for text in message.get("referenceTaskIds", []) if (key := _uuid(text))]
    if named:
        here = models.Q(owner=principal.user_id) | models.Q(context=context) if context else models.Q()
        own = Task.objects.visible_to(principal).filter(here, pk__in=named).values_list("pk", flat=True)
        known = set(own)
        if known != set(named) and restore_tasks(principal, set(named) - known):
            known = set(own.all())
        return [str(key) for key in named if key in known]
    if context is None:
        return []
    latest = lineage.newest_task(context)
    return [str(latest.pk)] if latest and latest.state == TaskState.COMPLETED else []


def find_task(principal: Principal, key: uuid.UUID | str, *related: str) -> Task:
    """The task with its agent, its session and more `related` rows, if the caller may see it. Raises TaskNotFound."""
    tasks = Task.objects.select_related("agent", "context", *related)
    found = tasks.find_or_none(principal, key)
    if found is None and restore_tasks(principal, filter(None, [_uuid(str(key))])):
        found = tasks.find_or_none(principal, key)
    if found is None:
        raise TaskNotFound
    return found


def waiting_tasks(principal: Principal) -> TaskQuerySet:
    """The caller's tasks that wait for an answer or a credential, in sessions that are not archived.

    Children are left out: their parents ask their questions.
    """
    waiting = Task.objects.of(principal).filter(state__in=INTERRUPTED_STATES)
    return waiting.filter(parent=None, context__in=unarchived_contexts(principal))


def unarchived_contexts(principal: Principal) -> ContextQuerySet:
    """The sessions that the caller may see and that are not archived."""
    return Context.objects.visible_to(principal).listed().filter(archived_at=None)


def restored(context: Context) -> Context:
    """The context with its rows in the tables. Raises Context.DoesNotExist if it was deleted, DamagedArchive."""
    if context.cold_file:
        added["restore_context"](context.pk)
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
    """Restore the sessions that the caller may see and that have these tasks; says whether there was one."""
    return _restore_by_keys(Task._meta.label_lower, keys, principal)


def restore_run(principal: Principal, key: uuid.UUID) -> bool:
    """Restore the session that the caller may see and that has this run; says whether there was one."""
    return _restore_by_keys(Run._meta.label_lower, [key], principal)


def restore_answer(accepted: Accepted) -> bool:
    """Restore the session that an accepted message led to."""
    return _restore_by_keys(Accepted._meta.label_lower, [accepted.pk])


def cold_task_counts(contexts: Sequence[uuid.UUID]) -> dict[uuid.UUID, int]:
    """The number of tasks of each context in cold storage."""
    kept = ColdKey.objects.filter(context__in=contexts, kind=Task._meta.label_lower)
    return dict(kept.values_list("context").annotate(models.Count("pk")).order_by())


def _restore_by_keys(kind: str, keys: Iterable[object], principal: Principal | None = None) -> bool:
    found = ColdKey.objects.select_related("context").filter(kind=kind, key__in=[str(key) for key in keys])
    if principal is not None:
        found = found.filter(seen_by(principal, "context__"))
    return bool([restored(kept.context) for kept in found])


class DamagedArchive(SessionUnreadable):
    """The file of a session in cold storage is not what was written. Restore it from a backup of the file storage."""


def find_session(principal: Principal, key: uuid.UUID, *, restore: bool = True) -> Context:
    """The context with its agent, if the caller may see it, and with its rows in the tables if `restore`.

    Raises ContextNotFound, DamagedArchive.
    """
    found = Context.objects.select_related("agent").find(principal, key)
    try:
        return restored(found) if restore else found
    except Context.DoesNotExist:  # it was deleted just now
        raise ContextNotFound from None


def find_own_session(principal: Principal, key: uuid.UUID) -> Context:
    """The caller's own context: to share, rename, archive or delete it. Raises ContextNotFound, NotYourSession."""
    context = find_session(principal, key, restore=False)
    if context.owner_id != principal.user_id:
        raise NotYourSession
    return context


class NotYourSession(UnsupportedOperation):
    """Only the session's owner can do this."""


def author_names(context: Context, authors: Iterable[int | None]) -> dict[int, str]:
    """The names of those who wrote messages, by key; empty without a query if only the owner writes in the session."""
    wanted = {key for key in authors if key is not None}
    if not wanted or not (context.is_shared or wanted - {context.owner_id}):
        return {}
    return {one.pk: one.short_name for one in User.objects.filter(pk__in=wanted)}


@dataclass(frozen=True, slots=True)
class Authors:
    """The names of who wrote messages: of agents, and of people as `author_names` has them, by key."""

    agents: dict[int, str]
    people: dict[int, str]

    def name(self, said: Message, owner: str) -> str:
        """`owner`: what the session's owner is called. Empty for an agent without a name."""
        if said.agent_id:
            return self.agents.get(said.agent_id, "")
        if said.role == Message.Role.AGENT:
            return imported_author(said.metadata["imported"]) if "imported" in said.metadata else ""
        return self.people.get(said.author_id or 0, owner)


def authors_of(context: Context, messages: Sequence[Message]) -> Authors:
    """At most two queries."""
    agents = Agent.objects.filter(pk__in={said.agent_id for said in messages if said.agent_id})
    people = author_names(context, (said.author_id for said in messages))
    return Authors(dict(agents.values_list("pk", "name")), people)


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
