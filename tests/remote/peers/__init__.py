"""Agents built with several frameworks that all do what `acting` says, each in its own process.

    peer = peers.peer("fasta2a"); peer.card_url

A peer starts when it is first used and ends with the test run.
"""

from __future__ import annotations

import atexit
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests import stack
from tests.a2a import old_sdk
from tests.remote.peers.starting import running

HERE = Path(__file__).parent
START_SECONDS = 60.0
CARD = "/.well-known/agent-card.json"
_lasting = ExitStack()
atexit.register(_lasting.close)


@dataclass(frozen=True)
class Peer:
    """A running agent. `url` is its base URL."""

    name: str
    url: str

    @property
    def card_url(self) -> str:
        return f"{self.url}{CARD}"


@cache
def peer(name: str) -> Peer:
    """The running peer of that name in PEERS. Skips the test if its packages cannot be installed."""
    return PEERS[name](name)


def _sdk(name: str, *options: str) -> Peer:
    return Peer(name, _lasting.enter_context(running("tests.remote.peers.sdk_server", *options)).rstrip("/"))


def _old_sdk(name: str) -> Peer:
    python, reason = old_sdk.interpreter()
    if reason:
        pytest.skip(reason)
    return Peer(name, _program(python, "old_server.py"))


def _fasta(name: str) -> Peer:
    return Peer(name, _program(Path(sys.executable), "fasta_server.py"))


def _parley(name: str) -> Peer:
    other = stack.Stack(services={}, OUTBOUND_ALLOW="127.0.0.0/8")
    atexit.register(other.close)
    other.start()
    other.python("-m", "tests.remote.peers.registering", "acting")
    return Peer(name, f"{other.url}/a2a/acting")


def _program(python: Path, file: str, *arguments: str) -> str:
    """Start a server of this folder; returns its URL once its card is there."""
    port = stack.free_port()
    url = f"http://127.0.0.1:{port}"
    with tempfile.NamedTemporaryFile(prefix=f"parley-{file}-", suffix=".log") as log:
        process = subprocess.Popen([python, HERE / file, str(port), *arguments], stdout=log, stderr=log)
        atexit.register(process.kill)
        deadline = time.monotonic() + START_SECONDS
        while not _answers(f"{url}{CARD}"):
            is_waiting = process.poll() is None and time.monotonic() < deadline
            assert is_waiting, f"{file} does not stand.\n{Path(log.name).read_text()}"
            time.sleep(0.05)
    return url


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


PEERS: dict[str, Callable[[str], Peer]] = {
    "SDK 1.3 JSON-RPC": lambda name: _sdk(name, "--binding", "JSONRPC", "--binding", "HTTP+JSON"),
    "SDK 1.3 HTTP+JSON": lambda name: _sdk(name, "--binding", "HTTP+JSON", "--binding", "JSONRPC"),
    "SDK 1.3 without streams": lambda name: _sdk(name, "--no-streaming"),
    "SDK 0.3.26": _old_sdk,
    "fasta2a 2.1.1": _fasta,
    "Parley": _parley,
}
