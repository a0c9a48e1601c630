"""A run of a plan: its live picture, who worked when, what came of it, why it waits, and what is done with it."""

from __future__ import annotations

import hashlib
import uuid
from collections import defaultdict
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import path, reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

import db
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine.canceling import cancel_found
from apps.plans import controls, depicting, finding
from apps.plans.depicting import Progress
from apps.plans.models import PlanRun, Step
from apps.plans.plans import plan_at
from apps.plans.reasons import reasons
from apps.plans.waiting import asked_by
from apps.record.errors import InvalidParams, TaskNotFound
from apps.record.lifecycle import INTERRUPTED, TaskState
from apps.record.models import Artifact, Task
from apps.web import inbox
from apps.web.composing import message_id
from apps.web.principals import principal_of
from apps.web.sending import act
from apps.web.shell import page, zone_of

JSON = dict[str, Any]

UNCHANGED = 204  # htmx leaves the page as it is
STEADY = 10  # seconds after which a picture in which somebody works is drawn again, though nothing happened
PACE, LARGE_PACE, LARGE = 2, 10, 200  # seconds from look to look, at a run of more steps than LARGE the longer ones
MOST_REASONS = 50
MOST_ARTIFACTS = 200


@dataclass(frozen=True, slots=True)
class Delivered:
    """An artifact, with the addresses of what is done with it."""

    row: Artifact
    look: str
    file: str
    provenance: str


@require_safe
@login_required
def run(request: HttpRequest, task: uuid.UUID) -> HttpResponse:
    """The page. Somebody else's run is not found, nor is a task that is none of a plan."""
    found = _task(principal_of(request), task)
    progress = _progress(found)
    about = _standing(request, found, progress) | _questions(principal_of(request), found, progress)
    return page(request, "web/plan_run.html", **about)


@require_safe
@login_required
def questions(request: HttpRequest, task: uuid.UUID) -> HttpResponse:
    """What it asks, as it is now."""
    principal = principal_of(request)
    found = _task(principal, task)
    about = _questions(principal, found, _progress(found))
    return render(request, "web/_inbox.html", about | {"zone": zone_of(request)})


@require_safe
@login_required
def standing(request: HttpRequest, task: uuid.UUID) -> HttpResponse:
    """How it stands; nothing where the page has that already (`?seen=`)."""
    found = _task(principal_of(request), task)
    progress = _progress(found)
    if _seen(found, progress) == request.GET.get("seen"):
        return HttpResponse(status=UNCHANGED)  # before anything is drawn
    with timezone.override(zone_of(request)):
        return render(request, "web/_plan_standing.html", _standing(request, found, progress))


@act
async def control(request: HttpRequest, principal: Principal, task: uuid.UUID) -> HttpResponse:
    """Pause it, let it go on, or stop it (`do`)."""
    do = request.POST.get("do", "")
    await db.run(_controlled, principal, task, do)
    return JsonResponse({"done": do})


@act
async def again(request: HttpRequest, principal: Principal, task: uuid.UUID) -> HttpResponse:
    """Run it again from the step that is chosen; the same message does so once."""
    earlier = await db.run(_run_of, principal, task)
    sent = await controls.run_again(principal, earlier, request.POST.get("step", ""), key=message_id(request))
    address = reverse("web:plan-run", args=[sent.task])
    return JsonResponse({"address": address}, status=HTTPStatus.CREATED)


def place_of(task: Task, principal: Principal) -> JSON:
    """For the page of a task: the plan that it is a run of, or the step and run that it belongs to."""
    about: JSON = {"is_plan": task.agent.kind == Agent.Kind.PLAN, "step": None}
    step = finding.step_of(principal, task.pk) if task.parent_id else None
    if step is not None:
        title = plan_at(step.run.version_id).title_of(step.key)
        about |= {"step": step, "step_title": title, "of": step.run.task}
    return about


def _task(principal: Principal, key: uuid.UUID) -> Task:
    found = finding.task_of_run(principal, key)
    if found is None:
        raise Http404
    return found


def _progress(task: Task) -> Progress | None:
    """How far it is; None before a worker has taken it up."""
    found = PlanRun.objects.select_related("version").filter(pk=task.pk).first()
    return Progress.of(found) if found else None


