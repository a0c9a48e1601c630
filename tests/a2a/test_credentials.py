"""A task that asks for a credential, as programs see it: the link, an open stream, and no way to send a secret."""

import asyncio
import json
from contextlib import aclosing

import pytest
from django.test import AsyncClient

from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.runtime.models import Credential
from tests.a2a.calling import message
from tests.a2a.old_calling import OldCaller
from tests.a2a.resting import Resource

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "k-5f1d2a90-secret"


@pytest.fixture
def calendar(db):
    return register_hosted("calendar", "tests.runtime.agents:Calendar", access=Agent.Access.PUBLIC)


@pytest.fixture
async def asked(worker, calendar, ada_at):
    """A task of Ada's that waits."""
    return (await ada_at("calendar").send(message("open it", contextId="mine"))).result["task"]


def link_of(task):
    return "/credentials/" + task["status"]["message"]["metadata"]["url"].rpartition("/")[2]


async def give(link, user=None):
    browser = AsyncClient()
    if user is not None:
        await browser.aforce_login(user)
    return await browser.post(link, {"answer": "give", "secret": SECRET})


async def test_a_send_returns_with_the_link_and_so_does_a_look_later(asked, ada_at, bob_at):
    assert asked["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"
    metadata = asked["status"]["message"]["metadata"]
    assert (metadata["service"], metadata["auth_type"]) == ("calendar", "api_key")
    assert metadata["url"].endswith(link_of(asked))
    assert (await ada_at("calendar").call("GetTask", {"id": asked["id"]})).result["status"] == asked["status"]
    assert (await bob_at("calendar").call("GetTask", {"id": asked["id"]})).code == -32001


async def test_a_stream_stays_open_while_it_is_given_and_goes_on_to_the_end(worker, calendar, ada, ada_at):
    states = []
    sending = ada_at("calendar").stream("SendStreamingMessage", {"message": message("open it")})
    async with aclosing(sending) as events:
        async for _, event in events:
            status = (event.get("task") or event.get("statusUpdate") or {}).get("status")
            if status is None:
                continue
            states.append(status["state"].removeprefix("TASK_STATE_"))
            if states[-1] == "AUTH_REQUIRED":
                assert (await give(link_of({"status": status}), ada)).status_code == 302
    assert states[-3:] == ["AUTH_REQUIRED", "WORKING", "COMPLETED"]


async def test_everybody_who_follows_sees_it_go_on(asked, ada, ada_at):
    async def states():
        events = ada_at("calendar").stream("SubscribeToTask", {"id": asked["id"]})
        async with aclosing(events) as following:
            seen = []
            async for _, event in following:
                if status := (event.get("task") or event.get("statusUpdate") or {}).get("status"):
                    seen.append(status["state"].removeprefix("TASK_STATE_"))
                    begun.set()
            return seen

    begun = asyncio.Event()
    followers = [asyncio.create_task(states()) for _ in range(2)]
    await asyncio.wait_for(begun.wait(), 20)
    await give(link_of(asked), ada)
    for seen in await asyncio.wait_for(asyncio.gather(*followers), 20):
        assert seen[-1] == "COMPLETED"


async def test_no_message_is_taken_meanwhile_and_the_refusal_has_the_link(asked, ada_at, ada_key):
    words = message(f"my key is {SECRET}", taskId=asked["id"])
    refused = await ada_at("calendar").send(words)
    assert (refused.code, refused.reason) == (-32004, "UNSUPPORTED_OPERATION")
    assert link_of(asked) in refused.error["message"]
    rest = await Resource("calendar", ada_key).ask("POST", "message:send", {"message": words})
    assert rest.status == 400
    assert link_of(asked) in rest.error["message"]
    task = (await ada_at("calendar").call("GetTask", {"id": asked["id"]})).result
    assert SECRET not in json.dumps(task)
    assert task["status"] == asked["status"]


async def test_the_secret_is_nowhere_in_what_programs_are_told(asked, ada, ada_at):
    await give(link_of(asked), ada)
    events = ada_at("calendar").stream("SubscribeToTask", {"id": asked["id"]}, {"Last-Event-ID": "1"})
    told = [event async for _, event in events]
    assert told[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert SECRET not in json.dumps(told)


async def test_a_caller_without_a_name_gives_it_by_the_link_alone(worker, calendar, anybody_at):
    nobody = anybody_at("calendar")
    asked = (await nobody.send(message("open it"))).result["task"]
    events = nobody.stream("SubscribeToTask", {"id": asked["id"]})
    async with aclosing(events) as following:
        await anext(following)
        assert (await give(link_of(asked))).status_code == 302
        states = [event["statusUpdate"]["status"]["state"] async for _, event in following if "statusUpdate" in event]
    assert states[-1] == "TASK_STATE_COMPLETED"


async def test_clearing_the_conversation_voids_the_link(asked, ada, ada_at):
    cleared = await ada_at("calendar").call("contexts/clear", {"contextId": "mine"})
    assert cleared.result == {}
    assert (await give(link_of(asked), ada)).status_code == 404
    assert not await Credential.objects.aexists()


async def test_a_cancel_voids_the_link(asked, ada, ada_at):
    await ada_at("calendar").call("CancelTask", {"id": asked["id"]})
    assert (await give(link_of(asked), ada)).status_code == 302, "to the page that says so"
    assert not await Credential.objects.aexists()


async def test_clients_of_the_old_version_are_told_the_same(worker, calendar, ada, ada_key):
    old = OldCaller("calendar", ada_key)
    task = (await old.send({"kind": "message", "messageId": "m", "role": "user", "parts": [text("open it")]})).result
    assert task["status"]["state"] == "auth-required"
    assert task["status"]["message"]["metadata"]["service"] == "calendar"
    refused = await old.send(
        {"kind": "message", "messageId": "n", "role": "user", "parts": [text(SECRET)], "taskId": task["id"]}
    )
    assert link_of(task) in refused.error["message"]
    assert (await give(link_of(task), ada)).status_code == 302


def text(words):
    return {"kind": "text", "text": words}
