"""The engine's hand-written queries."""

from __future__ import annotations

import datetime

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.installation.models import Operation
from apps.record.execution import Run, Suspension
from apps.record.models import Context, Message, Task
from parley.db.sql import Query

RUN = Query[tuple[Run, Operation | None, datetime.datetime]](
    "SELECT {run}, {task}, {context}, {agent}, {owner}, {message}, {operation}, {now} FROM {run.table} "
    "JOIN {task.table} ON task.id = run.task_id JOIN {context.table} ON context.id = task.context_id "
    "JOIN {agent.table} ON agent.id = task.agent_id LEFT JOIN {owner.table} ON owner.id = task.owner_id "
    "JOIN {message.table} ON message.id = run.message_id LEFT JOIN {operation.table} ON operation.id = 1 "
    "WHERE run.id = %s",
    attached={
        "task": "run.task",
        "context": "task.context",
        "agent": "task.agent",
        "owner": "task.owner",
        "message": "run.message",
    },
    run=Run,
    task=Task,
    context=Context,
    agent=Agent,
    owner=User,
    message=Message,
    operation=Operation,
)
"""A run with all that a claim needs, the state of the installation, and the database's time."""

LATER_MESSAGE = Query[Message](
    "SELECT {message} FROM {message.table} WHERE message.task_id = %s AND message.role = 'user' "
    'AND message."index" > %s ORDER BY message."index" LIMIT 1',
    message=Message,
)

LATER_MESSAGES = Query[Message](
    "SELECT {message} FROM {message.table} WHERE message.task_id = %s AND message.role = 'user' "
    'AND message."index" > %s ORDER BY message."index" LIMIT %s',
    message=Message,
)

SUSPENSION_BY_CHILD = Query[Suspension](
    "SELECT {suspension} FROM {suspension.table} WHERE suspension.child_id = %s LIMIT 1", suspension=Suspension
)

QUEUE = """
WITH RECURSIVE lanes (lane, place) AS (
    SELECT min(lane), 1 FROM record_run WHERE state = 'queued' AND lane > %s
    UNION ALL
    SELECT (SELECT min(run.lane) FROM record_run AS run WHERE run.state = 'queued' AND run.lane > lanes.lane), place + 1
    FROM lanes WHERE lanes.lane IS NOT NULL AND place < %s
), heads AS MATERIALIZED (
    SELECT lane, (
        SELECT min(run.priority) FROM record_run AS run WHERE run.state = 'queued' AND run.lane = lanes.lane
        AND (run.lease_until IS NULL OR run.lease_until < {now})
    ) AS priority FROM lanes WHERE lane IS NOT NULL
)
SELECT lane, priority, 0, (
    SELECT min(run.queued_at) FROM record_run AS run
    WHERE run.state = 'queued' AND run.lane = heads.lane AND run.priority = heads.priority
    AND (run.lease_until IS NULL OR run.lease_until < {now})
) FROM heads
UNION ALL
SELECT lane, priority, count(*), NULL FROM record_run
WHERE state IN ('queued', 'running') AND lease_until IS NOT NULL AND (state = 'running' OR lease_until > {now})
GROUP BY lane, priority
"""
"""After a lane, so many lanes with queued runs: the highest priority, and since when such a run waits; both NULL where
workers are about to take all that waits.

Then, by lane and priority, how many runs are with workers.

It reads three index entries a lane, and those of reserved runs, whatever waits there, and no more lanes than asked for.
"""

RESERVE = """
UPDATE record_run SET lease_until = {until} WHERE state = 'queued' AND id = (
    SELECT id FROM record_run WHERE state = 'queued' AND lane = %s AND priority <= %s
    AND (lease_until IS NULL OR lease_until < {now})
    ORDER BY priority, queued_at LIMIT 1 {skip_locked}
) RETURNING id
"""
"""The lane's next run, which no other worker gets for a while."""
