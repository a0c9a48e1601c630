"""Comparing the record with its log, for all sessions or some, and reading the archives of those in cold storage."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import batched

from apps.optional.backup.database import Progress
from apps.record.models import Context
from apps.record.projection import differences_of
from apps.record.reading.lookup import DamagedArchive
from parley.registry import LeftOut, added

AT_ONCE = 100  # sessions


@dataclass(slots=True)
class Comparison:
    """How many sessions were compared, and how many of them differ from their logs."""

    sessions: int = 0
    differing: int = 0


def compare_sessions(sample: int | None, progress: Progress, tell: Callable[[str], object]) -> Comparison:
    """Compare the rows of all sessions, or of `sample` random ones, with their logs. It changes nothing.

    `tell` gets a line of each session that differs, at once.
    """
    result, chosen = Comparison(), _chosen(sample)
    for some in batched(chosen, AT_ONCE, strict=False):
        for context_id, found in _differences(some):
            result.sessions += 1
            if found:
                result.differing += 1
                more = f" And {len(found) - 1} more differences." if found[1:] else ""
                tell(f"{context_id}: {found[0]}{more}")
        progress(f"compared {result.sessions:,} of {len(chosen):,} sessions with their logs")
    return result


def _chosen(sample: int | None) -> list[uuid.UUID]:
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


def _differences(context_ids: tuple[uuid.UUID, ...]) -> Iterator[tuple[uuid.UUID, list[str]]]:
    cold = dict(Context.objects.filter(pk__in=context_ids).exclude(cold_file="").values_list("pk", "cold_file"))
    yield from differences_of([key for key in context_ids if key not in cold])
    yield from ((key, _differences_in_cold_storage(key, file)) for key, file in cold.items())


def _differences_in_cold_storage(context_id: uuid.UUID, cold_file: str) -> list[str]:
    try:
        manifest = added["verify_archive"](cold_file)
    except (DamagedArchive, LeftOut, OSError) as error:
        return [f"its archive {cold_file} cannot be read: {error}"]
    return [] if manifest["session"] == str(context_id) else [f"its archive {cold_file} is of another session"]
