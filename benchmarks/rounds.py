"""Alternates targets in each round, so that a slow minute affects all alike."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.catalogue import Benchmark
from benchmarks.figures import Figures, median
from benchmarks.scale import Scale
from benchmarks.target import Target


@dataclass(frozen=True)
class Result:
    """The number of rounds, and medians by target."""

    benchmark: Benchmark
    rounds: int
    medians: dict[str, Figures]


def measure(targets: Sequence[Target], benchmarks: Sequence[Benchmark], scale: Scale) -> list[Result]:
    """Run all benchmarks that suit the targets, within `scale.seconds` if one round takes no longer."""
    begun, results = time.monotonic(), []
    for place, benchmark in enumerate(benchmarks):
        left = scale.seconds - (time.monotonic() - begun)
        if chosen := list(suited(targets, benchmark)):
            results.append(_rounds(chosen, benchmark, scale, left / (len(benchmarks) - place)))
    print("\r\033[K", end="", file=sys.stderr)
    return results


def _rounds(targets: Sequence[Target], benchmark: Benchmark, scale: Scale, seconds: float) -> Result:
    begun = time.monotonic()
    for target in targets:
        if benchmark.prepare:
            benchmark.prepare(target, scale)
    rounds: dict[str, list[Figures]] = {target.name: [] for target in targets}
    wanted, done, longest = min(scale.rounds, benchmark.rounds), 0, 0.0
    while done < wanted and (not done or time.monotonic() - begun + longest < seconds):
        round_begun = time.monotonic()
        for target in targets:
            print(f"\r\033[K{benchmark.name}: round {done + 1}, {target.name}", end="", file=sys.stderr, flush=True)
            rounds[target.name].append(asyncio.run(_bounded(benchmark, target, scale)))
        done, longest = done + 1, max(longest, time.monotonic() - round_begun)
    return Result(benchmark, done, {name: median(figures) for name, figures in rounds.items()})


def suited(targets: Sequence[Target], benchmark: Benchmark) -> Iterator[Target]:
    services_seen = False
    for target in targets:
        if target.stack is None:
            if not benchmark.inside:
                yield target
        elif target.stack.is_embedded:
            yield target
        elif not (benchmark.embedded_only or (benchmark.any_broker and services_seen)):
            services_seen = True
            yield target


async def _bounded(benchmark: Benchmark, target: Target, scale: Scale) -> Figures:
    async with asyncio.timeout(benchmark.longest):
        return await benchmark.measure(target, scale)
