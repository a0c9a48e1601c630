"""Threads: the caller's sessions. A thread's state is made of its log: a checkpoint is the state after a run."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import F, OuterRef, Q, Subquery

from apps.accounts.errors import NotFound
from apps.accounts.principals import Principal
from apps.accounts.requests import quotas
from apps.agents.models import Agent, AgentNotFound
from apps.agents.search import default_agent
from apps.api.framework.problems import Conflict
from apps.conversations.forks import branches, forking
from apps.conversations.sessions import commands, deletion
from apps.doors.turns import End, Turn, words_of
from apps.optional.langgraph.assistants import NODE, find_assistant, id_of
from apps.optional.langgraph.messages import Answer, human
from apps.optional.langgraph.requests import (
    HistoryPage,
    NewThread,
    ThreadChanges,
    ThreadFilter,
    ThreadSearch,
    checkpoint_of,
    picked,
)
from apps.record import lineage
from apps.record.content.strict_json import timestamp
from apps.record.errors import ContextNotFound, InvalidParams
from apps.record.events import JSON
from apps.record.models import MAX_TITLE, Context, ContextQuerySet, Event, Message, Task, TaskState
from apps.record.reading import lookup

WORKING = (TaskState.SUBMITTED, TaskState.WORKING)
THREAD_STATES = {
    "busy": WORKING,
    "interrupted": (TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED),
    "error": (TaskState.FAILED, TaskState.REJECTED),
}
"""By the state of the newest task; otherwise a thread is idle."""
RUN_STATUS = {
    TaskState.SUBMITTED: "pending",
    TaskState.WORKING: "running",
    TaskState.COMPLETED: "success",
    TaskState.FAILED: "error",
    TaskState.REJECTED: "error",
}
"""By the task's state; otherwise a run was interrupted."""
TITLE, GRAPH, ASSISTANT = "title", "graph_id", "assistant_id"
"""What a thread's metadata has: a title, and whose thread it is."""
SORTED_BY = {"thread_id": "context_id", "status": "newest", "state_updated_at": "updated_at"}


@dataclass(frozen=True, slots=True)
class Run:
    """A turn: a person's message, and the agent's answer so far. `task`: as the thread shows it, if there is one."""

    row: Message
    task: Task | None
    messages: list[JSON]
    end: End | None
    is_last_of_task: bool

    @property
    def id(self) -> str:
        return str(self.row.pk)

    @property
    def state(self) -> TaskState:
        """The state of its task when it ended, or now."""
        if self.task is None:
            return TaskState.COMPLETED
        return TaskState(self.task.state) if self.is_last_of_task else TaskState.INPUT_REQUIRED

    @property
    def status(self) -> str:
        return RUN_STATUS.get(self.state, "interrupted")

    @property
    def interrupts(self) -> list[JSON]:
        """The question that waits for an answer."""
        if self.task is None or not self.is_last_of_task or not self.state.is_interrupted:
            return []
        return [interrupt(self.task.pk, self.state, self.task.status_message, self.task.slot)]


def interrupt(task: uuid.UUID, state: TaskState, message: JSON | None, slot: JSON | None) -> JSON:
    """A task's question, answered by `command.resume`."""
    words = words_of(message or {"parts": []})
    schema = (slot or {}).get("schema")
    asked = {"id": task.hex, "value": {"question": words, "reason": str(state).replace("-", "_"), "schema": schema}}
    return asked | ({"response_schema": schema} if schema else {})


def find_thread(principal: Principal, thread_id: str) -> Context:
    """The session of this name of the caller's, or with this key. Raises ContextNotFound."""
    named = lookup.context_of(principal, thread_id) if thread_id.isprintable() else None
    if (key := named.pk if named else _uuid(thread_id)) is None:
        raise ContextNotFound
    return lookup.find_session(principal, key)


def create(principal: Principal, asked: NewThread) -> JSON:
    """Raises Conflict, AgentNotFound, InvalidParams."""
    if asked.thread_id is not None:
        if not principal.is_known:
            raise InvalidParams("Without an API key, a thread's id is chosen here. Leave it out.", "thread_id")
        if (known := lookup.context_of(principal, asked.thread_id)) is not None:
            if asked.if_exists == "raise":
                raise Conflict("There is a thread with this id.")
            return show(principal, known.name_for(principal))
    metadata = asked.metadata or {}
    agent = _agent_of(principal, metadata)
    made = commands.create_session(principal, agent, title=_title(metadata), context_id=asked.thread_id or "")
    return show(principal, made.context.name_for(principal))


def show(principal: Principal, thread_id: str) -> JSON:
    context = find_thread(principal, thread_id)
    found = runs_of(context)
    newest = next((run.state for run in reversed(found) if run.task), None)
    return thread_json(principal, context, newest, values_of(found), found[-1].interrupts if found else [])


def change(principal: Principal, thread_id: str, asked: ThreadChanges) -> JSON:
    """A title renames the thread, a graph or an assistant switches its agent. Raises ContextNotFound, InvalidParams."""
    context = find_thread(principal, thread_id)
    if title := _title(asked.metadata):
        commands.rename_session(principal, context.pk, title)
    if asked.metadata.keys() & {GRAPH, ASSISTANT}:
        commands.switch_agent(principal, context.pk, _agent_of(principal, asked.metadata))
    return show(principal, thread_id)


