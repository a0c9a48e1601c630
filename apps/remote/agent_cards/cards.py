"""The cards of remote agents: fetching, reading, and choosing an interface."""

from __future__ import annotations

import asyncio
import codecs
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from a2a.types import AgentCard
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from apps.agents.models import STEERABLE, USUAL_SECONDS, AgentVersion
from apps.record.content import strict_json
from apps.remote.agent_cards import card_schema, card_shapes
from apps.remote.agent_cards.card_shapes import SUPPORTED_BINDINGS, SUPPORTED_VERSIONS, is_supported, supported_version
from apps.remote.errors import BadCard
from parley import outbound
from parley.outbound import Answer, Exchange, Forbidden, Limits, targets

JSON = dict[str, Any]

FETCH_LIMITS = Limits(seconds=10.0, connect_seconds=5.0, bytes=512 * 1024, header_bytes=16 * 1024, connections=2)
WELL_KNOWN_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")  # older agents use the second
VALIDATOR_PATTERN = re.compile(r"[ -~]{1,200}")  # ETag or Last-Modified

PROBLEMS_SHOWN = 8
CACHED_CARDS = 1_000
DURATION_EXTENSION = "/ext/duration/v1"  # end of its URI: how long a turn usually takes
STEERING_EXTENSION = "/ext/steering/v1"  # end of its URI: a task at work takes messages, and can stop after a step
LONGEST_DURATION = 366 * 86_400.0  # seconds

# Words that cards use in place of media types.
LOOSE_MODES = {"text": "text/plain", "data": "application/json", "json": "application/json", "file": "*/*"}


@dataclass(frozen=True, slots=True)
class FetchedCard:
    """A card that was fetched or pasted.

    Attributes:
        card: in the form of A2A 1.0, without signatures.
        original: as received; signatures sign this.
        notes: what was assumed or left out, a sentence each.
        url: "" for a pasted card.
        etag, last_modified: its HTTP validators, or "".
    """

    card: JSON
    original: JSON
    notes: tuple[str, ...] = ()
    url: str = ""
    etag: str = ""
    last_modified: str = ""


def pasted_card(text: str, also: Sequence[str] = ()) -> FetchedCard:
    content = text.encode(errors="surrogatepass")
    if len(content) > FETCH_LIMITS.bytes:
        raise BadCard(f"The card is larger than {FETCH_LIMITS.bytes // 1024} KiB.")
    original = parse_card(content)
    if not card_shapes.is_card_like(original):
        raise BadCard("This is JSON, but no agent card: it has no address, and no field that only cards have.")
    card, notes = read_card(original, also)
    return FetchedCard(card, original, notes)


async def fetch_card(
    url: str, etag: str = "", last_modified: str = "", also: Sequence[str] = (), limits: Limits = FETCH_LIMITS
) -> FetchedCard | None:
    """The card at a URL, or below an agent's base URL; None if the validators show that it is unchanged.

    `also` allows private hosts for this call only (see `outbound.Allowed.read`).
    Raises BadCard (NoCard where something else is there) and the errors of `outbound`.
    """
    url = url.partition("#")[0]
    targets.parse_url(url)
    try:
        async with asyncio.timeout(limits.seconds), outbound.exchange(limits, also=also) as way:
            return await _find_card(way, url, etag, last_modified, also)
    except TimeoutError:
        raise outbound.TooSlow(f"There was no card at {url} within {limits.seconds:g} s.") from None


async def _find_card(way: Exchange, url: str, etag: str, last_modified: str, also: Sequence[str]) -> FetchedCard | None:
    if etag or last_modified:
        conditions = {"If-None-Match": etag, "If-Modified-Since": last_modified}
        return await fetch_at(way, url, conditions, also)
    problems: list[Exception] = []
    for candidate in card_urls(url):
        try:
            return await fetch_at(way, candidate, also=also)
        except (BadCard, outbound.Misleading, outbound.TooLarge) as error:  # some redirect instead of a 404
            problems.append(error)
    if wrong := next((one for one in problems if isinstance(one, BadCard) and not isinstance(one, NoCard)), None):
        raise wrong
    raise NoCard(f"There is no agent card at {url} or below it. {problems[0]}")


class NoCard(BadCard):
    """The server answers, but not with a card."""


def card_urls(url: str) -> list[str]:
    """Where a card may be, if this is its URL or an agent's base URL."""
    split = urlsplit(url)
    if split.path.endswith(".json") or split.query:
        return [url]
    base = urlunsplit((split.scheme, split.netloc, split.path.rstrip("/"), "", ""))
    return [*(base + path for path in WELL_KNOWN_PATHS), url]


