"""Tool calls on pages: the card that asks about one, a person's decision, and the tools that they allow in a session.

A decision needs a token that is good for one minute, one use, one login session, one question and one answer. The page
fetches it when a person presses a button; no page has one before, except the one that asks people without scripts.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import secrets
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from django.contrib.auth.decorators import login_required
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import reverse
from django.utils.crypto import constant_time_compare
from django.views.decorators.http import require_http_methods, require_POST

from agentkit.llm.approvals import APPROVE, ARGUMENTS, DECISION, FOR_SESSION, REASON, may_remember, visible
from apps.accounts.errors import NotFound
from apps.accounts.principals import Principal
from apps.conversations.pages.session.sending import NotConfirmed, answered_event, json_action
from apps.engine.turns import approvals
from apps.engine.turns.questions import allowed_tools as tools_allowed_by
from apps.engine.turns.questions import asking_task, asks_approval, open_call, revoke_allowed_tool
from apps.record.content import schema_forms
from apps.record.content.schema_forms import Field
from apps.record.errors import AlreadyAnswered, Refusal, TaskNotFound
from apps.record.events import JSON
from apps.record.models import Task
from apps.record.reading.lookup import NotYourTask, find_session
from apps.web.shell import page, page_or_fragment, principal_of, session_or_404
from parley import db

TOKEN_SECONDS = 60
ALWAYS = "always"  # the button that approves for the session
LONGEST_OPEN = 300  # characters of an argument; longer ones are folded
MOST_OPEN_LINES = 6
KINDS = {"function": "Tool of the agent", "agent": "Another agent", "mcp": "Tool server"}


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a call in words, whole. `beginning`: of a long one, which is folded; otherwise empty."""

    label: str
    text: str

    @property
    def beginning(self) -> str:
        is_long = len(self.text) > LONGEST_OPEN or self.text.count("\n") >= MOST_OPEN_LINES
        return " ".join(self.text[:LONGEST_OPEN].split())[:80] + "…" if is_long else ""


@dataclass(frozen=True, slots=True)
class Call:
    """What a tool would do, or what somebody decided about. Strings that a model or a server wrote are data."""

    title: str
    tool: str
    kind: str
    description: str
    why: str
    arguments: list[Argument]
    needed: int
    approved_by: list[str]
    later: int  # calls about which the agent will ask after this one
    may_remember: bool
    effect: str = ""  # what it would do, in its author's words

    @property
    def missing(self) -> int:
        return self.needed - len(self.approved_by)


def call_of(slot: JSON | None) -> Call | None:
    """The call that a task's slot asks about; None if it asks something else."""
    if not slot or not asks_approval(slot):
        return None
    calls = slot["value"]["calls"]
    asked = open_call(calls)
    return Call(
        title=title_of(asked),
        tool=visible(asked["tool"]),
        kind=KINDS.get(asked["kind"], ""),
        description=visible(asked.get("description", "")),
        effect=visible(asked.get("effect", "")),
        why=visible(asked["why"]),
        arguments=arguments_of(asked["arguments"], asked["schema"]),
        needed=asked["needs"],
        approved_by=[one["name"] for one in asked["decisions"]],
        later=sum("approved" not in one for one in calls) - 1,
        may_remember=may_remember(asked),
    )


def card_of(
    context: uuid.UUID, task: uuid.UUID | None, asked: int, slot: JSON | None, at: datetime.datetime
) -> JSON | None:
    """The context of `_call.html` and `_approval.html`; None if the question of event `asked` is about no call.

    Where an agent passes on the question of one that it called, the card decides there. Then one query for each, and
    None if the called agent has gone on since `at`, when the question was passed on.
    """
    below = asking_task(slot)
    if below is not None:
        if below.status_at > at:
            return None
        context, task, asked, slot = below.context_id, below.pk, below.status_event, below.slot
    call = call_of(slot)
    if call is None:
        return None
    by = below.agent if below else None
    return {"call": call, "fields": edit_fields(slot), "session": context, "task": task, "asked": asked, "by": by}


def title_of(call: Mapping[str, Any]) -> str:
    """Its server's title, or the tool's name in words."""
    return str(visible(call.get("title") or schema_forms.label_of(call["tool"], {})))


