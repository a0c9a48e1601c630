"""Environments of packages, and their programs as processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

from interoperability.packages import Package
from tests.stack import free_port

SECONDS = 60  # of a program
QUIET = {
    "AGNO_TELEMETRY": "false",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OTEL_SDK_DISABLED": "true",
}


def install(package: Package, folder: Path) -> Path:
    """The package's environment below a folder; kept while its requirements stay. Raises CalledProcessError."""
    place, wanted = folder / package.program, "\n".join([sys.version, *package.requirements])
    stamp = place / "installed.txt"
    if stamp.exists() and stamp.read_text() == wanted:
        return place
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    if package.is_npm:
        installing = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(place)]
    else:
        uv = os.environ.get("UV", "uv")
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(place)], check=True)
        installing = [uv, "pip", "install", "--quiet", "--python", str(place / "bin" / "python")]
    subprocess.run([*installing, *package.requirements], check=True)
    stamp.write_text(wanted)
    return place


def command(package: Package, role: str, place: Path, *arguments: str) -> list[str]:
    program = package.path(role)
    if not package.is_npm:
        return [str(place / "bin" / "python"), str(program), *arguments]
    return ["node", str(shutil.copy(program, place)), *arguments]  # node looks for packages beside the program


@contextmanager
def process(arguments: list[str], place: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A program in a group of its own, which is killed in the end. What it says is in out.txt and err.txt."""
    own = {"PATH": os.environ["PATH"], "HOME": str(place), "LANG": "C.UTF-8", **QUIET, **environment}
    with (place / "out.txt").open("w") as out, (place / "err.txt").open("w") as err:
        begun = subprocess.Popen(
            arguments, cwd=place, env=own, stdin=subprocess.DEVNULL, stdout=out, stderr=err, text=True,
            start_new_session=True,
        )  # fmt: skip
        try:
            yield begun
        finally:
            with suppress(ProcessLookupError):
                os.killpg(begun.pid, signal.SIGKILL)
            begun.wait()


def client_says(package: Package, place: Path, **environment: str) -> list[dict[str, object]]:
    """The lines of a client program, and an error if it did not end well."""
    problem = ""
    with process(command(package, "client", place), place, **environment) as running:
        try:
            if running.wait(SECONDS):
                problem = last_words(place)
        except subprocess.TimeoutExpired:
            problem = f"It did not end within {SECONDS} seconds."
    lines = (place / "out.txt").read_text().splitlines()
    found = [json.loads(line) for line in lines if line.startswith('{"tried"')]
    return [*found, {"tried": "program", "error": problem}] if problem else found


@contextmanager
def server(package: Package, place: Path, card: str) -> Iterator[str]:
    """The URL of a running server program. Raises RuntimeError with what it said if it does not start."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with process(command(package, "server", place, str(port)), place) as running:
        deadline = time.monotonic() + SECONDS
        while not answers(f"{url}{card}"):
            if running.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(last_words(place))
            time.sleep(0.2)
        yield url


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5, trust_env=False).is_success
    except httpx.HTTPError:
        return False


def last_words(place: Path) -> str:
    lines = [line for line in (place / "err.txt").read_text().splitlines() if line.strip()]
    return lines[-1] if lines else "It said nothing."
