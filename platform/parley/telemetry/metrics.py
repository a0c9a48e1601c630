"""All metrics that Parley's processes count, by Prometheus' naming rules (seconds, `_total`), and their text.

    metrics.REQUESTS["a2a", "200"].inc()

Steps count at their end, after the commit. Each process counts for itself. If PROMETHEUS_MULTIPROC_DIR names a folder,
all processes of a machine count in files there, and each of them reports the sums. `apps.operators.metrics` adds what
only the database knows. Labels never name people, sessions or tasks.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import InfoMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

disable_created_metrics()  # type: ignore[no-untyped-call]
REGISTRY = CollectorRegistry()
"""What this process counts."""

SHARED_FOLDER = os.environ.get("PROMETHEUS_MULTIPROC_DIR", "")
"""The folder of all processes' counts; "": each process has its own."""

if SHARED_FOLDER:
    mark_process_dead(os.getpid())  # type: ignore[no-untyped-call]  # an earlier process had the same number
else:
    ProcessCollector(registry=REGISTRY)

OTHER = "other"
MOST_VALUES = {"agent": 200, "model": 100, "reason": 60, "rail": 100}
"""Values of the labels that people choose, in one process; any more count as OTHER."""
MAX_VALUE_LENGTH = 100

_values: defaultdict[str, set[str]] = defaultdict(set)
Key = str | tuple[str, ...]


class Labelled[Child](dict[Key, Child]):
    """An instrument's children by the values of its labels (one: a string), each resolved once and kept."""

    def __init__(self, find: Callable[..., Child], labels: Sequence[str]) -> None:
        super().__init__()
        self._find, self.labels = find, labels

    def __missing__(self, key: Key) -> Child:
        values = (key,) if isinstance(key, str) else key
        known = tuple(_within_limit(label, value) for label, value in zip(self.labels, values, strict=True))
        child = self._find(*known)
        if known == values:
            self[key] = child
        return child


PASSING = re.compile(r"(doctor)-[0-9a-f]{12}")  # agents that live for one examination count as one


def _within_limit(label: str, value: str) -> str:
    if label == "agent" and (passing := PASSING.fullmatch(value)):
        return passing[1]
    most, seen = MOST_VALUES.get(label), _values[label]
    if most is None or value in seen or value == OTHER:
        return value
    if len(seen) >= most or len(value) > MAX_VALUE_LENGTH or not value.isprintable():
        return OTHER
    seen.add(value)
    return value


def _counters(name: str, help_: str, *labels: str) -> Labelled[Counter]:
    return Labelled(Counter(name, help_, labels, registry=REGISTRY).labels, labels)


def _gauges(name: str, help_: str, *labels: str) -> Labelled[Gauge]:
    return Labelled(Gauge(name, help_, labels, registry=REGISTRY, multiprocess_mode="livesum").labels, labels)


def _histograms(name: str, help_: str, label: str, buckets: Sequence[float]) -> Labelled[Histogram]:
    return Labelled(Histogram(name, help_, [label], registry=REGISTRY, buckets=buckets).labels, [label])


SHORT = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
LONG = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 1800.0)

# The edges: all but the duration of streams and WebSockets, which counts until their first byte
REQUESTS = _counters("parley_requests_total", "HTTP requests and WebSocket handshakes by status.", "edge", "code")
REQUEST_SECONDS = _histograms(
    "parley_request_duration_seconds", "From a request to the start of its response.", "edge", SHORT
)
STREAMS = _gauges("parley_open_streams", "Event streams and WebSockets that are open.", "edge")
A2A_REQUESTS = _counters(
    "parley_a2a_requests_total", "A2A operations by result: ok, or the error's JSON-RPC code.", "method", "code"
)
A2A_SECONDS = _histograms(
    "parley_a2a_request_duration_seconds", "From an A2A request to its answer or the start of its stream.",
    "method", SHORT,
)  # fmt: skip
LIMITS_REACHED = _counters(
    "parley_limits_reached_total",
    "Refusals by a limit or a budget of a workspace, an API key or an agent.",
    "limit",
    "of",
)

# Runs
RUNS_ENDED = _counters(
    "parley_runs_ended_total", "Runs by what they led to, and the code of a failure.", "agent", "state", "reason"
)
RUN_SECONDS = _histograms("parley_run_duration_seconds", "From a run's claim to its recorded end.", "agent", LONG)
QUEUE_SECONDS = _histograms("parley_run_queue_seconds", "From a run's queueing to its first claim.", "agent", LONG)
LEASES_LOST = _counters("parley_run_leases_lost_total", "Runs taken over because their worker was lost.", "agent")
ACTIVE_RUNS = Gauge(
    "parley_active_runs", "Runs that worker processes carry.", registry=REGISTRY, multiprocess_mode="livesum"
)

