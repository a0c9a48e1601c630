"""Claims: leases by the database's clock, with a fence against processes that come back too late."""

from __future__ import annotations

import datetime
import random
from typing import Any, Self

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Least
from django.utils import timezone

from parley.db import sql

MOST_TRIES_COUNTED = 1_000


def retry_seconds(tries: int, first: float, longest: float) -> float:
    """The wait after so many failed tries: exponential backoff with jitter."""
    seconds = min(longest, first * 2 ** min(tries - 1, 30))
    return random.uniform(seconds / 2, seconds)  # noqa: S311 - spreads load, hides nothing


class WorkQuerySet[Row: Work](models.QuerySet[Row]):
    def unfinished(self) -> Self:
        """Those with something left to do. Subclasses say which."""
        return self

    def due(self, now: datetime.datetime | None = None) -> Self:
        """The unfinished ones that may be claimed; `now` is the database's time."""
        now = now or sql.database_time()
        return self.unfinished().filter(Q(lease_until=None) | Q(lease_until__lt=now))

    def claim(
        self, lease: datetime.timedelta, most: int = 1, *, now: datetime.datetime | None = None, **values: Any
    ) -> list[Row]:
        """Claim up to so many due rows, in this order, and set further values.

        Of several processes one gets a row, by compare-and-swap. If it dies, the row is due when the lease ends.
        `now` is the database's time.
        """
        now = now or sql.database_time()
        claimed = []
        for row in self.due(now)[:most]:
            # Of its own table alone: with a join it would be a subquery, which PostgreSQL does not ask again.
            same = row.held.filter(lease_until=row.lease_until)
            if same.update(fence=F("fence") + 1, lease_until=now + lease, **values):
                row.fence, row.lease_until = row.fence + 1, now + lease
                claimed.append(row)
        return claimed


class Work(models.Model):
    """A row at which one process at a time works: the one whose fence is the newest."""

    lease_until = models.DateTimeField(null=True, blank=True, editable=False)
    fence = models.PositiveIntegerField(
        default=0, db_default=0, editable=False, help_text="Grows with every claim; an older number is void."
    )

    class Meta:
        abstract = True

    @property
    def held(self) -> models.QuerySet[Self]:
        """The row, unless it has ended or another process has claimed it since."""
        rows: WorkQuerySet[Self] = type(self)._default_manager.all()  # type: ignore[assignment]
        return rows.unfinished().filter(pk=self.pk, fence=self.fence)

    def extend(self, lease: datetime.timedelta, *, now: datetime.datetime | None = None, **values: Any) -> bool:
        """Hold it longer, and set further values; `now` is the database's time. False if it was lost."""
        return bool(self.held.update(lease_until=(now or sql.database_time()) + lease, **values))

    def release(self, **values: Any) -> bool:
        """Hold it no longer, and set further values. False if it was lost."""
        return bool(self.held.update(lease_until=None, **values))


class RetriedQuerySet[Row: Retried](WorkQuerySet[Row]):
    def due(self, now: datetime.datetime | None = None) -> Self:
        now = now or sql.database_time()
        return super().due(now).filter(next_try_at__lte=now).order_by("next_try_at")

    def claim(
        self, lease: datetime.timedelta, most: int = 1, *, now: datetime.datetime | None = None, **values: Any
    ) -> list[Row]:
        """Each claim is a try, so that a row at which processes die waits longer as well.

        Processes of the version before look at `next_try_at` alone, so it moves to the end of the lease.
        """
        now = now or sql.database_time()
        tries = Least(F("tries") + 1, MOST_TRIES_COUNTED)
        claimed = super().claim(lease, most, now=now, tries=tries, next_try_at=now + lease, **values)
        for row in claimed:
            row.tries += 1
        return claimed


class Retried(Work):
    """Work that is tried again later if it fails."""

    tries = models.PositiveSmallIntegerField(default=0)
    next_try_at = models.DateTimeField(default=timezone.now)

    class Meta:
        abstract = True

    def release(self, **values: Any) -> bool:
        """Hold it no longer: it is due at once, unless `next_try_at` is given. False if it was lost."""
        return super().release(**{"next_try_at": sql.database_time(), **values})

    def retry(self, first: float, longest: float, **values: Any) -> bool:
        """Try it again after a wait that doubles, in seconds, and set further values. False if it was lost."""
        wait = datetime.timedelta(seconds=retry_seconds(self.tries, first, longest))
        return self.release(next_try_at=sql.database_time() + wait, **values)
