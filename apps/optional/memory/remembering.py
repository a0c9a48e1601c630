"""What is done to a person's memory: remembering, changing, forgetting, undoing. By the person, or by an agent."""

from __future__ import annotations

import datetime
import hashlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.utils import timezone

from apps.accounts import audit
from apps.accounts.audit_models import AuditAction
from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.accounts.resources import Act, NotNeeded, Resource
from apps.agents.models import Agent
from apps.optional.memory.models import MAX_TEXT, AgentMemory, MemoryEntry, MemoryText, PersonalInstructions
from apps.record.content.parts import is_blank
from apps.record.errors import InvalidFields, UnsupportedOperation
from apps.record.events import JSON
from apps.record.projects import check_seen
from parley.db.sql import database_time, delete_in_batches, write_transaction

MOST_ENTRIES = 200  # of one person in a workspace
SOME_AGENTS = "This key is for some agents alone. Memory is of all."
KEPT_FORGOTTEN = datetime.timedelta(days=30)
SHOWN: tuple[str, ...] = ("text", "agent", "updated_at", "session", "message_index")  # of an entry: its newest text


class MemoryFull(UnsupportedOperation):
    """The memory has as many entries as it may have. Delete some first."""


@dataclass(frozen=True, slots=True)
class Source:
    """An agent that writes, and the person's message for which it does so."""

    agent: Agent
    session: uuid.UUID
    message_index: int | None


def digest_of_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def live_entries(principal: Principal) -> Any:
    """The caller's entries that are not forgotten, the newest first."""
    return MemoryEntry.objects.visible_to(principal).filter(forgotten_at=None).order_by("-updated_at", "-pk")


def save(principal: Principal, entry: MemoryEntry, source: Source | None = None) -> MemoryEntry:
    """Check and save a new or a changed entry of the caller. An agent, the `source`, moves it into no project.

    Raises InvalidFields, MemoryFull, PermissionDenied.
    """
    _check_reach(principal)
    entry.text = entry.text.strip()
    _check(principal, entry)
    is_new = entry._state.adding
    with write_transaction():
        if is_new:
            User.objects.select_for_update().get(pk=principal.user_id or 0)  # two at once must not exceed the limit
            if live_entries(principal).count() >= MOST_ENTRIES:
                raise MemoryFull
            entry.owner_id, entry.workspace_id = principal.user_id, principal.workspace_id  # type: ignore[assignment]
        elif _has_text(entry):
            MemoryEntry.objects.filter(pk=entry.pk).update(project=entry.project)
            return entry
        text = MemoryText(entry=entry, text=entry.text, digest=digest_of_text(entry.text), at=database_time())
        if source is not None:
            text.agent, text.session, text.message_index = source.agent, source.session, source.message_index
        _show(entry, text)
        if is_new:
            entry.created_at = text.at
        entry.save(update_fields=None if is_new else SHOWN if source else (*SHOWN, "project"))
        text.save()
        _record(AuditAction.MEMORY_ADDED if is_new else AuditAction.MEMORY_CHANGED, entry, principal, source)
    return entry


def _check_reach(principal: Principal) -> None:
    """Raises PermissionDenied."""
    if principal.agents is not None:
        raise PermissionDenied(SOME_AGENTS)


def _check(principal: Principal, entry: MemoryEntry) -> None:
    """Raises InvalidFields."""
    if is_blank(entry.text):
        raise InvalidFields([("text", "Write what to remember.")])
    if len(entry.text) > MAX_TEXT:
        raise InvalidFields([("text", f"Write at most {MAX_TEXT} characters: one thing an entry.")])
    check_seen(principal, entry.project, entry)


def _has_text(entry: MemoryEntry) -> bool:
    return MemoryEntry.objects.filter(pk=entry.pk, text=entry.text).exists()


def _show(entry: MemoryEntry, newest: MemoryText) -> None:
    entry.text, entry.agent, entry.updated_at = newest.text, newest.agent, newest.at
    entry.session, entry.message_index = newest.session, newest.message_index


def _record(action: AuditAction, entry: MemoryEntry, principal: Principal, source: Source | None = None) -> None:
    """The audit has no text: what is forgotten must be gone."""
    details: JSON = {}
    if source is not None:
        details = {"agent": source.agent.slug, "session": str(source.session), "message": source.message_index}
    subject = audit.Subject("memory.memoryentry", str(entry.pk), str(entry.pk))
    audit.record(action, actor=principal, object=subject, workspace=entry.workspace_id, details=details)


def remember(principal: Principal, text: str, project: uuid.UUID | None, source: Source) -> MemoryEntry:
    """What an agent notes. Raises InvalidFields, MemoryFull. What is known already is not noted again."""
    known = live_entries(principal).filter(text__iexact=text.strip(), project=project).first()
    return known or save(principal, MemoryEntry(text=text, project=project), source)


def forget(principal: Principal, entry: MemoryEntry, source: Source) -> None:
    """No turn is told it any more. The person may undo that for 30 days."""
    with write_transaction():
        if MemoryEntry.objects.filter(pk=entry.pk, forgotten_at=None).update(forgotten_at=database_time()):
            _record(AuditAction.MEMORY_FORGOTTEN, entry, principal, source)


