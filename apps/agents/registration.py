"""Registers agents. The handler or definition describes the agent; the platform sets policies."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q, QuerySet

from agentkit import HandlerError, SkillHandler, load_handler
from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.errors import Kind, Refusal
from apps.accounts.models import User, Workspace, may_operate, person_of
from apps.accounts.people.erasure import Person, Remains
from apps.accounts.permissions import Permission
from apps.accounts.principals import AGENTS as SCOPE
from apps.accounts.principals import Principal
from apps.accounts.resources import Act, NotNeeded, Resource
from apps.agents import definitions, tool_policies, versions
from apps.agents.definitions import Definition
from apps.agents.models import OF_MEMBERS, OFFERS_MODELS, STEERABLE, TAKES_MEMORY, USUAL_SECONDS, Agent, AgentVersion
from parley.db.sql import write_transaction
from parley.registry import added

RIGHT_TO_RELEASE = "agents.change_agent"


def house_workspace() -> Workspace:
    """The workspace of the installation's own agents."""
    return Workspace.objects.get_or_create(is_house=True, defaults={"name": "Parley"})[0]


@transaction.atomic
def register_hosted(slug: str, handler: str, **policies: Any) -> Agent:
    """Register or update the hosted agent `slug` from its handler's description.

    `policies` are other fields of Agent, such as `access`; missing ones keep their value. What the handler says about
    lists is the start value of a new agent, because operators decide it.
    Raises agentkit.HandlerError for a path without a handler, ValidationError for an invalid value.
    """
    loaded, agent = load_handler(handler), get_or_new(slug)
    described = handler_fields(loaded, slug) | ({} if agent.pk else list_fields(loaded))
    fields = {"kind": Agent.Kind.HOSTED, "handler": handler, **described, **policies}
    if added["restorers", agent.kind]:
        what = "plan" if agent.kind == Agent.Kind.PLAN else "agent without code"
        raise ValidationError({"slug": f"The {what} {slug} exists already. Choose another slug, or delete it first."})
    if agent.health == Agent.Health.UNAVAILABLE:  # its handler has just been loaded
        fields |= {"health": Agent.Health.OK, "ailment": ""}
    set_fields(agent, fields)
    versions.save_version(agent, versions.hosted_content(agent))
    return agent


@transaction.atomic
def register_model(slug: str, definition: Definition, *, author: User | None = None, **policies: Any) -> Agent:
    """Register or update an agent without code (see `register_hosted`). Raises ValidationError."""
    agent = get_or_new(slug)
    if agent.pk and agent.kind != Agent.Kind.MODEL:
        raise ValidationError({"slug": f"{slug} exists already and is another kind of agent. Choose another slug."})
    define(agent, definition, author=author, **policies)
    return agent


@transaction.atomic
def define(
    agent: Agent,
    definition: Definition,
    *,
    author: User | None = None,
    note: str = "",
    as_candidate: bool = False,
    **policies: Any,
) -> AgentVersion:
    """Apply the definition, as a new version if it differs. Raises ValidationError.

    `as_candidate`: only save a version, which a rollout can try. The agent stays as it is.
    """
    definitions.check_definition(definition, agent.slug)
    capabilities = {**agent.capabilities, "streaming": definition.streaming}
    before = agent.current_version.content if agent.current_version else {}
    if not as_candidate:
        set_fields(agent, {**policies, **definition.stated, "capabilities": capabilities})
    if definition.mcp_servers and not before.get("mcp_servers"):
        tool_policies.ask_before_mcp(agent, author)
    if as_candidate:
        return versions.propose_version(agent, definition.content, author=author, note=note)
    return versions.save_version(agent, definition.content, author=author, note=note)


def choosable_versions(principal: Principal, agent: Agent) -> QuerySet[AgentVersion]:
    """The versions with which the caller may run the agent again, newest first; none if a handler or card defines it.

    Older ones are for those who build agents in its workspace, and for operators who see versions.
    """
    if not versions.run_side_by_side(agent):
        return AgentVersion.objects.none()
    return AgentVersion.objects.visible_to(principal).filter(agent=agent).order_by("-number")


