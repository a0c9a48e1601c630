"""A web server in a thread that serves cards and key sets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseServer
from threading import Thread
from typing import Any

WELL_KNOWN = "/.well-known/agent-card.json"


class CardServer(ThreadingHTTPServer):
    """Serves `pages`: JSON values, bytes, or (status, headers, bytes). `requests` are the requests that came."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.pages: dict[str, Any] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def card(self, **fields: Any) -> dict[str, Any]:
        return card(f"{self.url}/a2a", **fields)


class _Answering(BaseHTTPRequestHandler):
    server: CardServer

    def do_GET(self) -> None:
        self.server.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        page = self.server.pages.get(self.path, (404, {}, b"nothing"))
        status, headers, body = page if isinstance(page, tuple) else (200, {}, page)
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        if headers.get("ETag") and headers["ETag"] == self.headers.get("If-None-Match"):
            status, content = 304, b""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def in_a_thread[S: BaseServer](server: S) -> Iterator[S]:
    """The server, which answers meanwhile."""
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def serving() -> AbstractContextManager[CardServer]:
    return in_a_thread(CardServer())


def card(url: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": "Translator",
        "description": "Translates texts.",
        "version": "2.1.0",
        "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "capabilities": {"streaming": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "translate", "name": "Translate", "description": "Into any language.", "tags": ["language"]}],
        **fields,
    }


def old_card(url: str, **fields: Any) -> dict[str, Any]:
    new = card(url)
    return {
        **{name: one for name, one in new.items() if name != "supportedInterfaces"},
        "protocolVersion": "0.3.0",
        "url": url,
        "preferredTransport": "JSONRPC",
        **fields,
    }
