"""How long the newest turns of agents took, in one statement for all of them."""

from __future__ import annotations

from collections.abc import Collection

from django.db import connection

from apps.agents.models import Agent
from apps.features.health.measuring import SECONDS

NEWEST = 30  # tasks of each agent, the runs of which are looked at

# The newest tasks of each agent, along their index. SQLite knows no LATERAL: there, those since a time.
TASKS = {
    "postgresql": f"""newest AS (
    SELECT agent.id AS agent_id, task.id AS task_id FROM agents_agent agent CROSS JOIN LATERAL (
        SELECT id FROM record_task WHERE agent_id = agent.id ORDER BY created_at DESC LIMIT {NEWEST}
    ) task WHERE agent.id IN ({{keys}})
)""",  # noqa: S608
    "sqlite": f"""newest AS (
    SELECT agent.id AS agent_id, task.id AS task_id
    FROM agents_agent agent JOIN record_task task ON task.agent_id = agent.id AND task.created_at >= COALESCE((
        SELECT created_at FROM record_task older WHERE older.agent_id = agent.id
        ORDER BY created_at DESC LIMIT 1 OFFSET {NEWEST - 1}
    ), '')
    WHERE agent.id IN ({{keys}})
)""",  # noqa: S608
}


def newest(agents: Collection[Agent]) -> dict[int, list[float]]:
    """The seconds that newest turns took which succeeded, the oldest first, by the agents' keys; one statement."""
    found: dict[int, list[float]] = {agent.pk: [] for agent in agents}
    if not found:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_statement(len(found)), list(found))
        for key, seconds in cursor.fetchall():
            found[key].append(max(0.0, float(seconds)))
    return found


def _statement(agents: int) -> str:
    vendor = connection.vendor
    tasks = TASKS[vendor].format(keys=", ".join(["%s"] * agents))
    seconds = SECONDS[vendor].format(since="run.started_at", to="run.finished_at")
    return f"""
WITH {tasks}
SELECT newest.agent_id, {seconds} FROM newest JOIN record_run run ON run.task_id = newest.task_id
WHERE run.state = 'done' AND run.started_at IS NOT NULL AND run.finished_at IS NOT NULL AND run.agent_id IS NULL
ORDER BY run.finished_at, run.id"""  # noqa: S608 (nothing in it comes from outside)
