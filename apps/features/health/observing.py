"""Looking after agents: how they do (`measuring`), and whether they can work at all."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from django.conf import settings
from django.utils import timezone
from django.utils.module_loading import import_string

from apps.agents.models import Agent, AgentStats
from apps.features.health.measuring import measure

log = logging.getLogger("parley.engine")

ENOUGH = 5  # runs, before an agent is said to fail more often than not


@dataclass(frozen=True, slots=True)
class Mild:
    """An ailment with which an agent can work, but not as well as it should."""

    told: str


Examiner = Callable[[Agent], str | Mild]


def observe() -> None:
    """Measure all agents and note how they are. It is safe to run it anywhere, at any time, twice."""
    measure()
    examine()


def examine() -> None:
    """Note the health of every agent that is switched on, and log what changed."""
    stats = AgentStats.objects.in_bulk()
    for agent in Agent.objects.enabled().select_related("current_version"):
        note(agent, stats.get(agent.pk))


def note(agent: Agent, stats: AgentStats | None) -> None:
    """Note the health of an agent; its card changes with it."""
    health, ailment = health_of(agent, stats)
    if (agent.health, agent.ailment) == (health, ailment):
        return
    # Only from what was read: what another process has noted meanwhile is newer.
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
    """How an agent is, and what is wrong with it in a sentence for operators."""
    ailment = ailment_of(agent)
    if isinstance(ailment, str) and ailment:
        return Agent.Health.UNAVAILABLE, ailment
    if isinstance(ailment, Mild):
        return Agent.Health.DEGRADED, ailment.told
    if stats and stats.newest_runs >= ENOUGH and 2 * stats.newest_succeeded < stats.newest_runs:
        failed = stats.newest_runs - stats.newest_succeeded
        return Agent.Health.DEGRADED, f"Of its newest {stats.newest_runs} turns {failed} failed."
    return Agent.Health.OK, ""


def ailment_of(agent: Agent) -> str | Mild:
    """What is wrong with the agent, by whoever `EXAMINERS` names for its kind: a plain sentence if it cannot work."""
    path = settings.EXAMINERS.get(agent.kind)
    if not path:
        return ""
    examine_one: Examiner = import_string(path)
    return examine_one(agent)