async def fetch_at(
    way: Exchange, url: str, conditions: Mapping[str, str] | None = None, also: Sequence[str] = ()
) -> FetchedCard | None:
    """The card at exactly this URL; None if it meets the conditions of HTTP. Raises as `fetch_card`."""
    conditions = conditions or {}
    headers = {"Accept": "application/json", "User-Agent": "Parley"} | {k: v for k, v in conditions.items() if v}
    async with way.send("GET", url, headers) as answer:
        if answer.status == 304 and conditions:
            return None
        if answer.status in (401, 403):
            raise NoCard(f"{url} wants credentials ({answer.status}). Paste the card instead.")
        if answer.status != 200:
            raise NoCard(f"{url} answers with status {answer.status}.")
        if any(name.lower() == b"content-type" and b"event-stream" in value.lower() for name, value in answer.headers):
            raise NoCard(f"{url} answers with a stream of events.")
        content = await answer.read()
    content = content.removeprefix(codecs.BOM_UTF8)
    if content.lstrip()[:1] != b"{":
        raise NoCard(f"{url} answers with something else than a card.")
    original = parse_card(content)
    if not card_shapes.is_card_like(original):
        raise NoCard(f"{url} answers with JSON, but no agent card.")
    etag, last_modified = _validator(answer, b"etag"), _validator(answer, b"last-modified")
    card, notes = read_card(original, also, url)
    return FetchedCard(card, original, notes, url, etag, last_modified)


def _validator(answer: Answer, name: bytes) -> str:
    values = [value.decode("latin-1") for header, value in answer.headers if header.lower() == name]
    return values[0] if len(values) == 1 and VALIDATOR_PATTERN.fullmatch(values[0]) else ""


_card_cache: dict[uuid.UUID, AgentCard] = {}


def card_of(version: AgentVersion) -> AgentCard:
    """The card of a version, parsed once per process. It is shared: do not change it."""
    if (card := _card_cache.get(version.pk)) is None:
        if len(_card_cache) >= CACHED_CARDS:
            _card_cache.clear()
        card = _card_cache[version.pk] = ParseDict(version.content["card"], AgentCard(), ignore_unknown_fields=True)
    return card


def parse_card(text: bytes) -> JSON:
    """The JSON object of a card. Raises BadCard."""
    try:
        card = strict_json.parse(text)
    except strict_json.InvalidJSON as error:
        raise BadCard(f"This is no agent card. {error}") from None
    if not isinstance(card, dict):
        raise BadCard("This is no agent card. It must be a JSON object.")
    return card_shapes.unwrapped(card)


def read_card(card: JSON, also: Sequence[str] = (), base: str = "") -> tuple[JSON, tuple[str, ...]]:
    """A card in any form as one of 1.0, without signatures, and notes: what was assumed or left out, a sentence each.

    `base` is the URL of the card, for relative addresses. Raises BadCard where there is no address that can be called,
    or one that may not be called.
    """
    notes = card_schema.Notes()
    unsigned = {name: one for name, one in card.items() if name != "signatures"}
    told = card_schema.read_fields(card_shapes.as_card_10(unsigned, base, notes), notes)
    try:
        parsed = ParseDict(told, AgentCard(), ignore_unknown_fields=True)
    except ParseError:
        raise BadCard("The card cannot be used: it is nested too deeply.") from None
    if card_shapes.is_card_03(card):  # the form in which such cards have always been kept
        told = card_schema.read_fields(MessageToDict(parsed), card_schema.Notes())
    refusals = _refused_addresses(told, also)
    if refusals:
        problems = [f"{place}: {refusal}" for place, refusal in refusals.items()]
        more = f" And {len(problems) - PROBLEMS_SHOWN} more." if len(problems) > PROBLEMS_SHOWN else ""
        entry = next((one.entry for one in refusals.values() if isinstance(one, outbound.Private)), "")
        raise BadCard(f"The card cannot be used. {' '.join(problems[:PROBLEMS_SHOWN])}{more}", entry=entry)
    if not told["supportedInterfaces"]:
        linked = [url for url in card_shapes.linked_cards(card) if url != base]
        more = f" It names a card at {linked[0][:300]}." if linked else ""
        raise BadCard(f"The card names no address at which the agent is called.{more}", offers=linked)
    if not usable_interfaces(told):
        offered = ", ".join(f"{one['protocolBinding']} {one['protocolVersion']}" for one in told["supportedInterfaces"])
        raise BadCard(
            f"The agent offers {offered}. Parley speaks {' and '.join(SUPPORTED_BINDINGS)}, "
            f"each in the versions {' and '.join(SUPPORTED_VERSIONS)} of A2A."
        )
    return told, tuple(notes.sentences)


