"""When schedules are due, and what starts then.

`claim_due` writes a row for each due time, by compare-and-swap on the schedule's `next_at`. `start_runs_of` starts the
rows that wait. A row's key is its message's idempotency key, so a job that is killed in between starts it once.
"""

from __future__ import annotations

import datetime
import logging
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, pairwise, takewhile
from typing import Any
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from django.conf import settings
from django.core.mail import send_mail
from django.db.models import Min, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.accounts.requests.quotas import QuotaExceeded
from apps.accounts.resources import Act, NotNeeded, Resource, deleting, pausing, resuming
from apps.agents.models import Agent
from apps.automation import cron, targets
from apps.automation.models import RUN_KEY, Schedule, ScheduledRun
from apps.conversations.queue.messages import QueueFull
from apps.engine.cancel import cancel_task
from apps.record.error_table import headers_of
from apps.record.errors import (
    ContextNotFound,
    InvalidFields,
    NotAccepting,
    Refusal,
    TaskNotCancelable,
    TaskNotFound,
    UnsupportedOperation,
)
from apps.record.events import EventType
from apps.record.models import Context, Event, Task
from apps.record.projects import check_seen
from apps.record.reading.lookup import find_own_session
from parley.db import sql
from parley.work import WorkList

log = logging.getLogger("parley.automation")

SHOWN = 5  # next runs
GRACE = datetime.timedelta(minutes=5)  # a run that is later than this was missed
FAILURES_BEFORE_PAUSE = 5
MOST_WAITING = 20  # of one schedule
MOST_WAITING_BY_HAND = 10  # of one schedule, started by a person
AT_ONCE = 200  # schedules of one tick
MOST_SECONDS_BETWEEN_TRIES = 300  # while a limit is reached
TRIED_FOR = datetime.timedelta(days=1)  # at most; else until the next due time
NEW_FOR_PLANS = "Each run of a plan has a session of its own. Choose a new session each time."
LEASE = datetime.timedelta(seconds=60)
CHECKED_TIMES = 100  # of a cron expression, for the shortest time between two
LONGEST = datetime.timedelta(days=366)  # an interval
FARTHEST = datetime.timedelta(days=3653)  # a start from now

State = ScheduledRun.State


