"""All benchmarks, in the order of the report."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from benchmarks import (
    big,
    crowd,
    deployed,
    doors,
    flood,
    forking,
    knowledge,
    orchestrating,
    pages,
    pictures,
    remote,
    sending,
    starting,
    streaming,
    syncing,
)
from benchmarks.figures import Figures
from benchmarks.scale import Scale
from benchmarks.target import Target


@dataclass(frozen=True)
class Benchmark:
    """A benchmark.

    Attributes:
        measure: one round on one target.
        prepare: called once for each target before its first round.
        inside: needs our own stack: processes, database or agents.
        rounds: at most.
        longest: seconds that one round on one target may take.
        embedded_only: not on the services profile.
        any_broker: independent of the broker, so one stack with services is enough.
    """

    name: str
    title: str
    measure: Callable[[Target, Scale], Awaitable[Figures]]
    prepare: Callable[[Target, Scale], None] | None = None
    inside: bool = False
    rounds: int = 100
    longest: float = 120.0
    embedded_only: bool = False
    any_broker: bool = False


BENCHMARKS = (
    Benchmark("nothing", "GET /healthz, for comparison", sending.nothing),
    Benchmark("send", "Blocking SendMessage of echo", sending.send),
    Benchmark("doors", "Sends of echo through other protocols", doors.sends, inside=True, any_broker=True),
    Benchmark(
        "doors-streams", "Followers of one task through other protocols", doors.fan_out, inside=True, any_broker=True
    ),
    Benchmark("first-event", "SendStreamingMessage of echo", streaming.first_event),
    Benchmark(
        "noisy-neighbor",
        "Echo beside another key's streams",
        crowd.noisy_neighbor,
        inside=True,
        rounds=3,
        longest=600,
        any_broker=True,
    ),
    Benchmark(
        "flood",
        "Another workspace's first task beside a flood",
        flood.fairness,
        prepare=flood.prepare,
        inside=True,
        rounds=1,
        longest=600,
        any_broker=True,
    ),
    Benchmark(
        "many-sessions",
        "An event heard by a client of many sessions",
        crowd.many_sessions,
        inside=True,
        rounds=3,
        longest=300,
        any_broker=True,
    ),
    Benchmark("remote", "A call to a remote agent", remote.calls, prepare=remote.register, inside=True),
    Benchmark(
        "remote-streams", "Streams of a remote agent, at once", remote.streams, remote.register, inside=True, rounds=2
    ),
    Benchmark("folder", "A send to an agent from a folder", deployed.cost, deployed.prepare, inside=True, rounds=3),
    Benchmark(
        "unruly",
        "Sends beside agents from folders that misbehave",
        deployed.neighbors,
        deployed.prepare_unruly,
        inside=True,
        rounds=1,
        longest=900,
        any_broker=True,
    ),
    Benchmark("sync", "Restoring and syncing a client", syncing.restore, syncing.fill, inside=True, any_broker=True),
    Benchmark("fork", "Forking a session", forking.fork, forking.fill, inside=True, rounds=3, any_broker=True),
    Benchmark(
        "cuts", "Lines of events that are cut", syncing.cuts, inside=True, rounds=1, longest=600, any_broker=True
    ),
    Benchmark("pages", "A session in a browser", pages.session, pages.fill, inside=True, rounds=3, any_broker=True),
    Benchmark("big", "Big pages", big.pages, big.fill, inside=True, longest=600, any_broker=True),
    Benchmark(
        "knowledge", "A lookup of knowledge", knowledge.lookups, inside=True, rounds=1, longest=1800, embedded_only=True
    ),
    Benchmark("pictures", "Drawing a plan", pictures.draw, inside=True, rounds=3, embedded_only=True),
    Benchmark("plans", "Plans under load", orchestrating.plans, inside=True, rounds=1, longest=3600, any_broker=True),
    Benchmark("start", "./manage.py serve", starting.start, inside=True, rounds=3, embedded_only=True),
)
