"""What a conversation page does: send a message, send one again, stop a task, switch to another agent."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import wraps
from http import HTTPStatus
from typing import Any, Concatenate, cast

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.views.decorators.http import require_POST

import db
from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.engine.answering import NoAnswer
from apps.engine.canceling import cancel_found
from apps.engine.send import Sent, send
from apps.features.sessions import feedback, switching
from apps.record import lineage
from apps.record.cold import restored
from apps.record.errors import (
    AlreadyAnswered,
    ContextNotFound,
    InvalidParams,
    Refusal,
    TaskFinished,
    TaskNotCancelable,
    TaskNotFound,
    UnsupportedOperation,
)
from apps.record.models import Context, Message, Task
from apps.web.composing import TooLarge, message_from, message_id, refuse_too_large, uploaded_files

JSON = dict[str, Any]

STATUS: dict[type[Refusal], HTTPStatus] = {
    TaskNotFound: HTTPStatus.NOT_FOUND,
    ContextNotFound: HTTPStatus.NOT_FOUND,
    TaskNotCancelable: HTTPStatus.CONFLICT,
    AlreadyAnswered: HTTPStatus.CONFLICT,
    TooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    NoAnswer: HTTPStatus.BAD_GATEWAY,
}
"""How a refusal is answered; every other one is 422."""

type Act[**P] = Callable[Concatenate[HttpRequest, Principal, P], Coroutine[Any, Any, HttpResponse]]
type View[**P] = Callable[Concatenate[HttpRequest, P], Coroutine[Any, Any, HttpResponse]]


def act[**P](view: Act[P]) -> View[P]:
    """A POST of somebody who is signed in, answered in JSON; a refusal as its sentence."""

    @require_POST
    @wraps(view)
    async def answered(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        user = await request.auser()
        if not isinstance(user, User):
            return refused("You are signed out. Sign in again; what you wrote stays here.", HTTPStatus.UNAUTHORIZED)
        try:
            principal = await db.run(lambda: user.principal)
            return await view(request, principal, *args, **kwargs)
        except Refusal as refusal:
            status = STATUS.get(type(refusal), HTTPStatus.UNPROCESSABLE_ENTITY)
            return refused(str(refusal), status, getattr(refusal, "field", ""))

    return cast("View[P]", answered)


def refused(sentence: str, status: HTTPStatus, field: str = "") -> JsonResponse:
    return JsonResponse({"error": sentence, "field": field}, status=status)


@act
async def begin(request: HttpRequest, principal: Principal, slug: str) -> HttpResponse:
    """The first message of a new session."""
    refuse_too_large(request)
    agent = await db.run(Agent.objects.visible_to(principal).filter(slug=slug).first)
    if agent is None:
        raise ContextNotFound("There is no such agent, or you may not use it.")
    return _recorded(await send(principal, agent, await message_of(request, principal, agent)))


@act
async def say(request: HttpRequest, principal: Principal, session: uuid.UUID) -> HttpResponse:
    """A further message of a session: to the agent, or to the task that it names (to what that `asked`, or nothing)."""
    refuse_too_large(request)
    context = await db.run(_context, principal, session)
    task = await db.run(_named_task, context, request.POST.get("task", ""))
    agent, slot = (task.agent, task.slot) if task else (context.agent, None)
    message = await message_of(request, principal, agent, slot)
    return _recorded(await _send_once(principal, context, task, message, _asked(request)))


async def message_of(request: HttpRequest, principal: Principal, agent: Agent, slot: JSON | None = None) -> JSON:
    """What the form of a composer says, with the files that came before it in pieces (see `composing`)."""
    keys = request.POST.getlist("upload")
    uploaded = await db.run(uploaded_files, principal, agent, keys) if keys else []
    return message_from(request, agent, slot, uploaded=uploaded)


def _asked(request: HttpRequest) -> int | None:
    """The question that is answered, where the form says so."""
    asked = request.POST.get("asked", "")
    if asked and not (asked.isascii() and asked.isdigit() and len(asked) < 19):
        raise InvalidParams("This page is out of date. Load it again.", "asked")
    return int(asked) if asked else None


async def _send_once(
    principal: Principal, context: Context, task: Task | None, message: JSON, asked: int | None = None
) -> Sent:
    """Send it, unless an earlier try got through; where the task has ended meanwhile, to the session's agent."""
    if (index := await db.run(_recorded_at, context, message["messageId"])) is not None:
        return Sent(context.pk, index, repeated=True)
    message = {**message, "contextId": context.context_id}
    if task is not None:
        await db.run(_check_usable, principal, task.agent)
        with suppress(TaskFinished):
            return await send(principal, task.agent, {**message, "taskId": str(task.pk)}, asked=asked)
    await db.run(_check_usable, principal, context.agent)
    return await send(principal, context.agent, message)


