"""The `Idempotency-Key` of a request: who sends it again gets what the first one led to, and nothing is done twice."""

from __future__ import annotations

import re
import uuid

from rest_framework.request import Request

from apps.api.problems import InvalidFields

HEADER = "Idempotency-Key"
KEY = re.compile(r"[!-~]([ -~]{0,198}[!-~])?")


def key_of(request: Request) -> str:
    """The key that came, or a new one where none did. Raises InvalidFields."""
    given = request.headers.get(HEADER)
    if given is None:
        return str(uuid.uuid4())
    if not KEY.fullmatch(given):
        raise InvalidFields([(HEADER, "Must have 1 to 200 printable characters of ASCII, such as a UUID.")])
    return given
