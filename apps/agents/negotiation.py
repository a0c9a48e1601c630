"""Whether an agent would take some work, and how well it fits. Formulas without a database.

docs/extensions/negotiation-v1.md describes them for callers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from apps.agents.models import Agent
from apps.agents.search import SkillMatch

JSON = dict[str, Any]

GOOD_MATCH = 0.3  # a better skill adds to the confidence
MATCHES_SHOWN = 5  # of one agent
DIGITS = 4  # after the decimal point


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the subscores, not normalized."""

    skill: float = 0.55
    io: float = 0.20
    performance: float = 0.15
    load: float = 0.05
    cost: float = 0.05

    def applied_to(self, subscores: Subscores) -> float:
        """The weighted mean. Not all weights may be zero."""
        weights, scores = asdict(self), asdict(subscores)
        total: float = sum(weight * scores[name] for name, weight in weights.items()) / sum(weights.values())
        return total


@dataclass(frozen=True, slots=True)
class Subscores:
    """Each from 0 to 1."""

    skill: float
    io: float
    performance: float
    load: float
    cost: float


@dataclass(frozen=True, slots=True)
class WorkRequest:
    """Work to assess. None and empty lists set no requirement."""

    summary: str
    details: str = ""
    input_types: Sequence[str] = ()
    output_types: Sequence[str] = ()
    max_latency_ms: int | None = None
    max_cost: float | None = None
    required_tools: Sequence[str] = ()
    forbidden_tools: Sequence[str] = ()
    min_score: float = 0.0
    weights: Weights = Weights()

    @property
    def text(self) -> str:
        return f"{self.summary}\n{self.details}".strip()


@dataclass(frozen=True, slots=True)
class Measurements:
    """Measurements of an agent; None means unknown."""

    latency_ms: int | None = None
    queue_depth: int | None = None


@dataclass(frozen=True, slots=True)
class Assessment:
    """The answer for one agent. `rejection` is one of the extension's reasons, or None."""

    agent: Agent
    score: float
    confidence: float
    rejection: str | None
    matches: Sequence[SkillMatch]  # the best first
    matched_tags: Sequence[str]
    facts: Measurements
    subscores: Subscores

    @property
    def accepted(self) -> bool:
        return self.rejection is None

    @property
    def rank(self) -> tuple[bool, float, str]:
        """The sort key. An unhealthy agent counts half."""
        counted = self.score if self.agent.health == Agent.Health.OK else self.score / 2
        return not self.accepted, -counted, self.agent.slug

    @property
    def wire(self) -> JSON:
        return {
            "accepted": self.accepted,
            "score": round(self.score, DIGITS),
            "confidence": round(self.confidence, DIGITS),
            "rejection_reason": self.rejection,
            "skill_matches": [
                {
                    "skill_id": match.skill["id"],
                    "skill_name": match.skill["name"],
                    "score": round(match.score, DIGITS),
                    "reasons": match.reasons,
                }
                for match in self.matches[:MATCHES_SHOWN]
            ],
            "matched_tags": list(self.matched_tags),
            "latency_estimate_ms": self.facts.latency_ms,
            "queue_depth": self.facts.queue_depth,
            "subscores": {name: round(value, DIGITS) for name, value in asdict(self.subscores).items()},
        }


def assess(ask: WorkRequest, agent: Agent, facts: Measurements, skills: Sequence[SkillMatch]) -> Assessment:
    """How well an agent fits. `skills` has the match of each of its skills."""
    matches = sorted((match for match in skills if match.score > 0), key=lambda match: -match.score)
    best = matches[0].score if matches else 0.0
    subscores = Subscores(
        skill=best,
        io=io_score(ask, agent),
        performance=performance_score(facts.latency_ms, ask.max_latency_ms),
        load=load_score(facts.queue_depth),
        cost=cost_score(agent.cost, ask.max_cost),
    )
    score = ask.weights.applied_to(subscores) if agent.is_available else 0.0
    return Assessment(
        agent,
        score,
        confidence_in(ask, facts, best),
        next(rejection_reasons(ask, agent, facts, score), None),
        matches,
        list(dict.fromkeys(tag for match in matches for tag in match.tags)),
        facts,
        subscores,
    )


def rejection_reasons(ask: WorkRequest, agent: Agent, facts: Measurements, score: float) -> Iterator[str]:
    """Why the agent would refuse, the main reason first."""
    if not agent.skills and not agent.description.strip():
        yield "no_skills_advertised"
    if not all(map(agent.takes, ask.input_types)):
        yield "input_mime_unsupported"
    if ask.output_types and not agent.makes_any_of(ask.output_types):
        yield "output_mime_unsupported"
    if not set(ask.required_tools) <= set(agent.tools):
        yield "required_tool_missing"
    if not set(ask.forbidden_tools).isdisjoint(agent.tools):
        yield "forbidden_tool_present"
    if ask.max_cost is not None and agent.cost > ask.max_cost:
        yield "cost_exceeds_budget"
    if ask.max_latency_ms is not None and (facts.latency_ms or 0) > 2 * ask.max_latency_ms:
        yield "latency_exceeds_constraint"
    if score < ask.min_score or not agent.is_available:
        yield "score_below_threshold"


def io_score(ask: WorkRequest, agent: Agent) -> float:
    """The share of the requested media types that the agent takes and makes; 1 if none is requested."""
    fits = [agent.takes(one) for one in ask.input_types]
    fits += [agent.makes_any_of([one]) for one in ask.output_types]
    return sum(fits) / len(fits) if fits else 1.0


def performance_score(estimate_ms: int | None, limit_ms: int | None) -> float:
    """1 without a limit, one half without an estimate."""
    if limit_ms is None:
        return 1.0
    return 0.5 if estimate_ms is None else max(0.0, 1 - estimate_ms / limit_ms)


def load_score(queue_depth: int | None) -> float:
    return 0.5 if queue_depth is None else 1 / (1 + queue_depth)


def cost_score(cost: float, budget: float | None) -> float:
    if cost == 0:
        return 1.0
    if budget is None:
        return 0.5
    return max(0.0, 1 - 0.5 * cost / budget) if budget > 0 else 0.0


def confidence_in(ask: WorkRequest, facts: Measurements, best: float) -> float:
    """Rises with the number of known facts."""
    known = (bool(ask.input_types or ask.output_types), facts.latency_ms is not None, facts.queue_depth is not None)
    return min(1.0, 0.5 + (0.2 if best > GOOD_MATCH else 0.1) + 0.1 * sum(known))
