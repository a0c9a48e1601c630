"""The archive of an account by the client API."""

import io
import zipfile

import pytest

import db
from apps.accounts.models import ApiKey, User
from apps.agents.models import Agent
from apps.transfers import exports
from apps.transfers.models import Export
from tests.api.calling import JSON, Caller
from tests.members import member

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
async def started(ada_calls: Caller, echo: Agent, monkeypatch: pytest.MonkeyPatch) -> JSON:
    monkeypatch.setattr("apps.api.transfers.publish_export", lambda: None)
    answer = await ada_calls.post("/exports")
    assert (answer.status, answer.body["state"]) == (202, "waiting")
    return answer.body


async def test_an_export_is_started_followed_downloaded_and_deleted(ada_calls: Caller, started: JSON) -> None:
    address = f"/exports/{started['id']}"
    assert (await ada_calls.get(f"{address}/file")).status == 409
    assert (await ada_calls.post("/exports")).status == 409
    await db.run(exports.make_next)
    done = (await ada_calls.get(address)).body
    assert (done["state"], done["expiresAt"] is None) == ("done", False)
    assert (await ada_calls.get("/exports")).body["items"] == [done]
    file = await ada_calls.get(f"{address}/file")
    assert (file.status, len(file.content)) == (200, done["size"])
    assert "profile.json" in zipfile.ZipFile(io.BytesIO(file.content)).namelist()
    assert file.headers["cache-control"] == "private, no-store"
    assert (await ada_calls.delete(address)).status == 204
    for path in (address, f"{address}/file"):
        assert (await ada_calls.get(path)).status == 404


async def test_a_download_that_was_cut_off_goes_on(ada_calls: Caller, started: JSON) -> None:
    await db.run(exports.make_next)
    address = f"/exports/{started['id']}/file"
    whole = await ada_calls.get(address)
    size, tag = len(whole.content), whole.headers["etag"]
    for asked, first, end in (("5-9", 5, 10), ("5-", 5, size), ("-7", size - 7, size), (f"0-{size * 2}", 0, size)):
        part = await ada_calls.get(address, range=f"bytes={asked}", if_range=tag)
        assert (part.status, part.content) == (206, whole.content[first:end]), asked
        assert part.headers["content-range"] == f"bytes {first}-{end - 1}/{size}"
        assert part.headers["content-length"] == str(end - first)
    behind = await ada_calls.get(address, range=f"bytes={size}-")
    assert (behind.status, behind.content, behind.headers["content-range"]) == (416, b"", f"bytes */{size}")
    for headers in ({"range": "bytes=5-", "if_range": '"another"'}, {"range": "bytes=0-1,3-4"}, {"range": "lines=1-"}):
        assert (await ada_calls.get(address, **headers)).content == whole.content


async def test_somebody_elses_is_answered_like_what_never_was(bob_calls: Caller, started: JSON) -> None:
    await db.run(exports.make_next)
    assert (await bob_calls.get("/exports")).body["items"] == []
    for path in ("", "/file"):
        answers = [
            await bob_calls.get(f"/exports/{key}{path}") for key in (started["id"], started["id"].replace("-4", "-5"))
        ]
        assert [one.status for one in answers] == [404, 404]
        assert answers[0].body == answers[1].body
    assert (await bob_calls.delete(f"/exports/{started['id']}")).status == 404
    assert await Export.objects.filter(state="done").aexists()


async def test_a_key_that_does_not_reach_the_whole_account_is_refused_everywhere(
    started: JSON, reads: Caller, ada: User, bob: User
) -> None:
    def of_team() -> str:
        return ApiKey.issue(ada, "team", workspace_id=bob.personal_workspace.pk)[1]

    await db.run(member, ada, bob)
    team = Caller(await db.run(of_team))
    for caller in (reads, team):
        for path in ("/exports", f"/exports/{started['id']}", f"/exports/{started['id']}/file"):
            assert (await caller.get(path)).status == 403, path
        assert (await caller.post("/exports")).status == 403
        assert (await caller.delete(f"/exports/{started['id']}")).status == 403
