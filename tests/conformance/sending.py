"""One request in each binding's form."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlencode

from apps.a2a.bindings import ADDRESSES

JSON = dict[str, Any]
Headers = dict[str, str | None]  # None removes a header
RPC_ID = 7
NO_ID = "%00"  # a path with an invalid id


@dataclass(frozen=True)
class Sent:
    verb: str = "POST"
    below: str = ""
    body: bytes = b""
    headers: Headers = field(default_factory=lambda: {"Content-Type": "application/json"})

    def with_headers(self, **headers: str | None) -> Sent:
        return replace(self, headers=self.headers | {name.replace("_", "-"): headers[name] for name in headers})

    def encoded(self, encode: Callable[[bytes], bytes]) -> Sent:
        return replace(self, body=encode(self.body))


def rpc(method: str, params: Any, **fields: Any) -> Sent:
    return Sent(body=dumped({"jsonrpc": "2.0", "id": RPC_ID, "method": method, "params": params} | fields))


def rest(method: str, params: Any) -> Sent:
    """The same over HTTP+JSON: fields outside the path go into the query or the body."""
    verb, address = address_of(method)
    given = dict(params) if isinstance(params, dict) else params
    named = {name: given.pop(name, "") for name in re.findall(r"\{(\w+)\}", address)}
    below = "/" + re.sub(r"\{(\w+)\}", lambda name: _in_path(named[name[1]]), address)
    if verb == "POST":
        return Sent(verb, below, dumped(given))
    query = urlencode({name: _in_query(value) for name, value in given.items()})
    return Sent(verb, f"{below}?{query}" if query else below, headers={})


def address_of(method: str) -> tuple[str, str]:
    return next((verb, address) for address, verbs in ADDRESSES.items() for verb in verbs if verbs[verb] == method)


def dumped(value: Any) -> bytes:
    """JSON that may contain unpaired surrogates."""
    return json.dumps(value).encode()


def _in_path(value: Any) -> str:
    return quote(value, safe="") if isinstance(value, str) and value else NO_ID


def _in_query(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
