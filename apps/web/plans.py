"""Plans: their list and pages, their editor, and the page of a run."""

from __future__ import annotations

import hashlib
import io
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import cast

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import IntegrityError
from django.db.models import OuterRef, Q, QuerySet, Subquery
from django.http import FileResponse, Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.text import slugify
from django.views.decorators.http import require_http_methods, require_POST

import db
from apps.accounts.errors import NotFound
from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine.cancel import cancel_task
from apps.engine.send import send
from apps.plans import graphs, planner, progress, registry, runs
from apps.plans.definitions import OWN_INPUTS, PlanDefinition, as_yaml, line_of
from apps.plans.drafting import PLANNER
from apps.plans.graphs import plan_at
from apps.plans.models import PlanRun, Step
from apps.plans.person import waiting_in_run
from apps.plans.pictures import Graph
from apps.plans.progress import Progress, definition_graph, message_words, run_gantt, run_graph, waiting_reasons
from apps.plans.registry import may_change, register_plan
from apps.record.content import strict_json
from apps.record.content.parts import safe_file_name
from apps.record.content.schema_forms import Field, content_of_sample, fields_of, outline_of
from apps.record.errors import InvalidParams
from apps.record.events import JSON
from apps.record.models import INTERRUPTED_STATES, Artifact, Task, TaskState
from apps.web import inbox
from apps.web.agents import ACCESS_CHOICES
from apps.web.roles import refuse
from apps.web.sessions.sending import json_action, message_from_form, message_id, refuse_too_large
from apps.web.shell import page, principal_of, reader_view
from templating import TemplateProblem

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
    return page(request, "web/plans.html", **about)


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
    return page(request, "web/plan.html", **about)


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


MOST_PROBLEMS = 100


@dataclass(slots=True)
class PlanForm:
    """The form of a plan's editor: its fields, and the problems of the definition by path."""

    text: str
    slug: str = ""
    access: str = ""
    base: str = ""  # the number of the version that the person edits
    problems: list[tuple[str, str]] = field(default_factory=list)
    definition: PlanDefinition | None = None

    @classmethod
    def read(cls, request: HttpRequest) -> PlanForm:
        given = (request.POST.get(name, "").replace("\x00", "") for name in ("definition", "slug", "access", "base"))
        text, slug, access, base = given
        return cls(text.replace("\r\n", "\n"), slug.strip(), access, base)

    def validate(self, user: User, slug: str) -> None:
        """Parse and check the definition; problems are noted."""
        try:
            self.definition = PlanDefinition.from_yaml(self.text)
            registry.validate(self.definition, slug, user.principal)
        except ValidationError as error:
            self.add_errors(error)

    def add_errors(self, error: ValidationError) -> None:
        told = error.message_dict if hasattr(error, "error_dict") else {"file": error.messages}
        self.problems += [(name, sentence) for name, sentences in told.items() for sentence in sentences]

    @property
    def graph(self) -> Graph | None:
        return progress.definition_graph(self.definition) if self.definition else None

    @property
    def shown_problems(self) -> list[tuple[str, str, int]]:
        """Path, sentence, and the line of the definition or 0."""
        outside = ("file", "slug", "access", "__all__", "")
        shown = self.problems[:MOST_PROBLEMS]
        return [(path, told, 0 if path in outside else line_of(self.text, path)) for path, told in shown]


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def edit_plan(request: HttpRequest, slug: str = "") -> HttpResponse:
    """The editor of a plan that the person may change; without a slug, of a new private plan."""
    user = cast("User", request.user)
    refuse(user, request.resolver_match)  # before the form is filled in
    plan = registry.find_plan(user.principal, slug) if slug else None
    if plan and not may_change(user, plan):
        raise PermissionDenied
    version = plan.current_version if plan else None
    number, text = (str(version.number), as_yaml(version.content)) if version else ("", "")
    draft = "" if plan else planner.draft_of(user.principal, request.GET.get("draft", ""))
    is_sent = request.method == "POST"
    shown = text or draft or registry.EXAMPLE_PLAN
    form = PlanForm.read(request) if is_sent else PlanForm(shown, slug, plan.access if plan else "", number)
    slug = slug or form.slug
    form.validate(user, slug)
    if is_sent and plan and form.base != number:
        said = f"Version {number} was saved while you were editing. Compare it with yours, then save again."
        form.problems.append(("file", said))
        form.base = number
    if is_sent and plan is None and Agent.objects.filter(slug=slug).exists():
        form.problems.append(("slug", _slug_is_taken(slug)))
    if is_sent and _save(user, form, slug, plan):
        return redirect("web:plan", slug)
    if not (plan or is_sent or form.slug) and form.definition:
        form.slug = slugify(form.definition.name)[:63]
    about = {"form": form, "plan": plan, "is_draft": bool(draft), "choices": _access_choices(user, plan)}
    return page(request, "web/plan_edit.html", **about)


