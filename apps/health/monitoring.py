"""Monitoring agents: their stats, measured from the record, and their health.

All agents are measured every half minute, in a few statements. Then `examiners`, by kind, say whether each can work.
The newest runs are found along an index, and totals continue from the last count.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Iterator
from typing import Any

from django.db import connection
from django.db.models import Count
from django.utils import timezone

from apps.agents.models import Agent, AgentStats
from apps.engine.turns.handlers import Impairment
from apps.record.execution import Run
from apps.record.models import Message
from parley.db import sql
from parley.db.sql import write_transaction
from parley.registry import added

log = logging.getLogger("parley.engine")

MIN_RUNS = 5  # before an agent can be degraded by failures
MEASURED_RUNS = 200  # newest runs
SEARCHED_TASKS = 400  # newest tasks among which those are found
LATENCY_TASKS = 30
HEALTH_RUNS = 20  # newest runs that decide health
DAY = datetime.timedelta(days=1)
LONGEST_TRANSACTION = datetime.timedelta(minutes=5)  # older rows are visible by now
Row = dict[str, Any]
RUN_COLUMNS = (
    "runs", "succeeded", "newest_runs", "newest_succeeded", "took_p50", "took_p95", "waited_p50", "waited_p95",
    "input_tokens", "output_tokens",
)  # fmt: skip
SECONDS_SQL = {
    "postgresql": "EXTRACT(EPOCH FROM {to} - {since})::float8",
    "sqlite": "(julianday({to}) - julianday({since})) * 86400.0",
}
NUMBER_SQL = {
    "postgresql": "COALESCE((run.usage ->> '{name}')::bigint, 0)",
    "sqlite": "COALESCE(CAST(json_extract(run.usage, '$.{name}') AS INTEGER), 0)",
}
BEGINNING_SQL = {"postgresql": "'-infinity'::timestamptz", "sqlite": "''"}
RATING_SQL = {
    "postgresql": "(event.payload ->> 'rating')::integer",
    "sqlite": "json_extract(event.payload, '$.rating')",
}


Examiner = Callable[[Agent], str | Impairment]


def observe() -> None:
    """Measures agents and says which of them are healthy.

    Several processes may call it at the same time.
    """
    measure_agents()
    examine_agents()


def examine_agents() -> None:
    stats = AgentStats.objects.in_bulk()
    for agent in Agent.objects.enabled().select_related("current_version"):
        record_health(agent, stats.get(agent.pk))


def record_health(agent: Agent, stats: AgentStats | None) -> None:
    health, ailment = health_of(agent, stats)
    if (agent.health, agent.ailment) == (health, ailment):
        return
    # Writes only if these values are unchanged: another process may have noted newer ones.
    read = {name: getattr(agent, name) for name in ("health", "ailment", "handler", "current_version_id")}
    noted = Agent.objects.filter(pk=agent.pk, **read)
    if noted.update(health=health, ailment=ailment, updated_at=timezone.now()):
        log.log(
            logging.INFO if health == Agent.Health.OK else logging.WARNING,
            "agent %s is %s. %s",
            agent.slug,
            health,
            ailment,
        )


def health_of(agent: Agent, stats: AgentStats | None) -> tuple[Agent.Health, str]:
    ailment = health_problem(agent)
    if isinstance(ailment, str) and ailment:
        return Agent.Health.UNAVAILABLE, ailment
    if isinstance(ailment, Impairment):
        return Agent.Health.DEGRADED, ailment.reason
    if stats and stats.newest_runs >= MIN_RUNS and 2 * stats.newest_succeeded < stats.newest_runs:
        failed = stats.newest_runs - stats.newest_succeeded
        return Agent.Health.DEGRADED, f"{failed} of its last {stats.newest_runs} turns failed."
    return Agent.Health.OK, ""


def health_problem(agent: Agent) -> str | Impairment:
    """Why the agent cannot work, by the examiner of its kind; a plain sentence, or ""."""
    examine_one: Examiner | None = added["examiners", agent.kind]
    return examine_one(agent) if examine_one else ""


def measure_agents() -> None:
    now = sql.database_time()
    measured: dict[int, Row] = {agent: {} for agent in Agent.objects.values_list("pk", flat=True)}
    sources = (
        _recent_run_stats(),
        _unfinished_run_counts(),
        _task_counts(now),
        _message_counts(now),
        _feedback_ratings(),
    )
    for rows in sources:
        for row in rows:
            measured.get(row.pop("agent"), {}).update(row)
    stats = [
        AgentStats(agent_id=agent, updated_at=now, counted_to=now - LONGEST_TRANSACTION, **row)
        for agent, row in measured.items()
    ]
    fields = [field.name for field in AgentStats._meta.fields if not field.primary_key]
    with write_transaction():
        known = set(Agent.objects.values_list("pk", flat=True))
        AgentStats.objects.bulk_create(
            [one for one in stats if one.pk in known],
            update_conflicts=True, unique_fields=["agent"], update_fields=fields, batch_size=500,
        )  # fmt: skip


def recent_runs_sql() -> str:
    """The statement that measures recent runs. Percentiles are by nearest rank."""
    vendor = connection.vendor
    seconds = SECONDS_SQL[vendor]
    return f"""
