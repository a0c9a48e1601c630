"""Sessions that are shared with the workspace, for clients: who sees them, who wrote what, and when that ends."""

import pytest

import db
from apps.accounts.models import ApiKey
from apps.accounts.permissions import Role
from apps.features.sessions import commands
from apps.record import projection
from apps.record.models import Context
from tests.api.calling import Caller
from tests.api.test_events import line
from tests.api.test_sessions import begun
from tests.members import member

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def colleague(ada, bob):
    member(bob, ada)
    return Caller(ApiKey.issue(bob, "test", workspace_id=ada.personal_workspace.pk)[1])


async def share(caller, session, sharing="workspace"):
    answer = await caller.patch(f"/sessions/{session}", {"sharing": sharing})
    assert answer.status == 200, answer.content
    return answer.body


async def test_a_session_is_private_until_its_owner_shares_it(ada_calls, bob_calls, colleague, works):
    session = (await begun(ada_calls))["id"]
    assert (await colleague.get(f"/sessions/{session}")).status == 404
    assert (await share(ada_calls, session))["sharing"] == "workspace"
    assert (await colleague.get(f"/sessions/{session}")).body["session"]["sharing"] == "workspace"
    unknown = await bob_calls.get(f"/sessions/{session}")
    assert unknown.status == 404, "from another workspace"
    await share(ada_calls, session, "private")
    again = await colleague.get(f"/sessions/{session}")
    assert (again.status, again.body["detail"]) == (404, unknown.body["detail"])


async def test_lists_have_others_sessions_only_if_asked(ada_calls, colleague, works):
    session = (await begun(ada_calls))["id"]
    await share(ada_calls, session)
    assert (await colleague.get("/sessions")).body["items"] == []
    assert [one["id"] for one in (await colleague.get("/sessions?whose=shared")).body["items"]] == [session]
    assert (await ada_calls.get("/sessions?whose=shared")).body["items"] == []


async def test_messages_say_who_wrote_them(ada_calls, colleague, ada, bob, talks):
    session = (await begun(ada_calls, agent="talks", message={"text": "hers"}))["id"]
    alone = (await ada_calls.get(f"/sessions/{session}/messages")).body["items"]
    assert {one["author"] for one in alone} == {None}
    await share(ada_calls, session)
    sent = await colleague.post(f"/sessions/{session}/messages", {"text": "his"}, key="one")
    assert sent.body["message"]["author"] == {"id": bob.pk, "name": "Bob"}
    said = (await ada_calls.get(f"/sessions/{session}/messages?limit=100")).body["items"]
    authors = {one["content"]: one["author"] for one in said if one["role"] == "user"}
    assert authors == {"hers": {"id": ada.pk, "name": "Ada"}, "his": {"id": bob.pk, "name": "Bob"}}
    assert {one["author"] for one in said if one["role"] == "agent"} <= {None}
    assert not await db.run(projection.differences, (await db.run(Context.objects.get, pk=session)).pk)


async def test_only_the_owner_changes_shares_and_deletes_it(ada_calls, colleague, works):
    session = (await begun(ada_calls))["id"]
    await share(ada_calls, session)
    for change in ({"title": "his"}, {"sharing": "private"}, {"agent": "works"}):
        assert (await colleague.patch(f"/sessions/{session}", change)).status == 409, change
    assert (await colleague.delete(f"/sessions/{session}")).status == 409
    assert (await colleague.get(f"/sessions/{session}/shares")).status == 409
    assert (await colleague.get(f"/sessions/{session}")).body["session"]["revision"] == 2


async def test_viewers_read_alone(ada_calls, colleague, ada, bob, works):
    session = (await begun(ada_calls))["id"]
    await share(ada_calls, session)
    await db.run(member, bob, ada, Role.VIEWER)
    assert (await colleague.get(f"/sessions/{session}")).status == 200
    assert (await colleague.post(f"/sessions/{session}/messages", {"text": "his"}, key="one")).status in (403, 409)
    assert (await colleague.put(f"/sessions/{session}/mark", {"seen": 1})).status == 200, "their own mark"


async def test_a_stream_of_it_ends_when_it_is_private_again(ada, ada_calls, colleague, works):
    session = (await begun(ada_calls))["id"]
    await share(ada_calls, session)
    async with line(colleague, f"session_ids={session}") as stream:
        await stream.more()
        context = await db.run(Context.objects.get, pk=session)
        await db.run(commands.rename_session, ada.principal, context.pk, "News")
        while not stream.heard:
            await stream.more()
        await db.run(commands.share_session, ada.principal, context.pk, Context.Sharing.PRIVATE)
        while await stream.more():
            continue
    assert [event for event, *_ in stream.heard] == ["session_renamed"]