GUARDRAIL_DECISIONS = _counters(
    "parley_guardrail_decisions_total", "What guardrails found, by what was done.", "rail", "action", "direction"
)
GUARDRAIL_SECONDS = _histograms(
    "parley_guardrail_duration_seconds", "A guardrail's check of one message or answer.", "rail", SHORT
)

# Periodic and other jobs; Prometheus itself has a label `job`
JOBS_SENT = _counters("parley_jobs_sent_total", "Celery jobs that were sent.", "job_name")
JOBS = _counters("parley_jobs_total", "Celery jobs that ended, by result.", "job_name", "result")
JOB_SECONDS = _histograms("parley_job_duration_seconds", "Duration of Celery jobs.", "job_name", LONG)
WORK_FAILURES = _counters(
    "parley_work_failures_total", "Work of a list that failed on a worker's event loop, by an error.", "list"
)
SWEPT = _counters("parley_sweep_found_total", "Rows that sweeps found and gave back to workers.", "found")

# The record
EVENTS = _counters("parley_events_recorded_total", "Recorded events.", "type")
FOLLOWERS = _gauges("parley_followers", "Followers of one context (context) or of many (subscription).", "scope")
FANOUT_SECONDS = Histogram(
    "parley_fanout_lag_seconds", "From an event to its delivery to a follower.", registry=REGISTRY, buckets=SHORT
)

# The database
DATABASE_WAIT_SECONDS = Histogram(
    "parley_database_wait_seconds", "Wait for a database thread, where all were busy.", registry=REGISTRY, buckets=SHORT
)
DATABASE_BUSY_SECONDS = Counter(
    "parley_database_busy_seconds_total", "Time that database threads were busy.", registry=REGISTRY
)
DATABASE_THREADS = Gauge(
    "parley_database_threads", "Database threads of the processes.", registry=REGISTRY, multiprocess_mode="livesum"
)
POOL = _gauges(
    "parley_database_pool_connections", "PostgreSQL connections of the pools, and who waits for one.", "state"
)

# Calls to others
WEBHOOKS = _counters("parley_webhook_calls_total", "Webhook calls: delivered, failed, or given up (dead).", "result")
WEBHOOK_SECONDS = Histogram(
    "parley_webhook_duration_seconds", "Duration of webhook calls.", registry=REGISTRY, buckets=SHORT
)
MODEL_CALLS = _counters(
    "parley_model_calls_total", "Calls of language models by agents' turns and for titles.", "model"
)
MODEL_TOKENS = _counters("parley_model_tokens_total", "Tokens of these calls, input and output.", "model", "direction")
MODEL_COST = _counters("parley_model_cost_total", "Cost of these calls, where prices are known.", "model", "currency")
REMOTE_CALLS = _counters(
    "parley_remote_calls_total", "Turns and probes of remote agents: answered, or the error's code.", "agent", "result"
)


class BuildInfo(Collector):
    """The version, as a label of a metric that is always 1."""

    value = {"version": version("parley-platform")}

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily("parley_build", "The version of Parley that answers.", value=self.value)


def exposition(accept: str, more: Collection[Collector] = ()) -> tuple[bytes, str]:
    """The metrics of this process (or all that share the folder) and of `more`, with their content type.

    `accept` is the request's header. It reads files, so call it in a thread.
    """
    scraped = CollectorRegistry()
    if SHARED_FOLDER:
        forget_ended_processes()
        MultiProcessCollector(scraped, SHARED_FOLDER)  # type: ignore[no-untyped-call]
    else:
        scraped.register(REGISTRY)
    for collector in (BuildInfo(), *more):
        scraped.register(collector)
    encode, content_type = choose_encoder(accept)
    return encode(scraped), content_type


def forget_ended_processes() -> None:
    """Drop the gauges of processes that have ended. What they counted stays, because a counter must not fall."""
    for path in Path(SHARED_FOLDER).glob("gauge_live*.db"):
        found = re.search(r"_(\d+)\.db\Z", path.name)
        if found and not _is_alive(int(found[1])):
            with suppress(FileNotFoundError):  # another process dropped it just now
                mark_process_dead(int(found[1]))  # type: ignore[no-untyped-call]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
