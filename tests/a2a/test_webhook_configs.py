"""Webhooks by A2A 1.0 and 0.3, and in admin: created, shown with masked secrets, and refused."""

import asyncio
import socket

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.urls import reverse

from apps.a2a.models import Delivery, PushConfig
from apps.a2a.webhooks import MASK
from apps.accounts.models import User
from apps.conversations.sessions import deletion
from apps.engine import accept
from apps.record.models import Context
from apps.record.reading import lookup
from parley import db, outbound
from parley.outbound import Guard
from tests.a2a.calling import message
from tests.chosen_rows import act
from tests.work.hand import published_keys

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


async def test_webhook_is_replaced_by_its_id(hooks, task, begun):
    made = (await hooks("Create", taskId=task, id="mine", url=HOOK, token="a")).result
    assert made == {"id": "mine", "taskId": task, "url": HOOK, "token": MASK}
    again = (await hooks("Create", taskId=task, id="mine", url=HOOK + "2")).result
    assert again == {"id": "mine", "taskId": task, "url": HOOK + "2"}
    assert (await hooks("List", taskId=task)).result == {"configs": [again], "nextPageToken": ""}
    other = await begun()
    assert (await hooks("Create", taskId=other, id="mine", url=HOOK)).result["taskId"] == other
    given = {(await hooks("Create", taskId=task, url=HOOK)).result["id"] for _ in range(2)}
    pages = [(await hooks("List", taskId=task, pageSize=2)).result]
    pages.append((await hooks("List", taskId=task, pageSize=2, pageToken=pages[0]["nextPageToken"])).result)
    assert sorted(one["id"] for page in pages for one in page["configs"]) == sorted({"mine", *given})
    assert [len(page["configs"]) for page in pages] == [2, 1]
    assert pages[1]["nextPageToken"] == ""


async def test_secrets_are_masked_and_encrypted_at_rest(hooks, task):
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


async def test_cleared_conversation_gets_no_webhook(ada, echo, hooks, task, monkeypatch):
    def find_and_clear(*args, find=lookup.find_agent_task):
        found = find(*args)
        deletion.delete_context(ada.principal, echo, found.context.context_id)
        return found

    monkeypatch.setattr(lookup, "find_agent_task", find_and_clear)
    assert (await hooks("Create", taskId=task, url=HOOK)).code == -32001


async def test_task_has_a_limit_of_webhooks(hooks, task, settings):
    settings.MAX_WEBHOOKS = 2
    answers = await asyncio.gather(*(hooks("Create", taskId=task, id=name, url=HOOK) for name in "abcd"))
    assert sorted("error" in answer.body for answer in answers) == [False, False, True, True]
    refused = next(answer for answer in answers if "error" in answer.body)
    assert (refused.code, refused.fields, "at most 2" in refused.error["message"]) == (-32602, ["taskId"], True)
    known = next(answer.result["id"] for answer in answers if "result" in answer.body)
    assert "result" in (await hooks("Create", taskId=task, id=known, url=HOOK)).body


async def test_private_addresses_are_not_saved(hooks, task, ada_at, monkeypatch, settings):
    async def resolve(name, port):
        if name != "inside.example.com":
            raise socket.gaierror
        return ["8.8.8.8", "10.0.0.1"]

    with monkeypatch.context() as patched:
        patched.setattr(outbound, "_guard", Guard(resolve=resolve))
        refused = await hooks("Create", taskId=task, url="https://inside.example.com/")
        assert (refused.code, refused.fields) == (-32602, ["url"])
        inline = {"taskPushNotificationConfig": {"url": "https://inside.example.com/"}}
        refused = await ada_at("echo").send(message(contextId="new"), **inline)
        assert (refused.code, refused.fields) == (-32602, ["configuration.taskPushNotificationConfig.url"])
        assert not await db.run(Context.objects.filter(context_id="new").exists)
        nowhere_yet = await hooks("Create", taskId=task, id="a", url="https://nowhere.example.com/")
        assert "result" in nowhere_yet.body
    outbound.configure(["127.0.0.1:11434"])
    try:
        for name in ("hook.localhost:8000", "db.internal"):
            assert (await hooks("Create", taskId=task, url=f"http://{name}/hook")).code == -32602, name
            said = message(parts=[{"url": f"http://{name}/file.txt"}])
            assert (await ada_at("echo").send(said)).code == -32602, name
    finally:
        outbound.configure(settings.OUTBOUND_ALLOW)
    assert await db.run(PushConfig.objects.count) == 1


