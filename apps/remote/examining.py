"""One look at a remote agent from outside: does it serve its card, is its address there, does it answer a message."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable
from dataclasses import dataclass

from django.conf import settings

import outbound
from apps.agents.models import Agent
from apps.remote import probing
from apps.remote.errors import CircuitOpen, Misbehaved, Refused, RemoteError, Unauthorized
from apps.remote.models import Check, RemoteAgent
from apps.remote.probing import Unfit
from outbound import Exchange, Limits, OutboundError

CARD_BYTES = 1024 * 1024
HEADERS = {"Accept": "application/json", "User-Agent": "Parley"}


@dataclass(frozen=True, slots=True)
class Finding:
    """What one look came to. `error` is a sentence for operators, "" where all is well.

    Attributes:
        answers: Did it answer at all? An agent that does, if not as it should, may well do its work.
    """

    kind: Check.Kind
    milliseconds: int
    error: str = ""
    answers: bool = True

    @property
    def ok(self) -> bool:
        return not self.error


class Down(Exception):
    """A server in front of the agent says that the agent is not there; `str()` says it."""


async def findings_of(remote: RemoteAgent, probe: str) -> list[Finding]:
    """Look at the agent from outside, and send it the message `probe` if that is not empty."""
    looking: list[Awaitable[Finding | None]] = [_look(remote)]
    if probe:
        looking.append(_probe(remote.agent, probe))
    return [finding for finding in await asyncio.gather(*looking) if finding is not None]


async def _look(remote: RemoteAgent) -> Finding:
    """Fetch its card; of an agent whose card was pasted, see whether anybody is there."""
    limits = Limits(seconds=settings.REMOTE_CHECK_TIMEOUT, bytes=CARD_BYTES)
    async with outbound.exchange(limits) as way:
        if remote.card_url:
            return await _timed(Check.Kind.CARD, _fetch_card(way, remote))
        return await _timed(Check.Kind.ADDRESS, _call(way, remote.origin))


async def _fetch_card(way: Exchange, remote: RemoteAgent) -> None:
    """A card that has not changed need not even be sent."""
    conditions = {"If-None-Match": remote.etag, "If-Modified-Since": remote.last_modified}
    asked = HEADERS | {name: value for name, value in conditions.items() if value}
    async with way.send("GET", remote.card_url, asked) as answer:
        if answer.status == 304:
            return
        if answer.status != 200:
            raise _unfit(answer.status, "Its card is not to be had")
        content = await answer.read()
    try:
        card = json.loads(content)
    except (ValueError, RecursionError):
        raise Unfit("What it serves as its card is not JSON.") from None
    if not isinstance(card, dict) or "name" not in card:
        raise Unfit("What it serves as its card is none.")


async def _call(way: Exchange, url: str) -> None:
    async with way.send("GET", url, HEADERS) as answer:
        if answer.status >= 500 and answer.status != 501:
            raise _unfit(answer.status, "Its address is out of order")


def _unfit(status: int, what: str) -> Exception:
    told = f"{what}: the answer is HTTP {status}."
    return Down(told) if status >= 500 else Unfit(told)


async def _probe(agent: Agent, text: str) -> Finding | None:
    """None while calls to it are stopped."""
    try:
        return await _timed(Check.Kind.PROBE, probing.ask(agent, text))
    except CircuitOpen:
        return None


async def _timed(kind: Check.Kind, looking: Awaitable[None]) -> Finding:
    """Raises CircuitOpen."""
    began, error, answers = time.perf_counter(), "", True
    try:
        await looking
    except CircuitOpen:
        raise
    except (Unfit, outbound.TooLarge, outbound.Misleading, Misbehaved, Refused, Unauthorized) as unfit:
        error = str(unfit)
    except (Down, OutboundError, RemoteError) as lost:
        error, answers = str(lost), False
    return Finding(kind, round(1000 * (time.perf_counter() - began)), error, answers)
