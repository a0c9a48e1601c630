"""The list of agents, searched and narrowed by what an address asks for."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import QueryDict

from apps.accounts.principals import Principal
from apps.agents import finding
from apps.agents.models import Agent
from apps.gateway import uptime
from apps.gateway.uptime import Uptime

LONGEST = 200  # characters of what is searched for
HEALTH = {"ok": "Well", "degraded": "Has trouble", "unavailable": "Not available"}


@dataclass(frozen=True, slots=True)
class Filter:
    """One choice of the form: its name in the address, its label, what may be chosen, what is."""

    name: str
    label: str
    options: list[tuple[str, str]]
    chosen: str


@dataclass(frozen=True, slots=True)
class Found:
    """What the list shows. `uptimes` are those of the remote agents in it."""

    agents: list[Agent]
    filters: list[Filter]
    text: str
    uptimes: dict[int, Uptime]

    @property
    def is_narrowed(self) -> bool:
        return bool(self.text) or self.has_filters

    @property
    def has_filters(self) -> bool:
        return any(one.chosen for one in self.filters)


def search(principal: Principal, asked: QueryDict) -> Found:
    """The agents that a person may use and that fit; what an address asks for that there is not, nobody has."""
    text = asked.get("q", "").replace("\x00", "").strip()[:LONGEST]
    chosen = {name: asked.get(name, "").replace("\x00", "")[:LONGEST] for name in ("skill", "tag", "mode", "health")}
    everybody = finding.find(principal)
    narrowed = text or any(chosen.values())
    agents = finding.find(principal, text, **chosen) if narrowed else everybody
    remote = [agent for agent in agents if agent.kind == Agent.Kind.REMOTE]
    return Found(agents, _filters(everybody, chosen), text, uptime.of_all(remote) if remote else {})


def _filters(agents: list[Agent], chosen: dict[str, str]) -> list[Filter]:
    skills = sorted({skill["name"] for agent in agents for skill in agent.skills}, key=str.casefold)
    told = {
        "skill": ("Skill", [(one, one) for one in skills]),
        "tag": ("Tag", [(one, one) for one in finding.tags_of(agents)]),
        "mode": ("Files and formats", [(one, one) for one in finding.modes_of(agents)]),
        "health": ("Health", list(HEALTH.items())),
    }
    return [Filter(name, label, options, chosen[name]) for name, (label, options) in told.items()]
