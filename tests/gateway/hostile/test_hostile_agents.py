"""What a hostile agent does ends its turn with a reason that people understand, and touches nothing else."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence

import pytest
from asgiref.sync import sync_to_async

import outbound
from apps.accounts.models import ApiKey, User
from apps.conversations.models import Context, Run
from apps.gateway import registering
from tests import strictness
from tests.a2a.calling import Caller, message
from tests.gateway.hostile import villain as v
from tests.gateway.hostile.ordeals import STREAM, Ordeal, disagreements, went_well
from tests.gateway.hostile.villain import Answering, Call, Villain, villain

pytestmark = pytest.mark.django_db(transaction=True)

IDLE = 2.0
LIMIT = 12.0  # seconds of a turn
MOST = 200_000  # bytes of one answer
SLOWEST = LIMIT + 6.0  # with all ordeals at once, on a busy machine


@pytest.fixture(autouse=True)
def _answers_are_read_strictly():
    """What others answer is not: it is the gateway that has to read it."""
    with strictness.strict_operations():
        yield


@pytest.fixture(autouse=True)
def _impatient(settings):
    settings.REMOTE_CONNECT_SECONDS = 1.0
    settings.REMOTE_IDLE_SECONDS = IDLE
    settings.REMOTE_RETRY_SECONDS = 1.0
    settings.REMOTE_AWAY_SECONDS = 2.0
    settings.REMOTE_CONFIRM_SECONDS = 1.0
    settings.REMOTE_POLL_SECONDS = (0.05, 0.5)
    settings.REMOTE_ANSWER_BYTES = MOST
    settings.REMOTE_STREAM_BYTES = 10 * MOST
    outbound.configure(["127.0.0.1"])
    yield
    outbound.configure(settings.OUTBOUND_ALLOW)


Registering = Callable[[Villain], Awaitable[Caller]]


@pytest.fixture
def ada_key(ada: User) -> str:
    return ApiKey.issue(ada, "test")[1]


@pytest.fixture
def at(ada_key) -> Registering:
    """Registers a villain; gives Ada as its caller."""

    async def register(bad: Villain, **policies) -> Caller:
        slug = f"bad-{uuid.uuid4().hex[:8]}"
        shown = await registering.preview(card=json.dumps(bad.card))
        await sync_to_async(registering.save)(slug, shown, time_limit=LIMIT, **policies)
        return Caller(slug, ada_key)

    return register


@pytest.fixture
def undergo(worker, at, subtests):
    """Puts a worker through ordeals, all at once, each with a villain and an agent of its own."""

    async def one(ordeal: Ordeal):
        async with villain() as bad:
            ordeal.set(bad)
            caller = await at(bad)
            began = time.monotonic()
            seen = [event async for _, event in caller.stream(STREAM, {"message": message("Do it.")})]
            took = time.monotonic() - began
            return (await caller.call("GetTask", {"id": seen[0]["task"]["id"]})).result, took

    async def all_of(ordeals: Sequence[Ordeal]) -> None:
        ends = await asyncio.gather(*(one(ordeal) for ordeal in ordeals), return_exceptions=True)
        for ordeal, end in zip(ordeals, ends, strict=True):
            with subtests.test(ordeal.name):
                if isinstance(end, BaseException):
                    raise end
                ordeal.judge(end[0])
                assert end[1] < SLOWEST
        assert await sync_to_async(lambda: disagreements(Context.objects.values_list("pk", flat=True)))() == []
        assert not await Run.objects.filter(state__in=["queued", "running"]).aexists()

    return all_of


# Silence


async def hangs(call: Call) -> None:
    await call.hang()


async def hangs_after_its_head(call: Call) -> None:
    await call.stream()
    await call.hang()


async def hangs_within_an_event(call: Call) -> None:
    await call.stream()
    await call.write(b'data: {"jsonrpc": "2.0", "id"')
    await call.hang()


async def hangs_within_a_body(call: Call) -> None:
    await call.head("200 OK", "application/json", "Content-Length: 1000")
    await call.write(b'{"jsonrpc": "2.0", ')
    await call.hang()


async def hangs_after_its_task(call: Call) -> None:
    await call.events(v.conversation(call)[0])
    await call.hang()


async def hangs_half_way(call: Call) -> None:
    await call.events(*v.conversation(call)[:4])
    await call.hang()


def drips(pause: float, what: Callable[[Call], bytes]) -> Answering:
    async def answering(call: Call) -> None:
        await call.stream()
        for byte in what(call):
            await call.write(bytes([byte]))
            await asyncio.sleep(pause)

    return answering


def an_event(call: Call) -> bytes:
    return b"data: " + call.packed({"task": v.task("SUBMITTED", call)}) + b"\n\n"


async def works_for_ever(call: Call) -> None:
    await call.answer(v.task("WORKING", call))


def nobody_there(bad: Villain) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        bad.port = probe.getsockname()[1]


LOST = r"lost after the message was sent|broke off|fell silent|without saying anything"
AWAY = r"could not be reached for \d+ seconds"

SILENT = [
    Ordeal("nobody is there", prepare=nobody_there, says="cannot be reached"),
    Ordeal("says nothing", {STREAM: hangs}, says=LOST),
    Ordeal("says nothing after its head", {STREAM: hangs_after_its_head}, says=LOST),
    Ordeal("says nothing within an event", {STREAM: hangs_within_an_event}, says=LOST),
    Ordeal("says nothing within a body", {STREAM: hangs_within_a_body}, says=LOST),
    Ordeal(
        "says nothing after its task, to nobody",
        {STREAM: hangs_after_its_task, "GetTask": hangs, "SubscribeToTask": hangs},
        says=AWAY,
    ),
    Ordeal(
        "says nothing half way, to nobody",
        {STREAM: hangs_half_way, "GetTask": hangs, "SubscribeToTask": hangs},
        says=AWAY,
    ),
    went_well("says nothing after its task, and tells when it is asked", **{STREAM: hangs_after_its_task}),
    went_well("says nothing half way, and tells when it is asked", **{STREAM: hangs_half_way}),
    Ordeal("drips", {STREAM: drips(0.5, an_event)}, says=LOST),
    Ordeal("drips comments", {STREAM: drips(0.2, lambda call: b":\n" * 1000)}, says="longer than its limit of 12 s"),
    Ordeal(
        "works for ever",
        {STREAM: hangs_half_way, "GetTask": works_for_ever},
        says="longer than its limit of 12 s",
    ),
]


async def test_an_agent_that_falls_silent_ends_its_turn_and_says_so(undergo):
    await undergo(SILENT)


# Cuts


def cut_after(frames: int, rest: bytes = b"") -> Answering:
    async def answering(call: Call) -> None:
        await call.events(*v.conversation(call)[:frames])
        await call.write(rest)
        call.cut()

    return answering


def goes_on_after(frames: int) -> Answering:
    """What a subscription brings after that many events: the task as it is by then, and the others."""

    async def answering(call: Call) -> None:
        said = "".join(["one ", "two ", "three "][: max(0, frames - 2)])
        so_far = [v.artifact(said)] if said else []
        state = "COMPLETED" if frames == 6 else "WORKING"
        await call.events({"task": v.task(state, call, *so_far)}, *v.conversation(call)[frames:])

    return answering


def ends_after(frames: int) -> Answering:
    """Ends the stream in good order, and too early."""

    async def answering(call: Call) -> None:
        await call.events(*v.conversation(call)[:frames])

    return answering


async def says_nothing(call: Call) -> None:
    call.cut()


CUTS = [
    Ordeal("cut before its head", {STREAM: says_nothing}, says=LOST),
    Ordeal("cut before anything", {STREAM: cut_after(0)}, says=LOST),
    Ordeal("cut within the first event", {STREAM: cut_after(0, b"data: {")}, says=LOST),
    Ordeal("ended before anything", {STREAM: ends_after(0)}, says=LOST),
    *(went_well(f"cut after {frames}", **{STREAM: cut_after(frames)}) for frames in range(1, 7)),
    *(went_well(f"ended after {frames}", **{STREAM: ends_after(frames)}) for frames in range(1, 7)),
    *(went_well(f"cut within event {frames + 1}", **{STREAM: cut_after(frames, b"data: {")}) for frames in range(1, 6)),
    *(
        went_well(
            f"cut after {frames}, and taken up", **{STREAM: cut_after(frames), "SubscribeToTask": goes_on_after(frames)}
        )
        for frames in range(1, 7)
    ),
    Ordeal(
        "cut, and gone",
        {STREAM: cut_after(3), "GetTask": says_nothing, "SubscribeToTask": says_nothing},
        says=AWAY,
    ),
]


async def test_a_stream_that_is_cut_after_any_frame_is_found_again_and_nothing_is_doubled(undergo):
    await undergo(CUTS)


# Garbage


def body(content: bytes, status: str = "200 OK", kind: str = "application/json", *headers: str) -> Answering:
    async def answering(call: Call) -> None:
        await call.body(content, status, kind, *headers)

    return answering


def event(content: bytes) -> Answering:
    async def answering(call: Call) -> None:
        await call.stream()
        await call.write(b"data: " + content + b"\n\n")

    return answering


def result(value: object) -> Answering:
    """A stream of this one result."""

    async def answering(call: Call) -> None:
        await call.events(value)  # type: ignore[arg-type]

    return answering


def raw_result(value: bytes) -> Answering:
    async def answering(call: Call) -> None:
        await call.stream()
        await call.write(b'data: {"jsonrpc": "2.0", "id": 1, "result": ' + value + b"}\n\n")

    return answering


async def endless_line(call: Call) -> None:
    await call.stream()
    await call.write(b"data: ")
    while True:
        await call.write(b"x" * 10_000)


async def endless_events(call: Call) -> None:
    await call.stream()
    await call.event({"task": v.task("SUBMITTED", call)})
    while True:
        await call.event(v.status("WORKING", call, "Still here."))


async def bomb(call: Call) -> None:
    packed = gzip.compress(b'{"jsonrpc": "2.0", "id": 1, "result": "' + b" " * 5_000_000)
    await call.body(packed, "200 OK", "application/json", "Content-Encoding: gzip")


UNREADABLE = "cannot be read|does not have the form|is not a JSON object|neither a result nor an error"
TOO_LARGE = "larger than|more than \\d+ bytes|times as large|100 times"
STATUS = b'{"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}'

GARBAGE = [
    Ordeal("not JSON", {STREAM: body(b"<html>It works!</html>")}, says=UNREADABLE),
    Ordeal("a web page", {STREAM: body(b"<html>It works!</html>", "200 OK", "text/html")}, says=UNREADABLE),
    Ordeal("an event that is not JSON", {STREAM: event(b"hello")}, says=UNREADABLE),
    Ordeal("nothing of JSON-RPC", {STREAM: event(b'{"hello": 1}')}, says=UNREADABLE),
    Ordeal("a list", {STREAM: event(b"[]")}, says=UNREADABLE),
    Ordeal("a result that is a text", {STREAM: result("hello")}, says="form|read"),
    Ordeal("a result that is empty", {STREAM: result({})}, says="form|one of|nothing"),
    Ordeal(
        "two things at once", {STREAM: raw_result(b'{"message": {}, "statusUpdate": %b}' % STATUS)}, says="form|one"
    ),
    Ordeal("a task without an id", {STREAM: result({"task": {"status": {"state": "TASK_STATE_WORKING"}}})}, says="id"),
    Ordeal("NaN", {STREAM: raw_result(b'{"statusUpdate": NaN}')}, says=UNREADABLE),
    Ordeal("deeper than anybody", {STREAM: raw_result(b"[" * 5000 + b"]" * 5000)}, says=UNREADABLE),
    Ordeal(
        "a key twice",
        {STREAM: raw_result(b'{"statusUpdate": %b, "statusUpdate": %b}' % (STATUS, STATUS))},
        says=UNREADABLE,
    ),
    Ordeal("bytes that are no UTF-8", {STREAM: raw_result(b'"\xff\xfe"')}, says=UNREADABLE),
    Ordeal("a number without an end", {STREAM: raw_result(b"9" * 100_000)}, says=UNREADABLE),
    Ordeal("a line without an end", {STREAM: endless_line}, says=TOO_LARGE),
    Ordeal(
        "events without an end", {STREAM: endless_events, "GetTask": works_for_ever}, says=TOO_LARGE + "|longer than"
    ),
    Ordeal("a bomb", {STREAM: bomb}, says=TOO_LARGE),
    Ordeal("a huge body", {STREAM: body(b'{"jsonrpc": "' + b"x" * 2 * MOST)}, says=TOO_LARGE),
    Ordeal("an error of its own", {STREAM: body(b"", "500 Internal Server Error")}, says="HTTP_500|lost after"),
    Ordeal("a teapot", {STREAM: body(b"", "418 I'm a teapot")}, says="HTTP_418"),
]


async def test_garbage_is_told_for_what_it_is(undergo):
    await undergo(GARBAGE)
