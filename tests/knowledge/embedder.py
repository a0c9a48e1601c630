"""An OpenAI-compatible endpoint for embeddings. Texts with words of one meaning have similar vectors."""

from __future__ import annotations

import json
import math
import random
import re
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.remote.card_server import in_a_thread

MEANINGS = {"vacation": "leave", "holidays": "leave", "cycles": "bicycles", "ill": "sick"}


class Embedder(ThreadingHTTPServer):
    """Attributes: `asked`: all texts; `models`: of each request; `dimensions`; `failing_after`: so many requests."""

    daemon_threads = True
    dimensions, failing_after = 256, 1_000_000

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []
        self.models: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def vector(self, text: str) -> list[float]:
        """The sum of a random direction for each meaning."""
        words = [MEANINGS.get(word, word) for word in re.findall(r"\w{4,}", text.lower())] or ["nothing"]
        drawn = [random.Random(word) for word in words]
        return [math.fsum(one.gauss() for one in drawn) for _ in range(self.dimensions)]


class _Handler(BaseHTTPRequestHandler):
    server: Embedder

    def do_POST(self) -> None:
        embedder, body = self.server, json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        embedder.models.append(body["model"])
        if len(embedder.models) > embedder.failing_after:
            self._answer(401, {"error": {"message": "no"}})
            return
        embedder.asked += body["input"]
        rows = [{"index": at, "embedding": embedder.vector(text)} for at, text in enumerate(body["input"])]
        self._answer(200, {"object": "list", "model": body["model"], "data": rows})

    def _answer(self, status: int, said: object) -> None:
        content = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


def serving() -> AbstractContextManager[Embedder]:
    return in_a_thread(Embedder())
