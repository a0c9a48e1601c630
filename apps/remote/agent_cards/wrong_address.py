"""What is at an address where no agent card is: for whoever adds a remote agent by a wrong one."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin, urlsplit, urlunsplit

from apps.remote.agent_cards import cards
from apps.remote.agent_cards.card_schema import clean_text
from apps.remote.agent_cards.cards import FetchedCard
from apps.remote.errors import BadCard
from parley import outbound
from parley.outbound import Answer, Exchange, Limits, OutboundError

JSON = dict[str, Any]

MOST_BYTES = 256 * 1024  # of an answer
TITLE_BYTES = 64 * 1024  # in which a page's title is
MOST_CARD_URLS = 12
LONGEST_NAME = 100  # characters
MODELS_SHOWN = 3
OTHER_SCHEME = {"http": "https", "https": "http"}
HEADERS = {"User-Agent": "Parley"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "Parley", "version": "1"}},
}
MCP_PATHS = ("/mcp", "/sse")
RUN_FIELDS = (re.compile("thread_?id", re.IGNORECASE), re.compile("run_?id", re.IGNORECASE))


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence about what is there; `card` is one at another address."""

    sentence: str
    card: FetchedCard | None = None


Probe = Callable[[Exchange, str], Awaitable[Finding | None]]


async def explain(url: str, error: Exception, seconds: float, also: Sequence[str] = ()) -> BadCard | None:
    """What is there instead of a card, by probes side by side; None if nothing is found within `seconds`.

    Its `offers` are the addresses of cards near by. `error` is why no card was found. `also` as of `cards.fetch_card`.
    """
    answers = isinstance(error, BadCard | outbound.Misleading)
    probes = PROBES if answers else ()
    places = _other_card_urls(url) if answers else cards.card_urls(_with_other_scheme(url))
    limits = Limits(seconds=seconds, connect_seconds=seconds, bytes=MOST_BYTES, connections=MOST_CARD_URLS)
    async with outbound.exchange(limits, also=also) as way:
        looks = [
            *(_quietly(_card_at(way, place, also)) for place in places),
            *(_quietly(probe(way, url)) for probe in probes),
            *([_quietly(_redirected_card(way, url, also))] if answers else []),
        ]
        findings = [finding async for finding in _within(seconds, looks)]
    if not findings:
        return None
    cards_found: dict[str, Finding] = {}  # by the agent's address: the first of each
    for finding in findings:
        if finding.card:
            cards_found.setdefault(finding.card.card["supportedInterfaces"][0]["url"], finding)
    told = dict.fromkeys(one.sentence for one in [*cards_found.values(), *(one for one in findings if not one.card)])
    opening = f"There is no agent card at {url} or below it." if answers else str(error)
    offers = [one.card.url for one in cards_found.values() if one.card]
    return BadCard(" ".join([opening, *told]), offers=offers)


async def _within(seconds: float, looks: Iterable[Awaitable[Finding | None]]) -> AsyncIterator[Finding]:
    """The findings of those that end in time, in their order."""
    tasks = [asyncio.ensure_future(look) for look in looks]
    try:
        await asyncio.wait(tasks, timeout=seconds)
        for task in tasks:
            if task.done() and (finding := task.result()):
                yield finding
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _quietly(look: Awaitable[Finding | None]) -> Finding | None:
    try:
        return await look
    except (OutboundError, BadCard, ValueError, RecursionError):
        return None


async def _card_at(way: Exchange, url: str, also: Sequence[str]) -> Finding | None:
    found = await cards.fetch_at(way, url, also=also)
    return None if found is None else Finding(f"There is a card of {_named(found.card['name'])} at {url}.", found)


def _with_other_scheme(url: str) -> str:
    split = urlsplit(url)
    return urlunsplit(split._replace(scheme=OTHER_SCHEME[split.scheme]))


def _other_card_urls(url: str) -> list[str]:
    """Where a card may be, if not at this URL: below its parents, and at usual places."""
    split = urlsplit(url)
    origin = f"{split.scheme}://{split.netloc}"
    steps = [step for step in split.path.split("/") if step]
    bases = [f"{origin}/{'/'.join(steps[:count])}".rstrip("/") for count in range(len(steps), -1, -1)]
    known = [base + path for base in bases for path in cards.WELL_KNOWN_PATHS]
    usual = [
        f"{base}{path}" for base in (bases[0], origin) for path in ("/a2a" + cards.WELL_KNOWN_PATHS[0], "/agent.json")
    ]
    near = known[: MOST_CARD_URLS - 6] + known[-2:]
    tried = set(cards.card_urls(url))
    return [place for place in dict.fromkeys([*near, *usual]) if place not in tried][:MOST_CARD_URLS]


async def _redirected_card(way: Exchange, url: str, also: Sequence[str]) -> Finding | None:
    try:
        async with way.send("GET", url, HEADERS):
            return None
    except outbound.Redirected as redirect:
        target = urljoin(url, redirect.location).partition("#")[0]
    looks = [_quietly(_card_at(way, place, also)) for place in cards.card_urls(target)]
    found = next(filter(None, await asyncio.gather(*looks)), None)
    return found or Finding(f"The address leads to {clean_text(target)[:300]}.")


async def _page(way: Exchange, url: str) -> Finding | None:
    async with way.send("GET", url, HEADERS | {"Accept": "text/html"}) as answer:
        if _media_type(answer) == "text/event-stream":
            is_mcp = b"event: endpoint" in await _beginning(answer)
            return Finding("It is an MCP server, with server-sent events: connect it as tools.") if is_mcp else None
        if _media_type(answer) not in ("text/html", "application/xhtml+xml"):
            return None
        title = _Title.of(await _beginning(answer, TITLE_BYTES))
        error = f" (status {answer.status})" if answer.status != 200 else ""
    return Finding(f"It is a web page{error}{f': {_named(title)}' if title else ''}.")


