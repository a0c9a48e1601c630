"""All of Parley as real processes, for tests and benchmarks from outside.

Embedded it is `manage.py serve`; on services a web server, a Celery worker and beat, with their own database, queue
and channel names on the servers of the environment or the caller.
"""

import contextlib
import hashlib
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from kombu import Connection

from tests import patterns

ROOT = Path(__file__).resolve().parents[1]
START_SECONDS = 240.0  # on a busy machine
SERVICES = ("DATABASE_URL", "CELERY_BROKER_URL", "CHANNEL_LAYER_URL")
COLLECT = """
import django
django.setup()
from parley.serving.static_files import collect_if_changed
collect_if_changed()
"""
MIGRATE = """
import django
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
"""
SHOWCASE = """
import django
django.setup()
from django.core.management import call_command
call_command("load_showcase")
"""
NOT_COPIED = shutil.ignore_patterns("static", "*.log", "database")
NO_MATTER = {
    "RUN_LEASE_SECONDS",
    "OUTBOUND_ALLOW",
    "ACTS_PER_MINUTE",
    "FORKS_PER_MINUTE",
    "STREAMS_PER_CALLER",
    "SLACK_API_URL",
    "CELERY_BROKER_URL",
    "CHANNEL_LAYER_URL",
}
TELEMETRY = ("OTEL_", "LOG_", "SENTRY_")
"""Settings that change nothing of what a new Parley begins with, and beginnings of the names of others."""
UVICORN = [
    "--loop", "uvloop", "--http", "parley.uvicorn_http:BoundedHttp", "--ws", "websockets-sansio",
    "--ws-max-size", "1048576", "--timeout-graceful-shutdown", "1", "--no-access-log", "--log-level", "warning",
]  # fmt: skip
"""As docs/reference/settings.md recommends."""


def web_command(server: str, port: int, application: str = "parley.asgi:application") -> list[str]:
    """Arguments of Python that run an ASGI application on uvicorn or Daphne."""
    if server == "daphne":
        return ["-m", "daphne", "-b", "127.0.0.1", "-p", str(port), application]
    return ["-m", "uvicorn", application, "--host", "127.0.0.1", "--port", str(port), *UVICORN]


_held: list[socket.socket] = []


