"""Finding a remote agent's card, by the one way out and within tight limits."""

from __future__ import annotations

import asyncio
import hashlib
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import rfc8785

import outbound
from apps.remote import cards
from apps.remote.errors import BadCard
from outbound import Answer, Exchange, Limits, targets

JSON = dict[str, Any]

LIMITS = Limits(seconds=10.0, connect_seconds=5.0, bytes=512 * 1024, header_bytes=16 * 1024, connections=2)
WELL_KNOWN = ("/.well-known/agent-card.json", "/.well-known/agent.json")  # of 1.0 and 0.3; older
VALIDATOR = re.compile(r"[ -~]{1,200}")  # an ETag or a date that can be sent back as it came


@dataclass(frozen=True, slots=True)
class Fetched:
    """A card as it was found.

    Attributes:
        card: what it says, as A2A 1.0 says it, without signatures.
        told: the same as it came, on which its signatures are.
        url: where it is; "" for one that was pasted.
        etag, last_modified: the validators that came with it, or "".
        sha256: of `card` in its canonical form (RFC 8785).
    """

    card: JSON
    told: JSON
    url: str = ""
    etag: str = ""
    last_modified: str = ""

    @property
    def sha256(self) -> str:
        return hashlib.sha256(rfc8785.dumps(self.card)).hexdigest()


def pasted(text: str) -> Fetched:
    """A card that somebody pasted, which may be as large as one that is fetched. Raises BadCard."""
    content = text.encode(errors="surrogatepass")
    if len(content) > LIMITS.bytes:
        raise BadCard(f"The card is larger than {LIMITS.bytes // 1024} KiB.")
    told = cards.parsed(content)
    return Fetched(cards.read(told), told)


async def fetch(url: str, etag: str = "", last_modified: str = "") -> Fetched | None:
    """The card at a URL, or below it where it is an agent's base URL; None where the validators say it is the same.

    Raises BadCard and the errors of `outbound`.
    """
    url = url.partition("#")[0]
    targets.read(url)
    try:
        async with asyncio.timeout(LIMITS.seconds), outbound.exchange(LIMITS) as way:
            return await _found(way, url, etag, last_modified)
    except TimeoutError:
        raise outbound.TooSlow(f"There was no card at {url} within {LIMITS.seconds:g} s.") from None


async def _found(way: Exchange, url: str, etag: str, last_modified: str) -> Fetched | None:
    if etag or last_modified:
        return await _at(way, url, {"If-None-Match": etag, "If-Modified-Since": last_modified})
    problem: Exception | None = None
    for candidate in _candidates(url):
        try:
            return await _at(way, candidate, {})
        except (_NotThere, outbound.Misleading) as error:  # some servers redirect from what is not there
            problem = problem or error
    raise BadCard(f"There is no agent card at {url} or below it. {problem}")


class _NotThere(BadCard):
    """Something answers, but not with a card."""


def _candidates(url: str) -> list[str]:
    """Where the card may be, the likeliest first: at well-known places below the URL, and at the URL itself."""
    split = urlsplit(url)
    if split.path.endswith(".json") or split.query:
        return [url]
    base = urlunsplit((split.scheme, split.netloc, split.path.rstrip("/"), "", ""))
    return [*(base + path for path in WELL_KNOWN), url]


async def _at(way: Exchange, url: str, conditions: dict[str, str]) -> Fetched | None:
    headers = {"Accept": "application/json", "User-Agent": "Parley"} | {k: v for k, v in conditions.items() if v}
    async with way.send("GET", url, headers) as answer:
        if answer.status == 304 and conditions:
            return None
        if answer.status in (401, 403):
            raise _NotThere(f"{url} wants credentials ({answer.status}). Paste the card instead.")
        if answer.status != 200:
            raise _NotThere(f"{url} answers with status {answer.status}.")
        content = await answer.read()
    if content.lstrip()[:1] != b"{":
        raise _NotThere(f"{url} answers with something else than a card.")
    told = cards.parsed(content)
    return Fetched(cards.read(told), told, url, _validator(answer, b"etag"), _validator(answer, b"last-modified"))


def _validator(answer: Answer, name: bytes) -> str:
    values = [value.decode("latin-1") for header, value in answer.headers if header.lower() == name]
    return values[0] if len(values) == 1 and VALIDATOR.fullmatch(values[0]) else ""
