"""The A2A SDK's server in a process of its own, which does what `sdk_server` says.

It starts when it is first used and ends with the test run.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import urllib.request
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from tests.remote.peers.starting import running

OPTIONS = {
    "SDK 1.3 JSON-RPC": ("--binding", "JSONRPC", "--binding", "HTTP+JSON"),
    "SDK 1.3 HTTP+JSON": ("--binding", "HTTP+JSON", "--binding", "JSONRPC"),
    "SDK 1.3 without streams": ("--no-streaming",),
}
FILE = bytes(range(256))
_lasting = ExitStack()
atexit.register(_lasting.close)


@dataclass(frozen=True)
class Peer:
    url: str

    @property
    def card_url(self) -> str:
        return f"{self.url}.well-known/agent-card.json"

    @cached_property
    def card(self) -> dict[str, Any]:
        with urllib.request.urlopen(self.card_url) as answer:
            card: dict[str, Any] = json.load(answer)
        return card


@cache
def peer(name: str = "SDK 1.3 JSON-RPC") -> Peer:
    return Peer(_lasting.enter_context(running("tests.remote.peers.sdk_server", *OPTIONS[name])))


def described(name: str, content: bytes) -> str:
    """What the peer delivers of each file that it gets."""
    return f"{name} {hashlib.sha256(content).hexdigest()}"
