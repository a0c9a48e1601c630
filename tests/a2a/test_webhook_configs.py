"""Webhooks are created, shown with masked secrets, and deleted by the task's owner."""

import asyncio
import socket

import pytest
from django.db import connection

import db
import outbound
from apps.a2a.models import Delivery, PushConfig
from apps.a2a.webhooks import MASK
from apps.features.sessions import deletion
from apps.record import lookup
from apps.record.models import Context, Event, Task
from outbound import Guard
from tests.a2a.calling import message
from tests.emptying import remove

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("webhooks are kept under a lock")]
HOOK = "https://hooks.invalid/hook"
SECRETS = {"token": "canary-token", "authentication": {"scheme": "Bearer", "credentials": "canary-credentials"}}


@pytest.fixture
def hooks(ada_at, echo):
    """Calls the webhook operations by their first word."""

    async def call(word, **params):
        name = "ListTaskPushNotificationConfigs" if word == "List" else f"{word}TaskPushNotificationConfig"
        return await ada_at("echo").call(name, params)

    return call


@pytest.fixture
def begun(ada_at, echo):
    """Makes a task without a worker; returns its id."""

    async def begin(said=None, **configuration):
        sent = await ada_at("echo").send(said or message(), returnImmediately=True, **configuration)
        return sent.result["task"]["id"]

    return begin


@pytest.fixture
async def task(begun):
    return await begun()


async def test_a_webhook_is_made_and_shown_and_one_with_its_id_takes_its_place(hooks, task, begun):
    made = (await hooks("Create", taskId=task, id="mine", url=HOOK, token="a")).result
    assert made == {"id": "mine", "taskId": task, "url": HOOK, "token": MASK}
    assert (await hooks("Get", taskId=task, id="mine")).result == made
    assert (await hooks("List", taskId=task)).result == {"configs": [made], "nextPageToken": ""}
    again = (await hooks("Create", taskId=task, id="mine", url=HOOK + "2")).result
    assert again == {"id": "mine", "taskId": task, "url": HOOK + "2"}
    assert (await hooks("List", taskId=task)).result["configs"] == [again]
    assert (await hooks("Get", taskId=task, id="none")).code == -32001
    other = await begun()
    assert (await hooks("Create", taskId=other, id="mine", url=HOOK)).result["taskId"] == other
    given = [(await hooks("Create", taskId=task, url=HOOK)).result["id"] for _ in range(2)]
    assert all(given)
    assert len({*given, "mine"}) == await db.run(PushConfig.objects.filter(task=task).count) == 3


async def test_secrets_are_masked_in_every_answer_and_encrypted_at_rest(hooks, task):
    made = await hooks("Create", taskId=task, id="mine", url=HOOK, **SECRETS)
    shown = [made, await hooks("Get", taskId=task, id="mine"), await hooks("List", taskId=task)]
    assert "canary" not in str([answer.body for answer in shown])
    assert made.result["token"] == MASK
    assert made.result["authentication"] == {"scheme": "Bearer", "credentials": MASK}

    def stored():
        with connection.cursor() as cursor:
            cursor.execute("SELECT token, credentials FROM a2a_pushconfig")
            return cursor.fetchall()

    [(token, credentials)] = await db.run(stored)
    assert "canary" not in token + credentials
    config = await db.run(PushConfig.objects.get)
    assert (config.token, config.credentials) == ("canary-token", "canary-credentials")


async def test_a_secret_that_no_header_takes_is_refused(hooks, task):
    for secret in (" canary", "canary ", " "):
        refused = await hooks("Create", taskId=task, url=HOOK, token=secret)
        assert (refused.code, refused.fields) == (-32602, ["token"])
        authentication = {"scheme": "Bearer", "credentials": secret}
        refused = await hooks("Create", taskId=task, url=HOOK, authentication=authentication)
        assert (refused.code, refused.fields) == (-32602, ["authentication.credentials"])
    assert await db.run(PushConfig.objects.count) == 0


async def test_a_conversation_that_is_cleared_at_this_very_moment_gets_no_webhook(ada, echo, hooks, task, monkeypatch):
    def find_and_clear(*args, find=lookup.find_agent_task):
        found = find(*args)
        deletion.delete_context(ada.principal, echo, found.context.context_id)
        return found

    monkeypatch.setattr(lookup, "find_agent_task", find_and_clear)
    assert (await hooks("Create", taskId=task, url=HOOK)).code == -32001


async def test_webhooks_come_page_by_page(hooks, task):
    for name in "cab":
        await hooks("Create", taskId=task, id=name, url=HOOK)
    first = (await hooks("List", taskId=task, pageSize=2)).result
    assert [one["id"] for one in first["configs"]] == ["a", "b"]
    rest = (await hooks("List", taskId=task, pageSize=2, pageToken=first["nextPageToken"])).result
    assert [one["id"] for one in rest["configs"]] == ["c"]
    assert rest["nextPageToken"] == ""


