"""A client of LangGraph's API at this process's application."""

import json

import pytest
from django.test import AsyncClient

from tests.clients.calling import followed
from tests.doors.conftest import ada_key as ada_key
from tests.doors.conftest import bob_key as bob_key
from tests.doors.conftest import greeting as greeting
from tests.doors.conftest import modeled as modeled
from tests.doors.conftest import speaking as speaking
from tests.model_agents.conftest import endpoint as endpoint


class Client:
    """Asks as LangGraph's SDKs do: paths after the base URL, the key in `x-api-key`."""

    def __init__(self, key=""):
        self.key = key

    async def ask(self, method, path, body=None, **headers):
        named = {"x-api-key": self.key} if self.key else {}
        content = {} if body is None else {"data": json.dumps(body), "content_type": "application/json"}
        return await AsyncClient().generic(method, f"/langgraph{path}", **content, headers={**named, **headers})

    async def get(self, path, **headers):
        return await self.ask("GET", path, **headers)

    async def post(self, path, body=None, **headers):
        return await self.ask("POST", path, body, **headers)

    async def thread(self, **fields):
        """The id of a new thread."""
        return (await self.post("/threads", fields)).json()["thread_id"]

    async def wait(self, path, text, **fields):
        """The values after a run."""
        return (await self.post(f"{path}/runs/wait", run(text, **fields))).json()

    async def stream(self, path, body=None, **headers):
        """Name, data and id of the events of a stream."""
        response = await (self.get(path, **headers) if body is None else self.post(path, body, **headers))
        assert response.streaming, response.content
        async with followed(response) as chunks:
            whole = b"".join([chunk async for chunk in chunks])
        blocks = [block for block in whole.split(b"\n\n") if block and not block.startswith(b":")]
        fields = [dict(line.split(b": ", 1) for line in block.split(b"\n")) for block in blocks]
        return [(one[b"event"].decode(), json.loads(one[b"data"]), int(one.get(b"id", 0))) for one in fields]


def run(text=None, agent="speaking", **fields):
    said = {} if text is None else {"input": {"messages": [{"role": "user", "content": text}]}}
    return {"assistant_id": agent, **said, **fields}


def words(values):
    """Kind and content of the messages."""
    return [(one["type"], one["content"]) for one in values["messages"]]


@pytest.fixture
def client(ada_key):
    return Client(ada_key)


@pytest.fixture
def others(bob_key):
    return Client(bob_key)


@pytest.fixture
def nobody():
    return Client()