async def _posted(way: Exchange, url: str) -> Finding | None:
    """An MCP server, AG-UI, or another JSON-RPC service, by a request that does nothing in any of them."""
    headers = HEADERS | {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    async with way.send("POST", url, headers, json.dumps(INITIALIZE).encode()) as answer:
        content = await _beginning(answer)
        session = _header(answer, b"mcp-session-id")
    if session:
        await _quietly(_end_session(way, url, session))
    for value in _values(content):
        if isinstance(result := value.get("result"), dict) and "protocolVersion" in result:
            server = result.get("serverInfo")
            name = server.get("name") if isinstance(server, dict) else ""
            return Finding(f"It is an MCP server{f', {_named(name)}' if name else ''}: connect it as tools.")
        if str(value.get("type", "")).startswith("RUN_"):
            return Finding("It is an AG-UI endpoint, which front ends of agents call.")
    text = content.decode(errors="replace")
    if answer.status in (400, 422) and all(field.search(text) for field in RUN_FIELDS):
        return Finding("It is an AG-UI endpoint, which front ends of agents call.")
    if answer.status == 401 and url.rstrip("/").endswith(MCP_PATHS):
        return Finding("It seems to be an MCP server that wants a credential: connect it as tools.")
    if answer.status == 401:
        return Finding("It wants a credential, so it cannot be seen what it is. If it is an agent, paste its card.")
    if any(value.get("jsonrpc") == "2.0" for value in _values(content)):
        return Finding("It answers by JSON-RPC and publishes no card. If it is an agent, paste its card.")
    return None


async def _end_session(way: Exchange, url: str, session: str) -> None:
    async with way.send("DELETE", url, HEADERS | {"Mcp-Session-Id": session}):
        pass


async def _mcp_below(way: Exchange, url: str) -> Finding | None:
    below = urljoin(url, "/mcp")
    found = None if url.rstrip("/") == below else await _posted(way, below)
    return (
        Finding(f"There is an MCP server at {below}: connect it as tools.")
        if found and "MCP" in found.sentence
        else None
    )


async def _models(way: Exchange, url: str) -> Finding | None:
    split = urlsplit(url)
    before = split.path.partition("/v1")[0].rstrip("/")
    async with way.send("GET", f"{split.scheme}://{split.netloc}{before}/v1/models", HEADERS) as answer:
        told = next(iter(_values(await answer.read())), {})
        status = answer.status
    data = told.get("data")
    if status == 200 and isinstance(data, list) and data and all(isinstance(one, dict) and "id" in one for one in data):
        names = ", ".join(_named(one["id"]) for one in data[:MODELS_SHOWN])
        return Finding(f"It is an OpenAI-compatible API{f' with {names}' if names else ''}: connect it as a model.")
    if status == 401 and isinstance(told.get("error"), dict):
        return Finding("It seems to be an OpenAI-compatible API that wants a key: connect it as a model.")
    return None


async def _acp(way: Exchange, url: str) -> Finding | None:
    async with way.send("GET", url.rstrip("/").removesuffix("/agents") + "/agents", HEADERS) as answer:
        told = next(iter(_values(await answer.read())), {})
    agents = told.get("agents")
    if not isinstance(agents, list) or not agents or not all(isinstance(one, dict) and "name" in one for one in agents):
        return None
    names = ", ".join(_named(one["name"]) for one in agents[:MODELS_SHOWN])
    return Finding(f"It is a server of ACP{f' with {names}' if names else ''}, a protocol that Parley does not speak.")


PROBES: tuple[Probe, ...] = (_posted, _mcp_below, _models, _acp, _page)


def _values(content: bytes) -> list[JSON]:
    """The JSON objects of a body, or of the events of a stream."""
    lines = [line.partition(b":")[2] for line in content.splitlines() if line.startswith(b"data:")]
    values = []
    for text in lines or [content]:
        try:
            values.append(json.loads(text))
        except (ValueError, RecursionError):
            continue
    return [value for value in values if isinstance(value, dict)]


async def _beginning(answer: Answer, most: int = MOST_BYTES) -> bytes:
    """The body's first `most` bytes or a little more; of a stream the first event."""
    content, is_stream = b"", _media_type(answer) == "text/event-stream"
    async for chunk in answer.body:
        content += chunk
        if len(content) >= most or (is_stream and b"\n\n" in content.replace(b"\r\n", b"\n")):
            break
    return content


def _media_type(answer: Answer) -> str:
    return _header(answer, b"content-type").partition(";")[0].strip().lower()


def _header(answer: Answer, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in answer.headers if key.lower() == name), "")


def _named(name: object) -> str:
    line = " ".join(clean_text(str(name)).split())
    return f"“{line if len(line) <= LONGEST_NAME else f'{line[:LONGEST_NAME]}…'}”"


class _Title(HTMLParser):
    """Reads the first title of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self._is_inside, self._is_over = "", False, False

    @classmethod
    def of(cls, page: bytes) -> str:
        reader = cls()
        with suppress(AssertionError):  # of some malformed declarations
            reader.feed(page.decode(errors="replace"))
        return reader.text.strip()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._is_inside = tag == "title" and not self._is_over

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._is_inside, self._is_over = False, True

    def handle_data(self, data: str) -> None:
        if self._is_inside:
            self.text += data
