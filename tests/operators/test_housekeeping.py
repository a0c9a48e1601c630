"""Housekeeping: which processes live, the last run of each periodic job, and a run at once."""

from __future__ import annotations

import datetime
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module

import pytest
from celery import current_app, shared_task
from django.conf import settings
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import User
from apps.engine import jobs as engine_jobs
from apps.features.housekeeping import periodic, processes
from apps.features.housekeeping.models import PeriodicJob, ServerProcess
from apps.features.housekeeping.periodic import JobRun, Recorder

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
def test_a_worker_and_beat_are_seen_while_they_work_and_gone_when_they_stop(transactional_db: None) -> None:
    with engine_jobs.embedded_worker(grace=1):
        eventually(lambda: processes.missing() == {})
        row = ServerProcess.objects.get(kind=WORKER)
        assert (row.busy, row.waiting, row.capacity) == (0, 0, settings.RUNS_PER_PROCESS)
        assert set(processes.next_runs()) == set(periodic.scheduled())
    eventually(lambda: not ServerProcess.objects.exists())


def test_a_process_without_a_heartbeat_is_missed_soon_and_its_row_deleted_after_a_day(db: None) -> None:
    processes.note_heartbeat(WORKER)
    processes.note_heartbeat(BEAT)
    assert processes.missing() == {}
    ServerProcess.objects.filter(kind=BEAT).update(seen_at=timezone.now() - datetime.timedelta(minutes=2))
    assert set(processes.missing()) == {BEAT}
    assert processes.delete_gone() == 0
    ServerProcess.objects.filter(kind=BEAT).update(seen_at=timezone.now() - datetime.timedelta(hours=25))
    assert processes.delete_gone() == 1
    assert [row.kind for row in ServerProcess.objects.all()] == [WORKER]


def test_a_process_that_beats_again_keeps_its_one_row(db: None) -> None:
    for _ in range(2):
        processes.note_heartbeat(WORKER)
    assert ServerProcess.objects.count() == 1


# Runs of periodic jobs


@shared_task(name="test.breaking")
def breaking() -> None:
    raise ValueError("the disk is full")


def job_run(result: str = "Done", **fields: object) -> JobRun:
    return JobRun("some.sweep", timezone.now(), 0.1, result, **fields)  # type: ignore[arg-type]


def failed_run() -> JobRun:
    return job_run("", problem="ValueError", has_failed=True, failures=1, failed_at=timezone.now())


def test_a_frequent_job_is_written_when_something_changes_and_otherwise_seldom() -> None:
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


def test_failures_between_two_writes_are_counted_in_the_next() -> None:
    recorder = Recorder()
    first = recorder.due(failed_run())
    assert first
    assert [recorder.due(failed_run()), recorder.due(failed_run())] == [None, None]
    written = recorder.due(job_run())
    assert written
    assert (first.failures, written.failures, written.has_failed, written.problem) == (1, 2, False, "ValueError")


@pytest.fixture
def _breaking_is_periodic(transactional_db: None, settings: pytest.FixtureRequest) -> None:
    settings.CELERY_BEAT_SCHEDULE = {"breaking": {"task": "test.breaking", "schedule": 600.0}}  # type: ignore[attr-defined]


@pytest.mark.usefixtures("_breaking_is_periodic")
def test_a_job_that_fails_is_recorded_with_its_problem_and_counted() -> None:
    for _ in range(2):
        breaking.apply(task_id=f"{periodic.RUN_NOW}{timezone.now().timestamp()}")
    eventually(lambda: PeriodicJob.objects.filter(failures=2).exists())
    row = PeriodicJob.objects.get()
    assert (row.name, row.has_failed) == ("test.breaking", True)
    assert "the disk is full" in row.problem


@pytest.mark.services("a job of another process, by the broker")
def test_a_run_that_an_operator_asked_for_is_done_by_a_worker_and_its_result_recorded(worker: None, ada: User) -> None:
    periodic.run_now(JOB, ada)
    eventually(lambda: PeriodicJob.objects.filter(name=JOB, started_at__isnull=False, asked_at=None).exists())
    job = next(job for job in periodic.jobs() if job.name == JOB)
    assert job.row
    assert (job.row.has_failed, job.row.asked_by, job.is_asked_for) == (False, ada, False)
    assert job.row.result


def test_each_job_says_what_it_does(db: None) -> None:
    found = periodic.jobs()
    assert {job.name for job in found} == {entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()}
    assert [job.name for job in found if not job.does] == []


