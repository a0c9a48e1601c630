"""What forks share of a context goes to one of them when the context is deleted. Nothing is copied.

The heir is the fork that shares most: any other's share is the beginning of that. What only the deleted context had is
erased with it (`ledger.erase_context`).
"""

from __future__ import annotations

import uuid
from collections.abc import Collection

from django.db.models import CASCADE, QuerySet

from apps.record.events import EventType
from apps.record.hooks import hooks
from apps.record.lineage import ended_by, widest_share
from apps.record.models import Accepted, Artifact, Context, Event, Message, Run, Segment, Suspension, Task
from apps.record.projection import Rebuilt


def hand_over(context: Context) -> None:
    """Give what forks share of a context to the heir, as the forks show it. `lineage.lock_shared_logs` comes before.

    Tasks that had not ended by then are canceled, as they are in every fork, and lose whatever came later.
    """
    Segment.objects.filter(context=context).exclude(source=context).delete()
    share = widest_share(context)
    if share is None:
        return
    heir, last = share.context, share.last
    cut_off = _unfinished_at(context, last)
    for model, index in ((Event, "index"), (Message, "index"), (Task, "first_event")):
        rows: QuerySet[Event | Message | Task] = model._default_manager.filter(context=context)
        rows.filter(**{f"{index}__lte": last}).update(context=heir)
    for inherit in hooks("CONTEXT_INHERITED"):
        inherit(context, heir, last)
    Segment.objects.filter(source=context).exclude(context=context).update(source=heir)
    if cut_off:
        _cancel_tasks(heir, last, cut_off)


def _unfinished_at(context: Context, last: int) -> list[uuid.UUID]:
    """The tasks that were opened by event `last`, and had not ended by then."""
    opened = Task.objects.filter(context=context, first_event__lte=last)
    return list(opened.exclude(ended_by(last)).values_list("pk", flat=True))


def _cancel_tasks(heir: Context, last: int, tasks: Collection[uuid.UUID]) -> None:
    """Let the tasks be what they are in a fork that begins after event `last`."""
    rebuilt = Rebuilt(Context(pk=heir.pk))
    for event in Event.objects.filter(context=heir, task__in=tasks, index__lte=last).order_by("index"):
        rebuilt.take(event)
    rebuilt.take(_fork_after(heir, last))
    Artifact.objects.filter(task__in=tasks).delete()
    Artifact.objects.bulk_create(rebuilt.artifacts)
    Task.objects.bulk_update(
        rebuilt.tasks.values(), ["state", "status_message", "slot", "metadata", "status_at", "status_event"]
    )
    _delete_later_rows(last, tasks)


def _fork_after(heir: Context, last: int) -> Event:
    """The event by which the heir's log, or that of which it is a fork, went on after event `last`."""
    return Event.objects.get(
        context__lent__context=heir.pk,
        context__lent__first=last + 1,
        index=last + 1,
        type=EventType.FORK,
    )


def _delete_later_rows(last: int, tasks: Collection[uuid.UUID]) -> None:
    """Whatever hangs on the tasks: the answers to repeated messages, their runs, and what upper layers keep of them."""
    kept = Message.objects.filter(task__in=tasks, index__lte=last, role=Message.Role.USER)
    later = Accepted.objects.filter(task__in=tasks).exclude(message_id__in=kept.values("message_id"))
    later.update(task=None, answer=None, claimed_until=None)
    Message.objects.filter(task__in=tasks, index__gt=last).delete()
    Run.objects.filter(task__in=tasks).update(memory={}, error=None, notes=[], remote={})
    Suspension.objects.filter(task__in=tasks).delete()
    for relation in Task._meta.related_objects:
        model = relation.related_model
        if relation.on_delete is CASCADE and model._meta.app_label != Task._meta.app_label:
            model._default_manager.filter(**{f"{relation.field.name}__in": tasks}).delete()
