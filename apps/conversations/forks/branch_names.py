"""The branches at a branch point as people read them: a name that somebody gave, or one made from what was done."""

from __future__ import annotations

import datetime
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Q
from django.utils.text import Truncator

from apps.accounts.principals import Principal
from apps.conversations.forks.branches import Branch, BranchPoint
from apps.record.content.parts import words_of
from apps.record.events import EventType
from apps.record.models import Context, Event, Message, Segment

LONGEST_WORDS = 60  # characters
DONE = {"edit": "Edited", "fork": "Fork"}


@dataclass(frozen=True, slots=True)
class NamedBranch:
    """A branch. `title` is its given name, or empty; `continuing`: how many of the caller's share its message."""

    context: Context
    first_message: int
    title: str
    automatic: str
    at: datetime.datetime
    is_own: bool
    is_here: bool
    continuing: int

    @property
    def name(self) -> str:
        return self.title or self.automatic


def named_branches(principal: Principal, point: BranchPoint) -> list[NamedBranch]:
    """The branches of a branch point. Four queries."""
    keys = [branch.session for branch in point.branches]
    contexts = Context.objects.select_related("agent").in_bulk(keys)
    renamed = Event.objects.filter(context__in=keys, type=EventType.SESSION_RENAMED)
    by_people = renamed.exclude(payload__has_key="by").exclude(payload__has_key="opens")
    given = set(by_people.values_list("context", flat=True))
    said, after = _first_messages(point.branches), _continuing(principal, point.branches)
    found = []
    for position, branch in enumerate(point.branches, start=1):
        context, message = contexts[branch.session], said.get(branch.session)
        found.append(
            NamedBranch(
                context,
                branch.first_message,
                context.title if branch.session in given else "",
                _automatic_name(context, message),
                message.created_at if message else context.created_at,
                principal.owns(context.owner_id, context.workspace_id),
                position == point.position,
                after[branch.session],
            )
        )
    return found


def _first_messages(branches: Sequence[Branch]) -> dict[uuid.UUID, Message]:
    """The message of each branch at the branch point; none of one in cold storage."""
    places = Q(pk=None)
    for branch in branches:
        places |= Q(context=branch.session, index=branch.first_message)
    return {message.context_id: message for message in Message.objects.filter(places)}


def _automatic_name(context: Context, message: Message | None) -> str:
    words = Truncator(" ".join(words_of(message.parts).split()) if message else "").chars(LONGEST_WORDS)
    if context.forked_at is None:
        done = "Original"
    elif context.fork_reason in ("retry", "agent"):
        return f"Retry with {context.agent.name}"
    else:
        done = DONE.get(context.fork_reason, "Branch")
    return f"{done}: {words}" if words else done


def _continuing(principal: Principal, branches: Sequence[Branch]) -> Counter[uuid.UUID]:
    first = {branch.session: branch.first_message for branch in branches}
    own = {f"context__{name}": value for name, value in principal.own().items()}
    shared = Segment.objects.filter(source__in=first, context__deleted_at=None, **own)
    rows = shared.values_list("source", "context", "last")
    return Counter(source for source, context, last in rows if source != context and last >= first[source])
