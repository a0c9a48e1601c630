"""The webhook by which a remote agent says that something became of the work that it does for a run.

What it says is not believed, and not even read: a right token makes whoever waits for the run ask the agent itself.
"""

from __future__ import annotations

import asyncio
import base64
import uuid
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.utils.crypto import constant_time_compare, salted_hmac
from django.views.decorators.csrf import csrf_exempt

import db
from apps.accounts import quotas
from apps.accounts.principals import ANONYMOUS
from apps.record import notifications

JSON = dict[str, Any]

SALT = "apps.remote.receiving"
TOKEN = "X-A2A-Notification-Token"  # noqa: S105 - the name of a header
SCHEME = "Bearer"
REST_SECONDS = 0.25  # after a nudge; what is said of the same run meanwhile is one more


def webhook_for(run_id: uuid.UUID) -> JSON:
    """The `TaskPushNotificationConfig` (A2A 1.0 §4.3.1) for the remote task of a run, without the task's id.

    The token is there twice, for agents that know one of the two ways alone.
    """
    token = _token(run_id, settings.SECRET_KEY)
    return {
        "id": str(run_id),
        "url": f"{settings.PUBLIC_BASE_URL}/gateway/notifications/{run_id}",
        "token": token,
        "authentication": {"scheme": SCHEME, "credentials": token},
    }


@csrf_exempt
async def notification(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """`POST /gateway/notifications/<run>`. A wrong token, and a run that nobody knows, are both not found."""
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    try:
        quotas.count_request(ANONYMOUS, str(request.META.get("REMOTE_ADDR", "")))
    except quotas.TooMuch as refusal:
        headers = {"Retry-After": str(refusal.retry_after)}
        return HttpResponse(
            str(refusal), status=HTTPStatus.TOO_MANY_REQUESTS, content_type="text/plain", headers=headers
        )
    if not _is_right(run_id, request.headers.get(TOKEN, ""), request.headers.get("Authorization", "")):
        return HttpResponse("There is nothing at this address.", status=HTTPStatus.NOT_FOUND, content_type="text/plain")
    await _nudges.pass_on(str(run_id))
    return HttpResponse(status=HTTPStatus.NO_CONTENT)


def _is_right(run_id: uuid.UUID, token: str, authorization: str) -> bool:
    """One of the two must be there, and what is there must be right."""
    scheme, _, credentials = authorization.partition(" ")
    given = [token] * bool(token) + [credentials if scheme.lower() == SCHEME.lower() else ""] * bool(authorization)
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    expected = [_token(run_id, key) for key in keys]
    return bool(given) and all(_is_one_of(expected, one) for one in given)


def _is_one_of(expected: list[str], given: str) -> bool:
    return any([constant_time_compare(one, given) for one in expected])  # noqa: C419 - each is compared


def _token(run_id: uuid.UUID, key: str | bytes) -> str:
    """256 bits that only this installation can tell; nothing has to be kept for it."""
    digest = salted_hmac(SALT, str(run_id), secret=key, algorithm="sha256").digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


class Nudges:
    """Passes on that something happened to a run, at once, but not more often than there is use for."""

    def __init__(self) -> None:
        self._resting: dict[str, bool] = {}  # runs that were nudged a moment ago: has anything happened since?

    async def pass_on(self, run_id: str) -> None:
        if run_id in self._resting:
            self._resting[run_id] = True
            return
        self._resting[run_id] = False
        asyncio.get_running_loop().call_later(REST_SECONDS, self._rested, run_id)
        await db.run(notifications.nudge, run_id)

    def _rested(self, run_id: str) -> None:
        if self._resting.pop(run_id):
            self._resting[run_id] = False
            asyncio.get_running_loop().call_later(REST_SECONDS, self._rested, run_id)
            db.later(notifications.nudge, run_id)


_nudges = Nudges()
