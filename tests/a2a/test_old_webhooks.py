"""Webhooks made by A2A 0.3 receive the whole task."""

import uuid

import pytest
from a2a.compat.v0_3 import types as old

import db
import outbound
from apps.a2a.models import PushConfig
from apps.a2a.webhooks import MASK
from tests.a2a.calling import text_of
from tests.a2a.old_calling import said, strictly_read, told
from tests.a2a.receiving import receiver

pytestmark = pytest.mark.django_db(transaction=True)

HOOK = "https://hooks.invalid/hook"
SECRETS = {"token": "canary", "authentication": {"schemes": ["Bearer", "Basic"], "credentials": "canary"}}
MASKED = {"token": MASK, "authentication": {"schemes": ["Bearer"], "credentials": MASK}}


@pytest.fixture
def calls(old_at):
    return old_at("echo")


@pytest.fixture
def rests(old_rests):
    return old_rests("echo")


@pytest.fixture
async def task(calls, echo):
    return (await calls.send(said(), blocking=False)).result["id"]


async def method(calls, word, **params):
    return await calls.call(f"tasks/pushNotificationConfig/{word}", params)


async def test_a_webhook_is_set_shown_and_deleted(calls, task):
    config = {"id": "mine", "url": HOOK}
    made = (await method(calls, "set", taskId=task, pushNotificationConfig=config | SECRETS)).result
    assert made == {"taskId": task, "pushNotificationConfig": config | MASKED}
    assert (await method(calls, "get", id=task, pushNotificationConfigId="mine")).result == made
    assert (await method(calls, "list", id=task)).result == [made]
    for _ in range(2):
        deleted = await method(calls, "delete", id=task, pushNotificationConfigId="mine")
        assert deleted.body == {"jsonrpc": "2.0", "id": "1", "result": None}
    assert (await method(calls, "list", id=task)).result == []
    assert (await method(calls, "get", id=task, pushNotificationConfigId="mine")).code == -32001


async def test_the_webhook_of_a_task_needs_no_id(calls, task):
    assert (await method(calls, "get", id=task)).code == -32001
    for url in (HOOK, "https://others.invalid/hook"):
        made = (await method(calls, "set", taskId=task, pushNotificationConfig={"url": url})).result
        assert made["pushNotificationConfig"] == {"id": task, "url": url}
        assert (await method(calls, "list", id=task)).result == [made]
        assert (await method(calls, "get", id=task)).result == made


async def test_a_webhook_over_http_is_the_same_webhook(calls, rests, task):
    address = f"v1/tasks/{task}/pushNotificationConfigs"
    name = f"tasks/{task}/pushNotificationConfigs/mine"
    config = {"name": name, "pushNotificationConfig": {"id": "mine", "url": HOOK} | SECRETS}
    shown = {"name": name, "pushNotificationConfig": {"id": "mine", "url": HOOK} | MASKED}
    for body in (config, {"parent": f"tasks/{task}", "configId": "mine", "config": config}):
        assert (await rests.ask("POST", address, body)).body == shown
    assert (await rests.ask("GET", f"{address}/mine")).body == shown
    assert (await rests.ask("GET", address)).body == {"configs": [shown]}
    by_rpc = (await method(calls, "get", id=task, pushNotificationConfigId="mine")).result
    assert by_rpc["pushNotificationConfig"] == shown["pushNotificationConfig"]
    gone = await rests.ask("DELETE", f"{address}/mine")
    assert (gone.status, gone.body) == (200, {})
    assert (await rests.ask("GET", f"{address}/mine")).status == 404


def authenticated(schemes):
    return {"taskId": "a", "pushNotificationConfig": {"url": HOOK, "authentication": {"schemes": schemes}}}


SCHEMES = "pushNotificationConfig.authentication.schemes"
WRONG = (
    ("set", {"pushNotificationConfig": {"url": HOOK}}, "taskId"),
    ("set", {"taskId": "a"}, "pushNotificationConfig"),
    ("set", {"taskId": "a", "pushNotificationConfig": {}}, "pushNotificationConfig.url"),
    ("set", {"taskId": "a", "pushNotificationConfig": {"url": "http://127.0.0.1/"}}, "pushNotificationConfig.url"),
    ("set", authenticated(["a b"]), SCHEMES),
    ("set", authenticated("Bearer"), SCHEMES),
    ("get", {"pushNotificationConfigId": "a"}, "id"),
    ("get", {}, "id"),
    ("get", {"id": "a", "pushNotificationConfigId": "a\n"}, "pushNotificationConfigId"),
    ("list", {}, "id"),
    ("delete", {"id": "a"}, "pushNotificationConfigId"),
)


async def test_what_is_wrong_is_refused_by_its_name(calls, rests, echo, subtests):
    for word, params, field in WRONG:
        with subtests.test(f"{word} {params}"):
            answer = await method(calls, word, **params)
            assert (answer.code, answer.fields) == (-32602, [field])
    wrong = {"url": "http://localhost/"}
    answer = await calls.send(said(), pushNotificationConfig=wrong)
    assert (answer.code, answer.fields) == (-32602, ["configuration.pushNotificationConfig.url"])
    body = {"message": told(), "configuration": {"pushNotification": wrong}}
    over_http = await rests.ask("POST", "v1/message:send", body)
    assert (over_http.status, over_http.fields) == (400, ["configuration.pushNotification.url"])
    assert not await db.run(PushConfig.objects.exists)


async def test_webhooks_of_a_task_that_is_not_there_are_not_found(calls, old_at, echo, quiet):
    missing = str(uuid.uuid4())
    for word, params in (
        ("set", {"taskId": missing, "pushNotificationConfig": {"url": HOOK}}),
        ("get", {"id": missing}),
        ("list", {"id": missing}),
        ("delete", {"id": missing, "pushNotificationConfigId": "a"}),
    ):
        assert (await method(calls, word, **params)).code == -32001
    assert (await method(old_at("quiet"), "list", id="a")).code == -32003


@pytest.fixture
async def hook():
    """A receiver of 0.3 tasks."""
    outbound.configure(["127.0.0.1"])
    async with receiver() as built:
        yield built
    outbound.configure([])


async def test_a_webhook_is_called_with_the_task_as_it_stood(worker, calls, hook, echo):
    config = {"url": hook.url, "token": "t", "authentication": {"schemes": ["Bearer"], "credentials": "c"}}
    task = (await calls.send(said("hi"), pushNotificationConfig=config)).result
    heard = await hook.have_heard("completed")
    assert (heard[0].what, heard[-1].what) == ("working", "completed")
    for call in heard:
        headers = {name.lower(): value for name, value in call.headers.items()}
        assert headers["content-type"] == "application/json"
        assert headers["x-a2a-notification-token"] == "t"
        assert headers["authorization"] == "Bearer c"
        assert call.body["id"] == task["id"]
        strictly_read(call.body, old.Task)
    assert heard[0].body["artifacts"] == []
    assert heard[-1].body == task
    assert text_of(heard[-1].body["artifacts"][0]) == "hi"
