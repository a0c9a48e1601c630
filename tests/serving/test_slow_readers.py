"""A client that reads slowly slows its own stream down; one that has stopped reading loses its connection."""

from __future__ import annotations

import select
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

import pytest

from tests.stack import ROOT, free_port

MB = 1024 * 1024


@pytest.fixture
def flood() -> Iterator[int]:
    """The port of a Daphne that sends without end."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "daphne", "-p", str(port), "tests.serving.flood:application"], cwd=ROOT
    )
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                sent(port)
                break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        yield port
    finally:
        process.kill()
        process.wait()


def sent(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/sent", timeout=5) as answer:
        return int(answer.read())


def test_what_nobody_reads_is_not_made_and_the_line_is_cut(flood: int) -> None:
    with socket.create_connection(("127.0.0.1", flood)) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        line.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        line.recv(1024)
        assert_it_stands_still(flood)
        assert the_line_is_cut(line)
    assert sent(flood) < 16 * MB


def test_who_reads_gets_everything(flood: int) -> None:
    read = 0
    with socket.create_connection(("127.0.0.1", flood), timeout=10) as line:
        line.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        while read < 64 * MB:
            read += len(line.recv(MB))
    assert sent(flood) >= 64 * MB - MB


def the_line_is_cut(line: socket.socket) -> bool:
    """Wait, reading nothing, until the other side has reset the connection."""
    watch = select.poll()
    watch.register(line, select.POLLHUP)
    return bool(watch.poll(10_000))


def assert_it_stands_still(port: int) -> None:
    """The server has stopped producing, after no more than what the buffers on the way take."""
    before, now = -1, sent(port)
    while before != now:
        time.sleep(0.2)
        before, now = now, sent(port)
    assert 0 < now < 16 * MB