def free_port() -> int:
    """A port for a server with SO_REUSEADDR.

    It stays bound without listening, so no other process or connection gets it before the server starts or during
    its restart.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    _held.append(holder)
    return int(holder.getsockname()[1])


def migrated(services: Mapping[str, str] = os.environ) -> Path:
    """The pattern of a database with all tables."""
    return _made("migrated", MIGRATE, services)


def _made(kind: str, script: str, services: Mapping[str, str], before: Path | None = None) -> Path:
    """The pattern of what Python makes by `script`, of what was `before`."""
    database = services.get("DATABASE_URL", "")

    def make(pattern: Path) -> None:
        stack = Stack(services=services)
        if not stack.is_embedded:
            patterns.note_database(pattern, database, stack.name)
        try:
            if before is not None:
                stack._copy(before)
            stack._run("-c", script)
            shutil.copytree(stack.data_dir, pattern, dirs_exist_ok=True, ignore=NOT_COPIED)
        except BaseException:
            stack.close()
            raise
        shutil.rmtree(stack.data_dir)
        if stack.is_embedded:  # one file, which nobody who copies it changes
            with contextlib.closing(sqlite3.connect(pattern / patterns.DATABASE)) as file:
                file.execute("PRAGMA journal_mode=DELETE")

    return patterns.shared(f"{kind}-{hashlib.sha256(database.encode()).hexdigest()[:8]}", make)


class Stack:
    """A Parley; `environment` overrides settings.

    `services` are the URLs of SERVICES, by default the environment's; without a database URL it is embedded.
    `web` is the web server, "uvicorn" or "daphne".

    Attributes:
        root: the folder with the code that is run; processes keep theirs when it changes.
        processes: by name: "serve" if embedded, else "web", "beat" and the workers.
        workers: names of Celery workers: "worker", and those of `another_worker`.
        webs: ports of web servers by name: "web", and those of `another_web`.
        data_dir: its DATA_DIR, with each process's output in `<name>.log`.
        now: the clock by which a start may take START_SECONDS.
        command_seconds: how long a command may take.
    """

    def __init__(self, *, services: Mapping[str, str] = os.environ, web: str = "uvicorn", **environment: str) -> None:
        self.services = {key: services[key] for key in SERVICES if key in services}
        self.is_embedded = self.services.get("DATABASE_URL", "sqlite").startswith("sqlite")
        self.name = f"parley_{uuid.uuid4().hex[:10]}"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.web = web
        self.root = ROOT
        self.now: Callable[[], float] = time.monotonic
        self.command_seconds = 240.0
        self.data_dir = Path(tempfile.mkdtemp(prefix="parley-stack-"))
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.workers: list[str] = [] if self.is_embedded else ["worker"]
        self.webs = {} if self.is_embedded else {"web": self.port}
        self._began: dict[str, int] = {}  # length of each log at its process's start
        (self.data_dir / "static").symlink_to(patterns.place("static"))
        self._begins_as_others = all(name in NO_MATTER or name.startswith(TELEMETRY) for name in environment)
        inherited = {key: value for key, value in os.environ.items() if key not in (*SERVICES, "PYTEST_CURRENT_TEST")}
        self.environment = {
            **inherited,
            "DATA_DIR": str(self.data_dir),
            "HOST": "127.0.0.1",
            "PORT": str(self.port),
            "PYTHONUNBUFFERED": "1",
            "INSTALLATION": self.name,
            "DJANGO_SETTINGS_MODULE": "parley.settings",
            **({} if self.is_embedded else self._with_database()),
            **environment,
        }

    # Parts

    def _with_database(self) -> dict[str, str]:
        database_url = self.services["DATABASE_URL"]
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{self.name}"')
        return {**self.services, "DATABASE_URL": urlunsplit(urlsplit(database_url)._replace(path=f"/{self.name}"))}

    def commands(self) -> dict[str, list[str]]:
        celery = ["-m", "celery", "-A", "parley"]
        if self.is_embedded:
            return {"serve": ["manage.py", "serve"]}
        worker = [*celery, "worker", "--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=INFO"]
        return {
            **dict.fromkeys(self.workers, worker),
            "beat": [*celery, "beat", "--loglevel=WARNING"],
            **{name: web_command(self.web, port) for name, port in self.webs.items()},
        }

    # Starting and stopping

    def start(self, *names: str) -> None:
        """Start these processes (without names: all that do not run) and wait for an answer."""
        if not self.processes:
            self.prepare()
        self.launch(*(names or [name for name in self.commands() if not self.is_running(name)]))
        self.wait_for("/readyz")

    def serve_alone(self, *options: str) -> None:
        """Let `manage.py serve` do everything, on either profile."""
        if not self.is_running("serve"):
            self._collect()
            self._start_process("serve", ["manage.py", "serve", *options])
            self.wait_for("/readyz")

    def prepare(self) -> None:
        """Tables, showcase and static files, as `serve` makes them. Equal beginnings are copied."""
        self._collect()
        if self._begins_as_others:
            self._copy(_made("prepared", SHOWCASE, self.services, before=migrated(self.services)))
        elif not self.is_embedded:
            self._run("-c", MIGRATE + SHOWCASE)

    def begin_empty(self) -> None:
        """Tables of all apps, and static files."""
        self._collect()
        self._copy(migrated(self.services))

    def _collect(self) -> None:
        patterns.shared("static", lambda _: self._run("-c", COLLECT, as_it_was=True))

    def _copy(self, pattern: Path) -> None:
        shutil.copytree(pattern, self.data_dir, dirs_exist_ok=True, ignore=NOT_COPIED)
        if not self.is_embedded:
            with psycopg.connect(self.services["DATABASE_URL"], autocommit=True) as connection:
                connection.execute(f'DROP DATABASE "{self.name}"')
                connection.execute(f'CREATE DATABASE "{self.name}" TEMPLATE "{patterns.database_of(pattern)}"')

    def launch(self, *names: str) -> None:
        """Start these processes at once, and wait until workers take work."""
        for name in names:
            self.processes.pop(name, None)  # an old one that ended must not fail the wait
        for name in names:
            self.begin(name)
        workers = [name for name in names if name in self.workers]
        self.wait_until(lambda: all(map(self.takes_work, workers)))

    def begin(self, name: str) -> None:
        self._began[name] = self._start_process(name, self.commands()[name])

    def takes_work(self, worker: str) -> bool:
        """Whether that worker runs and has said that it is ready."""
        return self.is_running(worker) and " ready." in self.log(worker)[self._began[worker] :]

    @contextlib.contextmanager
    def another_worker(self) -> Iterator[None]:
        """On services, one more Celery worker; embedded, nothing."""
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

    @contextlib.contextmanager
    def another_web(self) -> Iterator[str]:
        """On services, one more web server, at this URL."""
        name, port = f"web-{len(self.webs) + 1}", free_port()
        self.webs[name], url = port, f"http://127.0.0.1:{port}"
        try:
            self.launch(name)
            self.wait_until(lambda: self._answers("/readyz", url))
            yield url
        finally:
            self.kill(name)
            del self.webs[name], self.processes[name]

    def _start_process(self, name: str, command: list[str]) -> int:
        """Start a process; returns its log's length until then."""
        begun = len(self.log(name))
        with (self.data_dir / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, *command],
                cwd=self.root,
                env=self._of_root(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return begun

    def _of_root(self) -> dict[str, str]:
        """The environment in which the code of `root` goes before an installed one."""
        paths = [str(self.root), str(self.root / "platform"), *filter(None, [self.environment.get("PYTHONPATH")])]
        return self.environment | {"PYTHONPATH": os.pathsep.join(paths)}

    def wait_for(self, path: str) -> None:
        self.wait_until(lambda: self._answers(path))

    def wait_until(self, until: Callable[[], bool]) -> None:
        """Wait for a condition; a process that ends fails the test."""
        deadline = self.now() + START_SECONDS
        while not until():
            dead = [name for name, process in self.processes.items() if process.poll() is not None]
            if dead or self.now() > deadline:
                raise AssertionError(f"{dead or self.url} does not stand.\n{self.log()}")
            time.sleep(0.05)

    def _answers(self, path: str, url: str = "") -> bool:
        try:
            with urllib.request.urlopen(f"{url or self.url}{path}", timeout=5):
                return True
        except OSError:
            return False

    def is_running(self, name: str) -> bool:
        return name in self.processes and self.processes[name].poll() is None

    def kill(self, *names: str) -> None:
        """SIGKILL these processes, or all."""
        for name in names or tuple(self.processes):
            self.processes[name].kill()
            self.processes[name].wait(10)

    def terminate(self, *names: str, within: float = 60.0) -> None:
        """SIGTERM these processes, or all; they must end `within` seconds."""
        chosen = [self.processes[name] for name in names or tuple(self.processes)]
        for process in chosen:
            process.terminate()
        for process in chosen:
            process.wait(within)

    def restart(self) -> None:
        self.terminate()
        self.start()

    def close(self) -> None:
        self.kill()
        if not self.is_embedded:
            with psycopg.connect(self.services["DATABASE_URL"], autocommit=True) as connection:
                connection.execute(f'DROP DATABASE IF EXISTS "{self.name}" WITH (FORCE)')
            with contextlib.suppress(Exception), Connection(self.environment["CELERY_BROKER_URL"]) as broker:
                broker.default_channel.queue_delete(self.name)
        shutil.rmtree(self.data_dir, ignore_errors=True)

    # Inspecting

    def manage(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run `manage.py`; with `check`, an exit status other than 0 fails the test."""
        return self._run("manage.py", *arguments, check=check)

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Python with this environment; an exit status other than 0 fails the test."""
        return self._run(*arguments)

    def _run(self, *arguments: str, check: bool = True, as_it_was: bool = False) -> subprocess.CompletedProcess[str]:
        self._begins_as_others &= as_it_was  # `prepare` must then keep what this adds
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root, env=self._of_root(), capture_output=True, text=True, check=False,
            timeout=self.command_seconds,
        )  # fmt: skip
        assert not check or done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout}{done.stderr}"
        return done

    def resident_bytes(self) -> int:
        """Memory of the process that serves requests."""
        process = self.processes["serve" if self.is_embedded else "web"]
        pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def log(self, name: str = "*") -> str:
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
def prepared(services: Mapping[str, str] = os.environ, *, web: str = "uvicorn", **environment: str) -> Iterator[Stack]:
    """A stack without running processes; see `Stack`."""
    stack = Stack(services=services, web=web, **environment)
    try:
        yield stack
    finally:
        stack.close()


@contextlib.contextmanager
def running(services: Mapping[str, str] = os.environ, *, web: str = "uvicorn", **environment: str) -> Iterator[Stack]:
    """A running stack; see `Stack`."""
    with prepared(services, web=web, **environment) as stack:
        stack.start()
        yield stack