async def test_deleting_is_idempotent_and_takes_what_waits_along(hooks, task):
    for name in ("mine", "other"):
        await hooks("Create", taskId=task, id=name, url=HOOK)
    config = await db.run(PushConfig.objects.get, config_id="mine")
    await db.run(Delivery.objects.create, config=config, event_index=1)
    for _ in range(2):
        assert (await hooks("Delete", taskId=task, id="mine")).result == {}
    assert [one["id"] for one in (await hooks("List", taskId=task)).result["configs"]] == ["other"]
    assert await db.run(Delivery.objects.count) == 0
    await db.run(lambda: remove(Event.objects.filter(context__tasks=task)))
    await db.run(lambda: Context.objects.get(tasks=task).delete())
    assert await db.run(Task.objects.count) == await db.run(PushConfig.objects.count) == 0


async def test_a_context_is_watched_from_its_first_webhook_on(worker, hooks, task, ada_at):
    def is_watched():
        return Context.objects.get(tasks=task).is_watched

    assert not await db.run(is_watched)
    await hooks("Create", taskId=task, url=HOOK)
    assert await db.run(is_watched)
    done = (await ada_at("echo").send(message())).result["task"]["id"]
    assert (await hooks("Create", taskId=done, url=HOOK)).result["taskId"] == done, "a finished task may get one"


async def test_a_task_has_so_many_webhooks_and_no_more(hooks, task, settings):
    settings.MAX_WEBHOOKS = 2
    answers = await asyncio.gather(*(hooks("Create", taskId=task, id=name, url=HOOK) for name in "abcd"))
    assert sorted("error" in answer.body for answer in answers) == [False, False, True, True]
    refused = next(answer for answer in answers if "error" in answer.body)
    assert (refused.code, refused.fields) == (-32602, ["taskId"])
    assert "at most 2" in refused.error["message"]
    known = next(answer.result["id"] for answer in answers if "result" in answer.body)
    assert "result" in (await hooks("Create", taskId=task, id=known, url=HOOK)).body


async def test_a_name_that_leads_inside_is_refused_and_one_that_leads_nowhere_yet_is_taken(
    hooks, task, ada_at, monkeypatch
):
    async def resolve(name, port):
        if name != "inside.example.com":
            raise socket.gaierror
        return ["8.8.8.8", "10.0.0.1"]

    monkeypatch.setattr(outbound, "_guard", Guard(resolve=resolve))
    refused = await hooks("Create", taskId=task, url="https://inside.example.com/")
    assert (refused.code, refused.fields) == (-32602, ["url"])
    inline = {"taskPushNotificationConfig": {"url": "https://inside.example.com/"}}
    refused = await ada_at("echo").send(message(contextId="new"), **inline)
    assert (refused.code, refused.fields) == (-32602, ["configuration.taskPushNotificationConfig.url"])
    assert not await db.run(Context.objects.filter(context_id="new").exists)
    assert "result" in (await hooks("Create", taskId=task, url="https://nowhere.example.com/")).body


async def test_a_webhook_comes_once_with_the_message_that_opens_its_task(begun, hooks, ada_at, greeting):
    same = message()
    inline = {"id": "mine", "url": HOOK, "token": "secret", "authentication": {"scheme": "Basic"}}
    task, again = [await begun(same, taskPushNotificationConfig=inline) for _ in range(2)]
    assert task == again
    shown = {"id": "mine", "taskId": task, "url": HOOK, "token": MASK, "authentication": {"scheme": "Basic"}}
    assert (await hooks("Get", taskId=task, id="mine")).result == shown
    unnamed = message()
    for _ in range(2):
        await begun(unnamed, taskPushNotificationConfig={"url": HOOK})
    sent = await ada_at("greeting").send(message(), taskPushNotificationConfig={"url": HOOK})
    assert "message" in sent.result, "an answer that is no task leaves no webhook"
    assert await db.run(PushConfig.objects.count) == 2


async def test_an_address_that_every_call_would_refuse_is_not_saved_though_something_private_is_open(
    hooks, task, ada_at, settings
):
    outbound.configure(["127.0.0.1:11434"])
    try:
        for name in ("foo.localhost", "hook.localhost:8000", "nas.local", "db.internal", "nas.home.arpa", "redis"):
            assert (await hooks("Create", taskId=task, id="a", url=f"http://{name}/hook")).code == -32602, name
            said = message(parts=[{"url": f"http://{name}/file.txt"}])
            assert (await ada_at("echo").send(said)).code == -32602, name
    finally:
        outbound.configure(settings.OUTBOUND_ALLOW)
    assert not await db.run(PushConfig.objects.exists)
