"""HTTP for A2A: limits the size and time of answers, and parses them strictly.

`JsonRpc` speaks A2A 1.0 on plain JSON; `CallClient` is the client of the SDK, which speaks the others.

Raises failures as a `RemoteError`.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import httpx
from a2a.utils.errors import A2A_ERROR_REASONS, JSON_RPC_ERROR_CODE_MAP
from django.conf import settings
from django.utils.http import parse_http_date_safe

from apps.engine.turns.output import clean
from apps.record.content import strict_json
from apps.remote.agent_cards.cards import Interface
from apps.remote.errors import CutOff, Misbehaved, Overloaded, Refused, RemoteError, Unauthorized, Unreachable
from parley import outbound
from parley.outbound.errors import Forbidden, Misleading, OutboundError, TooLarge, TooSlow, Unsendable, Untrusted
from parley.outbound.transports import Transport

JSON = dict[str, Any]

UNUSED_SECONDS = 60.0  # after which an unused pool is closed

LONGEST_EVENT_ID = 200  # characters

PARSED_IN_THREAD = 256 * 1024  # bytes; more would block the event loop
UNSTORABLE_ESCAPES = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")  # U+0000 and surrogates

REASON_OF_CODE = {code: A2A_ERROR_REASONS.get(kind, "PARSE_ERROR") for kind, code in JSON_RPC_ERROR_CODE_MAP.items()}
REASON_OF_NAME = {kind.__name__: reason for kind, reason in A2A_ERROR_REASONS.items()}  # HTTP+JSON of A2A 0.3
REASON = re.compile(r"[A-Z][A-Z0-9_]{0,62}")
CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")
LONGEST_ERROR = 300  # characters
LONGEST_WAIT = 24 * 3600.0  # seconds
BREAKDOWN_STATUSES = (500, 502, 504)

BODY_AND_SECRET_HEADERS = ("content-length", "content-type", "host", "authorization", "cookie")

PoolKey = tuple[str, outbound.Guard, outbound.Limits, str]


@dataclass(slots=True)
class OriginPool:
    transport: Transport
    users: int = 0
    used_at: float = 0.0


@dataclass(slots=True)
class LoopPools:
    pools: dict[PoolKey, OriginPool] = field(default_factory=dict)
    swept_at: float = 0.0
    closer: AsyncGenerator[None] | None = None

    @asynccontextmanager
    async def borrow(self, key: PoolKey) -> AsyncIterator[Transport]:
        pool = self.pools.get(key)
        if pool is None:
            pool = self.pools[key] = OriginPool(Transport(outbound.Exchange(key[1], key[2], socket=key[3])))
        pool.users += 1
        try:
            yield pool.transport
        finally:
            pool.users -= 1
            pool.used_at = asyncio.get_running_loop().time()
            await self._close_unused(pool.used_at)

    async def _close_unused(self, now: float) -> None:
        if now - self.swept_at < UNUSED_SECONDS / 4:
            return
        self.swept_at = now
        unused = [key for key, pool in self.pools.items() if not pool.users and now - pool.used_at > UNUSED_SECONDS]
        for key in unused:
            await self.pools.pop(key).transport.aclose()

    async def close_with_loop(self) -> AsyncGenerator[None]:
        """Closes the connections when the loop ends, because the loop then closes its generators."""
        try:
            yield
        finally:
            while self.pools:
                await self.pools.popitem()[1].transport.aclose()


_loop_pools: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopPools] = weakref.WeakKeyDictionary()


@asynccontextmanager
async def pooled_transport(origin: str, socket: str = "") -> AsyncIterator[Transport]:
    """The transport to one origin, or to a Unix socket, with connections that the event loop shares."""
    loop = asyncio.get_running_loop()
    pools = _loop_pools.get(loop)
    if pools is None:
        pools = _loop_pools[loop] = LoopPools()
        pools.closer = pools.close_with_loop()
        await anext(pools.closer)
    limits = outbound.Limits(
        seconds=None,
        connect_seconds=settings.REMOTE_CONNECT_SECONDS,
        bytes=settings.REMOTE_ANSWER_BYTES,
        stream_bytes=settings.REMOTE_STREAM_BYTES,
        connections=settings.REMOTE_CONNECTIONS,
    )
    async with pools.borrow((origin, outbound.guard(), limits, socket)) as transport:
        yield transport


class JsonRpc:
    """A2A 1.0 over JSON-RPC. Calls raise RemoteError.

    Attributes:
        event_id: the id of the last event.
    """

    def __init__(
        self, transport: Transport, interface: Interface, auth: httpx.Auth | None, headers: Mapping[str, str]
    ) -> None:
        self._transport, self._interface, self._auth = transport, interface, auth
        self._headers = {"User-Agent": "Parley", "A2A-Version": interface.version, **headers}
        self.event_id = ""

    async def ask(self, method: str, params: JSON, headers: Mapping[str, str] | None = None) -> Any:
        """The result."""
        async with aclosing_response(await self._open(method, params, headers or {})) as response:
            if response.is_success and _is_stream(response):
                raise Misbehaved("The agent answers with a stream where one answer is due.")
            return await self._result(response)

    async def stream(self, method: str, params: JSON, headers: Mapping[str, str] | None = None) -> AsyncGenerator[Any]:
        """The results. An agent may answer with one and no stream."""
        accepted = {"Accept": "text/event-stream", **(headers or {})}
        async with aclosing_response(await self._open(method, params, accepted)) as response:
            if not (response.is_success and _is_stream(response)):
                yield await self._result(response)
                return
            async for frame in read_events(response):
                if frame.data.strip():
                    result = result_of(await parse_json(frame.data), response, is_rpc=True)
                    self.event_id = frame.id if len(frame.id) <= LONGEST_EVENT_ID and frame.id.isprintable() else ""
                    yield result

    async def _open(self, method: str, params: JSON, headers: Mapping[str, str]) -> httpx.Response:
        body = {"jsonrpc": "2.0", "id": str(uuid4()), "method": method, "params": params}
        connect, idle = settings.REMOTE_CONNECT_SECONDS, settings.REMOTE_IDLE_SECONDS
        request = httpx.Request(
            "POST",
            self._interface.url,
            headers={"Content-Type": "application/json", **self._headers, **headers},
            content=json.dumps(body, ensure_ascii=False, allow_nan=False).encode(),
            extensions={"timeout": {"connect": connect, "pool": connect, "read": idle, "write": idle}},
        )
        async with head_timeout(request.url.host):
            if self._auth is None:
                response: httpx.Response = await self._transport.handle_async_request(request)
            else:
                response = await self._open_with(self._auth, request)
        response.request = request
        return response

    async def _open_with(self, auth: httpx.Auth, request: httpx.Request) -> httpx.Response:
        async with aclosing(auth.async_auth_flow(request)) as flow:
            signed = await anext(flow)
            while True:
                response: httpx.Response = await self._transport.handle_async_request(signed)
                try:
                    signed = await flow.asend(response)
                except StopAsyncIteration:
                    return response
                except BaseException:
                    await response.aclose()
                    raise
                await response.aclose()

    async def _result(self, response: httpx.Response) -> Any:
        if not response.is_success:
            raise error_of_response(response, await _error_body(response))
        return result_of(await parse_json(await read_body(response)), response, is_rpc=True)


@asynccontextmanager
async def aclosing_response(response: httpx.Response) -> AsyncIterator[httpx.Response]:
    try:
        yield response
    finally:
        await response.aclose()


def result_of(value: Any, response: httpx.Response, *, is_rpc: bool) -> Any:
    """The result in an answer. Raises RemoteError for an error instead of one."""
    if not isinstance(value, dict):
        raise Misbehaved("The agent's answer is not a JSON object.")
    if error_object(value) is not None:
        raise error_of_response(response, value)
    if is_rpc and "result" not in value:
        raise Misbehaved("The agent's answer has neither a result nor an error.")
    return value["result"] if is_rpc else value


class CallClient(httpx.AsyncClient):
    """An HTTP client for one call, for a transport of the SDK.

    It parses answers strictly and gives the SDK only what it expects. Failures are raised as a `RemoteError`, which
    passes through the SDK.

    Attributes:
        value: the JSON of the last answer or event, as the agent sent it.
        event_id: the id of the last event.
    """

    def __init__(
        self,
        transport: Transport,
        interface: Interface,
        auth: httpx.Auth | None,
        rewrite_body: Callable[[JSON], JSON],
        *,
        gives_events: bool = False,
    ) -> None:
        """`rewrite_body` restores values in a request that the SDK's types change. Do not close the client.

        `gives_events`: the answer is a stream response, or several.
        """
        connect, idle = settings.REMOTE_CONNECT_SECONDS, settings.REMOTE_IDLE_SECONDS
        super().__init__(
            transport=transport,
            auth=auth,
            headers={"User-Agent": "Parley", "A2A-Version": interface.version},
            timeout=httpx.Timeout(idle, connect=connect, pool=connect),
            trust_env=False,
        )
        self._interface = interface
        self._rewrite_body = rewrite_body
        self._reads_flat_events = gives_events and interface.version != "0.3"
        self.value: Any = None
        self.event_id = ""

    def build_request(self, method: str, url: httpx.URL | str, *, json: Any = None, **options: Any) -> httpx.Request:
        body = None if json is None else self._rewrite_body(json)
        return super().build_request(method, url, json=body, **options)

    async def send(self, request: httpx.Request, *, stream: bool = False, **options: Any) -> httpx.Response:
        """The rewritten answer. Raises RemoteError."""
        response = await self._open(request, **options)
        if response.status_code == 405 and request.method == "POST" and request.url.path.endswith(":subscribe"):
            await response.aclose()  # for a stream the SDK sends POST, A2A 1.0 requires GET
            headers = {k: v for k, v in request.headers.items() if k.lower() not in BODY_AND_SECRET_HEADERS}
            response = await self._open(self.build_request("GET", request.url, headers=headers), **options)
        try:
            if response.is_success and _is_stream(response):
                return self._stream(response, stream)
            return await self._answer(response, request)
        except BaseException:
            await response.aclose()
            raise

    async def _open(self, request: httpx.Request, **options: Any) -> httpx.Response:
        async with head_timeout(request.url.host):
            return await super().send(request, stream=True, **options)

    def _stream(self, response: httpx.Response, is_wanted: bool) -> httpx.Response:
        if not is_wanted:
            raise Misbehaved("The agent answers with a stream where one answer is due.")
        headers = {"Content-Type": "text/event-stream"}
        return httpx.Response(200, headers=headers, stream=EventStream(self, response), request=response.request)

    async def _answer(self, response: httpx.Response, request: httpx.Request) -> httpx.Response:
        if not response.is_success:
            raise error_of_response(response, await _error_body(response))
        content = self.sdk_json(await parse_json(await read_body(response)), response)
        await response.aclose()
        headers = {"Content-Type": "application/json"}
        return httpx.Response(200, headers=headers, content=content, request=request)

    def sdk_json(self, value: Any, response: httpx.Response) -> bytes:
        """The value for the SDK. Raises RemoteError for an error instead of a result."""
        is_rpc = self._interface.binding == "JSONRPC"
        self.value = result_of(value, response, is_rpc=is_rpc)
        if self._reads_flat_events:
            self.value = wrapped_event(self.value)
        value = {"jsonrpc": "2.0", "id": "1", "result": self.value} if is_rpc else self.value
        repair_timestamps(self.value)
        return json.dumps(value).encode()


class EventStream(httpx.AsyncByteStream):
    def __init__(self, client: CallClient, response: httpx.Response) -> None:
        self._client, self._response = client, response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for frame in read_events(self._response):
            if not frame.data.strip():
                continue
            content = self._client.sdk_json(await parse_json(frame.data), self._response)
            self._client.event_id = frame.id if len(frame.id) <= LONGEST_EVENT_ID and frame.id.isprintable() else ""
            yield b"data: %b\n\n" % content

    async def aclose(self) -> None:
        await self._response.aclose()


def _is_stream(response: httpx.Response) -> bool:
    kind: str = response.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower() == "text/event-stream"


async def _error_body(response: httpx.Response) -> Any:
    """Its JSON; the beginning of what is no JSON; None if nothing came."""
    content = b""
    try:
        content = await read_body(response)
        return await parse_json(content)
    except RemoteError:
        return content[:LONGEST_ERROR].decode(errors="replace") or None


@asynccontextmanager
async def head_timeout(host: str) -> AsyncIterator[None]:
    """Limits the wait for an answer's head, including a token. Raises RemoteError.

    The connection's own timeouts do not end a head that comes byte by byte.
    """
    with connection_failures(host):
        async with asyncio.timeout(settings.REMOTE_CONNECT_SECONDS + 2 * settings.REMOTE_IDLE_SECONDS):
            yield


async def read_body(response: httpx.Response) -> bytes:
    """The body, which must arrive within the idle time. Raises CutOff, Misbehaved."""
    with connection_failures(response.request.url.host):
        async with asyncio.timeout(settings.REMOTE_IDLE_SECONDS):
            return b"".join([piece async for piece in response.aiter_bytes()])


async def read_events(response: httpx.Response) -> AsyncGenerator[ServerSentEvent]:
    """The events of a stream. Raises CutOff, Misbehaved.

    An event or comment must begin and be complete within the idle time, so that a slow agent cannot hold a run forever.
    """
    loop, parser = asyncio.get_running_loop(), EventParser()
    chunks, since = aiter(response.aiter_bytes()), loop.time()
    while True:
        with connection_failures(response.request.url.host):
            async with asyncio.timeout_at(since + settings.REMOTE_IDLE_SECONDS):
                chunk = await anext(chunks, None)
        if chunk is None:
            return
        is_fresh = not parser.has_begun
        for frame in parser.feed(chunk):
            is_fresh = True
            if frame is not None:
                yield frame
        if is_fresh:
            since = loop.time()


async def parse_json(body: bytes) -> Any:
    """The JSON of an answer or event, without characters that cannot be stored. Raises Misbehaved."""
    return _parse_json(body) if len(body) <= PARSED_IN_THREAD else await asyncio.to_thread(_parse_json, body)


def _parse_json(body: bytes) -> Any:
    try:
        value = strict_json.parse(body, settings.REMOTE_ANSWER_VALUES)
    except strict_json.InvalidJSON as error:
        raise Misbehaved(f"The agent's answer cannot be read. {error}") from None
    return clean(value) if b"\0" in body or UNSTORABLE_ESCAPES.search(body) else value


@contextmanager
def connection_failures(host: str) -> Iterator[None]:
    """Raises failures of the connection as Unreachable, CutOff or Misbehaved."""
    try:
        yield
    except TimeoutError:
        raise CutOff(f"{host} fell silent, or was too slow: see REMOTE_IDLE_SECONDS.") from None
    except httpx.HTTPError as error:
        raise _connection_error(host, error) from error
    except httpx.InvalidURL as error:
        raise Unreachable(f"The agent's address cannot be used: {error}", is_transient=False) from None


def _connection_error(host: str, error: httpx.HTTPError) -> RemoteError:
    cause = error.__cause__
    if not isinstance(cause, OutboundError):
        return Unreachable(f"{host} was not called: the request cannot be sent as it is.", is_transient=False)
    if isinstance(cause, Forbidden | Unsendable | Untrusted):
        return Unreachable(str(cause), is_transient=False)
    if isinstance(cause, TooLarge | Misleading):
        return Misbehaved(str(cause))
    if cause.was_sent:
        return CutOff(f"The connection to {host} broke off. {cause}")
    if isinstance(cause, TooSlow):
        return Unreachable(f"No connection to {host} came about in time.")
    return Unreachable(str(cause))


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event; `id` is "" for none."""

    data: bytes
    id: str


