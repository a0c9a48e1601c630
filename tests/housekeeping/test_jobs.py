"""Housekeeping: which processes live, the last run of each periodic job, and a run at once."""

from __future__ import annotations

import datetime
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from types import SimpleNamespace

import pytest
from celery import current_app, shared_task
from celery.beat import Scheduler
from django.conf import settings
from django.urls import reverse
from django.utils import timezone
from kombu.exceptions import OperationalError

from apps.engine import jobs as engine_jobs
from apps.housekeeping import periodic, processes
from apps.housekeeping.heartbeats import BeatScheduler, Heartbeat, leave
from apps.housekeeping.models import PeriodicJob, ServerProcess
from apps.housekeeping.periodic import JobRun, Recorder
from parley.program import DISTRIBUTION
from parley.registry import added

PAGE = reverse("admin:housekeeping_periodicjob_changelist")
PANEL = reverse("admin:housekeeping_periodicjob_panel")
JOB = "archive.due"
RUN = reverse("admin:housekeeping_periodicjob_run", args=[JOB])
SOON = 60.0
WORKER, BEAT = ServerProcess.Kind.WORKER, ServerProcess.Kind.BEAT


def eventually(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# Processes


@pytest.mark.services("the worker's timer and beat's scheduler depend on the broker")
def test_worker_and_beat_are_seen_while_working(transactional_db):
    with engine_jobs.embedded_worker(grace=1):
        eventually(lambda: processes.missing() == {})
        row = ServerProcess.objects.get(kind=WORKER)
        assert (row.busy, row.waiting, row.capacity) == (0, 0, settings.RUNS_PER_PROCESS)
        assert set(processes.next_runs()) == set(added["periodic_jobs"])
    eventually(lambda: not ServerProcess.objects.exists())


def test_silent_processes_are_missed_then_deleted(db):
    for kind in (WORKER, WORKER, BEAT):
        processes.note_heartbeat(kind)
    assert processes.missing() == {}
    assert ServerProcess.objects.count() == 2, "one row each"
    ServerProcess.objects.filter(kind=BEAT).update(seen_at=timezone.now() - datetime.timedelta(minutes=2))
    assert set(processes.missing()) == {BEAT}
    assert processes.delete_gone() == 0
    ServerProcess.objects.filter(kind=BEAT).update(seen_at=timezone.now() - datetime.timedelta(hours=25))
    assert processes.delete_gone() == 1
    assert [row.kind for row in ServerProcess.objects.all()] == [WORKER]


# Runs of periodic jobs


@shared_task(name="test.breaking")
def breaking() -> None:
    raise ValueError("the disk is full")


def job_run(result: str = "Done", **fields: object) -> JobRun:
    return JobRun("some.sweep", timezone.now(), 0.1, result, **fields)  # type: ignore[arg-type]


def failed_run() -> JobRun:
    return job_run("", problem="ValueError", has_failed=True, failures=1, failed_at=timezone.now())


def test_frequent_jobs_are_written_when_something_changes():
    now = 0.0
    recorder = Recorder(clock=lambda: now)
    assert recorder.due(job_run())
    assert not recorder.due(job_run())
    assert recorder.due(job_run("3 handled"))
    assert recorder.due(failed_run())
    assert not recorder.due(failed_run())
    assert recorder.due(job_run("3 handled"))
    assert recorder.due(job_run("3 handled", was_asked_for=True))
    assert not recorder.due(job_run("3 handled"))
    now = periodic.WRITE_SECONDS
    assert recorder.due(job_run("3 handled"))


@pytest.fixture
def _breaking_is_periodic(transactional_db, monkeypatch):
    monkeypatch.setitem(added["periodic_jobs"], "test.breaking", (600.0, breaking))


@pytest.mark.usefixtures("_breaking_is_periodic")
def test_failing_jobs_are_recorded_and_counted():
    for _ in range(2):
        breaking.apply(task_id=f"{periodic.RUN_NOW}{timezone.now().timestamp()}")
    eventually(lambda: PeriodicJob.objects.filter(failures=2).exists())
    row = PeriodicJob.objects.get()
    assert (row.name, row.has_failed) == ("test.breaking", True)
    assert "the disk is full" in row.problem


@pytest.mark.services("a job of another process, by the broker")
def test_asked_run_is_done_by_a_worker(worker, ada):
    periodic.run_now(JOB, ada)
    eventually(lambda: PeriodicJob.objects.filter(name=JOB, started_at__isnull=False, asked_at=None).exists())
    job = next(job for job in periodic.jobs() if job.name == JOB)
    assert job.row
    assert (job.row.has_failed, job.row.asked_by, job.is_asked_for) == (False, ada, False)
    assert job.row.result


@pytest.mark.django_db(transaction=True)
def test_beat_runs_heavy_jobs_itself(monkeypatch):
    sent: list[str] = []
    monkeypatch.setattr(Scheduler, "apply_async", lambda self, entry, **options: sent.append(entry.task))
    beat = BeatScheduler(current_app, lazy=True)
    for job in ("search.index", JOB):
        beat.apply_entry(beat.Entry(name=job, task=job, schedule=15.0, app=current_app))
    assert sent == [JOB]
    eventually(lambda: PeriodicJob.objects.filter(name="search.index", has_failed=False).exists())
    leave()


# Whether they are stuck


def test_beat_tells_probes_and_systemd_that_it_lives(tmp_path, settings, monkeypatch):
    settings.ALIVE_FILE = str(tmp_path / "alive")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "systemd"))
    monkeypatch.setenv("WATCHDOG_USEC", "120000000")
    monkeypatch.setattr(processes, "write_later", lambda *_, **__: None)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "systemd"))
        BeatScheduler(current_app, lazy=True).tick()
        assert systemd.recv(100) == b"WATCHDOG=1"
    assert (tmp_path / "alive").exists()


