"""Schedules start what is due, once; the clock is given, never waited for."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.core import mail

from agentkit import Completed
from apps.accounts.models import Membership, User
from apps.accounts.permissions import Role
from apps.agents.models import Agent
from apps.automation import schedules, targets
from apps.automation.models import Schedule, ScheduledRun
from apps.conversations.queue.messages import MAX_QUEUED, enqueue, send_due
from apps.conversations.sessions import commands, deletion
from apps.engine.cancel import cancel_task
from apps.optional.projects.models import Project
from apps.optional.projects.projects import save as save_project
from apps.plans.models import Plan
from apps.record.errors import InvalidFields
from apps.record.execution import Accepted
from apps.record.models import Context, Task, TaskState
from parley import db
from parley.db import sql
from tests.plans.conftest import agents, plan  # noqa: F401 fixtures
from tests.working import begin, end

pytestmark = pytest.mark.services("the clock and compare-and-swap are the database's")

State = ScheduledRun.State
HOUR = datetime.timedelta(hours=1)
Make = Callable[..., Schedule]


@pytest.fixture
def hourly(ada, echo):
    """A schedule that is due since `hours` full hours, the newest of them a second ago."""

    def make(hours: int = 1, **fields: Any) -> Schedule:
        usual: dict[str, Any] = {"agent": echo, "text": "hello", "name": "Hourly", "kind": "interval"}
        made = schedules.save(ada.principal, Schedule(**{**usual, "every_seconds": 3600, **fields}))
        first = sql.database_time() - datetime.timedelta(seconds=1) - (hours - 1) * HOUR
        Schedule.objects.filter(pk=made.pk).update(created_at=first, next_at=first)
        made.refresh_from_db()
        return made

    return make


def states(schedule: Schedule) -> list[str]:
    return list(schedule.runs.order_by("due_at").values_list("state", flat=True))


def started() -> int:
    return sum(schedules.start_runs_of(key) for key in list(schedules.due_schedules()))


def tick() -> int:
    schedules.claim_due()
    return started()


def due_again(schedule: Schedule) -> None:
    """As if an hour had passed."""
    schedule.refresh_from_db()
    assert schedule.next_at
    for run in schedule.runs.order_by("due_at"):
        ScheduledRun.objects.filter(pk=run.pk).update(due_at=run.due_at - HOUR, created_at=run.created_at - HOUR)
    Schedule.objects.filter(pk=schedule.pk).update(
        next_at=schedule.next_at - HOUR, created_at=schedule.created_at - HOUR
    )


def test_due_time_starts_one_task_of_the_owner(hourly, ada):
    schedule = hourly()
    assert [tick(), tick()] == [1, 0]
    run = schedule.runs.get()
    assert run.state == State.STARTED
    assert run.task is not None
    assert run.task.owner == ada
    schedule.refresh_from_db()
    assert schedule.next_at is not None
    assert schedule.next_at > sql.database_time()


def test_two_beats_claim_a_schedule_once(hourly):
    schedule = hourly()
    other = Schedule.objects.select_related("agent").get()
    now = sql.database_time()
    assert schedules._claim(schedule, now)
    assert not schedules._claim(other, now)
    assert states(schedule) == [State.WAITING]


def test_job_that_lost_its_schedule_starts_no_more(hourly, monkeypatch):
    schedule = hourly(2, catch_up="all")
    schedules.claim_due()
    start = schedules._start

    def lose(run: ScheduledRun) -> None:
        start(run)
        Schedule.objects.update(fence=9)

    monkeypatch.setattr(schedules, "_start", lose)
    monkeypatch.setattr(schedules, "_make_room", lambda run: True)
    assert schedules.start_runs_of(schedule.pk) == 1
    assert states(schedule) == [State.STARTED, State.WAITING]


def test_job_killed_after_sending_finds_its_task(hourly):
    schedule = hourly()
    schedules.claim_due()
    run = schedule.runs.get()
    sent = targets.start(schedule.owner, schedule.workspace_id, run.agent, key=run.key, text="hello", inputs={})
    Schedule.objects.update(text="something else")
    tick()
    run.refresh_from_db()
    assert run.task_id == sent.task
    assert Task.objects.count() == Accepted.objects.count() == 1


def test_lease_of_a_killed_job_runs_out(hourly):
    schedule = hourly()
    schedules.claim_due()
    Schedule.objects.update(lease_until=sql.database_time() + HOUR)
    assert started() == 0
    Schedule.objects.update(lease_until=sql.database_time() - datetime.timedelta(seconds=1))
    assert started() == 1
    assert states(schedule) == [State.STARTED]


@pytest.mark.parametrize(
    ("overlap", "expected", "first_task"),
    [
        ("skip", [State.STARTED, State.SKIPPED], TaskState.SUBMITTED),
        ("queue", [State.STARTED, State.WAITING], TaskState.SUBMITTED),
        ("cancel", [State.STARTED, State.STARTED], TaskState.CANCELED),
    ],
)
def test_while_an_earlier_run_works_the_policy_decides(hourly, overlap, expected, first_task):
    schedule = hourly(overlap=overlap)
    tick()
    first = schedule.runs.get().task
    assert first is not None
    due_again(schedule)
    tick()
    assert states(schedule) == expected
    first.refresh_from_db()
    assert first.state == first_task


def test_queued_run_starts_after_the_earlier_one(hourly):
    schedule = hourly(overlap="queue")
    tick()
    due_again(schedule)
    assert tick() == 0
    cancel_task(Task.objects.select_related("context").get())
    assert tick() == 1


class TestSameSession:
    @pytest.fixture
    def daily(self, hourly):
        """It has run once."""
        made = hourly(sessions="same")
        tick()
        made.refresh_from_db()
        return made

    def again(self, schedule: Schedule) -> ScheduledRun:
        due_again(schedule)
        tick()
        return schedule.runs.select_related("task__context").latest("due_at")

    def finish(self, schedule: Schedule) -> Context:
        """End what works; returns its session."""
        task = Task.objects.unfinished().select_related("context").get(scheduled_runs__schedule=schedule)
        end(begin(task.runs.get().pk), Completed("done"))
        return task.context

    def test_runs_go_on_in_it(self, daily):
        session = self.finish(daily)
        run = self.again(daily)
        assert (run.task.context, run.reason) == (session, "")
        assert Context.objects.count() == 1

    @pytest.mark.parametrize("change", ["delete", "archive", "switch"])
    def test_new_one_begins_where_it_cannot(self, daily, ada, countdown, change):
        session = self.finish(daily)
        match change:
            case "delete":
                deletion.delete_session(ada.principal, session.pk)
            case "archive":
                commands.archive_session(ada.principal, session.pk)
            case "switch":
                commands.switch_agent(ada.principal, session.pk, countdown)
        run = self.again(daily)
        assert run.task.context != session
        assert run.reason
        end(begin(run.task.runs.get().pk), Completed("done"))
        assert self.again(daily).task.context == run.task.context, "and the next goes on there"

    @pytest.mark.django_db(transaction=True)
    async def test_message_waits_in_the_queue(self, hourly):
        daily = await db.run(hourly, sessions="same")
        await db.run(tick)
        run = await db.run(self.again, daily)
        assert (run.state, run.task) == (State.STARTED, None)
        session = await db.run(self.finish, daily)
        await send_due(session.pk)
        await run.arefresh_from_db()
        assert (await Task.objects.aget(pk=run.task_id)).context_id == session.pk

    def test_message_goes_behind_queued_ones(self, daily, ada, said):
        enqueue(ada.principal, self.finish(daily), said())
        run = self.again(daily)
        assert (run.state, run.task) == (State.STARTED, None)

    def test_killed_job_sends_once(self, daily, ada):
        session = self.finish(daily)
        due_again(daily)
        schedules.claim_due()
        run = daily.runs.get(state=State.WAITING)
        sent = targets.go_on(ada, session, key=run.key, text="hello", inputs={})
        started()
        run.refresh_from_db()
        assert run.task_id == sent
        assert Task.objects.count() == 2

    def test_full_queue_skips_a_run(self, daily, ada, said):
        session = Context.objects.get(pk=daily.session)
        for _ in range(MAX_QUEUED):
            enqueue(ada.principal, session, said())
        run = self.again(daily)
        daily.refresh_from_db()
        assert (run.state, daily.failures) == (State.SKIPPED, 0)

    def test_plan_has_none(self, ada, echo, plan):  # noqa: F811
        trip = plan({"one": {"agent": "echo", "message": "Hi"}}, slug="trip")
        fields = {"agent": trip, "name": "Trip", "kind": "interval", "every_seconds": 3600, "sessions": "same"}
        with pytest.raises(InvalidFields) as refused:
            schedules.save(ada.principal, Schedule(**fields))
        assert refused.value.violations[0][0] == "sessions"


def test_sessions_begin_in_the_schedules_project(ada, bob, hourly):
    project = save_project(ada.principal, Project(name="Trip"))
    schedule = hourly(project=project.pk)
    tick()
    assert schedule.runs.get().task.context.project == project.pk
    with pytest.raises(InvalidFields):
        hourly(project=save_project(bob.principal, Project(name="Bob's")).pk)
    Project.objects.filter(pk=schedule.project).delete()
    schedule.name = "Still every hour"
    assert schedules.save(ada.principal, schedule).project == project.pk


@pytest.mark.parametrize(
    ("catch_up", "expected"), [("none", [State.SKIPPED]), ("last", [State.WAITING]), ("all", [State.WAITING] * 3)]
)
def test_after_a_downtime_of_ten_hours(hourly, catch_up, expected):
    schedule = hourly(hours=10, catch_up=catch_up, catch_up_limit=3, overlap="queue")
    Schedule.objects.update(
        next_at=schedule.next_at - HOUR / 2, created_at=schedule.created_at - HOUR / 2
    )  # the newest was half an hour ago
    schedules.claim_due()
    assert states(schedule) == expected


def test_what_runs_once_runs_once(hourly):
    schedule = hourly(kind="once", every_seconds=None, at=sql.database_time() + HOUR)
    past = sql.database_time() - datetime.timedelta(seconds=1)
    Schedule.objects.update(at=past, next_at=past)
    assert [tick(), tick()] == [1, 0]
    schedule.refresh_from_db()
    assert schedule.next_at is None


def test_a_plan_gets_its_inputs(hourly, plan):  # noqa: F811
    steps = {"one": {"agent": "echo", "message": "{{ inputs.city }}"}}
    inputs = {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}}
    with pytest.raises(schedules.InvalidFields) as refused:
        hourly(agent=plan(steps, inputs=inputs), text="")
    assert refused.value.field == "inputs.city"
    schedule = hourly(agent=Plan.objects.get(slug="plan"), text="", inputs={"city": "Oslo"})
    assert tick() == 1
    assert Task.objects.get(pk=schedule.runs.get().task_id).agent.slug == "plan"


def _disable(schedule: Schedule) -> None:
    Agent.objects.update(is_enabled=False)


def _delete(schedule: Schedule) -> None:
    Agent.objects.all().delete()


def _make_viewer(schedule: Schedule) -> None:
    Membership.objects.filter(user=schedule.owner).update(role=Role.VIEWER)


@pytest.mark.parametrize("change", [_disable, _delete, _make_viewer])
def test_lost_target_fails_and_pauses_the_schedule(hourly, settings, change):
    settings.EMAIL_URL = "memory://"
    schedule = hourly()
    change(schedule)
    for _ in range(schedules.FAILURES_BEFORE_PAUSE):
        tick()
        due_again(schedule)
    tick()
    assert states(schedule) == [State.FAILED] * schedules.FAILURES_BEFORE_PAUSE
    assert all(schedule.runs.values_list("reason", flat=True))
    schedule.refresh_from_db()
    assert schedule.paused_at
    assert schedule.paused_because
    assert [message.to for message in mail.outbox] == [["ada@example.org"]]


@pytest.fixture
def no_more_today(settings):
    """Whatever is sent is refused by a limit."""
    settings.ACTS_PER_MINUTE = 0


@pytest.mark.usefixtures("no_more_today")
def test_limited_run_waits_as_long_as_told(hourly, settings):
    schedule = hourly()
    assert tick() == 0
    run = schedule.runs.get()
    assert (run.state, bool(run.reason)) == (State.WAITING, True)
    assert run.try_at is not None
    ScheduledRun.objects.update(try_at=sql.database_time() + HOUR)
    settings.ACTS_PER_MINUTE = 100
    assert tick() == 0, "before that, nothing is tried"
    ScheduledRun.objects.update(try_at=sql.database_time())
    assert tick() == 1
    run.refresh_from_db()
    assert (run.state, run.reason) == (State.STARTED, "")


@pytest.mark.usefixtures("no_more_today")
def test_run_limited_until_the_next_fails(hourly):
    schedule = hourly(overlap="queue")
    tick()
    due_again(schedule)
    tick()
    assert states(schedule) == [State.FAILED, State.WAITING]
    assert "Try again" in schedule.runs.order_by("due_at")[0].reason
    schedule.refresh_from_db()
    assert schedule.failures == 0


def test_schedules_of_a_deactivated_person_do_not_run(hourly, ada):
    schedule = hourly()
    User.objects.filter(pk=ada.pk).update(is_active=False)
    assert tick() == 0
    assert states(schedule) == []


def test_paused_schedule_makes_up_for_nothing(hourly):
    schedule = hourly(hours=5)
    assert schedules.pause(schedule)
    assert tick() == 0
    schedule.refresh_from_db()
    assert schedules.resume(schedule)
    assert tick() == 0
    assert states(schedule) == []


def test_run_now_works_while_it_is_paused(hourly):
    schedule = hourly()
    schedules.pause(schedule)
    run = schedules.run_now(schedule)
    assert (run.state, run.is_manual) == (State.STARTED, True)
    assert isinstance(run.task_id, uuid.UUID)


def test_edit_does_not_undo_a_pause(ada, echo):
    about = {"name": "Nightly", "agent": echo, "text": "Hello", "kind": "cron", "cron": "0 3 * * *"}
    made = schedules.save(ada.principal, Schedule(**about))
    edited = Schedule.objects.select_related("agent").get(pk=made.pk)
    schedules.pause(made)
    edited.name = "Every night"
    schedules.save(ada.principal, edited)
    now = Schedule.objects.get()
    assert (now.name, now.paused_at is not None) == ("Every night", True)


def test_runs_by_hand_wait_up_to_a_number(hourly):
    schedule = hourly(overlap="queue")
    schedules.run_now(schedule)  # works
    for _ in range(schedules.MOST_WAITING_BY_HAND):
        assert schedules.run_now(schedule).state == State.WAITING
    with pytest.raises(schedules.TooManyWaiting):
        schedules.run_now(schedule)
    assert states(schedule).count(State.WAITING) == schedules.MOST_WAITING_BY_HAND
    tick()  # what the clock brings is not counted among them
    assert states(schedule).count(State.WAITING) == schedules.MOST_WAITING_BY_HAND + 1


def _history(schedule: Schedule, ages: list[int], **fields: Any) -> None:
    """Ended runs of so many days ago."""
    now = sql.database_time()
    for days in ages:
        due_at = now - datetime.timedelta(days=days)
        ScheduledRun.objects.create(**{"state": State.FAILED, "schedule": schedule, "due_at": due_at, **fields})


def _kept(schedule: Schedule) -> list[int]:
    now = sql.database_time()
    return [(now - run.due_at).days for run in schedule.runs.order_by("-due_at")]


def test_history_is_kept_by_age_and_number(hourly, settings, monkeypatch):
    settings.SCHEDULE_RUN_DAYS, settings.SCHEDULE_RUNS_KEPT = 30, 3
    busy, quiet = hourly(), hourly()
    _history(busy, [1, 2, 3, 4, 5, 6, 40, 41, 42])
    _history(quiet, [1, 29, 31])
    assert schedules.prune_runs() == 7
    assert (_kept(busy), _kept(quiet)) == ([1, 2, 3], [1, 29])
    assert schedules.prune_runs() == 0


def test_waiting_and_working_runs_are_not_pruned(hourly, settings):
    settings.SCHEDULE_RUN_DAYS, settings.SCHEDULE_RUNS_KEPT = 30, 1
    schedule = hourly()
    tick()
    schedule.runs.update(due_at=sql.database_time() - datetime.timedelta(days=50))  # works
    _history(schedule, [60], state=State.WAITING)
    _history(schedule, [70, 2, 1])
    schedules.prune_runs()
    assert _kept(schedule) == [1, 50, 60]
    cancel_task(Task.objects.select_related("context").get())
    schedules.prune_runs()
    assert _kept(schedule) == [1, 60]
