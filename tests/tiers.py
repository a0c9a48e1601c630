"""The tiers of tests: what `make test`, `make test-services`, … run, where, and how long.

`python -m tests.tiers NAME [pytest arguments]` runs one, prints its times and budget, and fails in CI at one and a
half times the budget; a slow machine has a longer one. Paths or `-k` run a part, without a budget.
"""

import os
import re
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests import patterns

ROOT = Path(__file__).resolve().parents[1]
SERVICES = {
    "DATABASE_URL": "postgres://postgres@127.0.0.1:5432/postgres",
    "CELERY_BROKER_URL": "amqp://guest:guest@127.0.0.1:5672//",
    "CHANNEL_LAYER_URL": "redis://127.0.0.1:6379/0",
}
"""Where the services are, unless the environment names others."""
REDIS_AS_BROKER = ("tests/engine", "tests/faults")
LARGE = {"HYPOTHESIS_PROFILE": "large"}  # more examples, and new ones each time
MIGRATE = "from tests import profile, stack; stack.migrated()"  # while tests are collected
SLOWEST = ("--durations=30", "--durations-min=2")  # shown at the end


@dataclass(frozen=True)
class Tier:
    """A tier.

    Attributes:
        marks: pytest's `-m`.
        budget: seconds on two cores.
        paths: folders; with `declared` only files that have this marker.
        spare: how many more processes than cores, where tests wait a fifth of their time.
        environment: variables; the caller's services win.
    """

    marks: str
    budget: int
    paths: tuple[str, ...] = ("tests",)
    declared: str = ""
    ignored: tuple[str, ...] = ()
    spare: int = 0
    environment: dict[str, str] = field(default_factory=dict)

    def files(self) -> list[str]:
        """For pytest. Skipping files without the marker, or all of another tier, saves their import in each process."""
        files = sorted(file for path in self.paths for file in (ROOT / path).rglob("test_*.py"))
        names = {str(file.relative_to(ROOT)): file.read_text() for file in files}
        return [name for name, text in names.items() if self._has_some_of(text) and not name.startswith(self.ignored)]

    def _has_some_of(self, text: str) -> bool:
        of_others = [mark for words, mark in OF_WHOLE_FILES.items() if words in self.marks]
        return self.declared in text and not any(re.search(f"^pytestmark = .*{one}", text, re.M) for one in of_others)


OF_WHOLE_FILES = {"not slow": r"mark\.slow", "not services(only=True)": "only=True"}
"""How a file says in one line that a tier has none of its tests."""
TIERS = {
    "test": Tier(
        "not browser and not slow and not services(only=True)", 360, ignored=("tests/browser", "tests/docs"), spare=2
    ),
    "services": Tier(
        "services and not slow and not browser", 420, declared="mark.services", spare=3, environment=SERVICES
    ),
    "browser": Tier("not slow", 300, ("tests/browser",), spare=2),
    "all-embedded": Tier("not services(only=True)", 1500, environment=LARGE),
    "all-services": Tier("not browser", 1500, ignored=("tests/docs",), environment=SERVICES | LARGE),
    "redis-broker": Tier(
        "services and not browser", 300, REDIS_AS_BROKER, "mark.services",
        environment=SERVICES | {"CELERY_BROKER_URL": "redis://127.0.0.1:6379/1"},
    ),
}  # fmt: skip


LOOP_SECONDS = 0.02  # of a loop of `measure_slowness`, on the machine that the budgets are for


@contextmanager
def measure_slowness() -> Iterator[list[float]]:
    """How many times more processor time a loop takes than on the machine that the budgets are for, again and again."""
    found, ended = list[float](), threading.Event()

    def measure() -> None:
        while not ended.wait(10):
            began = time.thread_time()
            for _ in range(1_000_000):
                pass
            found.append((time.thread_time() - began) / LOOP_SECONDS)

    threading.Thread(target=measure, daemon=True).start()
    try:
        yield found
    finally:
        ended.set()


def main(name: str, *given: str) -> int:
    patterns.folder()  # for all processes
    tier = TIERS[name]
    chosen = [argument for argument in given if argument == "-k" or not argument.startswith("-")]
    workers = (os.process_cpu_count() or 1) + tier.spare
    command = [sys.executable, "-m", "pytest", "-m", tier.marks, "--dist", "loadfile", "-n", str(workers)]
    command += [f"--ignore={path}" for path in tier.ignored] if not chosen else []
    command += [*given] if chosen else [*tier.files(), *SLOWEST, *given]
    environment = {**tier.environment, **os.environ}
    if name == "redis-broker":
        environment |= tier.environment
    if not tier.environment.keys() & SERVICES:  # embedded, whatever services the caller has set
        environment = {key: value for key, value in environment.items() if key not in SERVICES}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # workers would compile everything again
    began = time.monotonic()
    with measure_slowness() as measured, subprocess.Popen([sys.executable, "-c", MIGRATE], cwd=ROOT, env=environment):
        status = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    took = time.monotonic() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    slowness = max(1.0, sum(measured) / max(1, len(measured)))
    processor = f"processor time {used.ru_utime + used.ru_stime:.0f} s on a machine {slowness:.1f} times slower"
    print(f"{name}: {took:.0f} s of {tier.budget} s, {processor}", flush=True)
    limit = 1.5 * tier.budget * slowness
    if status == 0 and not chosen and os.environ.get("CI") and took > limit:
        print(f"{name} took more than one and a half times its budget: make tests cheaper, or fewer.")
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