WITH {_newest_tasks_sql(SEARCHED_TASKS)}, ended AS (
    SELECT newest.agent_id, run.state,
        {seconds.format(since="run.started_at", to="run.finished_at")} AS took,
        {seconds.format(since="run.queued_at", to="run.started_at")} AS waited,
        {NUMBER_SQL[vendor].format(name="inputTokens")} AS input_tokens,
        {NUMBER_SQL[vendor].format(name="outputTokens")} AS output_tokens,
        ROW_NUMBER() OVER (PARTITION BY newest.agent_id ORDER BY run.finished_at DESC, run.id) AS age
    FROM newest JOIN record_run run ON run.task_id = newest.task_id
    WHERE run.state IN ('done', 'failed') AND run.finished_at IS NOT NULL AND run.agent_id IS NULL
), recent AS (
    SELECT ended.*,
        ROW_NUMBER() OVER (PARTITION BY agent_id, state ORDER BY took) AS by_took,
        ROW_NUMBER() OVER (PARTITION BY agent_id, state ORDER BY waited) AS by_waited,
        COUNT(*) OVER (PARTITION BY agent_id, state) AS alike
    FROM ended WHERE age <= {MEASURED_RUNS}
)
SELECT agent_id,
    COUNT(*),
    SUM(CASE WHEN state = 'done' THEN 1 ELSE 0 END),
    SUM(CASE WHEN age <= {HEALTH_RUNS} THEN 1 ELSE 0 END),
    SUM(CASE WHEN age <= {HEALTH_RUNS} AND state = 'done' THEN 1 ELSE 0 END),
    {_percentile("took", 50)}, {_percentile("took", 95)}, {_percentile("waited", 50)}, {_percentile("waited", 95)},
    SUM(input_tokens), SUM(output_tokens)
FROM recent GROUP BY agent_id"""  # noqa: S608 (nothing in it comes from outside)


def _newest_tasks_sql(number: int, condition: str = "") -> str:
    """`newest`: that many tasks of each agent (for which the condition holds), along their index.

    SQLite has no LATERAL. On PostgreSQL a time limit, as for SQLite, would make the planner's estimates wrong.
    """
    if connection.vendor == "postgresql":
        return f"""newest AS (
    SELECT agent.id AS agent_id, task.id AS task_id FROM agents_agent agent CROSS JOIN LATERAL (
        SELECT id FROM record_task WHERE agent_id = agent.id ORDER BY created_at DESC LIMIT {number}
    ) task {condition}
)"""  # noqa: S608
    return f"""since AS MATERIALIZED (
    SELECT agent.id AS agent_id, COALESCE((
        SELECT created_at FROM record_task task WHERE task.agent_id = agent.id
        ORDER BY created_at DESC LIMIT 1 OFFSET {number - 1}
    ), '') AS at
    FROM agents_agent agent {condition}
), newest AS (
    SELECT since.agent_id, task.id AS task_id
    FROM since JOIN record_task task ON task.agent_id = since.agent_id AND task.created_at >= since.at
)"""  # noqa: S608


def _percentile(column: str, percent: int) -> str:
    return f"MAX(CASE WHEN state = 'done' AND by_{column} = (alike * {percent} + 99) / 100 THEN {column} END)"


def _recent_run_stats() -> Iterator[Row]:
    for agent, *values in _rows(recent_runs_sql()):
        yield {"agent": agent, **dict(zip(RUN_COLUMNS, values, strict=True))}


def _unfinished_run_counts() -> Iterator[Row]:
    unfinished: Any = Run.objects.unfinished().order_by().values_list("task__agent", "state")
    for agent, state, count in unfinished.annotate(Count("pk")):
        yield {"agent": agent, str(state): count}


def _task_counts(now: datetime.datetime) -> Iterator[Row]:
    created = "SELECT COUNT(*) FROM record_task task WHERE task.agent_id = agent.id AND task.created_at >"
    before = f"COALESCE(stats.counted_to, {BEGINNING_SQL[connection.vendor]})"
    counted = f"""
