"""What an agent says of other tasks, of its own end and on its card does not count where it is not so."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from tests.a2a.calling import message
from tests.gateway.hostile import villain as v
from tests.gateway.hostile.ordeals import (
    STREAM,
    TOO_LARGE,
    WELL,
    Ordeal,
    went_well,
)
from tests.gateway.hostile.villain import Answering, Call, Villain, villain

pytestmark = pytest.mark.django_db(transaction=True)


def with_more(*changes: tuple[int, Any], drop: int | None = None) -> Answering:
    """The conversation, with other events put in at those places: made of the call, or as they are."""

    async def answering(call: Call) -> None:
        events = v.conversation(call)
        for place, more in changes:
            events.insert(place, more(call) if callable(more) else more)
        if drop is not None:
            del events[drop]
        await call.events(*events)

    return answering


def of_another(kind: str, name: str) -> Any:
    def change(call: Call) -> Any:
        event = v.chunk(call, "an intruder ", append=True)
        event["artifactUpdate"][name] = f"another-{kind}"
        return event

    return change


def answers(**changes: Any) -> Answering:
    """The finished task, changed."""

    async def answering(call: Call) -> None:
        await call.answer({**v.done(call), **changes})

    return answering


def is_now(state: str, said: str = "") -> Answering:
    async def answering(call: Call) -> None:
        await call.answer(v.task(state, call, v.artifact(WELL), said=said))

    return answering


def first(change: Any) -> Answering:
    """A stream that begins with the task, changed."""

    async def answering(call: Call) -> None:
        await call.events({"task": change(v.task("WORKING", call))}, *v.conversation(call)[1:])

    return answering


ENDS = [
    Ordeal("a chunk of another task", {STREAM: with_more((3, of_another("task", "taskId")))}, says="another task"),
    Ordeal("of another context", {STREAM: with_more((3, of_another("context", "contextId")))}, says="another context"),
    Ordeal(
        "another task when it is asked",
        {STREAM: with_more(drop=5), "GetTask": answers(id="another-task")},
        says="another task",
    ),
    went_well(
        "more after the end",
        **{STREAM: with_more((6, lambda call: v.chunk(call, "an afterthought ", append=True)))},
    ),
    went_well(
        "works on after the end",
        **{STREAM: with_more((6, lambda call: v.status("WORKING", call)), (7, lambda call: v.status("FAILED", call)))},
    ),
    Ordeal(
        "ended, and never did",
        {STREAM: v.streams_well, "GetTask": is_now("WORKING")},
        says="had ended, and then that it goes on",
    ),
    Ordeal(
        "completed, and failed when it is asked",
        {"GetTask": is_now("FAILED", "I have changed my mind.")},
        says="changed my mind",
    ),
    Ordeal("canceled by itself", {"GetTask": is_now("CANCELED")}, says="itself canceled"),
    went_well(
        "a chunk twice",
        **{STREAM: with_more((4, lambda call: v.chunk(call, "two ", append=True)))},
    ),
    went_well("a chunk that is missing", **{STREAM: with_more(drop=3)}),
    went_well(
        "chunks in another order",
        **{STREAM: with_more((2, lambda call: v.chunk(call, "two ", append=True)), drop=4)},
    ),
    went_well(
        "begins anew on the way",
        **{STREAM: with_more((4, lambda call: v.chunk(call, "one two ")))},
    ),
    Ordeal(
        "a state of its own",
        {
            STREAM: first(lambda task: task | {"status": {"state": "TASK_STATE_DREAMING"}}),
            "GetTask": is_now("DREAMING"),
        },
        says="goes on",
    ),
    Ordeal("a task with a huge id", {STREAM: first(lambda task: task | {"id": "x" * 10_000})}, says="id of a task"),
    Ordeal("a task with an odd id", {STREAM: first(lambda task: task | {"id": "a\nb"})}, says="id of a task"),
    Ordeal(
        "an artifact with a huge id",
        {STREAM: with_more((2, lambda call: v.chunk(call, "x", name="y" * 10_000)))},
        says="id of an artifact",
    ),
]


async def test_what_is_said_of_other_tasks_and_after_the_end_does_not_count(undergo):
    await undergo(ENDS)


async def test_what_is_said_of_a_real_other_task_ends_the_one_and_leaves_the_other(worker, at):
    """Both are of the same agent, which works on one when it speaks of it to the other."""
    calls: list[Call] = []
    other_may_end = asyncio.Event()

    async def mixes_them_up(call: Call) -> None:
        calls.append(call)
        if len(calls) == 1:  # the other, which has to wait
            await call.events(*v.conversation(call)[:4])
            await other_may_end.wait()
            for event in v.conversation(call)[4:]:
                await call.event(event)
        else:
            await call.events(*v.conversation(call)[:3], v.chunk(calls[0], "for the other ", append=True))

    async with villain() as bad:
        bad.on[STREAM] = mixes_them_up
        caller = await at(bad)
        other = caller.stream(STREAM, {"message": message("The other.")})
        seen = [await anext(other)]
        while "two" not in json.dumps(seen[-1]):
            seen.append(await anext(other))
        one = [event async for _, event in caller.stream(STREAM, {"message": message("The one.")})]
        other_may_end.set()
        seen += [event async for event in other]
        found = [
            (await caller.call("GetTask", {"id": task["id"]})).result for task in (one[0]["task"], seen[0][1]["task"])
        ]
    Ordeal("the one", says="another task").judge(found[0])
    went_well("the other").judge(found[1])
    assert "for the other" not in json.dumps([seen, found])


# Cards


def refuses(code: int, message: str) -> Answering:
    async def answering(call: Call) -> None:
        await call.refuse(code, message)

    return answering


def responds(status: str, *headers: str) -> Answering:
    async def answering(call: Call) -> None:
        await call.body(b"", status, "text/plain", *headers)

    return answering


async def answers_at_once(call: Call) -> None:
    await call.answer({"task": v.task("WORKING", call)})


async def streams_unasked(call: Call) -> None:
    await v.streams_well(call)


async def speaks_the_old_version(call: Call) -> None:
    task = {"kind": "task", "id": "t", "contextId": "c", "status": {"state": "completed"}}
    await call.events(task)


async def delivers_a_picture(call: Call) -> None:
    await call.events(*v.conversation(call)[:2], v.status("COMPLETED", call))


async def shows_a_picture(call: Call) -> None:
    part = {"raw": base64.b64encode(b"\x89PNG").decode(), "mediaType": "image/png", "filename": "a.png"}
    await call.answer(v.task("COMPLETED", call, {"artifactId": "answer", "name": "answer", "parts": [part]}))


async def says_odd_things(call: Call) -> None:
    await call.stream()
    event = v.chunk(call, "MARK", last=True)
    packed = call.packed(event).replace(b"MARK", b"a\\u0000b\\ud800c")
    await call.event(v.conversation(call)[0])
    await call.write(b"data: " + packed + b"\n\n")
    await call.event(v.status("COMPLETED", call))


async def shows_odd_things(call: Call) -> None:
    packed = call.packed(v.task("COMPLETED", call, v.artifact("MARK"))).replace(b"MARK", b"a\\u0000b\\ud800c")
    await call.body(packed)


async def never_stops_delivering(call: Call) -> None:
    await call.events(*v.conversation(call)[:3])
    while True:
        await call.event(v.chunk(call, "x" * 50_000, append=True))


async def scripts(call: Call) -> None:
    await call.events(*v.conversation(call)[:2], v.chunk(call, SCRIPT, last=True), v.status("COMPLETED", call))


SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>"


def without_streams(bad: Villain) -> None:
    bad.streams = False


def elsewhere(path: str) -> Any:
    def change(bad: Villain) -> None:
        [interface] = bad.card["supportedInterfaces"]
        bad.changes["supportedInterfaces"] = [interface | {"url": f"{bad.url}{path}"}]

    return change


YEARS = "Retry-After: 999999999"

CARDS = [
    went_well("streams no more", **{STREAM: refuses(-32004, "I do not stream.")}),
    went_well("knows no streams", **{STREAM: refuses(-32601, "Method not found")}),
    went_well("answers at once where it should stream", **{STREAM: answers_at_once}),
    Ordeal(
        "streams where it says that it cannot",
        {"SendMessage": streams_unasked},
        says="stream where one answer is due",
        prepare=without_streams,
    ),
    Ordeal("speaks another version", {STREAM: speaks_the_old_version}, says="not exactly one of"),
    Ordeal("knows no version", {STREAM: refuses(-32009, "Version not supported")}, says="VERSION_NOT_SUPPORTED"),
    Ordeal("is not where it says", {STREAM: responds("404 Not Found")}, says="HTTP_404"),
    Ordeal("is elsewhere", {STREAM: responds("307 Temporary", "Location: http://169.254.169.254/")}, says="redirect"),
    Ordeal(
        "delivers what it says it does not",
        {STREAM: delivers_a_picture, "GetTask": shows_a_picture},
        "completed",
        text="",
    ),
    Ordeal(
        "says what no database keeps",
        {STREAM: says_odd_things, "GetTask": shows_odd_things},
        "completed",
        text="a\ufffdb\ufffdc",
    ),
    Ordeal("delivers without an end", {STREAM: never_stops_delivering, "GetTask": v.over_already}, says=TOO_LARGE),
    Ordeal(
        "says scripts", {STREAM: scripts, "GetTask": answers(artifacts=[v.artifact(SCRIPT)])}, "completed", text=SCRIPT
    ),
    Ordeal("wants to be asked in years", {STREAM: responds("429 Too Many Requests", YEARS)}, says="takes no more work"),
    Ordeal("is to be had in years", {STREAM: responds("503 Service Unavailable", YEARS)}, says="takes no more work"),
    Ordeal(
        "is away for years",
        {STREAM: with_more(drop=5), "GetTask": responds("503 Service Unavailable", YEARS)},
        says="could not be reached",
    ),
    Ordeal("wants a credential", {STREAM: responds("401 Unauthorized")}, says="credential"),
]


async def test_a_card_that_lies_is_found_out(undergo):
    await undergo(CARDS)