def zone_of(name: str) -> ZoneInfo:
    """Raises InvalidFields."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        sentence = "There is no such time zone. Use a name such as Europe/Berlin or UTC."
        raise InvalidFields([("timeZone", sentence)]) from None


def times(schedule: Schedule, at: datetime.datetime, *, backward: bool = False) -> Iterator[datetime.datetime]:
    """Its due times after (or with `backward`, before) a moment, in UTC. Raises InvalidFields for a wrong expression.

    Daylight saving: a time that the clock skips is due right after the gap, and one that it repeats is due once.
    """
    if schedule.kind == Schedule.Kind.CRON:
        try:
            local = CronSim(cron.plain(schedule.cron), at.astimezone(zone_of(schedule.time_zone)), reverse=backward)
        except CronSimError as error:
            sentence = f"This is not a cron expression that ever fires: {error}. {cron.TAKEN}"
            raise InvalidFields([("cron", sentence)]) from None
        except ValueError as error:
            raise InvalidFields([("cron", str(error))]) from None
        for due in local:
            yield due.astimezone(datetime.UTC)
    elif schedule.kind == Schedule.Kind.INTERVAL:
        yield from _interval_times(schedule, at, backward)
    elif schedule.at is not None and (schedule.at < at if backward else schedule.at > at):
        yield schedule.at


def _interval_times(schedule: Schedule, at: datetime.datetime, backward: bool) -> Iterator[datetime.datetime]:
    start = schedule.at or schedule.created_at
    every = datetime.timedelta(seconds=schedule.every_seconds or 1)
    count = (at - start) // every
    if not backward:
        count = max(count + 1, 0)
    while count >= 0:
        if start + count * every != at:
            yield start + count * every
        count += -1 if backward else 1


def next_times(schedule: Schedule) -> list[datetime.datetime]:
    """What is shown; [] while it is paused, and if the system does not know its time zone any more."""
    if schedule.paused_at is not None or schedule.next_at is None:
        return []
    with suppress(InvalidFields):
        return [schedule.next_at, *islice(times(schedule, schedule.next_at), SHOWN - 1)]
    return []


def preview(schedule: Schedule, now: datetime.datetime, count: int = SHOWN) -> list[datetime.datetime]:
    """The next times of a schedule that need not be saved. Raises InvalidFields if it is wrong or never runs.

    A time without offset becomes one of the schedule's zone.
    """
    zone = zone_of(schedule.time_zone)
    if schedule.at is not None and timezone.is_naive(schedule.at):
        schedule.at = schedule.at.replace(tzinfo=zone)
    shortest = settings.SCHEDULE_MIN_SECONDS
    if schedule.at is not None and abs(schedule.at - now) > FARTHEST:
        raise InvalidFields([("at", "Give a time within ten years.")])
    if schedule.kind == Schedule.Kind.INTERVAL:
        if not schedule.every_seconds or not shortest <= schedule.every_seconds <= LONGEST.total_seconds():
            raise InvalidFields([("everySeconds", f"Must be from {shortest} seconds to {LONGEST.days} days.")])
        return list(islice(times(schedule, now), count))
    if schedule.kind == Schedule.Kind.ONCE:
        if schedule.at is None or schedule.at <= now:
            raise InvalidFields([("at", "Give a time in the future.")])
        return [schedule.at]
    found = list(islice(times(schedule, now), max(CHECKED_TIMES, count)))
    if not found:
        raise InvalidFields([("cron", "This expression never fires. Change it.")])
    if any((later - one).total_seconds() < shortest for one, later in pairwise(found)):
        raise InvalidFields([("cron", f"It runs more often than every {shortest} seconds. Choose a longer time.")])
    return found[:count]


EDITED = (
    "agent", "name", "text", "inputs", "kind", "cron", "every_seconds", "at", "time_zone", "sessions",
    "project", "overlap", "catch_up", "catch_up_limit", "next_at", "failures", "updated_at",
)  # fmt: skip


class TooManySchedules(UnsupportedOperation):
    """You have as many schedules as one person may have. Delete one first."""


def save(principal: Principal, schedule: Schedule) -> Schedule:
    """Check and save a new or a changed schedule of the caller. Its next run is computed from now on.

    Raises InvalidFields, TooManySchedules.
    """
    now = sql.database_time()
    if schedule.agent is None or principal.user_id is None or principal.workspace_id is None:
        raise InvalidFields([("agent", targets.NO_AGENT)])
    targets.check_content(schedule.agent, schedule.text, schedule.inputs)
    check_seen(principal, schedule.project, schedule)
    if schedule.sessions == Schedule.Sessions.SAME and schedule.agent.kind == Agent.Kind.PLAN:
        raise InvalidFields([("sessions", NEW_FOR_PLANS)])
    if schedule._state.adding:
        schedule.owner_id, schedule.workspace_id, schedule.created_at = principal.user_id, principal.workspace_id, now
    schedule.next_at = preview(schedule, now, 1)[0]  # an interval counts from the creation
    schedule.failures = 0
    if not schedule._state.adding:
        schedule.save(update_fields=EDITED)  # a pause or a deletion meanwhile stays
        return schedule
    with sql.write_transaction():
        User.objects.select_for_update().get(pk=principal.user_id)  # two at once must not exceed the limit
        own = Schedule.objects.filter(owner=principal.user_id, workspace=principal.workspace_id)
        if own.count() >= settings.SCHEDULES_PER_PERSON:
            raise TooManySchedules
        schedule.save()
    return schedule


def pause(schedule: Schedule, because: str = "") -> bool:
    """Run no more. False if it is paused already. What has started goes on; what waits is skipped."""
    now = sql.database_time()
    paused = Schedule.objects.filter(pk=schedule.pk, paused_at=None).update(paused_at=now, paused_because=because[:500])
    if paused:
        waiting = ScheduledRun.objects.filter(schedule=schedule, state=State.WAITING)
        waiting.update(state=State.SKIPPED, reason="The schedule was paused.")
    return bool(paused)


def resume(schedule: Schedule) -> bool:
    """Run again, from now on: times that passed during the pause are not made up for. Raises InvalidFields."""
    if schedule.paused_at is None:
        return False
    next_at = next(times(schedule, sql.database_time()), None)
    fields = {"paused_at": None, "paused_because": "", "failures": 0, "next_at": next_at}
    return bool(Schedule.objects.filter(pk=schedule.pk, paused_at__isnull=False).update(**fields))


class TooManyWaiting(UnsupportedOperation):
    """As many runs that were started by hand wait already as may. Wait until one starts, or pause the schedule."""


def run_now(schedule: Schedule) -> ScheduledRun:
    """Start a run beside the planned ones, also of a paused schedule; its overlap policy applies.

    Raises TooManyWaiting.
    """
    with sql.write_transaction():
        Schedule.objects.select_for_update(no_key=True).filter(pk=schedule.pk).first()  # two callers count one by one
        waiting = ScheduledRun.objects.filter(schedule=schedule, state=State.WAITING, is_manual=True)
        if waiting.count() >= MOST_WAITING_BY_HAND:
            raise TooManyWaiting
        now = sql.database_time()
        content = _content_of(schedule)
        run = ScheduledRun.objects.create(schedule=schedule, is_manual=True, due_at=now, created_at=now, **content)
    start_runs_of(schedule.pk)
    run.refresh_from_db()
    return run


def _pause(schedule: Schedule, principal: Principal) -> Schedule:
    if not pause(schedule, "" if principal.user_id == schedule.owner_id else "An operator paused it."):
        raise NotNeeded("It is paused already.")
    return schedule


def _resume(schedule: Schedule, principal: Principal) -> Schedule:
    if not resume(schedule):
        raise NotNeeded("It is not paused.")
    return schedule


def _result_of(run: ScheduledRun) -> str:
    return run.reason or ("It waits for an earlier run." if run.state == State.WAITING else "It was started.")


PAUSE = pausing(_pause, "a schedule", "What it has started goes on. What waits is skipped.")
RESUME = resuming(_resume, "a paused schedule", "Times that passed during the pause are not made up for.")
RUN_NOW = Act[Schedule](
    "run",
    "Run now",
    lambda schedule, principal: run_now(schedule),
    "Run a schedule now",
    "This changes no planned run. It starts as the schedule's owner, whose budgets and limits apply. So does the "
    f"policy for runs that overlap. At most {MOST_WAITING_BY_HAND} such runs wait.",
    _result_of,
    repeats=False,
    icon="play_circle",
)
DELETE: Act[Schedule] = deleting("a schedule and its history", "The tasks that it started stay.")
SCHEDULES = Resource("schedules", "schedule", Schedule, save, (RUN_NOW, PAUSE, RESUME, DELETE), ("agent",))
RUNS = Resource("runs", "run", ScheduledRun, related=("task",), order=("-due_at", "-id"))


def _content_of(schedule: Schedule) -> dict[str, object]:
    """Kept with the run, so that a repeated start has the same content though the schedule was edited."""
    return {"agent": schedule.agent, "text": schedule.text, "inputs": schedule.inputs}


def claim_due() -> int:
    """Writes the runs that are due by the database's clock, and has them started."""
    now = sql.database_time()
    due = Schedule.objects.select_related("agent").filter(paused_at=None, next_at__lte=now, owner__is_active=True)
    claimed = [schedule.pk for schedule in due.order_by("next_at")[:AT_ONCE] if _claim(schedule, now)]
    RUNS_TO_START.publish(*claimed)
    return len(claimed)


