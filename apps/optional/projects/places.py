"""Where people meet projects on other pages: in the sidebar, and on the page of a session."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter

from django.db.models import BooleanField, ExpressionWrapper, F, Q, Window
from django.db.models.functions import RowNumber
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from apps.accounts.permissions import Permission
from apps.accounts.principals import Principal
from apps.conversations.sessions import families
from apps.optional.projects.models import Project
from apps.optional.projects.projects import PROJECTS
from apps.record.models import Context, ContextQuerySet
from apps.record.projects import project_of
from apps.web.shell import SidebarSection, as_rows

SHOWN = 30  # projects in the sidebar
RECENT = 4  # sessions of each


def sidebar_section(principal: Principal) -> SidebarSection | None:
    """The reader's projects with their newest sessions. One query; two if there are projects."""
    projects = list(PROJECTS.visible_to(principal)[:SHOWN])
    if not projects:
        return None
    sessions = _newest_of_each(principal, projects)
    rows = [(one, sessions.get(one.pk, [])) for one in projects]
    families = frozenset(one.family_key for found in sessions.values() for one in found)
    return SidebarSection("projects/_sidebar.html", rows, families)


def sessions_of(principal: Principal, project: Project) -> ContextQuerySet:
    """The sessions of a project that the reader sees, a row for each family: their own, and those of others."""
    return families.newest_of_each(_sessions(principal).filter(project=project.pk))


def _sessions(principal: Principal) -> ContextQuerySet:
    return Context.objects.visible_to(principal).listed().filter(archived_at=None)


def _newest_of_each(principal: Principal, projects: list[Project]) -> dict[object, list[Context]]:
    """As rows of the sidebar, by project. Pinned sessions are listed above already."""
    place = Window(RowNumber(), partition_by=F("project"), order_by=[F("updated_at").desc(), F("id").desc()])
    rows = as_rows(_sessions(principal).filter(project__in=[one.pk for one in projects]), principal)
    is_of_others = ExpressionWrapper(~Q(owner=principal.user_id), BooleanField())
    found = rows.filter(Q(is_pinned=False)).annotate(place=place, is_of_others=is_of_others)
    newest = found.filter(place__lte=RECENT).order_by("project", "place")
    return {key: list(group) for key, group in groupby(newest, attrgetter("project"))}


def session_trail(principal: Principal, context: Context) -> SafeString:
    """The session's project, above its title. No query for a session without one."""
    project = project_of(principal, context)
    return render_to_string("projects/_trail.html", {"project": project}) if project else SafeString()


def session_act(principal: Principal, context: Context) -> SafeString:
    """*Move to project…* in the menu of one's own session."""
    is_own = principal.owns(context.owner_id, context.workspace_id) and context.parent_task is None
    if not is_own or not principal.can(Permission.SEND):
        return SafeString()
    return render_to_string("projects/_act.html", {"session": context})
