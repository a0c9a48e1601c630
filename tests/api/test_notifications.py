"""Notifications by the client API."""

import pytest

import db
from apps.accounts.models import ApiKey, User
from apps.accounts.principals import WRITE
from apps.agents.models import Agent
from apps.features.notifications.models import Channel, Notification
from tests.api.calling import JSON, Caller
from tests.members import signed_in
from tests.web import telling

HOOK: JSON = {"type": "webhook", "name": "Mine", "url": "https://192.0.43.8/hook"}  # it is not called


async def test_a_channel_is_added_chosen_for_and_removed_and_its_secrets_are_shown_once(
    ada: User, ada_calls: Caller, echo: Agent
) -> None:
    made = (await ada_calls.post("/notifications/channels", HOOK)).body
    assert made.pop("secret").startswith("whsec_")
    assert made["kinds"] == ["ended", "failed", "asks"]
    address = f"/notifications/channels/{made['id']}"
    assert (await ada_calls.get(address)).body == made
    chosen = {"kinds": ["asks"], "agents": [{"agent": "echo", "kinds": []}]}
    answer = await ada_calls.put("/notifications", {"choices": [{"channel": made["id"], **chosen}]})
    [shown] = answer.body["channels"]
    assert shown == {**made, **chosen}
    assert HOOK["url"].encode() not in answer.content
    assert (await ada_calls.get("/notifications")).body == answer.body
    assert [one["id"] for one in (await ada_calls.get("/notifications/channels")).body["items"]] == [made["id"]]
    assert (await ada_calls.patch(address, {"isOn": False})).body["isOn"] is False
    assert (await ada_calls.post(f"{address}/rotate")).body["secret"].startswith("whsec_")
    assert (await ada_calls.post("/notifications/secret")).body["secret"].startswith("whsec_")
    assert (await ada_calls.delete(address)).status == 204
    assert (await ada_calls.get(address)).status == 404


async def test_what_was_sent_is_listed_with_its_state(ada: User, ada_calls: Caller, echo: Agent) -> None:
    await ada_calls.post("/notifications/channels", HOOK)
    failed = await db.run(lambda: telling.failed(signed_in(ada), echo))
    await db.run(lambda: Notification.objects.update(state="failed", reason="It is away."))
    [row] = (await ada_calls.get("/notifications/deliveries")).body["items"]
    assert (row["kind"], row["state"], row["reason"]) == ("failed", "failed", "It is away.")
    assert row["sessionId"] == str(failed.context)


async def test_a_test_says_what_happened(ada_calls: Caller) -> None:
    made = (await ada_calls.post("/notifications/channels", HOOK)).body
    await db.run(lambda: _move(made["id"], "http://127.0.0.1:9/"))  # forbidden by the time it is called
    tested = (await ada_calls.post(f"/notifications/channels/{made['id']}/test")).body
    assert (tested["isSent"], tested["status"]) == (False, None)
    assert tested["detail"]


def _move(channel: str, url: str) -> None:
    Channel.objects.filter(pk=channel).update(url=url)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"type": "pigeon"}, "type"),
        ({"url": "http://192.0.43.8/"}, "url"),
        ({"url": "https://10.0.0.1/"}, "url"),
        ({"url": ""}, "url"),
        ({"type": "mail", "url": ""}, "type"),
        ({"type": "push", "keys": {"p256dh": "AA", "auth": "AA"}}, "keys"),
        ({"kinds": ["everything"]}, "kinds"),
        ({"agents": [{"agent": "nobody", "kinds": []}]}, "agents"),
    ],
)
async def test_a_wrong_channel_is_refused_by_field(ada_calls: Caller, wrong: JSON, field: str) -> None:
    answer = await ada_calls.post("/notifications/channels", {**HOOK, **wrong})
    assert answer.status == 422
    assert answer.fields[0].startswith(field)


async def test_a_key_that_reads_nothing_or_some_agents_alone_makes_no_channel(
    transactional_db: None, ada: User, echo: Agent
) -> None:
    for limits in ({"scopes": [WRITE]}, {"agents": ["echo"]}):
        key = (await db.run(lambda limits=limits: ApiKey.issue(ada, "k", **limits)))[1]
        assert (await Caller(key).post("/notifications/channels", HOOK)).code == "forbidden"
    assert not await Channel.objects.aexists()
