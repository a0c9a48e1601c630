"""A remote agent over JSON-RPC, in a thread, with scripted answers for each method."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.remote.card_server import card

JSON = dict[str, Any]
CUT = {"cut": True}  # in a stream: the connection breaks here
ENDED = ("TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED")


class RpcError(Exception):
    def __init__(self, code: int, message: str = "no", status: int = 200, headers: Any = None) -> None:
        super().__init__(message)
        self.code, self.status, self.headers = code, status, headers


class Scripted:
    """The agent.

    Attributes:
        requests: (method, params) of each.
        headers: of each request.
        task: the answer to GetTask, which CancelTask ends; None: no task.
        sent: the answer to SendMessage and SendStreamingMessage: a function from params to events, or RpcError.
        subscribed: the same for SubscribeToTask.
        others: answers to methods by name, such as those of 0.3, before the usual ones; a list is a stream.
        unknown: methods that it does not know.
        is_down: answers everything with a bare 503; `refused` counts them.
        authorization: the header that a request must have, if any.
    """

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[tuple[str, JSON]] = []
        self.headers: list[dict[str, str]] = []
        self.task: JSON | None = None
        self.sent: Callable[[JSON], AsyncIterator[JSON]] = nothing
        self.subscribed: Callable[[JSON], AsyncIterator[JSON]] = nothing
        self.others: dict[str, Any] = {}
        self.unknown: tuple[str, ...] = ()
        self.is_down, self.refused = False, 0
        self.authorization = ""

    def card(self, **capabilities: Any) -> JSON:
        return card(self.url, capabilities={"streaming": True, **capabilities})

    def count(self, *methods: str) -> int:
        return sum(method in methods for method, _ in self.requests)

    @property
    def sends(self) -> list[JSON]:
        return [params["message"] for method, params in self.requests if method.startswith("Send")]

    def is_at(self, state: str, text: str = "", artifacts: list[JSON] | None = None, **more: Any) -> None:
        self.task = task(state, text, artifacts or [], **more)

    def tells(self, state: str, text: str = "", *before: JSON, **more: Any) -> None:
        """A task that comes to this state, after these events."""
        self.sent = events({"task": task()}, *before, now(state, text, **more))
        self.is_at(state, text, **more)

    async def answer(self, request: Request) -> Response:
        if self.is_down:
            self.refused += 1
            return Response(status_code=503)
        if self.authorization not in ("", request.headers.get("authorization")):
            return Response(status_code=401, headers={"WWW-Authenticate": 'Basic realm="vault"'})
        body = json.loads(await request.body())
        self.headers.append(dict(request.headers))
        method, params = body["method"], body.get("params", {})
        self.requests.append((method, params))
        try:
            match method:
                case _ if method in self.unknown:
                    raise RpcError(-32601, "There is no such method.")
                case _ if isinstance(given := self.others.get(method), list):
                    return _stream(body["id"], events(*given)(params))
                case _ if given is not None:
                    result = given
                case "SendStreamingMessage":
                    return _stream(body["id"], self.sent(params))
                case "SubscribeToTask":
                    if self.task and self.task["status"]["state"] in ENDED:
                        raise RpcError(-32004, "The task has ended.")
                    return _stream(body["id"], self.subscribed(params))
                case "SendMessage":
                    result = await anext(aiter(self.sent(params)))
                case _ if method.startswith("message/"):
                    raise RpcError(-32601, "There is no such method.")
                case "GetTask" | "CancelTask" if self.task is None:
                    raise RpcError(-32001, "There is no such task.")
                case "GetTask":
                    result = self.task
                case "CancelTask":
                    self.is_at("CANCELED")
                    result = self.task
                case _:
                    result = params
        except RpcError as error:
            told = {"code": error.code, "message": str(error)}
            return JSONResponse({"jsonrpc": "2.0", "id": body["id"], "error": told}, error.status, error.headers)
        return JSONResponse({"jsonrpc": "2.0", "id": body["id"], "result": result})


async def nothing(_: JSON) -> AsyncIterator[JSON]:
    for event in ():
        yield event


def events(*given: JSON) -> Callable[[JSON], AsyncIterator[JSON]]:
    async def play(_: JSON) -> AsyncIterator[JSON]:
        for event in given:
            yield event

    return play


def refusing(code: int, **about: Any) -> Callable[[JSON], AsyncIterator[JSON]]:
    def refuse(_: JSON) -> AsyncIterator[JSON]:
        raise RpcError(code, **about)

    return refuse


def in_turn(*plays: Callable[[JSON], AsyncIterator[JSON]]) -> Callable[[JSON], AsyncIterator[JSON]]:
    """One after the other, then the last again and again."""
    left = list(plays)
    return lambda params: (left.pop(0) if len(left) > 1 else left[0])(params)


def task(state: str = "WORKING", text: str = "", artifacts: Any = None, key: str = "t1", **more: Any) -> JSON:
    made = {"artifacts": artifacts} if artifacts else {}
    return {"id": key, "contextId": "c1", "status": status(state, text, **more), **made}


def status(state: str, text: str = "", **more: Any) -> JSON:
    message = {"messageId": f"m-{text}", "role": "ROLE_AGENT", "parts": [{"text": text}], **more}
    return {"state": f"TASK_STATE_{state}"} | ({"message": message} if text or more else {})


def now(state: str, text: str = "", metadata: JSON | None = None, key: str = "t1", **more: Any) -> JSON:
    update: JSON = {"taskId": key, "contextId": "c1", "status": status(state, text, **more)}
    return {"statusUpdate": update | ({"metadata": metadata} if metadata else {})}


def made(text: str, name: str = "answer", append: bool = False, last: bool = False, **more: Any) -> JSON:
    about = {"taskId": more.pop("task", "t1"), "contextId": "c1", "append": append, "lastChunk": last}
    return {"artifactUpdate": {**about, "artifact": artifact(text, name, **more)}}


def artifact(text: str, name: str = "answer", **more: Any) -> JSON:
    return {"artifactId": more.pop("id", name), "name": name, "parts": more.pop("parts", [{"text": text}]), **more}


def _stream(key: Any, played: AsyncIterator[JSON]) -> StreamingResponse:
    async def lines() -> AsyncIterator[str]:
        async for event in played:
            if event is CUT:
                raise ConnectionResetError
            yield f"data: {json.dumps({'jsonrpc': '2.0', 'id': key, 'result': event})}\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream")


@contextmanager
def serving(port: int = 0) -> Iterator[Scripted]:
    agent = Scripted()
    with serving_app(Starlette(routes=[Route("/", agent.answer, methods=["POST"])]), port) as agent.url:
        yield agent


@contextmanager
def serving_app(app: Starlette, port: int = 0) -> Iterator[str]:
    """Its URL, with a slash at the end, while it is served in a thread."""
    listening = socket.create_server(("127.0.0.1", port))
    server = uvicorn.Server(
        uvicorn.Config(app, log_config=None, log_level="critical", timeout_graceful_shutdown=1, lifespan="off")
    )
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join(5)
        listening.close()