SELECT agent.id, COALESCE(stats.tasks_counted, 0),
    ({created} {before} AND task.created_at <= %s), ({created} %s AND task.created_at > {before}), ({created} %s)
FROM agents_agent agent LEFT JOIN agents_agentstats stats ON stats.agent_id = agent.id"""  # noqa: S608
    for agent, known, settled, fresh, of_a_day in _rows(
        counted, now - LONGEST_TRANSACTION, now - LONGEST_TRANSACTION, now - DAY
    ):
        told = {"tasks_counted": known + settled, "tasks": known + settled + fresh, "tasks_of_a_day": of_a_day}
        yield {"agent": agent, **told}


def _message_counts(now: datetime.datetime) -> Iterator[Row]:
    counted = f"""
WITH known AS MATERIALIZED (
    SELECT agent.id AS agent_id, COALESCE(stats.messages_counted, 0) AS counted,
        COALESCE(stats.counted_to, {BEGINNING_SQL[connection.vendor]}) AS upto
    FROM agents_agent agent LEFT JOIN agents_agentstats stats ON stats.agent_id = agent.id
), answered AS (
    SELECT message.agent_id, message.created_at FROM record_message message
    WHERE message.task_id IS NULL AND message.role = 'agent' AND message.created_at > (SELECT MIN(upto) FROM known)
)
SELECT known.agent_id, known.counted,
    SUM(CASE WHEN answered.created_at > known.upto AND answered.created_at <= %s THEN 1 ELSE 0 END),
    SUM(CASE WHEN answered.created_at > known.upto AND answered.created_at > %s THEN 1 ELSE 0 END)
FROM known LEFT JOIN answered ON answered.agent_id = known.agent_id GROUP BY known.agent_id, known.counted"""  # noqa: S608
    for agent, known, settled, fresh in _rows(counted, now - LONGEST_TRANSACTION, now - LONGEST_TRANSACTION):
        yield {"agent": agent, "messages_counted": known + settled, "messages": known + settled + fresh}
    newest = Message.objects.filter(task=None, role=Message.Role.AGENT, created_at__gt=now - DAY).order_by()
    of_a_day: Any = newest.values_list("agent").annotate(Count("pk"))
    for agent, count in of_a_day:
        yield {"agent": agent, "messages_of_a_day": count}


def _feedback_ratings() -> Iterator[Row]:
    rated = f"""
SELECT task.agent_id, COUNT(*), AVG({RATING_SQL[connection.vendor]})
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


def recent_latencies(agent: Agent) -> list[float]:
    """The seconds that its newest successful turns took, oldest first. One statement."""
    with connection.cursor() as cursor:
        cursor.execute(_latencies_sql(), [agent.pk])
        return [max(0.0, float(seconds)) for (seconds,) in cursor.fetchall()]


def _latencies_sql() -> str:
    tasks = _newest_tasks_sql(LATENCY_TASKS, "WHERE agent.id = %s")
    seconds = SECONDS_SQL[connection.vendor].format(since="run.started_at", to="run.finished_at")
    return f"""
WITH {tasks}
SELECT {seconds} FROM newest JOIN record_run run ON run.task_id = newest.task_id
WHERE run.state = 'done' AND run.started_at IS NOT NULL AND run.finished_at IS NOT NULL AND run.agent_id IS NULL
ORDER BY run.finished_at, run.id"""  # noqa: S608 (nothing in it comes from outside)
