"""Private servers to kill, and a cuttable connection to a shared one."""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import redis

from tests.stack import free_port

START_SECONDS = 30.0
BINARIES = "/usr/lib/postgresql/*/bin"  # Debian's folder, not on the PATH


class Missing(Exception):
    """A program for these tests is not installed."""


def program(name: str) -> str:
    """The newest program of that name. Raises Missing."""
    if found := shutil.which(name):
        return found
    folders = sorted(Path("/").glob(BINARIES.lstrip("/")), key=lambda folder: float(folder.parent.name))
    if found := shutil.which(name, path=os.pathsep.join(map(str, reversed(folders)))):
        return found
    raise Missing(f"{name} is not on the PATH and not in {BINARIES}: apt-get install postgresql redis-server")


class Postgres:
    """A throwaway PostgreSQL cluster at a free port, open to everybody.

    Root's tests run it as `postgres`, because it refuses to run as root.
    """

    def __init__(self, folder: Path | None = None, programs: Path | None = None) -> None:
        """`folder`: an empty folder for it, by default a temporary one; `programs`: where its programs are."""
        self.port, self._programs = free_port(), programs
        self.url = f"postgres://postgres@127.0.0.1:{self.port}/postgres"
        self._user = "postgres" if getpass.getuser() == "root" else None
        self._folder = folder or Path(tempfile.mkdtemp(prefix="parley-postgresql-"))
        if self._user:
            shutil.chown(self._folder, self._user)
        self._run("initdb", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-sync", "--pgdata=data")
        with (self._data / "postgresql.conf").open("a") as configuration:
            configuration.write(
                f"port = {self.port}\n"
                "listen_addresses = '127.0.0.1'\n"
                f"unix_socket_directories = '{self._folder}'\n"
                "shared_buffers = '16MB'\n"
                "fsync = off\n"  # only a crash of the machine needs it
            )

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def start(self) -> None:
        self._control("start")

    def stop(self, mode: str) -> None:
        """`fast` closes cleanly, `immediate` as in a crash; neither waits for clients."""
        self._control("stop", f"--mode={mode}")

    def restart(self, mode: str) -> None:
        self._control("restart", f"--mode={mode}")

    def ensure(self) -> None:
        """Start it if it has ended by itself, as on a full disk."""
        with tempfile.TemporaryFile("w+") as output:
            status = subprocess.run(
                [self._program("pg_ctl"), "status", "--pgdata=data"],
                cwd=self._folder, user=self._user, stdout=output, stderr=output, check=False,
            )  # fmt: skip
        if status.returncode != 0:
            self.start()

    def log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")

    def close(self) -> None:
        with contextlib.suppress(AssertionError):
            self.stop("immediate")
        shutil.rmtree(self._folder, ignore_errors=True)

    def _program(self, name: str) -> str:
        return str(self._programs / name) if self._programs else program(name)

    def _control(self, *arguments: str) -> None:
        self._run("pg_ctl", *arguments, "--wait", f"--timeout={START_SECONDS:g}", "--pgdata=data", "--log=log")

    def _run(self, name: str, *arguments: str) -> None:
        with tempfile.TemporaryFile("w+") as output:  # the started server would hold a pipe open
            done = subprocess.run(
                [self._program(name), *arguments],
                cwd=self._folder, user=self._user, stdout=output, stderr=output, check=False,
            )  # fmt: skip
            output.seek(0)
            assert done.returncode == 0, f"{name} {' '.join(arguments)}\n{output.read()}"


class Redis:
    """A redis-server at a free port without persistence: a restart empties it."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        arguments = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen(
            [program("redis-server"), *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + START_SECONDS
        with redis.Redis.from_url(self.url) as client:
            while True:
                try:
                    client.ping()
                    return
                except redis.ConnectionError:
                    assert time.monotonic() < deadline, "redis-server does not answer"
                    time.sleep(0.05)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    close = kill


class Line:
    """A TCP proxy to a server: when cut, it drops its connections and accepts none.

    Attributes:
        url: the server's URL through this proxy.
        delay: seconds that each piece of data takes in one direction.
    """

    delay = 0.0

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.port, f"a line needs a port: {url}"
        self._server = (parts.hostname, parts.port)
        self._port = free_port()
        user = parts.netloc.rpartition("@")[0]
        self.url = urlunsplit(parts._replace(netloc=f"{user}{'@' if user else ''}127.0.0.1:{self._port}"))
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._ends: set[socket.socket] = set()
        self.mend()

    def mend(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self._port))
        threading.Thread(target=self._take, args=[self._listener], daemon=True).start()

    def cut(self) -> int:
        """Drop all connections and accept none; returns their number."""
        with self._lock:
            ends, self._ends = self._ends, set()
            if self._listener is not None:
                self._listener.shutdown(socket.SHUT_RDWR)
                self._listener.close()
                self._listener = None
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        return len(ends) // 2

    close = cut

    def _take(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self._server)
            except OSError:  # the server is away, as the caller sees
                near.close()
                continue
            with self._lock:
                if self._listener is not listener:
                    near.close(), far.close()
                    return
                self._ends |= {near, far}
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=[source, target], daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        """Copy data until either side ends, then close the other."""
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                time.sleep(self.delay)
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._ends.discard(source)
        source.close()


@contextlib.contextmanager
def postgres() -> Iterator[Postgres]:
    with contextlib.closing(Postgres()) as server:
        server.start()
        yield server


@contextlib.contextmanager
def redis_server() -> Iterator[Redis]:
    with contextlib.closing(Redis()) as server:
        server.start()
        yield server
