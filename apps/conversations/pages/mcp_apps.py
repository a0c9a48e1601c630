"""Pages of tool servers (MCP Apps): the frame's document, what it shows, and its calls of tools.

The document may be hostile. It comes with a policy that gives it no origin, and only to a frame of our pages, which
speaks for it (`static/js/session/apps.js`).
"""

from __future__ import annotations

import hashlib
import json
import uuid
from urllib.parse import urlsplit

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string

from agentkit.llm.approvals import visible
from apps.accounts.principals import Principal
from apps.accounts.requests import quotas
from apps.conversations.pages.approvals import KINDS, Call, arguments_of, check_gesture, make_token, redeem, title_of
from apps.conversations.pages.session.sending import json_action
from apps.model_agents import shown_apps
from apps.model_agents.shown_apps import AppCall, ShownApp, find_app
from apps.record.content import blobs, strict_json
from apps.record.content.blobs import Part
from apps.record.errors import ContextNotFound, InvalidParams
from apps.record.events import JSON
from apps.record.reading.lookup import find_session
from apps.web.shell import reader_view, session_or_404
from parley import db

MAX_ARGUMENTS_BYTES = 64 * 1000
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
    if not _is_frame(request):
        raise Http404
    app = _app_or_404(request, session, index)
    headers = FRAME_HEADERS | {"Content-Security-Policy": app.policy}
    return HttpResponse(_content_or_404(app.page), content_type="text/html; charset=utf-8", headers=headers)


def _is_frame(request: HttpRequest) -> bool:
    """Browsers without `Sec-Fetch-Dest`, as at plain `http`, name the page that has the frame."""
    if destination := request.headers.get("Sec-Fetch-Dest"):
        return destination == "iframe"
    return urlsplit(request.headers.get("Referer", "")).netloc == request.get_host()


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
    call = await db.run(_prepared, request, principal, session, index)
    is_approved = call.needs_approval and "token" in request.POST
    if is_approved:
        await db.run(redeem, request, principal, _digest(call))
    else:
        await db.run(quotas.count_app_call, principal, f"{session} {index}")  # an approved one was counted before
    close = quotas.open_app_call(principal)
    try:
        if call.needs_approval and not is_approved:
            return JsonResponse({"asks": _card(call, await shown_apps.described(call))})
        return JsonResponse({"result": await shown_apps.run(call)})
    finally:
        close()


@json_action
async def allow_call(request: HttpRequest, principal: Principal, session: uuid.UUID, index: int) -> HttpResponse:
    """A token for this one call, after a person pressed a button."""
    check_gesture(request, "empty")
    await db.run(quotas.check_app_calls, principal, f"{session} {index}")
    call = await db.run(_prepared, request, principal, session, index)
    return JsonResponse({"token": await db.run(make_token, request, principal, _digest(call))})


def _prepared(request: HttpRequest, principal: Principal, session: uuid.UUID, index: int) -> AppCall:
    context = find_session(principal, session)
    app = find_app(context, index)
    if app is None:
        raise ContextNotFound("This page is not shown any more. Reload the session.")
    given = request.POST.get("arguments", "").encode()
    if len(given) > MAX_ARGUMENTS_BYTES:
        raise InvalidParams(f"The page's arguments have more than {MAX_ARGUMENTS_BYTES // 1000} kB.", "arguments")
    try:
        arguments = strict_json.parse(given)
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
    return render_to_string("conversations/_call.html", {"call": shown})


def _digest(call: AppCall) -> str:
    told = [str(call.app.context.pk), call.app.index, call.server.digest, call.name, call.arguments]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