def test_a_worker_knows_each_job_without_the_pages() -> None:
    import_module("config.urls")
    jobs = {name for name, job in current_app.tasks.items() if job.__module__.startswith("apps.")}
    program = "from config.celery import app; app.loader.import_default_modules(); print(*app.tasks)"
    worker = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert jobs - set(worker.stdout.split()) == set()


def test_the_next_run_is_to_come_though_beat_said_so_seconds_ago(db: None) -> None:
    ago = timezone.now() - datetime.timedelta(seconds=8)
    processes.note_heartbeat(BEAT, due={"engine.sweep": ago.isoformat()})
    job = next(job for job in periodic.jobs() if job.name == "engine.sweep")
    assert job.next_at
    assert job.next_at >= timezone.now()


# The page


@pytest.fixture
def operator_with(db: None) -> Callable[..., Client]:
    def made(*codenames: str) -> Client:
        person = User.objects.create_user("some@example.org", "correct horse", is_staff=True)
        person.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        client = Client()
        client.force_login(person)
        return client

    return made


@pytest.fixture
def broker_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(periodic.current_app, "send_task", refuse)


def test_the_page_shows_every_job_and_marks_processes_that_are_not_seen(admin_client: Client) -> None:
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
        assert all(name in shown for name in periodic.scheduled())
        assert shown.count("state-failed") == 2
        assert "gone.example.org:7" in shown
        assert processes.NOT_SEEN[BEAT] in shown
        assert processes.NOT_SEEN[WORKER] not in shown
        assert "&lt;b&gt;the disk is full" in shown


def test_who_may_only_look_has_no_button_and_cannot_run_a_job(operator_with: Callable[..., Client]) -> None:
    client = operator_with("view_periodicjob")
    shown = client.get(PAGE).content.decode()
    assert JOB in shown
    assert RUN not in shown
    assert "housekeeping-processes" not in shown
    assert client.post(RUN).status_code == 403
    assert not PeriodicJob.objects.exists()


def test_who_may_not_look_has_no_page_and_no_link(operator_with: Callable[..., Client]) -> None:
    client = operator_with("view_user")
    assert {client.get(address).status_code for address in (PAGE, PANEL)} == {403}
    assert client.post(RUN).status_code == 403
    assert PAGE not in client.get(reverse("admin:index")).content.decode()


def test_who_was_signed_out_is_sent_to_the_sign_in_page_and_not_shown_it_in_the_panel(client: Client) -> None:
    assert client.get(PANEL).headers["HX-Refresh"] == "true"
    assert client.get(PAGE).status_code == client.post(RUN).status_code == 302


def test_run_now_queues_the_job_and_shows_that_it_waits(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    monkeypatch.setattr(periodic.current_app, "send_task", lambda name, **options: sent.append(name))
    assert RUN in admin_client.get(PAGE).content.decode()
    shown = admin_client.post(RUN, follow=True).content.decode()
    assert sent == [JOB]
    assert PeriodicJob.objects.get().asked_by_id
    assert "state-queued" in shown


def test_run_now_needs_a_post_with_the_pages_token(admin_user: User) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(admin_user)
    assert strict.get(RUN).status_code == 405
    assert strict.post(RUN).status_code == 403


@pytest.mark.usefixtures("broker_away")
def test_a_job_that_cannot_be_queued_or_does_not_exist_is_an_error_on_the_page(admin_client: Client) -> None:
    unknown = reverse("admin:housekeeping_periodicjob_run", args=["no.job"])
    for address in (RUN, unknown):
        answer = admin_client.post(address, follow=True)
        assert answer.status_code == 200
        assert [message.level_tag for message in answer.context["messages"]] == ["error"]
    assert not PeriodicJob.objects.filter(asked_at__isnull=False).exists()


def test_the_dashboard_says_which_processes_are_missing_and_leads_to_them(
    admin_client: Client, operator_with: Callable[..., Client]
) -> None:
    processes.note_heartbeat(WORKER)
    shown = admin_client.get(reverse("admin:index")).content.decode()
    assert processes.NOT_SEEN[BEAT] in shown
    assert processes.NOT_SEEN[WORKER] not in shown
    for client, is_told in ((admin_client, True), (operator_with("view_user"), False)):
        shown = client.get(reverse("admin:index")).content.decode()
        assert (processes.NOT_SEEN[BEAT] in shown, PAGE in shown) == (is_told, is_told)
