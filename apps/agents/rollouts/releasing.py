"""Acts on versions: try one with a part of new sessions, promote or abandon it; which version sessions use."""

from __future__ import annotations

from dataclasses import replace

from django.core.exceptions import ValidationError
from django.utils import timezone

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.errors import Kind, Refusal
from apps.accounts.models import person_of
from apps.accounts.permissions import Permission
from apps.accounts.principals import AGENTS, Principal
from apps.accounts.resources import Act, NotNeeded, Resource
from apps.agents import versions
from apps.agents.models import Agent, AgentNotFound, AgentVersion
from apps.agents.registration import RIGHT_TO_RELEASE, Unusable, apply_version, check_release, error_text
from apps.agents.rollouts.models import Rollout
from parley.db.sql import write_transaction


def find_agent(principal: Principal, slug: str) -> Agent:
    """The agent, with its rollout, for who may see its versions. Raises AgentNotFound."""
    found = Agent.objects.with_versions_for(principal).filter(slug=slug)
    agent = found.select_related("current_version", "rollout__candidate", "rollout__started_by").first()
    if agent is None:
        raise AgentNotFound
    if agent.rollout is not None:
        agent.rollout.agent = agent.rollout.candidate.agent = agent
    return agent


class CannotTry(Refusal):
    """This version cannot be tried now."""

    kind = Kind.CONFLICT


def save(principal: Principal, row: Rollout) -> Rollout:
    """Begin a rollout of `row.candidate`, or change the percent of one under way.

    Raises NoRelease, OneVersionOnly, CannotTry.
    """
    row.agent = row.candidate.agent
    check_release(row.agent, principal)
    with write_transaction():
        agent = Agent.objects.select_for_update().get(pk=row.agent_id)
        if row._state.adding:
            _begin(agent, row, principal)
        elif not Rollout.objects.filter(pk=row.pk, outcome=Rollout.Outcome.UNDER_WAY).update(percent=row.percent):
            raise CannotTry("This rollout has ended. Begin another.")
        details = {"version": row.candidate.number, "percent": row.percent}
        audit.record(AuditAction.ROLLOUT_SET, actor=principal, object=agent, details=details)
    return row


def can_be_tried(version: AgentVersion) -> bool:
    """Whether new sessions may try it now, or do. Its agent's rollout should be loaded."""
    agent = version.agent
    is_free = agent.rollout is None or agent.rollout.candidate_id == version.pk
    return is_free and agent.current_version_id != version.pk and versions.run_side_by_side(agent)


def rollout_of(version: AgentVersion, percent: int) -> Rollout:
    """The rollout of the version that is under way, or a new one, with this percent; not saved."""
    found = Rollout.objects.filter(candidate=version, outcome=Rollout.Outcome.UNDER_WAY).first()
    row = found or Rollout()
    row.candidate, row.percent = version, percent
    return row


def _begin(agent: Agent, row: Rollout, principal: Principal) -> None:
    if agent.current_version_id == row.candidate_id:
        raise CannotTry("It is the current version: all new sessions get it.")
    if agent.rollout_id is not None:
        raise CannotTry("Another version is being tried. Promote or abandon that first.")
    row.started_by_id = principal.user_id
    row.save()
    Agent.objects.filter(pk=agent.pk).update(rollout=row)
    versions.withdraw(agent, but=row.candidate.number)


def _promote(row: Rollout, principal: Principal) -> Rollout:
    try:
        with write_transaction():
            _end(row, Rollout.Outcome.PROMOTED, principal)
            apply_version(row.candidate, person_of(principal), f"Version {row.candidate.number} was promoted.")
    except ValidationError as error:
        raise Unusable(f"{row.agent} is unchanged. {error_text(error)}") from None
    return row


def _abandon(row: Rollout, principal: Principal) -> Rollout:
    with write_transaction():
        _end(row, Rollout.Outcome.ABANDONED, principal)
        versions.withdraw(row.agent, row.candidate.number)
    return row


