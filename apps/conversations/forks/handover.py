"""When a context is deleted, one of its forks takes over what they share. Nothing is copied.

The heir is the fork that shares most; the others share the beginning of that. The rest is erased
(`ledger.erase_contexts`).
"""

from __future__ import annotations

import uuid
from collections.abc import Collection

from django.db.models import CASCADE, F

from apps.record.chain import erasing
from apps.record.events import EventType
from apps.record.execution import Accepted, Dependency, Run, Suspension
from apps.record.lineage import ended_by, widest_shares
from apps.record.models import Artifact, Context, Event, Message, Segment, Task
from apps.record.projection import Rebuilt
from parley.db.sql import Keys
from parley.registry import added


def hand_over(contexts: Keys) -> None:
    """Give the parts of contexts that other forks share to their heirs. Call `lineage.lock_shared_logs` first.

    Tasks that had not ended by then are canceled, as in every fork, and lose what came later.
    """
    Segment.objects.filter(context__in=contexts).exclude(source=F("context")).delete()
    for share in widest_shares(contexts):
        _give(share.source, share.context, share.last)


def _give(context: Context, heir: Context, last: int) -> None:
    opened = Task.objects.filter(context=context, first_event__lte=last)
    cut_off = list(opened.exclude(ended_by(last)).values_list("pk", flat=True))
    with erasing(context.pk):
        Event.objects.filter(context=context, index__lte=last).update(context=heir)
    Message.objects.filter(context=context, index__lte=last).update(context=heir)
    opened.exclude(pk__in=cut_off).update(context=heir)
    for inherit in added["context_inherited"]:
        inherit(context, heir, last)
    Segment.objects.filter(source=context).exclude(context=context).update(source=heir)
    if cut_off:
        _cancel_tasks(heir, last, cut_off)


def _cancel_tasks(heir: Context, last: int, tasks: Collection[uuid.UUID]) -> None:
    """Give the tasks to the heir, with the state that they have in a fork that begins after event `last`.

    That is one statement: the database refuses to change a finished task that stays in its log.
    """
    rebuilt = Rebuilt(Context(pk=heir.pk))
    for event in Event.objects.filter(context=heir, task__in=tasks, index__lte=last).order_by("index"):
        rebuilt.apply(event)
    after = {"context__lent__context": heir.pk, "context__lent__first": last + 1, "index": last + 1}
    rebuilt.apply(Event.objects.get(**after, type=EventType.FORK))
    Artifact.objects.filter(task__in=tasks).delete()
    Artifact.objects.bulk_create(rebuilt.artifacts)
    columns = ["context", "state", "status_message", "slot", "metadata", "status_at", "status_event"]
    Task.objects.bulk_update(rebuilt.tasks.values(), columns)
    _delete_later_rows(last, tasks)


def _delete_later_rows(last: int, tasks: Collection[uuid.UUID]) -> None:
    kept = Message.objects.filter(task__in=tasks, index__lte=last, role=Message.Role.USER)
    later = Accepted.objects.filter(task__in=tasks).exclude(message_id__in=kept.values("message_id"))
    later.update(task=None, answer=None, claimed_until=None)
    Message.objects.filter(task__in=tasks, index__gt=last).delete()
    Run.objects.filter(task__in=tasks).update(memory={}, error=None, notes=[], remote={})
    Suspension.objects.filter(task__in=tasks).delete()
    Dependency.objects.filter(task__in=tasks).delete()
    for relation in Task._meta.related_objects:
        model = relation.related_model
        if relation.on_delete is CASCADE and model._meta.app_label != Task._meta.app_label:
            model._default_manager.filter(**{f"{relation.field.name}__in": tasks}).delete()
