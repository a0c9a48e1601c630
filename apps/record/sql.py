"""The record's hand-written queries."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection

from django.db import connection

from apps.agents.models import Agent
from apps.record.execution import Run
from apps.record.models import Artifact, Context, Event, Message, Task
from apps.record.reading.visibility import OWN_SQL, SHARED_SQL
from parley.db import sql
from parley.db.sql import Query, uuid_from


def _task_with_context(task: Task, context: Context) -> Task:
    task.context = context
    return task


def _task_with_agent(task: Task, agent: Agent) -> Task:
    task.agent = agent
    return task


CONTEXT = Query[Context]("SELECT {context} FROM {context.table} WHERE context.id = %s", context=Context)

CONTEXT_BY_NAME = Query[Context](
    "SELECT {context} FROM {context.table} WHERE context.deleted_at IS NULL AND context.id = ("  # noqa: S608  # no values
    f"SELECT context.id FROM {{context.table}} WHERE {OWN_SQL} AND context.context_id = %s "
    f"UNION ALL SELECT context.id FROM {{context.table}} WHERE {SHARED_SQL} AND context.id = %s LIMIT 1)",
    context=Context,
)
"""A known caller's own of this contextId, or one that is shared with them, by its key: other people's names for
contexts do not count.
"""

TASK = Query(
    "SELECT {task}, {context} FROM {task.table} JOIN {context.table} ON context.id = task.context_id "
    "WHERE task.id = %s",
    _task_with_context,
    task=Task,
    context=Context,
)

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

CHUNKS = Query[Event](
    "SELECT {event} FROM {event.table} WHERE event.task_id = %s AND event.artifact_id = %s "
    'AND event."index" >= %s ORDER BY event."index"',
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

REFERRING = {
    "postgresql": """SELECT id FROM record_task WHERE "references" <> '[]'::jsonb AND "references" ?| %s::text[]""",
    "sqlite": """SELECT id FROM record_task WHERE "references" <> '[]' AND EXISTS (SELECT 1
        FROM json_each("references") AS one WHERE one.value IN (SELECT value FROM json_each(%s)))""",
}


def tasks_that_refer_to(tasks: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """The tasks whose `references` have one of these. PostgreSQL has an index for it: migration 0003."""
    names = [str(one) for one in tasks]
    if not names:
        return set()
    given = names if connection.vendor == "postgresql" else json.dumps(names)
    return {uuid_from(key) for (key,) in sql.execute(REFERRING[connection.vendor], [given]).fetchall()}
