"""People's pages of projects: a list, one with its sessions and files, its form, and moving a session."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import path
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.permissions import Permission
from apps.accounts.requests.quotas import QuotaExceeded
from apps.agents.models import Agent
from apps.agents.pages.agents import last_used
from apps.agents.search import find_agents
from apps.automation.pages.targets import AgentForm
from apps.conversations.pages.home import chosen_agent
from apps.conversations.pages.session.sending import add_uploads, project_in
from apps.conversations.sessions import commands
from apps.optional.projects import files, places
from apps.optional.projects.models import Project, ProjectFile
from apps.optional.projects.projects import PROJECTS
from apps.record.errors import Refusal
from apps.record.projects import project_of
from apps.record.reading.lookup import find_own_session
from apps.web.resources import MOST_SHOWN, Pages, ResourceForm, do, words_of
from apps.web.shell import as_reader, page, principal_of, reader_view
from parley.registry import added

SESSIONS_SHOWN = 100


class ProjectForm(AgentForm):
    class Meta(ResourceForm.Meta):
        model = Project
        fields = ("name", "instructions", "agent", "options")
        widgets = {"instructions": forms.Textarea({"rows": 10})}


def _context(request: HttpRequest, project: Project) -> dict[str, Any]:
    principal = principal_of(request)
    is_run, is_edited = project.is_run_by(principal), project.is_edited_by(principal)
    sessions = places.sessions_of(principal, project).select_related("agent", "owner").order_by("-updated_at", "-pk")
    return {
        "acts": [act for act in PROJECTS.acts if is_run and act.is_offered(project)],
        "is_edited": is_edited,
        "is_own": project.owner_id == principal.user_id,
        "sessions": list(sessions[:SESSIONS_SHOWN]),
        "files": list(project.files.order_by("name")),
        "file_parts": [part(principal, project.pk) for part in added["project_parts"]],
        "may_write": principal.can(Permission.SEND),
        "agent": _agent(request, project),
        "project": project,
    }


def _agent(request: HttpRequest, project: Project) -> Agent | None:
    """Who answers in a new session: the project's agent, if the reader may use it; otherwise that of the home page."""
    principal = principal_of(request)
    usual = Agent.objects.visible_to(principal).filter(pk=project.agent_id or 0).first()
    used = last_used(principal)
    return usual or chosen_agent(find_agents(principal, last_used=used), used)


@require_POST
@login_required
def add_files(request: HttpRequest, project: uuid.UUID) -> HttpResponse:
    principal = principal_of(request)
    row = PROJECTS.find(principal, project)
    try:
        messages.info(request, add_uploads(request, partial(files.add, principal, row)))
    except (Refusal, QuotaExceeded) as refusal:
        messages.error(request, words_of(refusal))
    return redirect("web:project", project)


def _file_or_404(request: HttpRequest, project: uuid.UUID, project_file: uuid.UUID) -> ProjectFile:
    found: ProjectFile = files.FILES.find(principal_of(request), project_file)
    if found.project_id != project:
        raise Http404
    return found


@require_POST
@login_required
def remove_file(request: HttpRequest, project: uuid.UUID, project_file: uuid.UUID) -> HttpResponse:
    do(request, files.REMOVE, _file_or_404(request, project, project_file))
    return redirect("web:project", project)


@reader_view
def file(request: HttpRequest, project: uuid.UUID, project_file: uuid.UUID) -> HttpResponseBase:
    return files.download(_file_or_404(request, project, project_file), request)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def move(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    """Choose a project for one's own session, or none."""
    principal, problem = principal_of(request), ""
    context = find_own_session(principal, session)
    if request.method == "POST":
        try:
            commands.move_session(principal, session, project_in(request))
            return redirect("web:session", session)
        except Refusal as refusal:
            problem = words_of(refusal)
    with as_reader(request):
        choices = list(PROJECTS.visible_to(principal)[:MOST_SHOWN])
        current = project_of(principal, context)
        about = {"session": context, "projects": choices, "current": current.key if current else None}
        return page(request, "projects/move.html", **about, problem=problem)


urlpatterns = [
    *Pages(PROJECTS, ProjectForm, context=_context).urls(),
    path("projects/<uuid:project>/files", add_files, name="project-add-files"),
    path("projects/<uuid:project>/files/<uuid:project_file>", file, name="project-file"),
    path("projects/<uuid:project>/files/<uuid:project_file>/remove", remove_file, name="project-remove-file"),
    path("sessions/<uuid:session>/project", move, name="session-project"),
]
