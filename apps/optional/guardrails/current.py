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


_kept = Snapshot()


def forget() -> None:
    """Read the rows again before the next use."""
    keep(replace(_kept, read_at=float("-inf")))


def keep(known: Snapshot) -> None:
    """For tests: what was read last."""
    global _kept
    _kept = known


async def guard_for(agent: Agent, workspace: int | None) -> RailGuard | None:
    """What checks the turns of an agent for a workspace (`turn_guards`)."""
    known = _kept
    if time.monotonic() - known.read_at >= REFRESH_SECONDS:
        known = await db.run(_read)
    if not known.rails:
        return None
    holding = of(known.rails, agent, workspace)
    return RailGuard(holding) if holding else None


def of(rails: Sequence[Rail], agent: Agent, workspace: int | None) -> list[Rail]:
    """Those that hold for the agent in a workspace: also the installation's, and those of the agent's workspace."""
    places = {None, workspace, agent.workspace_id}
    found = [one for one in rails if one.row.workspace_id in places]
    return [one for one in found if not one.row.agents or agent.slug in one.row.agents]


def rails_now() -> Sequence[Rail]:
    """For database threads."""
    return _kept.rails if time.monotonic() - _kept.read_at < REFRESH_SECONDS else _read().rails


def _read() -> Snapshot:
    """Without the database, what was read last stays."""
    started = time.monotonic()
    try:
        rows = list(Guardrail.objects.filter(is_on=True).order_by("order", "created_at"))
    except DatabaseError as problem:
        log.warning("the guardrails cannot be read: %s", problem)
        return _kept
    found = Snapshot([Rail(row) for row in rows], started)
    keep(found)
    return found
