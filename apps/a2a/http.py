"""HTTP of both bindings: a request's caller, version and body; JSON, errors and event streams as answers."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from apps.a2a.authentication import TaskReading, authenticate
from apps.a2a.errors import JSON, Problem, problem
from apps.a2a.tasks import Update
from apps.accounts.principals import Principal
from apps.accounts.refusals import refusals
from apps.accounts.requests import bodies, challenges, quotas
from apps.accounts.requests.authentication import BadCredentials
from apps.agents.models import Agent
from apps.record import wire
from apps.record.content import strict_json
from apps.record.errors import InvalidParams, ParseError, Refusal, UnsupportedMediaType, VersionNotSupported
from parley import db

JSON_CONTENT_TYPE = re.compile(r"application/([a-z0-9.+-]+\+)?json", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AuthenticatedRequest:
    """A request and its caller. `agent` is None at the front door. `reading`: what was read with them."""

    request: HttpRequest
    principal: Principal
    agent: Agent | None
    address: str  # from the ASGI server
    reading: TaskReading | None = None

    async def work_on_body[**P, T](self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`work(*args, **kwargs)`, which checks what the body says: see `bodies.work_on`."""
        return await bodies.work_on(len(self.request.body), work, *args, **kwargs)


def check_content_type(request: HttpRequest) -> None:
    """Raises UnsupportedMediaType unless the body is JSON and not compressed."""
    media_type = request.META.get("CONTENT_TYPE", "").partition(";")[0].strip()
    encoding = request.META.get("HTTP_CONTENT_ENCODING", "identity").strip().lower()
    if not JSON_CONTENT_TYPE.fullmatch(media_type) or encoding != "identity":
        raise UnsupportedMediaType


async def authenticate_request(
    request: HttpRequest, slug: str, resource: str = "", reading: TaskReading | None = None
) -> AuthenticatedRequest:
    """Raises as `authenticate`. An empty slug means the front door. `resource`: the path of another door."""
    challenges.resource.set(resource or (f"/a2a/{slug}" if slug else "/a2a"))
    authorization, address = request.META.get("HTTP_AUTHORIZATION", ""), str(request.META.get("REMOTE_ADDR", ""))
    presumed = quotas.presumed_key(authorization, address)
    db.caller.set(presumed)
    try:
        find = reading.authenticate if reading else authenticate
        principal, agent = await db.run(find, authorization, slug, request)
    except BadCredentials as refusal:
        await db.run(refusals.count_key, authorization, request, refusal.reason)
        raise
    if presumed != authorization:
        quotas.note_verified(authorization)
    db.caller.set(quotas.caller_key(principal, address))
    return AuthenticatedRequest(request, principal, agent, address, reading)


async def early_value(request: HttpRequest) -> Any:
    """The value of a small body that came with its head, from credentials that were accepted before; else None.

    What is wrong with it is said once the caller is known.
    """
    if not quotas.was_verified(request.META.get("HTTP_AUTHORIZATION", "")):
        return None
    body = await bodies.arrived(request)
    try:
        return None if body is None else strict_json.parse(body)
    except strict_json.InvalidJSON:
        return None


async def parsed(body: bytes) -> Any:
    """The value of a body. Raises ParseError."""
    try:
        return await bodies.work_on(len(body), strict_json.parse, body)
    except strict_json.InvalidJSON as error:
        raise ParseError(str(error)) from None


async def read_object(incoming: AuthenticatedRequest) -> JSON:
    """The object in a body. Raises as `parsed` and `bodies.read`, and InvalidParams."""
    value = await parsed(await bodies.read(incoming.request, incoming.principal))
    if not isinstance(value, dict):
        raise InvalidParams("The body must be a JSON object.")
    return value


VERSION_HEADER = "A2A-Version"
VERSION_META = "HTTP_A2A_VERSION"
V1_0 = "1.0"
V0_3 = "0.3"
V1_1 = "1.1"  # a draft, for who asks for it where A2A_PREVIEW is on


def version_of(request: HttpRequest, default: str = V0_3) -> str:
    """Major.Minor, from the header or the query. Invalid text is returned as is."""
    text = (request.META.get(VERSION_META) or request.GET.get(VERSION_HEADER) or "").strip() or default
    numbers = re.fullmatch(r"(\d+\.\d+)(\.\d+)?", text, re.ASCII)
    return numbers[1] if numbers else text


def is_served(version: str) -> bool:
    return version in (V1_0, V0_3) or (version == V1_1 and settings.A2A_PREVIEW)


