"""The limits as each process knows them, at most REFRESH_SECONDS old, and the counts of requests and streams.

A change counts at once in the process that makes it. A limit that nobody has costs a look into a set.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import logging
import time
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

from django.conf import settings
from django.db import DatabaseError

from apps.accounts.models import ApiKey
from apps.accounts.principals import Principal
from apps.accounts.requests import quotas
from apps.accounts.requests.quotas import QuotaExceeded
from apps.agents.models import Agent
from apps.limits.models import Kind, Limit, Whose
from parley import db
from parley.registry import added
from parley.telemetry import metrics

log = logging.getLogger("parley.limits")

REFRESH_SECONDS = 5.0
NOTICE_SHARE = 0.8  # of a limit, from which it is nearly reached
QUEUE_RETRY_SECONDS = 15  # a guess
MINUTE = 60


class Exceeded(QuotaExceeded):
    """A limit is reached: its name and whose it is, for programs. `retry_after` is in seconds; 0: waiting is no help.

    `limit` and `used` are None if the caller may not know them.
    """

    def __init__(
        self, message: str, name: str, of: str, limit: float | None, used: float | None, retry_after: int
    ) -> None:
        super().__init__(message, retry_after)
        self.name, self.of, self.limit, self.used = name, of, limit, used
        metrics.LIMITS_REACHED[name, of].inc()

    @property
    def data(self) -> dict[str, str | float]:
        """For programs: what an error of the client API has as `limit`."""
        amounts = {"max": self.limit, "used": self.used, "retryAfter": self.retry_after or None}
        return {"name": self.name, "of": self.of} | {name: one for name, one in amounts.items() if one is not None}

    @property
    def headers(self) -> dict[str, str]:
        return {"Retry-After": str(self.retry_after)} if self.retry_after else {}


class LimitExceeded(Exceeded):
    """A `Limit` of a workspace, an API key or an agent is reached."""

    def __init__(self, kind: Kind, whose: Whose, limit: int, used: int, retry_after: int) -> None:
        who = {Whose.WORKSPACE: "This workspace", Whose.KEY: "This API key", Whose.AGENT: "The agent"}[whose]
        then = f"Try again in {retry_after} s." if retry_after else "Delete some first, or ask an operator for more."
        sentence = f"{who} may have {limit:,} {kind.label}, and has {used:,}. {then}"
        super().__init__(sentence, kind.value, whose.value, limit, used, retry_after)
        self.kind, self.whose = kind, whose

    @property
    def headers(self) -> dict[str, str]:
        """https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/ for what is counted by the minute."""
        retry = super().headers
        if not retry or self.kind is not Kind.REQUESTS:
            return retry
        policy = f'"{self.whose.value}"'
        return retry | {
            "RateLimit-Policy": f"{policy};q={self.limit};w={MINUTE}",
            "RateLimit": f"{policy};r=0;t={self.retry_after}",
        }


class Holder(NamedTuple):
    """Who has limits. `key` is a workspace's or an agent's key, or the public name of an API key."""

    whose: Whose
    key: int | str

    def __str__(self) -> str:
        return f"{self.whose.value}:{self.key}"


Obstacle = Callable[[Principal, Agent], None]
"""Raises a Refusal if this agent may not be sent a message by this caller."""
Finder = Callable[[], Obstacle | None]
"""One of the `send_obstacles`: what is in force now, or None."""
Values = Mapping[str, int]
"""Numbers by the names of `Limit`'s fields; what is not limited is not there."""
FIELDS = (*(kind.value for kind in Kind), "priority")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The limits that were set.

    Attributes:
        obstacles: what else may refuse a message, by what found it (`send_obstacles`).
        names: the limits that anybody has, also by the settings.
        is_empty: nobody has a limit, and nothing else refuses.
    """

    values: Mapping[Holder, Values] = field(default_factory=dict)
    read_at: float = float("-inf")  # by `time.monotonic`
    obstacles: Mapping[Finder, Obstacle] = field(default_factory=dict)
    names: Set[str] = field(init=False)
    is_empty: bool = field(init=False)

    def __post_init__(self) -> None:
        names = {name for limited in self.values.values() for name in limited} | defaults().keys()
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "is_empty", not (names or self.obstacles))

    def of(self, holder: Holder) -> Values:
        values = self.values.get(holder, {})
        return {**defaults(), **values} if holder.whose is Whose.WORKSPACE else values

    def limits(
        self, kind: Kind, workspace: int | None, key: str = "", agent: int | None = None
    ) -> Sequence[tuple[Holder, int]]:
        """Those of a kind that apply to a caller's use of an agent."""
        if kind not in self.names:
            return ()
        holders = [
            Holder(whose, one)
            for whose, one in ((Whose.WORKSPACE, workspace), (Whose.KEY, key), (Whose.AGENT, agent))
            if one
        ]
        return [(holder, limit) for holder in holders if (limit := self.of(holder).get(kind)) is not None]

    def priority(self, workspace: int | None, key: str, agent: int) -> int:
        """Of runs whose message asks for none: the key's, the agent's or the workspace's."""
        if "priority" not in self.names:
            return Limit.Priority.NORMAL
        holders = Holder(Whose.KEY, key), Holder(Whose.AGENT, agent), Holder(Whose.WORKSPACE, workspace or 0)
        found = (self.values.get(holder, {}).get("priority") for holder in holders)
        return next((one for one in found if one is not None), Limit.Priority.NORMAL)