def _claim(schedule: Schedule, now: datetime.datetime) -> bool:
    first = schedule.next_at
    try:
        following = next(times(schedule, now), None)
        missed = _missed(schedule, now)
    except InvalidFields as wrong:  # the time zone is no more in the system's data
        pause(schedule, str(wrong))
        return False
    with sql.write_transaction():
        still = Schedule.objects.filter(pk=schedule.pk, next_at=first, paused_at=None)
        if not still.update(next_at=following):
            return False
        waiting = ScheduledRun.objects.filter(schedule=schedule, state=State.WAITING).count()
        for place, (due_at, reason) in enumerate(missed):
            if not reason and waiting + place >= MOST_WAITING:
                reason = f"{MOST_WAITING} runs were waiting already."
            state = State.SKIPPED if reason else State.WAITING
            fields = {"state": state, "reason": reason, "created_at": now, **_content_of(schedule)}
            ScheduledRun.objects.get_or_create(schedule=schedule, due_at=due_at, defaults=fields)
    return True


def _missed(schedule: Schedule, now: datetime.datetime) -> list[tuple[datetime.datetime, str]]:
    """The due times until now that get a row, oldest first, each with the reason to skip it, if any."""
    first = schedule.next_at
    assert first is not None
    limit = schedule.catch_up_limit if schedule.catch_up == Schedule.CatchUp.ALL else 1
    moment = now + datetime.timedelta(microseconds=1)  # a run may be due exactly now
    before = takewhile(lambda due: due >= first, times(schedule, moment, backward=True))
    found = list(islice(before, limit)) or [first]
    is_late = now - found[0] > GRACE
    if is_late and schedule.catch_up == Schedule.CatchUp.NONE:
        return [(found[0], "The server was not running when it was due.")]
    return [(due, "") for due in reversed(found)]


