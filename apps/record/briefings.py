"""What the agent of a turn is told beside its message, such as the session's project. Apps add `turn_briefings`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.record.events import JSON
from apps.record.models import Context
from parley.registry import added


@dataclass(frozen=True)
class Asked:
    """Who asks which agent, in which session.

    Attributes:
        user: the key of the person whose task it is.
        author: of who wrote the message; another person's in a session that several share.
        find_principal: the person with their rights, which may need a query.
        is_limited: whether the credential that they use reaches only some agents.
    """

    user: int
    workspace: int
    context: Context
    agent: Agent
    author: int | None
    find_principal: Callable[[], Principal]
    is_limited: bool = False

    @cached_property
    def principal(self) -> Principal:
        return self.find_principal()


@dataclass(frozen=True, slots=True)
class Briefing:
    """Something that agents are told. All attempts of a turn are told the same.

    Attributes:
        note: what is told, as the run's input keeps it; None: nothing. No query where nothing can be told.
        read: of that, the JSON that the agent gets, as the extension has it; None if nothing is left.
        extension: the end of the URI by which a remote agent's card asks for it.
        is_of_agent: whether `note` depends on the agent. Then a fallback is not told.
    """

    note: Callable[[Asked], JSON | None]
    extension: str
    read: Callable[[JSON], JSON | None] = dict
    is_of_agent: bool = False


def briefings() -> dict[str, Briefing]:
    """By their names in the run's input."""
    found: dict[str, Briefing] = added["turn_briefings"]
    return found


def noted(asked: Asked) -> JSON:
    """What a new turn's agent is told, for the run's input."""
    notes = {name: one.note(asked) for name, one in briefings().items()}
    return {name: note for name, note in notes.items() if note is not None}


def noted_before(given: JSON, *, by_fallback: bool) -> JSON:
    """What an earlier attempt with this input was told, for the next one."""
    told = {name: one for name, one in briefings().items() if name in given and not (by_fallback and one.is_of_agent)}
    return {name: given[name] for name in told}


def read(given: JSON) -> JSON:
    """What a run's input says that its agent is told, by the briefings' names."""
    found = {name: one.read(given[name]) for name, one in briefings().items() if name in given}
    return {name: told for name, told in found.items() if told is not None}