@act
async def again(request: HttpRequest, principal: Principal, session: uuid.UUID) -> HttpResponse:
    """A task that came to nothing is tried anew: its first message is sent again, as a new one."""
    context = await db.run(_context, principal, session)
    parts = await db.run(_first_words, context, request.POST.get("task", ""))
    message = {"messageId": message_id(request), "role": "ROLE_USER", "parts": parts}
    return _recorded(await _send_once(principal, context, None, message))


@act
async def switch(request: HttpRequest, principal: Principal, session: uuid.UUID) -> HttpResponse:
    """Let the session go on with another agent."""
    slug = request.POST.get("agent", "").replace("\x00", "")
    agent = await db.run(Agent.objects.filter(slug=slug).first)
    if agent is None:
        raise ContextNotFound("There is no such agent, or you may not use it.")
    await db.run(switching.switch, principal, session, agent)
    return JsonResponse({"agent": agent.slug})


@act
async def stop(request: HttpRequest, principal: Principal, session: uuid.UUID) -> HttpResponse:
    """Stop a task of the session."""
    context = await db.run(_context, principal, session)
    task = await db.run(_named_task, context, request.POST.get("task", ""))
    if task is None:
        raise TaskNotFound
    await db.run(cancel_found, task)
    return JsonResponse({"stopped": str(task.pk)})


@act
async def rate(request: HttpRequest, principal: Principal, session: uuid.UUID) -> HttpResponse:
    """Stars for a task of the session, and words if there are any."""
    context = await db.run(_context, principal, session)
    task = await db.run(_named_task, context, request.POST.get("task", ""), past=True)
    if task is None:
        raise TaskNotFound
    given = feedback.read(request.POST.get("rating", ""), request.POST.get("text", ""))
    await db.run(feedback.give, principal, task.agent, str(task.pk), given)
    return JsonResponse({"rated": given["rating"]})


def _context(principal: Principal, session: uuid.UUID) -> Context:
    context = Context.objects.visible_to(principal).select_related("agent").filter(pk=session).first()
    if context is None:
        raise ContextNotFound
    return restored(context)


def _check_usable(principal: Principal, agent: Agent) -> None:
    """Raises UnsupportedOperation for an agent that the caller may not use, any more."""
    if not agent.is_open_to(principal):
        raise UnsupportedOperation(f"{agent.name} is no longer there for you. What was said stays here.")


def _named_task(context: Context, task: str, *, past: bool = False) -> Task | None:
    """The session's task of this id; None where none is named. Raises TaskNotFound.

    With `past` it may be one of what a fork goes on from, where nothing is said to it and nothing of it is stopped.
    """
    if not task:
        return None
    tasks = lineage.tasks(context) if past else Task.objects.filter(context=context)
    try:
        found = tasks.select_related("agent").filter(pk=uuid.UUID(task)).first()
    except ValueError:
        raise TaskNotFound from None
    if found is None:
        raise TaskNotFound
    return found


def _first_words(context: Context, task: str) -> list[JSON]:
    found = _named_task(context, task, past=True)
    said = lineage.messages(context).filter(task=found, role=Message.Role.USER).first() if found else None
    if said is None:
        raise TaskNotFound
    return list(said.parts)


def _recorded_at(context: Context, message_id: str) -> int | None:
    said = Message.objects.filter(context=context, message_id=message_id, role=Message.Role.USER)
    return said.values_list("index", flat=True).first()


def _recorded(sent: Sent) -> HttpResponse:
    return JsonResponse({"session": reverse("web:session", args=[sent.context])}, status=HTTPStatus.CREATED)