def check_version(request: HttpRequest, served: str) -> str:
    """The request's version. Raises VersionNotSupported unless it is `served`, or a draft after it."""
    version = version_of(request)
    if version == served or (served == V1_0 and version == V1_1 and is_served(version)):
        return version
    raise version_refusal(version, served)


def version_refusal(version: str, served: str = V1_0) -> VersionNotSupported:
    """The refusal of `version` where `served` is served."""
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


def response_type(request: HttpRequest, version: str = "") -> str:
    """The JSON type that the client prefers. If it takes both, A2A's own in 1.0 (§11.1), else that of the request."""
    own = A2A_TYPE if request.content_type == A2A_TYPE else JSON_TYPE
    has_own_type = own == A2A_TYPE or version in (V1_0, V1_1)
    offered = [A2A_TYPE, JSON_TYPE] if has_own_type else [JSON_TYPE, A2A_TYPE]
    try:
        preferred = request.get_preferred_type([f"{offer}; charset=utf-8" for offer in offered])
    except ValueError:  # malformed header
        preferred = None
    return preferred.partition(";")[0] if preferred else own


JSON_TYPE = "application/json"


def json_response(
    value: JSON | str, status: int = 200, headers: dict[str, str] | None = None, content_type: str = JSON_TYPE
) -> HttpResponse:
    """An uncached response of a JSON object or its text."""
    content = (value if isinstance(value, str) else wire.json_text(value)).encode()
    response = HttpResponse(content, content_type=content_type, status=status, headers=headers)
    response["Cache-Control"] = "no-store"
    return response


def jsonrpc_text(request_id: str | int | None, result: JSON | str) -> str:
    """A response of JSON-RPC with a JSON object or its text as result."""
    text = result if isinstance(result, str) else wire.json_text(result)
    return f'{{"jsonrpc":"2.0","id":{json.dumps(request_id, ensure_ascii=False)},"result":{text}}}'


def error_response(error: Exception, content_type: str = JSON_TYPE) -> HttpResponse:
    """An error outside JSON-RPC (A2A 1.0 §11.6)."""
    return problem_response(problem(error), content_type)


def problem_response(refused: Problem, content_type: str) -> HttpResponse:
    return json_response(refused.status, refused.codes.a2a, refused.http_headers, content_type)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of an operation.

    Attributes:
        content: a JSON object, its text, or Updates to stream.
        is_stream: whether the content is Updates.
        close: called when everything is sent.
        recheck: raises BadCredentials or Refusal if the caller lost access. Synchronous; equal arguments, equal answer.
    """

    content: Any
    headers: dict[str, str]
    is_stream: bool
    close: Callable[[], None]
    recheck: partial[None]


log = logging.getLogger("parley.a2a")


@dataclass(frozen=True, slots=True)
class StreamFormat:
    """How a binding writes updates, given as JSON, and the error that ends a broken stream."""

    update: Callable[[str], str]
    error: Callable[[Exception], JSON]
    error_event: str = ""  # the event's name, if any


def event_stream(answer: Answer, stream_format: StreamFormat) -> wire.EventStream:
    """Each update has its event's index as `id`. If the caller loses access, an error ends the stream."""

    def encode(batch: list[Update]) -> Iterator[bytes]:
        return (wire.text_frame(stream_format.update(shared.text), id_=index) for index, shared in batch)

    def error_frame(error: Exception) -> bytes:
        return wire.sse_frame(stream_format.error(error), event=stream_format.error_event)

    frames = checked_frames(answer.content, encode, error_frame, answer.recheck)
    return wire.EventStream(frames, answer.close, answer.headers)


async def checked_frames[T](
    batches: AsyncGenerator[T],
    encode: Callable[[T], Iterable[bytes]],
    error_frame: Callable[[Exception], bytes],
    recheck: partial[None],
) -> AsyncGenerator[bytes]:
    """Each batch's frames, made by `encode`, and heartbeats. An error, also of `Answer.recheck`, ends the stream."""

    def find_refusal() -> Exception | None:
        try:
            recheck()
        except (BadCredentials, Refusal) as refusal:
            return refusal
        return None

    check = wire.AccessCheck.shared(recheck.args, find_refusal)
    try:
        async with aclosing(wire.with_heartbeats(batches, encode, check=check, last_words=error_frame)) as frames:
            async for frame in frames:
                yield frame
                del frame  # not kept while the stream waits
    except Exception as error:
        log.exception("a stream broke")
        yield error_frame(error)
