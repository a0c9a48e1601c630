"""What is tried in each direction, and how it is judged."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx

JSON = dict[str, Any]
HELLO, AGAIN = "Hello, agent", "Once more"


@dataclass(frozen=True)
class Outcome:
    """What was tried, and why it failed, if it did."""

    tried: str
    failure: str = ""


def words(got: Any) -> list[str]:
    return [str(state).removeprefix("TASK_STATE_").lower().replace("_", "-") for state in got]


WANTED: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "message": ("the text once", lambda got: got == "Hello, Parley"),
    "stream": ("3, 2, 1 in pieces", lambda got: [piece.strip() for piece in got][:3] == ["3", "2", "1"]),
    "second turn": ("one context", lambda got: all(got) and len(set(got)) == 1),
    "question": ("input-required, completed", lambda got: words(got) == ["input-required", "completed", "same task"]),
    "cancel": ("canceled", lambda got: words([got]) == ["canceled"]),
    "file": ("its content", lambda got: got == "The content of a file."),
}
"""What a client shall get, in words and as a check."""


def judged(lines: list[JSON]) -> list[Outcome]:
    return [Outcome(line["tried"], failure_of(line)) for line in lines]


def failure_of(line: JSON) -> str:
    if "error" in line:
        return str(line["error"])
    wanted, is_right = WANTED[line["tried"]]
    return "" if is_right(line["got"]) else f"got {json.dumps(line['got'])}, not {wanted}"


# Parley calls


class Caller:
    """Sends messages to a remote agent through Parley."""

    def __init__(self, url: str, key: str) -> None:
        headers = {"Authorization": f"Bearer {key}", "A2A-Version": "1.0"}
        self._url, self._http = url, httpx.Client(headers=headers, timeout=60, trust_env=False)

    def outcomes(self) -> Iterator[Outcome]:
        context = ""
        for tried, text, send in (
            ("message", HELLO, self.sent),
            ("second turn", AGAIN, self.sent),
            ("stream", HELLO, self.streamed),
        ):
            turn = 2 if tried == "second turn" else 1
            try:
                context, got = send(text, context if turn == 2 else "")
                yield Outcome(tried, "" if got == f"{turn}: {text}" else f"got {json.dumps(got)}")
            except (httpx.HTTPError, KeyError, ValueError) as error:
                yield Outcome(tried, f"{type(error).__name__}: {error}")

    def sent(self, text: str, context: str) -> tuple[str, str]:
        """Context and text of the answer. Raises ValueError with Parley's error."""
        result = result_of(self._http.post(self._url, json=self._body("SendMessage", text, context)).json())
        if message := result.get("message"):
            return message["contextId"], joined(message)
        task = result["task"]
        return task["contextId"], self._answer(task["status"], task.get("artifacts", []))

    def streamed(self, text: str, context: str) -> tuple[str, str]:
        pieces: list[JSON] = []
        status: JSON = {}
        with self._http.stream("POST", self._url, json=self._body("SendStreamingMessage", text, context)) as response:
            for line in response.iter_lines():
                if line.startswith("data:"):
                    [(kind, event)] = result_of(json.loads(line[5:])).items()
                    context = event.get("contextId", context)
                    if kind == "message":
                        return context, joined(event)
                    status = event.get("status", status)
                    pieces += [event["artifact"]] if kind == "artifactUpdate" else []
        return context, self._answer(status, pieces)

    def _answer(self, status: JSON, artifacts: list[JSON]) -> str:
        if status["state"] != "TASK_STATE_COMPLETED":
            raise ValueError(f"{status['state']}: {joined(status.get('message', {}))}")
        return "".join(map(joined, artifacts)) or joined(status.get("message", {}))

    def _body(self, method: str, text: str, context: str) -> JSON:
        message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}
        params = {"message": message | ({"contextId": context} if context else {})}
        return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def result_of(answer: JSON) -> JSON:
    """Raises ValueError with Parley's error."""
    if "error" in answer:
        raise ValueError(answer["error"]["message"])
    result: JSON = answer["result"]
    return result


def joined(holder: JSON) -> str:
    return "".join(part.get("text", "") for part in holder.get("parts", []))
