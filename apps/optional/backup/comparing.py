"""Comparing the record with its log, for all sessions or some, and reading the archives of those in cold storage."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from apps.optional.backup.database import Progress
from apps.record.models import Context
from apps.record.projection import differences
from apps.record.reading.lookup import DamagedArchive
from parley.registry import LeftOut, added

SHOWN = 50  # differences


@dataclass(slots=True)
class Comparison:
    """What was compared, and a line for each of the first differences."""

    sessions: int = 0
    differing: int = 0
    lines: list[str] = field(default_factory=list)


def compare_sessions(sample: int | None, progress: Progress) -> Comparison:
    """Compare the rows of all sessions, or of `sample` random ones, with their logs. It changes nothing."""
    result = Comparison()
    for context_id in _chosen(sample):
        try:
            found = _differences(context_id)
        except Context.DoesNotExist:  # deleted meanwhile
            continue
        result.sessions += 1
        result.differing += bool(found)
        result.lines += [f"{context_id}: {line}" for line in found[: SHOWN - len(result.lines)]]
        if result.sessions % 20 == 0:
            progress(f"compared {result.sessions:,} sessions with their logs")
    return result


def _chosen(sample: int | None) -> Iterable[uuid.UUID]:
    keys: Iterator[uuid.UUID] = Context.objects.order_by("pk").values_list("pk", flat=True).iterator()
    if sample is None:
        return list(keys)  # on SQLite an open cursor would see later changes
    chosen: list[uuid.UUID] = []
    for number, key in enumerate(keys):
        if number < sample:
            chosen.append(key)
        elif (place := random.randrange(number + 1)) < sample:  # noqa: S311
            chosen[place] = key
    return chosen


def _differences(context_id: uuid.UUID) -> list[str]:
    cold_file = Context.objects.values_list("cold_file", flat=True).get(pk=context_id)
    if not cold_file:
        return differences(context_id)
    try:
        manifest = added["verify_archive"](cold_file)
    except (DamagedArchive, LeftOut, OSError) as error:
        return [f"its archive {cold_file} cannot be read: {error}"]
    return [] if manifest["session"] == str(context_id) else [f"its archive {cold_file} is of another session"]
