"""`/metrics`: what all processes count (`parley.telemetry.metrics`), and what the database knows of queues and agents.

Scrapers need METRICS_TOKEN, or an address in METRICS_ALLOW; without both, only this machine may scrape. Others get a
404. Workers and beat have no web server: METRICS_PORT gives each one of its own, with its own counts.
"""

from __future__ import annotations

import asyncio
import datetime
import http.server
import ipaddress
import logging
import shutil
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Protocol

from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.db.models import Count, Min, Q
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from apps.a2a.models import Delivery
from apps.a2a.webhooks import DELIVERIES_TO_SEND
from apps.agents.models import Agent
from apps.engine import activity
from apps.housekeeping import processes
from apps.housekeeping.backups import last_backup
from apps.housekeeping.models import SEEN_WITHIN, ServerProcess
from apps.operators.doctor import Patient, calls
from apps.record.execution import Run
from apps.record.models import UNFINISHED_STATES, Task
from apps.remote.models import Breaker
from parley import db, outbound
from parley.db import sql
from parley.telemetry.metrics import MOST_VALUES, exposition
from parley.work import work_lists

log = logging.getLogger("parley.metrics")

CACHE_SECONDS = 5.0
CERTIFICATE_SECONDS = 1800.0
CURRENT_SECONDS = 3 * CACHE_SECONDS  # older numbers are not shown as those of now
WAIT_SECONDS = 1.0  # for another thread that reads them
TIMEOUT_SECONDS = 4.0  # a scrape without the database's numbers is better than none
FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Real-IP")
HEALTH = {Agent.Health.OK: 1.0, Agent.Health.DEGRADED: 0.5, Agent.Health.UNAVAILABLE: 0.0}


async def metrics(request: HttpRequest) -> HttpResponse:
    """Raises Http404 for whoever may not scrape."""
    if not may_scrape(request.headers, str(request.META.get("REMOTE_ADDR", ""))):
        raise Http404
    numbers = None
    try:
        numbers = await asyncio.wait_for(db.run(current_numbers), TIMEOUT_SECONDS)
    except (DatabaseError, InterfaceError, TimeoutError) as error:
        log.warning("metrics without the database's numbers: %s", error or "it did not answer in time")
    accept = request.headers.get("Accept", "")
    text, content_type = await asyncio.to_thread(exposition, accept, [DatabaseGauges(numbers)])
    return HttpResponse(text, content_type=content_type, headers={"Cache-Control": "no-store"})


class Headers(Protocol):
    def get(self, name: str, default: str, /) -> str: ...


def may_scrape(headers: Headers, peer: str) -> bool:
    """May a request with these headers, from the address `peer`, read the metrics?

    What a proxy passes on comes from nobody knows where, so it needs the token.
    """
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    if settings.METRICS_TOKEN and scheme.lower() == "bearer":
        return constant_time_compare(token.strip(), settings.METRICS_TOKEN)
    if any(headers.get(name, "") for name in FORWARDED):
        return False
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    if settings.METRICS_ALLOW:
        return any(address in network for network in settings.METRICS_ALLOW)
    return not settings.METRICS_TOKEN and address.is_loopback


_lock = threading.Lock()
_newest: tuple[float, list[Metric]] | None = None


def current_numbers() -> list[Metric] | None:
    """The numbers of the last CACHE_SECONDS, so that scrapes cannot load the database. None: it does not answer."""
    global _newest
    known = _newest
    age = time.monotonic() - known[0] if known else CURRENT_SECONDS
    if known is not None and age < CACHE_SECONDS:
        return known[1]
    if not _lock.acquire(timeout=0 if age < CURRENT_SECONDS else WAIT_SECONDS):  # another thread reads them just now
        return known[1] if known and age < CURRENT_SECONDS else None
    try:
        if _newest is known:
            _newest = time.monotonic(), read_numbers()
        assert _newest is not None
        return _newest[1]
    finally:
        _lock.release()


def forget_numbers() -> None:
    """Read them again with the next scrape."""
    global _newest
    _newest = None


def read_numbers() -> list[Metric]:
    """Short queries on indexes of what is unfinished: eleven, and one for each list of work."""
    now = sql.database_time()
    return [*_runs(now), *_tasks(now), *_work(now), *_agents(), *_processes(now), *_backup()]


