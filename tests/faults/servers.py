"""Servers of a test's own, to be restarted and killed, and a line to a server that others use, to be cut."""

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
BINARIES = "/usr/lib/postgresql/*/bin"  # where Debian keeps what is not on the PATH


class Missing(Exception):
    """A program that these tests start is not on this machine."""


def program(name: str) -> str:
    """Where the newest program of that name is. Raises Missing."""
    if found := shutil.which(name):
        return found
    folders = sorted(Path("/").glob(BINARIES.lstrip("/")), key=lambda folder: float(folder.parent.name))
    if found := shutil.which(name, path=os.pathsep.join(map(str, reversed(folders)))):
        return found
    raise Missing(f"{name} is not on the PATH and not in {BINARIES}: apt-get install postgresql redis-server")


class Postgres:
    """A throwaway PostgreSQL cluster at a free port, which lets everybody in.

    It runs as the user `postgres` where the test is root's, for it refuses to be root's.
    """

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"postgres://postgres@127.0.0.1:{self.port}/postgres"
        self._user = "postgres" if getpass.getuser() == "root" else None
        self._folder = Path(tempfile.mkdtemp(prefix="parley-postgresql-"))
        if self._user:
            shutil.chown(self._folder, self._user)
        self._run("initdb", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-sync", "--pgdata=data")
        with (self._data / "postgresql.conf").open("a") as configuration:
            configuration.write(
                f"port = {self.port}\n"
                "listen_addresses = '127.0.0.1'\n"
                f"unix_socket_directories = '{self._folder}'\n"
                "shared_buffers = '16MB'\n"
                "fsync = off\n"  # only a machine's crash needs it, not a server's
            )

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def start(self) -> None:
        self._control("start")

    def stop(self, mode: str) -> None:
        """Without waiting for those who are connected: `fast` in good order, `immediate` as in a crash."""
        self._control("stop", f"--mode={mode}")

    def restart(self, mode: str) -> None:
        """`stop` and start again; it takes connections then."""
        self._control("restart", f"--mode={mode}")

    def close(self) -> None:
        """Leave nothing behind."""
        with contextlib.suppress(AssertionError):
            self.stop("immediate")
        shutil.rmtree(self._folder, ignore_errors=True)

    def _control(self, *arguments: str) -> None:
        self._run("pg_ctl", *arguments, "--wait", f"--timeout={START_SECONDS:g}", "--pgdata=data", "--log=log")

    def _run(self, name: str, *arguments: str) -> None:
        with tempfile.TemporaryFile("w+") as output:  # a pipe would be held open by the server that this starts
            done = subprocess.run(
                [program(name), *arguments],
                cwd=self._folder, user=self._user, stdout=output, stderr=output, check=False,
            )  # fmt: skip
            output.seek(0)
            assert done.returncode == 0, f"{name} {' '.join(arguments)}\n{output.read()}"


class Redis:
    """A redis-server at a free port that keeps nothing on disk: killed and started again, it is empty."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it answers."""
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
        """SIGKILL: nothing is said to anybody."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    close = kill


class Line:
    """A TCP line to a server that others use as well: cut, it drops its connections and takes none.

    Attributes:
        url: the server's URL by way of this line.
    """

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
        """Take connections (again)."""
        self._listener = socket.create_server(("127.0.0.1", self._port))
        threading.Thread(target=self._take, args=[self._listener], daemon=True).start()

    def cut(self) -> int:
        """Drop all connections and take none; says how many they were."""
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
                far = socket.create_connection(self._server)
            except OSError:
                return
            with self._lock:
                if self._listener is not listener:
                    near.close(), far.close()
                    return
                self._ends |= {near, far}
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=[source, target], daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        """Hand on what comes until either side ends; then the other hears of it."""
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._ends.discard(source)
        source.close()


@contextlib.contextmanager
def postgres() -> Iterator[Postgres]:
    """A cluster that takes connections."""
    with contextlib.closing(Postgres()) as server:
        server.start()
        yield server


@contextlib.contextmanager
def redis_server() -> Iterator[Redis]:
    """A Redis that answers."""
    with contextlib.closing(Redis()) as server:
        server.start()
        yield server
