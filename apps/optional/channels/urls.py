"""`POST /hooks/chats/<id>`: what a platform sends.

An unknown address and a wrong signature get the same answer. 200 means that what came in is recorded.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping

from django.http import HttpRequest, HttpResponse
from django.urls import path

from apps.accounts.principals import ANONYMOUS
from apps.accounts.requests import bodies, quotas
from apps.automation.api.hooks import NotSigned, for_other_systems
from apps.optional.channels import receiving
from apps.optional.channels.models import ChatChannel
from apps.optional.channels.platforms import Platform, Received
from apps.record.errors import ParseError
from parley import db

log = logging.getLogger("parley.channels")


@for_other_systems
async def chat(request: HttpRequest, key: str) -> HttpResponse:
    """Raises NotSigned, QuotaExceeded, ParseError, and what `Platform.is_genuine` raises."""
    channel = await db.run(receiving.find_channel, _uuid(key))
    platform = channel.at if channel is not None else None
    if channel is None or platform is None or not platform.may_be_genuine(channel, request.headers):
        raise NotSigned
    body = await bodies.read(request, ANONYMOUS, platform.most_bytes)
    if not await platform.is_genuine(channel, request.headers, body, time.time()):
        raise NotSigned
    db.caller.set(f"chat:{channel.pk}")
    await db.run(quotas.count_event, f"chat {channel.pk}")
    received = await bodies.work_on(len(body), _read, platform, channel, request.headers, body)
    await db.run(receiving.record, channel, received.events)
    return received.answer


def _read(platform: Platform, channel: ChatChannel, headers: Mapping[str, str], body: bytes) -> Received:
    """Raises ParseError, whatever fails: strangers write what platforms hand over."""
    try:
        return platform.read(channel, headers, body)
    except Exception as error:
        log.warning("what %s sent cannot be read: %s", platform.name, type(error).__name__)
        raise ParseError("This is not what the platform sends. It was not recorded.") from None


def _uuid(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        return uuid.UUID(int=0)


urlpatterns = [path("hooks/chats/<str:key>", chat, name="chat")]
