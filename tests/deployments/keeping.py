"""A keeper of agents' processes, and agents that are a few lines of Python."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from apps.deployments import keeper, processes

SOON = 20.0  # seconds until a test gives up
LISTEN = """
import os, socket, sys, time
def listen():
    server = socket.socket(socket.AF_UNIX)
    server.bind(os.environ["A2A_SOCKET"])
    server.listen()
    return server
def answer(server, said):
    while True:
        line, _ = server.accept()
        try:
            line.sendall(said)
        except OSError:
            pass  # the keeper only looks whether it answers
        line.close()
"""
ANSWER = LISTEN + 'answer(listen(), b"well")\n'
TRY = (
    LISTEN
    + """
def attempt(act):
    try:
        return f"did {act()}"
    except OSError as error:
        return type(error).__name__
def tell(*acts):
    answer(listen(), " ".join(map(attempt, acts)).encode())
"""
)
"""`tell` answers with what became of functions: "did …" with their results, or the names of their errors."""


class Kept:
    """A keeper, and one client of it.

    Attributes:
        data: Parley's folder, with agents' folders in it.
        guard: the keeper's parent, which ends last.
    """

    def __init__(self, data: Path, folder: Path, *options: str) -> None:
        self.data, self.folder, self.options = data, folder, options
        self.clients: list[socket.socket] = []
        self.started: list[subprocess.Popen[bytes]] = []
        self.start()

    def start(self) -> None:
        self.guard = processes.start_keeper(self.folder, *self.options)
        self.started.append(self.guard)
        until(lambda: (self.folder / keeper.ADDRESS).exists() or self.guard.poll() is not None)
        self.connect()

    def connect(self) -> None:
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(SOON)
        client.connect((self.folder / keeper.ADDRESS).read_text())
        self.clients.append(client)
        self.lines = client.makefile("rb")

    @property
    def pid(self) -> int:
        size = struct.calcsize("3i")
        return int(struct.unpack("3i", self.clients[-1].getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[0])

    def ask(self, name: str, program: str, setup: list[list[str]] = [], **limits: Any) -> dict[str, Any]:  # noqa: B006
        """Run the program as the agent `name`; the answer."""
        root = self.data / "agents" / name
        for one in (root / "code", root / "home"):
            one.mkdir(parents=True, exist_ok=True)
        (root / "code" / "server.py").write_text(program)
        self.tell(
            id=name,
            run={
                "key": name, "name": name, "folder": str(root / "code"), "home": str(root / "home"), "setup": setup,
                "run": [sys.executable, "-S", "server.py"], "setup_environment": {},
                "environment": {"PATH": "/usr/bin:/bin", "A2A_SOCKET": str(self.folder / name / "a2a")},
                "limits": {"start": SOON, **limits}, "read": [], "programs": [sys.base_prefix, sys.prefix],
                "hidden": [str(self.data)],
            },
        )  # fmt: skip
        return self.hear(lambda said: said.get("id") == name and "progress" not in said)

    def tell(self, **said: Any) -> None:
        self.clients[-1].sendall(json.dumps(said).encode() + b"\n")

    def hear(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while True:
            said = json.loads(self.lines.readline())
            if wanted(said):
                return dict(said)

    def why_gone(self, name: str) -> str:
        return str(self.hear(lambda said: said.get("gone") == name)["why"])

    def disconnect(self) -> None:
        self.lines.close()
        for one in self.clients:
            one.close()
        self.clients.clear()

    def close(self) -> None:
        self.disconnect()
        for one in self.started:
            one.terminate()
            one.wait(SOON)


def call(path: str) -> str:
    """What the agent at the socket says."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(SOON)
        line.connect(path)
        said = b""
        while piece := line.recv(65536):
            said += piece
        return said.decode()


def running(root: Path) -> list[int]:
    """Processes whose folder is in the agent's."""
    found = []
    for one in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            if Path(os.readlink(f"/proc/{one}/cwd")).is_relative_to(root):
                found.append(one)
        except OSError:
            continue
    return found


def until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < end, "It does not come to pass."
        time.sleep(0.02)