def usable_interfaces(card: JSON) -> list[JSON]:
    """The supported interfaces at the origin of the first one: an agent's credentials are for one origin."""
    supported = [one for one in card["supportedInterfaces"] if is_supported(one)]
    return [one for one in supported if checked_origin(one["url"]) == checked_origin(supported[0]["url"])]


def card_origin(card: JSON) -> str:
    return checked_origin(usable_interfaces(card)[0]["url"])


def checked_origin(url: str) -> str:
    """The origin of a URL, lower-case: `https://agents.example:443`. Raises outbound.Forbidden."""
    targets.parse_url(url)
    split = urlsplit(url)
    port = split.port or (443 if split.scheme == "https" else 80)
    host = (split.hostname or "").lower()
    return f"{split.scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def agent_fields(card: JSON) -> JSON:
    """The fields of Agent from the card.

    Parley streams and calls webhooks for every agent. Text is always an input mode, because many cards omit it.
    """
    return {
        "name": _one_line(card["name"], 120),
        "description": card["description"] or card["name"],
        "version": _one_line(card["version"], 40),
        "skills": [_shown_skill(one) for one in card["skills"]],
        "input_modes": list(dict.fromkeys([*_media_types(card["defaultInputModes"]), "text/plain"])),
        "output_modes": _media_types(card["defaultOutputModes"]) or ["text/plain"],
        "capabilities": {"streaming": True, "pushNotifications": True} | _usual_duration(card) | _steerable(card),
    }


def _usual_duration(card: JSON) -> JSON:
    """What the card declares by the extension for durations; {} for nothing usable."""
    declared = card["capabilities"].get("extensions") or []
    params = next((one.get("params") or {} for one in declared if one["uri"].endswith(DURATION_EXTENSION)), {})
    seconds = params.get("usualSeconds")
    is_usable = isinstance(seconds, int | float) and 0 < seconds < LONGEST_DURATION
    return {USUAL_SECONDS: seconds} if is_usable else {}


def _steerable(card: JSON) -> JSON:
    declared = card["capabilities"].get("extensions") or []
    return {STEERABLE: True} if any(one["uri"].endswith(STEERING_EXTENSION) for one in declared) else {}


def _shown_skill(skill: JSON) -> JSON:
    shown = {name: value for name, value in skill.items() if name != "securityRequirements"}
    modes = {name: _media_types(shown[name]) for name in ("inputModes", "outputModes") if shown.get(name)}
    return {**shown, **modes, "tags": [tag for tag in skill["tags"] if tag] or ["general"]}


def _media_types(modes: list[str]) -> list[str]:
    types = [LOOSE_MODES.get(mode, mode if "/" in mode else f"{mode}/*") for mode in modes if mode]
    return list(dict.fromkeys(types))


def _one_line(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _refused_addresses(card: JSON, also: Sequence[str]) -> dict[str, outbound.Forbidden]:
    wrong = {}
    for index, one in enumerate(card["supportedInterfaces"]):
        if is_supported(one):
            try:
                outbound.guard().opening(also).check(one["url"])
            except outbound.Forbidden as error:
                wrong[f"supportedInterfaces[{index}].url ({one['url']})"] = error
    return wrong


@dataclass(frozen=True, slots=True)
class Interface:
    """Where and how an agent is called; `binding` is "JSONRPC" or "HTTP+JSON", `version` "1.0" or "0.3"."""

    url: str
    binding: str
    version: str
    tenant: str = ""

    @property
    def origin(self) -> str:
        """Credentials are bound to this origin."""
        return origin_of(self.url)

    @property
    def is_old(self) -> bool:
        return self.version == "0.3"


def choose_interface(card: AgentCard) -> Interface:
    """The first supported interface, in the agent's order of preference. Raises BadCard."""
    for offered in card.supported_interfaces:
        version = supported_version(offered.protocol_version)
        if offered.protocol_binding in SUPPORTED_BINDINGS and version:
            return Interface(offered.url, offered.protocol_binding, version, offered.tenant)
    raise BadCard("The agent's card names no interface that Parley speaks: JSONRPC or HTTP+JSON, of A2A 1.0 or 0.3.")


def origin_of(url: str) -> str:
    """As `checked_origin`, but "" for a URL that may not be called."""
    try:
        return checked_origin(url)
    except Forbidden:
        return ""


def chosen_origin(card: AgentCard) -> str:
    try:
        return origin_of(choose_interface(card).url)
    except BadCard:
        return ""


def is_unencrypted(origin: str) -> bool:
    return origin.startswith("http://")
