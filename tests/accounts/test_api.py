"""API keys, the archive of an account, and notifications by the client API."""

import hashlib
import io
import uuid
import zipfile

import pytest

from apps.accounts.models import ApiKey
from apps.accounts.principals import READ, WRITE
from apps.accounts.requests import quotas
from apps.notifications.models import Channel
from apps.optional.transfers import exports
from parley import db
from tests.clients.calling import Caller
from tests.members import member
from tests.work.hand import published_keys

pytestmark = pytest.mark.django_db(transaction=True)

HOOK = {"type": "webhook", "name": "Mine", "url": "https://192.0.43.8/hook"}  # it is not called


async def test_browser_gets_no_secret_of_a_key(ada_browses):
    answer = await ada_browses.post("/keys", {"name": "robot", "scopes": [READ]}, x_csrftoken="a" * 32)
    assert answer.code == "forbidden"


async def test_anybody_reports_leaked_keys_so_often(anybody, ada_calls, settings, monkeypatch):
    monkeypatch.setattr(quotas, "leak_counter", quotas.RequestCounter("leaks-of-a-test"))
    settings.LEAK_REPORTS_PER_MINUTE = 2
    made = (await ada_calls.post("/keys", {"name": "robot", "scopes": [READ]})).body["key"]
    report = [{"token": made, "type": "a_type", "url": "https://example.org/paste"}, {"token": "parley_nothing"}]
    answer = await anybody.post("/keys/leaked", report)
    assert answer.status == 200, answer.content
    assert answer.body[0] == {
        "token_hash": hashlib.sha256(made.encode()).hexdigest(),
        "token_type": "a_type",
        "label": "true_positive",
    }
    assert answer.body[1]["label"] == "false_positive"
    assert (await Caller(made).get("/agents")).status == 401
    assert (await anybody.post("/keys/leaked", [{"token": "x"}] * 101)).status == 422
    assert (await anybody.post("/keys/leaked", [])).status == 429
    assert await ApiKey.objects.filter(revoked_because=ApiKey.Reason.LEAKED).acount() == 1


@pytest.fixture
async def started(ada_calls, echo, monkeypatch):
    published_keys(monkeypatch)
    answer = await ada_calls.post("/exports")
    assert (answer.status, answer.body["state"]) == (202, "waiting")
    return answer.body


async def test_export_is_followed_downloaded_and_deleted(ada_calls, started):
    address = f"/exports/{started['id']}"
    assert (await ada_calls.get(f"{address}/file")).status == 409
    assert (await ada_calls.post("/exports")).status == 409
    await db.run(exports.make, uuid.UUID(started["id"]))
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


async def test_cut_download_goes_on(ada_calls, started):
    await db.run(exports.make, uuid.UUID(started["id"]))
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


async def test_key_without_the_whole_account_exports_nothing(started, reads, ada, bob):
    def of_team():
        return ApiKey.issue(ada, "team", workspace_id=bob.personal_workspace.pk)[1]

    await db.run(member, ada, bob)
    team = Caller(await db.run(of_team))
    for caller in (reads, team):
        for path in ("/exports", f"/exports/{started['id']}", f"/exports/{started['id']}/file"):
            assert (await caller.get(path)).status == 403, path
        assert (await caller.post("/exports")).status == 403
        assert (await caller.delete(f"/exports/{started['id']}")).status == 403


async def test_channel_shows_its_secrets_once_and_keeps_choices(ada_calls, echo):
    made = (await ada_calls.post("/notifications/channels", HOOK)).body
    assert made.pop("secret").startswith("whsec_")
    assert made["kinds"] == ["ended", "failed", "asks"]
    chosen = {"kinds": ["asks"], "agents": [{"agent": "echo", "kinds": []}]}
    answer = await ada_calls.put("/notifications", {"choices": [{"channel": made["id"], **chosen}]})
    assert answer.body["channels"] == [{**made, **chosen}]
    assert HOOK["url"].encode() not in answer.content
    assert (await ada_calls.get("/notifications")).body == answer.body
    silent = await ada_calls.patch(f"/notifications/channels/{made['id']}", {"agents": [{"agent": "echo"}]})
    assert silent.body["agents"] == chosen["agents"]
    for path in (f"/notifications/channels/{made['id']}/rotate", "/notifications/secret"):
        assert (await ada_calls.post(path)).body["secret"].startswith("whsec_")


async def test_limited_key_makes_no_channel(transactional_db, ada, echo):
    for limits in ({"scopes": [WRITE]}, {"agents": ["echo"]}):
        key = (await db.run(lambda limits=limits: ApiKey.issue(ada, "k", **limits)))[1]
        assert (await Caller(key).post("/notifications/channels", HOOK)).code == "forbidden"
    assert not await Channel.objects.aexists()
