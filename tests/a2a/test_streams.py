"""A stream has the task first, then every update in log order."""

import asyncio
from contextlib import aclosing

import pytest

from apps.record.models import Task
from apps.record.reading import feed
from parley import db
from tests.a2a.agents import steps
from tests.a2a.calling import message, text_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("streams follow the log")]


def kinds(events):
    return [next(iter(response)) for _, response in events]


def lines(events):
    chunks = [response["artifactUpdate"]["artifact"] for _, response in events if "artifactUpdate" in response]
    return "".join(text_of(chunk) for chunk in chunks if chunk.get("name") == "lines").split()


def states(events):
    statuses = [response.get("task", response.get("statusUpdate", {})).get("status") for _, response in events]
    return [status["state"].removeprefix("TASK_STATE_") for status in statuses if status]


async def take(stream, until):
    """Events up to the first for which `until` is true."""
    taken = []
    async for event in stream:
        taken.append(event)
        if until(event[1]):
            return taken
    raise AssertionError(f"the stream ended before it came: {taken}")


def line(number):
    return lambda response: (
        "artifactUpdate" in response and text_of(response["artifactUpdate"]["artifact"]) == (f"{number}\n")
    )


@pytest.fixture
async def stream(worker, ada_at, stepping):
    """The stream of a task of three lines, which has begun."""
    async with aclosing(ada_at("stepping").stream("SendStreamingMessage", {"message": message("3")})) as events:
        yield events
    steps.allow(100)


async def test_send_streams_the_task_and_its_updates(stream):
    steps.allow(5)
    events = [event async for event in stream]
    assert kinds(events) == [
        "task", "statusUpdate", "artifactUpdate", "artifactUpdate", "artifactUpdate", "statusUpdate", "artifactUpdate",
        "statusUpdate",
    ]  # fmt: skip
    assert states(events) == ["SUBMITTED", "WORKING", "WORKING", "COMPLETED"]
    assert [index for index, _ in events] == sorted({index for index, _ in events})
    assert "artifacts" not in events[0][1]["task"] or events[0][1]["task"]["artifacts"] == []


async def test_late_subscriber_gets_the_same_updates(stream, ada_at):
    opened = await take(stream, lambda response: "task" in response)
    task_id = opened[0][1]["task"]["id"]
    steps.allow(2)
    early = await take(stream, line(2))
    async with aclosing(ada_at("stepping").stream("SubscribeToTask", {"id": task_id})) as later:
        late = await take(later, line(2))
        assert kinds(late) == ["task", "artifactUpdate", "artifactUpdate"]
        assert states(late) == ["WORKING"]
        assert late[1:] == early[-2:]
        steps.allow(3)
        assert [event async for event in later] == [event async for event in stream]


async def test_cut_off_stream_resumes_exactly(stream, ada_at):
    seen = await take(stream, lambda response: "task" in response)
    task_id = seen[0][1]["task"]["id"]
    steps.allow(1)
    seen += await take(stream, line(1))
    await stream.aclose()
    steps.allow(1)
    async with asyncio.timeout(20):
        resumed = ada_at("stepping").stream("SubscribeToTask", {"id": task_id}, {"Last-Event-ID": str(seen[-1][0])})
        seen += await take(resumed, line(2))
        steps.allow(3)
        seen += [event async for event in resumed]
    assert lines(seen) == ["1", "2", "3"]
    assert states(seen) == ["SUBMITTED", "WORKING", "WORKING", "COMPLETED"]
    # The task has ended: missed events are replayed, and the stream closes.
    for position in range(len(seen)):
        after = {"Last-Event-ID": str(seen[position][0])}
        replayed = ada_at("stepping").stream("SubscribeToTask", {"id": task_id}, after)
        assert [event async for event in replayed] == seen[position + 1 :]
    for place in ("-1", "99"):
        answer = await ada_at("stepping").call("SubscribeToTask", {"id": task_id}, {"Last-Event-ID": place})
        assert (answer.code, answer.fields) == (-32602, ["Last-Event-ID"]), place


async def test_send_closes_at_questions_a_subscription_not(worker, ada_at, asking):
    asked = [event async for event in ada_at("asking").stream("SendStreamingMessage", {"message": message("hi")})]
    assert states(asked) == ["SUBMITTED", "WORKING", "INPUT_REQUIRED"]
    task = asked[0][1]["task"]
    async with aclosing(ada_at("asking").stream("SubscribeToTask", {"id": task["id"]})) as following:
        first = await anext(following)
        assert states([first]) == ["INPUT_REQUIRED"]
        sent = {"message": message("blue", taskId=task["id"])}
        answered = [event async for event in ada_at("asking").stream("SendStreamingMessage", sent)]
        assert states(answered) == ["WORKING", "COMPLETED"]
        followed = [event async for event in following]
    assert states(followed) == ["WORKING", "COMPLETED"]
    assert followed[-1] == answered[-1]


async def test_repeated_message_streams_from_where_it_came(worker, ada_at, asking, countdown):
    task = (await ada_at("asking").send(message("hi"))).result["task"]
    for slug, said in (("asking", message("blue", taskId=task["id"])), ("countdown", message("3"))):
        same = {"message": said}
        first = [event async for event in ada_at(slug).stream("SendStreamingMessage", same)]
        assert [event async for event in ada_at(slug).stream("SendStreamingMessage", same)] == first
        assert states(first)[-2:] == ["WORKING", "COMPLETED"]
    assert await db.run(Task.objects.count) == 2


async def test_stream_of_a_message_has_one_event(worker, ada_at, greeting):
    sent = {"message": message("hi")}
    [(index, response)] = [event async for event in ada_at("greeting").stream("SendStreamingMessage", sent)]
    assert text_of(response["message"]).startswith("Answer")
    assert index == 2


def followed() -> int:
    """The number of followed contexts in this event loop."""
    return sum(reader.followers for reader in feed.running_hub()._readers.values())


async def until(condition, seconds=60.0):
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110 - it happens in another thread or process
            await asyncio.sleep(0.01)


async def test_task_continues_without_its_caller(worker, ada_at, stepping):
    seen = []

    async def listens():
        async for event in ada_at("stepping").stream("SendStreamingMessage", {"message": message("1")}):
            seen.append(event)

    async def waits():
        return followed() == 1 and len(seen) == 2

    listening = asyncio.create_task(listens())
    await until(waits)
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening
    assert followed() == 0
    steps.allow(10)
    await until(Task.objects.filter(state="completed").aexists)
