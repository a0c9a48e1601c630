"""`POST /hooks/chats/<id>`: what a platform sends.

An unknown address and a wrong signature get the same answer. 200 means that what came in is recorded.
"""

from __future__ import annotations

import time
import uuid

from django.http import HttpRequest, HttpResponse
from django.urls import path

from apps.accounts.principals import ANONYMOUS
from apps.accounts.requests import bodies, quotas
from apps.automation.api.hooks import NotSigned, for_other_systems
from apps.optional.channels import receiving
from apps.record.errors import ParseError
from parley import db


@for_other_systems
async def chat(request: HttpRequest, key: str) -> HttpResponse:
    """Raises NotSigned, QuotaExceeded, ParseError."""
    channel = await db.run(receiving.find_channel, _uuid(key))
    platform = channel.at if channel is not None else None
    if channel is None or platform is None or not platform.may_be_genuine(channel, request.headers):
        raise NotSigned
    body = await bodies.read(request, ANONYMOUS, platform.most_bytes)
    if not await platform.is_genuine(channel, request.headers, body, time.time()):
        raise NotSigned
    db.caller.set(f"chat:{channel.pk}")
    await db.run(quotas.count_event, f"chat {channel.pk}")
    try:
        received = await bodies.work_on(len(body), platform.read, channel, request.headers, body)
    except (ValueError, LookupError, TypeError, AttributeError):
        raise ParseError("This is not what the platform sends. It was not recorded.") from None
    await db.run(receiving.record, channel, received.events)
    return received.answer


def _uuid(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        return uuid.UUID(int=0)


urlpatterns = [path("hooks/chats/<str:key>", chat, name="chat")]
