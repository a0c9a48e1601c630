"""Plans: their list and pages, their editor, and the page of a run."""

from __future__ import annotations

import hashlib
import io
import uuid
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import cast

from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.http import FileResponse, Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import render
from django.urls import path, reverse
from django.utils import timezone

from apps.accounts.errors import NotFound
from apps.accounts.models import User
from apps.accounts.permissions import Permission
from apps.accounts.principals import Principal
from apps.accounts.requests.quotas import count_act
from apps.accounts.resources import NotNeeded
from apps.agents.models import Agent
from apps.agents.pages.agents import choices_of_versions
from apps.conversations.pages import inbox
from apps.conversations.pages.session.sending import (
    json_action,
    message_from_form,
    message_id,
    refuse_too_large,
    version_in,
)
from apps.engine.send import send
from apps.plans import graphs, progress, registry
from apps.plans.definitions import OWN_INPUTS, PlanDefinition, as_yaml
from apps.plans.drafting import PLANNER
from apps.plans.editing import pages as editor
from apps.plans.graphs import plan_at
from apps.plans.models import PlanRun, Step
from apps.plans.person import waiting_in_run
from apps.plans.progress import Progress, definition_graph, message_words, run_pictures
from apps.plans.registry import may_change
from apps.plans.running import runs
from apps.record.content import strict_json
from apps.record.content.parts import safe_file_name
from apps.record.content.schema_forms import Field, content_of_sample, fields_of, outline_of
from apps.record.errors import InvalidParams
from apps.record.events import JSON
from apps.record.models import INTERRUPTED_STATES, Artifact, Task, TaskState
from apps.web.shell import page, principal_of, reader_view
from parley import db
from parley.templating import TemplateProblem

MOST_PLANS = 200
RECENT_RUNS = 10  # runs on a page


@dataclass(frozen=True)
class InputForm:
    """The form that starts a plan: `fields`, or an `outline` of the inputs that are written as JSON."""

    slot: JSON
    fields: list[Field]
    outline: list[str]
    referenced: frozenset[str]  # which of text and files the plan uses

    @classmethod
    def of(cls, definition: PlanDefinition) -> InputForm:
        stated = definition.inputs
        properties = {name: one for name, one in stated.get("properties", {}).items() if name not in OWN_INPUTS}
        required = [name for name in stated.get("required", []) if name in properties]
        schema = {**stated, "type": "object", "properties": properties, "required": required}
        slot = {"name": "inputs", "schema": schema}
        fields = fields_of(slot) if properties else []
        outline = [] if fields or not properties else outline_of(slot)
        spoken = _referenced_inputs(definition) | (stated.get("properties", {}).keys() & set(OWN_INPUTS))
        return cls(slot, fields, outline, frozenset(spoken))

    @property
    def is_json(self) -> bool:
        """True if the inputs do not fit a form and must be written as JSON."""
        return not self.fields and bool(self.slot["schema"]["properties"])


def _referenced_inputs(definition: PlanDefinition) -> set[str]:
    found: set[str] = set()
    for step in definition.steps.values():
        for source in graphs.template_sources(step):
            try:
                found |= source.references.inputs
            except TemplateProblem:
                continue
    return found & set(OWN_INPUTS)


@reader_view
def plans(request: HttpRequest) -> HttpResponse:
    """The plans, each with the reader's newest run of it, and the reader's newest runs."""
    principal = principal_of(request)
    newest = runs_of(principal).filter(agent=OuterRef("pk")).order_by("-created_at")
    found = registry.sized(registry.visible_plans(principal)).annotate(
        last_run=Subquery(newest.values("pk")[:1]),
        last_state=Subquery(newest.values("state")[:1]),
        last_at=Subquery(newest.values("created_at")[:1]),
    )
    listed = list(found.order_by("name")[:MOST_PLANS])
    about = {"plans": listed, "runs": list(runs_of(principal)[:RECENT_RUNS])}
    about["planner"] = PLANNER if Agent.objects.visible_to(principal).filter(slug=PLANNER).exists() else ""
    return page(request, "plans/plans.html", **about)


@reader_view
def plan(request: HttpRequest, slug: str) -> HttpResponse:
    """The page of a plan: its graph, the form that starts it, and the reader's runs."""
    principal = principal_of(request)
    found = registry.find_plan(principal, slug)
    definition = registry.definition_of(found)
    about: JSON = {"graph": None, "inputs": None}
    if definition is not None:
        about = {"graph": progress.definition_graph(definition), "inputs": InputForm.of(definition)}
    about |= {
        "plan": found,
        "definition": definition,
        "runs": list(runs_of(principal).filter(agent=found)[:RECENT_RUNS]),
        "may_change": may_change(cast("User", request.user), found),
    }
    return page(request, "plans/plan.html", **about)


@reader_view
def plan_yaml(request: HttpRequest, slug: str) -> HttpResponse:
    found = registry.find_plan(principal_of(request), slug)
    if found.current_version is None:
        raise Http404
    return HttpResponse(as_yaml(found.current_version.content), content_type="text/plain; charset=utf-8")


