"""Tasks and artifacts made without a worker."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agentkit import Artifact, Completed, InputRequired
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.engine import accept
from apps.engine.accept import Receipt
from apps.record import ledger
from apps.record.events import EventType
from parley import db
from tests.working import begin, end

Said = Callable[..., dict[str, Any]]
WORDS = Artifact([{"text": "hello"}], name="words", artifact_id="one")


def delivered(user: User, agent: Agent, message: dict[str, Any], artifacts: Sequence[Artifact] = ()) -> Receipt:
    receipt = accept.accept(user.principal, agent, message)
    end(begin(receipt.run), Completed("Done.", list(artifacts) or [WORDS]))
    return receipt


def asking(user: User, agent: Agent, message: dict[str, Any], schema: dict[str, Any] | None = None) -> Receipt:
    receipt = accept.accept(user.principal, agent, message)
    end(begin(receipt.run), InputRequired("How many?", "number", schema))
    return receipt


def rename(*contexts: uuid.UUID) -> None:
    """Rename sessions: each gets the number of its last event as title."""
    for context in contexts:
        with ledger.writing(context) as log:
            log.add(EventType.SESSION_RENAMED, {"title": f"{log.context.last_event}"})


@dataclass
class Making:
    ada: User
    agent: Agent
    said: Said

    async def sent(self, **message: Any) -> Receipt:
        return await db.run(accept.accept, self.ada.principal, self.agent, self.said(**message))

    async def delivered(self, *artifacts: Artifact, **message: Any) -> Receipt:
        return await db.run(delivered, self.ada, self.agent, self.said(**message), artifacts)

    async def asking(self, schema: dict[str, Any] | None = None, **message: Any) -> Receipt:
        return await db.run(asking, self.ada, self.agent, self.said(**message), schema)
