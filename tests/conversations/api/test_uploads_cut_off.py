"""Uploads over cut connections to a killed server resume, and nothing is lost."""

import hashlib
import os
import socket
import threading
from collections.abc import Iterator

import httpx
import pytest

from apps.conversations.api.uploads import PIECE
from tests import stack
from tests.stack import Stack

pytestmark = pytest.mark.slow("a Parley of its own is killed")

CONTENT = os.urandom(3_000_000)
PIECE_BYTES = 250_000


@pytest.fixture
def frail() -> Iterator[Stack]:
    with stack.running() as running:
        yield running


class Sender:
    def __init__(self, server: Stack) -> None:
        self.server = server
        self.headers = {"Authorization": f"Bearer {server.demo_key}"}
        told = {"filename": "big.bin", "size": len(CONTENT)}
        answer = httpx.post(f"{server.url}/api/v1/uploads", json=told, headers=self.headers, timeout=60)
        self.address = f"{server.url}{answer.json()['location']}"

    def offset(self) -> int:
        return int(httpx.head(self.address, headers=self.headers, timeout=60).headers["Upload-Offset"])

    def send(self, offset: int) -> int:
        headers = {**self.headers, "Content-Type": PIECE, "Upload-Offset": str(offset)}
        piece = CONTENT[offset : offset + PIECE_BYTES]
        answer = httpx.patch(self.address, content=piece, headers=headers, timeout=60)
        if answer.status_code == 409:  # the server was still writing what came before the line was cut
            return self.send(self.offset())
        assert answer.status_code == 200, answer.text
        return int(answer.json()["offset"])

    def cut(self, offset: int, after: int) -> None:
        """Send a piece over a connection that is cut after so many bytes."""
        piece = CONTENT[offset : offset + PIECE_BYTES]
        headers = {**self.headers, "Content-Type": PIECE, "Upload-Offset": offset, "Content-Length": len(piece)}
        lines = [f"PATCH {httpx.URL(self.address).path} HTTP/1.1", f"Host: 127.0.0.1:{self.server.port}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        with socket.create_connection(("127.0.0.1", self.server.port)) as line:
            line.sendall("\r\n".join([*lines, "", ""]).encode() + piece[:after])

    def send_all(self, offset: int) -> None:
        while offset < len(CONTENT):
            offset = self.send(offset)
        told = httpx.get(self.address, headers=self.headers, timeout=60).json()
        assert (told["isWhole"], told["sha256"]) == (True, hashlib.sha256(CONTENT).hexdigest())


def test_upload_survives_cut_lines_and_killed_server(frail: Stack) -> None:
    sender = Sender(frail)
    offset = sender.send(0)
    for after in (0, 1, 70_000, PIECE_BYTES - 1):
        sender.cut(offset, after)
        reached = sender.offset()
        assert offset <= reached <= offset + after
        offset = sender.send(reached)
    sender.send_all(offset)
    sender, acknowledged, enough = Sender(frail), [0], threading.Event()

    def send() -> None:
        try:
            while acknowledged[-1] < len(CONTENT):
                acknowledged.append(sender.send(acknowledged[-1]))
                if len(acknowledged) == 5:
                    enough.set()
        except httpx.TransportError:
            return

    sending = threading.Thread(target=send)
    sending.start()
    assert enough.wait(60)
    frail.kill()
    sending.join(60)
    frail.start()
    reached = sender.offset()
    assert acknowledged[-1] <= reached <= len(CONTENT)
    sender.send_all(reached)
