"""Registers plans and checks whether their agents exist and may be used.

The author of a plan, and everybody who starts it, must be allowed to use its agents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Func, IntegerField, QuerySet

from apps.accounts.errors import NotFound
from apps.accounts.models import User
from apps.accounts.permissions import Permission
from apps.accounts.principals import Principal
from apps.agents import cards, versions
from apps.agents.models import Agent, AgentQuerySet, AgentVersion
from apps.agents.registration import get_or_new, set_fields
from apps.plans import graphs
from apps.plans.definitions import PlanDefinition
from apps.plans.graphs import Problems
from apps.record.errors import InvalidFields, UnsupportedOperation
from parley.templating import listed

RESERVED_SLUGS = frozenset({"new", "check", "draft", "runs", "schema", "questions", "try"})  # used by the URLs of pages
RESERVED = "{} is reserved for Parley's own pages. Choose another slug."
TAKEN = "There is an agent {} already. Choose another slug."
MAY_SHARE = "agents.change_agent"

EXAMPLE_PLAN = """\
name: Short story
description: Writes a short story, and has a person read it before it is done.
inputs:
  type: object
  required: [topic]
  properties:
    topic: {type: string, title: "What is it about?"}
steps:
  draft:
    title: First draft
    agent: AGENT  # the short name of an agent
    message: Write a short story about {{ inputs.topic }}.

  reading:
    title: Your opinion
    person:
      ask: Read the draft. What should be different?
    attach: [steps.draft.artifacts]

  story:
    title: The story
    agent: AGENT
    message: "Write it again. The reader says: {{ steps.reading.text }}"
    attach: [steps.draft.artifacts]
