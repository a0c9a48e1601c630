"""Versions of what is delivered: what has a name again in a session is the next version of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from apps.record import lineage
from apps.record.models import Context

Versions = Mapping[int, int]
"""By the index of an artifact's first chunk, how many of its name there are in the session up to it."""


def versions_in(context: Context) -> Versions:
    """The versions of all that was delivered in a session. One query, beside segments."""
    found = lineage.artifacts(context).order_by("first_event")
    return numbered(found.values_list("first_event", "name", "artifact_id"))


def numbered(rows: Iterable[tuple[int, str, str]]) -> Versions:
    """The versions of artifacts (first event, name, id) that stand in their order."""
    seen: Counter[str] = Counter()
    versions = {}
    for first_event, name, artifact_id in rows:
        seen[name or artifact_id] += 1
        versions[first_event] = seen[name or artifact_id]
    return versions