def may_release(principal: Principal, agent: Agent) -> bool:
    """Who decides which version is current: operators of agents, and in its workspace who may edit it."""
    if agent.workspace_id == principal.workspace_id and principal.can(Permission.BUILD):
        if agent.kind != Agent.Kind.MODEL:
            return True
        if agent.owner_id is not None and (agent.owner_id == principal.user_id or principal.can(Permission.SETTINGS)):
            return True
    return may_operate(principal, RIGHT_TO_RELEASE)


class NoRelease(Refusal):
    """Its owner, managers of its workspace and operators decide which version an agent uses."""

    kind = Kind.FORBIDDEN


class OneVersionOnly(Refusal):
    """Its handler or its own card defines this agent, so only one version of it can run. Change that instead."""

    kind = Kind.CONFLICT


def check_release(agent: Agent, principal: Principal) -> None:
    """Raises NoRelease, OneVersionOnly."""
    if not may_release(principal, agent):
        raise NoRelease
    if not versions.run_side_by_side(agent):
        raise OneVersionOnly


def revert(version: AgentVersion, author: User | None) -> AgentVersion:
    """Return to a version. No session continues on the one that was current.

    Raises ValidationError if it cannot work any more, OneVersionOnly if a handler or card defines the agent.
    """
    if not versions.run_side_by_side(version.agent):
        raise OneVersionOnly
    with write_transaction():
        locked = Agent.objects.select_for_update(of=("self",)).select_related("current_version")
        left = locked.get(pk=version.agent_id).current_version
        made = apply_version(version, author, f"Back to version {version.number}.")
        if left is not None and left.pk != made.pk:
            versions.withdraw(version.agent, left.number)
        details = {"restored": version.number, "version": made.number}
        audit.record(AuditAction.VERSION_RESTORED, actor=author, object=version.agent, details=details)
    return made


def apply_version(version: AgentVersion, author: User | None, note: str) -> AgentVersion:
    """Make a version current: itself if it is the newest, or else a new one with its content and the note.

    Raises ValidationError.
    """
    restore: Callable[..., AgentVersion] = added["restorers", version.agent.kind]
    return restore(version, author=author, note=note)


def restore(version: AgentVersion, *, author: User | None, note: str) -> AgentVersion:
    """Of agents without code (`restorers`). Raises ValidationError."""
    return define(version.agent, Definition.read(version.content), author=author, note=note)


def get_or_new(slug: str) -> Agent:
    """The agent, or an unsaved one."""
    return Agent.objects.filter(slug=slug).first() or Agent(slug=slug, workspace=house_workspace())


def set_fields(agent: Agent, fields: dict[str, Any]) -> None:
    """Raises ValidationError."""
    for name, value in fields.items():
        setattr(agent, name, value)
    agent.full_clean()
    agent.save()


def handler_fields(handler: SkillHandler, slug: str) -> dict[str, Any]:
    """The fields of Agent that a handler sets."""
    name = handler.name or slug.replace("-", " ").capitalize()
    more = {
        OFFERS_MODELS: handler.offers_models,
        USUAL_SECONDS: handler.usual_seconds,
        STEERABLE: handler.steerable,
        TAKES_MEMORY: handler.takes_memory,
    }
    return {
        "name": name,
        "description": handler.description or f"The agent {name}.",
        "version": handler.version,
        "skills": [skill.wire for skill in handler.skills],
        "input_modes": list(handler.input_modes),
        "output_modes": list(handler.output_modes),
        "capabilities": {"streaming": True} | {key: value for key, value in more.items() if value},
        "time_limit": handler.time_limit,
        "attempts": handler.attempts,
        "retry_safe": handler.retry_safe,
    }


def list_fields(handler: SkillHandler) -> dict[str, Any]:
    """The fields of Agent that say how lists show a new agent."""
    return {"listed": handler.listed, "category": handler.category}


def error_text(error: ValidationError) -> str:
    """The errors as sentences, each with its field."""
    return " ".join(f"{field}: {' '.join(messages)}" for field, messages in error.message_dict.items())


