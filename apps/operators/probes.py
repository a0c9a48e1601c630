"""What web processes and workers answer to the doctor: how they see a request, and a message back."""

from __future__ import annotations

import time

from django.core import signing
from django.http import Http404, HttpRequest, JsonResponse

from agentkit import Artifact, Completed, SkillHandler, TaskContext

REQUEST = "healthz/request"
HEADER = "Parley-Doctor"
SIGNED_SECONDS = 24 * 3600  # clocks may differ, and the doctor is to say so


def signature() -> dict[str, str]:
    """The header of the doctor's request to REQUEST, by SECRET_KEY."""
    return {HEADER: _signer().sign("doctor")}


async def seen_request(request: HttpRequest) -> JsonResponse:
    """Scheme, Host and caller as this process sees them, what a proxy said of them, and the time.

    Raises Http404 to others than the doctor.
    """
    try:
        _signer().unsign(request.headers.get(HEADER, ""), max_age=SIGNED_SECONDS)
    except signing.BadSignature:
        raise Http404 from None
    found = {
        "scheme": request.scheme,
        "host": request.headers.get("Host", ""),
        "address": request.META.get("REMOTE_ADDR") or "",
        "forwardedFor": request.headers.get("X-Forwarded-For"),
        "forwardedProto": request.headers.get("X-Forwarded-Proto"),
        "time": time.time(),
    }
    return JsonResponse(found, headers={"Cache-Control": "no-store"})


def _signer() -> signing.TimestampSigner:
    return signing.TimestampSigner(salt="doctor")


class Listener(SkillHandler):
    """Answers with what it was sent."""

    name = "Doctor"
    listed = False

    async def on_request(self, task: TaskContext) -> Completed:
        return Completed(task.message.text, [Artifact.text("answer", task.message.text)])
