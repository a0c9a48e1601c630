"""Rows of the record as nodes."""

from __future__ import annotations

import uuid
from typing import Any

from apps.accounts.principals import Principal
from apps.features.provenance.graphs import Kind, Node
from apps.record.models import Artifact, Message, Task
from apps.record.parts import known_media_type, pieces_joined, size_of, words_of

JSON = dict[str, Any]

LINE = 300  # characters of what a message says


def task_id(key: object) -> str:
    """The id of a task's node."""
    return f"task:{key}"


def of_task(task: Task) -> Node:
    about = {"taskId": str(task.pk), "sessionId": str(task.context_id), "agent": task.agent.slug}
    return Node(task_id(task.pk), Kind.TASK, task.agent.name, task.created_at, {**about, "state": task.state})


def unavailable(key: uuid.UUID) -> Node:
    """A task that was deleted, or is not the reader's: which of both is not said."""
    return Node(task_id(key), Kind.UNAVAILABLE, "Not available", details={"taskId": str(key)})


def of_artifact(artifact: Artifact) -> Node:
    parts = pieces_joined(artifact.parts)
    types = {known_media_type(part) for part in parts}
    details = {
        "taskId": str(artifact.task_id),
        "sessionId": str(artifact.task.context_id),
        "artifactId": artifact.artifact_id,
        "name": artifact.name,
        "mediaTypes": sorted(types),
        "size": sum(size_of(part) or 0 for part in parts),
        "digest": artifact.digest,
        "isSigned": bool(artifact.signature),
    }
    key = f"artifact:{artifact.task_id}/{artifact.artifact_id}"
    return Node(key, Kind.ARTIFACT, str(artifact), artifact.created_at, details)


def of_message(message: Message) -> Node:
    words = " ".join(words_of(message.parts).split())[:LINE]
    details = {
        "messageId": message.message_id,
        "sessionId": str(message.context_id),
        "index": message.index,
        "role": message.role,
        "text": words,
    }
    return Node(f"message:{message.pk}", Kind.MESSAGE, words or "Without words", message.created_at, details)


def of_version(task: Task, run: JSON) -> Node:
    """Who took a turn of a task: its own agent or the one that stood in, by the version that the run keeps."""
    slug, name = run["agent__slug"] or task.agent.slug, run["agent__name"] or task.agent.name
    kept = run["input__agent"] or {}
    number = kept.get("number")
    details = {"agent": slug, "name": name, "version": number, "sha256": kept.get("sha256")}
    key, called = (f"agent:{slug}@{number}", f"{name}, version {number}") if number else (f"agent:{slug}", name)
    return Node(key, Kind.AGENT_VERSION, called, details=details)


def of_person(principal: Principal) -> Node:
    """The owner of all of it."""
    name = principal.name or "Somebody"
    return Node("person:owner", Kind.PERSON, name, details={"name": name})