def defaults() -> dict[str, int]:
    """Of a workspace without limits of its own; 0 in the settings: not limited."""
    return {name: number for name, number in settings.WORKSPACE_LIMITS.items() if number}


_kept = Snapshot()


def snapshot() -> Snapshot:
    """One query in REFRESH_SECONDS. On an event loop, the newest that was read, while a thread reads again."""
    if time.monotonic() - _kept.read_at < REFRESH_SECONDS:
        return _kept
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _read()
    db.later(_read)
    return _kept


def forget() -> None:
    """Read the rows again before the next use."""
    keep(dataclasses.replace(_kept, read_at=float("-inf")))


def keep(known: Snapshot) -> None:
    """For tests: what was read last."""
    global _kept
    _kept = known


def _read() -> Snapshot:
    """Without the database, what was read last stays."""
    started = time.monotonic()
    try:
        rows = list(Limit.objects.values_list("workspace", "api_key__prefix", "agent", *FIELDS))
    except DatabaseError as problem:
        log.warning("the limits cannot be read: %s", problem)
        return _kept
    values: dict[Holder, Values] = {}
    for workspace, prefix, agent, *numbers in rows:
        if workspace:
            holder = Holder(Whose.WORKSPACE, workspace)
        else:
            holder = Holder(Whose.AGENT, agent) if agent else Holder(Whose.KEY, str(ApiKey(prefix=prefix)))
        values[holder] = {name: one for name, one in zip(FIELDS, numbers, strict=True) if one is not None}
    found = Snapshot(values, started, _obstacles())
    keep(found)
    return found


def _obstacles() -> Mapping[Finder, Obstacle]:
    """If an app's function fails, the obstacle that it found last stays. All else that was set still counts."""
    found: dict[Finder, Obstacle] = {}
    for find in added["send_obstacles"]:
        try:
            check = find()
            if check is not None:
                inspect.signature(check).bind("principal", "agent")  # here, and not at each message
        except Exception:
            name = f"{find.__module__}.{find.__qualname__}"
            log.exception("%s is no send obstacle, or fails, so what it found last stays (parley.registry)", name)
            check = _kept.obstacles.get(find)
        if check is not None:
            found[find] = check
    return found


def count_request(principal: Principal, address: str) -> None:
    """Count a request of the caller, the workspace and the key. Raises QuotaExceeded."""
    quotas.count_request(principal, address)
    known = snapshot()
    if Kind.REQUESTS in known.names:
        _count(known.limits(Kind.REQUESTS, principal.workspace_id, principal.key))


def count_message(agent: int) -> None:
    """Count a message to the agent. Raises LimitExceeded."""
    if limits := snapshot().limits(Kind.REQUESTS, None, agent=agent):
        _count(limits)


def _count(limits: Sequence[tuple[Holder, int]]) -> None:
    for holder, limit in limits:
        used, left = quotas.request_counter.add(str(holder), limit)
        if used > limit:
            raise LimitExceeded(Kind.REQUESTS, holder.whose, limit, used, left)


def open_stream(principal: Principal, address: str, agent: int | None = None) -> Callable[[], None]:
    """Count an open stream; call the result once when it ends. Raises QuotaExceeded."""
    limits = snapshot().limits(Kind.STREAMS, principal.workspace_id, principal.key, agent)
    if not limits:
        return quotas.open_stream(principal, address)
    with ExitStack() as stack:
        stack.callback(quotas.open_stream(principal, address))
        for holder, limit in limits:
            if (used := quotas.stream_counter.count_of(str(holder))) >= limit:
                raise LimitExceeded(Kind.STREAMS, holder.whose, limit, used, quotas.STREAM_RETRY_SECONDS)
            stack.callback(quotas.stream_counter.open(str(holder), limit))
        return stack.pop_all().close
