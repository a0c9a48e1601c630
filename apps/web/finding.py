"""The list of agents, searched and narrowed by what an address asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import QueryDict

from apps.accounts.principals import Principal
from apps.agents import finding
from apps.agents.models import Agent
from apps.remote import uptime
from apps.remote.uptime import Uptime
from apps.web import paces
from apps.web.paces import Pace

LONGEST = 200  # characters of what is searched for
HEALTH = {"ok": "Well", "degraded": "Has trouble", "unavailable": "Not available"}
KINDS = {
    Agent.Kind.HOSTED: "Runs here",
    Agent.Kind.REMOTE: "Runs elsewhere",
    Agent.Kind.MODEL: "A language model, set up here",
    Agent.Kind.PLAN: "A plan that others work at",
}
"""What each kind of agent is, in people's words."""


@dataclass(frozen=True, slots=True)
class Option:
    """One value of a filter, and how many agents it leaves of all."""

    value: str
    label: str
    count: int


@dataclass(frozen=True, slots=True)
class Filter:
    """One choice of the form: its name in the address, its label, what may be chosen, what is."""

    name: str
    label: str
    options: list[Option]
    chosen: str


@dataclass(frozen=True, slots=True)
class Found:
    """What the list shows. `uptimes` are those of the remote agents in it."""

    agents: list[Agent]
    filters: list[Filter]
    text: str
    uptimes: dict[int, Uptime]
    paces: dict[int, Pace]

    @property
    def is_narrowed(self) -> bool:
        return bool(self.text) or self.has_filters

    @property
    def has_filters(self) -> bool:
        return any(one.chosen for one in self.filters)

    @property
    def query(self) -> str:
        """The address's query that finds this again; empty for all."""
        asked = {"q": self.text} | {one.name: one.chosen for one in self.filters}
        return urlencode({name: value for name, value in asked.items() if value})


FILTERS: dict[str, tuple[str, Callable[[Agent], Iterable[str]]]] = {
    "skill": ("Skill", lambda agent: finding.skills_of([agent])),
    "tag": ("Tag", lambda agent: finding.tags_of([agent])),
    "mode": ("Files and formats", lambda agent: finding.modes_of([agent])),
    "kind": ("Where it runs", lambda agent: [agent.kind]),
    "health": ("Health", lambda agent: [agent.health]),
}
"""What the list is narrowed by: the label of each filter, and the values that an agent has for it."""

LABELS: dict[str, dict[str, str]] = {"health": HEALTH, "kind": {str(kind): word for kind, word in KINDS.items()}}


def search(principal: Principal, asked: QueryDict) -> Found:
    """The agents that a person may use and that fit; what an address asks for that there is not, nobody has."""
    text = asked.get("q", "").replace("\x00", "").strip()[:LONGEST]
    chosen = {name: asked.get(name, "").replace("\x00", "")[:LONGEST] for name in FILTERS}
    everybody = finding.find(principal)
    narrowed = text or any(chosen.values())
    agents = finding.find(principal, text, **chosen) if narrowed else everybody
    remote = [agent for agent in agents if agent.kind == Agent.Kind.REMOTE]
    uptimes = uptime.of_all(remote) if remote else {}
    return Found(agents, _filters(everybody, chosen), text, uptimes, paces.of_all(agents, uptimes))


def _filters(agents: list[Agent], chosen: dict[str, str]) -> list[Filter]:
    return [
        Filter(name, label, _options(agents, values, LABELS.get(name, {})), chosen[name])
        for name, (label, values) in FILTERS.items()
    ]


def _options(agents: list[Agent], values: Callable[[Agent], Iterable[str]], labels: dict[str, str]) -> list[Option]:
    counts = Counter(value for agent in agents for value in values(agent))
    options = [Option(value, labels.get(value, value), count) for value, count in counts.items()]
    return sorted(options, key=lambda one: one.label.casefold())
