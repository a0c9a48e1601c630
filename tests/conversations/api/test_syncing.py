"""A client with all data asks for changes and gets only these."""

import datetime

import pytest

from apps.conversations.sessions import deletion
from apps.record import sync
from parley import db
from tests.clients.delivering import rename

pytestmark = pytest.mark.django_db(transaction=True)


async def test_token_of_a_list_gives_later_changes(ada_calls, ada, echo, begun):
    renamed, quiet = [await db.run(begun) for _ in range(2)]
    gone = await db.run(lambda: begun(contextId="gone"))
    listed = (await ada_calls.get("/sessions")).body
    await db.run(rename, renamed)
    await db.run(deletion.delete_context, ada.principal, echo, "gone")
    new = await db.run(begun)
    changes = (await ada_calls.get(f"/sessions?since={listed['token']}")).body
    assert [(one["id"], one["revision"]) for one in changes["items"]] == [(str(renamed), 2), (str(new), 1)]
    assert (changes["created"], changes["deleted"]) == ([str(new)], [str(gone)])
    assert (changes["more"], changes["reset"], changes["nextCursor"]) == (False, False, "")
    assert str(quiet) in {one["id"] for one in listed["items"]}
    again = (await ada_calls.get(f"/sessions?since={changes['token']}")).body
    assert (again["items"], again["deleted"]) == ([], [])


async def test_many_changes_come_in_turns(ada_calls, begun):
    token = (await ada_calls.get("/sessions")).body["token"]
    sessions = [str(await db.run(begun)) for _ in range(5)]
    heard, more = [], True
    while more:
        changes = (await ada_calls.get(f"/sessions?limit=2&since={token}")).body
        heard, token, more = heard + [one["id"] for one in changes["items"]], changes["token"], changes["more"]
    assert heard == sessions


async def test_who_was_away_for_too_long_begins_again(ada_calls, ada, settings):
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=settings.SYNC_DAYS + 1)
    token = sync.position_token(ada.principal, sync.Position(then, {}))
    changes = (await ada_calls.get(f"/sessions?since={token}")).body
    assert (changes["reset"], changes["token"], changes["items"]) == (True, "", [])
