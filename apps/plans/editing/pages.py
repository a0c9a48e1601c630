"""The editor of plans: its page, and what it shows after each edit of the picture or of the text."""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, cast

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import path
from django.utils.text import slugify
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.agents.pages.agents import ACCESS_CHOICES
from apps.conversations.pages.session.messages import prose_html, with_code_tools
from apps.conversations.pages.session.sending import json_action, refusal_response
from apps.plans import planner, progress, registry
from apps.plans.editing import edits, trials
from apps.plans.editing.chats import plan_of_session
from apps.plans.editing.starts import starts, usual_agent
from apps.plans.editing.step_form import StepForm, agents_for, step_form
from apps.plans.editing.trials import Sample, samples_of
from apps.plans.forms import PlanForm
from apps.plans.pictures import Graph
from apps.plans.registry import PlanChanged
from apps.record.content import rendering
from apps.record.errors import ContextNotFound, InvalidFields, InvalidParams, Refusal
from apps.record.events import JSON
from apps.web.resources import RefusableForm
from apps.web.roles import refuse
from apps.web.shell import page


class EditorForm(RefusableForm, PlanForm):
    """Only operators of agents choose who may use the plan (`choices`)."""

    access = forms.CharField(required=False)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        now = self.initial.setdefault("access", self.instance.access)
        offered = {now: self.instance.get_access_display(), **ACCESS_CHOICES}
        self.choices = offered if self.user.has_perm(registry.MAY_SHARE) else {}

    def is_saved(self, plan: Agent | None) -> bool:
        """Save the plan of a valid form. If that is refused, the form says why."""
        assert self.read is not None
        given = self.cleaned_data
        slug, access = plan.slug if plan else given["slug"], given["access"]
        base = int(given["base"]) if given["base"] else None
        if self.choices and access not in ("", *self.choices):
            self.add_error("access", "Choose one of the listed options.")
            return False
        try:
            as_candidate = bool(self.data.get("as_candidate"))
            registry.save_plan(self.user, plan, slug, self.read, base=base, access=access, as_candidate=as_candidate)
        except (InvalidFields, PlanChanged) as refused:
            self.add_refusal(refused)
        return not self.errors

    @property
    def told(self) -> list[tuple[str, str, int]]:
        """What is wrong: path, sentence, and the line of the definition or 0."""
        others = {name: said for name, said in self.errors.items() if name != "definition" or not self.problems}
        return [*self.problems, *((name, str(one), 0) for name, said in others.items() for one in said)]

    @property
    def graph(self) -> Graph | None:
        return progress.definition_graph(self.read, "#step-{}".format) if self.read else None

    @property
    def listed(self) -> list[tuple[str, str, str]]:
        """The steps in the order of the definition: key, title, who does it."""
        doers = {one.box.key: one.box.agent for one in self.graph.boxes} if self.graph else {}
        return [(key, self.read.title_of(key), doers[key]) for key in self.read.steps] if self.read else []


@dataclass(frozen=True)
class Shown:
    """What the editor shows of a definition: its problems and picture, and the form of a step if one is open."""

    form: EditorForm
    panel: StepForm | None
    samples: list[Sample]

    @classmethod
    def of(cls, user: User, text: str, slug: str, step: str) -> Shown:
        form = EditorForm.by(user)()
        form.check(text, slug)
        panel, samples = None, list[Sample]()
        if step:
            with suppress(InvalidParams):  # the problems say why
                panel = step_form(text, step, user.principal)
                samples = samples_of(panel.content, panel.key, user.principal, slug)
        return cls(form, panel, samples)

    def as_json(self, request: HttpRequest, text: str) -> JSON:
        """HTML of each part. A picture that cannot be drawn is "": the editor keeps the last one."""
        context = {"form": self.form, "panel": self.panel, "samples": self.samples}

        def part(name: str) -> str:
            return render_to_string(f"plans/{name}.html", context, request)

        return {
            "text": text,
            "step": self.panel.key if self.panel else "",
            "problems": part("_plan_problems"),
            "picture": part("_plan_picture") if self.form.read else "",
            "panel": part("_step_form") if self.panel else "",
        }


@dataclass(frozen=True)
class Beginning:
    """What the editor of a new plan opens with. `about` says where it is from, `left_out` what is not in it."""

    text: str
    about: str
    left_out: list[str] = field(default_factory=list)


FROM_DRAFT = "This is the planner’s draft. Look at each step and change what you like. Save it, then run it."
FROM_START = "Nothing is saved yet. Choose a step to change it, try it, and save the plan."
FROM_CHAT = "These are the messages of the session, each with the agent that answered it. Nothing is saved yet."


