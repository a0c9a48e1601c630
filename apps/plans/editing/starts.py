"""What a new plan can start from: the files in `definitions`, whose agents are roles that the person fills."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings

from apps.plans.definitions import read_yaml
from apps.plans.editing import texts
from apps.record.errors import InvalidParams
from apps.record.events import JSON

FOLDER = Path(__file__).parent / "definitions"
ORDER = ("review", "research", "approval", "translation", "empty")


@dataclass(frozen=True, slots=True)
class Start:
    """A definition to start from. Its name and description say what it is."""

    slug: str
    text: str
    content: JSON

    @property
    def name(self) -> str:
        return str(self.content["name"])

    @property
    def description(self) -> str:
        return str(self.content["description"])

    @property
    def roles(self) -> list[str]:
        """The agents that it names, each a role such as `writer`."""
        named = (step.get("agent") for step in self.content["steps"].values())
        return list(dict.fromkeys(role for role in named if role))

    def filled(self, chosen: Mapping[str, str], agents: Sequence[tuple[str, str]]) -> str:
        """The definition with an agent for each role, of those that the person may use; a usual one if none is chosen.

        Raises InvalidParams if there is no agent.
        """
        usual = usual_agent(agents)
        known = dict(agents)
        steps: dict[str, Any] = {}
        for key, step in self.content["steps"].items():
            role = step.get("agent")
            agent = chosen.get(role, "") if role else ""
            steps[key] = {**step, "agent": agent if agent in known else usual} if role else step
        return texts.rewrite(self.text, {**self.content, "steps": steps})


def usual_agent(agents: Sequence[tuple[str, str]]) -> str:
    """The default agent if it is among these, or else the first. Raises InvalidParams if there is none."""
    slugs = [slug for slug, _ in agents]
    if not slugs:
        raise InvalidParams("There is no agent that you may use. Make one first, or ask an operator.")
    return settings.DEFAULT_AGENT if settings.DEFAULT_AGENT in slugs else slugs[0]


@cache
def starts() -> dict[str, Start]:
    """By their slugs, in the order in which they are offered."""
    found = {}
    for slug in ORDER:
        text = (FOLDER / f"{slug}.yaml").read_text(encoding="utf-8")
        found[slug] = Start(slug, text, read_yaml(text))
    return found
