"""Contexts in cold storage are restored when they are used: a reader never sees an empty one."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

from django.db import models

from apps.accounts.principals import Principal
from apps.record.hooks import hook
from apps.record.models import Accepted, ColdKey, Context, Run, Task


def restored(context: Context) -> Context:
    """The context with its rows in the tables; one that is in no file costs nothing.

    Raises Context.DoesNotExist for one that was deleted, files.DamagedArchive.
    """
    if context.cold_file:
        hook("RESTORE_CONTEXT")(context.pk)
        context.refresh_from_db(fields=["cold_file", "cold_at", "cold_messages", "warmed_at"])
    return context


def restored_or_none(context: Context | None) -> Context | None:
    """What was found, with its rows in the tables."""
    return None if context is None else restored(context)


def restore_key(context_id: uuid.UUID) -> bool:
    """Bring a session back, if it is in cold storage; says whether it was."""
    cold = Context.objects.filter(pk=context_id, deleted_at=None).exclude(cold_file="").first()
    if cold is not None:
        restored(cold)
    return cold is not None


def find_task(principal: Principal, key: uuid.UUID, *related: str) -> Task | None:
    """A task of the caller's, with what it is `related` to, wherever it is kept."""
    named = Task.objects.visible_to(principal).select_related(*related).filter(pk=key)
    found = named.first()
    if found is None and bring_back_tasks(principal, [key]):
        found = named.all().first()
    return found


def bring_back_tasks(principal: Principal, keys: Iterable[uuid.UUID]) -> bool:
    """Bring the caller's sessions back in which tasks are that were not found; says whether there was one."""
    return _bring_back(Task._meta.label_lower, keys, context__owner=principal.user_id)


def bring_back_run(principal: Principal, key: uuid.UUID) -> bool:
    """The same for a run."""
    return _bring_back(Run._meta.label_lower, [key], context__owner=principal.user_id)


def bring_back_answer(accepted: Accepted) -> bool:
    """Bring the session back to which a message led that was accepted once."""
    return _bring_back(Accepted._meta.label_lower, [accepted.pk])


def cold_task_counts(contexts: Sequence[uuid.UUID]) -> dict[uuid.UUID, int]:
    """How many tasks there are of those contexts that are in cold storage."""
    kept = ColdKey.objects.filter(context__in=contexts, kind=Task._meta.label_lower)
    return dict(kept.values_list("context").annotate(models.Count("pk")).order_by())


def _bring_back(kind: str, keys: Iterable[object], **whose: object) -> bool:
    found = ColdKey.objects.select_related("context").filter(kind=kind, key__in=[str(key) for key in keys], **whose)
    return bool([restored(kept.context) for kept in found])
