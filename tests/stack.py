"""The whole of Parley as real processes, for tests and benchmarks that speak to it from outside.

On the embedded profile it is `manage.py serve`; on the services profile Daphne, a Celery worker and Celery beat, with a
database, a queue and channel names of their own on the servers that the environment, or the caller, names.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import re
import shutil
import socket
import subprocess
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

from tests import programs
from tests.programs import Call, Program

ROOT = Path(__file__).resolve().parents[1]
START_SECONDS = 240.0  # on a machine that does much else
SERVICES = ("DATABASE_URL", "CELERY_BROKER_URL", "CHANNEL_LAYER_URL")
COLLECT = """
import django
django.setup()
from config.static_files import collect_if_changed
collect_if_changed()
"""
PREPARE = f"""{COLLECT}
from django.core.management import call_command
call_command("migrate", verbosity=0)
call_command("load_showcase")
"""
SHARED = "PARLEY_TESTS_SHARED"
"""The variable that names the folder which the processes of a test run share; benchmarks have none."""
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
    """Where the stacks of a test run share their collected static files: gathering them takes seconds."""
    if SHARED in os.environ:
        (folder := Path(os.environ[SHARED], "static")).mkdir(exist_ok=True)
        return folder
    folder = Path(tempfile.mkdtemp(prefix="parley-static-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[Path]:
    """The folder of the test run, which no other of its processes changes meanwhile."""
    folder = Path(os.environ[SHARED])
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


class Stack:
    """A Parley of its own; `environment` overrides its settings.

    `services` are the URLs of SERVICES, those of the environment by default; without a database URL it is embedded.
    `forked` says whether its programs may be started as in `tests/programs.py`, which a test run does.

    Attributes:
        processes: by name: "serve" on the embedded profile; "daphne", "beat" and the workers on services.
        workers: the names of the Celery workers: "worker", and those of `another_worker`.
        data_dir: its DATA_DIR, with the output of each process in `<name>.log`.
    """

    def __init__(
        self, *, services: Mapping[str, str] = os.environ, forked: bool = SHARED in os.environ, **environment: str
    ) -> None:
        self.services = {key: services[key] for key in SERVICES if key in services}
        self.is_embedded = self.services.get("DATABASE_URL", "sqlite").startswith("sqlite")
        self.name = f"parley_{uuid.uuid4().hex[:10]}"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.data_dir = Path(tempfile.mkdtemp(prefix="parley-stack-"))
        self.processes: dict[str, Program] = {}
        self.workers: list[str] = [] if self.is_embedded else ["worker"]
        self._forked = forked
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
        """What `serve` does by itself: the tables, the showcase, the static files. In one process, which is faster.

        In a test run that is done once: those that begin with the same have copies.
        """
        is_ours = self.is_embedded or self.services["DATABASE_URL"] == os.environ.get("DATABASE_URL")
        as_others = SHARED in os.environ and is_ours and self._begins_as_others
        self._collect()
        if as_others:
            self._copy(self._pattern())
        elif not self.is_embedded:
            self._run("-c", PREPARE)

    def _collect(self) -> None:
        """Gather the static files, unless another process of the test run has: two would disturb each other."""
        if SHARED in os.environ:
            with _one_at_a_time():
                if not (static_files() / ".collected").exists():
                    self._run("-c", COLLECT)

    def _pattern(self) -> Path:
        """The folder of the one that others are copied from; its name is that of its database."""
        with _one_at_a_time() as folder:
            known = folder / ("embedded" if self.is_embedded else "services")
            if not known.exists():
                pattern = Stack(services=self.services)
                pattern._run("-c", PREPARE)
                draft = folder / pattern.name
                shutil.copytree(pattern.data_dir, draft, ignore=shutil.ignore_patterns("static"))
                shutil.rmtree(pattern.data_dir)
                known.symlink_to(draft.name)
            return known.resolve()

    def _copy(self, pattern: Path) -> None:
        shutil.copytree(pattern, self.data_dir, dirs_exist_ok=True)
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
        log = self.data_dir / f"{name}.log"
        self.processes[name] = Call(command, ROOT, self.environment, log, log).start(forked=self._forked)
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

    def _run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        self._begins_as_others = False  # whatever it has now shall stay
        done = programs.run(arguments, ROOT, self.environment, forked=self._forked)
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


def forget_patterns() -> None:
    """Drop the database that those of a test run were copied from."""
    if (known := Path(os.environ[SHARED], "services")).exists():
        with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{known.resolve().name}" WITH (FORCE)')


@contextlib.contextmanager
def prepared(
    services: Mapping[str, str] = os.environ, *, forked: bool = SHARED in os.environ, **environment: str
) -> Iterator[Stack]:
    """A stack none of whose processes runs yet, gone afterwards; see `Stack`."""
    stack = Stack(services=services, forked=forked, **environment)
    try:
        yield stack
    finally:
        stack.close()


@contextlib.contextmanager
def running(
    services: Mapping[str, str] = os.environ, *, forked: bool = SHARED in os.environ, **environment: str
) -> Iterator[Stack]:
    """A stack that runs, gone afterwards; see `Stack`."""
    with prepared(services, forked=forked, **environment) as stack:
        stack.start()
        yield stack
