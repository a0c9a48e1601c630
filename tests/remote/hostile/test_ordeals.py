"""Silence, cuts, garbage and lies: each turn ends in bounded time with a clear message."""

from __future__ import annotations

import asyncio
import base64
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from apps.record.execution import Run
from apps.record.models import TaskState
from parley import db
from parley.outbound import exchanges
from tests.outbound.certificates import tls
from tests.remote.conversing import Talk, delivered, is_whole, remote_agent, said, until, words
from tests.remote.hostile import villain as v
from tests.remote.hostile.villain import STREAM, WELL, Answering, Call, villain
from tests.remote.reaching import event, head, result

pytestmark = pytest.mark.django_db(transaction=True)

IDLE = 1.0
LIMIT = 12.0  # seconds of a turn
SLOWEST = LIMIT + 30.0  # all ordeals at once, on a busy machine
MOST = 200_000
HUNG = 8
PROMPT = 30.0  # seconds on a busy machine; the others hang for longer. An idle machine needs a tenth
LOST = r"lost after the message was sent"
AWAY = r"could not be reached for \d+ seconds"
OVER = rf"longer than its limit of {LIMIT:g} seconds"
UNREADABLE = "cannot be read|does not have the form|is not a JSON object|neither a result nor an error"
TOO_LARGE = r"larger than|more than \d+ bytes"


@pytest.fixture(autouse=True)
def _impatient(settings, outward):
    settings.REMOTE_CONNECT_SECONDS = 5.0
    settings.REMOTE_IDLE_SECONDS = IDLE
    settings.REMOTE_RETRY_SECONDS = 1.0
    settings.REMOTE_AWAY_SECONDS = 2.0
    settings.REMOTE_CONFIRM_SECONDS = 1.0
    settings.REMOTE_POLL_SECONDS = (0.05, 0.5)
    settings.REMOTE_ANSWER_BYTES = MOST
    settings.REMOTE_STREAM_BYTES = 10 * MOST


@dataclass(frozen=True)
class Ordeal:
    """How a villain answers, by method, and how the task ends.

    Attributes:
        says: a pattern of the message that people see.
        state: of the task.
        text: of the artifact "answer", if the task completes.
    """

    name: str
    on: dict[str, Answering] = field(default_factory=dict)
    says: str = ""
    state: str = "failed"
    text: Any = WELL

    def judge(self, state: str, said: str, made: dict[str, Any]) -> None:
        """Fails if the task ended wrongly or its message is unclear."""
        assert state == self.state, said
        assert re.search(self.says, said), said
        assert not re.search(r"Traceback|Error\b|Exception|0x[0-9a-f]{6}|/apps/|None\b", said), said
        assert len(said) < 1000, said
        assert made == ({"answer": self.text} if self.state == "completed" else {}), made


def went_well(name: str, text: Any = WELL, **on: Answering) -> Ordeal:
    return Ordeal(name, on, state="completed", text=text)


# Ways to answer


def plays(change: Callable[[Call], list[Any]], then: Answering | None = None) -> Answering:
    """A stream of events made from the call, and what comes then."""

    async def answering(call: Call) -> None:
        await call.events(*change(call))
        if then is not None:
            await then(call)

    return answering


def body(content: bytes, *status_kind_and_headers: str) -> Answering:
    return lambda call: call.body(content, *status_kind_and_headers)


def answers(**changes: Any) -> Answering:
    return lambda call: call.answer({**v.done(call), **changes})


def with_more(*changes: tuple[int, Any], drop: int | None = None) -> Answering:
    def changed(call: Call) -> list[Any]:
        events = v.conversation(call)
        for place, more in changes:
            events.insert(place, more(call))
        if drop is not None:
            del events[drop]
        return events

    return plays(changed)


def begins(frames: int, then: Answering | None = None) -> Answering:
    return plays(lambda call: v.conversation(call)[:frames], then)


async def drips_comments(call: Call) -> None:
    await call.events()
    while True:
        await call.write(b":\n")
        await asyncio.sleep(0.2)


async def never_stops_delivering(call: Call) -> None:
    await call.events(*v.conversation(call)[:3])
    while True:
        await call.write(event(v.chunk(call, "x" * 50_000, append=True)))


def odd(content: bytes) -> bytes:
    return content.replace(b"MARK", b"a\\u0000b\\ud800c")


async def says_odd_things(call: Call) -> None:
    await call.events(v.conversation(call)[0])
    await call.write(odd(event(v.chunk(call, "MARK", last=True))) + event(v.status("COMPLETED", call)))


async def shows_odd_things(call: Call) -> None:
    await call.body(odd(result(v.task("COMPLETED", call, v.artifact("MARK")))))


def goes_on_after(frames: int) -> Answering:
    """A subscription after that many events: the current task, then the remaining events."""
    said = "".join(["one ", "two ", "three "][: max(0, frames - 2)])
    so_far = [v.artifact(said)] if said else []
    state = "COMPLETED" if frames == 6 else "WORKING"
    return plays(lambda call: [{"task": v.task(state, call, *so_far)}, *v.conversation(call)[frames:]])


