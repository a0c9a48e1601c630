"""Measuring agents by their work: what `AgentStats` says comes from the record, in a few statements for all agents.

Nothing is counted while work is done. The newest runs are found along an index for each agent; what is counted in all
is counted from where the last time ended.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

from django.db import connection
from django.db.models import Count

from apps.agents.models import Agent, AgentStats
from apps.record.models import Message, Run
from db import statements
from db.transactions import transacting

RUNS = 200  # recent runs by which an agent is measured
TASKS = 400  # newest tasks among which they are looked for: a task may have been stopped, or be waiting
NEWEST = 20  # of these runs, by which health is told
DAY = datetime.timedelta(days=1)
SETTLED = datetime.timedelta(minutes=5)  # no transaction is older: what was created before is there by now

Row = dict[str, Any]

MEASURED = (
    "runs", "succeeded", "newest_runs", "newest_succeeded", "took_p50", "took_p95", "waited_p50", "waited_p95",
    "input_tokens", "output_tokens",
)  # fmt: skip

# How each database says the seconds between two times, a number in JSON, the beginning of time, and stars.
SECONDS = {
    "postgresql": "EXTRACT(EPOCH FROM {to} - {since})::float8",
    "sqlite": "(julianday({to}) - julianday({since})) * 86400.0",
}
NUMBER = {
    "postgresql": "COALESCE((run.usage ->> '{name}')::bigint, 0)",
    "sqlite": "COALESCE(CAST(json_extract(run.usage, '$.{name}') AS INTEGER), 0)",
}
EVER = {"postgresql": "'-infinity'::timestamptz", "sqlite": "''"}
RATING = {
    "postgresql": "(event.payload ->> 'rating')::integer",
    "sqlite": "json_extract(event.payload, '$.rating')",
}

# The newest tasks of each agent, along their index. SQLite knows no LATERAL; PostgreSQL would guess a border wrong.
NEWEST_TASKS = {
    "postgresql": f"""newest AS (
    SELECT agent.id AS agent_id, task.id AS task_id FROM agents_agent agent CROSS JOIN LATERAL (
        SELECT id FROM record_task WHERE agent_id = agent.id ORDER BY created_at DESC LIMIT {TASKS}
    ) task
)""",  # noqa: S608
    "sqlite": f"""since AS MATERIALIZED (
    SELECT agent.id AS agent_id, COALESCE((
        SELECT created_at FROM record_task task WHERE task.agent_id = agent.id
        ORDER BY created_at DESC LIMIT 1 OFFSET {TASKS - 1}
    ), '') AS at
    FROM agents_agent agent
), newest AS (
    SELECT since.agent_id, task.id AS task_id
    FROM since JOIN record_task task ON task.agent_id = since.agent_id AND task.created_at >= since.at
)""",  # noqa: S608
}


def measure() -> None:
    """Bring the stats of all agents up to date. It is safe to run it anywhere, at any time, twice."""
    now = statements.database_time()
    measured: dict[int, Row] = {agent: {} for agent in Agent.objects.values_list("pk", flat=True)}
    sources = (_of_recent_runs(), _of_unfinished_runs(), _of_tasks(now), _of_messages(now), _of_feedback())
    for rows in sources:
        for row in rows:
            measured.get(row.pop("agent"), {}).update(row)
    stats = [
        AgentStats(agent_id=agent, updated_at=now, counted_to=now - SETTLED, **row) for agent, row in measured.items()
    ]
    fields = [field.name for field in AgentStats._meta.fields if not field.primary_key]
    with transacting():
        known = set(Agent.objects.values_list("pk", flat=True))  # without those that were deleted meanwhile
        AgentStats.objects.bulk_create(
            [one for one in stats if one.pk in known],
            update_conflicts=True, unique_fields=["agent"], update_fields=fields, batch_size=500,
        )  # fmt: skip


def recent_runs() -> str:
    """The statement that measures recent runs. Percentiles are by nearest rank."""
    vendor = connection.vendor
    seconds = SECONDS[vendor]
    return f"""
WITH {NEWEST_TASKS[vendor]}, ended AS (
    SELECT newest.agent_id, run.state,
        {seconds.format(since="run.started_at", to="run.finished_at")} AS took,
        {seconds.format(since="run.queued_at", to="run.started_at")} AS waited,
        {NUMBER[vendor].format(name="inputTokens")} AS input_tokens,
        {NUMBER[vendor].format(name="outputTokens")} AS output_tokens,
        ROW_NUMBER() OVER (PARTITION BY newest.agent_id ORDER BY run.finished_at DESC, run.id) AS age
    FROM newest JOIN record_run run ON run.task_id = newest.task_id
    WHERE run.state IN ('done', 'failed') AND run.finished_at IS NOT NULL AND run.agent_id IS NULL
), recent AS (
    SELECT ended.*,
        ROW_NUMBER() OVER (PARTITION BY agent_id, state ORDER BY took) AS by_took,
        ROW_NUMBER() OVER (PARTITION BY agent_id, state ORDER BY waited) AS by_waited,
        COUNT(*) OVER (PARTITION BY agent_id, state) AS alike
    FROM ended WHERE age <= {RUNS}
)
SELECT agent_id,
    COUNT(*),
    SUM(CASE WHEN state = 'done' THEN 1 ELSE 0 END),
    SUM(CASE WHEN age <= {NEWEST} THEN 1 ELSE 0 END),
    SUM(CASE WHEN age <= {NEWEST} AND state = 'done' THEN 1 ELSE 0 END),
    {_percentile("took", 50)}, {_percentile("took", 95)}, {_percentile("waited", 50)}, {_percentile("waited", 95)},
    SUM(input_tokens), SUM(output_tokens)
