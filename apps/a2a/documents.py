"""JSON documents that anybody may fetch and caches keep: cards, keys, identities."""

from __future__ import annotations

import datetime
import functools
import hashlib
import json
from collections.abc import Callable, Coroutine
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response
from django.utils.http import http_date

from apps.a2a.answers import JSON_TYPE, refusal
from apps.a2a.errors import JSON, WrongVerb

MAX_AGE = 300  # seconds

View = Callable[..., Coroutine[Any, Any, HttpResponseBase]]


def read_only(view: View) -> View:
    """A view of a document: other methods are refused, and so is what it raises, as errors of HTTP+JSON are."""

    @functools.wraps(view)
    async def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            if request.method not in ("GET", "HEAD"):
                raise WrongVerb(("GET", "HEAD"))
            return await view(request, *args, **kwargs)
        except Exception as error:
            return refusal(error)

    return answer


def document(
    request: HttpRequest,
    shown: JSON,
    *,
    content_type: str = JSON_TYPE,
    validator: str = "",
    changed: datetime.datetime | None = None,
    private: bool = False,
    vary: str = "",
) -> HttpResponseBase:
    """The document with what caches need, or a 304.

    Attributes:
        validator: a strong ETag, in quotes; by default one of the content.
        changed: when it last changed, if that is known.
        private: is it for this caller alone?
        vary: the request header on which it depends.
    """
    content = json.dumps(shown, ensure_ascii=False).encode()
    response = HttpResponse(content, content_type=content_type)
    response["ETag"] = validator or f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    response["Cache-Control"] = f"{'private' if private else 'public'}, max-age={MAX_AGE}"
    seconds = int(changed.timestamp()) if changed else None
    if seconds is not None:
        response["Last-Modified"] = http_date(seconds)
    if vary:
        response["Vary"] = vary
    return get_conditional_response(request, response["ETag"], seconds, response) or response
