"""Slack beside a browser's test: a stand-in in a thread of its own, at an address that the server knows."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from tests.channels.slack import SlackStandIn
from tests.outbound.receiving import Server
from tests.stack import free_port

SLACK_PORT = free_port()
SLACK_API_URL = f"http://127.0.0.1:{SLACK_PORT}/api"


@contextmanager
def slack() -> Iterator[SlackStandIn]:
    one = SlackStandIn()
    one.url = SLACK_API_URL.removesuffix("/api")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="slack")
    thread.start()
    starting = asyncio.start_server(Server(one.take).serve, "127.0.0.1", SLACK_PORT)
    server = asyncio.run_coroutine_threadsafe(starting, loop).result(10)
    try:
        yield one
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class SlackThread:
    """What Ada does in Slack, in direct messages to the agent whose channel has this address."""

    def __init__(self, at: SlackStandIn, address: str) -> None:
        self.at, self.address = at, address

    def say(self, text: str) -> None:
        self._deliver(self.at.message("ada", text))

    def press(self, label: str) -> None:
        self._deliver(self.at.press("ada", label))

    def _deliver(self, request: tuple[dict[str, str], bytes]) -> None:
        headers, body = request
        assert httpx.post(self.address, content=body, headers=headers, timeout=60).status_code < 300
