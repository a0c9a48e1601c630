"""A stream that is cut after any frame is found again, and nothing is doubled."""

from __future__ import annotations

import pytest

from tests.gateway.hostile import villain as v
from tests.gateway.hostile.ordeals import AWAY, LOST, STREAM, Ordeal, went_well
from tests.gateway.hostile.villain import Answering, Call

pytestmark = pytest.mark.django_db(transaction=True)


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
