"""The pages of a session: conversation, tree of forks, replay, Markdown."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from django.conf import settings
from django.db.models import OuterRef, Subquery
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.csp import CSP
from django.utils.http import content_disposition_header
from django.utils.text import slugify
from django.views.decorators.clickjacking import xframe_options_sameorigin
from django.views.decorators.csp import csp_override

from apps.accounts.audit_models import AuditAction
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.conversations.forks import branch_names, branches
from apps.conversations.pages.artifacts import artifacts_before, artifacts_by_name
from apps.conversations.pages.session.entries import FORMAT, agent_label, entries_of
from apps.conversations.pages.session.from_log import conversation_at, page_between
from apps.conversations.pages.session.sending import shown_queue
from apps.conversations.pages.session.status import session_status
from apps.conversations.public_links import downloads
from apps.conversations.public_links.transcripts import markdown_of
from apps.record import lineage
from apps.record.events import JSON
from apps.record.models import Context, Message, Task
from apps.record.reading.visibility import may_write_shared
from apps.web.first_steps import may_connect_model
from apps.web.shell import page, page_or_fragment, parse_index, principal_of, reader_view, session_or_404
from parley.registry import added

TURNS = 30  # on a page when it opens
MOST_TURNS = 300  # in one request for earlier ones


@reader_view
def session(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    """The newest turns; the WebSocket (`consumers`) sends the rest."""
    return _session_page(request, session, "web/shell.html")


@xframe_options_sameorigin
@csp_override({**settings.SECURE_CSP, "frame-ancestors": [CSP.SELF]})
@reader_view
def framed_session(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    """The conversation alone, for a frame of another page of ours. With `nameless`, it does not show who answers."""
    return _session_page(request, session, "web/framed.html")


def _session_page(request: HttpRequest, session: uuid.UUID, shell: str) -> HttpResponse:
    context = session_or_404(request, session)
    agents = list(Agent.objects.visible_to(principal_of(request)))
    choices = agent_choices([one for one in agents if one.listed or one == context.agent])
    names = Counter(one.name.casefold() for one in choices)
    state = page_state(principal_of(request), context)
    files = artifacts_before(context, state["last"] + 1)
    return page(
        request,
        "conversations/session.html",
        shell=shell,
        is_nameless="nameless" in request.GET,
        session=context,
        is_own=context.owner_id == principal_of(request).user_id,
        may_write=may_write_shared(principal_of(request)),
        agent=context.agent,
        agent_is_usable=context.agent in agents,
        agents=choices if context.parent_task is None else [],
        namesakes=[one for one in choices if names[one.name.casefold()] > 1],
        page_state=state,
        status=session_status(context),
        queue=shown_queue(context),
        files=artifacts_by_name(files),
        file_count=len(files),
        may_connect_model=may_connect_model(request),
        trails=[trail(principal_of(request), context) for trail in added["session_trails"]],
        further_acts=[act(principal_of(request), context) for act in added["session_acts"]],
    )


@reader_view
def earlier(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    """The `turns` turns before `?before=<index>`, as they are after event `?upto=<index>`."""
    context = session_or_404(request, session)
    before, turns = parse_index(request.GET.get("before", "")), parse_index(request.GET.get("turns", str(TURNS)))
    upto = parse_index(request.GET.get("upto", str(context.last_event)))
    if before is None or turns is None or upto is None:
        raise Http404
    first = _first_event_of_turns(context, before, max(1, min(turns, MOST_TURNS)))
    return JsonResponse({"first": first, "patch": page_between(context, first, before, upto)})


def page_state(principal: Principal, context: Context) -> JSON:
    """What the page's script starts with: the newest turns, and URLs."""
    last = context.last_event
    first = _first_event_of_turns(context, last + 1)
    return {
        "session": str(context.pk),
        "agent": agent_label(context.agent),
        "format": FORMAT,
        "first": first,
        "last": last,
        "patch": page_between(context, first, last + 1, last),
        "sharing": context.sharing,
        "branches": branches_json(principal, context),
        "line": f"/ws/sessions/{context.pk}",
        "say": reverse("web:say", args=[context.pk]),
        "again": reverse("web:again", args=[context.pk]),
        "earlier": reverse("web:earlier", args=[context.pk]),
        "queue": reverse("web:queue", args=[context.pk]),
    }


def _first_event_of_turns(context: Context, before: int, turns: int = TURNS) -> int:
    said = lineage.messages(context).filter(role=Message.Role.USER, index__lt=before).order_by("-index")
    begins = list(said.values_list("index", flat=True)[:turns])
    return begins[-1] if len(begins) == turns else 1


def agent_choices(agents: Iterable[Agent]) -> list[Agent]:
    return sorted(agents, key=lambda agent: (not agent.is_available, agent.name.lower()))


ROW, PICTURE, INSET = 56, 96, 12  # pixels
LONGEST_TITLE = 80  # characters
REASONS = {
    "edit": "Edited message",
    "retry": "New answer",
    "agent": "Other agent",
    "fork": "Fork",
}


