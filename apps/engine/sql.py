"""The engine's hand-written queries."""

from __future__ import annotations

import datetime

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.record.models import Context, Message, Run, Suspension, Task
from db.sql import Query


def _whole_run(
    run: Run, task: Task, context: Context, agent: Agent, owner: User | None, message: Message, now: datetime.datetime
) -> tuple[Run, datetime.datetime]:
    task.context, task.agent, task.owner = context, agent, owner
    run.task, run.message = task, message
    return run, now


RUN = Query(
    "SELECT {run}, {task}, {context}, {agent}, {owner}, {message}, {now} FROM {run.table} "
    "JOIN {task.table} ON task.id = run.task_id JOIN {context.table} ON context.id = task.context_id "
    "JOIN {agent.table} ON agent.id = task.agent_id LEFT JOIN {owner.table} ON owner.id = task.owner_id "
    "JOIN {message.table} ON message.id = run.message_id WHERE run.id = %s",
    _whole_run,
    run=Run,
    task=Task,
    context=Context,
    agent=Agent,
    owner=User,
    message=Message,
)
"""A run with all that a claim needs, and the database's time."""

LATER_MESSAGE = Query[Message](
    "SELECT {message} FROM {message.table} WHERE message.task_id = %s AND message.role = 'user' "
    'AND message."index" > %s ORDER BY message."index" LIMIT 1',
    message=Message,
)

SUSPENSION_BY_CHILD = Query[Suspension](
    "SELECT {suspension} FROM {suspension.table} WHERE suspension.child_id = %s LIMIT 1", suspension=Suspension
)
