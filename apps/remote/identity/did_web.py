"""Identities of other installations (`did:web`): where their documents are, and the keys in them.

https://w3c-ccg.github.io/did-method-web/ and https://www.w3.org/TR/did-1.0/
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from apps.record.content import strict_json
from apps.remote.agent_cards import cards
from parley import outbound
from parley.outbound import Limits

JSON = dict[str, Any]
JWK = dict[str, Any]

LIMITS = Limits(seconds=5.0, connect_seconds=3.0, bytes=256 * 1024, header_bytes=16 * 1024, connections=1)
CACHE_SECONDS = 300.0  # as long as Parley lets others cache its own
FAILURE_SECONDS = 15.0  # before a document that could not be read is fetched again
MOST_CACHED = 1_000
MOST_METHODS = 100  # of a document
LONGEST_DID = 1_000  # characters
STEP = re.compile(r"(?:[A-Za-z0-9._~-]|%[0-9A-Fa-f]{2})+", re.ASCII)
HOST = re.compile(r"(?:[a-z0-9.-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?", re.ASCII)


class Unresolved(Exception):
    """The identity's document cannot be read. `is_final`: asking again would not help."""

    def __init__(self, message: str, *, is_final: bool = False) -> None:
        super().__init__(message)
        self.is_final = is_final


@dataclass(frozen=True, slots=True)
class DidDocument:
    """A document; `methods` are its verification methods for assertions, by the fragment of their id."""

    did: str
    methods: dict[str, JSON] = field(default_factory=dict)

    @property
    def keys(self) -> dict[str, JWK]:
        return {kid: method["publicKeyJwk"] for kid, method in self.methods.items()}


def split_did(did: str) -> tuple[str, list[str]]:
    """The authority (`host` or `host:port`) and the path of a `did:web`. Raises Unresolved."""
    method, _, rest = did.partition(":web:")
    host, *steps = rest.split(":")
    authority = unquote(host).lower()
    if method != "did" or len(did) > LONGEST_DID or not HOST.fullmatch(authority):
        raise Unresolved("This is no did:web with a host.", is_final=True)
    if not all(STEP.fullmatch(step) and unquote(step) not in (".", "..") for step in steps):
        raise Unresolved("The path of this did:web cannot be read.", is_final=True)
    return authority, steps


class DidResolver:
    """Resolves identities through the guard, and keeps documents for a while. One for a process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[tuple[str, str], tuple[float, DidDocument | Unresolved]] = {}

    async def resolve(self, did: str, *, unencrypted: str = "", fresh: bool = False) -> DidDocument:
        """The identity's document, at most CACHE_SECONDS old; with `fresh`, fetched now.

        `did:web` is for HTTPS. `unencrypted` is the one origin (`http://host:port`) where HTTP will do, because it is
        called that way anyway. Raises Unresolved.
        """
        place = (did, unencrypted)
        until, found = self._kept.get(place, (0.0, None))
        if found is None or until < self._clock() or fresh:
            found = await self._fetched(did, unencrypted)
            if len(self._kept) >= MOST_CACHED:
                self._kept.clear()
            kept_for = FAILURE_SECONDS if isinstance(found, Unresolved) else CACHE_SECONDS
            self._kept[place] = self._clock() + kept_for, found
        if isinstance(found, Unresolved):
            raise Unresolved(str(found), is_final=found.is_final)
        return found

    def forget(self) -> None:
        self._kept.clear()

    async def _fetched(self, did: str, unencrypted: str) -> DidDocument | Unresolved:
        try:
            return read_document(did, await fetch_json(document_url(did, unencrypted)))
        except Unresolved as error:
            return error


def document_url(did: str, unencrypted: str = "") -> str:
    """Where the document of a `did:web` is. Raises Unresolved."""
    authority, steps = split_did(did)
    plain = f"http://{authority}"
    scheme = "http" if unencrypted and cards.origin_of(plain) == unencrypted else "https"
    path = "/".join(steps) if steps else ".well-known"
    return f"{scheme}://{authority}/{path}/did.json"


def authority_of(url: str) -> str:
    """The host of a URL as a `did:web` writes it, with a port that is not the scheme's own."""
    split = urlsplit(url)
    is_usual = split.port in (None, 443 if split.scheme == "https" else 80)
    host = (split.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    return host if is_usual else f"{host}:{split.port}"


def read_document(did: str, told: Any) -> DidDocument:
    """The document with its assertion methods. Raises Unresolved."""
    if not isinstance(told, dict) or told.get("id") != did:
        raise Unresolved("The document is that of another identity.", is_final=True)
    listed = told.get("verificationMethod")
    methods = {_name(did, one): one for one in listed[:MOST_METHODS]} if isinstance(listed, list) else {}
    asserting = told.get("assertionMethod")
    found: dict[str, JSON] = {}
    for one in asserting[:MOST_METHODS] if isinstance(asserting, list) else []:
        name = _name(did, one if isinstance(one, dict) else {"id": one, "controller": did})
        method = one if isinstance(one, dict) else methods.get(name)
        if name and method and isinstance(method.get("publicKeyJwk"), dict):
            found[name] = method
    return DidDocument(did, found)


def _name(did: str, method: Any) -> str:
    """The fragment of a method's id; "" if it is not one of this identity."""
    key = method.get("id") if isinstance(method, dict) else None
    if not isinstance(key, str) or method.get("controller", did) != did:
        return ""
    owner, _, name = key.partition("#")
    return name if owner in ("", did) else ""


async def fetch_json(url: str) -> Any:
    """Raises Unresolved."""
    try:
        async with outbound.exchange(LIMITS) as way, way.send("GET", url, {"Accept": "application/json"}) as answer:
            if answer.status != 200:
                is_final = answer.status in (404, 410)
                raise Unresolved(f"{url} answers with status {answer.status}.", is_final=is_final)
            return strict_json.parse(await answer.read())
    except (outbound.Forbidden, outbound.Misleading, strict_json.InvalidJSON) as error:
        raise Unresolved(f"{url} cannot be read. {error}", is_final=True) from None
    except outbound.OutboundError as error:
        raise Unresolved(f"{url} cannot be read. {error}") from None


resolver = DidResolver()
