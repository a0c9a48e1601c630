"""A slow reader slows only its own stream; a stopped one is disconnected."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

import pytest

from tests.stack import ROOT, START_SECONDS, free_port

MB = 1024 * 1024


@pytest.fixture
def flood() -> Iterator[int]:
    """The port of a server that sends without end."""
    port = free_port()
    command = [sys.executable, "-m", "tests.serving.flood", str(port)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + START_SECONDS
        while process.poll() is None and not is_up(port):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield port
    finally:
        process.kill()
        process.wait()


def is_up(port: int) -> bool:
    try:
        return sent(port) == 0
    except OSError:
        return False


def sent(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/sent", timeout=20) as answer:
        return int(answer.read())


def reader_of(port: int) -> socket.socket:
    line = socket.create_connection(("127.0.0.1", port), timeout=20)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    line.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    return line


def test_what_nobody_reads_is_not_made_and_who_reads_gets_everything(flood: int) -> None:
    with reader_of(flood) as line:
        line.recv(1024)
        assert is_cut(line)
    before = sent(flood)
    assert before < 16 * MB
    read = 0
    with reader_of(flood) as line:
        while read < 64 * MB:
            read += len(line.recv(MB))
    assert sent(flood) - before >= 64 * MB - MB


def is_cut(line: socket.socket) -> bool:
    """Wait, without reading, until the other side's connection is gone."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(0.5)
        try:
            line.send(b"x")
        except ConnectionError:
            return True
    return False