def test_beat_lives_while_broker_is_away(tmp_path, settings, monkeypatch):
    settings.ALIVE_FILE = str(tmp_path / "alive")

    def wait(*_):
        eventually((tmp_path / "alive").exists)
        raise OperationalError("It is away")

    monkeypatch.setattr(BeatScheduler, "connection", SimpleNamespace(ensure_connection=wait))
    with pytest.raises(OperationalError):
        _ = BeatScheduler(current_app, lazy=True).producer


def test_processes_that_wait_for_the_database_tell_systemd(tmp_path):
    address = str(tmp_path / "systemd")
    away = {
        "DATABASE_URL": "postgres://nobody@127.0.0.1:1/none", "CELERY_BROKER_URL": "redis://127.0.0.1:1/0",
        "CHANNEL_LAYER_URL": "redis://127.0.0.1:1/0", "NOTIFY_SOCKET": address, "WATCHDOG_USEC": "240000000",
    }  # fmt: skip
    program = [sys.executable, "-c", "import parley.celery"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(address)
        systemd.settimeout(SOON)
        with subprocess.Popen(program, env={**os.environ, **away}, stderr=subprocess.PIPE) as waiting:
            try:
                assert systemd.recv(100) == b"WATCHDOG=1"
                assert waiting.poll() is None
            finally:
                waiting.kill()


@pytest.mark.parametrize(
    ("is_connected", "seconds", "is_stuck"), [(True, 59, False), (True, 61, True), (False, 3600, False)]
)
def test_worker_is_stuck_only_while_connected(monkeypatch, is_connected, seconds, is_stuck):
    now = 1000.0
    monkeypatch.setattr(Heartbeat, "clock", staticmethod(lambda: now))
    heartbeat = Heartbeat(None)
    now += seconds
    assert heartbeat.is_stuck(SimpleNamespace(connection=object() if is_connected else None)) == is_stuck


@pytest.mark.services("a worker tells it from its own threads")
def test_waiting_worker_tells_that_it_lives(tmp_path, settings, transactional_db):
    settings.ALIVE_FILE = str(tmp_path / "alive")
    with engine_jobs.embedded_worker(grace=1):
        eventually((tmp_path / "alive").exists)


@pytest.mark.services("a process of its own", only=True)
def test_a_worker_knows_each_job_without_the_pages():
    import_module("parley.urls")
    jobs = {name for name, job in current_app.tasks.items() if job.__module__.startswith("apps.")}
    program = "from parley.celery import app; app.loader.import_default_modules(); print(*app.tasks)"
    worker = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert jobs - set(worker.stdout.split()) == set()


# The page


def test_page_shows_jobs_and_missing_processes(admin_client):
    processes.note_heartbeat(WORKER)
    ServerProcess.objects.create(
        kind=BEAT, host="gone.example.org", pid=7, version="0.1.0", started_at=timezone.now(),
        seen_at=timezone.now() - datetime.timedelta(minutes=5),
    )  # fmt: skip
    PeriodicJob.objects.create(
        name=JOB, started_at=timezone.now(), seconds=1.5, has_failed=True, failures=3, failed_at=timezone.now(),
        problem="ValueError: <b>the disk is full</b>",
    )  # fmt: skip
    for address in (PAGE, PANEL):
        shown = admin_client.get(address).content.decode()
        assert all(name in shown for name in added["periodic_jobs"])
        assert shown.count("state-failed") == 2
        assert "gone.example.org:7" in shown
        assert processes.NOT_SEEN[BEAT] in shown
        assert processes.NOT_SEEN[WORKER] not in shown
        assert "&lt;b&gt;the disk is full" in shown
        assert f"Parley {version(DISTRIBUTION)}" in shown


def test_job_pages_need_their_permissions(operator_with):
    viewer, stranger = operator_with("view_periodicjob"), operator_with("view_user")
    shown = viewer.get(PAGE).content.decode()
    assert (JOB in shown, RUN in shown) == (True, False)
    assert {stranger.get(address).status_code for address in (PAGE, PANEL)} == {403}
    assert PAGE not in stranger.get(reverse("admin:index")).content.decode()
    for client in (viewer, stranger):
        assert client.post(RUN).status_code == 403
    assert not PeriodicJob.objects.exists()


def test_run_now_queues_the_job(admin_client, monkeypatch):
    sent: list[str] = []
    monkeypatch.setattr(periodic.current_app, "send_task", lambda name, **options: sent.append(name))
    assert RUN in admin_client.get(PAGE).content.decode()
    shown = admin_client.post(RUN, follow=True).content.decode()
    assert sent == [JOB]
    assert PeriodicJob.objects.get().asked_by_id
    assert "state-queued" in shown


def test_jobs_that_cannot_be_queued_are_an_error(admin_client, monkeypatch):
    def refuse(*args: object, **options: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(periodic.current_app, "send_task", refuse)
    unknown = reverse("admin:housekeeping_periodicjob_run", args=["no.job"])
    for address in (RUN, unknown):
        answer = admin_client.post(address, follow=True)
        assert answer.status_code == 200
        assert [message.level_tag for message in answer.context["messages"]] == ["error"]
    assert not PeriodicJob.objects.filter(asked_at__isnull=False).exists()
