"""How long sessions are kept: as long as their workspace and their agent say, the shorter of the two."""

from __future__ import annotations

import datetime
import logging

from django.db.models import Q

from apps.accounts.models import Workspace
from apps.agents.models import Agent
from apps.features.sessions import deletion
from apps.record.errors import Refusal
from apps.record.models import Context, ContextQuerySet, Task
from db import statements

log = logging.getLogger("parley.retention")

AT_ONCE = 100
ACTOR = "retention"


def overdue() -> ContextQuerySet:
    """The sessions that are to go, in cold storage or not, the longest untouched first.

    One in which something has not ended is not untouched, however long that takes.
    """
    now = statements.database_time()
    rules = Q(pk=None)
    for holder, model in (("workspace", Workspace), ("agent", Agent)):
        lengths = model._base_manager.exclude(retention_days=None).values_list("retention_days", flat=True).distinct()
        for days in filter(None, lengths):
            rules |= Q(**{f"{holder}__retention_days": days}, updated_at__lt=now - datetime.timedelta(days=days))
    at_work = Task.objects.unfinished().values("context")
    sessions = Context.objects.listed().filter(rules, deleted_at=None).exclude(pk__in=at_work)
    return sessions.order_by("updated_at", "pk")


def expire() -> int:
    """Delete what is overdue, some of it at a time; says how many sessions. It is safe anywhere, at any time, twice."""
    gone = 0
    for context in overdue()[:AT_ONCE]:
        try:
            gone += deletion.clear_untouched(context, ACTOR)
        except Refusal:
            continue  # somebody deleted it at this moment
        except Exception:
            log.exception("session %s could not be deleted by its retention rule", context.pk)
    return gone