DELIVERIES = "admin:a2a_delivery_changelist"


@pytest.fixture
def hook(ada, echo):
    secrets = {"token": "canary-token", "scheme": "Bearer", "credentials": "canary-credentials"}
    task = accept.accept(ada.principal, echo, message()).task
    return PushConfig.objects.create(task_id=task, config_id="mine", url="https://hooks.example.com/in", **secrets)


@pytest.fixture
def dead(hook):
    ended = {"state": Delivery.State.DEAD, "attempts": 30, "last_error": "nobody answered"}
    return Delivery.objects.create(config=hook, event_index=1, **ended)


@pytest.fixture
def waiting(hook):
    return Delivery.objects.create(config=hook, event_index=2)


def send_again(client, *deliveries):
    return act(client, Delivery, "send_again_selected", *deliveries)


def test_admin_shows_webhooks_without_secrets(admin_client, hook, dead, waiting):
    pages = {
        reverse("admin:a2a_pushconfig_changelist"): "hooks.example.com",
        reverse("admin:a2a_pushconfig_change", args=[hook.pk]): "Bearer",
        reverse(DELIVERIES): "hooks.example.com",
        reverse("admin:a2a_delivery_change", args=[dead.pk]): "nobody answered",
    }
    for page, words in pages.items():
        content = admin_client.get(page).content.decode()
        assert (words in content, "canary" in content, "enc:" in content) == (True, False, False)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE a2a_pushconfig SET token = 'garbage', credentials = 'garbage'")
    assert {admin_client.get(page).status_code for page in pages} == {200}


def test_operators_resend_dead_deliveries_alone(admin_client, client, hook, dead, waiting, monkeypatch):
    published = published_keys(monkeypatch)
    viewer = User.objects.create_user("eve@example.org", "a long password", is_staff=True)
    viewer.user_permissions.add(*Permission.objects.filter(codename__in=["view_delivery", "view_pushconfig"]))
    client.force_login(viewer)
    assert client.get(reverse(DELIVERIES)).status_code == 200
    send_again(client, dead)
    dead.refresh_from_db()
    assert dead.state == "dead", "who may only look sends nothing"
    answer = send_again(admin_client, dead, waiting)
    assert "1 done, 1 skipped" in " ".join(str(message) for message in answer.context["messages"])
    dead.refresh_from_db()
    hook.refresh_from_db()
    assert (dead.state, dead.attempts, hook.due_at is None) == ("waiting", 0, False)
    assert published == [hook.pk]


async def test_inline_webhook_comes_once(begun, hooks, ada_at, greeting):
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


async def method(calls, word, **params):
    return await calls.call(f"tasks/pushNotificationConfig/{word}", params)


async def test_old_webhooks_are_the_same_in_both_forms(old_at, old_rests, task):
    assert (await method(old_at("echo"), "get", id=task)).code == -32001
    for url in (HOOK, "https://others.invalid/hook"):
        made = (await method(old_at("echo"), "set", taskId=task, pushNotificationConfig={"url": url})).result
        assert made["pushNotificationConfig"] == {"id": task, "url": url}, "it needs no id"
        assert (await method(old_at("echo"), "get", id=task)).result == made
    assert (await method(old_at("echo"), "list", id=task)).result == [made]
    name = f"tasks/{task}/pushNotificationConfigs/mine"
    asked = {"token": "canary", "authentication": {"schemes": ["Bearer", "Basic"], "credentials": "canary"}}
    masked = {"token": MASK, "authentication": {"schemes": ["Bearer"], "credentials": MASK}}
    config = {"name": name, "pushNotificationConfig": {"id": "mine", "url": HOOK} | asked}
    shown = {"name": name, "pushNotificationConfig": {"id": "mine", "url": HOOK} | masked}
    for body in (config, {"parent": f"tasks/{task}", "configId": "mine", "config": config}):
        assert (await old_rests("echo").ask("POST", f"v1/tasks/{task}/pushNotificationConfigs", body)).body == shown
    by_rpc = (await method(old_at("echo"), "get", id=task, pushNotificationConfigId="mine")).result
    assert by_rpc == {"taskId": task, "pushNotificationConfig": shown["pushNotificationConfig"]}
