"""One look at a remote agent from outside: does it serve its card, is its address there, does it answer a message."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable
from dataclasses import dataclass

from django.conf import settings

import outbound
from apps.agents.models import Agent
from apps.gateway.models import Check
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


class Unfit(Exception):
    """The agent answered, but not as it should; `str()` says what is wrong."""


class Down(Exception):
    """The server in front of the agent says that the agent is not there; `str()` says it."""


async def look_at_card(way: Exchange, url: str, etag: str = "") -> Finding:
    """Does it serve its card? Where it has not changed it need not even send it."""
    asked = HEADERS | ({"If-None-Match": etag} if etag else {})
    return await _timed(Check.Kind.CARD, _fetch_card(way, url, asked))


async def look_at_address(way: Exchange, url: str) -> Finding:
    """Is anybody there? For an agent whose card was pasted: there is nothing else that it surely answers."""
    return await _timed(Check.Kind.ADDRESS, _call(way, url))


def way_out() -> Exchange:
    return outbound.exchange(Limits(seconds=settings.REMOTE_CHECK_TIMEOUT, bytes=CARD_BYTES))


async def _fetch_card(way: Exchange, url: str, headers: dict[str, str]) -> None:
    async with way.send("GET", url, headers) as answer:
        if answer.status == 304:
            return
        if answer.status != 200:
            raise _unfit_status(answer.status, "Its card is not to be had")
        try:
            card = json.loads(await answer.read())
        except (ValueError, RecursionError):
            raise Unfit("What it serves as its card is not JSON.") from None
    if not isinstance(card, dict) or "name" not in card:
        raise Unfit("What it serves as its card is none.")


async def _call(way: Exchange, url: str) -> None:
    async with way.send("GET", url, HEADERS) as answer:
        if answer.status >= 500 and answer.status != 501:
            raise _unfit_status(answer.status, "Its address is out of order")


def _unfit_status(status: int, what: str) -> Exception:
    told = f"{what}: the answer is HTTP {status}."
    return Down(told) if status >= 500 else Unfit(told)


async def _timed(kind: Check.Kind, looking: Awaitable[None]) -> Finding:
    began, error, answers = time.perf_counter(), "", True
    try:
        await looking  # within the limits of the way out
    except (Unfit, outbound.TooLarge, outbound.Misleading) as unfit:
        error = str(unfit)
    except (Down, OutboundError) as lost:
        error, answers = str(lost), False
    return Finding(kind, round(1000 * (time.perf_counter() - began)), error, answers)


def addresses_of(agent: Agent) -> list[str]:
    """The URLs of the agent's interfaces, the preferred one first."""
    version = agent.current_version
    card = version.content.get("card", {}) if version else {}
    return [str(one["url"]) for one in card.get("supportedInterfaces", []) if one.get("url")]
