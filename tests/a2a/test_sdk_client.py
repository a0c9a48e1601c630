"""Every operation through the SDK's client, by each binding, with real workers."""

import asyncio

import httpx
import jwt
import pytest
from a2a.client import A2ACardResolver, A2AClientError
from a2a.types import a2a_pb2 as a2a
from a2a.utils import errors
from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier
from django.core.management import call_command

from apps.agents.cards import BINDINGS
from apps.agents.registration import register_hosted
from parley import db
from tests.a2a.talking import answer, client, kinds, request, states, text_of, updates

INVALID_PARAMS = {"JSONRPC": errors.InvalidParamsError, "HTTP+JSON": A2AClientError}  # HTTP's 400 says no more


pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(params=BINDINGS)
def binding(request):
    return request.param


@pytest.fixture
def talk(served, ada_key, binding, echo, hello, countdown):
    return lambda slug, key=ada_key, **options: client(served, slug, key, binding=binding, **options)


async def test_files_and_data_come_back(talk):
    async with talk("echo", streaming=False) as agent:
        data = a2a.Part()
        data.data.struct_value.update({"a": [1, 2.5, None, {"ü": True}]})
        file = a2a.Part(raw=bytes(range(256)), filename="../../all.bin", media_type="application/octet-stream")
        large = a2a.Part(raw=b"\xff" * 600_000, filename="large.bin", media_type="application/octet-stream")
        link = a2a.Part(url="https://example.com/a.png", filename="a.png", media_type="image/png")
        sent = (await answer(agent, request("words", data, file, large, link))).task
        returned = {artifact.name: artifact.parts[0] for artifact in sent.artifacts}
        assert (returned["answer"].text, returned["data"].data) == ("words", data.data)
        assert (returned["all.bin"].raw, returned["large.bin"].raw) == (file.raw, large.raw)
        assert returned["a.png"].url == link.url
        assert await agent.get_task(a2a.GetTaskRequest(id=sent.id)) == sent
        short = await agent.get_task(a2a.GetTaskRequest(id=sent.id, history_length=1))
        assert [said.role for said in short.history] == [a2a.ROLE_AGENT]
        asked = a2a.ListTasksRequest(context_id=sent.context_id, include_artifacts=True)
        assert list((await agent.list_tasks(asked)).tasks) == [sent]


async def test_agent_may_answer_with_a_message(talk):
    for streaming in (True, False):
        async with talk("hello", streaming=streaming) as agent:
            heard = await updates(agent, request("I am Ada"))
        assert kinds(heard) == ["message"]
        assert heard[0].message.role == a2a.ROLE_AGENT
        assert "I am Ada" in text_of(heard[0].message)


async def test_parallel_tasks_stream_chunks_in_order(talk):
    async with talk("countdown") as agent:
        first = (await updates(agent, request("1")))[0].task
        streams = [updates(agent, request("5", context_id=first.context_id)) for _ in range(8)]
        async with asyncio.timeout(120):
            results = await asyncio.gather(*streams)
        stream = agent.send_message(request("10000"))
        running = (await anext(stream)).task
        canceled = await agent.cancel_task(a2a.CancelTaskRequest(id=running.id))
        assert (canceled.status.state, list(canceled.artifacts)) == (a2a.TASK_STATE_CANCELED, [])
        async with asyncio.timeout(60):
            assert states([response async for response in stream])[-1] == a2a.TASK_STATE_CANCELED
    for seen in results:
        assert kinds(seen)[0] == "task"
        assert states(seen) == [a2a.TASK_STATE_SUBMITTED, a2a.TASK_STATE_WORKING, a2a.TASK_STATE_COMPLETED]
        chunks = [one.artifact_update for one in seen if one.WhichOneof("payload") == "artifact_update"]
        assert [text_of(chunk.artifact).strip() for chunk in chunks] == ["5", "4", "3", "2", "1"]
        assert [chunk.append for chunk in chunks] == [False, True, True, True, True]
        assert [chunk.last_chunk for chunk in chunks] == [False, False, False, False, True]
        assert len({chunk.artifact.artifact_id for chunk in chunks}) == 1
        own = seen[0].task.id
        assert {one.status_update.task_id or one.artifact_update.task_id or own for one in seen} == {own}