def arguments_of(given: Mapping[str, Any], schema: JSON | None = None) -> list[Argument]:
    """All arguments, in the order of the tool's schema."""
    known = (schema or {}).get("properties")
    described: JSON = known if isinstance(known, dict) else {}
    names = dict.fromkeys([*(name for name in described if name in given), *given])
    return [Argument(_label(name, described.get(name)), words_of(given[name])) for name in names]


def _label(name: str, schema: Any) -> str:
    return str(visible(schema_forms.label_of(name, schema if isinstance(schema, dict) else {})))


def words_of(value: Any) -> str:
    """A JSON value as people write it: a line for each member, indented below its name."""
    return "\n".join(_lines(visible(value)))


def _lines(value: Any) -> Iterator[str]:
    match value:
        case dict() | list() if not value:
            yield "(nothing)"
        case dict():
            for name, one in value.items():
                yield from _named(f"{name}:", one)
        case list():
            for one in value:
                first, *rest = _lines(one)
                yield f"• {first}"
                yield from (f"  {line}" for line in rest)
        case None | "":
            yield "(nothing)"
        case bool():
            yield "Yes" if value else "No"
        case _:
            yield from str(value).split("\n")


def _named(name: str, value: Any) -> Iterator[str]:
    first, *rest = _lines(value)
    is_nested = isinstance(value, dict | list) and value
    yield name if is_nested else f"{name} {first}"
    yield from (f"  {line}" for line in ([first, *rest] if is_nested else rest))


def decided(approval: JSON) -> JSON:
    """The context of `conversations/_decided.html` for an event's `approval`."""
    shown = {name: approval.get(name) for name in ("approved", "by", "name", "edited", "session", "final")}
    arguments = arguments_of(approval["arguments"])
    return {**shown, "title": title_of(approval), "arguments": arguments, "reason": visible(approval.get("reason", ""))}


def decision_in_words(part: JSON) -> JSON:
    """A message's part; a decision as a word instead of data."""
    data = part.get("data")
    if not isinstance(data, dict) or DECISION not in data:
        return part
    word, reason = "Approved." if data[DECISION] == APPROVE else "Refused.", data.get(REASON)
    return {"text": f"{word} {reason}" if isinstance(reason, str) and reason else word}


def edit_fields(slot: JSON | None) -> list[Field]:
    """The fields that change the call, or explain a refusal."""
    return [one for one in schema_forms.fields_of(slot) if one.name not in (DECISION, FOR_SESSION) or one.group]


# Decisions


@dataclass(frozen=True, slots=True)
class _Decision:
    task: Task
    asked: int
    answer: JSON

    @property
    def digest(self) -> str:
        """Of the question with its arguments, and of the answer."""
        call = open_call((self.task.slot or {})["value"]["calls"])
        told = [str(self.task.pk), self.asked, call["key"], call["arguments"], self.answer]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _read(request: HttpRequest, principal: Principal, session: uuid.UUID, key: uuid.UUID) -> _Decision:
    """Raises TaskNotFound, NotYourTask, AlreadyAnswered, InvalidParams."""
    task = Task.objects.approvable_by(principal).select_related("agent").filter(pk=key, context=session).first()
    if task is None:
        seen = Task.objects.filter(pk=key, context=find_session(principal, session)).first()
        if seen and asks_approval(seen.slot):
            raise NotYourTask
        raise AlreadyAnswered if seen else TaskNotFound
    asked = answered_event(request)
    if asked is None or asked != task.status_event or not asks_approval(task.slot):
        raise AlreadyAnswered
    given = dict(request.POST.lists())
    if given.get(f"answer-{DECISION}") == [ALWAYS]:
        given |= {f"answer-{DECISION}": [APPROVE], f"answer-{FOR_SESSION}": ["true"]}
    return _Decision(task, asked, schema_forms.answer_from(schema_forms.fields_of(task.slot), given) or {})


def _bound_to(request: HttpRequest, principal: Principal, digest: str) -> str:
    return f"{request.session.session_key} {principal.user_id} {digest}"


def _cache_key(token: str) -> str:
    return f"decision:{hashlib.sha256(token.encode()).hexdigest()}"


def make_token(request: HttpRequest, principal: Principal, digest: str) -> str:
    """For one decision, whose digest this is."""
    token = secrets.token_urlsafe(32)
    cache.set(_cache_key(token), _bound_to(request, principal, digest), TOKEN_SECONDS)
    return token


