"""The benchmarks run: a tiny round of each, so that what measures Parley keeps up with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.__main__ import main, parser, scale
from benchmarks.catalogue import BENCHMARKS, Benchmark
from benchmarks.figures import latencies
from benchmarks.rounds import measure, suited
from benchmarks.scale import QUICK
from benchmarks.target import Target
from tests import stack


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    """A stack of its own: the benchmarks' agents and thousands of tasks are no concern of other tests."""
    with stack.running(OUTBOUND_ALLOW="127.0.0.0/8") as running:
        yield Target.of("here", running)


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda benchmark: benchmark.name)
def test_each_benchmark_measures_something(benchmark: Benchmark, target: Target) -> None:
    results = measure([target], [benchmark], QUICK)
    if benchmark.embedded_only and not target.inside.is_embedded:
        assert not results
        return
    [result] = results
    assert all(value >= 0 for value in result.medians["here"].values())
    assert any(value > 0 for value in result.medians["here"].values())


def test_a_server_that_is_named_is_measured_from_outside(
    target: Target, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "figures.json"
    main(["--url", target.url, "--key", target.key, "--quick", "--only", "get", "--only", "list", "--json", str(file)])
    assert "GetTask, p50 ms" in capsys.readouterr().out
    assert list(json.loads(file.read_text())["medians"]) == ["get"]


def test_a_server_that_is_named_is_asked_only_what_can_be_seen_from_outside(target: Target) -> None:
    named = Target("elsewhere", target.url, target.key)
    from_outside = [benchmark.name for benchmark in BENCHMARKS if list(suited([named], benchmark))]
    assert from_outside == ["nothing", "send", "first-event", "get"]


def test_percentiles_are_values_that_were_measured() -> None:
    seconds = [number / 1000 for number in range(1, 101)]
    assert latencies(seconds, "it", 50, 99) == {"it, p50 ms": 50.0, "it, p99 ms": 99.0}
    assert latencies([0.002], "it", 50, 99) == {"it, p50 ms": 2.0, "it, p99 ms": 2.0}


def test_a_thousand_plans_are_run_on_request() -> None:
    chosen = scale(parser().parse_args(["--plans"]))
    assert (chosen.plans, chosen.fan_out) == (1_000, 500)
    assert scale(parser().parse_args([])).plans == 100


def test_a_million_tasks_are_listed_on_request() -> None:
    assert scale(parser().parse_args(["--million"])).many == 1_000_000
    assert scale(parser().parse_args([])).many == 100_000