@require_POST
@login_required
def check_plan(request: HttpRequest) -> HttpResponse:
    """The problems of a definition, and its graph if it can be parsed."""
    form = PlanForm.read(request)
    form.validate(cast("User", request.user), form.slug)
    return render(request, "web/_plan_checked.html", {"form": form})


def _save(user: User, form: PlanForm, slug: str, plan: Agent | None) -> bool:
    if form.problems or form.definition is None:
        return False
    policies = {}
    if form.access and form.access != (plan.access if plan else Agent.Access.WORKSPACE):
        if form.access not in _access_choices(user, plan):
            form.problems.append(("access", "Choose one of the listed options."))
            return False
        policies["access"] = form.access
    try:
        register_plan(slug, form.definition, author=user, **policies)
    except ValidationError as error:
        form.add_errors(error)
        return False
    except IntegrityError:  # somebody took the slug just now
        form.problems.append(("slug", _slug_is_taken(slug)))
        return False
    return True


def _slug_is_taken(slug: str) -> str:
    return f"The name {slug} is taken. Choose another short name."


def _access_choices(user: User, plan: Agent | None) -> dict[str, str]:
    """Only operators of agents choose who may use the plan."""
    if not user.has_perm("agents.change_agent"):
        return {}
    now = {plan.access: plan.get_access_display()} if plan and plan.access not in ACCESS_CHOICES else {}
    return {**ACCESS_CHOICES, **now}


REDRAW_SECONDS = 10  # between redraws of a working run
POLL_SECONDS, LARGE_POLL_SECONDS = 2, 10  # the longer for more than LARGE_RUN steps
LARGE_RUN = 200
MOST_REASONS = 50
MOST_ARTIFACTS = 200


@reader_view
def plan_run(request: HttpRequest, task: uuid.UUID) -> HttpResponse:
    found = runs.find_run(principal_of(request), task)
    progress = _run_progress(found)
    about = _status_context(request, found, progress) | _questions_context(principal_of(request), found, progress)
    return page(request, "web/plan_run.html", **about)


@reader_view
def run_questions(request: HttpRequest, task: uuid.UUID) -> HttpResponse:
    principal = principal_of(request)
    found = runs.find_run(principal, task)
    about = _questions_context(principal, found, _run_progress(found))
    return render(request, "web/_inbox.html", about)


@reader_view
def run_status(request: HttpRequest, task: uuid.UUID) -> HttpResponse:
    """The current status of a run; 204 if the page already shows it (`?seen=`)."""
    found = runs.find_run(principal_of(request), task)
    progress = _run_progress(found)
    if _fingerprint(found, progress) == request.GET.get("seen"):
        return HttpResponse(status=HTTPStatus.NO_CONTENT)
    return render(request, "web/_plan_status.html", _status_context(request, found, progress))


@json_action
async def control_run(request: HttpRequest, principal: Principal, task: uuid.UUID) -> HttpResponse:
    do = request.POST.get("do", "")
    await db.run(_control, principal, task, do)
    return JsonResponse({"done": do})


@json_action
async def repeat_run(request: HttpRequest, principal: Principal, task: uuid.UUID) -> HttpResponse:
    """Run the plan again from a step. The same message starts one run only."""
    earlier = await db.run(PlanRun.objects.find, principal, task)
    sent = await db.run(runs.rerun, principal, earlier, request.POST.get("step", ""), key=message_id(request))
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


def _run_progress(task: Task) -> Progress | None:
    found = PlanRun.objects.select_related("version").filter(pk=task.pk).first()
    return Progress.of(found) if found else None


