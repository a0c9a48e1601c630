"""Webhooks are made, shown with their secrets masked, and deleted by the owner of their task."""

import asyncio
import socket

import pytest
from django.db import connection

import bridge
import outbound
from apps.a2a.models import Delivery, PushConfig
from apps.a2a.webhooks.configs import MASK
from apps.accounts.models import ApiKey
from apps.conversations import addressing, clearing
from apps.conversations.models import Context, Task
from outbound import Guard
from tests.a2a.calling import Caller, message
from tests.outbound.forbidden import BY_THEMSELVES

pytestmark = pytest.mark.django_db(transaction=True)
HOOK = "https://hooks.invalid/hook"


@pytest.fixture
def hooks(ada_at, echo):
    """Calls the operations on webhooks by their first word."""

    async def call(word, **params):
        name = "ListTaskPushNotificationConfigs" if word == "List" else f"{word}TaskPushNotificationConfig"
        return await ada_at("echo").call(name, params)

    return call


@pytest.fixture
async def task(ada_at, echo):
    """The id of a task that nobody works on."""
    return (await ada_at("echo").send(message(), returnImmediately=True)).result["task"]["id"]


async def test_a_webhook_is_made_and_shown(hooks, task):
    made = (await hooks("Create", taskId=task, id="mine", url=HOOK)).result
    assert made == {"id": "mine", "taskId": task, "url": HOOK}
    assert (await hooks("Get", taskId=task, id="mine")).result == made
    assert (await hooks("List", taskId=task)).result == {"configs": [made], "nextPageToken": ""}


async def test_a_webhook_without_an_id_gets_one(hooks, task):
    first, second = [(await hooks("Create", taskId=task, url=HOOK)).result["id"] for _ in range(2)]
    assert first
    assert first != second


async def test_secrets_are_masked_in_every_answer(hooks, task):
    secrets = {"token": "canary-token", "authentication": {"scheme": "Bearer", "credentials": "canary-credentials"}}
    made = await hooks("Create", taskId=task, id="mine", url=HOOK, **secrets)
    shown = [made, await hooks("Get", taskId=task, id="mine"), await hooks("List", taskId=task)]
    assert "canary" not in str([answer.body for answer in shown])
    assert made.result["token"] == MASK
    assert made.result["authentication"] == {"scheme": "Bearer", "credentials": MASK}


async def test_secrets_are_encrypted_at_rest(hooks, task):
    secrets = {"token": "canary-token", "authentication": {"scheme": "Bearer", "credentials": "canary-credentials"}}
    await hooks("Create", taskId=task, id="mine", url=HOOK, **secrets)

    def stored():
        with connection.cursor() as cursor:
            cursor.execute("SELECT token, credentials FROM a2a_pushconfig")
            return cursor.fetchall()

    [(token, credentials)] = await bridge.run(stored)
    assert "canary" not in token + credentials
    config = await bridge.run(PushConfig.objects.get)
    assert (config.token, config.credentials) == ("canary-token", "canary-credentials")


@pytest.mark.parametrize("secret", [" canary", "canary ", " "])
async def test_a_secret_that_no_header_takes_is_refused(hooks, task, secret):
    refused = await hooks("Create", taskId=task, url=HOOK, token=secret)
    assert (refused.code, refused.fields) == (-32602, ["token"])
    refused = await hooks("Create", taskId=task, url=HOOK, authentication={"scheme": "Bearer", "credentials": secret})
    assert (refused.code, refused.fields) == (-32602, ["authentication.credentials"])
    assert await bridge.run(PushConfig.objects.count) == 0


async def test_a_conversation_that_is_cleared_at_this_very_moment_gets_no_webhook(ada, echo, hooks, task, monkeypatch):
    def find_and_clear(*args, find=addressing.find_task):
        found = find(*args)
        clearing.clear(ada.principal, echo, found.context.context_id)
        return found

    monkeypatch.setattr(addressing, "find_task", find_and_clear)
    assert (await hooks("Create", taskId=task, url=HOOK)).code == -32001


async def test_one_with_the_same_id_takes_the_others_place(hooks, task):
    await hooks("Create", taskId=task, id="mine", url=HOOK, token="a")
    again = (await hooks("Create", taskId=task, id="mine", url=HOOK + "2")).result
    assert (await hooks("List", taskId=task)).result["configs"] == [again]
    assert again == {"id": "mine", "taskId": task, "url": HOOK + "2"}


async def test_an_id_is_unique_within_its_task_alone(hooks, task, ada_at):
    other = (await ada_at("echo").send(message(), returnImmediately=True)).result["task"]["id"]
    for one in (task, other):
        assert (await hooks("Create", taskId=one, id="mine", url=HOOK)).result["taskId"] == one
    assert await bridge.run(PushConfig.objects.count) == 2


async def test_webhooks_come_page_by_page(hooks, task):
    for name in "cab":
        await hooks("Create", taskId=task, id=name, url=HOOK)
    first = (await hooks("List", taskId=task, pageSize=2)).result
    assert [one["id"] for one in first["configs"]] == ["a", "b"]
    rest = (await hooks("List", taskId=task, pageSize=2, pageToken=first["nextPageToken"])).result
    assert [one["id"] for one in rest["configs"]] == ["c"]
    assert rest["nextPageToken"] == ""


async def test_an_unknown_webhook_is_not_found(hooks, task):
    assert (await hooks("Get", taskId=task, id="none")).code == -32001


