"""A Parley to break, in several processes or in one.

`Services` has two web servers, three workers and beat, with a PostgreSQL cluster and a Redis that only they use, and
that they reach through TCP proxies. `Embedded` is `manage.py serve` on SQLite.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from faults.history import Query, querying
from faults.machine import machine
from tests.faults.servers import Line, Postgres, Redis
from tests.remote.peers.starting import running
from tests.stack import Stack, free_port

JSON = dict[str, Any]
LEASE = 3.0  # seconds
WORKERS, WEBS = 3, 2
DISK = 384 * 1024 * 1024  # bytes of the small disk
STAND_SECONDS = 240.0
REMOTE = "cast"  # the slug of the remote agent
SETTINGS = {
    "RUN_LEASE_SECONDS": str(LEASE),
    "OUTBOUND_ALLOW": "127.0.0.1",
    "ACTS_PER_MINUTE": "1000000",
    "STREAMS_PER_CALLER": "5000",
}
os.environ.setdefault("SECRET_KEY", secrets.token_urlsafe(50))
os.environ.setdefault("MASTER_KEY", base64.urlsafe_b64encode(secrets.token_bytes(32)).decode())
WAITS_FOR_THE_DISK = {"PGOPTIONS": ""}  # as in production: a crash loses no commit


class Unsteady(Exception):
    """Parley does not stand again after a fault."""


class Disk:
    """A small disk to fill, or None where mounting is not allowed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    @classmethod
    def at(cls, folder: Path) -> Disk | None:
        command = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=755", "tmpfs", str(folder)]
        try:
            done = subprocess.run(command, capture_output=True, check=False)
        except OSError:
            return None
        return cls(folder) if done.returncode == 0 else None

    def fill(self) -> None:
        with self._filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(65536))

    def free(self) -> None:
        self._filler.unlink(missing_ok=True)

    def close(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.folder)], capture_output=True, check=False)