@dataclass(frozen=True, slots=True)
class TreeLine:
    """A session in the picture, in pixels. `parent` is the line that it branches off, if any."""

    node: branches.Node
    state: str | None
    is_here: bool
    row: int
    begins: int
    ends: int
    parent: TreeLine | None

    @property
    def context(self) -> Context:
        return self.node.context

    @property
    def href(self) -> str:
        return "" if self.node.is_gap else reverse("web:session", args=[self.context.pk])

    @property
    def title(self) -> str:
        return "Deleted session" if self.node.is_gap else str(self.context)

    @property
    def short_title(self) -> str:
        return self.title if len(self.title) <= LONGEST_TITLE else self.title[:LONGEST_TITLE] + "…"

    @property
    def reason(self) -> str:
        return REASONS.get(self.context.fork_reason, "") if self.context.forked_at is not None else "Original"

    @property
    def top(self) -> int:
        return self.row * ROW

    @property
    def middle(self) -> int:
        return self.top + ROW // 2

    @property
    def edge(self) -> str:
        """The path from the parent's line."""
        if self.parent is None:
            return ""
        bend = min(8, ROW // 2)
        return f"M{self.begins} {self.parent.middle}V{self.middle - bend}q0 {bend} {bend} {bend}"


@reader_view
def tree(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    """A page, or a fragment for a dialog."""
    found = branches.tree(principal_of(request), session)
    lines = tree_lines(found, session)
    here = next(line for line in lines if line.is_here)
    known = {"lines": lines, "here": here, "height": len(lines) * ROW, "text_at": PICTURE + 2 * INSET + 24}
    return page_or_fragment(
        request, "conversations/tree.html", "conversations/_tree.html", session=here.context, **known
    )


@reader_view
def session_branches(request: HttpRequest, session: uuid.UUID) -> JsonResponse:
    """The current branch points: the log has no event for a fork made elsewhere."""
    return JsonResponse(branches_json(principal_of(request), session_or_404(request, session)))


@reader_view
def branch_list(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    """The branches at the branch point of `?at=`, an index, as a menu's content."""
    principal, context = principal_of(request), session_or_404(request, session)
    at = parse_index(request.GET.get("at", ""))
    point = next((one for one in branches.branch_points(principal, context) if one.index == at), None)
    if point is None:
        raise Http404
    named = branch_names.named_branches(principal, point)
    return render(request, "conversations/_branches.html", {"branches": named, "session": context})


def branches_json(principal: Principal, context: Context) -> JSON:
    """Branch points by message index: which branch this is, and all URLs."""
    return {
        str(one.index): {
            "place": one.position,
            "ways": [
                f"{reverse('web:session', args=[branch.session])}#m-{branch.first_message}" for branch in one.branches
            ],
        }
        for one in branches.branch_points(principal, context)
    }


def tree_lines(tree: branches.Tree, here: uuid.UUID) -> list[TreeLine]:
    """The lines of a tree, top to bottom."""
    newest = Task.objects.filter(context=OuterRef("pk")).order_by("-created_at", "-pk")
    members = Context.objects.filter(pk__in=[node.context.pk for node in tree.nodes])
    states = dict(members.annotate(state=Subquery(newest.values("state")[:1])).values_list("pk", "state"))
    longest = max(node.context.last_event for node in tree.nodes) or 1
    lines: dict[uuid.UUID, TreeLine] = {}
    for row, node in enumerate(tree.nodes):
        context = node.context
        parent = lines.get(context.parent_id) if context.parent_id else None
        begins, ends = (INSET + PICTURE * at // longest for at in (context.forked_at or 0, context.last_event))
        state = None if node.is_gap else states.get(context.pk)
        lines[context.pk] = TreeLine(node, state, context.pk == here, row, begins, max(ends, begins + 16), parent)
    return list(lines.values())


REPLAY_PAGE_SIZE = 500  # events


@reader_view
def replay(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    """The player, which loads the events."""
    context = session_or_404(request, session)
    first = lineage.agent_at(context, 0)[0] if context.last_event else context.agent_id
    state = {
        "session": str(context.pk),
        "last": context.last_event,
        "entries": reverse("web:replay-entries", args=[context.pk]),
        "agent": agent_label(Agent.objects.get(pk=first)),
    }
    return page(request, "conversations/replay.html", session=context, page_state=state)


@reader_view
def replay_entries(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    """What each event after `?after=` changes, a page of them, and the last index."""
    context = session_or_404(request, session)
    after = parse_index(request.GET.get("after", "0"))
    if after is None:
        raise Http404
    events = list(lineage.events(context, after)[:REPLAY_PAGE_SIZE])
    conversation = conversation_at(context, after)
    steps: list[JSON] = []
    for entry in entries_of(context, events):
        conversation.take(entry)
        about: JSON = {name: entry[name] for name in ("type", "at", "artifacts") if name in entry}
        is_said = "message" in entry and "progress" not in entry
        steps.append({**about, "isSaid": is_said, "patch": conversation.patch()})
    return JsonResponse({"steps": steps, "last": events[-1].index if events else after})


@reader_view
def as_markdown(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    context = session_or_404(request, session)
    response = HttpResponse(markdown_of(context), content_type="text/markdown; charset=utf-8")
    downloads.record_download(AuditAction.TRANSCRIPT_EXPORTED, context, request)
    name = f"{slugify(str(context), allow_unicode=True)[:60] or 'session'}.md"
    response["Content-Disposition"] = content_disposition_header(as_attachment=True, filename=name)
    response["Cache-Control"] = "private, no-store"
    return response
