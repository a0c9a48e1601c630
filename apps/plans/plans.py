"""The plan that a run goes by: the definition of its version, and what follows from that, read once in a process."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from apps.agents import versions
from apps.plans import graphs
from apps.plans.definitions import PlanDefinition, StepDefinition


@dataclass(frozen=True)
class Plan:
    """A definition, with what follows from it.

    Attributes:
        needs: of each step, the keys of those that it needs.
        taken: of each fan-out, those of which its list is made, and of which an element sees its own part alone.
    """

    definition: PlanDefinition
    needs: Mapping[str, set[str]]
    taken: Mapping[str, frozenset[str]]
    outputs: list[str]

    def title_of(self, key: str) -> str:
        return self.definition.steps[key].title or key.replace("_", " ")

    def step(self, key: str) -> StepDefinition:
        return self.definition.steps[key]


@lru_cache(maxsize=200)
def plan_at(version: uuid.UUID) -> Plan:
    """The plan of an agent's version, which never changes."""
    definition = PlanDefinition.read(versions.version_at(version).content)
    taken = {key: graphs.listed_alone(step) for key, step in definition.steps.items()}
    return Plan(definition, graphs.dependencies(definition), taken, graphs.outputs(definition))
