"""A server for webhooks: it keeps each call, refuses some by the seed, and answers some with a redirect."""

from __future__ import annotations

import json
import random
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from faults.history import Called, Seen, webhook_key

REFUSED_SHARE = 0.1
TRAP = "/trap"
TURNED = "/turned/"  # addresses that redirect their first call


class Receiver:
    """Listens from its creation to `close`.

    Attributes:
        url: where webhooks are to call, with a path appended.
    """

    def __init__(self, seen: Seen, seed: int) -> None:
        self._seen = seen
        self._chance = random.Random(seed)
        self._turned: set[str] = set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.take(self)

            do_GET = do_POST  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def take(self, call: BaseHTTPRequestHandler) -> None:
        body = call.rfile.read(int(call.headers.get("Content-Length") or 0))
        if call.path.startswith(TRAP):
            self._seen.strayed.append(call.path)
            self._answer(call, 204)
            return
        if call.path.startswith(TURNED) and call.path not in self._turned:
            self._turned.add(call.path)
            self._answer(call, 307, f"{self.url}{TRAP}{call.path}")
            return
        taken = self._chance.random() >= REFUSED_SHARE
        self._seen.called.append(Called(call.path, webhook_key(json.loads(body)), taken))
        self._seen.count("webhook calls")
        self._answer(call, 204 if taken else 500)

    @staticmethod
    def _answer(call: BaseHTTPRequestHandler, status: int, location: str = "") -> None:
        call.send_response(status)
        if location:
            call.send_header("Location", location)
        call.send_header("Content-Length", "0")
        call.end_headers()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
