"""What a page's composer says while an agent works: it waits in the session's queue (`features.queue.messages`)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import path
from django.views.decorators.http import require_safe

import db
from apps.accounts.principals import Principal
from apps.engine.queue import publish_queue
from apps.features.queue import messages as queued
from apps.features.queue.models import QueuedMessage
from apps.features.sessions import switching
from apps.record.cold import restored
from apps.record.errors import ContextNotFound
from apps.record.models import Context
from apps.record.parts import words_of
from apps.web.composing import refuse_too_large
from apps.web.principals import principal_of
from apps.web.sending import act, message_of


@dataclass(frozen=True, slots=True)
class Queue:
    """What waits in a session, as its page shows it. `held` says why nothing of it is sent by itself; empty: it is."""

    agent: str
    rows: list[QueuedMessage]
    held: str

    @property
    def is_stuck(self) -> bool:
        return bool(self.held or self._problem)

    @property
    def note(self) -> str:
        if self._problem:
            return f"This could not be sent: {self._problem}"
        return self.held or f"Sent when {self.agent} is done"

    @property
    def _problem(self) -> str:
        return next((row.problem for row in self.rows if row.problem), "")

    def messages(self) -> Iterator[dict[str, Any]]:
        for row in self.rows:
            files = [part["filename"] for part in row.parts if part.get("filename")]
            ids = {"id": row.pk, "message_id": row.message_id}
            yield {**ids, "text": words_of(row.parts), "files": files, "is_being_sent": row.is_being_sent}


def queue_of(context: Context) -> Queue:
    """The queue of a session, which has its agent. One query where nothing waits, otherwise two."""
    rows = list(QueuedMessage.objects.filter(context=context))
    return Queue(context.agent.name, rows, queued.held(context) if rows else "")


@require_safe
@login_required
def shown(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    """What waits, drawn. Somebody else's session is not found."""
    visible = Context.objects.visible_to(principal_of(request)).select_related("agent")
    if (context := visible.filter(pk=session).first()) is None:
        raise Http404
    return render(request, "web/_queue.html", {"queue": queue_of(context)})


@act
async def queue(request: HttpRequest, principal: Principal, session: uuid.UUID) -> HttpResponse:
    """Queue a message; sent again, nothing new."""
    refuse_too_large(request)
    context = await db.run(_context, principal, session)
    said = await message_of(request, principal, context.agent)
    message = {name: said[name] for name in said if name not in ("messageId", "role")}
    await db.run(queued.add, principal, context, said["messageId"], message)
    publish_queue(context.pk)
    return JsonResponse({"queued": said["messageId"]}, status=HTTPStatus.CREATED)


def _context(principal: Principal, session: uuid.UUID) -> Context:
    context = Context.objects.visible_to(principal).select_related("agent").filter(pk=session).first()
    if context is None:
        raise ContextNotFound
    switching.check_open(principal, context.agent)
    return restored(context)


urlpatterns = [
    path("sessions/<uuid:session>/queue", queue, name="queue"),
    path("sessions/<uuid:session>/queued", shown, name="queued"),
]
