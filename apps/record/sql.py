"""The record's hand-written queries."""

from __future__ import annotations

from apps.agents.models import Agent
from apps.record.models import Artifact, Context, Event, Message, Run, Task
from db.sql import Query


def _task_with_context(task: Task, context: Context) -> Task:
    task.context = context
    return task


def _task_with_shown(task: Task, context: Context, shown: str | None) -> tuple[Task, str | None]:
    task.context = context
    return task, shown


def _task_with_agent(task: Task, agent: Agent) -> Task:
    task.agent = agent
    return task


CONTEXT = Query[Context]("SELECT {context} FROM {context.table} WHERE context.id = %s", context=Context)

TASK = Query(
    "SELECT {task}, {context} FROM {task.table} JOIN {context.table} ON context.id = task.context_id "
    "WHERE task.id = %s",
    _task_with_context,
    task=Task,
    context=Context,
)

WHOLE_TASK = Query(
    "SELECT {task}, {context}, CASE WHEN task.state IN "
    "('completed', 'failed', 'rejected', 'canceled', 'input-required', 'auth-required') THEN json_build_array("
    "(SELECT json_agg(json_build_array("
    'task_id, role, message_id, parts, "references", extensions, metadata) ORDER BY "index") '
    'FROM (SELECT * FROM record_message WHERE task_id = task.id ORDER BY "index" DESC LIMIT %s) AS newest), '
    "(SELECT json_agg(json_build_array("
    "artifact_id, name, description, parts, signature, extensions, metadata) ORDER BY first_event) "
    "FROM record_artifact WHERE task_id = task.id AND state = 'delivered'))::text END "
    "FROM {task.table} JOIN {context.table} ON context.id = task.context_id WHERE task.id = %s",
    _task_with_shown,
    task=Task,
    context=Context,
)
"""PostgreSQL only: a task and, once it is settled, its newest messages and its artifacts."""

TASKS = Query(
    "SELECT {task}, {context} FROM {task.table} JOIN {context.table} ON context.id = task.context_id "
    "WHERE task.id {any}",
    _task_with_context,
    task=Task,
    context=Context,
)

TASK_OF_CONTEXT = Query(
    "SELECT {task}, {agent} FROM {task.table} JOIN {agent.table} ON agent.id = task.agent_id "
    "WHERE task.id = %s AND task.context_id = %s",
    _task_with_agent,
    task=Task,
    agent=Agent,
)

EVENTS = Query[Event](
    'SELECT {event} FROM {event.table} WHERE event.context_id = %s AND event."index" > %s '
    'ORDER BY event."index" LIMIT %s',
    event=Event,
)

EVENT_RANGE = Query[Event](
    'SELECT {event} FROM {event.table} WHERE event.context_id = %s AND event."index" > %s AND event."index" <= %s '
    'ORDER BY event."index"',
    event=Event,
)

NEWEST_MESSAGES = Query[Message](
    'SELECT {message} FROM {message.table} WHERE message.task_id = %s AND message."index" <= %s '
    'ORDER BY message."index" DESC LIMIT %s',
    message=Message,
)

MESSAGES_OF_TASKS = Query[Message](
    'SELECT {message} FROM {message.table} WHERE message.task_id {any} ORDER BY message."index"', message=Message
)

ARTIFACTS_OF_TASKS = Query[Artifact](
    "SELECT {artifact} FROM {artifact.table} WHERE artifact.task_id {any} ORDER BY artifact.first_event",
    artifact=Artifact,
)

ARTIFACTS_IN_STATE = Query[Artifact](
    "SELECT {artifact} FROM {artifact.table} WHERE artifact.task_id = %s AND artifact.state = %s "
    "ORDER BY artifact.first_event",
    artifact=Artifact,
)

UNFINISHED_RUN = Query[Run](
    "SELECT {run} FROM {run.table} WHERE run.task_id = %s AND run.state IN ('queued', 'running') LIMIT 1", run=Run
)
