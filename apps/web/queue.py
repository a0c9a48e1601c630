"""What a page's composer says while an agent works: it waits in the session's queue (`conversations.queued`)."""

from __future__ import annotations

import uuid
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path

import bridge
from apps.accounts.principals import Principal
from apps.conversations import queued, switching
from apps.conversations.archives.warming import warm
from apps.conversations.errors import ContextNotFound
from apps.conversations.models import Context
from apps.runtime.publishing import publish_queue
from apps.web.composing import refuse_too_large
from apps.web.sending import act, message_of


@act
async def queue(request: HttpRequest, principal: Principal, session: uuid.UUID) -> HttpResponse:
    """Queue a message; sent again, nothing new."""
    refuse_too_large(request)
    context = await bridge.run(_context, principal, session)
    said = await message_of(request, principal, context.agent)
    message = {name: said[name] for name in said if name not in ("messageId", "role")}
    await bridge.run(queued.add, principal, context, said["messageId"], message)
    publish_queue(context.pk)
    return JsonResponse({"queued": said["messageId"]}, status=HTTPStatus.CREATED)


def _context(principal: Principal, session: uuid.UUID) -> Context:
    context = Context.objects.visible_to(principal).select_related("agent").filter(pk=session).first()
    if context is None:
        raise ContextNotFound
    switching.check_open(principal, context.agent)
    return warm(context)


urlpatterns = [path("sessions/<uuid:session>/queue", queue, name="queue")]
