"""A session is replayed in real time, faster, or at once."""

import asyncio
import datetime
import itertools

import pytest

from apps.conversations.api import events
from apps.record.models import Context, Event
from parley import db
from tests.clients.delivering import rename
from tests.conversations.api.test_events import Line
from tests.emptying import rewrite

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def recorded(begun):
    """Ada's session of five events; returns its key."""
    context = begun()
    rename(*[context] * 4)
    return context


def spaced(context, *gaps):
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    for index, at in enumerate(itertools.accumulate((0, *gaps)), start=1):
        rewrite(Event.objects.filter(context=context, index=index), at=start + datetime.timedelta(seconds=at))


async def played(caller, session, query="", **headers):
    line = await Line(caller, query, f"/sessions/{session}/play", **headers).open()
    while await line.more():
        pass
    await line.line.wait(60)
    return line.heard


async def test_the_same_events_come_as_were_recorded(ada_calls, recorded):
    heard = await played(ada_calls, recorded, "speed=0")
    shown = (await ada_calls.get(f"/sessions/{recorded}")).body["events"]
    assert [said for _, said, _ in heard[:-1]] == shown
    assert [place for _, _, place in heard[:-1]] == ["1", "2", "3", "4", "5"]
    assert heard[-1][:2] == ("end", {"sessionId": str(recorded), "index": 5})


async def test_part_of_a_session_is_played_and_resumed(ada_calls, recorded):
    heard = await played(ada_calls, recorded, "speed=0&from=2&to=3")
    assert [said["index"] for _, said, _ in heard] == [2, 3, 3]
    heard = await played(ada_calls, recorded, "speed=0&from=2", Last_Event_ID="3")
    assert [said["index"] for _, said, _ in heard] == [4, 5, 5]
    heard = await played(ada_calls, recorded, "speed=0", Last_Event_ID="5")
    assert [name for name, _, _ in heard] == ["end"]


async def test_pauses_are_faster_and_cut(recorded, monkeypatch):
    await db.run(spaced, recorded, 0, 1, 4000, 0.5)
    waited, sleep = [], asyncio.sleep

    async def noted(seconds):
        waited.append(seconds)
        await sleep(0)

    monkeypatch.setattr(events.asyncio, "sleep", noted)
    context = await Context.objects.aget(pk=recorded)
    for speed, most, pauses in (
        (1.0, 5.0, [0, 0, 1, 5, 0.5]),
        (10.0, 5.0, [0, 0, 0.1, 0.5, 0.05]),
        (100.0, 3600.0, [0, 0, 0.01, 36, 0.005]),
    ):
        waited.clear()
        heard = [one async for batch in events.Playback(context, 1, 5, speed, most).play() for one in batch]
        assert [one["index"] for one in heard] == [1, 2, 3, 4, 5]
        assert waited == pytest.approx(pauses)


async def test_what_cannot_be_played_is_refused(ada_calls, recorded):
    for query in ("from=6", "to=6", "from=3&to=2", "speed=-1", "speed=101", "speed=nan", "max_gap=inf", "from=0"):
        assert (await ada_calls.get(f"/sessions/{recorded}/play?{query}")).status == 422, query
    for heard in ("9" * 5000, "-1", "1.5", "²"):  # invalid indexes are ignored
        assert (await ada_calls.get(f"/sessions/{recorded}/play?speed=0", Last_Event_ID=heard)).status == 200
