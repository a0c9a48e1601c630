"""What the pages of agents and projects say of the collections that are searched there."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST

from apps.accounts.permissions import Permission
from apps.accounts.principals import Principal
from apps.accounts.requests.quotas import QuotaExceeded
from apps.agents.models import Agent
from apps.optional.knowledge import collections
from apps.optional.knowledge.collections import COLLECTIONS
from apps.optional.knowledge.models import AgentCollection, Collection, Source
from apps.record.errors import Refusal
from apps.web.resources import words_of
from apps.web.shell import agent_or_404, principal_of

MOST_CHOICES = 200


def agent_part(request: HttpRequest, agent: Agent) -> SafeString:
    """On the page of an agent: the collections that it searches, of those that the reader sees."""
    if agent.kind == Agent.Kind.PLAN:
        return SafeString()
    principal = principal_of(request)
    given = AgentCollection.objects.visible_to(principal).filter(agent=agent).select_related("collection")
    rows = list(given.order_by("collection__name"))
    choices = _choices(principal, [one.collection_id for one in rows]) if principal.can(Permission.SEND) else []
    if not rows and not choices:
        return SafeString()
    may_change = bool(choices or rows) and collections.may_change(principal, agent)
    edited = {one.pk for one in rows if may_change or one.collection.is_edited_by(principal)}
    about = {"agent": agent, "given": rows, "edited": edited, "choices": choices, "may_change": may_change}
    return render_to_string("knowledge/_agent.html", about, request)


def _choices(principal: Principal, given: list[uuid.UUID]) -> list[Collection]:
    """What the reader can give the agent."""
    others = COLLECTIONS.visible_to(principal).exclude(pk__in=given).order_by("name")[:MOST_CHOICES]
    return [one for one in others if one.is_edited_by(principal)]


@require_POST
@login_required
def give(request: HttpRequest, slug: str) -> HttpResponse:
    """Let an agent search a collection, or with `take` no more."""
    agent, principal = agent_or_404(request, slug), principal_of(request)
    try:
        collection = COLLECTIONS.find(principal, request.POST.get("collection", ""))
        if "take" in request.POST:
            collections.take_back(principal, collection, agent)
        else:
            collections.give(principal, agent, collection, is_for_callers="is_for_callers" in request.POST)
    except (Refusal, QuotaExceeded) as refusal:
        messages.error(request, words_of(refusal))
    return redirect("web:agent", slug)


def project_part(principal: Principal, project: uuid.UUID) -> SafeString:
    """On the page of a project: whether agents search its files, and what else they search."""
    counted = {
        state: Count("sources", filter=Q(sources__state=state)) for state in (Source.State.WAITING, Source.State.FAILED)
    }
    rows = COLLECTIONS.visible_to(principal).filter(project=project).annotate(**counted).order_by("name")
    about = {"rows": list(rows), "project": project, "may_write": principal.can(Permission.SEND)}
    return render_to_string("knowledge/_project.html", about)
