"""For every operation and field that names something, another user's object does not exist.

A new operation needs a row in NAMING, which may be empty.
"""

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.test import AsyncClient
from django.urls import reverse

import db
from apps.a2a.operations import EXTENSION_METHODS, OPERATIONS
from apps.record.models import Context, Event, Message, Task
from tests.a2a.calling import message
from tests.nonces import without_nonces

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("PostgreSQL reads tasks by SQL of its own", only=True),
]

Ids = dict[str, str]
"""What there is to be named: tasks, a context, a messageId and page tokens."""


@dataclass
class Naming:
    """A field of an operation that names something.

    Attributes:
        params: with the ids.
        refuses: the error's code; None if another user's id is free for use.
    """

    params: Callable[[Ids], Any]
    refuses: int | None = -32001
    headers: dict[str, str] = field(default_factory=dict)


def sending(**fields: str) -> Callable[[Ids], Any]:
    def params(ids: Ids) -> Any:
        named = {name: [ids[what]] if name == "referenceTaskIds" else ids[what] for name, what in fields.items()}
        return {"message": message("mine", **named)}

    return params


HOOK = {"id": "hook", "url": "https://hooks.invalid/hook"}
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
    "CreateTaskPushNotificationConfig": {"taskId": Naming(lambda ids: {"taskId": ids["task"]} | HOOK)},
    "GetTaskPushNotificationConfig": {"taskId": Naming(lambda ids: {"taskId": ids["task"], "id": "hook"})},
    "ListTaskPushNotificationConfigs": {"taskId": Naming(lambda ids: {"taskId": ids["task"]})},
    "DeleteTaskPushNotificationConfig": {"taskId": Naming(lambda ids: {"taskId": ids["task"], "id": "hook"})},
    "GetExtendedAgentCard": {},
    "tasks/feedback": {"taskId": Naming(lambda ids: {"taskId": ids["task"], "rating": 1})},
    "contexts/list": {"pageToken": Naming(lambda ids: {"pageToken": ids["contexts page"]}, refuses=-32602)},
    "contexts/clear": {"contextId": Naming(lambda ids: {"contextId": ids["context"]}, refuses=-32602)},
}
CASES = [(operation, name, naming) for operation, names in NAMING.items() for name, naming in names.items()]


@pytest.fixture
async def adas(worker, ada_at, echo):
    """Ada's ids: two ended tasks in separate conversations; one has a webhook."""
    caller = ada_at("echo")
    said = message("secret", contextId="hers")
    task = (await caller.send(said)).result["task"]
    await caller.call("CreateTaskPushNotificationConfig", {"taskId": task["id"]} | HOOK)
    await caller.send(message("more", contextId="also hers"))
    return {
        "task": task["id"],
        "context": "hers",
        "message": said["messageId"],
        "page": (await caller.call("ListTasks", {"pageSize": 1})).result["nextPageToken"],
        "contexts page": (await caller.call("contexts/list", {"pageSize": 1})).result["nextPageToken"],
    }


@pytest.fixture
async def adas_open(worker, ada_at, asking):
    return (await ada_at("asking").send(message("hi"))).result["task"]["id"]


@pytest.fixture
def nobodys():
    """Ids of nothing."""
    names = ("context", "message", "page", "contexts page")
    return {"task": str(uuid.uuid4()), **{name: f"never {name}" for name in names}}


def everything_of(owner):
    """All of a person's data in the record."""
    contexts = Context.objects.filter(owner=owner)
    return (
        list(contexts.order_by("pk").values_list("pk", "context_id", "last_event", "deleted_at")),
        list(Task.objects.filter(owner=owner).order_by("pk").values_list("pk", "state", "references")),
        list(Task.objects.filter(owner=owner).order_by("pk").values_list("push_configs__url", "push_configs__token")),
        list(Message.objects.filter(context__in=contexts).order_by("pk").values_list("pk", "parts")),
        list(Event.objects.filter(context__in=contexts).order_by("pk").values_list("pk", "type")),
    )