class EventParser:
    """Parses one stream of events, whose size `outbound` limits.

    `has_begun`: is there an incomplete event or comment?
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []  # of the line that is not complete
        self._data: list[bytes] = []
        self._id = b""
        self._skips_lf = False
        self.has_begun = False

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent | None]:
        """The events that these bytes complete; None for a comment between events or an event without data."""
        if self._skips_lf and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._skips_lf = chunk.endswith(b"\r")
        for piece in chunk.splitlines(keepends=True):
            self._pieces.append(piece)
            self.has_begun = True
            if piece.endswith((b"\n", b"\r")):
                line = b"".join(self._pieces)
                self._pieces = []
                yield from self._end_line(line)

    def _end_line(self, line: bytes) -> Iterator[ServerSentEvent | None]:
        if line.startswith(b":"):
            if not self._data:
                self.has_begun = False
                yield None
        elif bare := line.rstrip(b"\r\n"):
            self._add_field(*bare.split(b":", 1))
        else:
            yield self._end_event()

    def _add_field(self, name: bytes, value: bytes = b"") -> None:
        value = value.removeprefix(b" ")
        if name.removeprefix(b"\xef\xbb\xbf") == b"data":
            self._data.append(value)
        elif name == b"id" and b"\0" not in value:
            self._id = value

    def _end_event(self) -> ServerSentEvent | None:
        data, self._data, self.has_begun = self._data, [], False
        return ServerSentEvent(b"\n".join(data), self._id.decode("utf-8", "replace")) if data else None


EVENT_NAMES = {
    "task": "task",
    "message": "message",
    "status-update": "statusUpdate",
    "artifact-update": "artifactUpdate",
}
"""The `kind` of a 0.3 event, and the field of a 1.0 stream response for it."""


def wrapped_event(value: Any) -> Any:
    """An event of 1.0 in its field, if the agent sent it flat with a `kind`, as 0.3 has it."""
    kind = value.get("kind") if isinstance(value, dict) else None
    name = EVENT_NAMES.get(kind) if isinstance(kind, str) else None
    if name is None or isinstance(value.get(name), dict):
        return value
    return {name: {key: inner for key, inner in value.items() if key != "kind"}}


def repair_timestamps(value: Any) -> None:
    """Gives the timestamps of a task or event the form of A2A 1.0 §5.6.1, and removes invalid ones.

    fasta2a writes UTC without a zone.
    """
    if not isinstance(value, dict):
        return
    for one in (value, *value.values()):
        status = one.get("status") if isinstance(one, dict) else None
        if isinstance(status, dict) and "timestamp" in status:
            status["timestamp"] = _utc_timestamp(status["timestamp"])
            if status["timestamp"] is None:
                del status["timestamp"]


def _utc_timestamp(text: Any) -> str | None:
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, TypeError, OverflowError):
        return None
    return moment.isoformat().replace("+00:00", "Z")


BROKE_AT_PROXY = re.compile("reset reason: (connection termination|remote reset|protocol error)", re.IGNORECASE)
"""Envoy's words in a 503 after it had sent the request
(https://www.envoyproxy.io/docs/envoy/latest/configuration/observability/access_log/usage)."""


def error_of_response(response: httpx.Response, body: Any) -> RemoteError:
    """The error of a response; `body` is its JSON, or text, or None."""
    status, error = response.status_code, error_object(body)
    said = _error_text(error, body)
    if status in (401, 403):
        problem = "The agent wants a credential" if status == 401 else "The agent does not let this credential in"
        challenge = plain_line(response.headers.get("www-authenticate", ""))
        return Unauthorized(_sentence(problem, said), status=status, challenge=challenge)
    if status in (429, 503):
        wait = retry_after(response.headers.get("retry-after", ""))
        is_cut = status == 503 and wait is None and isinstance(body, str) and bool(BROKE_AT_PROXY.search(body))
        told = _sentence("The agent takes no more work now", said)
        return Overloaded(told, status=status, retry_after=wait, is_cut=is_cut)
    reason = reason_of(error, body) or f"HTTP_{status}"
    return Refused(
        _sentence(f"The agent refused ({reason})", said),
        reason=reason,
        status=status,
        said=said,
        is_transient=status in BREAKDOWN_STATUSES and reason in ("INTERNAL_ERROR", f"HTTP_{status}"),
    )


def error_object(body: Any) -> JSON | None:
    """The error object of an answer or event; None for a result."""
    error = body.get("error") if isinstance(body, dict) else None
    return error if isinstance(error, dict) else None


def reason_of(error: JSON | None, body: Any = None) -> str:
    """A2A's name of the error, from its ErrorInfo, its code, or its name in 0.3; "" if unknown."""
    for detail in _error_details(error):
        if str(detail.get("@type", "")).endswith("google.rpc.ErrorInfo"):
            reason = str(detail.get("reason"))
            if REASON.fullmatch(reason):
                return reason
    code = (error or {}).get("code")
    if isinstance(code, int) and code < 0:
        return REASON_OF_CODE.get(code, f"JSONRPC_{code}" if code > -100_000 else "")
    name = body.get("type") if isinstance(body, dict) else None
    return REASON_OF_NAME.get(name, "") if isinstance(name, str) else ""


def _error_details(error: JSON | None) -> list[JSON]:
    given = (error or {}).get("details", (error or {}).get("data"))
    return [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []


def _error_text(error: JSON | None, body: Any) -> str:
    given: JSON = error or (body if isinstance(body, dict) else {})
    texts = [given.get(name) for name in ("message", "detail", "title")]
    return next((plain_line(text) for text in texts if isinstance(text, str)), "")


def plain_line(text: str) -> str:
    """The text on one line, cut, without control and bidi characters."""
    bare = CONTROL_CHARACTERS.sub(" ", text).strip()
    return bare if len(bare) <= LONGEST_ERROR else f"{bare[:LONGEST_ERROR]}…"


def _sentence(ours: str, theirs: str) -> str:
    return f"{ours}: {theirs}" if theirs else f"{ours}."


def retry_after(text: str) -> float | None:
    """The seconds of a Retry-After in either form (RFC 9110 §10.2.3); None for an invalid one."""
    if text.strip().isdecimal():
        return min(float(text), LONGEST_WAIT)
    moment = parse_http_date_safe(text)
    return None if moment is None else min(max(moment - time.time(), 0.0), LONGEST_WAIT)