class Stage:
    """A standing Parley.

    Attributes:
        roles: names of its processes, by role.
        disk: the small disk with the database, if there is one.
        kills: how many processes were killed, those that killed themselves included.
    """

    stack: Stack
    roles: dict[str, list[str]]
    disk: Disk | None = None
    postgres: Postgres | None = None
    redis: Redis | None = None
    database_line: Line | None = None
    redis_line: Line | None = None
    database_url: str

    def __init__(self) -> None:
        self.kills = 0

    # Processes

    def family(self, name: str) -> list[int]:
        """A process and its descendants."""
        found = [self.stack.processes[name].pid] if self.stack.is_running(name) else []
        for pid in found:
            with contextlib.suppress(OSError):
                for thread in Path(f"/proc/{pid}/task").iterdir():
                    found += map(int, (thread / "children").read_text().split())
        return found

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process and its descendants."""
        for pid in self.family(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self, name: str) -> None:
        """SIGKILL; it stays away until `stand`."""
        if self.stack.is_running(name):
            self.signal(name, signal.SIGKILL)
            self.stack.processes[name].wait(30)
            self.kills += 1

    def begin(self, name: str, **environment: str) -> None:
        """Start a process, with further environment."""
        kept = self.stack.environment
        self.stack.environment = kept | environment
        try:
            self.stack.begin(name)
        finally:
            self.stack.environment = kept

    def revive(self) -> int:
        """Start what has ended; returns how many."""
        ended = [name for name in self.stack.commands() if not self.stack.is_running(name)]
        for name in ended:
            self.begin(name)
        return len(ended)

    def stand(self) -> None:
        """Start what has ended, and wait until all take work and answer. Raises Unsteady."""
        deadline = machine.now() + STAND_SECONDS
        while not (self.revive() == 0 and self._answers()):
            if machine.now() > deadline:
                raise Unsteady(self.stack.log()[-8000:])
            time.sleep(0.2)

    def _answers(self) -> bool:
        workers = all(self.stack.takes_work(name) for name in self.stack.workers)
        return workers and all(is_ready(url) for url in self.urls)

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.stack.webs.values()] or [self.stack.url]

    def measures(self) -> dict[str, tuple[int, int, int]]:
        """Process id, resident kilobytes and open files of each running process."""
        found = {}
        for name, process in self.stack.processes.items():
            with contextlib.suppress(OSError):
                pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
                files = len(os.listdir(f"/proc/{process.pid}/fd"))
                found[name] = (process.pid, pages * os.sysconf("SC_PAGE_SIZE") // 1024, files)
        return found

    # Contents

    def prepare(self, tenants: list[str], remote_url: str) -> JSON:
        """Tables, agents and tenants; returns these with their keys."""
        self.stack.prepare()
        self.stack.environment["DJANGO_SETTINGS_MODULE"] = "faults.settings"
        with tempfile.NamedTemporaryFile("w", suffix=".json") as card:
            with urllib.request.urlopen(f"{remote_url}.well-known/agent-card.json") as answer:
                card.write(answer.read().decode())
            card.flush()
            self.stack.manage("register_agent", REMOTE, "--card", card.name)
        made: JSON = json.loads(self.stack.python("-m", "faults.preparing", *tenants).stdout.splitlines()[-1])
        return made

    def query(self) -> Query:
        return querying(self.database_url)

    def replay(self) -> list[str]:
        """What a replay of all logs finds."""
        done = self.stack.manage("verify_record", check=False)
        return [] if done.returncode == 0 else (done.stdout + done.stderr).splitlines()[-10:]

    def close(self) -> None:
        for name in self.stack.processes:
            self.signal(name, signal.SIGKILL)
        with contextlib.suppress(Exception):
            self.stack.close()
        for part in (self.database_line, self.redis_line, self.redis, self.postgres, self.disk):
            if part is not None:
                part.close()


def is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=5):
            return True
    except OSError:
        return False


class Services(Stage):
    """Several processes on a PostgreSQL cluster and a Redis of their own."""

    workers, webs = WORKERS, WEBS

    def __init__(self, **environment: str) -> None:
        super().__init__()
        self._folder = Path(tempfile.mkdtemp(prefix="parley-faults-"))
        self.disk = Disk.at(self._folder)
        self.postgres, self.redis = Postgres(self._cluster()), Redis()
        self.postgres.start()
        self.redis.start()
        self.database_line, self.redis_line = Line(self.postgres.url), Line(self.redis.url)
        services = {
            "DATABASE_URL": self.database_line.url,
            "CELERY_BROKER_URL": self.redis_line.url,
            "CHANNEL_LAYER_URL": self.redis_line.url,
        }
        self.stack = Stack(services=services, **SETTINGS, **WAITS_FOR_THE_DISK)
        self.stack.now = machine.now
        self.stack.environment |= environment
        self.stack.workers = [f"worker-{number}" for number in range(1, self.workers + 1)]
        self.stack.webs |= {f"web-{number}": free_port() for number in range(2, self.webs + 1)}
        self.roles = {"worker": self.stack.workers, "web": [*self.stack.webs], "beat": ["beat"]}
        self.database_url = urlunsplit(urlsplit(self.postgres.url)._replace(path=f"/{self.stack.name}"))

    def _cluster(self) -> Path:
        cluster = self._folder / "cluster"
        cluster.mkdir()
        self._folder.chmod(0o755)
        return cluster

    def close(self) -> None:
        super().close()
        shutil.rmtree(self._folder, ignore_errors=True)


class Embedded(Stage):
    """One process on SQLite."""

    def __init__(self, **environment: str) -> None:
        super().__init__()
        self.stack = Stack(services={}, **SETTINGS)
        self.stack.environment |= environment
        folder = self.stack.data_dir
        static = (folder / "static").readlink()
        if (disk := Disk.at(folder)) is not None:
            self.disk = disk
            (folder / "static").symlink_to(static)
        self.roles = {"serve": ["serve"]}
        self.database_url = f"sqlite:///{folder / 'parley.sqlite3'}"

    def close(self) -> None:
        if self.disk is not None:
            self.kill("serve") if "serve" in self.stack.processes else None
        super().close()
        shutil.rmtree(self.stack.data_dir, ignore_errors=True)


@contextlib.contextmanager
def standing(stage: Stage, tenants: list[str]) -> Iterator[JSON]:
    """Prepare it, with a remote agent in another process; gives the tenants."""
    try:
        with running("tests.remote.peers.sdk_server") as remote_url:
            made = stage.prepare(tenants, remote_url)
            stage.stand()
            yield made
    finally:
        stage.close()
