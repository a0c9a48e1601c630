"""One call to an agent as the SDK's client makes it, with our bounds and errors around it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import httpx
from django.conf import settings

from apps.remote.connecting import reading
from apps.remote.connecting.interfaces import Interface
from apps.remote.connecting.mending import mend
from apps.remote.connecting.refusals import error_in, refusal
from apps.remote.errors import Misbehaved, RemoteError
from outbound.transports import Transport

JSON = dict[str, Any]
MOST_ID = 200  # characters of an event's id that are kept


class Line(httpx.AsyncClient):
    """An HTTP client for one call, to be given to a transport of the SDK.

    What it hands on was read strictly and is written anew, plainly: the SDK is never shown an answer of another kind,
    size or form than it expects. What went wrong it raises as ours, which passes through the SDK unchanged.

    Attributes:
        value: the JSON that was handed on last, as the agent sent it.
        event_id: the id that the agent gave the event that was handed on last.
    """

    def __init__(
        self,
        transport: Transport,
        interface: Interface,
        auth: httpx.Auth | None,
        faithful: Callable[[JSON], JSON],
    ) -> None:
        """`faithful` puts into a request's body what the SDK's types would round. The line is not to be closed."""
        connect, idle = settings.REMOTE_CONNECT_SECONDS, settings.REMOTE_IDLE_SECONDS
        super().__init__(
            transport=transport,
            auth=auth,
            headers={"User-Agent": "Parley", "A2A-Version": interface.version},
            timeout=httpx.Timeout(idle, connect=connect, pool=connect),
            trust_env=False,
        )
        self._interface = interface
        self._faithful = faithful
        self.value: Any = None
        self.event_id = ""

    def build_request(self, method: str, url: httpx.URL | str, *, json: Any = None, **options: Any) -> httpx.Request:
        body = None if json is None else self._faithful(json)
        return super().build_request(method, url, json=body, **options)

    async def send(self, request: httpx.Request, *, stream: bool = False, **options: Any) -> httpx.Response:
        """The answer, if it is one. Raises RemoteError."""
        response = await self._opened(request, **options)
        if response.status_code == 405 and request.method == "POST" and request.url.path.endswith(":subscribe"):
            await response.aclose()  # A2A 1.0 has it as a GET, the SDK asks by POST
            response = await self._opened(
                self.build_request("GET", request.url, headers=_bare(request.headers)), **options
            )
        try:
            if response.is_success and _is_stream(response):
                return self._stream(response, stream)
            return await self._answer(response, request)
        except BaseException:
            await response.aclose()
            raise

    async def _opened(self, request: httpx.Request, **options: Any) -> httpx.Response:
        async with reading.answering(request.url.host):
            return await super().send(request, stream=True, **options)

    def _stream(self, response: httpx.Response, is_wanted: bool) -> httpx.Response:
        if not is_wanted:
            raise Misbehaved("The agent answers with a stream where one answer is due.")
        headers = {"Content-Type": "text/event-stream"}
        return httpx.Response(200, headers=headers, stream=Events(self, response), request=response.request)

    async def _answer(self, response: httpx.Response, request: httpx.Request) -> httpx.Response:
        if not response.is_success:
            raise refusal(response, await _value_if_any(response))
        content = self.plainly(await reading.value_of(await reading.whole(response)), response)
        await response.aclose()
        headers = {"Content-Type": "application/json"}
        return httpx.Response(200, headers=headers, content=content, request=request)

    def plainly(self, value: Any, response: httpx.Response) -> bytes:
        """The value for the SDK to read. Raises RemoteError for an error in the place of a result."""
        if not isinstance(value, dict):
            raise Misbehaved("The agent's answer is not a JSON object.")
        if error_in(value) is not None:
            raise refusal(response, value)
        self.value = value
        if self._interface.binding == "JSONRPC":
            if "result" not in value:
                raise Misbehaved("The agent's answer has neither a result nor an error.")
            self.value = value["result"]
            value = {"jsonrpc": "2.0", "id": "1", "result": self.value}
        mend(self.value)
        return json.dumps(value).encode()


class Events(httpx.AsyncByteStream):
    """The events of a stream, written anew, one line of data each."""

    def __init__(self, line: Line, response: httpx.Response) -> None:
        self._line, self._response = line, response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for frame in reading.frames(self._response):
            if not frame.data.strip():
                continue
            content = self._line.plainly(await reading.value_of(frame.data), self._response)
            self._line.event_id = frame.id if len(frame.id) <= MOST_ID and frame.id.isprintable() else ""
            yield b"data: %b\n\n" % content

    async def aclose(self) -> None:
        await self._response.aclose()


def _is_stream(response: httpx.Response) -> bool:
    kind: str = response.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower() == "text/event-stream"


def _bare(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of a request for one that has no body."""
    left_out = ("content-length", "content-type", "host", "authorization", "cookie")
    return {name: value for name, value in headers.items() if name.lower() not in left_out}


async def _value_if_any(response: httpx.Response) -> Any:
    """What the body of an error says, if it comes and says it in JSON: the status alone is an answer."""
    try:
        return await reading.value_of(await reading.whole(response))
    except RemoteError:
        return None
