"""Which backups are kept: as with restic and borg, the newest of each of the last so many days, weeks and so on."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from apps.housekeeping.models import Backup
from apps.optional.backup.container import BadBackup
from apps.optional.backup.places import OWN_NAME, Place

PERIODS: Mapping[str, Callable[[datetime.datetime], object]] = {
    "last": lambda at: at,
    "hourly": lambda at: at.strftime("%F %H"),
    "daily": lambda at: at.date(),
    "weekly": lambda at: at.isocalendar()[:2],
    "monthly": lambda at: (at.year, at.month),
    "yearly": lambda at: at.year,
}
"""What two backups of one period have in common, by UTC."""


@dataclass(slots=True)
class Pruned:
    """Names of what was deleted, and of what does not have the size any more with which it was written."""

    deleted: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    problem: str = ""


def kept(backups: Iterable[Backup], rules: Mapping[str, int]) -> set[Backup]:
    """Those that a rule keeps: how many of each of the PERIODS. A period without a backup does not count."""
    newest_first = sorted(backups, key=lambda one: (one.started_at, one.pk), reverse=True)
    found = set(newest_first[:1])
    for period, count in rules.items():
        newest: dict[object, Backup] = {}
        for backup in newest_first:
            newest.setdefault(PERIODS[period](backup.started_at.astimezone(datetime.UTC)), backup)
        found |= set([*newest.values()][:count])
    return found


def prune(place: Place, rules: Mapping[str, int]) -> Pruned:
    """Delete from a place what no rule keeps; without rules, nothing.

    Only complete backups of this installation are looked at: those of which it has a row, under the names that it
    gives. They count if they are still there, as long as they were, so that the last good one always stays. A file
    that got its name although its attempt failed, such as by a kill at its end, is deleted too.
    """
    pruned = Pruned()
    try:
        sizes = place.sizes()
        known = Backup.objects.filter(place=place.label, name__in=filter(OWN_NAME.fullmatch, sizes))
        rows = known.complete()
        good = [row for row in rows if sizes[row.name] == row.bytes]
        pruned.damaged.extend(row.name for row in rows if row not in good)
        staying = kept(good, rules) if rules else set(good)
        for row in good:
            if row not in staying:
                place.delete(row.name)
                pruned.deleted.append(row.name)
                row.delete()
        for row in known.filter(state=Backup.State.FAILED) if rules else ():
            place.delete(row.name)
            pruned.deleted.append(row.name)
    except BadBackup as error:
        pruned.problem = str(error)
    return pruned