def _status_context(request: HttpRequest, task: Task, progress: Progress | None) -> JSON:
    """The parts of the page that change during a run. Before a worker has started it, the graph is the plan's."""
    about: JSON = {
        "task": task,
        "run": progress.run if progress else None,
        "seen": _fingerprint(task, progress),
        "said": message_words(task.status_message),
        "is_over": task.is_finished,
        "asks": TaskState(task.state).is_interrupted,
        "may_use_plan": task.agent.is_open_to(principal_of(request)),
    }
    if progress is None:
        definition = registry.definition_of(task.agent)
        drawn = definition_graph(definition) if definition else None
        return about | {"graph": drawn, "goes_on": not task.is_finished}
    now, newest = timezone.now(), progress.latest_rounds()
    return about | {
        "graph": run_graph(progress, now, _task_url),
        "gantt": run_gantt(progress, now, _task_url, is_over=task.is_finished),
        "reasons": [] if task.is_finished else waiting_reasons(progress)[:MOST_REASONS],
        "delivered": _delivered(task, progress),
        "done": sum(step.state in Step.SETTLED for step in newest),
        "total": len(newest),
        "poll_seconds": LARGE_POLL_SECONDS if len(newest) > LARGE_RUN else POLL_SECONDS,
        "restart_steps": _step_titles(task, progress.run) if task.is_finished else [],
        "goes_on": not task.is_finished or progress.run.finished_at is None,  # its children may end later
    }


def _task_url(task: Task) -> str:
    return reverse("web:task", args=[task.pk])


def _fingerprint(task: Task, progress: Progress | None) -> str:
    """Changes when the page would show something else."""
    if progress is None:
        return f"{task.state}-{task.status_event}"
    stands = [
        (step.key, step.item, step.round, step.attempt, step.state, step.phase, step.task and step.task.state)
        for step in progress.steps
    ]
    works = any(step.state == Step.State.RUNNING for step in progress.steps)
    time = int(timezone.now().timestamp()) // REDRAW_SECONDS if works and not task.is_finished else 0
    whole = repr((task.state, task.status_event, progress.run.paused_at, progress.run.finished_at, stands, time))
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def _questions_context(principal: Principal, task: Task, progress: Progress | None) -> JSON:
    if progress is not None:
        waiting = waiting_in_run(principal, progress.run)
    else:
        waiting = Task.objects.of(principal).filter(pk=task.pk, state__in=INTERRUPTED_STATES)
    address = reverse("web:plan-questions", args=[task.pk])
    return inbox.inbox_context(principal, waiting) | {"address": address, "is_of_run": True}


def _delivered(task: Task, progress: Progress) -> list[tuple[str, list[Artifact]]]:
    steps = {step.task_id: step for step in progress.steps if step.task_id}
    rows = Artifact.objects.delivered().filter(Q(task=task.pk) | Q(task__in=steps.keys())).select_related("task")
    kept = rows.defer("parts", "metadata", "task__status_message", "task__slot", "task__metadata")
    found: dict[uuid.UUID, list[Artifact]] = defaultdict(list)
    for row in kept.order_by("task__created_at", "first_event")[:MOST_ARTIFACTS]:
        found[row.task_id].append(row)
    groups = [("Result of the plan", found[task.pk])] if task.pk in found else []
    return groups + [
        (inbox.numbered_title(progress.plan, step), found[key]) for key, step in steps.items() if key in found
    ]


def _step_titles(task: Task, run: PlanRun) -> list[tuple[str, str]]:
    """The steps of the plan's current version, from which the run can be repeated."""
    plan = plan_at(task.agent.current_version_id or run.version_id)
    return [(key, plan.title_of(key)) for key in plan.definition.steps]


def _control(principal: Principal, key: uuid.UUID, do: str) -> None:
    task = runs.find_run(principal, key)
    if do == "stop":
        cancel_task(task)
        return
    acts = {"pause": runs.pause_run, "resume": runs.resume_run}
    if do not in acts:
        raise InvalidParams("Choose pause, resume or stop.", "do")
    if not acts[do](PlanRun.objects.find(principal, key)):
        raise InvalidParams(f"You cannot {do} this run now: its state has changed.", "do")
