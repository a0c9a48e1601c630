"""Leases by the database's clock, which all worker processes share."""

import datetime

from django.conf import settings
from django.db.models import DateTimeField, ExpressionWrapper
from django.db.models.expressions import Combinable, Value
from django.db.models.functions import Now


def from_now(seconds: float) -> Combinable:
    """The database's time `seconds` from now, as an expression."""
    return ExpressionWrapper(Now() + Value(datetime.timedelta(seconds=seconds)), output_field=DateTimeField())


def end() -> Combinable:
    """When a lease that is taken or extended now ends."""
    return from_now(settings.RUN_LEASE_SECONDS)
