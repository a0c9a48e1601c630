"""Bringing the index up to date with the record. Nothing that writes the record does it: a job does, and who searches.

How far each conversation is in the index says its `Indexed` row, which is locked while entries are written: whoever
comes second finds the work done. What is read from files is read before that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.db.models import F, Q
from django.db.models.aggregates import Max

from apps.accounts.principals import Principal
from apps.features.search import entries
from apps.features.search.contents import text_of
from apps.features.search.models import Indexed, SearchEntry
from apps.record.events import EventType
from apps.record.models import Artifact, Context, Event, Message
from apps.record.models.record import ContextQuerySet
from db.transactions import transacting

CONTEXTS_AT_ONCE = 100
EVENTS_AT_ONCE = 1_000  # of all of these: it is what somebody who searches waits for, and what memory holds
NEWEST_CONTEXTS = 200  # of a caller, that are looked at when something is searched
NEWEST_EVENTS = 20_000  # of the whole record, that are looked at every few seconds


@dataclass(frozen=True, slots=True)
class Unindexed:
    """The events of a conversation that are next: those after `after`, up to `upto`."""

    context: Context
    after: int
    upto: int

    def covers(self, context: str, index: str) -> Q:
        return Q(**{context: self.context, f"{index}__gt": self.after, f"{index}__lte": self.upto})


def findable() -> ContextQuerySet:
    """Conversations of somebody, that people lead: not those in which agents work for other agents.

    What is in cold storage was indexed before, and is found as it was.
    """
    found: ContextQuerySet = Context.objects.listed().filter(deleted_at=None, owner__isnull=False, cold_file="")
    return found


def catch_up(principal: Principal) -> int:
    """Bring what the caller said or was told lately into the index: a bounded piece of work.

    Returns how many conversations it brought further.
    """
    newest = findable().visible_to(principal).order_by("-updated_at", "-pk")[:NEWEST_CONTEXTS]
    return advance(_behind(findable().filter(pk__in=newest.values("pk"))))


def catch_up_newest() -> int:
    """Bring the conversations of the newest events in the whole record further."""
    last = Event.objects.aggregate(last=Max("pk"))["last"] or 0
    grown = Event.objects.filter(pk__gt=last - NEWEST_EVENTS).values("context")
    return advance(_behind(findable().filter(pk__in=grown)))


def catch_up_all() -> int:
    """Bring any that are behind further; this reads all conversations' rows, which takes a while."""
    return advance(_behind(findable()))


def complete(context: Context) -> None:
    """Bring all of a conversation into the index, before its rows go where nobody looks for words."""
    while advance(_behind(findable().filter(pk=context.pk))):
        pass


def begin_anew() -> None:
    """Let everything be indexed again. Entries stay until they are replaced, so that what is there is found."""
    with transacting():
        Indexed.objects.update(upto=0)


def _behind(contexts: ContextQuerySet) -> list[Context]:
    """Some of them of which something is not in the index, the newest first."""
    behind = contexts.filter(Q(indexed=None) | Q(indexed__upto__lt=F("last_event"))).select_related("indexed")
    return list(behind.defer("memory").order_by("-updated_at", "-pk")[:CONTEXTS_AT_ONCE])


def advance(contexts: list[Context]) -> int:
    """Index the next stretch of these conversations, or of the first of them; returns of how many.

    A few statements for all of them.
    """
    stretches = list(_next(contexts))
    if not stretches:
        return 0
    made = [*_titles(stretches), *_messages(stretches), *_artifacts(stretches)]
    with transacting():
        current = entries.lock(stretch.context.pk for stretch in stretches)
        cleared = set(Context.objects.filter(pk__in=current).exclude(deleted_at=None).values_list("pk", flat=True))
        good = {
            stretch.context.pk: stretch.upto
            for stretch in stretches
            if current[stretch.context.pk] == stretch.after and stretch.context.pk not in cleared
        }
        entries.upsert([one for one in made if one.context_id in good])
        Indexed.objects.bulk_update([Indexed(context_id=key, upto=upto) for key, upto in good.items()], ["upto"])
    return len(stretches)


def _next(contexts: list[Context]) -> Iterator[Unindexed]:
    left = EVENTS_AT_ONCE
    for context in contexts:
        after = context.indexed.upto if hasattr(context, "indexed") else 0
        upto = min(context.last_event, after + left)
        if after < upto:
            yield Unindexed(context, after, upto)
            left -= upto - after


def _titles(stretches: list[Unindexed]) -> Iterator[SearchEntry]:
    for context in (stretch.context for stretch in stretches):
        yield entries.entry(context, SearchEntry.Kind.SESSION, "", 0, context.created_at, context.title)


def _messages(stretches: list[Unindexed]) -> Iterator[SearchEntry]:
    contexts = {stretch.context.pk: stretch.context for stretch in stretches}
    said = Message.objects.filter(_any(stretch.covers("context", "index") for stretch in stretches))
    for one in said.only("context_id", "index", "role", "parts", "created_at").iterator(500):
        context = contexts[one.context_id]
        text = text_of(one.parts)
        yield entries.entry(context, SearchEntry.Kind.MESSAGE, str(one.pk), one.index, one.created_at, text, one.role)


def _artifacts(stretches: list[Unindexed]) -> Iterator[SearchEntry]:
    """Artifacts count from the event that delivers them."""
    contexts = {stretch.context.pk: stretch.context for stretch in stretches}
    ends = Event.objects.filter(
        _any(stretch.covers("context", "index") for stretch in stretches), type=EventType.AGENT_COMPLETE
    )
    delivered = {end.task_id: end for end in ends.only("task_id", "context_id", "index", "at")}
    for one in Artifact.objects.delivered().filter(task__in=delivered).iterator(100):
        end = delivered[one.task_id]
        key = entries.key_of(one.task_id, one.artifact_id)
        text = "\n".join(filter(None, (one.name, one.description, text_of(one.parts))))
        yield entries.entry(contexts[end.context_id], SearchEntry.Kind.ARTIFACT, key, end.index, end.at, text, one.name)


def _any(conditions: Iterable[Q]) -> Q:
    found = Q()
    for condition in conditions:
        found |= condition
    return found
