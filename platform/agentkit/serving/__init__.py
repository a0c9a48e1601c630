"""Serves an agent over A2A 1.0 (JSON-RPC) without a platform: `agentkit serve`, `agentkit dev`.

It needs starlette and uvicorn: `pip install "parley-agentkit[serve]"`. Tasks are in memory and end with the process; a
platform that calls the agent keeps the record, and their state (`serving.state`).
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agentkit.errors import HandlerError
from agentkit.handlers import as_handler
from agentkit.serving.protocol import VERSION, Agent, Refused, card_of, read_json
from agentkit.serving.tasks import Json

MOST_BYTES = 32 * 1024 * 1024  # of a request
QUIET_SECONDS = 15.0  # until a comment says that a stream is alive
LOCAL_HOSTS = ["localhost", "127.0.0.1", "::1"]
TRACE = "x-agentkit-trace"  # the header of the page that asks for what does not leave an agent otherwise

PAGE = "page.html"

log = logging.getLogger("agentkit")


def application(
    agent: object,
    url: str = "http://127.0.0.1:8000/",
    *,
    token: str = "",
    page: bool = False,
    hosts: list[str] | None = None,
) -> Starlette:
    """An ASGI application for anything that `as_handler` takes.

    Args:
        url: its address, for the card.
        token: who calls must send it, as `Authorization: Bearer`; "" for nobody.
        page: is there a page to talk to the agent? It shows what the agent does, too. There is none with a token.
        hosts: the names under which it may be called, against DNS rebinding; None for all.

    Raises:
        HandlerError: it is no agent.
    """
    served, page = Agent(as_handler(agent)), page and not token
    card = card_of(served.handler, url, needs_token=bool(token))

    async def call(request: Request) -> Response:
        sent = request.headers.get("authorization", "")
        if token and not hmac.compare_digest(sent.encode(), f"Bearer {token}".encode()):
            return _error(None, Refused(401, "Send the token as Authorization: Bearer …."), 401)
        return await _call(served, request, with_trace=page and TRACE in request.headers)

    async def show(request: Request) -> Response:
        return HTMLResponse(files(__package__).joinpath(PAGE).read_text())

    async def read_card(request: Request) -> Response:
        return JSONResponse(card)

    routes = [Route("/", call, methods=["POST"]), Route("/.well-known/agent-card.json", read_card)]
    routes += [Route("/", show)] if page else []
    allowed = Middleware(TrustedHostMiddleware, allowed_hosts=hosts) if hosts else None
    return Starlette(routes=routes, middleware=[allowed] if allowed else [])


def serve(agent: object, *, host: str = "127.0.0.1", port: int = 8080, token: str = "") -> None:
    """Serve anything that `as_handler` takes until the process ends.

    Args:
        token: who calls must send it, as `Authorization: Bearer`.

    Raises:
        HandlerError: it is no agent, or others than this machine could call it without a token.
    """
    url = f"http://{host}:{port}/"
    hosts = allowed_hosts(host, url, token)
    print(f"It answers at {url}", flush=True)
    uvicorn.run(application(agent, url, token=token, page=True, hosts=hosts), host=host, port=port, log_level="warning")


def allowed_hosts(host: str, url: str, token: str) -> list[str] | None:
    """The names under which a server that listens at `host` may be called, against DNS rebinding; None for all.

    Raises:
        HandlerError: others than this machine could call it without a token.
    """
    if token:
        return None
    if host not in LOCAL_HOSTS:
        raise HandlerError(f"Others reach {host}: set a token that callers send as Authorization: Bearer ….")
    return [*LOCAL_HOSTS, "[::1]", urlsplit(url).hostname or host]


async def _call(served: Agent, request: Request, *, with_trace: bool) -> Response:
    """Answers one JSON-RPC request."""
    number = None
    try:
        asked = read_json(await _body(request))
        if not isinstance(asked, dict) or asked.get("jsonrpc") != "2.0" or not isinstance(asked.get("method"), str):
            raise Refused(-32600, 'A request is one object with "jsonrpc": "2.0", a method and an id.')
        if isinstance(asked.get("id"), bool) or not isinstance(asked.get("id", ()), str | int | None):
            raise Refused(-32600, "A request has an id: a text or a whole number.")
        number = asked["id"]
        if (version := request.headers.get("a2a-version", "")) and version.split(".")[:2] != VERSION.split("."):
            raise Refused(-32009, f"This server speaks A2A {VERSION}, not {version}.", "VERSION_NOT_SUPPORTED")
        done = await served.call(asked["method"], asked.get("params") or {})
    except Refused as refused:
        return _error(number, refused, refused.code if refused.code > 0 else 200)
    except Exception:
        log.exception("A request failed")
        return _error(number, Refused(-32603, "The server failed. Its log says why."), 200)
    if isinstance(done, dict):
        return Response(_written(number, done), media_type="application/json")
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    events = _as_sse(done, number, with_trace=with_trace)
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


async def _body(request: Request) -> bytes:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refused(415, "Send Content-Type: application/json.")
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > MOST_BYTES:
                raise Refused(413, f"A request has at most {MOST_BYTES // 1024**2} MiB.")
    except ClientDisconnect:
        raise Refused(400, "The request ended early.") from None
    return bytes(body)


def _error(number: Any, refused: Refused, status: int) -> Response:
    return JSONResponse({"jsonrpc": "2.0", "id": number, "error": refused.wire}, status)


def _written(number: Any, result: Json) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": result}, ensure_ascii=False, default=str)


async def _as_sse(events: AsyncGenerator[Json], number: Any, *, with_trace: bool) -> AsyncIterator[str]:
    """Server-sent events, with a comment where nothing happens for long.

    Those that come together go out together, up to a status: a step goes on once who follows asks for more.
    """
    loop, ready = asyncio.get_running_loop(), list[str]()
    async with aclosing(events):
        following = asyncio.eager_task_factory(loop, anext(events, None))
        try:
            while True:
                if not following.done():
                    await asyncio.sleep(0)  # a turn that needs no time has ended then
                if not following.done():
                    if ready:
                        yield "".join(ready)
                        ready.clear()
                    await asyncio.wait({following}, timeout=QUIET_SECONDS)
                if not following.done():
                    yield ": quiet\n\n"
                    continue
                if (event := following.result()) is None:
                    break
                if "trace" not in event:
                    ready.append(f"data: {_written(number, event)}\n\n")
                elif with_trace:
                    ready.append(f"event: trace\ndata: {json.dumps(event['trace'], default=str)}\n\n")
                if "statusUpdate" in event:
                    yield "".join(ready)
                    ready.clear()
                following = asyncio.eager_task_factory(loop, anext(events, None))
            if ready:
                yield "".join(ready)
        finally:
            following.cancel()
            await asyncio.wait({following})
