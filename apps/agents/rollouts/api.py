"""An agent's versions, which of them its sessions use, and its rollout."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.urls import path
from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.permissions import Permission
from apps.accounts.principals import AGENTS
from apps.accounts.resources import Act, NotNeeded
from apps.agents.models import Agent, AgentVersion
from apps.agents.registration import REVERT, VERSIONS
from apps.agents.rollouts.models import Rollout
from apps.agents.rollouts.releasing import (
    ABANDON,
    KEEP_VERSIONS,
    PROMOTE,
    ROLLOUTS,
    USE_NEWEST,
    CannotTry,
    find_agent,
    rollout_of,
)
from apps.agents.versions import Standing, standing
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Body, Listing, Shape, page_of
from apps.api.framework.views import Operations


@extend_schema_serializer(component_name="AgentVersion")
class VersionShape(Shape):
    """A version of an agent."""

    number = serializers.IntegerField(help_text="The number of the version, starting at 1.")
    standing = serializers.ChoiceField(
        Standing.choices,
        help_text="`current`: new sessions get it. `candidate`: some of them do. `withdrawn`: it was rolled back or "
        "abandoned, and no session continues on it. `proposed`: it was saved, and is not "
        "current yet. `earlier`: only sessions that keep their version use it.",
    )
    note = serializers.CharField()
    folder = serializers.CharField(help_text="The digest of the agent's folder. Empty if it has none.")
    sha256 = serializers.CharField(help_text="The SHA-256 digest of its content as canonical JSON (RFC 8785).")
    created_at = serializers.DateTimeField()


@extend_schema_serializer(component_name="Rollout")
class RolloutShape(Shape):
    """A version that a part of the new sessions gets."""

    version = serializers.IntegerField(source="candidate.number", help_text="The number of the version.")
    percent = serializers.IntegerField(help_text="Of new sessions.")
    created_at = serializers.DateTimeField()


@extend_schema_serializer(component_name="AgentRelease")
class ReleaseShape(Shape):
    """Which versions an agent's sessions use."""

    agent = serializers.CharField(source="slug")
    current_version = serializers.IntegerField(source="current_version.number", allow_null=True)
    session_versions = serializers.ChoiceField(
        Agent.SessionVersions.choices, help_text="What sessions do when there is a new version."
    )
    rollout = RolloutShape(allow_null=True, help_text="The rollout that is under way. Null if there is none.")


class RollingOut(Body):
    version = serializers.IntegerField(min_value=1, max_value=10**6, help_text="The number of the version to try.")
    percent = serializers.IntegerField(min_value=0, max_value=100, help_text="Of new sessions.")


def _version(self: Operations, agent: Agent, number: int) -> AgentVersion:
    """Raises NotFound."""
    return VERSIONS.visible_to(self.principal).filter(agent=agent).find(self.principal, number)


def _rollout(self: Operations, agent: Agent) -> Rollout:
    """Raises CannotTry."""
    if agent.rollout is None:
        raise CannotTry("No rollout is under way.")
    return agent.rollout


def _act(act: Act[Any], row: Callable[..., Any]) -> Any:
    """The operation of an act. `row` finds what it is done to, by the agent and what else is in the address."""

    def perform(self: Releases, request: Request, slug: str, **address: int) -> Response:
        found = row(self, find_agent(self.principal, slug), **address)
        with suppress(NotNeeded):
            act.perform(self.principal, found)
        return self.shown(slug)

    perform.__doc__ = act.effect
    name = f"agent_{act.name.replace('-', '_')}"
    return documented(name, act.summary, answers={200: ReleaseShape}, refuses=[409])(perform)


class Releases(Operations):
    """For those who build agents in its workspace, and for operators."""

    scopes = dict.fromkeys(("GET", "HEAD", "PUT", "POST"), AGENTS)
    permissions = dict.fromkeys(("PUT", "POST"), Permission.BUILD)

    @documented(
        "agent_versions_list",
        "List an agent's versions, newest first",
        query=Listing,
        answers={200: page_of(VersionShape)},
    )
    def versions(self, request: Request, slug: str) -> Response:
        """For those who build agents in its workspace, and for operators who see versions."""
        rows = AgentVersion.objects.visible_to(self.principal).filter(agent=find_agent(self.principal, slug))
        found = rows.select_related("agent__rollout", "agent__current_version").defer("content")

        def show(page: list[AgentVersion]) -> list[Any]:
            return [VersionShape.json_of(one, standing=standing(one)) for one in page]

        return self.page(found, ("-number", "-id"), self.query(Listing), show)

    @documented(
        "agent_release_retrieve", "Retrieve which versions an agent's sessions use", answers={200: ReleaseShape}
    )
    def retrieve(self, request: Request, slug: str) -> Response:
        """For those who build agents in its workspace, and for operators who see versions."""
        return self.shown(slug)

    @documented(
        "agent_rollout_update",
        "Let a part of an agent's new sessions try a version",
        body=RollingOut,
        answers={200: ReleaseShape},
        refuses=[409],
    )
    def roll_out(self, request: Request, slug: str) -> Response:
        """Begins a rollout, or changes the percent of the one under way. Sessions keep the version that they got. To
        try another version, promote or abandon the one under way first. An agent whose handler or own card defines it
        has one version at a time: it answers 409.
        """
        agent = find_agent(self.principal, slug)
        asked = self.body(RollingOut)
        ROLLOUTS.store(self.principal, rollout_of(_version(self, agent, asked["version"]), asked["percent"]))
        return self.shown(slug)

    keep_versions = _act(KEEP_VERSIONS, lambda self, agent: agent)
    use_newest = _act(USE_NEWEST, lambda self, agent: agent)
    promote = _act(PROMOTE, _rollout)
    abandon = _act(ABANDON, _rollout)
    revert = _act(REVERT, _version)

    def shown(self, slug: str) -> Response:
        agent = find_agent(self.principal, slug)
        rollout = RolloutShape.json_of(agent.rollout) if agent.rollout else None
        return Response(ReleaseShape.json_of(agent, rollout=rollout))


AGENT = "agents/<slug:slug>"
urlpatterns = [
    path(f"{AGENT}/versions", Releases.at(get="versions"), name="agent-versions"),
    path(f"{AGENT}/versions/<int:number>/revert", Releases.at(post="revert"), name="agent-version-revert"),
    path(f"{AGENT}/release", Releases.at(get="retrieve"), name="agent-release"),
    path(f"{AGENT}/release/keep-versions", Releases.at(post="keep_versions"), name="agent-keep-versions"),
    path(f"{AGENT}/release/use-newest", Releases.at(post="use_newest"), name="agent-use-newest"),
    path(f"{AGENT}/rollout", Releases.at(put="roll_out"), name="agent-rollout"),
    path(f"{AGENT}/rollout/promote", Releases.at(post="promote"), name="agent-rollout-promote"),
    path(f"{AGENT}/rollout/abandon", Releases.at(post="abandon"), name="agent-rollout-abandon"),
]