""".replace("AGENT", settings.DEFAULT_AGENT)
"""What the form of a new plan begins with."""


@transaction.atomic
def register_plan(
    slug: str, definition: PlanDefinition, *, author: User | None = None, note: str = "", **policies: Any
) -> Agent:
    """Register or update the plan `slug`. Raises ValidationError by path.

    Args:
        author: a new plan belongs to their current workspace, and by default only that can see it. None is the
            installation itself.
        policies: further fields of Agent, such as `access`.
    """
    agent = get_or_new(slug)
    if not agent.pk and slug in RESERVED_SLUGS:
        raise ValidationError({"slug": RESERVED.format(slug)})
    if agent.pk and agent.kind != Agent.Kind.PLAN:
        raise ValidationError({"slug": f"{slug} is an agent, not a plan. Choose another slug."})
    if agent.pk and author and not may_change(author, agent):
        raise ValidationError({"slug": TAKEN.format(slug)})
    if author and not agent.pk:
        policies = {"workspace": author.membership.workspace, "access": Agent.Access.WORKSPACE, **policies}
    update_plan(agent, definition, author=author, note=note, **policies)
    return agent


def save_plan(
    author: User,
    plan: Agent | None,
    slug: str,
    definition: PlanDefinition,
    *,
    base: int | None = None,
    note: str = "",
    access: str = "",
    as_candidate: bool = False,
) -> Agent:
    """Save a new plan of the author's, or a new version of one that they may change (see `update_plan`).

    `base` is the number of the version that they changed, if they say it. Raises InvalidFields by path, PlanChanged.
    """
    if plan is None and Agent.objects.filter(slug=slug).exists():
        raise InvalidFields([("slug", TAKEN.format(slug))])
    is_shared = access not in ("", plan.access if plan else Agent.Access.WORKSPACE)
    if is_shared and not author.has_perm(MAY_SHARE):
        raise InvalidFields([("access", "Operators of agents decide who may use a plan. Leave it out.")])
    try:
        with transaction.atomic():
            if plan is not None and base is not None:
                _check_base(plan, base)
            policies = {"access": access} if access else {}
            as_candidate = as_candidate and plan is not None
            return register_plan(slug, definition, author=author, note=note, as_candidate=as_candidate, **policies)
    except ValidationError as error:
        raise InvalidFields.of(error) from None
    except IntegrityError:  # somebody took the slug just now
        raise InvalidFields([("slug", TAKEN.format(slug))]) from None


class PlanChanged(UnsupportedOperation):
    """The plan was saved by somebody else. Compare yours with it, then save again."""


def _check_base(plan: Agent, base: int) -> None:
    """Locks the plan until the transaction ends. Raises PlanChanged."""
    newest = Agent.objects.select_for_update(of=("self",)).select_related("current_version").get(pk=plan.pk)
    number = newest.current_version.number if newest.current_version else None
    if base != number:
        raise PlanChanged(f"The plan is at version {number} by now. Compare yours with it, then save again.")


@transaction.atomic
def update_plan(
    agent: Agent,
    definition: PlanDefinition,
    *,
    author: User | None = None,
    note: str = "",
    as_candidate: bool = False,
    **policies: Any,
) -> AgentVersion:
    """Apply the definition to the plan, as a new version if it differs. Raises ValidationError.

    `as_candidate`: only save a version, which a rollout can try. The plan stays as it is.
    """
    validate(definition, agent.slug, author.principal if author else None)
    if as_candidate:
        return versions.propose_version(agent, definition.content, author=author, note=note)
    capabilities = {**agent.capabilities, "streaming": True}
    kept = {"capabilities": capabilities, "retry_safe": True, "health": Agent.Health.OK, "ailment": ""}
    set_fields(agent, {**kept, **policies, **definition.agent_fields})
    return versions.save_version(agent, definition.content, author=author, note=note)


def restore_version(version: AgentVersion, *, author: User | None, note: str) -> AgentVersion:
    """Make an old version the current one (`restorers`). Raises ValidationError if it no longer works."""
    return update_plan(version.agent, PlanDefinition.read(version.content), author=author, note=note)


def may_change(user: User, agent: Agent) -> bool:
    """May the user build in their workspace, and does the plan belong to it, or are they an operator of agents?"""
    here = user.principal
    is_own = agent.workspace_id == here.workspace_id
    return here.can(Permission.BUILD) and (is_own or user.has_perm(MAY_SHARE))


MOST_PLANS = 200  # considered in the search for cycles


def validate(definition: PlanDefinition, slug: str, principal: Principal | None = None) -> None:
    """Raises ValidationError, by path, if the plan `slug` could not work.

    `principal` is its author, who may name only agents that they may use; None is the installation itself.
    """
    found: dict[str, list[str]] = {}
    for path, sentence in [*graphs.graph_problems(definition), *_installation_problems(definition, slug, principal)]:
        found.setdefault(path, []).append(sentence)
    if found:
        raise ValidationError(found)


def agents_closed_to(definition: PlanDefinition, principal: Principal) -> Problems:
    """The agents of the plan that this caller may not use, by path."""
    named = list(definition.named_agents())
    agents = _usable_agents((slug for _, slug in named), principal)
    return [(path, _unknown_agent(slug)) for path, slug in named if slug not in agents]


def why_not_startable(definition: PlanDefinition, principal: Principal) -> str:
    """Why this caller cannot start the plan; "" if they can."""
    closed = " ".join(f"{path}: {sentence}" for path, sentence in agents_closed_to(definition, principal))
    return f"To start this plan you must be able to use its agents. {closed}" if closed else ""


def health_problem(agent: Agent) -> str:
    """Why a plan cannot be started, for operators; "" if it can."""
    if agent.current_version is None:
        return "It has no definition. Save it again."
    try:
        validate(PlanDefinition.read(agent.current_version.content), agent.slug)
    except ValidationError as error:
        return str(InvalidFields.of(error))
    return ""


def _installation_problems(
    definition: PlanDefinition, slug: str, principal: Principal | None
) -> Iterator[tuple[str, str]]:
    named = list(definition.named_agents())
    agents = _usable_agents([*(one for _, one in named), *definition.agent_limits], principal)
    for path, one in named:
        if one != slug and one not in agents:
            yield path, _unknown_agent(one)
    for one in definition.agent_limits:
        if one not in agents:
            yield f"agent_limits.{one}", _unknown_agent(one)
    yield from _skill_problems(definition, agents)
    for key, step in definition.steps.items():
        for number, sample in enumerate(step.person.samples if step.person else []):
            if not sample.text:
                yield f"steps.{key}.person.samples.{number}.text", f"Write the content of {sample.filename} here."
    yield from _cycle_problems(definition, slug, agents)
    ids = [skill.id for skill in definition.skills]
    for number, one in enumerate(ids):
        if one in ids[:number]:
            yield f"skills.{number}.id", f"Two skills have the id {one}."


def _skill_problems(definition: PlanDefinition, agents: dict[str, Agent]) -> Iterator[tuple[str, str]]:
    for key, step in definition.steps.items():
        if not step.skill or not (agent := agents.get(step.agent)):
            continue  # the agent of `find` is not known yet
        ids = [skill["id"] for skill in cards.card_skills(agent)]
        if step.skill not in ids:
            yield f"steps.{key}.skill", f"{agent.name} has no skill `{step.skill}`; it has {listed(ids)}."


def _cycle_problems(definition: PlanDefinition, slug: str, agents: dict[str, Agent]) -> Iterator[tuple[str, str]]:
    """Plans that call each other. Only agents that this definition names can close a cycle."""
    named = list(definition.named_agents())
    ways = {
        one: [one] if one == slug else _call_path(one, slug, agents) for one in dict.fromkeys(one for _, one in named)
    }
    for path, one in named:
        if way := ways[one]:
            circle = " → ".join([slug, *way])
            said = "A plan cannot call itself" if way == [slug] else "These plans call each other in a circle"
            yield path, f"{said}: {circle}."


def _call_path(start: str, end: str, agents: dict[str, Agent]) -> list[str]:
    paths = {start: [start]}
    waiting = [agents[start]] if start in agents else []
    while waiting and len(paths) <= MOST_PLANS:
        named = {one: [*paths[agent.slug], one] for agent in waiting for one in _agents_named_by(agent)}
        fresh = {one: path for one, path in named.items() if one not in paths}
        if end in fresh:
            return fresh[end]
        paths |= fresh
        waiting = list(_usable_agents(fresh, None).values())
    return []


def call_path_to(agent: Agent, plans: Iterable[str]) -> list[str]:
    """How an agent calls, or is, one of these plans; [] if it does not."""
    if agent.kind != Agent.Kind.PLAN:
        return []
    ways = ([agent.slug] if agent.slug == one else _call_path(agent.slug, one, {agent.slug: agent}) for one in plans)
    return next(filter(None, ways), [])


def _agents_named_by(agent: Agent) -> set[str]:
    definition = definition_of(agent) if agent.kind == Agent.Kind.PLAN else None
    return {slug for _, slug in definition.named_agents()} if definition else set()


def _usable_agents(slugs: Iterable[str], principal: Principal | None) -> dict[str, Agent]:
    agents = Agent.objects.enabled() if principal is None else Agent.objects.visible_to(principal)
    return {agent.slug: agent for agent in agents.filter(slug__in=set(slugs)).select_related("current_version")}


def _unknown_agent(slug: str) -> str:
    """One text for a missing agent and for one that the caller may not use."""
    return f"There is no agent `{slug}`, or you may not use it. Use the slug of a listed agent."


class StepCount(Func):
    """The number of steps in a definition, counted by the database."""

    template = "(SELECT COUNT(*) FROM json_each(%(expressions)s, '$.steps'))"
    output_field = IntegerField()

    def as_postgresql(self, compiler: Any, connection: Any, **options: Any) -> Any:
        template = "(SELECT COUNT(*) FROM jsonb_path_query(%(expressions)s, '$.steps[*]'))"
        return self.as_sql(compiler, connection, template=template, **options)


def sized[T: Agent](plans: QuerySet[T]) -> QuerySet[T]:
    """Annotates plans with their `size` in steps, without loading the definitions."""
    counted: QuerySet[T] = plans.annotate(size=StepCount("current_version__content"))  # type: ignore[assignment]
    return counted.defer("current_version__content")


def visible_plans(principal: Principal) -> AgentQuerySet:
    found = Agent.objects.visible_to(principal).filter(kind=Agent.Kind.PLAN)
    return found.select_related("current_version", "workspace")


def find_plan(principal: Principal, slug: str) -> Agent:
    """Raises NotFound unless the caller may use the plan."""
    found = visible_plans(principal).find_or_none(principal, slug)
    if found is None:
        raise NotFound("There is no such plan, or you may not use it.")
    return found


def find_own_plan(principal: Principal, user: User, slug: str) -> Agent:
    """Raises NotFound unless the caller may use the plan, PermissionDenied unless the person may change it."""
    found = find_plan(principal, slug)
    if not may_change(user, found):
        raise PermissionDenied("This plan is somebody else's. Save one of your own, under another slug.")
    return found


def definition_of(plan: Agent) -> PlanDefinition | None:
    """None if it can no longer be read."""
    return definition_at(plan.current_version)


def definition_at(version: AgentVersion | None) -> PlanDefinition | None:
    """None if it can no longer be read."""
    try:
        return PlanDefinition.read(version.content) if version else None
    except ValidationError:
        return None
