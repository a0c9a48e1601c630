"""The whole of Parley as real processes, for tests and benchmarks that speak to it from outside.

On the embedded profile it is `manage.py serve`; on the services profile Daphne, a Celery worker and Celery beat, with a
database, a queue and channel names of their own on the servers that the environment, or the caller, names.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from kombu import Connection

ROOT = Path(__file__).resolve().parents[1]
START_SECONDS = 240.0  # on a machine that does much else
SERVICES = ("DATABASE_URL", "CELERY_BROKER_URL", "CHANNEL_LAYER_URL")
COLLECT = """
import django
django.setup()
from config.static_files import collect_if_changed
collect_if_changed()
"""
PREPARE = """
import django
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
call_command("load_showcase")
"""
NO_MATTER = {"RUN_LEASE_SECONDS", "OUTBOUND_ALLOW", "ACTS_PER_MINUTE", "CELERY_BROKER_URL", "CHANNEL_LAYER_URL"}
"""Settings that change nothing of what a new Parley begins with."""


_held: list[socket.socket] = []


def free_port() -> int:
    """A port for a server that sets SO_REUSEADDR, as servers do.

    It stays bound, though nothing listens there: neither another process that looks for a port nor a connection's near
    end gets it before the server does, or while the server is restarted.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    _held.append(holder)
    return int(holder.getsockname()[1])