async def test_errors_are_the_sdks_own(talk, binding):
    missing = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
    async with talk("countdown") as agent:
        done = (await updates(agent, request("1")))[0].task
        with pytest.raises(errors.TaskNotFoundError):
            await agent.get_task(a2a.GetTaskRequest(id=missing))
        with pytest.raises(errors.TaskNotCancelableError):
            await agent.cancel_task(a2a.CancelTaskRequest(id=done.id))
        with pytest.raises(errors.UnsupportedOperationError):
            await answer(agent, request("more", task_id=done.id))
        with pytest.raises(errors.UnsupportedOperationError):
            await anext(agent.subscribe(a2a.SubscribeToTaskRequest(id=done.id)))
        with pytest.raises(errors.ContentTypeNotSupportedError):
            await answer(agent, request(a2a.Part(raw=b"1", media_type="image/png")))
        with pytest.raises(INVALID_PARAMS[binding]):
            await answer(agent, request("hi", task_id=done.id, context_id="another"))
    async with talk("echo", key="parley_000000000000_wrong") as agent:
        with pytest.raises(A2AClientError, match="401"):
            await agent.get_task(a2a.GetTaskRequest(id="a"))


def key_provider(kid: str | None, jku: str | None):
    [key] = [key for key in httpx.get(jku).json()["keys"] if key["kid"] == kid]
    return jwt.PyJWK(key)


async def test_sdk_verifies_signed_cards(served, echo, countdown):
    verify = create_signature_verifier(key_provider, ["EdDSA", "ES256"])
    await db.run(call_command, "rotate_signing_key", "countdown", "--algorithm", "ES256")
    async with httpx.AsyncClient() as http:
        for slug in ("echo", "countdown"):
            card = await A2ACardResolver(http, f"{served}/a2a/{slug}").get_agent_card()
            verify(card)
            card.capabilities.streaming = not card.capabilities.streaming
            with pytest.raises(InvalidSignaturesError):
                verify(card)
        card = await A2ACardResolver(http, served).get_agent_card()
        verify(card)
        [key] = (await http.get(f"{served}/.well-known/did.json")).json()["verificationMethod"]
        asked = await http.get(f"{served}/a2a/echo/.well-known/agent-card.json", headers={"Host": "localhost"})
    assert jwt.get_unverified_header(f"{card.signatures[0].protected}..")["kid"] == key["publicKeyJwk"]["kid"]
    assert asked.json()["supportedInterfaces"][0]["url"] == f"{served}/a2a/echo", "whatever host was asked for"


CSV = b"city,temperature\nOslo,4.5\nRome,18\nCairo,\nLima,19.5\n"


async def test_report_is_requested_made_and_refined(talk):
    await db.run(register_hosted, "report", "examples.report.agent:Report")
    table = a2a.Part(raw=CSV, filename="cities.csv", media_type="text/csv")
    async with talk("report") as agent:
        asked = await updates(agent, request("make a report", table))
        assert states(asked) == [a2a.TASK_STATE_SUBMITTED, a2a.TASK_STATE_WORKING, a2a.TASK_STATE_INPUT_REQUIRED]
        assert "PDF, HTML or Markdown" in text_of(asked[-1].status_update.status.message)
        task = asked[0].task
        made = await updates(agent, request("Markdown", task_id=task.id, context_id=task.context_id))
        assert made[0].task.id == task.id
        assert states(made) == [a2a.TASK_STATE_WORKING, a2a.TASK_STATE_COMPLETED]
        report, chart = [one.artifact_update.artifact for one in made if one.WhichOneof("payload") == "artifact_update"]
        assert (report.name, chart.name) == ("report.md", "chart.png")
        assert "temperature" in text_of(report)
    async with talk("report", streaming=False) as agent:
        shorter = (await answer(agent, request("Make it shorter", context_id=task.context_id))).task
        assert shorter.id != task.id
        assert shorter.status.state == a2a.TASK_STATE_COMPLETED
        assert shorter.artifacts[0].name == report.name
        assert shorter.artifacts[0].artifact_id != report.artifact_id
        assert 0 < len(text_of(shorter.artifacts[0])) < len(text_of(report))