@json_action
async def start_run(request: HttpRequest, principal: Principal, slug: str) -> HttpResponse:
    refuse_too_large(request)
    agent, inputs = await db.run(_plan_to_start, principal, slug)
    also = _json_inputs(request) or ([] if _has_content(request) else [{"data": {}}])
    message = message_from_form(request, agent, inputs.slot, uploaded=also)
    sent = await send(principal, agent, message, require_task=True)
    address = reverse("web:plan-run", args=[cast("uuid.UUID", sent.task)])
    return JsonResponse({"address": address}, status=HTTPStatus.CREATED)


def runs_of(principal: Principal) -> QuerySet[Task]:
    """The caller's runs of plans, newest first."""
    return runs.visible_runs(principal).order_by("-created_at", "-pk")


def _plan_to_start(principal: Principal, slug: str) -> tuple[Agent, InputForm]:
    agent = registry.find_plan(principal, slug)
    definition = registry.definition_of(agent)
    if definition is None:
        raise NotFound("The plan's definition cannot be read any more.")
    if why := registry.why_not_startable(definition, principal):
        raise InvalidParams(why)
    return agent, InputForm.of(definition)


def _json_inputs(request: HttpRequest) -> list[JSON]:
    """The inputs that were written as JSON, as a message part. Raises InvalidParams."""
    text = request.POST.get("inputs", "").strip()
    if not text:
        return []
    try:
        given = strict_json.read(text)
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise InvalidParams('Write the inputs as a JSON object, such as {"city": "Lisbon"}.', "inputs")
    return [{"data": given}]


def _has_content(request: HttpRequest) -> bool:
    filled = (
        one for name, ones in request.POST.lists() if name == "text" or name.startswith("answer-") for one in ones
    )
    return bool(request.FILES) or any(str(one).strip() for one in filled)


REDRAW_SECONDS = 10  # between redraws of a working run
POLL_SECONDS, LARGE_POLL_SECONDS = 2, 10  # the longer for more than LARGE_RUN steps
LARGE_RUN = 200
MOST_ARTIFACTS = 200


@reader_view
def plan_run(request: HttpRequest, task: uuid.UUID) -> HttpResponse:
    run = runs.find_run(principal_of(request), task)
    progress = Progress.of(run) if run.has_begun else None
    about = _status_context(request, run, progress) | _questions_context(principal_of(request), run)
    return page(request, "plans/plan_run.html", **about)


@reader_view
def run_questions(request: HttpRequest, task: uuid.UUID) -> HttpResponse:
    principal = principal_of(request)
    return render(request, "conversations/_inbox.html", _questions_context(principal, runs.find_run(principal, task)))


@reader_view
def run_status(request: HttpRequest, task: uuid.UUID) -> HttpResponse:
    """The current status of a run; 204 if the page already shows it (`?seen=`)."""
    run = runs.find_run(principal_of(request), task)
    progress = Progress.of(run) if run.has_begun else None
    if _fingerprint(run, progress) == request.GET.get("seen"):
        return HttpResponse(status=HTTPStatus.NO_CONTENT)
    return render(request, "plans/_plan_status.html", _status_context(request, run, progress))


@json_action
async def control_run(request: HttpRequest, principal: Principal, task: uuid.UUID) -> HttpResponse:
    """The act that `do` names."""
    run, act = await db.run(runs.find_run, principal, task), runs.PLAN_RUNS.act(request.POST.get("do", ""))
    if act is None:
        raise InvalidParams("Choose pause, resume or cancel.", "do")
    with suppress(NotNeeded):
        await db.run(act.perform, principal, run)
    return JsonResponse({"done": act.name})


@json_action
async def repeat_run(request: HttpRequest, principal: Principal, task: uuid.UUID) -> HttpResponse:
    """Run the plan again from a step. The same message starts one run only."""
    await db.run(count_act, principal)
    run = await db.run(runs.find_run, principal, task)
    version = await db.run(version_in, request, principal, run.task.agent)
    step = request.POST.get("step", "")
    sent = await db.run(runs.rerun, principal, run, step, key=message_id(request), version=version)
    address = reverse("web:plan-run", args=[sent.task])
    return JsonResponse({"address": address}, status=HTTPStatus.CREATED)


@reader_view
def sample_file(request: HttpRequest, task: uuid.UUID, name: str) -> HttpResponseBase:
    """A sample file that an open question of a visible task offers."""
    found = Task.objects.find(principal_of(request), task)
    samples = [part for field in fields_of(found.slot) for part in field.samples]
    part = next((one for one in samples if one["filename"] == name), None)
    if part is None:
        raise Http404
    content = content_of_sample(part) or b""
    response = FileResponse(io.BytesIO(content), as_attachment=True, filename=safe_file_name(name))
    response["X-Content-Type-Options"] = "nosniff"
    return response


