"""A caller that speaks to a running Parley through thick and thin: it asks again while nobody answers."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx

from tests.stack import Stack

JSON = dict[str, Any]
BETWEEN = 0.1  # seconds from one question to the next
TERMINAL = {f"TASK_STATE_{state}" for state in ("COMPLETED", "FAILED", "REJECTED", "CANCELED")}


class Caller:
    """Calls one agent of the stack as the demo user."""

    def __init__(self, stack: Stack, slug: str) -> None:
        self.url = f"{stack.url}/a2a/{slug}"
        self.headers = {"Authorization": f"Bearer {stack.demo_key}", "A2A-Version": "1.0"}

    def call(self, method: str, **params: Any) -> JSON:
        """The result of a call. Raises httpx.TransportError where nobody answers."""
        answer = httpx.post(self.url, json=_request(method, params), headers=self.headers, timeout=60)
        body: JSON = answer.json()
        assert "result" in body, body
        result: JSON = body["result"]
        return result

    def insist(self, method: str, **params: Any) -> JSON:
        """The result of a call that is repeated, the same, for as long as the answer is to try again."""
        while True:
            answer = httpx.post(self.url, json=_request(method, params), headers=self.headers, timeout=60)
            if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                break
            time.sleep(float(answer.headers["Retry-After"]))
        assert answer.status_code == httpx.codes.OK, answer.text
        result: JSON = answer.json()["result"]
        return result

    def send(self, *parts: str | JSON, **fields: Any) -> JSON:
        """Send a message and get the task as it is then."""
        configuration = {"returnImmediately": True}
        task: JSON = self.call("SendMessage", message=message(*parts, **fields), configuration=configuration)["task"]
        return task

    @contextmanager
    def streaming(self, method: str, **params: Any) -> Iterator[Iterator[JSON]]:
        """The StreamResponses of a streaming call, as they come."""
        request = _request(method, params)
        with httpx.stream("POST", self.url, json=request, headers=self.headers, timeout=60) as stream:
            lines = (line.removeprefix("data: ") for line in stream.iter_lines() if line.startswith("data: "))
            yield (json.loads(line)["result"] for line in lines)

    def streamed(self, method: str, **params: Any) -> JSON:
        """What a streaming call led to: the text as a reader puts it together, and the last state.

        The text is that of the artifact that came last: a turn that had to begin anew makes another.
        """
        texts: dict[str, str] = {}
        state = ""
        with self.streaming(method, **params) as events:
            for event in events:
                if update := event.get("artifactUpdate"):
                    key = update["artifact"]["artifactId"]
                    texts[key] = (texts[key] if update.get("append") else "") + text_of(update["artifact"])
                state = event.get("statusUpdate", {}).get("status", {}).get("state", state)
        return {"text": list(texts.values())[-1], "state": state}

    def wait_until_streaming(self, task: JSON, chunks: int) -> None:
        """Wait until the task has produced this many more chunks: it is in the middle of its work then."""
        with self.streaming("SubscribeToTask", id=task["id"]) as events:
            for event in events:
                chunks -= "artifactUpdate" in event
                if chunks <= 0:
                    return
        raise AssertionError("the task ended too early")

    def send_through(self, *parts: str | JSON) -> JSON:
        """`send`, the same message again until it is answered: nothing comes of it twice."""
        sent, configuration = message(*parts), {"returnImmediately": True}
        while True:
            with suppress(httpx.TransportError):
                task: JSON = self.insist("SendMessage", message=sent, configuration=configuration)["task"]
                return task
            time.sleep(BETWEEN)

    def ended(self, task: JSON, within: float) -> JSON:
        """The task once it has ended, `within` seconds at most; while nobody answers it asks again."""
        return self.until(lambda now: now["status"]["state"] in TERMINAL, task, within)

    def until(self, is_so: Callable[[JSON], bool], task: JSON, within: float) -> JSON:
        """The task once that is so, `within` seconds at most; while nobody answers it asks again."""
        deadline = time.monotonic() + within
        now: JSON = {}
        while True:
            with suppress(httpx.TransportError):
                now = self.call("GetTask", id=task["id"])
                if is_so(now):
                    return now
            assert time.monotonic() < deadline, now
            time.sleep(BETWEEN)


def _request(method: str, params: JSON) -> JSON:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def message(*parts: str | JSON, **fields: Any) -> JSON:
    content = [{"text": part} if isinstance(part, str) else part for part in parts]
    return {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": content, **fields}


def text_of(holder: JSON) -> str:
    return "".join(part.get("text", "") for part in holder["parts"])


def until(is_so: Callable[[], bool], within: float) -> None:
    """Wait until that is so, `within` seconds at most."""
    deadline = time.monotonic() + within
    while not is_so():
        assert time.monotonic() < deadline, "it is not so"
        time.sleep(BETWEEN)
