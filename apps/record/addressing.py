"""What a message names: the caller's context that it goes on with, the task, and earlier tasks."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.record import cold, lineage
from apps.record.errors import InvalidParams, TaskNotFound
from apps.record.events import JSON
from apps.record.lifecycle import TaskState
from apps.record.models import Context, Task
from apps.record.whole_tasks import TASK


@dataclass(slots=True)
class Target:
    """Where a message goes: the context it continues and the task, where there are any."""

    context: Context | None
    task: uuid.UUID | None


def find_target(principal: Principal, agent: Agent, message: JSON) -> Target:
    """The caller's context and task that a message names. Raises TaskNotFound, InvalidParams."""
    context_id = message.get("contextId") or ""
    if task_id := message.get("taskId"):
        task = find_task(principal, agent, task_id)
        if context_id and context_id != task.context.context_id:
            raise InvalidParams("The task belongs to another contextId.", "contextId")
        return Target(task.context, task.pk)
    return Target(find_context(principal, agent, context_id) if context_id else None, None)


def find_task(
    principal: Principal, agent: Agent, task_id: str, find: Callable[[uuid.UUID], Task | None] = TASK.one
) -> Task:
    """The caller's task at this agent, with its context and what else `find` reads. Raises TaskNotFound."""
    try:
        key = uuid.UUID(task_id)
    except ValueError:
        raise TaskNotFound from None
    task = find(key)
    if task is None and cold.bring_back_tasks(principal, [key]):
        task = find(key)
    if task is None or task.agent_id != agent.pk or task.owner_id != principal.user_id:
        raise TaskNotFound
    return task


def find_context(principal: Principal, agent: Agent, context_id: str) -> Context | None:
    """The caller's context of this A2A contextId; None where it is a new one.

    An anonymous caller continues a context only by the unguessable id that the platform gave it.
    Raises InvalidParams where the caller uses the id with another agent.
    """
    context = cold.restored_or_none(context_of(principal, context_id))
    if context is not None and context.agent_id != agent.pk:
        raise InvalidParams("This contextId is in use with another agent. Choose another.", "contextId")
    return context


def context_of(principal: Principal, context_id: str) -> Context | None:
    """The caller's context of this A2A contextId, with whatever agent (see `find_context`)."""
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
    """The caller's own tasks that the message names; where it names none, the task that it follows in its context.

    That may be another agent's: whoever goes on with a conversation is told what was made in it.
    """
    named = [key for text in message.get("referenceTaskIds", []) if (key := _uuid(text))]
    if named:
        own = Task.objects.visible_to(principal).filter(pk__in=named).values_list("pk", flat=True)
        known = set(own)
        if known != set(named) and cold.bring_back_tasks(principal, set(named) - known):
            known = set(own.all())
        return [str(key) for key in named if key in known]
    if context is None:
        return []
    latest = lineage.newest_task(context)
    return [str(latest.pk)] if latest and latest.state == TaskState.COMPLETED else []
