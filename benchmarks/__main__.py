"""`python -m benchmarks [--url URL --key KEY] [--only NAME] [--variant NAME] [--quick] [--million] [--plans] …`"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks import report, variants
from benchmarks.catalogue import BENCHMARKS, Benchmark
from benchmarks.rounds import measure
from benchmarks.scale import FULL, QUICK, Scale
from benchmarks.target import Target

PLANS = {"plans": 1_000, "plans_at_once": 20, "fan_out": 500}


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    before, began = report.machine(), time.monotonic()
    with targets(options) as chosen:
        results = measure(chosen, wanted(options.only), scale(options))
        names = [target.name for target in chosen]
    described = {**before, "load at the end": report.machine()["load"], "seconds": round(time.monotonic() - began)}
    print(", ".join(f"{name} {value}" for name, value in described.items()))
    print(report.table(results, names))
    if options.json:
        options.json.write_text(report.as_json(described, results))


def parser() -> argparse.ArgumentParser:
    names = [benchmark.name for benchmark in BENCHMARKS]
    made = argparse.ArgumentParser(prog="python -m benchmarks", description="Medians of what Parley's operations take.")
    made.add_argument("--url", help="a running server, instead of stacks of our own")
    made.add_argument("--key", default="", help="an API key for it")
    made.add_argument("--only", action="append", choices=names, metavar="NAME", help=f"one of {', '.join(names)}")
    made.add_argument("--variant", action="append", choices=list(variants.services()), help="one of the stacks alone")
    made.add_argument("--quick", action="store_true", help="a tiny round, to see that everything works")
    made.add_argument("--million", action="store_true", help="list 1,000,000 tasks, which take minutes to be made")
    made.add_argument("--plans", action="store_true", help="1,000 plans, and one of 2,000 steps, which take minutes")
    made.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    return made


@contextmanager
def targets(options: argparse.Namespace) -> Iterator[list[Target]]:
    """The named server, or new stacks."""
    if options.url:
        yield [Target(options.url, options.url.rstrip("/"), options.key)]
        return
    found = variants.services()
    with variants.running({name: found[name] for name in options.variant or found}) as running:
        yield running


def scale(options: argparse.Namespace) -> Scale:
    chosen = QUICK if options.quick else FULL
    if options.million:
        chosen = replace(chosen, many=1_000_000)
    return replace(chosen, **PLANS) if options.plans else chosen


def wanted(only: Sequence[str] | None) -> list[Benchmark]:
    return [benchmark for benchmark in BENCHMARKS if not only or benchmark.name in only]


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # so that processes and databases are removed
    main()