def redeem(request: HttpRequest, principal: Principal, digest: str) -> None:
    """Use up the request's token. Raises NotConfirmed."""
    key = _cache_key(request.POST.get("token", ""))
    bound = cache.get(key)
    if bound is None or not cache.delete(key):
        raise NotConfirmed
    if not constant_time_compare(bound, _bound_to(request, principal, digest)):
        raise NotConfirmed


def check_gesture(request: HttpRequest, destination: str) -> None:
    """A page of this installation sends it, and to a document only when a person pressed something.

    Browsers set these headers, and no script can; old ones leave them out. Raises NotConfirmed.
    """
    site, user = (request.headers.get(f"Sec-Fetch-{name}") for name in ("Site", "User"))
    origin = request.headers.get("Origin")
    is_here = site in (None, "same-origin") and (origin is None or urlsplit(origin).netloc == request.get_host())
    is_for = request.headers.get("Sec-Fetch-Dest", destination) == destination
    is_pressed = destination != "document" or site is None or user == "?1"
    if not (is_here and is_for and is_pressed):
        raise NotConfirmed


@json_action
async def issue(request: HttpRequest, principal: Principal, session: uuid.UUID, task: uuid.UUID) -> HttpResponse:
    """A token for the decision in the form, after a person pressed its button."""
    check_gesture(request, "empty")
    decision = await db.run(_read, request, principal, session, task)
    return JsonResponse({"token": await db.run(make_token, request, principal, decision.digest)})


@json_action
async def decide(request: HttpRequest, principal: Principal, session: uuid.UUID, task: uuid.UUID) -> HttpResponse:
    """Decide about a tool call, in one's own session or another person's."""
    check_gesture(request, "empty")
    await db.run(_decide, request, principal, session, task)
    return JsonResponse({"decided": str(task)})


def _decide(request: HttpRequest, principal: Principal, session: uuid.UUID, task: uuid.UUID) -> None:
    decision = _read(request, principal, session, task)
    redeem(request, principal, decision.digest)
    approvals.decide(principal, task, decision.asked, decision.answer)


@login_required
@require_POST
def confirm(request: HttpRequest, session: uuid.UUID, task: uuid.UUID) -> HttpResponse:
    """Without scripts: a page that asks once more, with the token, and then decides."""
    principal = principal_of(request)
    problem, decision = "", None
    try:
        check_gesture(request, "document")
        if "token" in request.POST:
            _decide(request, principal, session, task)
            return HttpResponseRedirect(reverse("web:inbox"))
        decision = _read(request, principal, session, task)
    except NotFound:
        raise
    except NotConfirmed as refused:
        problem, decision = str(refused), _readable(request, principal, session, task)
    except Refusal as refused:
        problem = str(refused)
    about = _confirmation(request, principal, decision) if decision else {}
    answer = page(request, "conversations/confirm_decision.html", problem=problem, **about)
    answer.status_code = HTTPStatus.CONFLICT if problem else HTTPStatus.OK
    answer["Cache-Control"] = "private, no-store"
    return answer


def _readable(request: HttpRequest, principal: Principal, session: uuid.UUID, task: uuid.UUID) -> _Decision | None:
    try:
        return _read(request, principal, session, task)
    except Refusal:
        return None


def _confirmation(request: HttpRequest, principal: Principal, decision: _Decision) -> JSON:
    call, answer = call_of(decision.task.slot), decision.answer
    sent: Sequence[tuple[str, str]] = [
        (name, value) for name, values in request.POST.lists() if name.startswith("answer-") for value in values
    ]
    return {
        "call": call,
        "arguments": arguments_of(answer.get(ARGUMENTS) or {}) if answer.get(DECISION) == APPROVE else [],
        "is_approval": answer.get(DECISION) == APPROVE,
        "is_always": bool(answer.get(FOR_SESSION)),
        "agent": decision.task.agent,
        "sent": [*sent, ("asked", str(decision.asked))],
        "token": make_token(request, principal, decision.digest),
    }


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def allowed_tools(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    """What runs in the session because the person said so. A POST takes one back."""
    context, principal = session_or_404(request, session), principal_of(request)
    if request.method == "POST":
        revoke_allowed_tool(principal, context, request.POST.get("tool", ""))
        context = session_or_404(request, session)
        if "HX-Request" not in request.headers:
            return HttpResponseRedirect(request.path)
    known = {"session": context, "tools": tools_allowed_by(principal, context)}
    return page_or_fragment(request, "conversations/allowed_tools.html", "conversations/_allowed_tools.html", **known)