def _runs(now: datetime.datetime) -> Iterator[Metric]:
    expired = Count("pk", filter=Q(state=Run.State.RUNNING, lease_until__lt=now))
    unfinished = Run.objects.unfinished().order_by().values_list("state").annotate(count=Count("*"), expired=expired)
    rows = {state: (count, expired) for state, count, expired in unfinished}
    counts = {state: rows.get(state, (0, 0))[0] for state in (Run.State.QUEUED, Run.State.RUNNING)}
    oldest = activity.oldest_startable() if counts[Run.State.QUEUED] else None
    yield _gauge("parley_runs", "Unfinished runs.", counts.items(), ["state"])
    held = "Age of the oldest queued run that no pause holds back."
    yield _gauge("parley_queue_oldest_seconds", held, _age(oldest, now))
    lost = "Runs whose worker was lost, until another takes them."
    yield _gauge("parley_expired_leases", lost, sum(expired for _, expired in rows.values()))


def _tasks(now: datetime.datetime) -> Iterator[Metric]:
    unfinished = Task.objects.unfinished().order_by().values_list("state")
    rows = {state: told for state, *told in unfinished.annotate(count=Count("*"), oldest=Min("status_at"))}
    each = {state: rows.get(state, (0, None)) for state in UNFINISHED_STATES}
    counts = {state: count for state, (count, _) in each.items()}
    ages = {state: _age(oldest, now) for state, (_, oldest) in each.items()}
    yield _gauge("parley_tasks", "Unfinished tasks.", counts.items(), ["state"])
    how_long = "How long the oldest task has been in a state."
    yield _gauge("parley_task_oldest_seconds", how_long, ages.items(), ["state"])


def _work(now: datetime.datetime) -> Iterator[Metric]:
    """Of all lists of work, and once more of webhooks."""
    counts: dict[str, float] = {}
    ages: dict[str, float] = {}
    for one in work_lists():
        found = one.unfinished().order_by().aggregate(count=Count("*"), oldest=Min(one.since))
        counts[one.name], ages[one.name] = found["count"], _age(found["oldest"], now)
    told, webhooks = "Rows of a list of work that are not done.", DELIVERIES_TO_SEND.name
    yield _gauge("parley_work_waiting", told, counts.items(), ["list"])
    yield _gauge("parley_work_oldest_seconds", "Age of the oldest of them.", ages.items(), ["list"])
    yield _gauge("parley_webhook_backlog", "Deliveries that wait.", counts[webhooks])
    yield _gauge("parley_webhook_oldest_seconds", "Age of the oldest of them.", ages[webhooks])
    dead = Delivery.objects.filter(state=Delivery.State.DEAD).count()
    yield _gauge("parley_webhook_dead_letters", "Deliveries that were given up.", dead)


def _agents() -> Iterator[Metric]:
    agents = Agent.objects.filter(is_enabled=True).order_by("pk").values_list("slug", "kind", "health")
    found = [(slug, kind, HEALTH[Agent.Health(health)]) for slug, kind, health in agents[: MOST_VALUES["agent"]]]
    health = "Health of enabled agents: 1 healthy, 0.5 degraded, 0 unavailable."
    yield _gauge("parley_agent_health", health, found, ["agent", "kind"])
    remote = Agent.objects.enabled().filter(kind=Agent.Kind.REMOTE).order_by("pk").values_list("pk", "slug")
    opened = set(Breaker.objects.filter(opened_at__isnull=False).values_list("pk", flat=True))
    circuits = [(slug, key in opened) for key, slug in remote[: MOST_VALUES["agent"]]]
    stopped = "Whether a remote agent is left alone for a while (1)."
    yield _gauge("parley_remote_circuit_open", stopped, circuits, ["agent"])


def _processes(now: datetime.datetime) -> Iterator[Metric]:
    expected = "Workers and beats that there should be."
    yield _gauge("parley_processes_expected", expected, processes.expected().items(), ["kind"])
    seen = Count("pk", filter=Q(seen_at__gt=now - SEEN_WITHIN))
    found = ServerProcess.objects.order_by().values_list("kind").annotate(all=Count("pk"), seen=seen)
    counts = {kind: (whole, alive) for kind, whole, alive in found}
    rows: list[tuple[str, str, int]] = []
    for kind in ServerProcess.Kind:
        whole, alive = counts.get(kind, (0, 0))
        rows += [(kind, "alive", alive), (kind, "lost", whole - alive)]
    lost = "Workers and beats: alive, or lost, which were not seen lately and did not stop in good order."
    yield _gauge("parley_processes", lost, rows, ["kind", "state"])


