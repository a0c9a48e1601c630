"""One client script passes at an agent hosted here and at every remote peer.

It uses the unchanged SDK client of 1.0. Each operation stands alone; the agent does what `peers.acting` says.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import pytest
from a2a.client import A2ACardResolver, Client
from a2a.types import a2a_pb2 as a2a

from tests import stack
from tests.a2a import receiving
from tests.a2a.talking import answer, client, request, states, text_of, updates
from tests.remote import peers
from tests.remote.peers import acting

SECONDS = 60.0
HOSTED = "hosted here"
NORMAL = pytest.mark.services("two processes that talk to each other", only=True)
SLOW = pytest.mark.slow("more than one of each make, and what takes long to install or to start")


@dataclass(frozen=True)
class Script:
    """Two clients of an agent: one streams, one waits for answers."""

    card: a2a.AgentCard
    streaming: Client
    waiting: Client

    async def answer(self, *parts: a2a.Part | str, **fields: object) -> a2a.Task:
        return (await answer(self.waiting, request(*parts, **fields))).task

    async def get(self, task: a2a.Task, **options: int) -> a2a.Task:
        return await self.waiting.get_task(a2a.GetTaskRequest(id=task.id, **options))


@asynccontextmanager
async def script(url: str, slug: str, key: str, binding: str = "JSONRPC") -> AsyncIterator[Script]:
    async with httpx.AsyncClient(timeout=SECONDS) as http:
        shown = await A2ACardResolver(http, f"{url}/a2a/{slug}").get_agent_card()
    async with (
        client(url, slug, key, binding=binding) as streaming,
        client(url, slug, key, binding=binding, streaming=False) as waiting,
        asyncio.timeout(SECONDS),
    ):
        yield Script(shown, streaming, waiting)


def pieces(task: a2a.Task) -> dict[str, str]:
    return {artifact.name: text_of(artifact) for artifact in task.artifacts}


async def card(at: Script) -> None:
    assert at.card.name == acting.NAME
    assert at.card.description == acting.DESCRIPTION
    assert [skill.id for skill in at.card.skills] == ["act"]
    assert set(at.card.default_input_modes) >= set(acting.MODES)
    assert at.card.capabilities.streaming


async def blocking_send(at: Script) -> None:
    task = await at.answer("hello there")
    assert task.status.state == a2a.TASK_STATE_COMPLETED
    assert pieces(task) == {"answer": "hello there"}
    assert [said.role for said in task.history] == [a2a.ROLE_USER, a2a.ROLE_AGENT]
    assert text_of(task.history[-1]) == "hello there"


async def streaming_send(at: Script) -> None:
    seen = await updates(at.streaming, request("chunks 5"))
    assert states(seen) == [a2a.TASK_STATE_SUBMITTED, a2a.TASK_STATE_WORKING, a2a.TASK_STATE_COMPLETED]
    chunks = [one.artifact_update for one in seen if one.HasField("artifact_update")]
    assert "".join(text_of(chunk.artifact) for chunk in chunks) == "1\n2\n3\n4\n5\n"
    assert len({chunk.artifact.artifact_id for chunk in chunks}) == 1
    assert [chunk.append for chunk in chunks] == [False] + [True] * (len(chunks) - 1)
    assert [chunk.last_chunk for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert pieces(await at.get(seen[0].task)) == {"lines": "1\n2\n3\n4\n5\n"}


async def get(at: Script) -> None:
    task = await at.answer("hello")
    assert await at.get(task) == task
    assert [said.role for said in (await at.get(task, history_length=1)).history] == [a2a.ROLE_AGENT]


async def list_tasks(at: Script) -> None:
    first = await at.answer("one")
    second = await at.answer("two", context_id=first.context_id)
    listed = await at.waiting.list_tasks(a2a.ListTasksRequest(context_id=first.context_id, include_artifacts=True))
    assert [task.id for task in listed.tasks] == [second.id, first.id]
    assert [pieces(task)["answer"] for task in listed.tasks] == ["two", "one"]


async def subscribe(at: Script) -> None:
    sent = request("chunks 20 0.02")
    sent.configuration.return_immediately = True
    task = (await answer(at.waiting, sent)).task
    assert task.status.state in (a2a.TASK_STATE_SUBMITTED, a2a.TASK_STATE_WORKING)
    seen = [one async for one in at.streaming.subscribe(a2a.SubscribeToTaskRequest(id=task.id))]
    assert seen[0].task.id == task.id
    assert states(seen)[-1] == a2a.TASK_STATE_COMPLETED
    assert pieces(await at.get(task)) == {"lines": "".join(f"{number}\n" for number in range(1, 21))}


async def question_and_answer(at: Script) -> None:
    asked = await at.answer("ask")
    assert asked.status.state == a2a.TASK_STATE_INPUT_REQUIRED
    assert text_of(asked.status.message) == "Which word?"
    done = await at.answer("blue", task_id=asked.id, context_id=asked.context_id)
    assert (done.id, done.status.state) == (asked.id, a2a.TASK_STATE_COMPLETED)
    assert pieces(done) == {"answer": "It was blue."}


async def cancel(at: Script) -> None:
    stream = at.streaming.send_message(request("work"))
    task = (await anext(stream)).task
    async for one in stream:
        if text_of(one.status_update.status.message) == "I have begun.":
            break
    canceled = await at.waiting.cancel_task(a2a.CancelTaskRequest(id=task.id))
    assert canceled.status.state == a2a.TASK_STATE_CANCELED
    assert states([one async for one in stream])[-1] == a2a.TASK_STATE_CANCELED
    assert (await at.get(task)).status.state == a2a.TASK_STATE_CANCELED


async def file_in(at: Script) -> None:
    content = acting.FILE * 3
    file = a2a.Part(raw=content, filename="mine.bin", media_type="application/octet-stream")
    task = await at.answer("take it", file)
    assert pieces(task) == {"received-0": acting.described("mine.bin", content)}


async def file_out(at: Script) -> None:
    task = await at.answer("file")
    [artifact] = task.artifacts
    [part] = artifact.parts
    assert (part.raw, part.filename, part.media_type) == (acting.FILE, "all.bin", "application/octet-stream")


async def refinement(at: Script) -> None:
    first = await at.answer("one")
    second = await at.answer("two", context_id=first.context_id, reference_task_ids=[first.id])
    assert second.id != first.id
    assert second.context_id == first.context_id
    assert pieces(second) == {"answer": "two"}
    assert await at.get(first) == first


async def webhook(at: Script) -> None:
    async with receiving.receiver() as receiver:
        sent = request("hello")
        sent.configuration.task_push_notification_config.url = receiver.url
        sent.configuration.task_push_notification_config.token = "secret"
        task = (await answer(at.waiting, sent)).task
        calls = await receiver.have_heard("completed")
    assert {call.headers["X-A2A-Notification-Token"] for call in calls} == {"secret"}
    assert calls[-1].body["statusUpdate"]["taskId"] == task.id
    assert "artifact" in receiver.told


async def failure(at: Script) -> None:
    failed = await at.answer("fail")
    assert failed.status.state == a2a.TASK_STATE_FAILED
    assert text_of(failed.status.message) == "This went wrong, as was asked."
    assert not failed.artifacts
    rejected = await at.answer("reject")
    assert rejected.status.state == a2a.TASK_STATE_REJECTED
    assert text_of(rejected.status.message) == "Not this one."


OPERATIONS = [
    card, blocking_send, streaming_send, get, list_tasks, subscribe, question_and_answer, cancel, file_in, file_out,
    refinement, webhook, failure,
]  # fmt: skip


@pytest.fixture(scope="module")
def gateway() -> Iterator[stack.Stack]:
    with stack.running(OUTBOUND_ALLOW="127.0.0.0/8") as running:
        yield running


@pytest.mark.timeout(600)  # the first test waits for two whole Parleys
@pytest.mark.parametrize(
    "agent",
    [
        pytest.param(HOSTED, marks=NORMAL),
        pytest.param("SDK 1.3 JSON-RPC", marks=NORMAL),
        pytest.param("SDK 1.3 HTTP+JSON", marks=SLOW),
        pytest.param("SDK 1.3 without streams", marks=SLOW),
        pytest.param("SDK 0.3.26", marks=SLOW),
        pytest.param("fasta2a 2.1.1", marks=NORMAL),
        pytest.param("Parley", marks=SLOW),
    ],
)
async def test_the_script_passes(gateway, subtests, agent):
    slug = re.sub("[^a-z0-9]+", "-", agent.lower())
    source = "" if agent == HOSTED else f"={peers.peer(agent).card_url}"
    await asyncio.to_thread(gateway.python, "-m", "tests.remote.peers.registering", slug + source)
    for operation in OPERATIONS:
        with subtests.test(operation.__name__):
            async with script(gateway.url, slug, gateway.demo_key) as at:
                await operation(at)
