"""Checks a change in a minute: `make quick`, or `make quick BASE=main`.

Checks style and types, then runs the tests that the change reaches: through imports (import-linter's graph), and for
templates, styles and scripts through names and apps. The nearest tests run first; what does not fit is listed.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("agentkit", "apps", "benchmarks", "examples", "faults", "interoperability", "parley", "tests")
TYPED = ("platform/", "apps/", "examples/")
FACES = {"admin": "operators", "console": "operators", "api": "api", "pages": "web"}
"""The folders of tests for what operators, clients and people see of an app."""
SECONDS = 60.0
FURTHEST = 4
"""How many imports away from a change a test may be, to be tried here."""
NOT_HERE = ("tests/browser/", "tests/docs/")
Near = Callable[[Path, int], None]
"""Notes that a test file is so far from the change."""


def changed(base: str) -> list[Path]:
    """Existing files that differ from a commit, and untracked ones."""
    asked = (["diff", "--name-only", base], ["ls-files", "--others", "--exclude-standard"])
    names = [name for words in asked for name in _git(*words)]
    return [path for name in dict.fromkeys(names) if (path := ROOT / name).exists()]


def _git(*words: str) -> list[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def reached(files: list[Path]) -> list[str]:
    """The reached test files, the nearest first."""
    distances: dict[str, int] = {}

    def near(test: Path, distance: int) -> None:
        name = str(test.relative_to(ROOT))
        if not name.startswith(NOT_HERE):
            distances[name] = min(distance, distances.get(name, distance))

    for test in (path for path in files if path.name.startswith("test_") and path.suffix == ".py"):
        near(test, 0)
    _by_imports([path for path in files if path.suffix == ".py" and path.name != "__init__.py"], near)
    _by_names(files, near)
    return sorted(distances, key=lambda name: (distances[name], name))


def _by_imports(files: list[Path], near: Near) -> None:
    sys.path[:0] = [str(ROOT), str(ROOT / "platform")]
    graph = grimp.build_graph(*PACKAGES, cache_dir=str(ROOT / ".import_linter_cache"))
    level = {module for path in files if (module := _module(path)) in graph.modules}
    seen = set(level)
    for distance in range(1, FURTHEST + 1):
        level = {importer for module in level for importer in graph.find_modules_that_directly_import(module)} - seen
        seen |= level
        for module in level:
            path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
            if path.name.startswith("test_"):
                near(path, distance)
            if path.name == "conftest.py":
                for test in path.parent.rglob("test_*.py"):
                    near(test, FURTHEST + distance)


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removeprefix("platform.")


def _by_names(files: list[Path], near: Near) -> None:
    """Faces, commands, templates and settings are looked up by name, so their tests are too."""
    tests = {test: test.read_text() for test in (ROOT / "tests").rglob("test_*.py")}
    for path in files:
        parts = path.relative_to(ROOT).parts
        if parts[0] not in ("apps", "platform", "templates", "static") or path.name == "__init__.py":
            continue
        dotted = _module(path) if path.suffix == ".py" else path.name
        stem = path.stem if path.stem not in FACES else parts[1]
        faces = {FACES[one] for one in (*parts[1:-1], path.stem) if one in FACES}
        folders = faces or ({"web"} if path.suffix != ".py" else set())
        for test, text in tests.items():
            if test.stem.removeprefix("test_") in stem or stem in test.stem or dotted in text:
                near(test, 1)
            elif test.parent.name in folders:
                near(test, 2 if parts[1].rstrip("s") in test.stem else FURTHEST)


class Deadline:
    """Stops a run cleanly when its time is up."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if time.monotonic() > self._until:
            raise self.session.Interrupted("the minute is over; `make test` tries the rest")

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self.session = session


def main() -> int:
    parser = argparse.ArgumentParser(prog="make quick")
    parser.add_argument("--base", default="HEAD", help="the commit that is compared with")
    base = parser.parse_args().base
    began = time.monotonic()
    files = changed(base)
    names = [str(path.relative_to(ROOT)) for path in files]
    python = [name for name in names if name.endswith(".py")]
    typed = [name for name in python if name.startswith(TYPED) and "/migrations/" not in name]
    templates = [name for name in names if name.startswith("templates/") and name.endswith(".html")]
    looks = [
        [sys.executable, "-m", "ruff", "check", "--force-exclude", *python],
        [sys.executable, "-m", "ruff", "format", "--check", "--force-exclude", *python],
    ] * bool(python)
    looks += [[sys.executable, "-m", "mypy", *typed]] * bool(typed)
    looks += [[sys.executable, "-m", "djlint", "--lint", "--quiet", *templates]] * bool(templates)
    running = [subprocess.Popen(look, cwd=ROOT) for look in looks]
    tests = reached(files)
    print(f"{len(names)} files changed; {len(tests)} files of tests can be reached", flush=True)
    failed = sum(look.wait() for look in running) != 0
    left = SECONDS - (time.monotonic() - began) - 8
    if tests and not failed:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        options = ["-q", "-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder", "-x"]
        marks = ["-m", "not browser and not slow and not services(only=True)"]
        status = pytest.main([*options, *marks, *tests], plugins=[Deadline(max(left, 10))])
        failed = status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED, pytest.ExitCode.INTERRUPTED)
    print(f"quick: {time.monotonic() - began:.0f} s of {SECONDS:.0f} s")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
