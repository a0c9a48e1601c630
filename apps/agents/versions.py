"""Versions of agents: saved when an agent changes, never changed themselves; and the difference between two of them.

The content of a version is JSON. Of a hosted agent it is what its card says and where its handler is
(`hosted_content`), of an agent without code or a plan its definition, of a remote agent its card and who signed it.
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

from apps.accounts.models import User
from apps.agents.models import Agent, AgentVersion

JSON = dict[str, Any]

HOSTED_FIELDS = ("handler", "name", "description", "version", "skills", "input_modes", "output_modes", "capabilities")


def hosted_content(agent: Agent) -> JSON:
    """What a hosted agent says of itself, as the content of a version."""
    return {"kind": agent.kind, **{field: getattr(agent, field) for field in HOSTED_FIELDS}}


@transaction.atomic
def save_version(agent: Agent, content: JSON, *, author: User | None = None, note: str = "") -> AgentVersion:
    """Make this what the agent is from now on: a new version, unless it is what the current one says already.

    Whoever keeps another version of the same agent at this moment waits.
    """
    newest = _lock_newest(agent)
    if newest and newest.sha256 == content_digest(content) and newest.pk == agent.current_version_id:
        return newest
    version = _create(agent, newest, content, author, note)
    agent.current_version = version
    if agent.kind in (Agent.Kind.MODEL, Agent.Kind.PLAN):  # nobody else counts the versions that its card tells
        agent.version = f"1.{version.number - 1}.0"
    agent.save(update_fields=["current_version", "version", "updated_at"])
    return version


@transaction.atomic
def propose_version(agent: Agent, content: JSON, *, author: User | None = None, note: str = "") -> AgentVersion:
    """A new version that waits to become what the agent is."""
    return _create(agent, _lock_newest(agent), content, author, note)


def _lock_newest(agent: Agent) -> AgentVersion | None:
    """The agent's newest version; nobody else adds one until the end of the transaction."""
    Agent.objects.select_for_update().only("pk").get(pk=agent.pk)
    return agent.versions.order_by("-number").first()


def _create(agent: Agent, newest: AgentVersion | None, content: JSON, author: User | None, note: str) -> AgentVersion:
    number = newest.number + 1 if newest else 1
    return AgentVersion.objects.create(
        agent=agent, number=number, content=content, sha256=content_digest(content), author=author, note=note
    )


def content_digest(content: JSON) -> str:
    """The SHA-256 of a version's content in its canonical form (RFC 8785)."""
    return hashlib.sha256(rfc8785.dumps(content)).hexdigest()


def version_reference(version: AgentVersion) -> JSON:
    """What a run keeps of the version that it goes by."""
    return {"version": str(version.pk), "number": version.number, "sha256": version.sha256}


@lru_cache(maxsize=1000)
def version_at(key: uuid.UUID) -> AgentVersion:
    """A version by its key, looked up once in a process: it never changes. Raises AgentVersion.DoesNotExist."""
    return AgentVersion.objects.get(pk=key)


CONTEXT_LINES = 3  # lines that stayed, before and after a change


@dataclass(frozen=True)
class DiffLine:
    """A line of one of the texts; `number` counts from 1."""

    number: int
    text: str


@dataclass(frozen=True)
class DiffRow:
    """What stands beside each other; None where a side has nothing to it. Neither side: lines that stayed are left out.

    `kind` is "same", "changed" or "gap".
    """

    kind: str
    older: DiffLine | None = None
    newer: DiffLine | None = None


def side_by_side(older: str, newer: str) -> list[DiffRow]:
    """The changes from one text to the other, line by line; nothing where they are the same."""
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