def sweep() -> int:
    """Deletes what agents forgot 30 days ago, and what is of deleted workspaces. Returns how many rows."""
    is_forgotten = Q(forgotten_at__lt=timezone.now() - KEPT_FORGOTTEN)
    is_left = Q(workspace__deleted_at__isnull=False)
    entries = delete_in_batches(MemoryEntry.objects.filter(is_forgotten | is_left))
    return entries + delete_in_batches(PersonalInstructions.objects.filter(is_left))


def _undo(entry: MemoryEntry, principal: Principal) -> MemoryEntry:
    changed = SHOWN
    with write_transaction():
        texts = list(entry.texts.order_by("-at", "-pk")[:2])
        if entry.forgotten_at is not None:
            entry.forgotten_at = None
            changed = ("forgotten_at",)
        elif len(texts) > 1:
            newest, before = texts
            newest.delete()
            _show(entry, before)
        else:
            raise NotNeeded("There is no earlier text.")
        entry.save(update_fields=changed)
        _record(AuditAction.MEMORY_UNDONE, entry, principal)
    return entry


def _switch(entry: MemoryEntry, *, is_on: bool) -> MemoryEntry:
    if not MemoryEntry.objects.filter(pk=entry.pk, is_on=not is_on).update(is_on=is_on):
        raise NotNeeded("It is on already." if is_on else "It is off already.")
    entry.is_on = is_on
    return entry


def _delete(entry: MemoryEntry, principal: Principal) -> MemoryEntry:
    with write_transaction():
        _record(AuditAction.MEMORY_DELETED, entry, principal)
        entry.delete()
    return entry


def delete_all(principal: Principal) -> int:
    """Delete all entries of the caller. Returns how many."""
    with write_transaction():
        entries = list(MemoryEntry.objects.visible_to(principal))
        return len([_delete(one, principal) for one in entries])


TURN_OFF = Act[MemoryEntry](
    "turn-off", "Turn off", lambda entry, _: _switch(entry, is_on=False), "Keep an entry from agents",
    "Agents are not told it until it is on again.", lambda _: "Agents are not told it any more.",
    lambda entry: entry.is_on and entry.forgotten_at is None,
)  # fmt: skip
TURN_ON = Act[MemoryEntry](
    "turn-on", "Turn on", lambda entry, _: _switch(entry, is_on=True), "Let agents know an entry again",
    "Agents are told it again.", lambda _: "Agents are told it again.",
    lambda entry: not entry.is_on and entry.forgotten_at is None,
)  # fmt: skip
UNDO = Act[MemoryEntry](
    "undo", "Undo", _undo, "Undo the newest change of an entry, or that an agent forgot it",
    "Its text before counts again.", lambda _: "It was undone.",
    lambda entry: entry.forgotten_at is not None or entry.updated_at != entry.created_at, records=True,
)  # fmt: skip
DELETE = Act[MemoryEntry](
    "delete", "Delete", _delete, "Delete an entry with its earlier texts",
    "No agent is told it again. What sessions say of it stays in them.", lambda _: "It was deleted.", is_grave=True,
    records=True,
)  # fmt: skip
ENTRIES = Resource(
    "memory", "memory_entry", MemoryEntry, save, (UNDO, TURN_OFF, TURN_ON, DELETE), ("agent",), ("-updated_at", "-id")
)


def instructions_of(principal: Principal) -> PersonalInstructions:
    """The caller's, or new ones that are not saved."""
    found = PersonalInstructions.objects.visible_to(principal).first()
    return found or PersonalInstructions()


def save_instructions(principal: Principal, row: PersonalInstructions) -> PersonalInstructions:
    """Raises PermissionDenied."""
    _check_reach(principal)
    row.text = row.text.strip()
    row.digest = digest_of_text(row.text) if row.text else ""
    values = {name: getattr(row, name) for name in ("text", "digest", "is_on", "has_memory")}
    user, workspace = principal.user_id or 0, principal.workspace_id or 0
    saved, _ = PersonalInstructions.objects.update_or_create(owner_id=user, workspace_id=workspace, defaults=values)
    return saved


def personal_data(person: User) -> Iterator[tuple[str, str, Any]]:
    """The person's memory, with its earlier texts."""
    entries = MemoryEntry.objects.filter(owner=person).select_related("agent").prefetch_related("texts")
    told = [
        {
            "id": str(one.pk),
            "text": one.text,
            "isOn": one.is_on,
            "projectId": str(one.project) if one.project else None,
            "writtenBy": one.agent.slug if one.agent else None,
            "createdAt": one.created_at.isoformat(),
            "updatedAt": one.updated_at.isoformat(),
            "forgottenAt": one.forgotten_at.isoformat() if one.forgotten_at else None,
            "texts": [{"text": text.text, "at": text.at.isoformat()} for text in one.texts.all()],
        }
        for one in entries.order_by("created_at", "pk")
    ]
    own = PersonalInstructions.objects.filter(owner=person)
    instructions = list(own.values("workspace__name", "text", "is_on", "has_memory"))
    rights = dict(AgentMemory.objects.filter(owner=person).values_list("agent__slug", "uses"))
    told_of = {"instructions": instructions, "entries": told, "agents": rights}
    yield "memory.json", "what agents remember of you, and which may", told_of