def _end(row: Rollout, outcome: Rollout.Outcome, principal: Principal) -> None:
    """Raises NotNeeded if it has ended."""
    Agent.objects.select_for_update().only("pk").get(pk=row.agent_id)
    ended = {"outcome": outcome, "ended_at": timezone.now()}
    if not Rollout.objects.filter(pk=row.pk, outcome=Rollout.Outcome.UNDER_WAY).update(**ended):
        raise NotNeeded("This rollout has ended.")
    Agent.objects.filter(pk=row.agent_id).update(rollout=None)
    details = {"version": row.candidate.number, "percent": row.percent, "outcome": str(outcome)}
    audit.record(AuditAction.ROLLOUT_ENDED, actor=principal, object=row.agent, details=details)
    row.outcome, row.ended_at = outcome, ended["ended_at"]  # type: ignore[assignment]


PROMOTE = Act[Rollout](
    name="promote",
    label="Promote",
    do=_promote,
    summary="Promote the candidate of a rollout",
    effect="The candidate becomes the current version, which all new sessions get.",
    said=lambda row: f"{row.candidate} is promoted.",
    check=lambda row, principal: check_release(row.agent, principal),
    scope=AGENTS,
    permission=Permission.BUILD,
    operator_permission=RIGHT_TO_RELEASE,
    is_offered=lambda row: row.is_under_way,
    icon="published_with_changes",
    records=True,
)
ABANDON = replace(
    PROMOTE,
    name="abandon",
    label="Abandon",
    do=_abandon,
    summary="Abandon the candidate of a rollout",
    effect="No session gets the candidate any more: those that tried it go on with the current version.",
    said=lambda row: f"{row.candidate} is abandoned.",
    icon="block",
)
ROLLOUTS = Resource(
    "rollouts",
    "rollout",
    Rollout,
    save,
    (PROMOTE, ABANDON),
    ("agent__current_version", "candidate__agent", "started_by"),
    scope=AGENTS,
    permission=Permission.BUILD,
)


def _let_sessions(wanted: Agent.SessionVersions, agent: Agent, principal: Principal) -> Agent:
    with write_transaction():
        others = Agent.objects.filter(pk=agent.pk).exclude(session_versions=wanted)
        if not others.update(session_versions=wanted):
            raise NotNeeded(f"Its sessions {wanted.label} already.")
        audit.record(AuditAction.SESSIONS_SET, actor=principal, object=agent, details={"note": str(wanted.label)})
    agent.session_versions = wanted
    return agent


KEEP_VERSIONS = Act[Agent](
    name="keep-versions",
    label="Keep sessions on their version",
    do=lambda agent, principal: _let_sessions(Agent.SessionVersions.KEPT, agent, principal),
    summary="Let the sessions of an agent continue on the version that began them",
    effect="A new version is for new sessions. Sessions on a version that was rolled back or abandoned move on.",
    said=lambda agent: f"Sessions with {agent} continue on the version that began them.",
    check=check_release,
    scope=AGENTS,
    permission=Permission.BUILD,
    is_offered=lambda agent: versions.run_side_by_side(agent) and agent.session_versions != Agent.SessionVersions.KEPT,
    icon="push_pin",
    records=True,
)
USE_NEWEST = replace(
    KEEP_VERSIONS,
    name="use-newest",
    label="Move sessions to the newest version",
    do=lambda agent, principal: _let_sessions(Agent.SessionVersions.NEWEST, agent, principal),
    summary="Move the sessions of an agent to the newest version",
    effect="From their next message on, all its sessions use the current version.",
    said=lambda agent: f"Sessions with {agent} move to the newest version.",
    is_offered=lambda agent: (
        versions.run_side_by_side(agent) and agent.session_versions != Agent.SessionVersions.NEWEST
    ),
    icon="fast_forward",
)
