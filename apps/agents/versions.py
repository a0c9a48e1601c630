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
from django.db import models, transaction

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import User
from apps.agents.models import Agent, AgentVersion
from apps.agents.rollouts.models import Rollout

JSON = dict[str, Any]

HOSTED_FIELDS = ("handler", "name", "description", "version", "skills", "input_modes", "output_modes", "capabilities")


def hosted_content(agent: Agent) -> JSON:
    return {"kind": agent.kind, **{field: getattr(agent, field) for field in HOSTED_FIELDS}}


@transaction.atomic
def save_version(agent: Agent, content: JSON, *, author: User | None = None, note: str = "") -> AgentVersion:
    """Make this the current version: the newest one, if that has this content, or a new one."""
    newest = _lock_newest(agent)
    same = newest if newest and newest.sha256 == content_digest(content) else None
    if same and same.pk == agent.current_version_id:
        return same
    version = same or _create(agent, newest, content, author, note)
    if same:
        withdraw(agent, but=same.number)
    agent.current_version = version
    if agent.kind in (Agent.Kind.MODEL, Agent.Kind.PLAN):  # other kinds set their own
        agent.version = f"1.{version.number - 1}.0"
    agent.save(update_fields=["current_version", "version", "updated_at"])
    _record(AuditAction.AGENT_REGISTERED if newest is None else AuditAction.VERSION_PUBLISHED, version, author)
    return version


@transaction.atomic
def propose_version(
    agent: Agent,
    content: JSON,
    *,
    author: User | None = None,
    note: str = "",
    action: AuditAction = AuditAction.VERSION_PROPOSED,
) -> AgentVersion:
    """Save a version that is not current yet: the newest one, if that has this content, or a new one."""
    newest = _lock_newest(agent)
    if newest is not None and newest.sha256 == content_digest(content):
        return newest
    version = _create(agent, newest, content, author, note)
    _record(action, version, author)
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


def _record(action: AuditAction, version: AgentVersion, author: User | None) -> None:
    """The author is the actor, unless there is none."""
    details = {"kind": version.agent.kind, "version": version.number, "sha256": version.sha256, "note": version.note}
    audit.record(action, actor=author, object=version.agent, details=details)


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


def run_side_by_side(agent: Agent) -> bool:
    """Whether several versions of the agent can run at a time: its versions define it, not a handler or a remote card.

    No query, once the process knows its current version.
    """
    if agent.current_version_id is None or agent.kind == Agent.Kind.HOSTED:
        return False
    return agent.kind != Agent.Kind.REMOTE or bool(version_at(agent.current_version_id).folder)


def number_for_session(agent: Agent, session: str) -> int | None:
    """The version with which a new session begins; None if a handler or a remote card defines the agent.

    `session` is the A2A contextId: while a rollout goes on, it decides whether the session tries the candidate. So a
    repeated send gets the same, and a session that tries it at 10 % does so at 20 %.
    """
    if not run_side_by_side(agent):
        return None
    if agent.rollout_id is not None:
        rollout = Rollout.objects.get(pk=agent.rollout_id)
        if percentile_of(session, rollout.candidate_id) < rollout.percent:
            return version_at(rollout.candidate_id).number
    return version_at(agent.current_version_id).number


def percentile_of(session: str, candidate: uuid.UUID) -> int:
    """A number from 0 to 99, evenly spread over sessions; of each candidate another."""
    return int.from_bytes(hashlib.sha256(f"{candidate} {session}".encode()).digest()[:8]) % 100


def version_in_session(agent: Agent, begun: int | None) -> AgentVersion | None:
    """The version of the next turn in a session that began with the version of this number, if it is known.

    The current one, unless the agent's sessions keep theirs, or this is the candidate of the rollout under way. No
    session continues on a version that was withdrawn.
    """
    if agent.current_version_id is None:
        return None
    current = version_at(agent.current_version_id)
    if begun is None or begun == current.number or begun in agent.withdrawn_versions:
        return current
    is_kept = agent.session_versions == Agent.SessionVersions.KEPT
    if not is_kept and agent.rollout_id is not None:
        is_kept = version_at(candidate_of(agent.rollout_id)).number == begun
    return version_numbered(agent.pk, begun) if is_kept else current


class Standing(models.TextChoices):
    CURRENT = "current", "current"
    CANDIDATE = "candidate", "candidate"
    WITHDRAWN = "withdrawn", "withdrawn"
    PROPOSED = "proposed", "not current yet"
    EARLIER = "earlier", "earlier"


def standing(version: AgentVersion) -> Standing:
    """What a version is to its agent, whose current version should be loaded."""
    agent = version.agent
    if agent.current_version_id == version.pk:
        return Standing.CURRENT
    if is_candidate(version):
        return Standing.CANDIDATE
    if version.number in agent.withdrawn_versions:
        return Standing.WITHDRAWN
    current = agent.current_version
    return Standing.PROPOSED if current is not None and current.number < version.number else Standing.EARLIER


def withdraw(agent: Agent, number: int | None = None, *, but: int | None = None) -> None:
    """Let no session continue on the version of this number; let them on that of `but`."""
    locked = Agent.objects.select_for_update().only("withdrawn_versions").get(pk=agent.pk)
    wanted = sorted({*locked.withdrawn_versions, *([number] if number else [])} - {but})
    if wanted != locked.withdrawn_versions:
        Agent.objects.filter(pk=agent.pk).update(withdrawn_versions=wanted)


@lru_cache(maxsize=1000)
def candidate_of(rollout: uuid.UUID) -> uuid.UUID:
    """The key of the version that a rollout tries. Cached: it never changes."""
    return Rollout.objects.values_list("candidate", flat=True).get(pk=rollout)


def is_candidate(version: AgentVersion) -> bool:
    """Whether a part of new sessions tries it."""
    rollout = version.agent.rollout_id
    return rollout is not None and candidate_of(rollout) == version.pk


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
