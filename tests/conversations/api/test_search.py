"""`GET /search` finds messages and artifacts that the caller may see."""

import pytest
from asgiref.sync import sync_to_async

from apps.conversations.api.sessions import Hit
from apps.engine import accept

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


async def test_hit_has_place_and_marked_excerpt(ada_calls, tell):
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


async def test_wrong_searches_are_refused_odd_words_are_not(ada_calls):
    for query, field in [
        ("q=", "q"),
        ("q=a%00", "q"),
        ("q=a&kind=cloud", "kind[0]"),
        ("q=a&session=x", "session"),
        ("q=a&before=soon", "before"),
        ("q=a&cursor=made-up", "cursor"),
        ("q=a&colour=red", "colour"),
    ]:
        answer = await ada_calls.get(f"/search?{query}")
        assert (answer.status, answer.fields) == (422, [field]), query[:50]
    for odd in ("%22", "-a", "%F0%9F%8E%89", "a%22b-(c%29%3A*", "AND%20OR%20NOT%20NEAR(a)"):
        assert shown(await ada_calls.get(f"/search?q={odd}")) == []


async def test_cursor_is_of_its_search_alone(ada_calls, bob_calls, tell):
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
