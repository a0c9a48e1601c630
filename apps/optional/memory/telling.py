"""What the agent of a turn is told of a person's memory (`record.briefings`).

Only in a session of the person's own, for messages that they wrote themselves. Not if the message came by a credential
for some agents: it reads the answers, but no memory. A run's input keeps which entries were told, with digests of
their texts: what is deleted is not told again, and stays nowhere.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from django.db.models import Q

from agentkit.content.memories import ENDING
from apps.optional.memory.models import AgentMemory, MemoryText, PersonalInstructions
from apps.optional.memory.rights import uses_of
from apps.record import lineage
from apps.record.briefings import Asked, Briefing
from apps.record.events import JSON, EventType
from apps.record.models import Context, Event

MOST_CHARACTERS = 4_000  # of entries in a turn
SHORT = 8  # characters of an entry's id


def note(asked: Asked) -> JSON | None:
    """Which instructions and entries the agent is told, and whether it may change entries."""
    context = asked.context
    is_own = context.owner_id == asked.user == asked.author and context.parent_task is None
    if not is_own or context.is_temporary or asked.is_limited:
        return None
    uses = uses_of(asked.agent, asked.user)
    whose = {"owner": asked.user, "workspace": asked.workspace}
    own = PersonalInstructions.objects.filter(**whose).first() if uses != AgentMemory.Uses.NONE else None
    if uses == AgentMemory.Uses.NONE or (own is not None and not own.has_memory):
        return None
    noted: JSON = {"entries": _within_bound(_texts(context, whose))}
    if own is not None and own.is_on and own.text:
        noted["instructions"] = {"id": own.pk, "digest": own.digest}
    if uses == AgentMemory.Uses.WRITE:
        noted["writable"] = True
    return noted if noted["entries"] or len(noted) > 1 else None


def _texts(context: Context, whose: JSON) -> Iterable[MemoryText]:
    """The texts that the session may know, the newest first."""
    where = Q(entry__project=None) | (Q(entry__project=context.project) if context.project else Q())
    entries = {f"entry__{name}": one for name, one in whose.items()}
    found = MemoryText.objects.filter(where, **entries, entry__is_on=True, entry__forgotten_at=None)
    newest: dict[uuid.UUID, MemoryText] = {}
    for one in found.filter(_known_in(context)).order_by("-at", "-pk"):
        newest.setdefault(one.entry_id, one)
    return newest.values()


def _known_in(context: Context) -> Q:
    """A fork knows what was known when its past ended, and what its own agents wrote since.

    One of the session's newest event, as for a comparison, knows what was known when it was made.
    """
    forks = lineage.fork_events(context)
    if not forks:
        return Q()
    points = lineage.events(context).filter(index__in=[one.index - 1 for one in forks])
    ended = dict(points.values_list("index", "at"))
    grown = _grown_before(forks)
    is_of_newest = [uuid.UUID(one.payload["parent"]) not in grown for one in forks]
    moments = [
        one.at if newest else ended.get(one.index - 1, one.at) for one, newest in zip(forks, is_of_newest, strict=True)
    ]
    known = Q(at__lte=moments[0]) | Q(session=context.pk)
    for fork, until in zip(forks, moments[1:], strict=False):
        known |= Q(session=fork.context_id, at__lte=until)
    return known


def _grown_before(forks: Sequence[Event]) -> set[uuid.UUID]:
    """The forked sessions in which more than marks of forks followed before the fork was made. Each was forked once."""
    later = [Q(context=fork.payload["parent"], index__gt=fork.payload["at"], at__lte=fork.at) for fork in forks]
    found = Event.objects.filter(reduce(or_, later)).exclude(type=EventType.SESSION_FORKED)
    return set(found.order_by().values_list("context_id", flat=True).distinct())


def _within_bound(texts: Iterable[MemoryText]) -> list[JSON]:
    told, room = list[JSON](), MOST_CHARACTERS
    for one in texts:
        if len(one.text) > room:
            break
        room -= len(one.text)
        told.append({"id": str(one.entry_id), "digest": one.digest})
    return told


def read(noted: JSON) -> JSON | None:
    """The extension's JSON of what was noted, without what was deleted or forgotten since."""
    keys = [one["id"] for one in noted["entries"]]
    found = MemoryText.objects.filter(entry__in=keys, entry__forgotten_at=None) if keys else ()
    texts = {(str(one.entry_id), one.digest): one for one in found}
    there = [texts[place] for one in noted["entries"] if (place := (one["id"], one["digest"])) in texts]
    told: JSON = {
        "entries": [
            {"id": str(one.entry_id)[:SHORT], "text": one.text, "notedAt": one.at.date().isoformat()} for one in there
        ]
    }
    if kept := noted.get("instructions"):
        own = PersonalInstructions.objects.filter(pk=kept["id"], digest=kept["digest"]).first()
        told |= {"instructions": own.text} if own else {}
    if noted.get("writable"):
        told["writable"] = True
    return told if told["entries"] or len(told) > 1 else None


BRIEFING = Briefing(note, ENDING, read, is_of_agent=True)
