"""Two users, every operation, every field that names something: the other's is as if it had never been.

A new operation needs a row in NAMING; one that names nothing has an empty one.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.test import AsyncClient
from django.urls import reverse

import bridge
from apps.a2a.operations import OPERATIONS, OWN_METHODS
from apps.conversations.models import Context, Event, Message, Task
from tests.a2a.calling import message
from tests.nonces import without_nonces

pytestmark = pytest.mark.django_db(transaction=True)

Ids = dict[str, str]
"""What there is to be named: a task, a context, a messageId and page tokens."""


@dataclass
class Naming:
    """A field of an operation that names something.

    Attributes:
        params: with the ids of what is named.
        refuses: the error's code; None where the other's id is simply free to be used.
    """

    params: Callable[[Ids], Any]
    refuses: int | None = -32001
    headers: dict[str, str] = field(default_factory=dict)


def sending(**fields: str) -> Callable[[Ids], Any]:
    """A message whose fields name things."""

    def params(ids: Ids) -> Any:
        named = {name: ids[what] for name, what in fields.items()}
        if "referenceTaskIds" in named:
            named["referenceTaskIds"] = [named["referenceTaskIds"]]
        return {"message": message("mine", **named)}

    return params


SENDING = {
    "taskId": Naming(sending(taskId="task")),
    "taskId and contextId": Naming(sending(taskId="task", contextId="context")),
    "contextId": Naming(sending(contextId="context"), refuses=None),
    "messageId": Naming(sending(messageId="message"), refuses=None),
    "referenceTaskIds": Naming(sending(referenceTaskIds="task"), refuses=None),
}
NAMING: dict[str, dict[str, Naming]] = {
    "SendMessage": SENDING,
    "SendStreamingMessage": SENDING,
    "GetTask": {"id": Naming(lambda ids: {"id": ids["task"]})},
    "ListTasks": {
        "contextId": Naming(lambda ids: {"contextId": ids["context"]}, refuses=None),
        "pageToken": Naming(lambda ids: {"pageSize": 1, "pageToken": ids["page"]}, refuses=-32602),
    },
    "CancelTask": {"id": Naming(lambda ids: {"id": ids["task"]})},
    "SubscribeToTask": {
        "id": Naming(lambda ids: {"id": ids["task"]}),
        "Last-Event-ID": Naming(lambda ids: {"id": ids["task"]}, headers={"Last-Event-ID": "1"}),
    },
    "CreateTaskPushNotificationConfig": {
        "taskId": Naming(lambda ids: {"taskId": ids["task"], "url": "https://example.com/hook"})
    },
    "GetTaskPushNotificationConfig": {"taskId": Naming(lambda ids: {"taskId": ids["task"], "id": "hook"})},
    "ListTaskPushNotificationConfigs": {"taskId": Naming(lambda ids: {"taskId": ids["task"]})},
    "DeleteTaskPushNotificationConfig": {"taskId": Naming(lambda ids: {"taskId": ids["task"], "id": "hook"})},
    "GetExtendedAgentCard": {},
    "tasks/feedback": {"taskId": Naming(lambda ids: {"taskId": ids["task"], "rating": 1})},
    "contexts/list": {"pageToken": Naming(lambda ids: {"pageToken": ids["contexts page"]}, refuses=-32602)},
    "contexts/clear": {"contextId": Naming(lambda ids: {"contextId": ids["context"]}, refuses=-32602)},
}
CASES = [(operation, name) for operation, names in NAMING.items() for name in names]
REFUSED = [case for case in CASES if NAMING[case[0]][case[1]].refuses is not None]


def test_every_operation_has_its_row():
    assert NAMING.keys() == OPERATIONS.keys() | OWN_METHODS.keys()


@pytest.fixture
async def adas(worker, ada_at, echo):
    """What Ada has: two finished tasks in conversations of their own, one of which the ids name."""
    caller = ada_at("echo")
    said = message("secret", contextId="hers")
    task = (await caller.send(said)).result["task"]
    await caller.send(message("more", contextId="also hers"))
    return {
        "task": task["id"],
        "context": "hers",
        "message": said["messageId"],
        "page": (await caller.call("ListTasks", {"pageSize": 1})).result["nextPageToken"],
        "contexts page": (await caller.call("contexts/list", {"pageSize": 1})).result["nextPageToken"],
    }


@pytest.fixture
def nobodys():
    """The same of what never was."""
    names = ("context", "message", "page", "contexts page")
    return {"task": str(uuid.uuid4()), **{name: f"never {name}" for name in names}}


def everything_of(owner):
    """All that the record holds of somebody."""
    contexts = Context.objects.filter(owner=owner)
    return (
        list(contexts.order_by("pk").values_list("pk", "context_id", "last_event", "deleted_at")),
        list(Task.objects.filter(owner=owner).order_by("pk").values_list("pk", "state", "references")),
        list(Message.objects.filter(context__in=contexts).order_by("pk").values_list("pk", "parts")),
        list(Event.objects.filter(context__in=contexts).order_by("pk").values_list("pk", "type")),
    )


@pytest.mark.parametrize(("operation", "name"), REFUSED)
async def test_what_is_somebody_elses_is_refused_like_what_never_was(operation, name, adas, nobodys, ada, bob_at):
    before = await bridge.run(everything_of, ada)
    naming = NAMING[operation][name]
    theirs, never = [
        await bob_at("echo").call(operation, naming.params(ids), naming.headers) for ids in (adas, nobodys)
    ]
    assert theirs.status == never.status
    assert theirs.body == never.body
    if "PushNotification" not in operation:
        assert theirs.code == naming.refuses
    assert await bridge.run(everything_of, ada) == before


@pytest.mark.parametrize("operation", ["SendMessage", "SendStreamingMessage"])
@pytest.mark.parametrize("name", [name for name, naming in SENDING.items() if naming.refuses is None])
async def test_what_somebody_else_uses_is_free_to_be_used(operation, name, adas, ada, bob, bob_at):
    before = await bridge.run(everything_of, ada)
    params = SENDING[name].params(adas)
    if operation == "SendMessage":
        sent = (await bob_at("echo").call(operation, params)).result["task"]
    else:
        responses = [response async for _, response in bob_at("echo").stream(operation, params)]
        sent = responses[0]["task"]
    shown = (await bob_at("echo").call("GetTask", {"id": sent["id"]})).result
    assert "secret" not in str(shown)
    row = await bridge.run(Task.objects.get, pk=sent["id"])
    assert (row.owner_id, row.references) == (bob.pk, [])
    assert await bridge.run(everything_of, ada) == before


async def test_a_list_by_somebody_elses_context_is_that_of_one_that_never_was(adas, nobodys, bob_at):
    listed = [await bob_at("echo").call("ListTasks", {"contextId": ids["context"]}) for ids in (adas, nobodys)]
    assert listed[0].body == listed[1].body
    assert listed[0].result["tasks"] == []


async def test_a_download_from_somebody_elses_conversation_is_not_found(worker, ada_at, ada_key, bob_key, echo):
    await ada_at("echo").send(message(parts=[{"raw": "AAAA" * 100_000, "filename": "secret.bin"}], contextId="hers"))
    [part] = (await bridge.run(Message.objects.get, role="user")).parts
    context = await bridge.run(Context.objects.get, context_id="hers")
    digest = part["stored"]["sha256"]

    async def got(key, *args):
        response = await AsyncClient().get(reverse("file", args=args), headers={"Authorization": f"Bearer {key}"})
        return response.status_code, None if response.streaming else without_nonces(response.content)

    assert (await got(ada_key, context.pk, digest))[0] == 200
    never = await got(bob_key, uuid.uuid4(), digest)
    assert never[0] == 404
    assert await got(bob_key, context.pk, digest) == never
    assert await got(ada_key, context.pk, "0" * 64) == never
