"""`/healthz`, `/readyz` and `/healthz/stream`, for orchestrators, load balancers and `./manage.py doctor`.

`/readyz` answers within WAIT_SECONDS whatever hangs. Each check has a thread of its own: a request while a check is
under way waits for that one. If it takes longer, what it found before counts for RECENT_SECONDS.
"""

from __future__ import annotations

import asyncio
import math
import shutil
import threading
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import Future
from http import HTTPStatus
from queue import SimpleQueue

import redis
from celery import current_app
from django.conf import settings
from django.db import connection
from django.http import HttpRequest, JsonResponse

from apps.housekeeping import processes
from apps.housekeeping.models import ServerProcess
from apps.record.wire import EventStream
from parley.db import versions
from parley.serving import static_files

WAIT_SECONDS = 0.8
RECENT_SECONDS = 15.0
POLL_SECONDS = 0.01
CONNECT_SECONDS = 2.0
LOW_DISK_BYTES = 1024**3
OK = "ok"
NO_ANSWER = "does not answer"
UNREACHABLE = "cannot be reached"
NOT_MIGRATED = "Migrations are missing. Run ./manage.py migrate"
UNKNOWN = "unknown without the database"
VITAL = ("database", "migrations", "broker", "static_files")  # a load balancer acts on these; the others are warnings
STREAM_EVENTS = 4
STREAM_SECONDS = 0.25  # between them

Parts = Mapping[str, str]  # public reasons by part; OK where nothing is wrong
_migrated = False


async def healthz(request: HttpRequest) -> JsonResponse:
    """The process is alive."""
    return JsonResponse({"status": OK})


async def readyz(request: HttpRequest) -> JsonResponse:
    """Each part with OK or a reason. 503 if a part of VITAL is missing; `degraded` if another one is."""
    parts = await _found_in_time([check for check in all_checks if check.is_needed()])
    wrong = {name for name, reason in parts.items() if reason != OK}
    status = "not ready" if wrong & set(VITAL) else "degraded" if wrong else OK
    code = HTTPStatus.SERVICE_UNAVAILABLE if status == "not ready" else HTTPStatus.OK
    return JsonResponse({"status": status, **parts}, status=code, headers={"Cache-Control": "no-store"})


async def _found_in_time(checks: Sequence[Check]) -> dict[str, str]:
    under_way = {check.name: check.under_way() for check in checks}
    deadline = time.monotonic() + WAIT_SECONDS
    # Polls, because a callback would stay with a check that hangs.
    while not all(one.done() for one in under_way.values()) and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(POLL_SECONDS)
    parts: dict[str, str] = {}
    for check in checks:
        one = under_way[check.name]
        parts |= one.result() if one.done() else check.found_recently() or {check.name: NO_ANSWER}
    if "migrations" not in parts:
        parts |= dict.fromkeys(("migrations", "workers", "beat"), UNKNOWN)
    return parts


async def stream(request: HttpRequest) -> EventStream:
    """A few events in a second, sent as all streams are: it shows whether a proxy in front holds them back."""

    async def events() -> AsyncGenerator[bytes]:
        for number in range(STREAM_EVENTS):
            if number:
                await asyncio.sleep(STREAM_SECONDS)
            yield b"data: %d\n\n" % number

    return EventStream(events(), ended=lambda: None)


class Check:
    """A check that may hang. `find` gives parts with reasons; where it raises, `name` cannot be reached.

    `setting` holds the URL of what it checks: in memory, that cannot be missing.
    """

    def __init__(self, name: str, find: Callable[[], Parts], setting: str = "") -> None:
        self.name, self._find, self._setting = name, find, setting
        self._lock = threading.Lock()
        self._asked: SimpleQueue[Future[Parts]] = SimpleQueue()
        self._thread: threading.Thread | None = None  # kept, because starting one holds up the event loop
        self._last: Future[Parts] | None = None
        self._found: tuple[float, Parts] = (-math.inf, {})

    def is_needed(self) -> bool:
        return not str(getattr(settings, self._setting, "")).startswith("memory://")

    def under_way(self) -> Future[Parts]:
        """The check that runs, or a new one."""
        with self._lock:
            if self._last is None or self._last.done():
                self._last = Future()
                self._asked.put(self._last)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"ready-{self.name}", daemon=True)
                self._thread.start()
            return self._last

    def found_recently(self) -> Parts:
        """What the last check that ended has found; nothing after RECENT_SECONDS."""
        found_at, found = self._found
        return found if time.monotonic() - found_at <= RECENT_SECONDS else {}

    def _run(self) -> None:
        while True:
            future = self._asked.get()
            try:
                found = self._find()
            except Exception:  # reasons are public, so they tell nothing of it
                found = {self.name: UNREACHABLE}
            self._found = time.monotonic(), found
            future.set_result(found)


def find_database() -> Parts:
    """Also what it says of migrations and processes. Raises if it cannot be reached."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        if not is_migrated():
            return {"database": NOT_MIGRATED, "migrations": NOT_MIGRATED, "workers": UNKNOWN, "beat": UNKNOWN}
        missing = processes.missing()
    finally:
        connection.close()  # until the next check
    return {
        "database": OK,
        "migrations": OK,
        "workers": missing.get(ServerProcess.Kind.WORKER, OK),
        "beat": missing.get(ServerProcess.Kind.BEAT, OK),
    }


def is_migrated() -> bool:
    """Are all migrations applied? Asked until they are."""
    global _migrated
    if not _migrated:
        _migrated = not versions.missing(connection)
    return _migrated


def find_broker() -> Parts:
    """Raises if it cannot be reached."""
    with current_app.connection_for_write(connect_timeout=CONNECT_SECONDS) as broker:
        broker.ensure_connection(max_retries=1, interval_start=0, timeout=CONNECT_SECONDS)
    return {"broker": OK}


def find_channel_layer() -> Parts:
    """Raises if it cannot be reached."""
    url, seconds = settings.CHANNEL_LAYER_URL, CONNECT_SECONDS
    with redis.Redis.from_url(url, socket_timeout=seconds, socket_connect_timeout=seconds) as server:
        server.ping()
    return {"channel_layer": OK}


def find_static_files() -> Parts:
    """Can this process serve them?"""
    return {"static_files": static_files.find_missing() or OK}


def find_disk() -> Parts:
    """Is there room where files are stored?"""
    free = shutil.disk_usage(settings.DATA_DIR).free
    return {"disk": OK if free >= LOW_DISK_BYTES else "There is little room left for files."}


all_checks = [
    Check("database", find_database),
    Check("broker", find_broker, "CELERY_BROKER_URL"),
    Check("channel_layer", find_channel_layer, "CHANNEL_LAYER_URL"),
    Check("static_files", find_static_files),
    Check("disk", find_disk),
]
