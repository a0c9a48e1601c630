"""A running Parley to measure; for our own, also its processes and database."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psycopg

from benchmarks.rpc import Client
from tests.stack import ROOT, Stack


@dataclass(frozen=True)
class Target:
    """A Parley at `url` with API key `key`; `stack` if it was started here."""

    name: str
    url: str
    key: str
    stack: Stack | None = None

    @classmethod
    def of(cls, name: str, stack: Stack) -> Target:
        """A running stack with the benchmarks' agents."""
        target = cls(name, stack.url, stack.demo_key, stack)
        target.run("benchmarks.rows", "agents")
        return target

    def client(self) -> Client:
        return Client(self.url, self.key)

    @property
    def inside(self) -> Stack:
        """The stack. Raises LookupError for another server."""
        if self.stack is None:
            raise LookupError(f"{self.url} was not started by the benchmarks, so they cannot look into it.")
        return self.stack

    def run(self, module: str, *arguments: str) -> None:
        """Run a module with this installation's settings."""
        command = [sys.executable, "-m", module, *arguments]
        subprocess.run(command, cwd=ROOT, env=self.inside.environment, check=True, timeout=1200)

    # Measuring processes

    def _proc(self, *, worker: bool = False) -> Path:
        """Of the process that serves requests, or executes runs."""
        stack = self.inside
        return Path(f"/proc/{stack.processes['serve' if stack.is_embedded else 'worker' if worker else 'web'].pid}")

    def resident_kilobytes(self, *, worker: bool = False) -> float:
        """Private memory, without shared libraries."""
        pages = int((self._proc(worker=worker) / "statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1024

    def threads(self, *, worker: bool = False) -> int:
        return len(os.listdir(self._proc(worker=worker) / "task"))

    def processor_seconds(self) -> dict[str, float]:
        """Processor time of each process; on services including this installation's PostgreSQL backends."""
        found = {name: seconds_of(process.pid) for name, process in self.inside.processes.items()}
        if not self.inside.is_embedded:
            found["PostgreSQL"] = sum(map(seconds_of, self._database_processes()))
        return found

    def _database_processes(self) -> list[int]:
        return backends(self.inside.services["DATABASE_URL"], self.inside.name)

    def database_connections(self) -> int:
        """On PostgreSQL connections; on SQLite the database's open files."""
        stack = self.inside
        if stack.is_embedded:
            files = (self._proc() / "fd").iterdir()
            return sum(1 for file in files if file.is_symlink() and os.readlink(file).endswith(".sqlite3"))
        return len(self._database_processes())


def backends(database_url: str, name: str) -> list[int]:
    """Processes of PostgreSQL that serve the database `name`."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        return [pid for (pid,) in connection.execute("SELECT pid FROM pg_stat_activity WHERE datname = %s", [name])]


def ended_backends_seconds(database_url: str) -> float:
    """Processor time of all processes that this PostgreSQL server has started and that have ended."""
    with psycopg.connect(database_url) as connection:
        server = int(_times_of(connection.info.backend_pid)[1])
    return sum(map(int, _times_of(server)[13:15])) / os.sysconf("SC_CLK_TCK")


def seconds_of(process: int) -> float:
    """Processor time of a local process; 0 if it has ended."""
    try:
        fields = _times_of(process)
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _times_of(process: int) -> list[str]:
    """The fields of /proc/PID/stat after the name (proc_pid_stat(5))."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