def remove(principal: Principal, thread_id: str) -> None:
    deletion.delete_session(principal, find_thread(principal, thread_id).pk)


def copy(principal: Principal, thread_id: str) -> JSON:
    """A fork. Nothing runs in it. Raises ContextNotFound."""
    quotas.count_fork(principal)
    context = find_thread(principal, thread_id)
    child = forking.fork(principal, context, context.last_event, reason="fork")
    branches.save_chosen_leaf(principal, child)
    return show(principal, child.name_for(principal))


def search(principal: Principal, asked: ThreadSearch) -> list[JSON]:
    """The values of each are its first message alone."""
    found = _filtered(principal, asked, asked.ids).select_related("agent")
    order = F(SORTED_BY.get(asked.sort_by, asked.sort_by))
    ordered = found.order_by(order.desc() if asked.sort_order == "desc" else order.asc(), "-pk")
    rows = list(ordered[asked.offset : asked.offset + asked.limit])
    first, waiting = _first_messages(rows), _waiting(rows)
    shown = []
    for row in rows:
        values = {"messages": [human(first[row.pk])] if row.pk in first else []}
        newest = getattr(row, "newest", None)
        shown.append(thread_json(principal, row, newest, values, waiting.get(row.pk, [])))
    return picked(shown, asked.select)


def count(principal: Principal, asked: ThreadFilter) -> int:
    return _filtered(principal, asked, None).count()


def state(principal: Principal, thread_id: str) -> JSON:
    context = find_thread(principal, thread_id)
    found = runs_of(context)
    return state_json(principal, context, found, len(found))


def history(principal: Principal, thread_id: str, asked: HistoryPage) -> list[JSON]:
    """The newest state first."""
    context = find_thread(principal, thread_id)
    found = runs_of(context)
    upto = len(found)
    if before := checkpoint_of(asked.before):
        upto = next((at for at, run in enumerate(found) if run.id == before), -1)
    if upto < 0:
        raise NotFound("There is no such checkpoint in this thread.")
    numbers = range(upto, max(0, upto - asked.limit), -1)
    return picked((state_json(principal, context, found, number) for number in numbers), asked.select)


def runs_of(context: Context) -> list[Run]:
    """The thread's runs, oldest first. Three queries, and one for the files of each run that made some."""
    ordered = lineage.tasks(context).select_related("agent").order_by("first_event")
    tasks = {task.pk: task for task in lineage.as_shown(ordered, lineage.left_tasks(context))}
    events: dict[uuid.UUID, list[Event]] = defaultdict(list)
    for event in lineage.events(context).filter(task__isnull=False):
        events[event.task_id].append(event)  # type: ignore[index]  # it has a task
    found: list[Run] = []
    newer: dict[uuid.UUID, int] = {}  # the next message of each task
    direct: list[Message] = []
    for row in lineage.messages(context).order_by("-index"):
        if row.role == Message.Role.AGENT:
            direct += [row] if row.task_id is None else []
            continue
        answer, task = Answer(str(row.pk), context.pk), tasks.get(row.task_id) if row.task_id else None
        if task is not None:
            upto = newer.get(task.pk)
            own = [one for one in events[task.pk] if one.index > row.index and (upto is None or one.index < upto)]
            for _, piece in Turn(task.pk).read(own):
                list(answer.take(piece))
        for one in reversed(direct):
            list(answer.say(words_of({"parts": one.parts})))
            list(answer.close())
        messages = [human(row), *answer.messages]
        found.append(Run(row, task, messages, answer.end, task is None or task.pk not in newer))
        if task is not None:
            newer[task.pk] = row.index
        direct = []
    return found[::-1]


def values_of(found: Sequence[Run]) -> JSON:
    return {"messages": [message for run in found for message in run.messages]}


def thread_json(
    principal: Principal, context: Context, newest: str | None, values: JSON, interrupts: Sequence[JSON]
) -> JSON:
    """`newest`: the state of its newest task."""
    return {
        "thread_id": context.name_for(principal),
        "created_at": timestamp(context.created_at),
        "updated_at": timestamp(context.updated_at),
        "state_updated_at": timestamp(context.updated_at),
        "metadata": _metadata(context),
        "config": {},
        "status": next((status for status, states in THREAD_STATES.items() if newest in states), "idle"),
        "values": values,
        "interrupts": {one["id"]: [one] for one in interrupts},
    }


def state_json(principal: Principal, context: Context, found: Sequence[Run], number: int) -> JSON:
    """The state after so many of the runs."""
    run = found[number - 1] if number else None
    asked = run.interrupts if run else []
    is_busy = run is not None and run.state in WORKING
    ended = run.end if run else None
    error = ended.words or ended.code if run and ended and run.status == "error" else None
    told = {"name": NODE, "interrupts": asked, "error": error, "checkpoint": None, "state": None, "result": None}
    return {
        "values": values_of(found[:number]),
        "next": [NODE] if asked or is_busy else [],
        "tasks": [{"id": run.id, **told}] if run and (asked or is_busy or error) else [],
        "interrupts": asked,
        "checkpoint": _checkpoint(principal, context, found, number),
        "parent_checkpoint": _checkpoint(principal, context, found, number - 1),
        "metadata": {**_metadata(context), "source": "loop", "step": number, "run_id": run.id if run else None},
        "created_at": timestamp(run.row.created_at if run else context.created_at),
    }