async def test_what_is_somebody_elses_is_refused_like_what_never_was(adas, adas_open, nobodys, ada, bob_at, subtests):
    assert NAMING.keys() == OPERATIONS.keys() | EXTENSION_METHODS.keys()
    before = await db.run(everything_of, ada)
    for operation, name, naming in [case for case in CASES if case[2].refuses is not None]:
        for slug, there in (("echo", adas), ("asking", adas | {"task": adas_open})):
            with subtests.test(f"{operation}: {name} at {slug}"):
                theirs, never = [
                    await bob_at(slug).call(operation, naming.params(ids), naming.headers) for ids in (there, nobodys)
                ]
                assert (theirs.status, theirs.body) == (never.status, never.body)
                assert theirs.code == naming.refuses
    assert await db.run(everything_of, ada) == before


async def test_what_somebody_else_uses_is_free_to_be_used(adas, ada, bob, bob_at, subtests):
    before = await db.run(everything_of, ada)
    for name, naming in SENDING.items():
        for operation in ("SendMessage", "SendStreamingMessage") if naming.refuses is None else ():
            with subtests.test(f"{operation}: {name}"):
                params = naming.params(adas)
                if operation == "SendMessage":
                    sent = (await bob_at("echo").call(operation, params)).result["task"]
                else:
                    responses = [response async for _, response in bob_at("echo").stream(operation, params)]
                    sent = responses[0]["task"]
                shown = (await bob_at("echo").call("GetTask", {"id": sent["id"]})).result
                assert "secret" not in str(shown)
                row = await db.run(Task.objects.get, pk=sent["id"])
                assert row.owner_id == bob.pk
                assert adas["task"] not in row.references
    assert await db.run(everything_of, ada) == before


async def test_lists_have_nothing_of_other_callers_contexts_and_agents(adas, adas_open, nobodys, ada_at, bob_at):
    listed = [await bob_at("echo").call("ListTasks", {"contextId": ids["context"]}) for ids in (adas, nobodys)]
    assert listed[0].body == listed[1].body
    assert listed[0].result == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}
    assert (await bob_at("echo").call("ListTasks", {})).result["tasks"] == []
    assert (await ada_at("asking").call("GetTask", {"id": adas["task"]})).code == -32001
    assert [task["id"] for task in (await ada_at("asking").call("ListTasks", {})).result["tasks"]] == [adas_open]


async def test_a_download_from_somebody_elses_conversation_is_not_found(worker, ada_at, ada_key, bob_key, echo):
    await ada_at("echo").send(message(parts=[{"raw": "AAAA" * 100_000, "filename": "secret.bin"}], contextId="hers"))
    [part] = (await db.run(Message.objects.get, role="user")).parts
    context = await db.run(Context.objects.get, context_id="hers")
    digest = part["stored"]["sha256"]

    async def got(key, *args):
        response = await AsyncClient().get(reverse("file", args=args), headers={"Authorization": f"Bearer {key}"})
        return response.status_code, None if response.streaming else without_nonces(response.content)

    assert (await got(ada_key, context.pk, digest))[0] == 200
    never = await got(bob_key, uuid.uuid4(), digest)
    assert never[0] == 404
    assert await got(bob_key, context.pk, digest) == never
    assert await got(ada_key, context.pk, "0" * 64) == never


async def test_anybody_reaches_a_task_at_an_open_agent_by_its_id_alone(worker, anybody_at, ada_at, public_echo):
    anybody = anybody_at("open-echo")
    task = (await anybody.send(message("hi"))).result["task"]
    assert (await anybody.call("GetTask", {"id": task["id"]})).result == task
    listed = (await anybody.call("ListTasks", {})).result
    assert listed == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}
    assert (await ada_at("open-echo").call("GetTask", {"id": task["id"]})).code == -32001


async def test_anybody_shares_neither_context_ids_nor_messages_but_goes_on_by_the_id_that_was_given(
    worker, anybody_at, public_echo
):
    anybody = anybody_at("open-echo")
    both = await asyncio.gather(*(anybody.send(message("hi", contextId="ours")) for _ in range(2)))
    assert [answer.result["task"]["contextId"] for answer in both] == ["ours", "ours"]
    assert await db.run(Context.objects.filter(context_id="ours").count) == 2
    same = message("hi")
    first, second = [(await anybody.send(same)).result["task"] for _ in range(2)]
    assert first["id"] != second["id"]
    given = first["contextId"]
    assert (await anybody.send(message("more", contextId=given))).result["task"]["contextId"] == given
    assert await db.run(Context.objects.count) == 4
