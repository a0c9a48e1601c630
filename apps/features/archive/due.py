"""What is done regularly: sessions that were archived long enough go into cold storage."""

from __future__ import annotations

import datetime
import logging

from django.conf import settings
from django.db.models import Q

from apps.accounts.models import Workspace
from apps.features.archive import archiving
from apps.record.models import Context, ContextQuerySet
from db import statements

log = logging.getLogger("parley.archives")

AT_ONCE = 100
REST = datetime.timedelta(days=1)  # for which a session stays that somebody looked at, or that could not go


def due() -> ContextQuerySet:
    """The sessions that were archived long enough, the longest ago first."""
    now = statements.database_time()
    recently = Q(warmed_at__gt=now - REST)
    return Context.objects.filter(_rules(now), deleted_at=None, cold_file="").exclude(recently).order_by("archived_at")


def _rules(now: datetime.datetime) -> Q:
    """Each workspace's own number of days, or the installation's."""
    stated = Workspace.objects.exclude(cold_after_days=None)
    rules = Q(pk=None)
    for days in {None, *stated.values_list("cold_after_days", flat=True)}:
        length = datetime.timedelta(days=settings.COLD_AFTER_DAYS if days is None else days)
        rules |= Q(workspace__cold_after_days=days, archived_at__lt=now - length)
    return rules


def cool_due() -> int:
    """Move what is due, some of it at a time; says how many sessions. It is safe anywhere, at any time, twice.

    What has to stay rests, so that it does not keep others from their turn.
    """
    moved = 0
    for context in due()[:AT_ONCE]:
        try:
            cool_whole(context)
            moved += 1
            continue
        except (archiving.StaysWarm, Context.DoesNotExist) as reason:
            log.info("session %s stays in the tables: %s", context.pk, reason)
        except Exception:
            log.exception("session %s could not be moved into cold storage", context.pk)
        Context.objects.filter(pk=context.pk).update(warmed_at=statements.database_time())
    return moved


def cool_whole(context: Context) -> None:
    """Move a session, after the conversations in which agents worked for it.

    Raises what `archiving.cool` raises; then each of them is whole, in the tables or in its file.
    """
    for child in archiving.children(context):
        cool_whole(child)
    archiving.cool(context.pk)


def hindrance(context: Context) -> str:
    """Why a session, or one in which agents worked for it, would stay in the tables; "" where nothing keeps it."""
    below = (hindrance(child) for child in archiving.children(context))
    return next(filter(None, (*archiving.obstacles(context), *below)), "")
