"""The form of agents that people make: new, edit, try, delete; and the pictures of agents."""

from __future__ import annotations

from http import HTTPStatus
from typing import cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import IntegrityError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.models import User
from apps.agents.models import Agent, AgentPicture
from apps.agents.pages.agents import console_state
from apps.conversations.pages.session.messages import prose_html, with_code_tools
from apps.model_agents import making
from apps.model_agents.forms import AgentForm
from apps.record.content import rendering
from apps.web.roles import refuse
from apps.web.shell import agent_or_404, page, reader_view
from parley.db.sql import write_transaction

LONGEST_PROSE = 200_000  # characters


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def edit_agent(request: HttpRequest, slug: str = "") -> HttpResponse:
    """The form; without a slug, of a new agent. 422 if it has errors."""
    user = cast("User", request.user)
    agent = _own_or_404(user, slug) if slug else None
    refuse(user, request.resolver_match)  # before the form is filled in
    problem = "" if agent else making.why_not_make(user)
    if request.method == "POST":
        form = _bound(request, agent)
        if form.is_valid():  # draws the picture, before others wait to write
            drawn = form.cleaned_data["drawing"]
            with write_transaction():
                form = _bound(request, _own_or_404(user, slug) if slug else None)  # as it is now
                form.drawn = drawn
                problem = "" if agent else making.why_not_make(user)  # of a limit that others reach, too
                if form.is_valid() and not problem and _save(form, user):
                    if form.is_candidate:
                        return redirect("web:agent-versions", slug)
                    return redirect("web:agent" if form.instance.is_enabled else "web:edit-agent", form.instance.slug)
    else:
        form = AgentForm(user, instance=agent)
    response = page(request, "agents/agent_edit.html", form=form, agent=agent, problem=problem)
    if form.is_bound:
        response.status_code = HTTPStatus.UNPROCESSABLE_ENTITY
    return response


def _own_or_404(user: User, slug: str) -> Agent:
    found = Agent.objects.editable_by(user).select_related("current_version", "workspace").filter(slug=slug).first()
    if found is None:
        raise Http404
    return found


def _bound(request: HttpRequest, agent: Agent | None) -> AgentForm:
    return AgentForm(cast("User", request.user), request.POST, request.FILES, instance=agent)


def _save(form: AgentForm, user: User) -> bool:
    try:
        with write_transaction():
            making.save(form, user)
    except ValidationError as error:
        for name, sentences in error.message_dict.items():
            form.add_error(name if name in form.fields else None, sentences)
    except IntegrityError:  # somebody took the slug just now
        form.add_error("slug", "Another agent has this name now. Choose another.")
    return not form.errors


@require_POST
@login_required
def try_draft(request: HttpRequest) -> JsonResponse:
    """Make the draft of the form, and say how to call it; or the problems by field."""
    user = cast("User", request.user)
    agent = _own_or_404(user, slug) if (slug := request.POST.get("of", "")) else None
    if agent is None and (problem := making.why_not_make(user)):
        raise PermissionDenied(problem)
    given = request.POST.copy()
    given["name"] = given.get("name", "").strip() or "Draft"
    with write_transaction():
        form = AgentForm(user, given, instance=agent)
        if not form.is_valid():
            problems = {name: " ".join(map(str, told)) for name, told in form.errors.items()}
            return JsonResponse({"problems": problems}, status=HTTPStatus.UNPROCESSABLE_ENTITY)
        draft = making.try_draft(form, user, agent)
    return JsonResponse(console_state(draft))


@require_POST
@login_required
def draft_prose(request: HttpRequest) -> HttpResponse:
    """An answer of a draft as sessions show it. It is kept nowhere."""
    text = request.POST.get("text", "")[:LONGEST_PROSE].replace("\x00", "")
    return HttpResponse(prose_html(with_code_tools(rendering.render_markdown(text))))


@require_POST
@login_required
def delete_agent(request: HttpRequest, slug: str) -> HttpResponse:
    """Delete it, or switch it off if it has sessions; `restore` switches it on again."""
    user = cast("User", request.user)
    agent = _own_or_404(user, slug)
    if "restore" in request.POST:
        try:
            making.set_enabled(agent, user, True)
        except ValidationError as error:
            messages.error(request, " ".join(error.messages))
            return redirect("web:edit-agent", slug)
        return redirect("web:agent" if agent.is_open_to(user.principal) else "web:edit-agent", slug)
    if making.delete(agent, user):
        messages.success(request, f"“{agent.name}” is deleted.")
    else:
        messages.success(request, f"“{agent.name}” is retired: nobody can start a session with it. Its sessions stay.")
    return redirect("web:agents")


@reader_view
def picture(request: HttpRequest, slug: str) -> HttpResponse:
    """The agent's picture, which Parley drew (`pictures`). Its address changes with it."""
    agent = Agent.objects.editable_by(cast("User", request.user)).filter(slug=slug).first()
    agent = agent or agent_or_404(request, slug)
    found = AgentPicture.objects.filter(agent=agent).first()
    if found is None:
        raise Http404
    response = HttpResponse(bytes(found.content), content_type="image/png")
    response["Cache-Control"] = "private, max-age=31536000, immutable"
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    return response
