"""Every operation, as the SDK's client calls it, by each binding of the card."""

import asyncio

import httpx
import pytest
from a2a.client import A2AClientError
from a2a.types import a2a_pb2 as a2a
from a2a.utils import errors

from apps.agents.cards import BINDINGS
from tests.a2a.talking import Talking, answer, client, kinds, request, states, text_of, updates
from tests.stack import Stack

INVALID_PARAMS = {"JSONRPC": errors.InvalidParamsError, "HTTP+JSON": A2AClientError}  # HTTP's 400 says no more


@pytest.fixture(params=BINDINGS)
def binding(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def talk(server: Stack, binding: str) -> Talking:
    return lambda slug, key=server.demo_key, **options: client(server.url, slug, key, binding=binding, **options)


async def first_of(stream, kind):
    """The stream's first response of a kind."""
    async for response in stream:
        if response.WhichOneof("payload") == kind:
            return response
    raise AssertionError(f"no {kind} came")


async def test_a_task_that_was_sent_is_there_to_get(talk):
    async with talk("echo", streaming=False) as agent:
        sent = (await answer(agent, request("hi"))).task
        got = await agent.get_task(a2a.GetTaskRequest(id=sent.id))
        assert got == sent
        assert text_of(got.artifacts[0]) == "hi"
        short = await agent.get_task(a2a.GetTaskRequest(id=sent.id, history_length=1))
        assert [said.role for said in short.history] == [a2a.ROLE_AGENT]
        none = await agent.get_task(a2a.GetTaskRequest(id=sent.id, history_length=0))
        assert not none.history


async def test_a_caller_that_does_not_wait_gets_the_task_at_once(talk):
    sent = request("20")
    sent.configuration.return_immediately = True
    async with talk("countdown", streaming=False) as agent:
        task = (await answer(agent, sent)).task
        assert task.status.state in (a2a.TASK_STATE_SUBMITTED, a2a.TASK_STATE_WORKING)
    async with talk("countdown") as agent:
        stream = agent.subscribe(a2a.SubscribeToTaskRequest(id=task.id))
        assert states([response async for response in stream])[-1] == a2a.TASK_STATE_COMPLETED


async def test_files_and_data_come_back_as_they_were(talk):
    async with talk("echo", streaming=False) as agent:
        data = a2a.Part()
        data.data.struct_value.update({"a": [1, 2.5, None, {"ü": True}]})
        file = a2a.Part(raw=bytes(range(256)), filename="../../all.bin", media_type="application/octet-stream")
        large = a2a.Part(raw=b"\xff" * 600_000, filename="large.bin", media_type="application/octet-stream")
        link = a2a.Part(url="https://example.com/a.png", filename="a.png", media_type="image/png")
        task = (await answer(agent, request("words", data, file, large, link))).task
        returned = {artifact.name: artifact.parts[0] for artifact in task.artifacts}
        assert returned["answer"].text == "words"
        assert returned["data"].data == data.data
        assert returned["all.bin"].raw == file.raw
        assert returned["large.bin"].raw == large.raw
        assert returned["a.png"].url == link.url
        assert task.history[0].parts[3].raw == large.raw


async def test_a_stream_brings_every_chunk_in_order(talk):
    async with talk("countdown") as agent:
        seen = await updates(agent, request("5"))
    chunks = [one.artifact_update for one in seen if one.WhichOneof("payload") == "artifact_update"]
    assert [text_of(chunk.artifact).strip() for chunk in chunks] == ["5", "4", "3", "2", "1"]
    assert [chunk.append for chunk in chunks] == [False, True, True, True, True]
    assert [chunk.last_chunk for chunk in chunks] == [False, False, False, False, True]
    assert len({chunk.artifact.artifact_id for chunk in chunks}) == 1
    assert kinds(seen)[0] == "task"
    assert states(seen) == [a2a.TASK_STATE_SUBMITTED, a2a.TASK_STATE_WORKING, a2a.TASK_STATE_COMPLETED]


async def test_a_canceled_task_stops_at_once_and_its_stream_ends(talk):
    async with talk("countdown") as agent:
        stream = agent.send_message(request("10000"))
        task = (await anext(stream)).task
        await first_of(stream, "artifact_update")
        canceled = await agent.cancel_task(a2a.CancelTaskRequest(id=task.id))
        assert canceled.status.state == a2a.TASK_STATE_CANCELED
        assert not canceled.artifacts
        async with asyncio.timeout(5):
            rest = [response async for response in stream]
        assert rest[-1].status_update.status.state == a2a.TASK_STATE_CANCELED
        again = await agent.cancel_task(a2a.CancelTaskRequest(id=task.id))
        assert again == canceled


async def test_tasks_are_listed_with_the_newest_first(talk):
    async with talk("echo", streaming=False) as agent:
        context = (await answer(agent, request("0"))).task.context_id
        made = [(await answer(agent, request(str(n), context_id=context))).task.id for n in range(4)]
        first = await agent.list_tasks(a2a.ListTasksRequest(context_id=context, page_size=3))
        assert first.total_size == 5
        assert first.page_size == 3
        assert [task.id for task in first.tasks] == made[:0:-1]
        assert not first.tasks[0].artifacts
        rest = await agent.list_tasks(
            a2a.ListTasksRequest(
                context_id=context, page_size=3, page_token=first.next_page_token, include_artifacts=True
            )
        )
        assert [text_of(task.artifacts[0]) for task in rest.tasks] == ["0", "0"]
        assert rest.next_page_token == ""


async def test_errors_arrive_as_the_sdks_own(talk, binding):
    missing = "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
    async with talk("countdown") as agent:
        done = (await updates(agent, request("1")))[0].task
        with pytest.raises(errors.TaskNotFoundError):
            await agent.get_task(a2a.GetTaskRequest(id=missing))
        with pytest.raises(errors.TaskNotFoundError):
            await answer(agent, request("hi", task_id=missing))
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


async def test_webhooks_are_made_shown_and_deleted(talk, binding):
    async with talk("countdown") as agent:
        done = (await updates(agent, request("1")))[0].task
        authentication = a2a.AuthenticationInfo(scheme="Bearer", credentials="secret")
        made = await agent.create_task_push_notification_config(
            a2a.TaskPushNotificationConfig(
                task_id=done.id, url="https://hooks.invalid/hook", token="secret", authentication=authentication
            )
        )
        named = {"task_id": done.id, "id": made.id}
        shown = await agent.get_task_push_notification_config(a2a.GetTaskPushNotificationConfigRequest(**named))
        assert shown == made
        assert shown.url == "https://hooks.invalid/hook"
        assert "secret" not in str(shown)
        listing = a2a.ListTaskPushNotificationConfigsRequest(task_id=done.id)
        assert list((await agent.list_task_push_notification_configs(listing)).configs) == [made]
        await agent.delete_task_push_notification_config(a2a.DeleteTaskPushNotificationConfigRequest(**named))
        assert not (await agent.list_task_push_notification_configs(listing)).configs
        with pytest.raises(errors.TaskNotFoundError):
            await agent.get_task_push_notification_config(a2a.GetTaskPushNotificationConfigRequest(**named))
        with pytest.raises(INVALID_PARAMS[binding]):
            await agent.create_task_push_notification_config(
                a2a.TaskPushNotificationConfig(task_id=done.id, url="http://127.0.0.1/hook")
            )


async def test_a_key_that_is_none_is_refused_with_a_challenge(talk, server):
    async with talk("echo", key="parley_000000000000_wrong") as agent:
        with pytest.raises(A2AClientError, match="401"):
            await agent.get_task(a2a.GetTaskRequest(id="a"))
    async with httpx.AsyncClient() as http:
        refused = await http.post(f"{server.url}/a2a/echo", json={})
    assert refused.status_code == 401
    assert refused.headers["WWW-Authenticate"].startswith("Bearer")
    assert refused.json()["error"]["code"] == 401


async def test_sixteen_tasks_of_one_context_stream_side_by_side(talk):
    async with talk("countdown") as agent:
        first = (await updates(agent, request("1")))[0].task
        streams = [updates(agent, request("8", context_id=first.context_id)) for _ in range(16)]
        async with asyncio.timeout(60):
            results = await asyncio.gather(*streams)
    for seen in results:
        assert states(seen)[-1] == a2a.TASK_STATE_COMPLETED
        chunks = [text_of(one.artifact_update.artifact).strip() for one in seen]
        assert [chunk for chunk in chunks if chunk] == ["8", "7", "6", "5", "4", "3", "2", "1"]
        own = seen[0].task.id
        assert {one.status_update.task_id or one.artifact_update.task_id or own for one in seen} == {own}
