"""Blocking sends with several web processes and as many workers on one machine: `python -m benchmarks.scaling`.

Each connection of the client goes to the next web process, with the key of the next of 32 workspaces. While it sends,
a thread samples what the database's sessions wait for. *Efficiency* is the speed compared with that of one web process
and one worker, for each of either. At the end it prints what a send costs in commits, write-ahead log and publications.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import statistics
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

import psycopg
import redis

from benchmarks import report, variants
from benchmarks.cells import Sample, send
from benchmarks.figures import shown
from benchmarks.load import Request, timed
from benchmarks.peers import SERVICES, Peer, parley
from benchmarks.rpc import Client, said
from benchmarks.target import Target

WORKSPACES = 32
COUNT = 256  # sends of a round, for each web process
CONVERSATION = str(uuid.uuid4())
ROUNDS = 3
SAMPLE_SECONDS = 0.02
ROLES = ("client", "web", "worker", "PostgreSQL", "broker")
WAITS = {
    "row": ("Lock/transactionid", "Lock/tuple"),
    "WAL": ("LWLock/WALWrite", "LWLock/WALInsert", "IO/WALSync", "IO/WALWrite"),
    "LWLock": ("LWLock/",),
    "other lock": ("Lock/",),
    "client": ("Client/",),
    "running": ("/",),
}
"""Classes of waits by the beginning of type and event; the first that fits counts."""
HEAD = (
    "web × workers",
    "at once",
    "requests/s",
    "efficiency",
    "p50 ms",
    "p95 / p50",
    *ROLES,
    "connections",
    "busy sessions",
    *WAITS,
    "other",
)
BUSY = """
SELECT coalesce(wait_event_type, '') || '/' || coalesce(wait_event, '')
FROM pg_stat_activity WHERE datname = %s AND state <> 'idle'
"""


async def send_here(client: Client) -> None:
    """A blocking send that shares its conversation with all others."""
    params = said("hello")
    params["message"]["contextId"] = CONVERSATION
    task = (await client.call("echo", "SendMessage", params))["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED", task


LOADS: dict[str, tuple[Request, int]] = {"16": (send, 16), "64": (send, 64), "16, one conversation": (send_here, 16)}


@dataclass(frozen=True)
class Balanced(Target):
    """A client's connections go to the `urls` in turn, with each of the `keys` in turn."""

    urls: Iterator[str] = field(default_factory=lambda: iter(()))
    keys: Iterator[str] = field(default_factory=lambda: iter(()))

    def client(self) -> Client:
        return Client(next(self.urls), next(self.keys))


@dataclass
class Waits:
    """What sessions in a transaction or statement wait for, while the block runs."""

    database_url: str
    database: str
    samples: int = 0
    found: Counter[str] = field(default_factory=Counter)

    def __enter__(self) -> Waits:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            while not self._ended.wait(SAMPLE_SECONDS):
                self.found.update(event for (event,) in connection.execute(BUSY, [self.database]))
                self.samples += 1

    def shares(self) -> list[str]:
        """Sessions that are busy on average, and the percentage of them in each class of WAITS."""
        total, classes = self.found.total() or 1, Counter[str]()
        for event, number in self.found.items():
            classes[_class_of(event)] += number
        percent = [f"{100 * classes[name] / total:.0f}" for name in (*WAITS, "other")]
        return [shown(total / (self.samples or 1)), *percent]


def _class_of(event: str) -> str:
    return next((name for name, begins in WAITS.items() if event.startswith(begins)), "other")


def main() -> None:
    options = parser().parse_args()
    numbers, count, rounds = ([1, 2], 32, 1) if options.quick else (options.processes, COUNT, ROUNDS)
    before, urls = report.machine(), variants.services()[SERVICES]
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    with variants.running({"Parley": urls}) as (target,):
        keys = target.inside.python("-m", "benchmarks.rows", "workspaces", str(WORKSPACES)).stdout.split()
        counted, sent, alone = counters(urls, target.inside.name), 0, dict[str, float]()
        for processes in numbers:
            with ExitStack() as exits:
                for _ in range(processes - 1):
                    exits.enter_context(target.inside.another_worker())
                more = [exits.enter_context(target.inside.another_web()) for _ in range(processes - 1)]
                spread = itertools.cycle([target.url, *more])
                for name, (request, number) in LOADS.items():
                    whose = itertools.cycle([target.key] if request is send_here else keys)
                    peer = parley(Balanced("Parley", target.url, target.key, target.stack, spread, whose), urls)
                    sends, speed, figures = measured(peer, request, number, count * processes, rounds)
                    alone.setdefault(name, speed / processes)
                    speeds = [shown(speed), f"{100 * speed / processes / alone[name]:.0f} %"]
                    row = [f"{processes} × {processes}", name, *speeds, *figures]
                    print(f"| {' | '.join(row)} |", flush=True)
                    sent += sends
        for name, after in counters(urls, target.inside.name).items():
            print(f"{name} of a send: {shown((after - counted[name]) / sent)}")
    machine = {**before, "load at the end": report.machine()["load"]}
    print(", ".join(f"{name} {value}" for name, value in machine.items()))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    made.add_argument("--quick", action="store_true", help="a tiny round, to see that everything works")
    made.add_argument(
        "--processes",
        type=lambda text: [int(one) for one in text.split(",")],
        default=[1 << n for n in range(9) if n < 2 or 2 << n <= (os.cpu_count() or 1)],
        metavar="N,N",
        help="how many web processes and workers; by default from 1 to half of the processors, and at least 2",
    )
    return made


def counters(urls: Mapping[str, str], database: str) -> dict[str, float]:
    """Of the database, and of all of PostgreSQL and Redis: use a machine without other work."""
    with psycopg.connect(urls["DATABASE_URL"]) as connection:
        row = connection.execute(
            "SELECT xact_commit, pg_current_wal_lsn() - '0/0' FROM pg_stat_database WHERE datname = %s", [database]
        ).fetchone()
    assert row
    commands = redis.Redis.from_url(urls["CHANNEL_LAYER_URL"]).info("commandstats")
    published = commands.get("cmdstat_publish", {}).get("calls", 0)
    return {"commits": row[0], "bytes of write-ahead log": float(row[1]), "publications": published}


def measured(peer: Peer, request: Request, number: int, count: int, rounds: int) -> tuple[int, float, list[str]]:
    """The sends; median of requests a second; latencies, means of processor ms, connections, and waits."""
    seconds: list[float] = []

    async def measure(target: Target, count: int) -> Sample:
        found, whole = await timed(target, request, count=count, at_once=number)
        seconds.extend(found)
        return Sample(count / whole, count + number)

    warm, _ = peer.ask(measure, number)  # opens the processes' database connections
    seconds.clear()
    speeds: list[float] = []
    spent: Counter[str] = Counter()
    sent = 0
    with Waits(peer.database_url, peer.database) as waits:
        for _ in range(rounds):
            sample, used = peer.ask(measure, count)
            speeds.append(sample.figure)
            sent += sample.requests
            spent.update(used)
    processor = [shown(spent[role] * 1000 / sent) for role in ROLES]
    half, late = statistics.median(seconds), statistics.quantiles(seconds, n=20)[-1]
    rest = [shown(half * 1000), shown(late / half), *processor, str(peer.target.database_connections())]
    return sent + warm.requests, statistics.median(speeds), [*rest, *waits.shares()]


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # so that processes and databases are removed
    main()
