"""Versions of agents: what one was from some moment on, kept when it changes, never changed itself.

The content of a version is JSON. Of a hosted agent it is what its card says and where its handler is (`stated`), of an
agent without code its whole definition (`definitions.Definition`).
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
    Agent.objects.select_for_update().only("pk").get(pk=agent.pk)
    sha256 = hashlib.sha256(rfc8785.dumps(content)).hexdigest()
    newest = agent.versions.order_by("-number").first()
    if newest and newest.sha256 == sha256 and newest.pk == agent.current_version_id:
        return newest
    number = newest.number + 1 if newest else 1
    version = AgentVersion.objects.create(
        agent=agent, number=number, content=content, sha256=sha256, author=author, note=note
    )
    agent.current_version = version
    if agent.kind == Agent.Kind.MODEL:  # nobody else counts the versions that its card tells
        agent.version = f"1.{number - 1}.0"
    agent.save(update_fields=["current_version", "version", "updated_at"])
    return version


def reference(version: AgentVersion) -> JSON:
    """What a run keeps of the version that it goes by."""
    return {"version": str(version.pk), "number": version.number, "sha256": version.sha256}


@lru_cache(maxsize=1000)
def version_at(key: uuid.UUID) -> AgentVersion:
    """A version by its key, looked up once in a process: it never changes. Raises AgentVersion.DoesNotExist."""
    return AgentVersion.objects.get(pk=key)