def cut_after(frames: Iterable[int]) -> Iterable[Ordeal]:
    for number in frames:
        yield went_well(f"cut after {number}", **{STREAM: begins(number, Call.cut)})
        yield went_well(f"ended after {number}", **{STREAM: begins(number)})
        within = begins(number, lambda call: call.write(b"data: {"))
        yield went_well(f"cut within event {number + 1}", **{STREAM: within})
        taken_up = {STREAM: begins(number, Call.cut), "SubscribeToTask": goes_on_after(number)}
        yield went_well(f"cut after {number}, and taken up", **taken_up)


def nowhere(method: Answering) -> dict[str, Answering]:
    return {"GetTask": method, "SubscribeToTask": method}


SILENT = [
    Ordeal("says nothing", {STREAM: Call.hang}, LOST),
    Ordeal("says nothing half way, to nobody", {STREAM: begins(4, Call.hang), **nowhere(Call.hang)}, AWAY),
    went_well("says nothing half way, and tells when it is asked", **{STREAM: begins(4, Call.hang)}),
]
FOR_EVER = [
    Ordeal("drips comments", {STREAM: drips_comments}, OVER),
    Ordeal("works for ever", {STREAM: begins(4, Call.hang), "GetTask": v.works_for_ever}, OVER),
    Ordeal("delivers without an end", {STREAM: never_stops_delivering, "GetTask": v.over_already}, TOO_LARGE),
]
CUTS = [
    Ordeal("cut before its head", {STREAM: Call.cut}, LOST),
    Ordeal(
        "cut within the first event", {STREAM: lambda call: call.write(head("text/event-stream") + b"data: {")}, LOST
    ),
    *cut_after([2, 4]),
    Ordeal("cut, and gone", {STREAM: begins(3, Call.cut), **nowhere(Call.cut)}, AWAY),
]
DREAMING = {"state": "TASK_STATE_DREAMING"}
PICTURE = {"raw": base64.b64encode(b"\x89PNG").decode(), "mediaType": "image/png", "filename": "a.png"}
LIES = [
    Ordeal("another task", {STREAM: with_more(drop=5), "GetTask": answers(id="another-task")}, "another task"),
    went_well("more after the end", **{STREAM: with_more((6, lambda call: v.chunk(call, "more", append=True)))}),
    went_well("a chunk twice", **{STREAM: with_more((4, lambda call: v.chunk(call, "two ", append=True)))}),
    went_well("other order", **{STREAM: with_more((2, lambda call: v.chunk(call, "two ", append=True)), drop=4)}),
    went_well("a huge id", **{STREAM: with_more((2, lambda call: v.chunk(call, "x", name="y" * 10_000)))}),
    Ordeal(
        "a state of its own",
        {
            STREAM: plays(lambda call: [{"task": v.done(call) | {"status": DREAMING}}, *v.conversation(call)[1:]]),
            "GetTask": answers(status=DREAMING),
        },
        "goes on",
    ),
    went_well("knows no streams", **{STREAM: lambda call: call.refuse(-32601, "Method not found")}),
    went_well(
        "delivers what it says it does not",
        [PICTURE],
        **{STREAM: with_more(drop=4), "GetTask": answers(artifacts=[v.artifact("") | {"parts": [PICTURE]}])},
    ),
    went_well(
        "says what no database keeps", "a\ufffdb\ufffdc", **{STREAM: says_odd_things, "GetTask": shows_odd_things}
    ),
]
YEARS = "Retry-After: 999999999"
REFUSALS = [
    Ordeal("a web page", {STREAM: body(b"<html>It works!</html>", "200 OK", "text/html")}, UNREADABLE),
    Ordeal("asks for years", {STREAM: body(b"", "429 No", "text/plain", YEARS)}, "takes no more work"),
    Ordeal(
        "is away for years",
        {STREAM: with_more(drop=5), "GetTask": body(b"", "503 No", "text/plain", YEARS)},
        "could not be reached",
    ),
    Ordeal("wants a credential", {STREAM: body(b"", "401 Unauthorized")}, "credential"),
]


