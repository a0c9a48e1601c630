"""Silence, cuts, garbage and lies: each turn ends in bounded time with a clear message."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import socket
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.a2a.calling import message
from tests.remote.hostile import villain as v
from tests.remote.hostile.ordeals import AWAY, LOST, OVER, STREAM, TOO_LARGE, UNREADABLE, Ordeal, went_well
from tests.remote.hostile.villain import Answering, Call, Villain, villain

pytestmark = pytest.mark.django_db(transaction=True)


def plays(change: Callable[[Call], list[Any]], then: Callable[[Call], Any] | None = None) -> Answering:
    """A stream of events made from the call; then it ends, or `then` is awaited."""

    async def answering(call: Call) -> None:
        await call.events(*change(call))
        if then is not None and (going_on := then(call)) is not None:
            await going_on

    return answering


def body(content: bytes, status: str = "200 OK", kind: str = "application/json", *headers: str) -> Answering:
    async def answering(call: Call) -> None:
        await call.body(content, status, kind, *headers)

    return answering


def raw_event(content: bytes, *, again: bool = False) -> Answering:
    """A stream of these bytes, once or without end."""

    async def answering(call: Call) -> None:
        await call.stream()
        await call.write(content)
        while again:
            await call.write(content)

    return answering


def refuses(code: int, words: str) -> Answering:
    async def answering(call: Call) -> None:
        await call.refuse(code, words)

    return answering


def answers(**changes: Any) -> Answering:
    async def answering(call: Call) -> None:
        await call.answer({**v.done(call), **changes})

    return answering


def with_more(*changes: tuple[int, Any], drop: int | None = None) -> Answering:
    def changed(call: Call) -> list[Any]:
        events = v.conversation(call)
        for place, more in changes:
            events.insert(place, more(call))
        if drop is not None:
            del events[drop]
        return events

    return plays(changed)


def first(**changes: Any) -> Answering:
    return plays(lambda call: [{"task": v.task("WORKING", call) | changes}, *v.conversation(call)[1:]])


def begins(frames: int, then: Callable[[Call], Any] | None = None) -> Answering:
    return plays(lambda call: v.conversation(call)[:frames], then)


async def hangs(call: Call) -> None:
    await call.hang()


async def cuts(call: Call) -> None:
    call.cut()


# Silence


async def drips(call: Call) -> None:
    await call.stream()
    for byte in b"data: " + call.packed({"task": v.task("SUBMITTED", call)}):
        await call.write(bytes([byte]))
        await asyncio.sleep(0.5)


async def drips_comments(call: Call) -> None:
    await call.stream()
    while True:
        await call.write(b":\n")
        await asyncio.sleep(0.2)


def nobody_there(bad: Villain) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        bad.port = probe.getsockname()[1]


SILENT = [
    Ordeal("nobody is there", prepare=nobody_there, says="cannot be reached"),
    Ordeal("says nothing", {STREAM: hangs}, says=LOST),
    Ordeal("drips", {STREAM: drips}, says=LOST),
    Ordeal(
        "says nothing half way, to nobody",
        {STREAM: begins(4, Call.hang), "GetTask": hangs, "SubscribeToTask": hangs},
        says=AWAY,
    ),
    went_well("says nothing half way, and tells when it is asked", **{STREAM: begins(4, Call.hang)}),
]
FOR_EVER = [
    Ordeal("drips comments", {STREAM: drips_comments}, says=OVER),
    Ordeal("works for ever", {STREAM: begins(4, Call.hang), "GetTask": v.works_for_ever}, says=OVER),
]

# Cuts


def goes_on_after(frames: int) -> Answering:
    """A subscription after that many events: the current task, then the remaining events."""
    said = "".join(["one ", "two ", "three "][: max(0, frames - 2)])
    so_far = [v.artifact(said)] if said else []
    state = "COMPLETED" if frames == 6 else "WORKING"
    return plays(lambda call: [{"task": v.task(state, call, *so_far)}, *v.conversation(call)[frames:]])


def cut_after(frames: Iterable[int]) -> Iterable[Ordeal]:
    within = lambda call: call.write(b"data: {")  # noqa: E731
    for number in frames:
        yield went_well(f"cut after {number}", **{STREAM: begins(number, Call.cut)})
        yield went_well(f"ended after {number}", **{STREAM: begins(number)})
        yield went_well(f"cut within event {number + 1}", **{STREAM: begins(number, within)})
        taken_up = {STREAM: begins(number, Call.cut), "SubscribeToTask": goes_on_after(number)}
        yield went_well(f"cut after {number}, and taken up", **taken_up)


CUTS = [
    Ordeal("cut before its head", {STREAM: cuts}, says=LOST),
    Ordeal("cut within the first event", {STREAM: raw_event(b"data: {")}, says=LOST),
    Ordeal("ended before anything", {STREAM: begins(0)}, says=LOST),
    *cut_after([2, 4]),
    Ordeal("cut, and gone", {STREAM: begins(3, Call.cut), "GetTask": cuts, "SubscribeToTask": cuts}, says=AWAY),
]

# Garbage


async def never_stops_delivering(call: Call) -> None:
    await call.events(*v.conversation(call)[:3])
    while True:
        await call.event(v.chunk(call, "x" * 50_000, append=True))


BOMB = gzip.compress(b'{"jsonrpc": "2.0", "id": 1, "result": "' + b" " * 5_000_000)
GARBAGE = [
    Ordeal("a web page", {STREAM: body(b"<html>It works!</html>", "200 OK", "text/html")}, says=UNREADABLE),
    Ordeal("a teapot", {STREAM: body(b"", "418 I'm a teapot")}, says="HTTP_418"),
]
TOO_MUCH = [
    Ordeal("a line without an end", {STREAM: raw_event(b"x" * 10_000, again=True)}, says=TOO_LARGE),
    Ordeal("a bomb", {STREAM: body(BOMB, "200 OK", "application/json", "Content-Encoding: gzip")}, says=TOO_LARGE),
    Ordeal("delivers without an end", {STREAM: never_stops_delivering, "GetTask": v.over_already}, says=TOO_LARGE),
]

# Lies about its tasks

ENDS = [
    Ordeal(
        "another task when it is asked",
        {STREAM: with_more(drop=5), "GetTask": answers(id="another-task")},
        says="another task",
    ),
    went_well(
        "more after the end", **{STREAM: with_more((6, lambda call: v.chunk(call, "an afterthought ", append=True)))}
    ),
    went_well("fails after the end", **{STREAM: with_more((6, lambda call: v.status("FAILED", call)))}),
    went_well("a chunk twice", **{STREAM: with_more((4, lambda call: v.chunk(call, "two ", append=True)))}),
    went_well("a chunk that is missing", **{STREAM: with_more(drop=3)}),
    went_well(
        "chunks in another order",
        **{STREAM: with_more((2, lambda call: v.chunk(call, "two ", append=True)), drop=4)},
    ),
    went_well("begins anew on the way", **{STREAM: with_more((4, lambda call: v.chunk(call, "one two ")))}),
    Ordeal(
        "a state of its own",
        {
            STREAM: first(status={"state": "TASK_STATE_DREAMING"}),
            "GetTask": answers(status={"state": "TASK_STATE_DREAMING"}),
        },
        says="goes on",
    ),
    went_well(
        "an artifact with a huge id", **{STREAM: with_more((2, lambda call: v.chunk(call, "x", name="y" * 10_000)))}
    ),
]

# Lies on its card

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>"
PICTURE = {"raw": base64.b64encode(b"\x89PNG").decode(), "mediaType": "image/png", "filename": "a.png"}
YEARS = "Retry-After: 999999999"


def odd(content: bytes) -> bytes:
    return content.replace(b"MARK", b"a\\u0000b\\ud800c")


async def says_odd_things(call: Call) -> None:
    await call.events(v.conversation(call)[0])
    await call.write(b"data: " + odd(call.packed(v.chunk(call, "MARK", last=True))) + b"\n\n")
    await call.event(v.status("COMPLETED", call))


async def shows_odd_things(call: Call) -> None:
    await call.body(odd(call.packed(v.task("COMPLETED", call, v.artifact("MARK")))))


async def answers_at_once(call: Call) -> None:
    await call.answer({"task": v.task("WORKING", call)})


def says_last(text: str) -> Answering:
    return plays(lambda call: [*v.conversation(call)[:2], v.chunk(call, text, last=True), v.status("COMPLETED", call)])


CARDS = [
    went_well("knows no streams", **{STREAM: refuses(-32601, "Method not found")}),
    went_well("answers at once where it should stream", **{STREAM: answers_at_once}),
    Ordeal(
        "delivers what it says it does not",
        {STREAM: with_more(drop=4), "GetTask": answers(artifacts=[v.artifact("") | {"parts": [PICTURE]}])},
        "completed",
        text="",
    ),
    Ordeal(
        "says what no database keeps",
        {STREAM: says_odd_things, "GetTask": shows_odd_things},
        "completed",
        text="a\ufffdb\ufffdc",
    ),
    Ordeal(
        "says scripts",
        {STREAM: says_last(SCRIPT), "GetTask": answers(artifacts=[v.artifact(SCRIPT)])},
        "completed",
        text=SCRIPT,
    ),
    Ordeal("asks for years", {STREAM: body(b"", "429 No", "text/plain", YEARS)}, says="takes no more work"),
    Ordeal(
        "is away for years",
        {STREAM: with_more(drop=5), "GetTask": body(b"", "503 No", "text/plain", YEARS)},
        says="could not be reached",
    ),
    Ordeal("wants a credential", {STREAM: body(b"", "401 Unauthorized")}, says="credential"),
]


@pytest.mark.parametrize(
    "ordeals",
    [
        SILENT,
        CUTS,
        GARBAGE,
        ENDS,
        CARDS,
        pytest.param(FOR_EVER, marks=pytest.mark.slow("these turns take all the time that they have")),
        pytest.param([*cut_after([1, 3, 5, 6])], marks=pytest.mark.slow("cuts after every other event")),
        pytest.param(TOO_MUCH, marks=pytest.mark.slow("much is sent before it is too much")),
    ],
    ids=["silence", "cuts", "garbage", "ends", "cards", "for ever", "more cuts", "too much"],
)
async def test_each_turn_ends_as_it_must(undergo, ordeals):
    await undergo(ordeals)


async def test_what_is_said_of_a_real_other_task_ends_the_one_and_leaves_the_other(worker, at):
    """Both tasks belong to one agent, which works on one while it reports on the other."""
    calls: list[Call] = []
    other_may_end = asyncio.Event()

    async def mixes_them_up(call: Call) -> None:
        calls.append(call)
        if len(calls) == 1:
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
