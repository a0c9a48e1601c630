"""Versions of agents, and their differences.

The content of a version is JSON: the card and handler of a hosted agent (`hosted_content`), the definition of a plan
or an agent without code, the card and signer of a remote agent.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import zip_longest
from typing import Any

import rfc8785
from django.db import transaction

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import User
from apps.agents.models import Agent, AgentVersion

JSON = dict[str, Any]

HOSTED_FIELDS = ("handler", "name", "description", "version", "skills", "input_modes", "output_modes", "capabilities")


def hosted_content(agent: Agent) -> JSON:
    return {"kind": agent.kind, **{field: getattr(agent, field) for field in HOSTED_FIELDS}}


@transaction.atomic
def save_version(agent: Agent, content: JSON, *, author: User | None = None, note: str = "") -> AgentVersion:
    """Make this the current version; a new one if the content differs."""
    newest = _lock_newest(agent)
    if newest and newest.sha256 == content_digest(content) and newest.pk == agent.current_version_id:
        return newest
    version = _create(agent, newest, content, author, note)
    agent.current_version = version
    if agent.kind in (Agent.Kind.MODEL, Agent.Kind.PLAN):  # other kinds set their own
        agent.version = f"1.{version.number - 1}.0"
    agent.save(update_fields=["current_version", "version", "updated_at"])
    _record(AuditAction.AGENT_REGISTERED if newest is None else AuditAction.VERSION_PUBLISHED, version)
    return version


@transaction.atomic
def propose_version(agent: Agent, content: JSON, *, note: str = "") -> AgentVersion:
    """Save a version that is not current yet."""
    version = _create(agent, _lock_newest(agent), content, None, note)
    _record(AuditAction.CARD_PROPOSED, version)
    return version


def _lock_newest(agent: Agent) -> AgentVersion | None:
    """The agent's newest version. Locks the agent until the transaction ends."""
    Agent.objects.select_for_update().only("pk").get(pk=agent.pk)
    return agent.versions.order_by("-number").first()


def _create(agent: Agent, newest: AgentVersion | None, content: JSON, author: User | None, note: str) -> AgentVersion:
    number = newest.number + 1 if newest else 1
    return AgentVersion.objects.create(
        agent=agent, number=number, content=content, sha256=content_digest(content), author=author, note=note
    )


def _record(action: AuditAction, version: AgentVersion) -> None:
    """The author is the actor of whatever made the version, unless it has none."""
    details = {"kind": version.agent.kind, "version": version.number, "sha256": version.sha256, "note": version.note}
    audit.record(action, actor=version.author, object=version.agent, details=details)


def content_digest(content: JSON) -> str:
    """SHA-256 of the canonical form (RFC 8785)."""
    return hashlib.sha256(rfc8785.dumps(content)).hexdigest()


@lru_cache(maxsize=1000)
def version_at(key: uuid.UUID) -> AgentVersion:
    """Cached. Raises AgentVersion.DoesNotExist."""
    return AgentVersion.objects.get(pk=key)


@lru_cache(maxsize=1000)
def version_numbered(agent: int, number: int) -> AgentVersion:
    """Cached. Raises AgentVersion.DoesNotExist."""
    return AgentVersion.objects.get(agent=agent, number=number)


CONTEXT_LINES = 3  # unchanged lines before and after a change


@dataclass(frozen=True)
class DiffLine:
    """A line; `number` counts from 1."""

    number: int
    text: str


@dataclass(frozen=True)
class DiffRow:
    """Two lines side by side; None if missing. `kind` is "same", "changed" or "gap" (unchanged lines)."""

    kind: str
    older: DiffLine | None = None
    newer: DiffLine | None = None


def side_by_side(older: str, newer: str) -> list[DiffRow]:
    """The changes, line by line."""
    left, right = older.splitlines(), newer.splitlines()
    groups = SequenceMatcher(None, left, right, autojunk=False).get_grouped_opcodes(CONTEXT_LINES)
    pairs: list[DiffRow] = []
    for number, group in enumerate(groups):
        if number:
            pairs.append(DiffRow("gap"))
        for tag, *ends in group:
            pairs += _diff_rows("same" if tag == "equal" else "changed", left, right, *ends)
    return pairs


def _diff_rows(kind: str, left: list[str], right: list[str], *ends: int) -> Iterator[DiffRow]:
    begin, end, new_begin, new_end = ends
    for older, newer in zip_longest(range(begin, end), range(new_begin, new_end)):
        yield DiffRow(kind, _diff_line(left, older), _diff_line(right, newer))


def _diff_line(lines: list[str], at: int | None) -> DiffLine | None:
    return None if at is None else DiffLine(at + 1, lines[at])
