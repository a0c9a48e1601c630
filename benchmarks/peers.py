"""Parley beside the official SDK's own server: `python -m benchmarks.peers [--only CELL,CELL] [--quick] [--write] …`"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import redis
import uvloop

from benchmarks import peer_report, report, variants
from benchmarks.cells import CELLS, Measure, Sample
from benchmarks.peer_report import MEMORY, PARLEY, SDK, Results
from benchmarks.target import Target, backends, ended_backends_seconds, seconds_of
from tests.stack import ROOT, free_port

TASKS = {False: 100_000, True: 500}  # of the caller, for ListTasks; by --quick
SERVICES = "services, Redis"
LONGEST = 120  # seconds of a round
SECONDS = 240  # of all cells: on a busy machine each has fewer rounds, but as many as asked for


@dataclass(frozen=True)
class Peer:
    """A server to measure: its processes by role, and its database."""

    name: str
    target: Target
    processes: dict[str, list[int]]
    database_url: str = ""  # of the server
    database: str = ""

    def ask(self, measure: Measure, count: int) -> tuple[Sample, dict[str, float]]:
        """A round, and the processor seconds it took by role."""
        before = self._processors()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            sample = runner.run(asyncio.wait_for(measure(self.target, count), LONGEST))
        used: Counter[str] = Counter()
        for (role, _), seconds in self._processors().items():
            used[role] += seconds  # type: ignore[assignment]
        for (role, _), seconds in before.items():
            used[role] -= seconds  # type: ignore[assignment]
        return sample, dict(used)

    def _processors(self) -> dict[tuple[str, int], float]:
        """Seconds by role and process. PostgreSQL's include those of the server's backends that have ended."""
        roles = {"client": [os.getpid()], **self.processes}
        if self.database:
            roles["PostgreSQL"] = backends(self.database_url, self.database)
        found = {(role, one): seconds_of(one) for role, processes in roles.items() for one in processes}
        if self.database:
            found["PostgreSQL", 0] = ended_backends_seconds(self.database_url)
        return found

    def fill(self, tasks: int) -> None:
        if self.target.stack:
            self.target.run("benchmarks.rows", "tasks", "bench-many", str(tasks))
        else:
            asyncio.run(self._copy(tasks))

    async def _copy(self, tasks: int) -> None:
        async with self.target.client() as client:
            await client.fetch("POST", "/fill", str(tasks).encode())


def main() -> None:
    options = parser().parse_args()
    results = Results.load(options.results) if options.results else measured(options)
    print(results.as_text())
    if options.save:
        results.save(options.save)
    if options.write:
        peer_report.write(results, Results.load(options.before) if options.before else None)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    keys = [cell.key for cell in CELLS]
    made.add_argument("--only", default=",".join(keys), metavar="CELL,CELL", help=f"of {', '.join(keys)}")
    made.add_argument("--rounds", type=int, default=3, help="at least; a cell without streams has 9")
    made.add_argument("--server", choices=["uvicorn", "daphne"], default="uvicorn", help="that runs Parley")
    made.add_argument("--parley-only", action="store_true", help="without the SDK's servers, so without ratios")
    made.add_argument("--quick", action="store_true", help="a tiny round, to see that everything works")
    made.add_argument("--save", type=Path, metavar="FILE", help="write the results there as JSON")
    made.add_argument("--results", type=Path, metavar="FILE", help="show saved results instead of measuring")
    made.add_argument("--before", type=Path, metavar="FILE", help="older results to compare with, for --write")
    made.add_argument("--write", action="store_true", help="update docs/performance.md and its picture")
    return made


def measured(options: argparse.Namespace) -> Results:
    began, wanted = time.monotonic(), options.only.split(",")
    if unknown := set(wanted) - {cell.key for cell in CELLS}:
        raise SystemExit(f"There is no cell {', '.join(sorted(unknown))}.")
    results = Results({**report.machine(), "server": options.server})
    with running(options.server, options.parley_only) as peers:
        cells = [cell for cell in CELLS if cell.key in wanted]
        for place, cell in enumerate(cells, 1):
            for peer in peers:
                say(began, f"{cell.title}: preparing {peer.name}")
                if cell.key == "list":
                    peer.ask(CELLS[0].measure, 1)  # a task to copy
                    peer.fill(TASKS[options.quick])
                peer.ask(cell.measure, cell.few)
            least, most = (1, 1) if options.quick else (max(3, options.rounds), cell.rounds)
            for number in range(max(least, most)):
                if number >= least and time.monotonic() - began > SECONDS * place / len(cells):
                    break
                for peer in peers:
                    say(began, f"{cell.title}: round {number + 1}, {peer.name}")
                    results.add(cell, peer.name, *peer.ask(cell.measure, cell.few if options.quick else cell.count))
    print("\r\033[K", end="", file=sys.stderr)
    results.machine |= {"load at the end": report.machine()["load"], "seconds": round(time.monotonic() - began)}
    return results


def say(began: float, what: str) -> None:
    print(f"\r\033[K{time.monotonic() - began:4.0f} s  {what}", end="", file=sys.stderr, flush=True)


# Starting


@contextmanager
def running(server: str, parley_only: bool) -> Iterator[list[Peer]]:
    urls = variants.services().get(SERVICES)
    if not urls:
        raise SystemExit("PostgreSQL and Redis must run; DATABASE_URL and CHANNEL_LAYER_URL say where.")
    print("Starting the servers…", file=sys.stderr)
    with ExitStack() as exits:
        peers = []
        if not parley_only:
            database = exits.enter_context(throwaway_database(urls["DATABASE_URL"]))
            peers.append(exits.enter_context(sdk_server(SDK, urls["DATABASE_URL"], database)))
            peers.append(exits.enter_context(sdk_server(MEMORY)))
        # Neither server writes an access log.
        (target,) = exits.enter_context(variants.running({PARLEY: urls}, server, LOG_ACCESS_SAMPLE="0"))
        yield [*peers, parley(target, urls)]


@contextmanager
def throwaway_database(url: str) -> Iterator[str]:
    name = f"peers_{uuid.uuid4().hex[:10]}"
    _execute(url, f'CREATE DATABASE "{name}"')
    try:
        yield name
    finally:
        _execute(url, f'DROP DATABASE "{name}" WITH (FORCE)')


def _execute(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


@contextmanager
def sdk_server(name: str, database_url: str = "", database: str = "") -> Iterator[Peer]:
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.sdk_server", str(port)]
    if database:
        command.append(urlsplit(database_url)._replace(scheme="postgresql+asyncpg", path=f"/{database}").geturl())
    environment = os.environ | {"OTEL_INSTRUMENTATION_A2A_SDK_ENABLED": "false"}
    process = subprocess.Popen(command, cwd=ROOT, env=environment)
    try:
        url = f"http://127.0.0.1:{port}"
        while not variants.listens(url):
            if process.poll() is not None:
                raise SystemExit("The SDK's server ended.")
            time.sleep(0.1)
        yield Peer(name, Target(name, url, ""), {"web": [process.pid]}, database_url, database)
    finally:
        process.kill()
        process.wait()


def parley(target: Target, urls: dict[str, str]) -> Peer:
    roles: dict[str, list[int]] = {"web": [], "worker": []}
    for name, process in target.inside.processes.items():
        roles["web" if name in target.inside.webs else "worker"].append(process.pid)
    roles["broker"] = [int(redis.Redis.from_url(urls["CELERY_BROKER_URL"]).info()["process_id"])]
    return Peer(target.name, target, roles, urls["DATABASE_URL"], target.inside.name)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # so that processes and databases are removed
    main()
