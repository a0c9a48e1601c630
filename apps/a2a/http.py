"""HTTP as both bindings use it: what a request says of its caller, version and body, and how it is answered.

An answer is JSON, an error as a `google.rpc.Status` (A2A 1.0 §11.6), or a stream of server-sent events.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse

import db
from apps.a2a.authentication import authenticate, authenticate_for_agent
from apps.a2a.errors import JSON, ParseError, UnsupportedMediaType, VersionNotSupported, problem
from apps.a2a.tasks import Update
from apps.accounts.authentication import BadCredentials
from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.record import wire
from apps.record.content import strict_json
from apps.record.errors import InvalidParams, Refusal

LARGE_BODY = 64 * 1024  # bytes; a larger one is not read on the event loop
JSON_CONTENT_TYPE = re.compile(r"application/([a-z0-9.+-]+\+)?json", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AuthenticatedRequest:
    """A request whose caller is known; the agent too, unless it came to the front door, where `tenant` names it."""

    request: HttpRequest
    principal: Principal
    agent: Agent | None


def check_content_type(request: HttpRequest) -> None:
    """Raises UnsupportedMediaType for a body that does not say that it is JSON, or that is compressed."""
    media_type = request.headers.get("Content-Type", "").partition(";")[0].strip()
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if not JSON_CONTENT_TYPE.fullmatch(media_type) or encoding != "identity":
        raise UnsupportedMediaType


async def authenticate_request(request: HttpRequest, slug: str) -> AuthenticatedRequest:
    """Who is calling the agent `slug`, or the front door where that is empty.

    Raises BadCredentials, QuotaExceeded, Unauthenticated, AgentNotFound.
    """
    authorization, address = request.headers.get("Authorization", ""), address_of(request)
    if slug:
        return AuthenticatedRequest(request, *await db.run(authenticate_for_agent, authorization, slug, address))
    return AuthenticatedRequest(request, await db.run(authenticate, authorization, address), None)


def address_of(request: HttpRequest) -> str:
    """Where the request comes from, as the ASGI server says."""
    return str(request.META.get("REMOTE_ADDR", ""))


async def read_body(body: bytes) -> Any:
    """The JSON value of a request. Raises ParseError."""
    try:
        if len(body) > LARGE_BODY:
            return await asyncio.to_thread(strict_json.parse, body)
        return strict_json.parse(body)
    except strict_json.InvalidJSON as error:
        raise ParseError(str(error)) from None


async def read_object(body: bytes) -> JSON:
    """The JSON object of a request. Raises ParseError, InvalidParams."""
    value = await read_body(body)
    if not isinstance(value, dict):
        raise InvalidParams("The body must be a JSON object.")
    return value


VERSION_HEADER = "A2A-Version"
V1_0 = "1.0"
V0_3 = "0.3"


def version_of(request: HttpRequest) -> str:
    """The version that a request speaks; one that names none speaks 0.3."""
    return requested_version(request) or V0_3


def requested_version(request: HttpRequest) -> str:
    """Major.Minor from the header or the query; what is no version as it came, "" where there is neither."""
    text = (request.headers.get(VERSION_HEADER) or request.GET.get(VERSION_HEADER) or "").strip()
    numbers = re.fullmatch(r"(\d+\.\d+)(\.\d+)?", text, re.ASCII)
    return numbers[1] if numbers else text


def check_version(request: HttpRequest, served: str) -> None:
    """Raises VersionNotSupported where the request does not speak the version that is served at its address."""
    if (version := version_of(request)) != served:
        raise version_refusal(version, served)


def version_refusal(version: str, served: str = V1_0) -> VersionNotSupported:
    """Why a request that speaks `version` is refused where `served` is what is served."""
    if served == V0_3:
        return VersionNotSupported(
            f"At this address A2A {V0_3} is served. Send the header {VERSION_HEADER}: {V0_3}, or none."
        )
    if version == V0_3:
        return VersionNotSupported(
            f"At this address A2A {V1_0} is served. Send the header {VERSION_HEADER}: {V1_0}; "
            f"without it a request speaks {V0_3}, which is served below v1/."
        )
    return VersionNotSupported(f"A2A {version[:20]} is not served here. Send the header {VERSION_HEADER}: {V1_0}.")


A2A_TYPE = "application/a2a+json"


def response_type(request: HttpRequest) -> str:
    """`application/a2a+json` for who prefers it or, with no preference, sends it; otherwise plain JSON."""
    offered = [JSON_TYPE, A2A_TYPE]
    if request.content_type == A2A_TYPE:
        offered.reverse()
    try:
        preferred = request.get_preferred_type([f"{offer}; charset=utf-8" for offer in offered])
    except ValueError:  # the header cannot be read
        preferred = None
    return preferred.partition(";")[0] if preferred else offered[0]


JSON_TYPE = "application/json"


def json_response(
    value: JSON, status: int = 200, headers: dict[str, str] | None = None, content_type: str = JSON_TYPE
) -> HttpResponse:
    """A JSON object that no cache keeps."""
    content = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    response = HttpResponse(content, content_type=content_type, status=status, headers=headers)
    response["Cache-Control"] = "no-store"
    return response


def error_response(error: Exception, content_type: str = JSON_TYPE) -> HttpResponse:
    """What a caller is told of an error outside JSON-RPC (A2A 1.0 §11.6)."""
    refused = problem(error)
    return json_response(refused.status, refused.row.http, refused.http_headers, content_type)


@dataclass(frozen=True, slots=True)
class Answer:
    """What an operation answers, and the headers that go with it.

    Attributes:
        content: a JSON value, or Updates to be streamed.
        close: is to be called when all of it was said.
        recheck: raises BadCredentials or Refusal where the call would not be let in any more. Synchronous.
    """

    content: Any
    headers: dict[str, str]
    close: Callable[[], None]
    recheck: Callable[[], None]

    @property
    def is_stream(self) -> bool:
        return isinstance(self.content, AsyncGenerator)


log = logging.getLogger("parley.a2a")


@dataclass(frozen=True, slots=True)
class StreamFormat:
    """How a binding says updates, and the error that is the last event of a stream that breaks or is ended."""

    update: Callable[[JSON], JSON]
    error: Callable[[Exception], JSON]
    error_event: str = ""  # its name, where it has one


def event_stream(answer: Answer, stream_format: StreamFormat) -> wire.EventStream:
    """A response that sends each update with its event's index as `id`."""
    return wire.EventStream(_frames(answer, stream_format), answer.close, answer.headers)


async def _frames(answer: Answer, stream_format: StreamFormat) -> AsyncGenerator[bytes]:
    """The bytes to send: what was recorded together goes out together.

    A caller who would not be let in any more is told so, as by an error, and the stream ends.
    """

    def encode(batch: list[Update]) -> bytes:
        return b"".join(wire.sse_frame(stream_format.update(response), id_=index) for index, response in batch)

    def error_frame(error: Exception) -> bytes:
        return wire.sse_frame(stream_format.error(error), event=stream_format.error_event)

    def final_frame() -> bytes | None:
        try:
            answer.recheck()
        except (BadCredentials, Refusal) as refusal:
            return error_frame(refusal)
        return None

    try:
        async with aclosing(wire.until_revoked(wire.with_heartbeats(answer.content, encode), final_frame)) as frames:
            async for frame in frames:
                yield frame
    except Exception as error:
        log.exception("a stream broke")
        yield error_frame(error)
