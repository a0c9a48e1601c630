"""Versions of agents: what one was from some moment on, kept when it changes, never changed itself.

The content of a version is JSON. Of a hosted agent it is what its card says and where its handler is (`stated`), of an
agent without code or a plan its whole definition (`definitions.Definition`, `apps.plans.definitions`), of a
remote agent its card and who signed it (`apps.remote.registering`).
"""

from __future__ import annotations

import hashlib
import uuid
from functools import lru_cache
from typing import Any

import rfc8785
from django.db import transaction

from apps.accounts.models import User
from apps.agents.models import Agent, AgentVersion

JSON = dict[str, Any]

STATED = ("handler", "name", "description", "version", "skills", "input_modes", "output_modes", "capabilities")


def stated(agent: Agent) -> JSON:
    """What a hosted agent says of itself, as the content of a version."""
    return {"kind": agent.kind, **{field: getattr(agent, field) for field in STATED}}


@transaction.atomic
def keep(agent: Agent, content: JSON, *, author: User | None = None, note: str = "") -> AgentVersion:
    """Make this what the agent is from now on: a new version, unless it is what the current one says already.

    Whoever keeps another version of the same agent at this moment waits.
    """
    newest = _locked_newest(agent)
    if newest and newest.sha256 == digest(content) and newest.pk == agent.current_version_id:
        return newest
    version = _written(agent, newest, content, author, note)
    agent.current_version = version
    if agent.kind in (Agent.Kind.MODEL, Agent.Kind.PLAN):  # nobody else counts the versions that its card tells
        agent.version = f"1.{version.number - 1}.0"
    agent.save(update_fields=["current_version", "version", "updated_at"])
    return version


@transaction.atomic
def propose(agent: Agent, content: JSON, *, author: User | None = None, note: str = "") -> AgentVersion:
    """A new version that waits to become what the agent is."""
    return _written(agent, _locked_newest(agent), content, author, note)


def _locked_newest(agent: Agent) -> AgentVersion | None:
    """The agent's newest version; nobody else adds one until the end of the transaction."""
    Agent.objects.select_for_update().only("pk").get(pk=agent.pk)
    return agent.versions.order_by("-number").first()


def _written(agent: Agent, newest: AgentVersion | None, content: JSON, author: User | None, note: str) -> AgentVersion:
    number = newest.number + 1 if newest else 1
    return AgentVersion.objects.create(
        agent=agent, number=number, content=content, sha256=digest(content), author=author, note=note
    )


def digest(content: JSON) -> str:
    """The SHA-256 of a version's content in its canonical form (RFC 8785)."""
    return hashlib.sha256(rfc8785.dumps(content)).hexdigest()


def reference(version: AgentVersion) -> JSON:
    """What a run keeps of the version that it goes by."""
    return {"version": str(version.pk), "number": version.number, "sha256": version.sha256}


@lru_cache(maxsize=1000)
def version_at(key: uuid.UUID) -> AgentVersion:
    """A version by its key, looked up once in a process: it never changes. Raises AgentVersion.DoesNotExist."""
    return AgentVersion.objects.get(pk=key)
