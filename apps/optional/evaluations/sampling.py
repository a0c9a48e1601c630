"""Checks a part of an agent's real answers, after the turns. Nothing waits for it.

Turns are chosen by the id of their run, so that each is chosen once. Only answers in sessions count that the person who
switched it on may see; what was found is deleted with the session.
"""

from __future__ import annotations

import asyncio
import datetime
import logging

from django.db.models import Count, Q, QuerySet
from django.db.models.functions import TruncDate
from django.utils import timezone

from apps.agents.models import Agent
from apps.optional.evaluations import checks
from apps.optional.evaluations.models import Result, Sample, Sampling
from apps.record import wire
from apps.record.execution import Run
from apps.record.models import Message, Task, TaskState
from parley import db
from parley.db.sql import Keys
from parley.work import WorkList

log = logging.getLogger("parley.evaluations")
LEASE = datetime.timedelta(minutes=2)  # longer than a judge may take
SETTLING = datetime.timedelta(seconds=10)  # until all turns that ended by then are seen
AT_ONCE = 200  # turns that are chosen from
MOST_TRIES = 5
FIRST_RETRY, LONGEST_RETRY = 30.0, 600.0  # seconds


def due_samples() -> QuerySet[Sample, int]:
    """Those to check, after choosing among the turns that ended."""
    for one in Sampling.objects.filter(percent__gt=0, owner__is_active=True).select_related("agent"):
        choose(one)
    return Sample.objects.due().values_list("pk", flat=True)


def choose(sampling: Sampling) -> None:
    """Note the turns of tasks that were completed since the last time and are to be checked."""
    until = timezone.now() - SETTLING
    ended = Run.objects.filter(finished_at__gt=sampling.chosen_until, finished_at__lte=until, state=Run.State.DONE)
    of_agent = ended.filter(agent=None, task__agent=sampling.agent_id, task__state=TaskState.COMPLETED)
    columns = ("pk", "task", "task__context", "input__agent__number", "finished_at")
    found = list(of_agent.order_by("finished_at").values_list(*columns)[:AT_ONCE])
    if len(found) == AT_ONCE:
        until = found[-1][-1]
    own = set(Result.objects.filter(task__in=[one[1] for one in found]).values_list("task", flat=True))
    Sample.objects.bulk_create(
        (
            Sample(
                sampling=sampling, run=run, task=task, context=context, version=version, finished_at=at, next_try_at=at
            )
            for run, task, context, version, at in found
            if task not in own and run.int % 100 < sampling.percent
        ),
        ignore_conflicts=True,
    )
    Sampling.objects.filter(pk=sampling.pk).update(chosen_until=until)


async def check(key: int) -> None:
    """Checks the answer of a turn that was chosen."""
    await asyncio.to_thread(db.with_database, _check, key)  # a judge takes too long for a thread that others need


def _check(key: int) -> None:
    for sample in Sample.objects.select_related("sampling__owner").filter(pk=key).claim(LEASE):
        try:
            problems = _problems_of(sample)
        except Exception:
            log.exception("an answer of task %s could not be checked", sample.task)
            if sample.tries < MOST_TRIES:
                sample.retry(FIRST_RETRY, LONGEST_RETRY)
            else:
                sample.held.delete()
            continue
        if problems is None:
            sample.held.delete()
        else:
            state = Result.State.FAILED if problems else Result.State.PASSED
            sample.release(state=state, problems=problems)


def _problems_of(sample: Sample) -> list[str] | None:
    """None if its session is gone, or not for the person who switched sampling on."""
    expected, owner = sample.sampling, sample.sampling.owner
    task = Task.objects.select_related("context").filter(pk=sample.task).first()
    if task is None or owner is None or not owner.is_active:
        return None
    if not Task.objects.visible_to(owner.principal_in(task.workspace_id)).filter(pk=task.pk).exists():
        return None
    parts = checks.parts_of(wire.load_task(task))
    problems = checks.problems_of(expected, parts)
    if not problems and expected.judged_by.strip():
        asked = Message.objects.filter(task=task, role=Message.Role.USER).order_by("-index").first()
        message = checks.text_of(asked.parts) if asked else ""
        problems = asyncio.run(checks.judge(expected, message, checks.text_of(parts)))
    return problems


def erase(contexts: Keys) -> None:
    """Delete what was found in the contexts (`before_erasure`)."""
    Sample.objects.filter(context__in=contexts).delete()


CHECKED = Q(state__in=(Result.State.PASSED, Result.State.FAILED))
PASSED = Q(state=Result.State.PASSED)


def counts_by_version(agent: Agent, since: datetime.datetime) -> dict[int | None, tuple[int, int]]:
    """How many answers of each version were checked, and how many passed."""
    rows = Sample.objects.filter(CHECKED, sampling__agent=agent, finished_at__gte=since).order_by()
    counted = rows.values("version").annotate(checked=Count("pk"), passed=Count("pk", filter=PASSED))
    return {one["version"]: (one["checked"], one["passed"]) for one in counted}


def counts_by_day(agent: Agent, since: datetime.datetime) -> list[tuple[datetime.date, int, int]]:
    """The same for each day (UTC) with any, oldest first."""
    rows = Sample.objects.filter(CHECKED, sampling__agent=agent, finished_at__gte=since).order_by()
    by_day = rows.values(day=TruncDate("finished_at", tzinfo=datetime.UTC))
    counted = by_day.annotate(checked=Count("pk"), passed=Count("pk", filter=PASSED)).order_by("day")
    return [(one["day"], one["checked"], one["passed"]) for one in counted]


SAMPLES_TO_CHECK = WorkList(
    "samples", "evaluations.check_sample", check, Sample, "finished_at", due=due_samples, at_once=2
)
