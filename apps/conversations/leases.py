"""Leases by the database's clock, which all worker processes share."""

import datetime

from django.conf import settings


def end(now: datetime.datetime) -> datetime.datetime:
    """When a lease that is taken or extended at `now`, by the database's clock, ends."""
    return now + datetime.timedelta(seconds=settings.RUN_LEASE_SECONDS)
