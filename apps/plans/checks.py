"""Can a plan be worked at here? Its agents have to be there, for whoever writes it and whoever starts it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django.core.exceptions import ValidationError

from apps.accounts.principals import Principal
from apps.agents import cards
from apps.agents.models import Agent
from apps.plans import graphs
from apps.plans.definitions import PlanDefinition
from apps.plans.graphs import Problems

MOST_PLANS = 200  # that are looked through for a circle
MOST_NAMED = 20


def check(definition: PlanDefinition, slug: str, principal: Principal | None = None) -> None:
    """Raises ValidationError where the plan `slug` could not work as it is defined, with sentences by their paths.

    `principal` is whoever writes it: they may name the agents that they may use; None is the installation itself.
    """
    found: dict[str, list[str]] = {}
    for path, sentence in [*graphs.problems(definition), *_of_installation(definition, slug, principal)]:
        found.setdefault(path, []).append(sentence)
    if found:
        raise ValidationError(found)


def closed_to(definition: PlanDefinition, principal: Principal) -> Problems:
    """The agents of the plan that this caller may not use, as sentences by their paths."""
    named = list(definition.agents())
    known = _found((slug for _, slug in named), principal)
    return [(path, _unknown(slug)) for path, slug in named if slug not in known]


def why_closed(definition: PlanDefinition, principal: Principal) -> str:
    """Why this caller cannot start the plan, as sentences; "" where they can."""
    closed = " ".join(f"{path}: {sentence}" for path, sentence in closed_to(definition, principal))
    return f"Whoever starts this plan must be able to use its agents. {closed}" if closed else ""


def ailment_of(agent: Agent) -> str:
    """Why a plan cannot be started, as a sentence for operators; "" where it can."""
    if agent.current_version is None:
        return "It has no definition. Register it again."
    try:
        check(PlanDefinition.read(agent.current_version.content), agent.slug)
    except ValidationError as error:
        path, sentences = next(iter(error.message_dict.items()))
        return f"{path}: {sentences[0]}"
    return ""


def _of_installation(definition: PlanDefinition, slug: str, principal: Principal | None) -> Iterator[tuple[str, str]]:
    named = list(definition.agents())
    known = _found([*(one for _, one in named), *definition.agent_limits], principal)
    for path, one in named:
        if one != slug and one not in known:
            yield path, _unknown(one)
    for one in definition.agent_limits:
        if one not in known:
            yield f"agent_limits.{one}", _unknown(one)
    yield from _of_skills(definition, known)
    yield from _of_circles(definition, slug, known)
    ids = [skill.id for skill in definition.skills]
    for number, one in enumerate(ids):
        if one in ids[:number]:
            yield f"skills.{number}.id", f"Two skills have the id {one}."


def _of_skills(definition: PlanDefinition, known: dict[str, Agent]) -> Iterator[tuple[str, str]]:
    for key, step in definition.steps.items():
        if not step.skill or not (agent := known.get(step.agent)):
            continue  # whether somebody has it who is found for `find` is known then
        ids = [skill["id"] for skill in cards.skills(agent)]
        if step.skill not in ids:
            listed = ", ".join(f"`{one}`" for one in ids[:MOST_NAMED])
            yield f"steps.{key}.skill", f"{agent.name} has no skill `{step.skill}`; it has {listed}."


def _of_circles(definition: PlanDefinition, slug: str, known: dict[str, Agent]) -> Iterator[tuple[str, str]]:
    """Plans that would call each other without end. Only those that the definition names can close a circle."""
    named = list(definition.agents())
    ways = {one: [one] if one == slug else _way(one, slug, known) for one in dict.fromkeys(one for _, one in named)}
    for path, one in named:
        if way := ways[one]:
            circle = " → ".join([slug, *way])
            said = "A plan cannot name itself" if way == [slug] else "These plans name each other in a circle"
            yield path, f"{said}: {circle}."


def _way(start: str, end: str, known: dict[str, Agent]) -> list[str]:
    """From one plan to another, by the agents that plans name; empty where there is no way."""
    came_from = {start: ""}
    waiting = [known[start]] if start in known else []
    while waiting and len(came_from) <= MOST_PLANS:
        named = {one: agent.slug for agent in waiting for one in _named_by(agent)}
        fresh = {one: before for one, before in named.items() if one not in came_from}
        came_from |= fresh
        if end in fresh:
            return _walked(came_from, end)
        waiting = list(_found(fresh, None).values())
    return []


def way_back(agent: Agent, plans: Iterable[str]) -> list[str]:
    """How a plan would come to call one of these, or is one, by the agents that plans name; empty: it would not."""
    if agent.kind != Agent.Kind.PLAN:
        return []
    ways = ([agent.slug] if agent.slug == one else _way(agent.slug, one, {agent.slug: agent}) for one in plans)
    return next(filter(None, ways), [])


def _walked(came_from: dict[str, str], end: str) -> list[str]:
    way = [end]
    while before := came_from[way[0]]:
        way.insert(0, before)
    return way


def _named_by(agent: Agent) -> set[str]:
    if agent.kind != Agent.Kind.PLAN or agent.current_version is None:
        return set()
    try:
        return {slug for _, slug in PlanDefinition.read(agent.current_version.content).agents()}
    except ValidationError:  # it can neither be read nor started
        return set()


def _found(slugs: Iterable[str], principal: Principal | None) -> dict[str, Agent]:
    agents = Agent.objects.enabled() if principal is None else Agent.objects.visible_to(principal)
    return {agent.slug: agent for agent in agents.filter(slug__in=set(slugs)).select_related("current_version")}


def _unknown(slug: str) -> str:
    """The same of an agent that is not there and of one that is for others."""
    return f"There is no agent `{slug}` that can be used. Write the slug of one that is listed."