def _revert(version: AgentVersion, operator: Principal) -> AgentVersion:
    if version.agent.current_version_id == version.pk:
        raise NotNeeded("It is the current version.")
    if versions.is_candidate(version):
        raise NotNeeded("It is being tried. Promote it.")
    try:
        return revert(version, person_of(operator))
    except ValidationError as error:
        raise Unusable(f"{version.agent} is unchanged. {error_text(error)}") from None


class Unusable(Refusal):
    """The version cannot be used any more: something that it names is gone."""

    kind = Kind.CONFLICT


REVERT = Act[AgentVersion](
    name="revert",
    label="Roll back to this version",
    do=_revert,
    summary="Roll back to a version",
    effect="It becomes current, as a new version if there are newer ones. No session continues on the version that was"
    " current, but tasks that run do.",
    said=lambda made: f"Rolled back: {made} is current.",
    check=lambda version, principal: check_release(version.agent, principal),
    scope=SCOPE,
    permission=Permission.BUILD,
    operator_permission=RIGHT_TO_RELEASE,
    is_offered=lambda version: (
        versions.run_side_by_side(version.agent)
        and version.agent.current_version_id != version.pk
        and not versions.is_candidate(version)
    ),
    icon="undo",
    records=True,
)
VERSIONS = Resource("versions", "version", AgentVersion, acts=(REVERT,), related=("agent__current_version", "author"))


def _reload(agent: Agent, _: Principal) -> Agent:
    if agent.kind != Agent.Kind.HOSTED:
        raise NotNeeded("It has no handler.")
    try:
        with write_transaction():
            return register_hosted(agent.slug, agent.handler)
    except HandlerError as error:
        raise ValidationError(f"{agent.name} is unchanged. {error}") from None
    except ValidationError as error:
        raise ValidationError(f"{agent.name} is unchanged. {error_text(error)}") from None


def _enable(agent: Agent, _: Principal) -> Agent:
    return _switch(agent, True)


def _disable(agent: Agent, _: Principal) -> Agent:
    return _switch(agent, False)


def _switch(agent: Agent, wanted: bool) -> Agent:
    if agent.is_enabled == wanted:
        raise NotNeeded(f"It is {'enabled' if wanted else 'disabled'} already.")
    agent.is_enabled = wanted
    agent.save(update_fields=["is_enabled", "updated_at"])
    return agent


RELOAD = Act(
    name="reload",
    label="Reload from the handler",
    do=_reload,
    summary="Reload an agent from its handler",
    effect="Its card becomes what the handler says. Policies stay.",
    said=lambda agent: f"{agent.name} was reloaded from its handler.",
    is_offered=lambda agent: agent.kind == Agent.Kind.HOSTED,
    icon="refresh",
)
DISABLE = Act(
    name="disable",
    label="Disable",
    do=_disable,
    summary="Disable an agent",
    effect="Nobody can use it until it is enabled again.",
    said=lambda agent: f"{agent.name} is disabled.",
    is_offered=lambda agent: agent.is_enabled,
    icon="toggle_off",
)
ENABLE = replace(
    DISABLE,
    name="enable",
    label="Enable",
    do=_enable,
    summary="Enable an agent",
    effect="Whoever has access can use it.",
    said=lambda agent: f"{agent.name} is enabled.",
    is_offered=lambda agent: not agent.is_enabled,
    icon="toggle_on",
)
AGENTS = Resource("agents", "agent", Agent, order=("name", "id"))


def switch_off_own(person: Person) -> None:
    """Nobody can use agents that only the person could use (`account_erasers`)."""
    Agent.objects.filter(workspace__in=person.workspaces, access__in=OF_MEMBERS).update(is_enabled=False)


def remains_of(person: User) -> Iterator[Remains]:
    """See `account_remains`."""
    if used := Agent.objects.filter(Q(owner=person) | Q(workspace__personal_of=person)).count():
        yield Remains("Agents and plans", used, "disabled where only this person could use them. Tasks refer to them.")