FROM recent GROUP BY agent_id"""  # noqa: S608 (nothing in it comes from outside)


def _percentile(column: str, percent: int) -> str:
    return f"MAX(CASE WHEN state = 'done' AND by_{column} = (alike * {percent} + 99) / 100 THEN {column} END)"


def _of_recent_runs() -> Iterator[Row]:
    for agent, *values in _rows(recent_runs()):
        yield {"agent": agent, **dict(zip(MEASURED, values, strict=True))}


def _of_unfinished_runs() -> Iterator[Row]:
    unfinished: Any = Run.objects.unfinished().order_by().values_list("task__agent", "state")
    for agent, state, count in unfinished.annotate(Count("pk")):
        yield {"agent": agent, str(state): count}


def _of_tasks(now: datetime.datetime) -> Iterator[Row]:
    """How many tasks each agent was given: those that were counted before, and what came since."""
    created = "SELECT COUNT(*) FROM record_task task WHERE task.agent_id = agent.id AND task.created_at >"
    before = f"COALESCE(stats.counted_to, {EVER[connection.vendor]})"
    counted = f"""
SELECT agent.id, COALESCE(stats.tasks_counted, 0),
    ({created} {before} AND task.created_at <= %s), ({created} %s AND task.created_at > {before}), ({created} %s)
FROM agents_agent agent LEFT JOIN agents_agentstats stats ON stats.agent_id = agent.id"""  # noqa: S608
    for agent, known, settled, fresh, of_a_day in _rows(counted, now - SETTLED, now - SETTLED, now - DAY):
        told = {"tasks_counted": known + settled, "tasks": known + settled + fresh, "tasks_of_a_day": of_a_day}
        yield {"agent": agent, **told}


def _of_messages(now: datetime.datetime) -> Iterator[Row]:
    """The same of answers that are messages, which an index of their own lists by time."""
    counted = f"""
WITH known AS MATERIALIZED (
    SELECT agent.id AS agent_id, COALESCE(stats.messages_counted, 0) AS counted,
        COALESCE(stats.counted_to, {EVER[connection.vendor]}) AS upto
    FROM agents_agent agent LEFT JOIN agents_agentstats stats ON stats.agent_id = agent.id
), answered AS (
    SELECT message.agent_id, message.created_at FROM record_message message
    WHERE message.task_id IS NULL AND message.role = 'agent' AND message.created_at > (SELECT MIN(upto) FROM known)
)
SELECT known.agent_id, known.counted,
    SUM(CASE WHEN answered.created_at > known.upto AND answered.created_at <= %s THEN 1 ELSE 0 END),
    SUM(CASE WHEN answered.created_at > known.upto AND answered.created_at > %s THEN 1 ELSE 0 END)
FROM known LEFT JOIN answered ON answered.agent_id = known.agent_id GROUP BY known.agent_id, known.counted"""  # noqa: S608
    for agent, known, settled, fresh in _rows(counted, now - SETTLED, now - SETTLED):
        yield {"agent": agent, "messages_counted": known + settled, "messages": known + settled + fresh}
    newest = Message.objects.filter(task=None, role=Message.Role.AGENT, created_at__gt=now - DAY).order_by()
    of_a_day: Any = newest.values_list("agent").annotate(Count("pk"))
    for agent, count in of_a_day:
        yield {"agent": agent, "messages_of_a_day": count}


def _of_feedback() -> Iterator[Row]:
    rated = f"""
SELECT task.agent_id, COUNT(*), AVG({RATING[connection.vendor]})
FROM record_event event JOIN record_task task ON task.id = event.task_id
WHERE event.type = 'feedback' AND NOT EXISTS (
    SELECT 1 FROM record_event later
    WHERE later.type = 'feedback' AND later.task_id = event.task_id AND later."index" > event."index"
) GROUP BY task.agent_id"""  # noqa: S608
    for agent, ratings, mean in _rows(rated):
        yield {"agent": agent, "ratings": ratings, "mean_rating": float(mean)}


def _rows(statement: str, *times: datetime.datetime) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, [connection.ops.adapt_datetimefield_value(time) for time in times])
        found: list[tuple[Any, ...]] = cursor.fetchall()
    return found
