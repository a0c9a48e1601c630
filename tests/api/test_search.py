"""`GET /search`: words find what was said and delivered, for who may see it."""

import datetime
import uuid

import pytest
from asgiref.sync import sync_to_async

from apps.accounts.models import ApiKey
from apps.accounts.principals import READ, WRITE
from apps.api.search import Hit
from apps.conversations import forking, intake
from apps.conversations.models import Context
from tests.api.calling import Caller

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def tell(ada, echo, said):
    def record(text, user=ada, **fields):
        return intake.accept(user.principal, echo, said(text, **fields))

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


async def test_strangers_find_nothing_and_callers_without_a_key_are_refused(ada_calls, bob_calls, anybody, tell, ada):
    sent = await sync_to_async(tell)("otter")
    assert shown(await bob_calls.get("/search?q=otter")) == []
    for session in (sent.context, uuid.uuid4()):
        elsewhere = await bob_calls.get(f"/search?q=otter&session={session}")
        assert (elsewhere.status, elsewhere.code) == (404, "not_found")
    assert (await anybody.get("/search?q=otter")).status == 401
    assert len(shown(await ada_calls.get(f"/search?q=otter&session={sent.context}&kind=message"))) == 1
    writes = Caller((await sync_to_async(ApiKey.issue)(ada, "writes", scopes=[WRITE]))[1])
    reads = Caller((await sync_to_async(ApiKey.issue)(ada, "reads", scopes=[READ]))[1])
    assert (await writes.get("/search?q=otter")).status == 403
    assert (await reads.get("/search?q=otter")).status == 200


@pytest.mark.parametrize(
    ("query", "field"),
    [
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
    ],
)
async def test_what_is_wrong_with_a_search_is_said(ada_calls, query, field):
    answer = await ada_calls.get(f"/search?{query}")
    assert (answer.status, answer.fields) == (422, [field])


@pytest.mark.parametrize(
    "query", ["%22", "-a", "%2A", "%F0%9F%8E%89", "a%22b-(c%29%3A*", "AND%20OR%20NOT%20NEAR(a)", "'%3B--"]
)
async def test_odd_queries_find_nothing_but_are_no_error(ada_calls, query):
    assert shown(await ada_calls.get(f"/search?q={query}")) == []


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


async def test_what_is_older_and_what_is_with_an_agent(ada_calls, tell):
    await sync_to_async(tell)("crane")
    now = datetime.datetime.now(datetime.UTC).isoformat().replace("+", "%2B")
    await sync_to_async(tell)("crane again")
    assert shown(await ada_calls.get(f"/search?q=crane&kind=message&before={now}")) == ["crane"]
    assert len(shown(await ada_calls.get("/search?q=crane&agent=echo&kind=message,session"))) == 4
    assert shown(await ada_calls.get("/search?q=crane&agent=countdown")) == []


def forked(ada, context):
    return forking.fork(ada.principal, Context.objects.get(pk=context), 1, reason="fork")


async def test_a_fork_finds_what_it_goes_on_from_once_and_not_what_came_after(ada_calls, ada, tell):
    sent = await sync_to_async(tell)("ibis before")
    child = await sync_to_async(forked)(ada, sent.context)
    name = (await Context.objects.aget(pk=sent.context)).context_id
    await sync_to_async(tell)("ibis after", contextId=name)
    assert sorted(shown(await ada_calls.get("/search?q=ibis&kind=message"))) == ["ibis after", "ibis before"]
    within = await ada_calls.get(f"/search?q=ibis&kind=message&session={child.pk}")
    assert shown(within) == ["ibis before"]
    assert within.body["items"][0]["sessionId"] == str(sent.context)


async def test_sessions_are_listed_by_what_is_found_in_them(ada_calls, bob_calls, tell):
    one = await sync_to_async(tell)("the kingfisher dives")
    await sync_to_async(tell)("the cormorant dives")
    found = await ada_calls.get("/sessions?q=kingfisher")
    assert [session["id"] for session in found.body["items"]] == [str(one.context)]
    assert len((await ada_calls.get("/sessions?q=dives")).body["items"]) == 2
    assert (await bob_calls.get("/sessions?q=dives")).body["items"] == []
    refused = await ada_calls.get("/sessions?q=" + "a" * 501)
    assert (refused.status, refused.fields) == (422, ["q"])
