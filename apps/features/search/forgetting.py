"""What deletion does to the index, inside its transaction."""

from __future__ import annotations

from apps.features.search import entries
from apps.features.search.models import Indexed, SearchEntry
from apps.record.models import Context


def forget(context: Context) -> None:
    """Nothing of the conversation is found any more."""
    entries.lock([context.pk])
    SearchEntry.objects.filter(context=context).delete()
    Indexed.objects.filter(pk=context.pk).update(upto=context.last_event)


def move(context: Context, heir: Context, upto: int) -> None:
    """What was said up to that event, a past that was shared, is the heir's from now on."""
    known = entries.lock([context.pk, heir.pk])
    moved = SearchEntry.objects.filter(context=context, index__lte=upto)
    moved.exclude(kind=SearchEntry.Kind.SESSION).update(context=heir)
    if known[context.pk] < upto:  # what was not in the index yet comes into it as the heir's
        Indexed.objects.filter(pk=heir.pk, upto__gt=known[context.pk]).update(upto=known[context.pk])
