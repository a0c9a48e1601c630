"""The client API makes, shows, rotates and revokes API keys; anybody may report a leaked one."""

import hashlib

import pytest

from apps.accounts import quotas
from apps.accounts.models import ApiKey
from apps.accounts.principals import KEYS, READ, SCOPES, WRITE
from tests.api.calling import Caller

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_key_is_made_shown_once_used_and_revoked(ada_calls, echo):
    wanted = {"name": "robot", "scopes": [READ], "agents": ["echo"]}
    answer = await ada_calls.post("/keys", wanted)
    assert answer.status == 201, answer.content
    made = answer.body
    assert (made["scopes"], made["agents"], bool(made["expiresAt"])) == ([READ], ["echo"], True)
    robot = Caller(made["key"])
    assert (await robot.get("/agents")).status == 200
    listed = (await ada_calls.get("/keys")).body["items"]
    assert {one["name"] for one in listed} == {"robot", "test"}
    assert "key" not in listed[0]
    assert made["key"].split("_", 2)[2] not in str(listed)
    assert (await ada_calls.delete(f"/keys/{made['id']}")).status == 204
    assert (await robot.get("/agents")).status == 401
    assert (await ada_calls.get(f"/keys/{made['id']}")).body["revokedAt"]


async def test_a_key_never_makes_a_wider_one_and_needs_the_scope(ada, ada_calls, reads, echo, countdown):
    assert (await reads.get("/keys")).code == "forbidden"
    assert (await reads.post("/keys", {"name": "more", "scopes": [READ]})).code == "forbidden"
    narrow = (await ada_calls.post("/keys", {"name": "n", "scopes": [READ, KEYS], "agents": ["echo"]})).body["key"]
    for more in ({"scopes": [WRITE], "agents": ["echo"]}, {"scopes": [READ]}, {"expiresInDays": None}):
        answer = await Caller(narrow).post("/keys", {"name": "w", "scopes": [READ], "agents": ["echo"], **more})
        assert answer.code == "forbidden", more
    answer = await Caller(narrow).post("/keys", {"name": "w", "scopes": [READ], "agents": ["countdown"]})
    assert (answer.code, answer.fields) == ("invalid", ["agents"])


async def test_a_rotated_key_keeps_its_name_and_takes_the_new_secret(ada_calls):
    made = (await ada_calls.post("/keys", {"name": "robot", "scopes": [*SCOPES], "expiresInDays": None})).body
    rotated = (await ada_calls.post(f"/keys/{made['id']}/rotate", {"graceSeconds": 0})).body
    assert (rotated["id"], rotated["expiresAt"]) == (made["id"], None)
    assert (await Caller(made["key"]).get("/agents")).status == 401
    assert (await Caller(rotated["key"]).get("/agents")).status == 200


async def test_a_browser_gets_no_secret_here_and_others_keys_are_not_found(ada_browses, ada_calls, bob_calls, bob):
    answer = await ada_browses.post("/keys", {"name": "robot", "scopes": [READ]}, x_csrftoken="a" * 32)
    assert answer.code == "forbidden"
    bobs = (await bob_calls.get("/keys")).body["items"][0]["id"]
    unknown = await ada_calls.get("/keys/000000000000")
    for answer in (await ada_calls.get(f"/keys/{bobs}"), await ada_calls.delete(f"/keys/{bobs}")):
        assert (answer.status, answer.content) == (404, unknown.content)


async def test_anybody_reports_a_leaked_key_so_often(anybody, ada_calls, settings, monkeypatch):
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
