"""A program behind an HTTP address as an agent: `from agentkit.adapters.http_endpoint import serve; serve(url)`.

It needs `httpx2`. Each turn is one POST with JSON: `message`, `context_id`, `task_id`, and if there are any `data`,
`files` (`{"name", "media_type", "base64" or "url"}`) and `history` (`[{"role", "text"}]`). It answers with

- text, which streams;
- JSON: a string, an object as below, or any other value, which is data;
- lines of JSON (`application/x-ndjson`, or the `data` of `text/event-stream`): strings and objects as they come.

An object may have `token`, a piece of the answer; `progress`; `message`, the whole answer; `data`, of the answer;
`question`, with a JSON Schema as `schema` if need be; or `error`, which fails the task.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, Unpack
from urllib.parse import urlsplit

import httpx2

from agentkit.adapters import serving, words_of
from agentkit.content.emissions import WholeAnswer
from agentkit.content.messages import Artifact, File
from agentkit.context import TaskContext
from agentkit.errors import AgentFailure
from agentkit.handlers import SkillHandler, Traits
from agentkit.llm.models import surroundings
from agentkit.outcomes import Completed, InputRequired

SECONDS = 120.0  # that the other side may stay silent
CONNECT_SECONDS = 10.0
LONGEST_ERROR = 500  # characters, for operators
QUESTION = "question"
KEYS = frozenset({"token", "progress", "message", "data", "question", "schema", "error"})
LINES = ("application/x-ndjson", "application/jsonl", "text/event-stream")


class HttpAgent(SkillHandler):
    """A program at an address. `headers` go along with each request, such as its `Authorization`."""

    def __init__(
        self, url: str, *, headers: Mapping[str, str] | None = None, seconds: float = SECONDS, **traits: Unpack[Traits]
    ) -> None:
        """`seconds`: how long it may stay silent."""
        self.url = url
        self.headers = dict(headers or {})
        self.seconds = seconds
        self.name = urlsplit(url).hostname or "agent"
        self.description = f"The program at {self.name}."
        vars(self).update(traits)

    async def on_request(self, task: TaskContext) -> Completed | InputRequired:
        said, data, whole = "", [], None
        async with aclosing(self._answers(task)) as answers:
            async for one in answers:
                if isinstance(one.get("error"), str):
                    raise AgentFailure(one["error"], "endpoint")
                if isinstance(one.get("question"), str):
                    schema = one.get("schema")
                    return InputRequired(one["question"], QUESTION, schema if isinstance(schema, dict) else None)
                if isinstance(one.get("progress"), str):
                    await task.progress(one["progress"])
                if isinstance(one.get("token"), str):
                    said += one["token"]
                    await task.token(one["token"])
                if isinstance(one.get("message"), str):
                    whole = one["message"]
                data += [one["data"]] if "data" in one else []
        if whole is not None and said and whole != said:
            await task.say(WholeAnswer(whole))
        return Completed(whole, artifacts=[Artifact.json("answer", value) for value in data])

    async def _answers(self, task: TaskContext) -> AsyncGenerator[dict[str, Any]]:
        async with posted(self.url, asked(task), self.headers, self.seconds) as response:
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind in LINES:
                async for line in lines(response):
                    yield answer(read(line))
            elif kind == "application/json":
                await response.aread()
                one = answer(read(response.text))
                yield {"message": one["token"]} if set(one) == {"token"} else one
            else:
                async for piece in response.aiter_text():
                    yield {"token": piece}


agent = HttpAgent
serve = serving(agent)


def asked(task: TaskContext) -> dict[str, Any]:
    """A turn as JSON."""
    given: dict[str, Any] = {"message": words_of(task.message), "context_id": task.context_id, "task_id": task.task_id}
    given["data"] = task.message.data
    given["files"] = [_file(file) for file in task.message.files]
    given["history"] = [{"role": one.role, "text": words_of(one)} for one in task.history]
    return {name: value for name, value in given.items() if value or isinstance(value, str)}


def _file(file: File) -> dict[str, str]:
    content = {"base64": inline(file)} if file.url is None else {"url": file.url}
    return {"name": file.name, "media_type": file.media_type, **content}


def inline(file: File) -> str:
    """A file's content in base64."""
    return base64.b64encode(file.read()).decode("ascii")


def answer(value: Any) -> dict[str, Any]:
    """A JSON value of the other side as an object with KEYS."""
    if isinstance(value, str):
        return {"token": value}
    return value if isinstance(value, dict) and value and value.keys() <= KEYS else {"data": value}


def read(text: str) -> Any:
    """JSON of the other side. Raises AgentFailure."""
    try:
        return json.loads(text)
    except ValueError:
        raise AgentFailure("The endpoint answered what is not JSON.", "endpoint", text[:LONGEST_ERROR]) from None


async def lines(response: httpx2.Response) -> AsyncIterator[str]:
    """The lines that have content; of events, their data up to `[DONE]`."""
    is_events = response.headers.get("content-type", "").startswith("text/event-stream")
    async for line in response.aiter_lines():
        text = line.strip()
        if is_events:
            text = text.removeprefix("data:").strip() if text.startswith("data:") else ""
        if text == "[DONE]":
            return
        if text:
            yield text


@asynccontextmanager
async def posted(url: str, body: Any, headers: Mapping[str, str], seconds: float) -> AsyncIterator[httpx2.Response]:
    """A response whose body is not read yet. Within a platform, its rules about addresses hold.

    Raises AgentFailure for a status of an error, and if the endpoint cannot be reached.
    """
    make = surroundings().http_client or httpx2.AsyncClient
    try:
        async with (
            make(timeout=httpx2.Timeout(seconds, connect=CONNECT_SECONDS)) as client,
            client.stream("POST", url, json=body, headers=headers) as response,
        ):
            if not response.is_success:
                await response.aread()
                sentence = f"The endpoint answered with the status {response.status_code}."
                raise AgentFailure(sentence, "endpoint", response.text[:LONGEST_ERROR])
            yield response
    except httpx2.TimeoutException as error:
        raise AgentFailure("The endpoint did not answer in time.", "endpoint_slow", str(error)) from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise AgentFailure("The endpoint cannot be reached.", "endpoint_unreachable", str(error)) from None