def due_schedules() -> QuerySet[Schedule, uuid.UUID]:
    """Those with runs to start, whoever claimed their times."""
    is_time = Q(runs__try_at=None) | Q(runs__try_at__lte=sql.database_time())
    waiting = Schedule.objects.due().filter(is_time, runs__state=State.WAITING)
    return waiting.annotate(first=Min("runs__due_at")).order_by("first").values_list("pk", flat=True)


def start_runs_of(schedule_id: uuid.UUID) -> int:
    """Starts the waiting runs of a schedule in order, unless another job does so now. Returns how many started."""
    started = 0
    for schedule in Schedule.objects.filter(pk=schedule_id).claim(LEASE):
        try:
            runs = ScheduledRun.objects.filter(schedule=schedule_id, state=State.WAITING).order_by("due_at")
            for run in runs.select_related("schedule__owner", "agent"):
                if not schedule.extend(LEASE) or not _may_go_on(run):
                    break
                started += run.state == State.STARTED
        finally:
            schedule.release()
    return started


RUNS_TO_START = WorkList(
    "schedules", "automation.start_runs", start_runs_of, Schedule,
    due=due_schedules, waiting=lambda: ScheduledRun.objects.filter(state=State.WAITING),
    swept_at_once=None,  # those that wait for an earlier run must not be in others' way
)  # fmt: skip


def _may_go_on(run: ScheduledRun) -> bool:
    """Start a run, or settle it. False if it waits, and later ones must not overtake it."""
    now = sql.database_time()
    if run.try_at is not None and (given_up := _why_given_up(run, now)):
        # A limit is no fault of the schedule, so it goes on.
        return _settle(run, State.FAILED, f"{given_up} The last refusal was: {run.reason}") or True
    if (run.try_at is not None and run.try_at > now) or not _make_room(run):
        return False
    if run.state == State.WAITING:
        _start(run)
    return run.state != State.WAITING


def _why_given_up(run: ScheduledRun, now: datetime.datetime) -> str:
    """Why it is too late for a run that was refused; "" if it is not."""
    if now - run.created_at > TRIED_FOR:
        return f"It was tried for {TRIED_FOR.days * 24} hours."
    newer = ScheduledRun.objects.filter(schedule=run.schedule_id, is_manual=False, due_at__gt=run.created_at)
    return "It was tried until the next run was due." if newer.exists() else ""


def _make_room(run: ScheduledRun) -> bool:
    """Apply the overlap policy. False if the run has to wait for an earlier one. In one session, its queue decides."""
    if run.schedule.sessions == Schedule.Sessions.SAME:
        return True
    earlier = Task.objects.unfinished().filter(scheduled_runs__schedule=run.schedule_id)
    working = list(earlier.exclude(scheduled_runs=run).select_related("context"))
    if not working:
        return True
    match run.schedule.overlap:
        case Schedule.Overlap.QUEUE:
            return False
        case Schedule.Overlap.SKIP:
            _settle(run, State.SKIPPED, "An earlier run was still working.")
        case Schedule.Overlap.CANCEL:
            for task in working:
                with suppress(TaskNotCancelable, TaskNotFound):
                    cancel_task(task)
    return True


def _start(run: ScheduledRun) -> bool:
    schedule = run.schedule
    try:
        begun = _send(run)
    except (QuotaExceeded, NotAccepting) as refusal:
        _try_later(run, refusal)
        return False
    except QueueFull as full:
        return _settle(run, State.SKIPPED, str(full)) and False
    except Refusal as refusal:
        _fail(run, str(refusal))
        return False
    with sql.write_transaction():
        started = _settle(run, State.STARTED, begun.reason, task_id=begun.task, started_at=sql.database_time())
        changed: dict[str, Any] = {"failures": 0, "session": begun.session}
        Schedule.objects.filter(pk=schedule.pk).exclude(**changed).update(**changed)
    return started


@dataclass(frozen=True, slots=True)
class Begun:
    """What a run began: its task, None while it waits in the queue of its session; and where the next one goes on."""

    task: uuid.UUID | None
    session: uuid.UUID | None
    reason: str = ""


def _send(run: ScheduledRun) -> Begun:
    """Raises as `targets.start`."""
    schedule = run.schedule
    content: dict[str, Any] = {"key": run.key, "text": run.text, "inputs": run.inputs}
    session, why_new = _session_for(run)
    if session is not None:
        task = targets.go_on(schedule.owner, session, **content)
        return Begun(task, session.pk, "" if task else QUEUED)
    where = schedule.workspace_id, run.agent
    receipt = targets.start(schedule.owner, *where, project=schedule.project, **content)
    return Begun(receipt.task, receipt.context if schedule.sessions == Schedule.Sessions.SAME else None, why_new)


