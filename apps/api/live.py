"""What clients that follow sessions are told, over either line: events, each with the position after it, and resets."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import db
from apps.accounts.principals import Principal
from apps.api.shapes import events_json
from apps.record import following, sync_cursors
from apps.record.following import Following, Told
from apps.record.models import Event
from apps.record.sync_cursors import PositionTooOld

JSON = dict[str, Any]

RESET = "reset"
TOO_OLD = {"sessionId": None, "reason": "too_old"}
"""The reset of who has been away for too long: everything is to be read anew."""


class Said(NamedTuple):
    """Something that a client is told: its name, what is said of it, and the client's position after it, as a token."""

    name: str
    data: JSON
    place: str


@dataclass(frozen=True, slots=True)
class Follower:
    """A client that follows; `types` are the only events that it wants to hear of, unless it wants all.

    `is_lost`: it came with a position that is too old, and follows from now on.
    """

    principal: Principal
    following: Following
    types: Collection[str] = field(default_factory=frozenset)
    is_lost: bool = False

    async def batches(self) -> AsyncGenerator[list[Said]]:
        """What of all that happens is wanted, as it is said. One batch is empty: what was missed came before it."""
        async with aclosing(self.following.batches()) as batches:
            async for batch in batches:
                shown = await db.run(_shown, [told for told in batch if self._wants(told)])
                said = self._said(batch, shown)
                if said or not batch:
                    yield said

    def _wants(self, told: Told) -> bool:
        return told.event is None or not self.types or told.event.type in self.types

    def _said(self, batch: list[Told], shown: dict[tuple[uuid.UUID, int], JSON]) -> list[Said]:
        said = []
        for told in batch:
            self.following.take(told)
            if one := shown.get((told.session, told.index)):
                said.append(Said(told.event.type if told.event else RESET, one, self.place))
        return said

    @property
    def place(self) -> str:
        """Its position, as a token."""
        return sync_cursors.token(self.principal, self.following.position)

    @property
    def newest_place(self) -> str:
        """Its position, moved on as far as it has everything; empty before all that was missed has come."""
        return sync_cursors.token(self.principal, self.following.settle()) if self.following.is_caught_up else ""


def begin(principal: Principal, sessions: Collection[uuid.UUID], since: str, types: Collection[str]) -> Follower:
    """A client that follows these sessions, or all it has, from a token or an index on, or from now.

    Raises ContextNotFound, InvalidParams.
    """
    chosen = frozenset(sessions)
    try:
        place = int(since) if is_index(since) else sync_cursors.position_of(principal, since) if since else None
        return Follower(principal, following.begin(principal, chosen, place), frozenset(types))
    except PositionTooOld:
        return Follower(principal, following.begin(principal, chosen, None), frozenset(types), is_lost=True)


def is_index(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


def _shown(batch: Sequence[Told]) -> dict[tuple[uuid.UUID, int], JSON]:
    """The JSON of each thing that is told, by session and index."""
    events: dict[uuid.UUID, list[Event]] = defaultdict(list)
    for told in batch:
        if told.event is not None:
            events[told.session].append(told.event)
    shown = {(session, one["index"]): one for session, some in events.items() for one in events_json(session, some)}
    lost = [told for told in batch if told.event is None]
    return shown | {(one.session, one.index): {"sessionId": str(one.session), "reason": one.reason} for one in lost}
