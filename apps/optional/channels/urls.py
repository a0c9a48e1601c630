"""`POST /hooks/chats/<id>`: what a platform sends.

An unknown address and a wrong signature get the same answer. 200 means that what came in is recorded.
"""

from __future__ import annotations

import time
import uuid

from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from apps.a2a import http
from apps.a2a.errors import problem
from apps.accounts.principals import ANONYMOUS, address_key
from apps.accounts.requests import bodies, quotas
from apps.optional.channels import receiving
from apps.record.errors import Kind, MethodNotAllowed, ParseError, Refusal
from parley import db


class NotSigned(Refusal):
    """There is no channel at this address, or the signature is wrong. Check the address and the channel's settings."""

    kind = Kind.UNAUTHENTICATED


@csrf_exempt
async def chat(request: HttpRequest, key: str) -> HttpResponse:
    try:
        if request.method != "POST":
            raise MethodNotAllowed(["POST"])
        return await _accept(request, key)
    except Exception as error:
        refused = problem(error)
        return http.json_response(refused.brief, refused.codes.a2a, refused.http_headers)


async def _accept(request: HttpRequest, key: str) -> HttpResponse:
    """Raises QuotaExceeded, NotSigned, ParseError."""
    address = str(request.META.get("REMOTE_ADDR", ""))
    await db.run(quotas.count_request, ANONYMOUS, address)
    db.caller.set(address_key(address))
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