def _standing(request: HttpRequest, task: Task, progress: Progress | None) -> JSON:
    """What changes while it goes on. Before a worker has taken it up there is its plan alone."""
    about: JSON = {
        "task": task,
        "run": progress.run if progress else None,
        "seen": _seen(task, progress),
        "said": depicting.words_of(task.status_message),
        "is_over": task.is_finished,
        "asks": TaskState(task.state).is_interrupted,
        "may_use_plan": task.agent.is_open_to(principal_of(request)),
    }
    if progress is None:
        definition = finding.definition_of(task.agent)
        drawn = depicting.of_definition(definition) if definition else None
        return about | {"graph": drawn, "goes_on": not task.is_finished}
    now, newest = timezone.now(), progress.newest()
    return about | {
        "graph": depicting.of_run(progress, now, _address),
        "gantt": depicting.in_time(progress, now, _address, is_over=task.is_finished),
        "reasons": [] if task.is_finished else reasons(progress)[:MOST_REASONS],
        "delivered": _delivered(task, progress),
        "done": sum(step.state in Step.SETTLED for step in newest),
        "total": len(newest),
        "pace": LARGE_PACE if len(newest) > LARGE else PACE,
        "again": _titles(task, progress.run) if task.is_finished else [],
        "goes_on": not task.is_finished or progress.run.finished_at is None,  # what it called for may end after it
    }


def _address(task: Task) -> str:
    return reverse("web:task", args=[task.pk])


def _seen(task: Task, progress: Progress | None) -> str:
    """The same as long as there is nothing else to be seen."""
    if progress is None:
        return f"{task.state}-{task.status_event}"
    stands = [
        (step.key, step.item, step.round, step.attempt, step.state, step.phase, step.task and step.task.state)
        for step in progress.steps
    ]
    works = any(step.state == Step.State.RUNNING for step in progress.steps)
    time = int(timezone.now().timestamp()) // STEADY if works and not task.is_finished else 0
    whole = repr((task.state, task.status_event, progress.run.paused_at, progress.run.finished_at, stands, time))
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def _questions(principal: Principal, task: Task, progress: Progress | None) -> JSON:
    """What its steps ask; before a worker has taken it up, what it asks itself."""
    if progress is not None:
        waiting = asked_by(principal, progress.run)
    else:
        waiting = Task.objects.visible_to(principal).filter(pk=task.pk, state__in=INTERRUPTED)
    address = reverse("web:plan-questions", args=[task.pk])
    return inbox.questions(principal, waiting) | {"address": address, "is_of_run": True}


def _delivered(task: Task, progress: Progress) -> list[tuple[str, list[Delivered]]]:
    """What came of it, then what came of each step, by their titles."""
    titles = {step.task_id: step for step in progress.steps if step.task_id}
    rows = Artifact.objects.delivered().filter(Q(task=task.pk) | Q(task__in=titles.keys())).select_related("task")
    kept = rows.defer("parts", "metadata", "task__status_message", "task__slot", "task__metadata")
    found: dict[uuid.UUID, list[Delivered]] = defaultdict(list)
    for row in kept.order_by("task__created_at", "first_event")[:MOST_ARTIFACTS]:
        context = row.task.context_id
        look, file, way = (
            reverse(f"web:{view}", args=[context, row.task_id, row.artifact_id, *number])
            for view, number in (("artifact-look", ()), ("artifact-file", (0,)), ("artifact-provenance", ()))
        )
        found[row.task_id].append(Delivered(row, look, file, way))
    groups = [("The plan’s result", found[task.pk])] if task.pk in found else []
    for key, step in titles.items():
        if key in found:
            number = f" {step.item + 1}" if step.item >= 0 else ""
            groups.append((f"{progress.plan.title_of(step.key)}{number}", found[key]))
    return groups


def _titles(task: Task, run: PlanRun) -> list[tuple[str, str]]:
    """The steps from which it can be run again, as its plan is now."""
    plan = plan_at(task.agent.current_version_id or run.version_id)
    return [(key, plan.title_of(key)) for key in plan.definition.steps]


def _controlled(principal: Principal, key: uuid.UUID, do: str) -> None:
    task = finding.task_of_run(principal, key)
    if task is None:
        raise TaskNotFound
    if do == "stop":
        cancel_found(task)
        return
    acts = {"pause": controls.pause, "resume": controls.resume}
    if do not in acts:
        raise InvalidParams("Choose one of pause, resume and stop.", "do")
    if not acts[do](_run_of(principal, key)):
        raise InvalidParams(f"There is nothing to {do}: the run stands otherwise by now.", "do")


def _run_of(principal: Principal, key: uuid.UUID) -> PlanRun:
    found = PlanRun.objects.visible_to(principal).filter(pk=key).first()
    if found is None:
        raise TaskNotFound
    return found


urlpatterns = [
    path("plans/runs/<uuid:task>", run, name="plan-run"),
    path("plans/runs/<uuid:task>/standing", standing, name="plan-standing"),
    path("plans/runs/<uuid:task>/questions", questions, name="plan-questions"),
    path("plans/runs/<uuid:task>/control", control, name="plan-control"),
    path("plans/runs/<uuid:task>/again", again, name="plan-again"),
]
