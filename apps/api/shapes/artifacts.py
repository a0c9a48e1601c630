"""Artifacts: what tasks delivered."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from apps.api.shapes.naming import JSON, parts_json, timestamp
from apps.record.models import Artifact
from apps.record.parts import known_media_type, pieces_joined, size_of
from apps.record.versions import Versions, numbered

MIXED = "multipart/mixed"


def artifacts_json(session: uuid.UUID, rows: Sequence[Artifact], versions: Versions | None = None) -> list[JSON]:
    """Artifacts that were delivered in a session, in the order in which they were begun. No query.

    Without `versions` (see `versions_in`) they are all that were.
    """
    ordered = sorted(rows, key=lambda row: row.first_event)
    if versions is None:
        versions = numbered((row.first_event, row.name, row.artifact_id) for row in ordered)
    return [artifact_json(session, row, versions[row.first_event]) for row in ordered]


def artifact_json(session: uuid.UUID, row: Artifact, version: int) -> JSON:
    """One that was delivered."""
    parts = pieces_joined(row.parts)
    return {
        "id": id_of(row),
        "sessionId": str(session),
        "taskId": str(row.task_id),
        "artifactId": row.artifact_id,
        "name": row.name,
        "description": row.description,
        "mediaType": _media_type(parts),
        "size": sum(size_of(part) or 0 for part in parts),
        "digest": row.digest,
        "isSigned": bool(row.signature),
        "version": version,
        "createdAt": timestamp(row.created_at),
        "parts": parts_json(parts, session),
        "metadata": row.metadata,
    }


def id_of(row: Artifact) -> str:
    return f"{row.task_id}/{row.artifact_id}"


def _media_type(parts: list[JSON]) -> str:
    types = {known_media_type(part) for part in parts}
    return types.pop() if len(types) == 1 else MIXED
