"""A stream has the task first, then every update in log order."""

import asyncio
import json
from contextlib import aclosing

import pytest

import db
from apps.record.models import Task
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


async def test_a_send_streams_the_task_then_its_updates_then_closes(stream):
    steps.allow(5)
    events = [event async for event in stream]
    assert kinds(events) == [
        "task", "statusUpdate", "artifactUpdate", "artifactUpdate", "artifactUpdate", "statusUpdate", "artifactUpdate",
        "statusUpdate",
    ]  # fmt: skip
    assert states(events) == ["SUBMITTED", "WORKING", "WORKING", "COMPLETED"]
    assert [index for index, _ in events] == sorted({index for index, _ in events})
    assert "artifacts" not in events[0][1]["task"] or events[0][1]["task"]["artifacts"] == []


async def test_who_comes_later_gets_what_is_being_made_and_the_same_from_there_on(stream, ada_at):
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


async def test_leaving_a_stream_touches_neither_the_others_nor_the_task(stream, ada_at):
    task_id = (await take(stream, lambda response: "task" in response))[0][1]["task"]["id"]
    steps.allow(1)
    await take(stream, line(1))
    leaving = ada_at("stepping").stream("SubscribeToTask", {"id": task_id})
    await anext(leaving)
    await leaving.aclose()
    steps.allow(4)
    rest = [event async for event in stream]
    assert lines(rest) == ["2", "3"]
    assert states(rest)[-1] == "COMPLETED"


async def test_a_stream_that_was_cut_off_is_resumed_without_a_gap_or_a_repetition(stream, ada_at):
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


async def test_a_place_that_no_stream_told_is_refused(stream, ada_at, subtests):
    steps.allow(5)
    events = [event async for event in stream]
    task_id = events[0][1]["task"]["id"]
    for place in ("-1", "1.5", "99", "0" * 20 + "99", "١"):
        with subtests.test(place):
            headers = {"Last-Event-ID": place.encode().decode("latin-1")}
            answer = await ada_at("stepping").call("SubscribeToTask", {"id": task_id}, headers)
            assert answer.code == -32602
            assert answer.fields == ["Last-Event-ID"]


async def test_a_send_closes_at_a_question_and_a_subscription_does_not(worker, ada_at, asking):
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


async def test_a_send_stays_open_while_somebody_signs_in_elsewhere(worker, ada_at, asking):
    async with aclosing(ada_at("asking").stream("SendStreamingMessage", {"message": message("sign in")})) as events:
        first = await take(events, lambda response: "AUTH_REQUIRED" in json.dumps(response))
        task_id = first[0][1]["task"]["id"]
        blocking = (await ada_at("asking").send(message("done", taskId=task_id))).result["task"]
        rest = [event async for event in events]
    assert blocking["status"]["state"] == "TASK_STATE_COMPLETED"
    assert states(rest) == ["WORKING", "COMPLETED"]


async def test_a_repeated_answer_streams_from_where_it_came_in(worker, ada_at, asking):
    task = (await ada_at("asking").send(message("hi"))).result["task"]
    same = {"message": message("blue", taskId=task["id"])}
    first = [event async for event in ada_at("asking").stream("SendStreamingMessage", same)]
    again = [event async for event in ada_at("asking").stream("SendStreamingMessage", same)]
    assert again == first
    assert states(again) == ["WORKING", "COMPLETED"]


async def test_a_stream_where_nothing_happens_shows_that_it_is_alive_and_is_not_buffered(stream, ada_at, monkeypatch):
    monkeypatch.setattr("apps.record.wire.HEARTBEAT_SECONDS", 0.05)
    task_id = (await take(stream, lambda response: "task" in response))[0][1]["task"]["id"]
    response = await ada_at("stepping").open("SubscribeToTask", {"id": task_id})
    assert (response["Cache-Control"], response["X-Accel-Buffering"]) == ("no-store", "no")
    async with aclosing(aiter(response.streaming_content)) as chunks:
        seen = [await anext(chunks) for _ in range(4)]
    assert seen[-1] == b": still here\n\n"


async def test_a_stream_that_breaks_ends_with_an_error_that_shows_nothing_inside(worker, ada_at, echo, monkeypatch):
    def fails(*args):
        raise RuntimeError("secret of the house")

    monkeypatch.setattr("apps.record.wire.stream_response", fails)
    response = await ada_at("echo").open("SendStreamingMessage", {"message": message()})
    chunks = [chunk async for chunk in response.streaming_content]
    assert b'"error":{"code":-32603' in chunks[-1]
    assert b"secret" not in b"".join(chunks)


async def test_a_repeated_message_streams_the_same_task_from_its_beginning(worker, ada_at, countdown):
    same = {"message": message("3")}
    first = [event async for event in ada_at("countdown").stream("SendStreamingMessage", same)]
    assert [event async for event in ada_at("countdown").stream("SendStreamingMessage", same)] == first
    assert await db.run(Task.objects.count) == 1


async def test_the_stream_of_a_message_is_that_message_alone(worker, ada_at, greeting):
    sent = {"message": message("hi")}
    [(index, response)] = [event async for event in ada_at("greeting").stream("SendStreamingMessage", sent)]
    assert text_of(response["message"]).startswith("Answer")
    assert index == 2
