"""A scripted installation, by httpx2's transport."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import httpx2

JSON = dict[str, Any]
SESSION, TASK = "5e551000-0000-4000-8000-000000000000", "7a5c0000-0000-4000-8000-000000000000"


class FakeParley(httpx2.MockTransport):
    """Gives each address its scripted answers in order, the last one again and again; keeps the requests."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.requests: list[httpx2.Request] = []
        self._script: dict[tuple[str, str], list[Any]] = defaultdict(list)

    def on(self, method: str, path: str, *answers: Any) -> None:
        """An answer: a status, JSON, bytes, a response, an exception, or a list of server-sent lines and exceptions."""
        self._script[method, f"/api/v1{path}"] += answers

    def asked(self, method: str, path: str) -> list[httpx2.Request]:
        wanted = method, f"/api/v1{path}"
        return [one for one in self.requests if (one.method, one.url.path) == wanted]

    def bodies(self, method: str, path: str) -> list[Any]:
        return [json.loads(one.content) for one in self.asked(method, path)]

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        left = self._script[request.method, request.url.path]
        answer = (left.pop(0) if len(left) > 1 else left[0]) if left else httpx2.codes.NOT_FOUND
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, int):
            return httpx2.Response(answer, json={"detail": "It is refused.", "code": "refused"})
        if isinstance(answer, list):
            return httpx2.Response(200, content=_stream(answer))
        if isinstance(answer, bytes):
            return httpx2.Response(200, content=answer)
        return answer if isinstance(answer, httpx2.Response) else httpx2.Response(200, json=answer)

    # What most tests need

    def agent(self, slug: str = "bot") -> None:
        self.on("GET", f"/agents/{slug}", {"slug": slug, "name": slug.title()})

    def answers(self, *streams: list[Any], state: str = "completed", question: JSON | None = None) -> None:
        """A message starts a task with these events."""
        self.agent()
        self.on("POST", "/sessions", sent())
        self.on("GET", "/events", *streams)
        self.on("GET", f"/tasks/{TASK}", task(state, question))
        self.on("GET", "/artifacts", {"items": [], "nextCursor": None})


def sent(index: int = 1) -> JSON:
    return {"session": {"id": SESSION}, "task": task("submitted"), "message": {"index": index}, "answer": None}


def task(state: str, question: JSON | None = None) -> JSON:
    return {
        "id": TASK, "sessionId": SESSION, "state": state, "agent": "bot", "question": question,
        "updatedAt": "2027-01-01T00:00:00.000Z", "status": {"message": None},
    }  # fmt: skip


def event(index: int, kind: str, task_id: str = TASK, **payload: Any) -> bytes:
    told = {"sessionId": SESSION, "index": index, "type": kind, "taskId": task_id, "payload": payload}
    return f"event: {kind}\nid: place-{index}\ndata: {json.dumps(told)}\n\n".encode()


def token(index: int, text: str) -> bytes:
    return event(index, "agent_token", artifactId="words", name="", text=text)


def status(index: int, state: str, text: str = "", **more: Any) -> bytes:
    message = {"message": {"parts": [{"text": text}]}} if text else {}
    return event(index, "agent_status", state=state, **message, **more)


def _stream(pieces: Iterable[Any]) -> Iterator[bytes]:
    for piece in pieces:
        if isinstance(piece, BaseException):
            raise piece
        yield piece