@cache
def static_files() -> Path:
    """Where the stacks of a process share their collected static files: gathering them takes seconds."""
    folder = Path(tempfile.mkdtemp(prefix="parley-static-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _pattern(services: tuple[tuple[str, str], ...]) -> Stack:
    """A stack that was prepared and never runs, from which others are copied: preparing takes seconds, too."""
    pattern = Stack(services=dict(services))
    atexit.register(pattern.close)
    pattern._run("-c", PREPARE)
    return pattern


class Stack:
    """A Parley of its own; `environment` overrides its settings.

    `services` are the URLs of SERVICES, those of the environment by default; without a database URL it is embedded.

    Attributes:
        processes: by name: "serve" on the embedded profile; "daphne", "beat" and the workers on services.
        workers: the names of the Celery workers: "worker", and those of `another_worker`.
        data_dir: its DATA_DIR, with the output of each process in `<name>.log`.
    """

    def __init__(self, *, services: Mapping[str, str] = os.environ, **environment: str) -> None:
        self.services = {key: services[key] for key in SERVICES if key in services}
        self.is_embedded = self.services.get("DATABASE_URL", "sqlite").startswith("sqlite")
        self.name = f"parley_{uuid.uuid4().hex[:10]}"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.data_dir = Path(tempfile.mkdtemp(prefix="parley-stack-"))
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.workers: list[str] = [] if self.is_embedded else ["worker"]
        self._began: dict[str, int] = {}  # how long a process's log was when it was started
        (self.data_dir / "static").symlink_to(static_files())
        self._begins_as_others = set(environment) <= NO_MATTER
        inherited = {key: value for key, value in os.environ.items() if key not in (*SERVICES, "PYTEST_CURRENT_TEST")}
        self.environment = {
            **inherited,
            "DATA_DIR": str(self.data_dir),
            "HOST": "127.0.0.1",
            "PORT": str(self.port),
            "PYTHONUNBUFFERED": "1",
            "INSTALLATION": self.name,
            "DJANGO_SETTINGS_MODULE": "config.settings",
            **({} if self.is_embedded else self._with_database()),
            **environment,
        }

    # What it is made of

    def _with_database(self) -> dict[str, str]:
        database_url = self.services["DATABASE_URL"]
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{self.name}"')
        return {**self.services, "DATABASE_URL": urlunsplit(urlsplit(database_url)._replace(path=f"/{self.name}"))}

    def commands(self) -> dict[str, list[str]]:
        """The processes of this profile, in the order of their start."""
        celery = ["-m", "celery", "-A", "config"]
        if self.is_embedded:
            return {"serve": ["manage.py", "serve"]}
        worker = [*celery, "worker", "--without-gossip", "--without-mingle", "--loglevel=INFO"]
        return {
            **dict.fromkeys(self.workers, worker),
            "beat": [*celery, "beat", "--loglevel=WARNING"],
            "daphne": ["-m", "daphne", "-b", "127.0.0.1", "-p", str(self.port), "config.asgi:application"],
        }

    # Life and death

    def start(self, *names: str) -> None:
        """Start those processes (all that are not running, without names) and wait until requests are answered."""
        if not self.processes:
            self.prepare()
        self.launch(*(names or [name for name in self.commands() if not self.is_running(name)]))
        self.wait_for("/readyz")

    def serve_alone(self, *options: str) -> None:
        """Let `manage.py serve` do everything, on either profile, unless it does."""
        if not self.is_running("serve"):
            self._collect()
            self._start_process("serve", ["manage.py", "serve", *options])
            self.wait_for("/readyz")

    def prepare(self) -> None:
        """What `serve` does by itself: tables, showcase, static files. Those that begin alike are copies."""
        self._collect()
        if self._begins_as_others:
            self._copy(_pattern(tuple(sorted(self.services.items()))))
        elif not self.is_embedded:
            self._run("-c", PREPARE)

    def _collect(self) -> None:
        """Gather the static files, unless another stack of this process has."""
        if not (static_files() / ".collected").exists():
            self._run("-c", COLLECT, as_it_was=True)

    def _copy(self, pattern: Stack) -> None:
        shutil.copytree(
            pattern.data_dir, self.data_dir, dirs_exist_ok=True, ignore=shutil.ignore_patterns("static", "*.log")
        )
        if not self.is_embedded:
            with psycopg.connect(self.services["DATABASE_URL"], autocommit=True) as connection:
                connection.execute(f'DROP DATABASE "{self.name}"')
                connection.execute(f'CREATE DATABASE "{self.name}" TEMPLATE "{pattern.name}"')

    def launch(self, *names: str) -> None:
        """Start those processes; a worker is waited for until it takes work."""
        for name in names:
            self.processes.pop(name, None)  # what ended before is not missed while the others come up
        for name in names:
            self.begin(name)
            if name in self.workers:
                self._wait(lambda name=name: self.takes_work(name))  # type: ignore[misc]

    def begin(self, name: str) -> None:
        """Start that process, and do not wait for it."""
        self._began[name] = self._start_process(name, self.commands()[name])

    def takes_work(self, worker: str) -> bool:
        """Does that worker run, and has it said that it is ready?"""
        return self.is_running(worker) and " ready." in self.log(worker)[self._began[worker] :]

    @contextlib.contextmanager
    def another_worker(self) -> Iterator[None]:
        """On services, one more Celery worker beside the others; on the embedded profile nothing."""
        if self.is_embedded:
            yield
            return
        self.workers.append(name := f"worker-{len(self.workers) + 1}")
        try:
            self.launch(name)
            yield
        finally:
            self.kill(name)
            self.workers.remove(name)
            del self.processes[name]

    def _start_process(self, name: str, command: list[str]) -> int:
        """Start a process; returns how long its log was until then."""
        begun = len(self.log(name))
        with (self.data_dir / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, *command],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return begun

    def wait_for(self, path: str) -> None:
        """Wait until the server answers there with a 200."""
        self._wait(lambda: self._answers(path))

    def _wait(self, until: Callable[[], bool]) -> None:
        """Wait for something; a process that ends meanwhile fails the test."""
        deadline = time.monotonic() + START_SECONDS
        while not until():
            dead = [name for name, process in self.processes.items() if process.poll() is not None]
            if dead or time.monotonic() > deadline:
                raise AssertionError(f"{dead or self.url} does not stand.\n{self.log()}")
            time.sleep(0.05)

    def _answers(self, path: str) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=5):
                return True
        except OSError:
            return False

    def is_running(self, name: str) -> bool:
        return name in self.processes and self.processes[name].poll() is None

    def kill(self, *names: str) -> None:
        """SIGKILL to those processes, or to all."""
        for name in names or tuple(self.processes):
            self.processes[name].kill()
            self.processes[name].wait(10)

    def terminate(self, *names: str, within: float = 60.0) -> None:
        """SIGTERM to those processes, or to all; they must be gone `within` seconds."""
        chosen = [self.processes[name] for name in names or tuple(self.processes)]
        for process in chosen:
            process.terminate()
        for process in chosen:
            process.wait(within)

    def restart(self) -> None:
        """End everything in good order and start it again at the same address with the same data."""
        self.terminate()
        self.start()

    def close(self) -> None:
        """Leave nothing behind."""
        self.kill()
        if not self.is_embedded:
            with psycopg.connect(self.services["DATABASE_URL"], autocommit=True) as connection:
                connection.execute(f'DROP DATABASE IF EXISTS "{self.name}" WITH (FORCE)')
            with contextlib.suppress(Exception), Connection(self.environment["CELERY_BROKER_URL"]) as broker:
                broker.default_channel.queue_delete(self.name)
        shutil.rmtree(self.data_dir, ignore_errors=True)

    # Looking inside

    def manage(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run `manage.py` against this installation; with `check`, an exit status other than 0 fails the test."""
        return self._run("manage.py", *arguments, check=check)

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Python with this installation's environment; an exit status other than 0 fails the test."""
        return self._run(*arguments)

    def _run(self, *arguments: str, check: bool = True, as_it_was: bool = False) -> subprocess.CompletedProcess[str]:
        self._begins_as_others &= as_it_was  # what it has otherwise shall stay
        done = subprocess.run(
            [sys.executable, *arguments], cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False,
            timeout=240,
        )  # fmt: skip
        assert not check or done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout}{done.stderr}"
        return done

    def resident_bytes(self) -> int:
        """Memory of the process that answers requests."""
        process = self.processes["serve" if self.is_embedded else "daphne"]
        pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def log(self, name: str = "*") -> str:
        """What the processes printed."""
        return "\n".join(f"== {path.stem}\n{path.read_text()}" for path in sorted(self.data_dir.glob(f"{name}.log")))

    def _first_login(self, what: str) -> str:
        text = (self.data_dir / "first-login.txt").read_text()
        found = re.search(rf"^{re.escape(what)}: (\S+)$", text, re.MULTILINE)
        assert found, f"no {what} in first-login.txt"
        return found[1]

    demo_email = "demo@parley.local"
    admin_email = "admin@parley.local"

    @property
    def demo_password(self) -> str:
        return self._first_login(f"password of {self.demo_email}")

    @property
    def admin_password(self) -> str:
        return self._first_login(f"password of {self.admin_email}")

    @property
    def demo_key(self) -> str:
        return self._first_login(f"API key of {self.demo_email}")


@contextlib.contextmanager
def prepared(services: Mapping[str, str] = os.environ, **environment: str) -> Iterator[Stack]:
    """A stack none of whose processes runs yet, gone afterwards; see `Stack`."""
    stack = Stack(services=services, **environment)
    try:
        yield stack
    finally:
        stack.close()


@contextlib.contextmanager
def running(services: Mapping[str, str] = os.environ, **environment: str) -> Iterator[Stack]:
    """A stack that runs, gone afterwards; see `Stack`."""
    with prepared(services, **environment) as stack:
        stack.start()
        yield stack
