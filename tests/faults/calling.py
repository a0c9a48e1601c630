"""A caller of a running Parley that retries while nobody answers."""

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
BETWEEN = 0.1
TERMINAL = {f"TASK_STATE_{state}" for state in ("COMPLETED", "FAILED", "REJECTED", "CANCELED")}


class Caller:
    """Calls one agent of the stack as the demo user."""

    def __init__(self, stack: Stack, slug: str) -> None:
        self.url = f"{stack.url}/a2a/{slug}"
        self.headers = {"Authorization": f"Bearer {stack.demo_key}", "A2A-Version": "1.0"}

    def call(self, method: str, **params: Any) -> JSON:
        answer = httpx.post(self.url, json=_request(method, params), headers=self.headers, timeout=60)
        body: JSON = answer.json()
        assert "result" in body, body
        result: JSON = body["result"]
        return result

    def insist(self, method: str, **params: Any) -> JSON:
        """The result; repeats the same call while the answer is to try again."""
        while True:
            answer = httpx.post(self.url, json=_request(method, params), headers=self.headers, timeout=60)
            if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                break
            time.sleep(float(answer.headers["Retry-After"]))
        assert answer.status_code == httpx.codes.OK, answer.text
        result: JSON = answer.json()["result"]
        return result

    def send(self, *parts: str | JSON, **fields: Any) -> JSON:
        configuration = {"returnImmediately": True}
        task: JSON = self.call("SendMessage", message=message(*parts, **fields), configuration=configuration)["task"]
        return task

    @contextmanager
    def streaming(self, method: str, **params: Any) -> Iterator[Iterator[JSON]]:
        request = _request(method, params)
        with httpx.stream("POST", self.url, json=request, headers=self.headers, timeout=60) as stream:
            lines = (line.removeprefix("data: ") for line in stream.iter_lines() if line.startswith("data: "))
            yield (json.loads(line)["result"] for line in lines)

    def streamed(self, method: str, **params: Any) -> JSON:
        """The text of a streaming call's last artifact (a new attempt makes another), and the last state."""
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
        """Wait until the task has streamed this many more chunks."""
        with self.streaming("SubscribeToTask", id=task["id"]) as events:
            for event in events:
                chunks -= "artifactUpdate" in event
                if chunks <= 0:
                    return
        raise AssertionError("the task ended too early")

    def send_through(self, *parts: str | JSON) -> JSON:
        """`send` until the same message is answered; it runs once."""
        sent, configuration = message(*parts), {"returnImmediately": True}
        while True:
            with suppress(httpx.TransportError):
                task: JSON = self.insist("SendMessage", message=sent, configuration=configuration)["task"]
                return task
            time.sleep(BETWEEN)

    def ended(self, task: JSON, within: float) -> JSON:
        """The ended task, `within` seconds; retries while nobody answers."""
        return self.until(lambda now: now["status"]["state"] in TERMINAL, task, within)

    def until(self, is_so: Callable[[JSON], bool], task: JSON, within: float) -> JSON:
        """The task once the condition holds, `within` seconds; retries while nobody answers."""
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
    deadline = time.monotonic() + within
    while not is_so():
        assert time.monotonic() < deadline, "it is not so"
        time.sleep(BETWEEN)