def _session_for(run: ScheduledRun) -> tuple[Context | None, str]:
    """The session in which a run goes on; or None, and why it begins another than the run before."""
    schedule = run.schedule
    if schedule.sessions != Schedule.Sessions.SAME or schedule.session is None:
        return None, ""
    try:
        session = find_own_session(schedule.owner.principal_in(schedule.workspace_id), schedule.session)
    except ContextNotFound:
        return None, NEW_SESSION.format("was deleted")
    if session.archived_at is not None:
        return None, NEW_SESSION.format("is archived")
    if session.agent_id != run.agent_id:
        return None, NEW_SESSION.format("is with another agent")
    return session, ""


QUEUED = "Something worked in the session, so it was put into the session's queue."
NEW_SESSION = "It began a new session: the one before {}."


def link_queued_runs(context: Context, events: Sequence[Event]) -> None:
    """A ledger listener: notes the tasks of runs that waited in a session's queue."""
    for event in events:
        key = event.payload["message"]["messageId"] if event.type == EventType.USER_MESSAGE else ""
        if key.startswith(RUN_KEY):
            with suppress(ValueError):  # what callers name their messages
                run = ScheduledRun.objects.filter(pk=uuid.UUID(key.removeprefix(RUN_KEY)), task=None)
                run.filter(schedule__owner=context.owner_id).update(task=event.task_id)


def _try_later(run: ScheduledRun, refusal: Exception) -> None:
    """Wait as long as the refusal says. Where waiting is no help, the run fails."""
    seconds = int(headers_of(refusal, 429).get("Retry-After", 0))
    if not seconds:
        _fail(run, str(refusal))
        return
    wait = datetime.timedelta(seconds=min(seconds, MOST_SECONDS_BETWEEN_TRIES))
    waits = ScheduledRun.objects.filter(pk=run.pk, state=State.WAITING)
    waits.update(reason=str(refusal)[:500], try_at=sql.database_time() + wait)


def _fail(run: ScheduledRun, reason: str) -> None:
    if _settle(run, State.FAILED, reason):
        _count_failure(run.schedule)


def _settle(run: ScheduledRun, state: State, reason: str = "", **fields: object) -> bool:
    run.state = state
    # What has started is recorded also if the schedule was paused at that moment.
    before = (State.WAITING, State.SKIPPED) if state == State.STARTED else (State.WAITING,)
    waits = ScheduledRun.objects.filter(pk=run.pk, state__in=before)
    return bool(waits.update(state=state, reason=reason[:500], **fields))


def _count_failure(schedule: Schedule) -> None:
    schedule.failures += 1
    Schedule.objects.filter(pk=schedule.pk).update(failures=schedule.failures)
    if schedule.failures >= FAILURES_BEFORE_PAUSE:
        because = f"{schedule.failures} runs in a row could not start. Correct the schedule, then resume it."
        if pause(schedule, because):
            _notify(schedule, because)


def _notify(schedule: Schedule, because: str) -> None:
    log.warning("schedule %s was paused: %s", schedule.pk, because)
    if not settings.EMAIL_URL:
        return
    try:
        send_mail(f"Your schedule “{schedule.name}” was paused", because, None, [schedule.owner.email])
    except OSError as error:  # includes smtplib's
        log.warning("the notice could not be sent by e-mail: %s", error)


def prune_runs(now: datetime.datetime | None = None) -> int:
    """Deletes runs of schedules that are older, or more of one schedule, than is kept.

    Runs that wait or whose task works are kept.
    """
    now = now or sql.database_time()
    ended = ScheduledRun.objects.exclude(state=State.WAITING).exclude(task__in=Task.objects.unfinished())
    deleted = sql.delete_in_batches(ended.filter(due_at__lt=now - datetime.timedelta(days=settings.SCHEDULE_RUN_DAYS)))
    kept = settings.SCHEDULE_RUNS_KEPT
    newer = ScheduledRun.objects.filter(schedule=OuterRef("pk")).order_by("-due_at")
    full = Schedule.objects.annotate(from_=Subquery(newer.values("due_at")[kept - 1 : kept])).exclude(from_=None)
    for schedule, oldest in full.values_list("pk", "from_").iterator():
        deleted += sql.delete_in_batches(ended.filter(schedule=schedule, due_at__lt=oldest))
    return deleted
