"""Incoming webhooks: `POST /hooks/<id>` accepts an event of another system.

An unknown address and a wrong signature get the same answer. 202 means that the event is recorded.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import parse_qs

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from apps.a2a import http
from apps.a2a.errors import problem
from apps.accounts.principals import ANONYMOUS, address_key
from apps.accounts.requests import bodies, quotas
from apps.accounts.secrets import webhook_signatures
from apps.automation import incoming
from apps.automation.models import IncomingEvent, IncomingWebhook
from apps.record.content import strict_json
from apps.record.errors import Kind, MethodNotAllowed, ParseError, Refusal
from apps.record.events import JSON
from parley import db

FORM = "application/x-www-form-urlencoded"


class NotSigned(Refusal):
    """Nothing is at this address, or the signature or token is wrong. Check the address and the secret."""

    kind = Kind.UNAUTHENTICATED


type Accept = Callable[[HttpRequest, str], Coroutine[Any, Any, HttpResponse]]


def for_other_systems(accept: Accept) -> Accept:
    """The view of an address at which other systems post what happened. Refusals are brief; addresses are counted."""

    @csrf_exempt
    async def view(request: HttpRequest, key: str) -> HttpResponse:
        address = str(request.META.get("REMOTE_ADDR", ""))
        try:
            if request.method != "POST":
                raise MethodNotAllowed(["POST"])
            await db.run(quotas.count_request, ANONYMOUS, address)
            db.caller.set(address_key(address))
            return await accept(request, key)
        except Exception as error:
            refused = problem(error)
            return http.json_response(refused.brief, refused.codes.a2a, refused.http_headers)

    return view


@for_other_systems
async def hook(request: HttpRequest, key: str) -> HttpResponse:
    """Raises NotSigned, QuotaExceeded, ParseError."""
    webhook = await db.run(incoming.find_webhook, _uuid(key))
    if webhook is None or not await db.run(incoming.may_be_signed, webhook, request.headers):
        raise NotSigned
    content = await bodies.read(request, ANONYMOUS, settings.INCOMING_EVENT_BYTES)
    if not await db.run(incoming.is_signed, webhook, request.headers, content):
        raise NotSigned
    db.caller.set(f"hook:{webhook.pk}")
    await db.run(quotas.count_event, str(webhook.pk))
    body = await _read(request, content, webhook)
    if (challenge := incoming.challenge_of(webhook, body)) is not None:
        return http.json_response({"challenge": challenge})
    # Chosen here, because `db.run` may try again.
    event = await db.run(incoming.receive, webhook, request.headers, body, str(uuid.uuid4()))
    if event is None:
        raise NotSigned
    if webhook.scheme == webhook_signatures.SLACK and _is_form(request):
        return HttpResponse(status=200)  # Slack shows a body to whoever wrote the command
    return http.json_response(_answer(event), 202)


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def _is_form(request: HttpRequest) -> bool:
    return request.headers.get("Content-Type", "").partition(";")[0].strip().lower() == FORM


async def _read(request: HttpRequest, content: bytes, webhook: IncomingWebhook) -> Any:
    """The event: JSON, or a form with it as `payload`, which GitHub can send. Slack's commands are the form itself.

    Raises ParseError.
    """
    if _is_form(request):
        try:
            fields = {name: values[0] for name, values in parse_qs(content.decode(), max_num_fields=50).items()}
            if webhook.scheme == webhook_signatures.SLACK and "payload" not in fields:
                return strict_json.received(fields)
            content = fields["payload"].encode()
        except (ValueError, KeyError):
            raise ParseError("The form has no field payload with JSON. Send the event as application/json.") from None
    try:
        return strict_json.received(await http.parsed(content))
    except ValueError as error:
        raise ParseError(str(error)) from None


def _answer(event: IncomingEvent) -> JSON:
    return {"id": str(event.pk), "state": event.state, "task": str(event.task_id) if event.task_id else None}


urlpatterns = [path("hooks/<str:key>", hook, name="hook"), path("hooks/<str:key>/", hook)]
