"""A task that asks for a credential, as programs see it."""

import asyncio
import json
from contextlib import aclosing

import pytest
from django.test import AsyncClient

from apps.agents.models import Agent
from apps.features.credentials.models import Credential
from tests.a2a.calling import message
from tests.a2a.conftest import hosted
from tests.a2a.old_calling import said

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "k-5f1d2a90-secret"

calendar = hosted("calendar", "tests.engine.agents:Calendar", access=Agent.Access.PUBLIC)


@pytest.fixture
async def asked(worker, calendar, ada_at):
    return (await ada_at("calendar").send(message("open it", contextId="mine"))).result["task"]


def link_of(task):
    return "/credentials/" + task["status"]["message"]["metadata"]["url"].rpartition("/")[2]


async def give(link, user=None):
    browser = AsyncClient()
    if user is not None:
        await browser.aforce_login(user)
    return await browser.post(link, {"answer": "give", "secret": SECRET})


def status_of(event):
    return (event.get("task") or event.get("statusUpdate") or {}).get("status")


async def test_a_send_returns_with_the_link_and_so_does_a_look_later(asked, ada_at, bob_at):
    assert asked["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"
    metadata = asked["status"]["message"]["metadata"]
    assert (metadata["service"], metadata["auth_type"]) == ("calendar", "api_key")
    assert metadata["url"].endswith(link_of(asked))
    assert (await ada_at("calendar").call("GetTask", {"id": asked["id"]})).result["status"] == asked["status"]
    assert (await bob_at("calendar").call("GetTask", {"id": asked["id"]})).code == -32001


async def test_everybody_who_follows_sees_it_go_on_to_the_end_and_nowhere_the_secret(worker, calendar, ada, ada_at):
    async with aclosing(ada_at("calendar").stream("SendStreamingMessage", {"message": message("open it")})) as events:
        seen = []
        while not seen or status_of(seen[-1])["state"] != "TASK_STATE_AUTH_REQUIRED":
            seen.append((await anext(events))[1])
        task = {"id": seen[0]["task"]["id"], "status": status_of(seen[-1])}
        following = ada_at("calendar").stream("SubscribeToTask", {"id": task["id"]})
        assert (await anext(following))[1]["task"]["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"
        assert (await give(link_of(task), ada)).status_code == 302
        async with asyncio.timeout(60):
            rest = [event async for _, event in events]
            assert [event async for _, event in following] == rest
    states = [status_of(event)["state"] for event in rest if status_of(event)]
    assert states == ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]
    again = ada_at("calendar").stream("SubscribeToTask", {"id": task["id"]}, {"Last-Event-ID": "1"})
    assert SECRET not in json.dumps([seen, rest, [event async for event in again]])


async def test_no_message_is_taken_meanwhile_and_the_refusal_has_the_link(asked, ada_at, ada_rests):
    words = message(f"my key is {SECRET}", taskId=asked["id"])
    refused = await ada_at("calendar").send(words)
    assert (refused.code, refused.reason) == (-32004, "UNSUPPORTED_OPERATION")
    assert link_of(asked) in refused.error["message"]
    rest = await ada_rests("calendar").ask("POST", "message:send", {"message": words})
    assert rest.status == 400
    assert link_of(asked) in rest.error["message"]
    task = (await ada_at("calendar").call("GetTask", {"id": asked["id"]})).result
    assert SECRET not in json.dumps(task)
    assert task["status"] == asked["status"]


async def test_a_caller_without_a_name_gives_it_by_the_link_alone(worker, calendar, anybody_at):
    nobody = anybody_at("calendar")
    asked = (await nobody.send(message("open it"))).result["task"]
    async with aclosing(nobody.stream("SubscribeToTask", {"id": asked["id"]})) as following:
        await anext(following)
        assert (await give(link_of(asked))).status_code == 302
        states = [event["statusUpdate"]["status"]["state"] async for _, event in following if "statusUpdate" in event]
    assert states[-1] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("how", ["cleared", "canceled"])
async def test_clearing_the_conversation_and_a_cancel_void_the_link(asked, ada, ada_at, how):
    if how == "cleared":
        assert (await ada_at("calendar").call("contexts/clear", {"contextId": "mine"})).result == {}
        assert (await give(link_of(asked), ada)).status_code == 404
    else:
        await ada_at("calendar").call("CancelTask", {"id": asked["id"]})
        assert (await give(link_of(asked), ada)).status_code == 302, "to the page that says so"
    assert not await Credential.objects.aexists()


async def test_clients_of_the_old_version_are_told_the_same(worker, calendar, ada, old_at):
    task = (await old_at("calendar").send(said("open it"))).result
    assert task["status"]["state"] == "auth-required"
    assert task["status"]["message"]["metadata"]["service"] == "calendar"
    refused = await old_at("calendar").send(said(SECRET, taskId=task["id"]))
    assert link_of(task) in refused.error["message"]
    assert (await give(link_of(task), ada)).status_code == 302