def _beginning(request: HttpRequest, principal: Principal) -> Beginning | None:
    """None if the person has still to choose. Raises Refusal."""
    if draft := planner.draft_of(principal, request.GET.get("draft", "")):
        return Beginning(draft, FROM_DRAFT)
    if session := request.GET.get("session"):
        try:
            made = plan_of_session(principal, uuid.UUID(session))
        except ValueError:
            raise ContextNotFound from None
        return Beginning(made.text, FROM_CHAT, made.left_out)
    if start := starts().get(request.GET.get("start", "")):
        return Beginning(start.filled(request.GET.dict(), agents_for(principal)), FROM_START)
    return None


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def new_plan(request: HttpRequest) -> HttpResponse:
    """What a new plan can start from; or its editor, once that is chosen. Nothing is kept until it is saved."""
    user = cast("User", request.user)
    refuse(user, request.resolver_match)
    try:
        beginning = None if request.method == "POST" else _beginning(request, user.principal)
    except Refusal as refused:
        messages.error(request, str(refused))
        beginning = None
    if beginning is None and request.method != "POST":
        agents = agents_for(user.principal)
        usual = usual_agent(agents) if agents else ""
        return page(request, "plans/plan_starts.html", starts=starts(), agents=agents, usual=usual)
    return _edit(request, user, None, beginning)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def edit_plan(request: HttpRequest, slug: str) -> HttpResponse:
    """The editor of a plan that the person may change."""
    user = cast("User", request.user)
    refuse(user, request.resolver_match)  # before the form is filled in
    return _edit(request, user, registry.find_own_plan(user.principal, user, slug))


def _edit(request: HttpRequest, user: User, plan: Agent | None, beginning: Beginning | None = None) -> HttpResponse:
    row = plan or Agent(access=Agent.Access.WORKSPACE)
    initial = {"definition": beginning.text} if beginning else {}
    form = EditorForm.by(user)(request.POST or None, instance=row, initial=initial)
    if form.is_bound and form.is_valid() and form.is_saved(plan):
        return redirect("web:agent-versions" if plan and "as_candidate" in request.POST else "web:plan", row.slug)
    if not form.is_bound:
        form.check(form.initial["definition"], plan.slug if plan else "")
        form.initial["slug"] = slugify(form.read.name)[:63] if form.read else ""
    return page(request, "plans/plan_edit.html", form=form, plan=plan, beginning=beginning)


@require_POST
@login_required
def change_plan(request: HttpRequest) -> HttpResponse:
    """An edit of the definition, if `do` names one, and what the editor shows then. Nothing is saved."""
    user = cast("User", request.user)
    text, slug, do, step = (
        request.POST.get(name, "").replace("\x00", "").replace("\r\n", "\n")
        for name in ("definition", "slug", "do", "step")
    )
    try:
        if do:
            text, step = edits.apply(text, do, step, _values(request, user.principal, text, do, step))
    except InvalidParams as refused:
        return refusal_response(str(refused), HTTPStatus.UNPROCESSABLE_ENTITY, refused.field)
    return JsonResponse(Shown.of(user, text, slug, step).as_json(request, text))


def _values(request: HttpRequest, principal: Principal, text: str, do: str, step: str) -> edits.Values:
    """What the edit is given. Raises InvalidParams."""
    if do == "change":
        return step_form(text, step, principal).values_from(dict(request.POST.lists()))
    if do.startswith("add_"):
        known = dict(agents_for(principal))
        agent = edits.content_of(text)["steps"].get(step, {}).get("agent", "")
        return {"agent": agent if agent in known else next(iter(known), "")}
    return {name: request.POST.get(name, "") for name in ("key", "to")}


@json_action
async def try_step(request: HttpRequest, principal: Principal) -> HttpResponse:
    """What the agent of a step answers to sample data."""
    given = {
        name.removeprefix(trials.FIELD): value.replace("\r\n", "\n")
        for name, value in request.POST.items()
        if name.startswith(trials.FIELD) and isinstance(value, str)
    }
    text = request.POST.get("definition", "").replace("\x00", "").replace("\r\n", "\n")
    tried = await trials.try_step(principal, text, request.POST.get("step", ""), given)
    prose = prose_html(with_code_tools(rendering.render_markdown(tried.text))) if tried.text else ""
    html = render_to_string("plans/_step_tried.html", {"tried": tried, "prose": prose})
    return JsonResponse({"html": html})


urlpatterns = [
    path("plans/try", try_step, name="plan-try"),
    path("plans/new", new_plan, name="new-plan"),
    path("plans/check", change_plan, name="plan-check"),
    path("plans/<slug:slug>/edit", edit_plan, name="plan-edit"),
]
