"""What a turn changed in its conversation's memory, to be merged with what other tasks changed meanwhile."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

from apps.engine.cleaning import clean
from apps.record.events import JSON
from apps.record.ledger import Ledger

LARGEST = 64 * 1024


class TooMuchToRemember(ValueError):
    """The agent wanted to keep more than 64 KiB for this conversation."""

    code = "memory_too_large"

    def __init__(self) -> None:
        super().__init__(self.__doc__)


@dataclass(frozen=True, slots=True)
class Changes:
    """By top-level key: tasks side by side do not undo each other where they keep different ones."""

    changed: JSON
    forgotten: Collection[str]

    def write(self, log: Ledger) -> None:
        log.remember(self.changed, self.forgotten)


def changes(before: JSON, after: JSON) -> Changes | None:
    """What a turn that was given `before` leaves behind; None where it changed nothing.

    Raises TooMuchToRemember, and ValueError for what JSON cannot say.
    """
    kept: JSON = clean(after)
    if kept == before:
        return None
    if len(json.dumps(kept, ensure_ascii=False).encode()) > LARGEST:
        raise TooMuchToRemember
    changed = {key: value for key, value in kept.items() if key not in before or before[key] != value}
    return Changes(changed, before.keys() - kept.keys())