@pytest.mark.parametrize(
    "ordeals",
    [
        SILENT,
        CUTS,
        LIES,
        REFUSALS,
        pytest.param(FOR_EVER, marks=pytest.mark.slow("these turns take all the time that they have")),
        pytest.param([*cut_after([1, 3, 5, 6])], marks=pytest.mark.slow("cuts after every other event")),
    ],
    ids=["silence", "cuts", "lies", "refusals", "for ever", "more cuts"],
)
async def test_each_turn_ends_as_it_must(worker, ada, subtests, ordeals):
    """All at the same time, each with its own villain and agent."""

    async def undergo(number: int, ordeal: Ordeal) -> tuple[float, Any]:
        async with villain() as bad:
            bad.on.update(ordeal.on)
            agent = await db.run(lambda: remote_agent(bad.card, f"bad-{number}", time_limit=LIMIT))
            began = time.monotonic()
            task = await Talk(ada, agent, patience=SLOWEST).ask()
            return time.monotonic() - began, task

    ordeals = [*ordeals, went_well("does well beside them")]
    ends = await asyncio.gather(*map(undergo, range(len(ordeals)), ordeals), return_exceptions=True)
    for ordeal, end in zip(ordeals, ends, strict=True):
        with subtests.test(ordeal.name):
            if isinstance(end, BaseException):
                raise end
            seconds, task = end
            ordeal.judge(task.state, words(task), await db.run(delivered, task))
            if ordeal.name.startswith(("cut after", "ended after")):
                chunks = await db.run(said, task, "artifact_update")
                assert "".join(part["text"] for one in chunks for part in one["artifact"]["parts"]) == WELL, "once"
            assert seconds < SLOWEST
            assert await db.run(is_whole, task)
    assert not await Run.objects.filter(state__in=["queued", "running"]).aexists()


async def test_lies_about_a_real_task_leave_it_alone(worker, ada):
    """Both tasks belong to one agent, which works on one while it reports on the other."""
    other_may_end = asyncio.Event()

    async def mixes_them_up(call: Call) -> None:
        first, *more = bad.calls
        if not more:
            await call.events(*v.conversation(call)[:4])
            await other_may_end.wait()
            await call.write(b"".join(map(event, v.conversation(call)[4:])))
        else:
            await call.events(*v.conversation(call)[:3], v.chunk(first, "for the other ", append=True))

    async with villain() as bad:
        bad.on[STREAM] = mixes_them_up
        agent = await db.run(lambda: remote_agent(bad.card, time_limit=LIMIT))
        talk = Talk(ada, agent)
        begun = await talk.say("The other.")
        await until(lambda: "two" in str(said(begun, "artifact_update")))
        one = await Talk(ada, agent).ask("The one.")
        other_may_end.set()
        other = await talk.settled(begun)
    assert "for the other" not in str(await db.run(lambda: [said(task, "artifact_update") for task in (one, other)]))
    Ordeal("the one", says="another task").judge(one.state, words(one), await db.run(delivered, one))
    went_well("the other").judge(other.state, words(other), await db.run(delivered, other))


async def test_a_certificate_that_changes_is_not_trusted(worker, ada, monkeypatch, tmp_path):
    theirs, ours = tls(tmp_path, "127.0.0.1")
    monkeypatch.setattr(exchanges, "_system_trust", lambda: ours)
    async with villain(theirs) as bad:
        talk = Talk(ada, await db.run(remote_agent, bad.card))
        good = await talk.ask()
        assert (good.state, await db.run(delivered, good)) == (TaskState.COMPLETED, {"answer": WELL})
        calls = len(bad.calls)
        tls(tmp_path, "127.0.0.1")  # another key, which nobody trusts
        theirs.load_cert_chain(tmp_path / "pem")
        changed = await talk.ask()
        assert changed.state == TaskState.FAILED
        assert "its certificate is not to be trusted" in words(changed)
        assert len(bad.calls) == calls


@pytest.mark.services("turns that hang take no room from others")
async def test_hung_agents_hold_up_nobody(settings, worker, ada, echo):
    settings.RUNS_PER_PROCESS = 5
    settings.REMOTE_CONNECT_SECONDS = settings.REMOTE_IDLE_SECONDS = 60.0

    async def hangs(call: Call) -> None:
        if len(bad.called(STREAM)) % 2:
            await call.events(*v.conversation(call)[:3])
        await call.hang()

    async with villain() as bad, villain() as good:
        bad.on |= {STREAM: hangs, **nowhere(hangs)}
        hanging = Talk(ada, await db.run(remote_agent, bad.card, "hanging"))
        hung = await asyncio.gather(*(Talk(ada, hanging.agent).say("Do it.") for _ in range(HUNG)))
        await until(lambda: Run.objects.filter(remote__sent=True).count() == HUNG)
        await until(lambda: len(bad.called(STREAM)) == HUNG)
        for agent in (await db.run(remote_agent, good.card, "healthy"), echo):
            began = time.monotonic()
            assert (await Talk(ada, agent).ask("hello")).state == TaskState.COMPLETED
            assert time.monotonic() - began < PROMPT
        bad.on = {}  # the same server has recovered
        assert (await hanging.ask("hello")).state == TaskState.COMPLETED
        assert await Run.objects.filter(state=Run.State.RUNNING).acount() == HUNG
        for task in hung:
            await hanging.cancel(task)
        await until(lambda: not Run.objects.filter(state=Run.State.RUNNING).exists())
    assert await db.run(lambda: all(map(is_whole, hung)))
