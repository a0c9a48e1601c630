"""Tasks: units of work in a session."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence

from apps.api.shapes.artifacts import id_of
from apps.api.shapes.events import asked
from apps.api.shapes.naming import JSON, parts_json, slugs_of, timestamp
from apps.record.models import Artifact, Task
from apps.record.parts import words_of


def tasks_json(session: uuid.UUID, rows: Sequence[Task], artifacts: Iterable[Artifact]) -> list[JSON]:
    """Tasks of a session, with what was delivered in it. One query."""
    slugs = slugs_of(row.agent_id for row in rows)
    delivered: dict[uuid.UUID, list[Artifact]] = defaultdict(list)
    for artifact in artifacts:
        delivered[artifact.task_id].append(artifact)
    return [task_json(session, row, slugs[row.agent_id], delivered[row.pk]) for row in rows]


def task_json(session: uuid.UUID, row: Task, agent: str, artifacts: Iterable[Artifact]) -> JSON:
    """A task of a session, with the slug of its agent and what it delivered there."""
    return {
        "id": str(row.pk),
        "sessionId": str(session),
        "state": str(row.state),
        "agent": agent,
        "createdAt": timestamp(row.created_at),
        "updatedAt": timestamp(row.status_at),
        "status": {"message": _status(session, row.status_message)},
        "question": asked(row.slot) if row.slot else None,
        "references": row.references,
        "artifacts": [id_of(one) for one in sorted(artifacts, key=lambda one: one.first_event)],
        "parentId": str(row.parent_id) if row.parent_id else None,
    }


def _status(session: uuid.UUID, message: JSON | None) -> JSON | None:
    if message is None:
        return None
    parts = message["parts"]
    return {
        "messageId": message["messageId"],
        "content": words_of(parts),
        "parts": parts_json(parts, session),
        "metadata": message.get("metadata", {}),
    }