def plan_context(task: Task, principal: Principal) -> JSON:
    """For the page of a task: whether it is a run of a plan, or the step and run that it belongs to."""
    about: JSON = {"is_plan": task.agent.kind == Agent.Kind.PLAN, "step": None}
    step = runs.step_of_task(principal, task.pk) if task.parent_id else None
    if step is not None:
        title = plan_at(step.run.version_id).title_of(step.key)
        about |= {"step": step, "step_title": title, "of": step.run.task}
    return about


def _status_context(request: HttpRequest, run: PlanRun, progress: Progress | None) -> JSON:
    """The parts of the page that change during a run. Before a worker has begun it, the graph is the plan's."""
    task = run.task
    about: JSON = {
        "task": task,
        "run": run,
        "acts": [act for act in runs.PLAN_RUNS.acts if act.is_offered(run)],
        "seen": _fingerprint(run, progress),
        "said": message_words(task.status_message),
        "is_over": task.is_finished,
        "asks": TaskState(task.state).is_interrupted,
        "may_use_plan": task.agent.is_open_to(principal_of(request)),
    }
    if progress is None:
        definition = registry.definition_of(task.agent)
        drawn = definition_graph(definition) if definition else None
        return about | {"graph": drawn, "goes_on": not task.is_finished}
    newest = progress.latest_rounds()
    may_run = about["may_use_plan"] and principal_of(request).can(Permission.SEND)
    again = f"{reverse('web:plan-run', args=[run.pk])}?from={{}}#again-title" if may_run else ""
    return about | {
        **run_pictures(progress, _task_url, again.format),
        "delivered": _delivered(task, progress),
        "done": sum(step.state in Step.SETTLED for step in newest),
        "total": len(newest),
        "poll_seconds": LARGE_POLL_SECONDS if len(newest) > LARGE_RUN else POLL_SECONDS,
        **(_restart_context(request, run) if task.is_finished and may_run else {}),
        "goes_on": not task.is_finished or run.finished_at is None,  # its children may end later
    }


def _restart_context(request: HttpRequest, run: PlanRun) -> JSON:
    """The form that runs it again, from the step `?from=`."""
    return {
        "restart_steps": runs.restart_steps(run),
        "restart_from": request.GET.get("from") or runs.first_unfinished_step(run),
        "versions": choices_of_versions(principal_of(request), run.task.agent),
    }


def _task_url(task: Task) -> str:
    return reverse("web:task", args=[task.pk])


def _fingerprint(run: PlanRun, progress: Progress | None) -> str:
    """Changes when the page would show something else."""
    task = run.task
    if progress is None:
        return f"{task.state}-{task.status_event}"
    stands = [
        (step.key, step.item, step.round, step.attempt, step.state, step.phase, step.task and step.task.state)
        for step in progress.steps
    ]
    works = any(step.state == Step.State.RUNNING for step in progress.steps)
    time = int(timezone.now().timestamp()) // REDRAW_SECONDS if works and not task.is_finished else 0
    whole = repr((task.state, task.status_event, run.paused_at, run.finished_at, stands, time))
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def _questions_context(principal: Principal, run: PlanRun) -> JSON:
    if run.has_begun:
        waiting = waiting_in_run(principal, run)
    else:
        waiting = Task.objects.of(principal).filter(pk=run.pk, state__in=INTERRUPTED_STATES)
    address = reverse("web:plan-questions", args=[run.pk])
    return inbox.inbox_context(principal, waiting) | {"address": address, "is_of_run": True}


def _delivered(task: Task, progress: Progress) -> list[tuple[str, list[Artifact]]]:
    steps = {step.task_id: step for step in progress.steps if step.task_id}
    rows = Artifact.objects.delivered().filter(Q(task=task.pk) | Q(task__in=steps.keys())).select_related("task")
    kept = rows.defer("parts", "metadata", "task__status_message", "task__slot", "task__metadata")
    found: dict[uuid.UUID, list[Artifact]] = defaultdict(list)
    for row in kept.order_by("task__created_at", "first_event")[:MOST_ARTIFACTS]:
        found[row.task_id].append(row)
    groups = [("Result of the plan", found[task.pk])] if task.pk in found else []
    return groups + [(progress.plan.numbered_title(step), found[key]) for key, step in steps.items() if key in found]


urlpatterns = [
    path("tasks/<uuid:task>/samples/<path:name>", sample_file, name="task-sample"),
    *editor.urlpatterns,
    path("plans/runs/<uuid:task>", plan_run, name="plan-run"),
    path("plans/runs/<uuid:task>/standing", run_status, name="plan-status"),
    path("plans/runs/<uuid:task>/questions", run_questions, name="plan-questions"),
    path("plans/runs/<uuid:task>/control", control_run, name="plan-control"),
    path("plans/runs/<uuid:task>/again", repeat_run, name="plan-again"),
    path("plans", plans, name="plans"),
    path("plans/<slug:slug>", plan, name="plan"),
    path("plans/<slug:slug>/yaml", plan_yaml, name="plan-yaml"),
    path("plans/<slug:slug>/runs", start_run, name="plan-start"),
]