def _checkpoint(principal: Principal, context: Context, found: Sequence[Run], number: int) -> JSON | None:
    if number < 1:
        return None
    names = {"thread_id": context.name_for(principal), "checkpoint_ns": ""}
    return {**names, "checkpoint_id": found[number - 1].id, "checkpoint_map": None}


def run_json(principal: Principal, context: Context, run: Run) -> JSON:
    agent = run.task.agent if run.task else context.agent
    changed = run.task.status_at if run.task and run.is_last_of_task else run.row.created_at
    return {
        "run_id": run.id,
        "thread_id": context.name_for(principal),
        "assistant_id": id_of(agent.slug),
        "created_at": timestamp(run.row.created_at),
        "updated_at": timestamp(changed),
        "status": run.status,
        "metadata": {},
        "kwargs": {},
        "multitask_strategy": "enqueue",
    }


def _metadata(context: Context) -> JSON:
    whose = {GRAPH: context.agent.slug, ASSISTANT: id_of(context.agent.slug)}
    return whose | ({TITLE: context.title} if context.title else {})


def _title(metadata: JSON) -> str:
    title = metadata.get(TITLE, "")
    if not isinstance(title, str) or len(title) > MAX_TITLE:
        raise InvalidParams(f"Must be a text of at most {MAX_TITLE} characters.", f"metadata.{TITLE}")
    return title


def _agent_of(principal: Principal, metadata: JSON) -> Agent:
    """The agent that metadata names; without one, it is known with the first run. Raises AgentNotFound."""
    if named := metadata.get(ASSISTANT) or metadata.get(GRAPH):
        return find_assistant(principal, str(named))
    usable = Agent.objects.visible_to(principal)
    agent = default_agent(principal) or usable.listed().order_by("name").first() or usable.first()
    if agent is None:
        raise AgentNotFound
    return agent


def _filtered(principal: Principal, asked: ThreadFilter, ids: Sequence[str] | None) -> ContextQuerySet:
    """The caller's own threads. Anonymous callers share theirs, so they name those that they know."""
    newest = Task.objects.filter(context=OuterRef("pk")).order_by("-created_at", "-pk").values("state")[:1]
    found = Context.objects.visible_to(principal).filter(owner=principal.user_id).listed().filter(archived_at=None)
    found = found.annotate(newest=Subquery(newest))
    if ids is not None or not principal.is_known:
        keys = Q(pk__in=list(filter(None, map(_uuid, ids or ()))))
        found = found.filter(keys | Q(context_id__in=ids) if ids and principal.is_known else keys)
    for name, value in (asked.metadata or {}).items():
        found = found.filter(_condition(principal, name, value))
    if asked.status is not None:
        states = THREAD_STATES.get(asked.status)
        busy = [one for some in THREAD_STATES.values() for one in some]
        found = found.filter(Q(newest__in=states) if states else Q(newest=None) | ~Q(newest__in=busy))
    return found


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def _condition(principal: Principal, name: str, value: Any) -> Q:
    """Raises InvalidParams for metadata that threads do not have here."""
    if name == TITLE:
        return Q(title=value) if isinstance(value, str) else Q(pk=None)
    if name == GRAPH:
        return Q(agent__slug=value) if isinstance(value, str) else Q(pk=None)
    if name == ASSISTANT:
        slugs = Agent.objects.visible_to(principal).values_list("slug", flat=True)
        return Q(agent__slug__in=[slug for slug in slugs if value in (slug, id_of(slug))])
    raise InvalidParams("Threads are found by title, graph_id and assistant_id.", f"metadata.{name}")


def _first_messages(rows: Sequence[Context]) -> dict[uuid.UUID, Message]:
    """A query, and one for each fork."""
    own = [row.pk for row in rows if row.forked_at is None]
    said = Message.objects.filter(context__in=own, role=Message.Role.USER)
    first = said.filter(context=OuterRef("context")).order_by("index").values("index")[:1]
    found = {one.context_id: one for one in said.filter(index=Subquery(first))}
    for fork in (row for row in rows if row.forked_at is not None):
        if one := lineage.messages(fork).filter(role=Message.Role.USER).order_by("index").first():
            found[fork.pk] = one
    return found


def _waiting(rows: Sequence[Context]) -> dict[uuid.UUID, list[JSON]]:
    """The questions of the threads that wait for an answer."""
    asking = [row.pk for row in rows if getattr(row, "newest", None) in THREAD_STATES["interrupted"]]
    found = {}
    for task in Task.objects.filter(context__in=asking, state__in=THREAD_STATES["interrupted"]).order_by("created_at"):
        found[task.context_id] = [interrupt(task.pk, TaskState(task.state), task.status_message, task.slot)]
    return found
