"""`GET /search` finds messages and artifacts that the caller may see."""

import pytest
from asgiref.sync import sync_to_async

from apps.accounts.models import ApiKey
from apps.accounts.principals import WRITE
from apps.api.sessions import Hit
from apps.engine import accept
from tests.api.calling import Caller

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("each database has an index of words of its own"),
]


@pytest.fixture
def tell(ada, echo, said):
    def record(text, user=ada, **fields):
        return accept.accept(user.principal, echo, said(text, **fields))

    return record


def shown(answer):
    assert answer.status == 200, answer.content
    return ["".join(piece["text"] for piece in one["excerpt"]) for one in answer.body["items"]]


async def test_a_hit_says_where_it_stands_and_what_was_hit(ada_calls, tell):
    sent = await sync_to_async(tell)("the <b>otter</b> swims")
    answer = await ada_calls.get("/search?q=otter&kind=message")
    [hit] = answer.body["items"]
    assert set(hit) == set(Hit().fields)
    assert (hit["kind"], hit["sessionId"], hit["index"], hit["name"]) == ("message", str(sent.context), 1, "user")
    assert hit["agent"] == "echo"
    assert hit["excerpt"] == [
        {"text": "the <b>", "hit": False},
        {"text": "otter", "hit": True},
        {"text": "</b> swims", "hit": False},
    ]
    assert answer.body["nextCursor"] == ""


async def test_strangers_find_nothing_and_who_may_only_write_does_not_search(bob_calls, reads, ada, tell):
    sent = await sync_to_async(tell)("otter")
    assert shown(await bob_calls.get("/search?q=otter")) == []
    assert (await bob_calls.get(f"/search?q=otter&session={sent.context}")).code == "not_found"
    assert len(shown(await reads.get(f"/search?q=otter&session={sent.context}&kind=message"))) == 1
    writes = Caller((await sync_to_async(ApiKey.issue)(ada, "writes", scopes=[WRITE]))[1])
    assert (await writes.get("/search?q=otter")).status == 403


async def test_what_is_wrong_with_a_search_is_said_and_odd_words_are_no_error(ada_calls):
    for query, field in [
        ("", "q"),
        ("q=", "q"),
        ("q=" + "a" * 10_000, "q"),
        ("q=a%00", "q"),
        ("q=a&kind=cloud", "kind[0]"),
        ("q=a&session=x", "session"),
        ("q=a&before=soon", "before"),
        ("q=a&limit=0", "limit"),
        ("q=a&cursor=made-up", "cursor"),
        ("q=a&colour=red", "colour"),
    ]:
        answer = await ada_calls.get(f"/search?{query}")
        assert (answer.status, answer.fields) == (422, [field]), query[:50]
    for odd in ("%22", "-a", "%F0%9F%8E%89", "a%22b-(c%29%3A*", "AND%20OR%20NOT%20NEAR(a)"):
        assert shown(await ada_calls.get(f"/search?q={odd}")) == []


async def test_pages_are_walked_by_their_cursor_which_is_of_no_use_for_another_search(ada_calls, bob_calls, tell):
    for number in range(5):
        await sync_to_async(tell)(f"heron {number}")
    first = await ada_calls.get("/search?q=heron&kind=message&limit=2")
    cursor, seen = first.body["nextCursor"], shown(first)
    while cursor:
        answer = await ada_calls.get(f"/search?q=heron&kind=message&limit=2&cursor={cursor}")
        seen, cursor = seen + shown(answer), answer.body["nextCursor"]
    assert sorted(seen) == [f"heron {number}" for number in range(5)]
    cursor = first.body["nextCursor"]
    for caller, query in (
        (ada_calls, "q=stork&kind=message"),
        (ada_calls, "q=heron"),
        (bob_calls, "q=heron&kind=message"),
    ):
        refused = await caller.get(f"/search?{query}&limit=2&cursor={cursor}")
        assert (refused.status, refused.fields) == (422, ["cursor"])


async def test_sessions_are_listed_by_what_is_found_in_them(ada_calls, bob_calls, tell):
    one = await sync_to_async(tell)("the kingfisher dives")
    await sync_to_async(tell)("the cormorant dives")
    found = await ada_calls.get("/sessions?q=kingfisher")
    assert [session["id"] for session in found.body["items"]] == [str(one.context)]
    assert len((await ada_calls.get("/sessions?q=dives")).body["items"]) == 2
    assert (await bob_calls.get("/sessions?q=dives")).body["items"] == []
    refused = await ada_calls.get("/sessions?q=" + "a" * 501)
    assert (refused.status, refused.fields) == (422, ["q"])
