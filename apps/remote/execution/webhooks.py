"""The webhook that a remote agent calls about its work for a run.

The body is ignored: a call with the right token makes the run's follower ask the agent.
"""

from __future__ import annotations

import asyncio
import base64
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.utils.crypto import constant_time_compare, salted_hmac
from django.views.decorators.csrf import csrf_exempt

from apps.accounts.principals import ANONYMOUS
from apps.accounts.requests import quotas
from apps.record.error_table import plain_response
from apps.record.reading import notifications
from parley import db

JSON = dict[str, Any]

WEBHOOK_SALT = "apps.remote.receiving"
TOKEN_HEADER = "X-A2A-Notification-Token"  # noqa: S105 - the name of a header
AUTH_SCHEME = "Bearer"
NUDGE_INTERVAL_SECONDS = 0.25  # between nudges of a run; calls in between are merged


def webhook_config(run_id: uuid.UUID) -> JSON:
    """The `TaskPushNotificationConfig` (A2A 1.0 §4.3.1) for the remote task of a run, without the task's id.

    The token is there twice, for agents that support only one of the places.
    """
    token = _token(run_id, settings.SECRET_KEY)
    return {
        "id": str(run_id),
        "url": f"{settings.PUBLIC_BASE_URL}/gateway/notifications/{run_id}",
        "token": token,
        "authentication": {"scheme": AUTH_SCHEME, "credentials": token},
    }


@csrf_exempt
async def notification(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """`POST /gateway/notifications/<run>`. A wrong token and an unknown run both give 404."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    try:
        await db.run(quotas.count_request, ANONYMOUS, str(request.META.get("REMOTE_ADDR", "")))
    except quotas.QuotaExceeded as refusal:
        return plain_response(refusal)
    if not _is_authentic(run_id, request.headers.get(TOKEN_HEADER, ""), request.headers.get("Authorization", "")):
        return HttpResponse("There is nothing at this address.", status=HTTPStatus.NOT_FOUND, content_type="text/plain")
    await _throttle.pass_on(str(run_id))
    return HttpResponse(status=HTTPStatus.NO_CONTENT)


def _is_authentic(run_id: uuid.UUID, token: str, authorization: str) -> bool:
    """At least one token must be given, and each given one must match. Compares in constant time."""
    scheme, _, credentials = authorization.partition(" ")
    given = [token] * bool(token) + [credentials if scheme.lower() == AUTH_SCHEME.lower() else ""] * bool(authorization)
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    expected = [_token(run_id, key) for key in keys]
    return bool(given) and all(any([constant_time_compare(one, token) for one in expected]) for token in given)  # noqa: C419


def _token(run_id: uuid.UUID, key: str | bytes) -> str:
    """256 bits derived from the secret key, so that none are stored."""
    digest = salted_hmac(WEBHOOK_SALT, str(run_id), secret=key, algorithm="sha256").digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class NudgeThrottle:
    def __init__(self) -> None:
        self._paused: dict[str, bool] = {}  # runs nudged just now: did another call follow?

    async def pass_on(self, run_id: str) -> None:
        if run_id in self._paused:
            self._paused[run_id] = True
            return
        self._pause(run_id)
        await db.run(notifications.nudge, run_id)

    def _pause(self, run_id: str) -> None:
        self._paused[run_id] = False
        asyncio.get_running_loop().call_later(NUDGE_INTERVAL_SECONDS, self._resume, run_id)

    def _resume(self, run_id: str) -> None:
        if self._paused.pop(run_id):
            self._pause(run_id)
            db.later(notifications.nudge, run_id)


_throttle = NudgeThrottle()

_waiting_events: dict[str, tuple[asyncio.AbstractEventLoop, asyncio.Event]] = {}


@contextmanager
def nudges_of(run_id: object) -> Iterator[asyncio.Event]:
    """An event that is set whenever the run is nudged."""
    notifications.on_nudge(_wake)  # idempotent
    event = asyncio.Event()
    key, mine = str(run_id), (asyncio.get_running_loop(), event)
    _waiting_events[key] = mine
    try:
        yield event
    finally:
        if _waiting_events.get(key) is mine:  # this process may have claimed the run again
            del _waiting_events[key]


def _wake(run_id: str) -> None:
    """Thread-safe."""
    if found := _waiting_events.get(run_id):
        loop, event = found
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(event.set)
