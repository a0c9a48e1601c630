"""The rows of one level of the traversal: a fixed number of queries, however many tasks there are."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from contextlib import suppress

from django.db.models.functions import Coalesce

from apps.accounts.principals import Principal
from apps.agents.models import AgentVersion
from apps.record.events import JSON, EventType
from apps.record.execution import Accepted, Run
from apps.record.models import Artifact, ArtifactQuerySet, Context, Event, Message, Segment, Task
from apps.record.reading import lookup
from apps.record.reading.lookup import DamagedArchive

Keys = Collection[uuid.UUID]

CHUNK_SIZE = 100  # rows whose parts are in memory at the same time


def tasks(principal: Principal, keys: Keys) -> list[Task]:
    """The caller's tasks with these keys by age, including those in cold storage."""
    mine = Task.objects.visible_to(principal).filter(pk__in=keys).select_related("agent", "context")
    found = mine.defer("status_message", "slot", "metadata", "context__memory").order_by("created_at", "pk")
    missing = set(keys) - {one.pk for one in found}
    with suppress(DamagedArchive):
        if missing and lookup.restore_tasks(principal, missing):
            found = found.all()
    return list(found)


def children(principal: Principal, keys: Keys, most: int) -> list[uuid.UUID]:
    archived = Context.objects.visible_to(principal).filter(parent_task__in=keys).exclude(cold_file="")
    for context in archived.order_by("pk")[:most]:
        with suppress(DamagedArchive, Context.DoesNotExist):
            lookup.restored(context)
    found = Task.objects.visible_to(principal).filter(parent__in=keys).order_by("created_at", "pk")
    return list(found.values_list("pk", flat=True)[:most])


def messages(keys: Keys, most: int) -> Iterable[Message]:
    said = Message.objects.filter(task__in=keys).defer("metadata", "extensions", "references")
    return said.order_by("created_at", "context", "index")[:most].iterator(CHUNK_SIZE)


def senders(keys: Keys) -> dict[tuple[uuid.UUID | None, str], str]:
    """The sender of each message, by its task and message id, as idempotency stores it: `user:…`, `task:…`."""
    remembered = Accepted.objects.filter(task__in=keys).values_list("task", "message_id", "sender")
    return {(task, message): sender for task, message, sender in remembered.order_by("pk")}


def runs(keys: Keys, most: int) -> list[JSON]:
    """The started turns of the tasks, each with its agent and, if known, its version (`versions.reference`)."""
    begun = Run.objects.filter(task__in=keys, started_at__isnull=False).order_by("task", "turn")
    whose = ("pk", "task", "turn", "input_hash", "input__agent", "agent__slug", "agent__name")
    rows = [dict(one) for one in begun.values(*whose, by=Coalesce("agent", "task__agent"))[:most]]
    if forgotten := {row["pk"]: row for row in rows if not row["input__agent"]}:
        _add_logged_versions(forgotten)
    return rows


def _add_logged_versions(runs: dict[uuid.UUID, JSON]) -> None:
    """Fill in the agent version from the log if a run's input was erased."""
    begins = Event.objects.filter(task__in={row["task"] for row in runs.values()}, run__in=runs)
    begins = begins.filter(type__in=(EventType.AGENT_START, EventType.AGENT_STATUS), payload__has_key="version")
    named = begins.order_by("index").values_list("run", "payload__version")
    numbers = {run: number for run, number in named if run}
    kept = AgentVersion.objects.filter(agent__in={row["by"] for row in runs.values()}, number__in=numbers.values())
    digests = {(agent, number): sha256 for agent, number, sha256 in kept.values_list("agent", "number", "sha256")}
    for run, number in numbers.items():
        sha256 = digests.get((runs[run]["by"], number))
        runs[run]["input__agent"] = {"number": number, "sha256": sha256}


def artifacts(keys: Keys, most: int) -> Iterable[Artifact]:
    return _with_parts(Artifact.objects.delivered().filter(task__in=keys), most)


def sibling_artifacts(principal: Principal, parents: Keys, known: Keys, most: int) -> Iterable[Artifact]:
    others = Task.objects.visible_to(principal).filter(parent__in=parents).exclude(pk__in=known)
    return _with_parts(Artifact.objects.delivered().filter(task__in=others), most)


def _with_parts(found: ArtifactQuerySet, most: int) -> Iterable[Artifact]:
    rows = found.select_related("task").only(
        "artifact_id", "name", "parts", "digest", "signature", "created_at", "task__context", "task__parent"
    )
    return rows.order_by("created_at", "pk")[:most].iterator(CHUNK_SIZE)


def fork_sources(contexts: Keys) -> set[tuple[uuid.UUID, uuid.UUID]]:
    """Forks, each with the contexts that it continues."""
    return {(one.context_id, one.source_id) for one in Segment.objects.filter(context__in=contexts)}
