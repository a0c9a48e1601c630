"""A person's marks on a session: pinned, and seen up to an event."""

import pytest

from apps.features.sessions.models import SessionMark
from apps.record.models import Event

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
async def session(ada_calls, works):
    return (await ada_calls.post("/sessions", {"agent": "works", "title": "Plans"})).body["session"]["id"]


async def test_a_session_is_pinned_and_unpinned(ada_calls, session):
    assert (await ada_calls.put(f"/sessions/{session}/mark", {"pinned": True})).body == {"pinned": True, "seen": 0}
    since = (await SessionMark.objects.aget()).pinned_at
    assert (await ada_calls.put(f"/sessions/{session}/mark", {"pinned": True})).body["pinned"]
    assert (await SessionMark.objects.aget()).pinned_at == since
    assert (await ada_calls.put(f"/sessions/{session}/mark", {"pinned": False})).body == {"pinned": False, "seen": 0}


async def test_what_was_seen_stays_seen_and_nobody_has_seen_what_is_to_come(ada_calls, session):
    assert (await ada_calls.put(f"/sessions/{session}/mark", {"seen": 1})).body["seen"] == 1
    assert (await ada_calls.put(f"/sessions/{session}/mark", {"seen": 0})).body["seen"] == 1
    assert (await ada_calls.put(f"/sessions/{session}/mark", {"seen": 2**63 - 1})).body["seen"] == 1
    assert (await ada_calls.put(f"/sessions/{session}/mark", {})).body == {"pinned": False, "seen": 1}
    assert await Event.objects.acount() == 1, "a mark is no event"


async def test_what_cannot_be_noted_is_refused_by_its_field(ada_calls, session):
    for body, named in [
        ({"pinned": "yes"}, "pinned"),
        ({"pinned": None}, "pinned"),
        ({"seen": -1}, "seen"),
        ({"seen": 2**63}, "seen"),
        ({"seen": "1"}, "seen"),
        ({"starred": True}, "starred"),
    ]:
        answer = await ada_calls.put(f"/sessions/{session}/mark", body)
        assert (answer.status, answer.fields) == (422, [named]), body
    assert not await SessionMark.objects.aexists()


async def test_nothing_is_left_of_a_mark_when_the_session_is_deleted(ada_calls, session):
    await ada_calls.put(f"/sessions/{session}/mark", {"pinned": True})
    assert (await ada_calls.delete(f"/sessions/{session}")).status == 204
    assert not await SessionMark.objects.aexists()
