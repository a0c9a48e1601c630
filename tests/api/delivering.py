"""Tasks and what they deliver, made by hand: no worker is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agentkit import Artifact, Completed, InputRequired
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.conversations import intake
from apps.conversations.intake import Receipt
from tests.working import begin, end

Said = Callable[..., dict[str, Any]]


def delivered(user: User, agent: Agent, message: dict[str, Any], artifacts: Sequence[Artifact] = ()) -> Receipt:
    """A task of the user's that is completed."""
    receipt = intake.accept(user.principal, agent, message)
    end(
        begin(receipt.run),
        Completed("Done.", list(artifacts) or [Artifact([{"text": "hello"}], name="words", artifact_id="one")]),
    )
    return receipt


def asking(user: User, agent: Agent, message: dict[str, Any], schema: dict[str, Any] | None = None) -> Receipt:
    """A task of the user's that asks for something."""
    receipt = intake.accept(user.principal, agent, message)
    end(begin(receipt.run), InputRequired("How many?", "number", schema))
    return receipt
