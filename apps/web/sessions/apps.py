"""Pages of tool servers (MCP Apps): the frame's document, what it shows, and its calls of tools.

The document may be hostile. It comes with a policy that gives it no origin, and only to a frame of our pages, which
speaks for it (`static/js/session/apps.js`).
"""

from __future__ import annotations

import hashlib
import json
import uuid
from http import HTTPStatus

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string

import db
from agentkit.llm.approvals import visible
from apps.accounts import quotas
from apps.accounts.principals import Principal
from apps.features.model_agents import shown_apps
from apps.features.model_agents.shown_apps import AppCall, ShownApp, find_app
from apps.record.content import blobs, strict_json
from apps.record.content.blobs import Part
from apps.record.errors import ContextNotFound, InvalidParams
from apps.record.events import JSON
from apps.record.lookup import find_session
from apps.web.approvals import KINDS, Call, arguments_of, check_gesture, make_token, redeem, title_of
from apps.web.sessions.sending import json_action, refusal_response
from apps.web.shell import reader_view, session_or_404

FRAME_HEADERS = {
    "Cache-Control": "private, no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), display-capture=(), payment=(), usb=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
}


@reader_view
def app_frame(request: HttpRequest, session: uuid.UUID, index: int) -> HttpResponse:
    """The document, for a frame alone: at the top of a window it could pass for a page of ours."""
    if request.headers.get("Sec-Fetch-Dest", "iframe") != "iframe":
        raise Http404
    app = _app_or_404(request, session, index)
    headers = FRAME_HEADERS | {"Content-Security-Policy": app.policy}
    return HttpResponse(_content_or_404(app.page), content_type="text/html; charset=utf-8", headers=headers)


@reader_view
def app_result(request: HttpRequest, session: uuid.UUID, index: int) -> HttpResponse:
    """What the page shows: the `arguments` and the `result` of its tool."""
    told = _content_or_404(_app_or_404(request, session, index).told)
    return HttpResponse(told, content_type="application/json", headers={"Cache-Control": "private, no-store"})


def _app_or_404(request: HttpRequest, session: uuid.UUID, index: int) -> ShownApp:
    app = find_app(session_or_404(request, session), index)
    if app is None:
        raise Http404
    return app


def _content_or_404(part: Part) -> bytes:
    try:
        return blobs.content_of(part)
    except FileNotFoundError:
        raise Http404 from None


@json_action
async def call_by_app(request: HttpRequest, principal: Principal, session: uuid.UUID, index: int) -> HttpResponse:
    """The `result` of a tool that the page calls; or what `asks` the person first, and then a token is needed."""
    check_gesture(request, "empty")
    try:
        call = await db.run(_prepared, request, principal, session, index)
    except quotas.QuotaExceeded as exceeded:
        return refusal_response(str(exceeded), HTTPStatus.TOO_MANY_REQUESTS)
    if call.needs_approval:
        if "token" not in request.POST:
            return JsonResponse({"asks": _card(call, await shown_apps.described(call))})
        await db.run(redeem, request, principal, _digest(call))
    return JsonResponse({"result": await shown_apps.run(call)})


@json_action
async def allow_call(request: HttpRequest, principal: Principal, session: uuid.UUID, index: int) -> HttpResponse:
    """A token for this one call, after a person pressed a button."""
    check_gesture(request, "empty")
    call = await db.run(_prepared, request, principal, session, index)
    return JsonResponse({"token": await db.run(make_token, request, principal, _digest(call))})


def _prepared(request: HttpRequest, principal: Principal, session: uuid.UUID, index: int) -> AppCall:
    context = find_session(principal, session)
    app = find_app(context, index)
    if app is None:
        raise ContextNotFound("This page is not shown any more. Reload the session.")
    quotas.count_act(principal)
    try:
        arguments = strict_json.parse(request.POST.get("arguments", "").encode())
    except strict_json.InvalidJSON as problem:
        raise InvalidParams(f"The page's arguments cannot be read: {problem}", "arguments") from None
    if not isinstance(arguments, dict):
        raise InvalidParams("The page's arguments are no object.", "arguments")
    return shown_apps.prepare(principal, app, request.POST.get("name", ""), arguments)


def _card(call: AppCall, told: JSON) -> str:
    shown = Call(
        title=title_of({"tool": call.name, "title": told["title"]}),
        tool=visible(call.name),
        kind=KINDS["mcp"],
        description=visible(told["description"] or ""),
        why="",
        arguments=arguments_of(call.arguments, told["schema"]),
        needed=1,
        approved_by=[],
        later=0,
        may_remember=False,
    )
    return render_to_string("web/_call.html", {"call": shown})


def _digest(call: AppCall) -> str:
    told = [str(call.app.context.pk), call.app.index, call.server.label, call.name, call.arguments]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