async def test_deleting_is_idempotent_and_takes_what_waits_along(hooks, task):
    await hooks("Create", taskId=task, id="mine", url=HOOK)
    await hooks("Create", taskId=task, id="other", url=HOOK)
    config = await bridge.run(PushConfig.objects.get, config_id="mine")
    await bridge.run(Delivery.objects.create, config=config, event_index=1)
    for _ in range(2):
        assert (await hooks("Delete", taskId=task, id="mine")).result == {}
    assert [one["id"] for one in (await hooks("List", taskId=task)).result["configs"]] == ["other"]
    assert await bridge.run(Delivery.objects.count) == 0


async def test_a_context_is_watched_from_its_first_webhook_on(hooks, task):
    def is_watched():
        return Context.objects.get(tasks=task).is_watched

    assert not await bridge.run(is_watched)
    await hooks("Create", taskId=task, url=HOOK)
    assert await bridge.run(is_watched)


async def test_a_finished_task_may_get_a_webhook(worker, hooks, ada_at):
    task = (await ada_at("echo").send(message())).result["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert (await hooks("Create", taskId=task["id"], url=HOOK)).result["taskId"] == task["id"]


async def test_a_task_has_so_many_webhooks_and_no_more(hooks, task, settings):
    settings.MAX_WEBHOOKS = 2
    answers = await asyncio.gather(*(hooks("Create", taskId=task, id=name, url=HOOK) for name in "abcd"))
    assert sorted("error" in answer.body for answer in answers) == [False, False, True, True]
    refused = next(answer for answer in answers if "error" in answer.body)
    assert (refused.code, refused.fields) == (-32602, ["taskId"])
    assert "at most 2" in refused.error["message"]
    known = next(answer.result["id"] for answer in answers if "result" in answer.body)
    assert "result" in (await hooks("Create", taskId=task, id=known, url=HOOK)).body


async def test_no_forbidden_url_is_kept(hooks, task, subtests):
    for what, url in BY_THEMSELVES.items():
        with subtests.test(what):
            refused = await hooks("Create", taskId=task, url=url)
            assert (refused.code, refused.fields) == (-32602, ["url"])
    assert await bridge.run(PushConfig.objects.count) == 0


@pytest.fixture
def names(monkeypatch):
    """Lets a test say where names lead."""
    leading = {}

    async def resolve(name, port):
        if name not in leading:
            raise socket.gaierror
        return leading[name]

    monkeypatch.setattr(outbound, "_guard", Guard(resolve=resolve))
    return leading


async def test_a_name_that_leads_inside_is_refused_and_one_that_leads_nowhere_yet_is_taken(hooks, task, names, ada_at):
    names["inside.example.com"] = ["8.8.8.8", "10.0.0.1"]
    refused = await hooks("Create", taskId=task, url="https://inside.example.com/")
    assert (refused.code, refused.fields) == (-32602, ["url"])
    inline = {"taskPushNotificationConfig": {"url": "https://inside.example.com/"}}
    refused = await ada_at("echo").send(message(contextId="new"), **inline)
    assert (refused.code, refused.fields) == (-32602, ["configuration.taskPushNotificationConfig.url"])
    assert not await bridge.run(Context.objects.filter(context_id="new").exists)
    assert "result" in (await hooks("Create", taskId=task, url="https://nowhere.example.com/")).body


async def test_a_key_for_reading_makes_and_deletes_none(ada, task, echo):
    _, key = await bridge.run(ApiKey.issue, ada, "reader", scopes=["tasks:read"])
    reading = Caller("echo", key)
    about = {"taskId": task, "id": "a", "url": HOOK}
    assert (await reading.call("CreateTaskPushNotificationConfig", about)).status == 403
    assert (await reading.call("DeleteTaskPushNotificationConfig", about)).status == 403
    assert (await reading.call("ListTaskPushNotificationConfigs", about)).result["configs"] == []


async def test_a_webhook_comes_with_the_message_that_opens_its_task(ada_at, echo, hooks):
    inline = {"id": "mine", "url": HOOK, "token": "secret", "authentication": {"scheme": "Basic"}}
    sent = await ada_at("echo").send(message(), returnImmediately=True, taskPushNotificationConfig=inline)
    task = sent.result["task"]["id"]
    shown = (await hooks("Get", taskId=task, id="mine")).result
    assert shown == {"id": "mine", "taskId": task, "url": HOOK, "token": MASK, "authentication": {"scheme": "Basic"}}


async def test_a_repeated_message_brings_no_second_webhook(ada_at, echo):
    same = message()
    for _ in range(2):
        await ada_at("echo").send(same, returnImmediately=True, taskPushNotificationConfig={"url": HOOK})
    assert await bridge.run(PushConfig.objects.count) == 1


async def test_an_answer_that_is_no_task_leaves_no_webhook(ada_at, greeting):
    sent = await ada_at("greeting").send(message(), taskPushNotificationConfig={"url": HOOK})
    assert "message" in sent.result
    assert await bridge.run(PushConfig.objects.count) == 0


async def test_a_webhook_goes_with_its_task(hooks, task):
    await hooks("Create", taskId=task, url=HOOK)
    await bridge.run(lambda: Context.objects.get(tasks=task).delete())
    assert await bridge.run(Task.objects.count) == await bridge.run(PushConfig.objects.count) == 0