def _backup() -> Iterator[Metric]:
    last = last_backup()
    at, size = ([(last.started_at.timestamp(),)], [(last.bytes,)]) if last else ([], [])
    when = "When the last good backup began, in Unix time."
    yield _gauge("parley_backup_last_success_timestamp_seconds", when, at)
    yield _gauge("parley_backup_last_success_bytes", "Size of the last good backup.", size)


def _age(since: datetime.datetime | None, now: datetime.datetime) -> float:
    return max(0.0, (now - since).total_seconds()) if since else 0.0


def _gauge(name: str, help_: str, rows: float | Iterable[tuple[Any, ...]], labels: Sequence[str] = ()) -> Metric:
    """`rows`: the values of the labels, then the number; or a number without labels."""
    family = GaugeMetricFamily(name, help_, labels=labels)
    for *values, number in rows if isinstance(rows, Iterable) else [(rows,)]:
        family.add_metric(values, number)
    return family


class DatabaseGauges(Collector):
    """The numbers, and those of this machine. None: the database did not answer."""

    def __init__(self, numbers: Collection[Metric] | None) -> None:
        self.numbers = numbers

    def collect(self) -> Iterator[Metric]:
        yield _gauge("parley_database_up", "Whether the database answered this scrape.", self.numbers is not None)
        with suppress(OSError):  # the folder is away
            disk = shutil.disk_usage(settings.DATA_DIR)
            yield _gauge("parley_disk_free_bytes", "Free space where the data folder is.", disk.free)
            yield _gauge("parley_disk_size_bytes", "Size of that disk.", disk.total)
        end = CERTIFICATE.end() if settings.PUBLIC_BASE_URL.startswith("https:") else None
        told = "When the certificate of PUBLIC_BASE_URL ends, in Unix time."
        yield _gauge("parley_certificate_end_timestamp_seconds", told, [] if end is None else [(end,)])
        yield from self.numbers or ()


class PublicCertificate:
    """When the certificate of the public address ends. A thread asks at intervals, so that no scrape waits."""

    def __init__(self, read: Callable[[], float | None], clock: Callable[[], float] = time.monotonic) -> None:
        """`read`: Unix time, or None without TLS. Raises outbound.OutboundError; then the last answer counts."""
        self._read, self._clock = read, clock
        self._end: float | None = None
        self._due = float("-inf")

    def end(self) -> float | None:
        """None until it is known, or if there is none."""
        if (now := self._clock()) >= self._due:
            self._due = now + CERTIFICATE_SECONDS
            threading.Thread(target=self._refresh, name="certificate", daemon=True).start()
        return self._end

    def _refresh(self) -> None:
        try:
            self._end = self._read()
        except outbound.OutboundError as error:
            log.info("the certificate's end is not known: %s", error)
        except Exception:
            log.exception("the certificate's end is not known")


def read_certificate_end() -> float | None:
    """Also of one that has expired. Raises outbound.OutboundError."""
    own = asyncio.run(calls.certificate(Patient(settings.PUBLIC_BASE_URL), is_verified=False))
    return own.not_valid_after_utc.timestamp() if own else None


CERTIFICATE = PublicCertificate(read_certificate_end)


class MetricsServer(http.server.ThreadingHTTPServer):
    """`/metrics` of a process without a web server, in threads of its own, for as long as the process lives."""

    daemon_threads = True

    def __init__(self, host: str, port: int) -> None:
        """Raises OSError where nothing can listen."""
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host.strip("[]"), port), MetricsHandler)
        threading.Thread(target=self.serve_forever, name="metrics", daemon=True).start()


class MetricsHandler(http.server.BaseHTTPRequestHandler):
    server_version, sys_version = "Parley", ""
    timeout = 10  # seconds without a request

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/metrics" or not may_scrape(self.headers, self.client_address[0]):
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        text, content_type = exposition(self.headers.get("Accept", ""))
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Scrapes are not logged."""
