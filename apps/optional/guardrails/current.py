"""The rails as each process knows them, at most REFRESH_SECONDS old: a turn itself asks nothing of the database."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.db import DatabaseError

from apps.agents.models import Agent
from apps.optional.guardrails.checking import Rail, RailGuard
from apps.optional.guardrails.models import Guardrail
from parley import db

log = logging.getLogger("parley.guardrails")

REFRESH_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All rails that are on, in their order."""

    rails: Sequence[Rail] = ()
    read_at: float = float("-inf")  # by `time.monotonic`
    was_read: bool = True


_kept = Snapshot(was_read=False)


def forget() -> None:
    """Read the rows again before the next use."""
    keep(replace(_kept, read_at=float("-inf")))


def keep(known: Snapshot) -> None:
    """For tests: what was read last."""
    global _kept
    _kept = known


class NotRead(Exception):
    """This process has not read the guardrails yet, because it does not reach the database: nothing may pass."""


async def guard_for(agents: Sequence[Agent], workspace: int | None) -> RailGuard | None:
    """What checks the turns of agents for a workspace (`turn_guards`). Raises NotRead."""
    known = _kept
    if time.monotonic() - known.read_at >= REFRESH_SECONDS:
        known = await db.run(_read)
    if not known.rails:
        return None
    holding = [one for one in known.rails if any(holds(one, agent, workspace) for agent in agents)]
    return RailGuard(holding) if holding else None


def holds(rail: Rail, agent: Agent, workspace: int | None) -> bool:
    """For the agent in a workspace? So do the installation's, and those of the agent's workspace."""
    is_there = rail.row.workspace_id in (None, workspace, agent.workspace_id)
    return is_there and (not rail.row.agents or agent.slug in rail.row.agents)


def rails_now() -> Sequence[Rail]:
    """For database threads."""
    return _kept.rails if time.monotonic() - _kept.read_at < REFRESH_SECONDS else _read().rails


def _read() -> Snapshot:
    """Without the database, what was read last stays. Raises NotRead if nothing was."""
    started = time.monotonic()
    try:
        rows = list(Guardrail.objects.filter(is_on=True).order_by("order", "created_at"))
    except DatabaseError as problem:
        log.warning("the guardrails cannot be read: %s", problem)
        if not _kept.was_read:
            raise NotRead from problem
        return _kept
    found = Snapshot([Rail(row) for row in rows], started)
    keep(found)
    return found
