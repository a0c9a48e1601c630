"""Every operation by every binding and version: the table in docs/reference/conformance.md."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from a2a.types import a2a_pb2 as a2a

from apps.a2a.operations import OPERATIONS
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.record.models import Task
from parley import db
from tests.a2a.agents import steps
from tests.a2a.calling import JSON, message, strictly_parsed, text_of
from tests.conformance.speaking import SPEAKERS, UNKNOWN, Speaker
from tests.engine.delegating import until

pytestmark = pytest.mark.django_db(transaction=True)

TABLE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "conformance.md"

NOT_THERE = {("ListTasks", "JSON-RPC 0.3"), ("ListTasks", "HTTP+JSON 0.3")}
"""Operations that a version does not have."""

Proof = Callable[[Speaker], Awaitable[None]]
PROOFS: dict[str, Proof] = {}


def proves(*operations: str) -> Callable[[Any], Any]:
    """Marks a test of these operations; the agent's tasks wait for the test."""

    def register(proof: Any) -> Any:
        PROOFS.update(
            {operation: lambda speaker, operation=operation: proof(speaker, operation) for operation in operations}
        )
        return proof

    return register


async def begun(speaker: Speaker) -> JSON:
    params = {"message": message("1"), "configuration": {"returnImmediately": True}}
    return (await speaker.ask("SendMessage", params)).result["task"]


def state_of(task: JSON) -> str:
    return task["status"]["state"].removeprefix("TASK_STATE_")


@proves("SendMessage")
async def send(speaker: Speaker, operation: str) -> None:
    steps.allow(10)
    told = await speaker.ask(operation, {"message": message("2")})
    strictly_parsed(told.result, a2a.SendMessageResponse)
    assert state_of(told.result["task"]) == "COMPLETED"
    assert text_of(told.result["task"]["artifacts"][0])
    assert (await speaker.ask(operation, {"message": message(taskId=told.result["task"]["id"])})).reason


@proves("SendStreamingMessage")
async def stream(speaker: Speaker, operation: str) -> None:
    steps.allow(10)
    first, *updates = await speaker.follow(operation, {"message": message("2")})
    assert state_of(first["task"]) == "SUBMITTED"
    assert any("artifactUpdate" in update for update in updates)
    assert state_of(updates[-1]["statusUpdate"]) == "COMPLETED"


@proves("GetTask")
async def get(speaker: Speaker, operation: str) -> None:
    task = await begun(speaker)
    told = await speaker.ask(operation, {"id": task["id"], "historyLength": 1})
    strictly_parsed(told.result, a2a.Task)
    assert told.result["id"] == task["id"]
    assert (await speaker.ask(operation, {"id": "nothing"})).reason == "TASK_NOT_FOUND"


@proves("ListTasks")
async def list_tasks(speaker: Speaker, operation: str) -> None:
    steps.allow(9)
    # Ended ones, because a change between two pages moves a task to the front.
    made = [(await speaker.ask("SendMessage", {"message": message("1")})).result["task"]["id"] for _ in range(3)]
    first = (await speaker.ask(operation, {"pageSize": 2})).result
    strictly_parsed(first, a2a.ListTasksResponse)
    rest = (await speaker.ask(operation, {"pageSize": 2, "pageToken": first["nextPageToken"]})).result
    assert {task["id"] for task in first["tasks"] + rest["tasks"]} == set(made)
    assert (first["totalSize"], rest["nextPageToken"]) == (3, "")


@proves("CancelTask")
async def cancel(speaker: Speaker, operation: str) -> None:
    task = await begun(speaker)
    told = await speaker.ask(operation, {"id": task["id"]})
    strictly_parsed(told.result, a2a.Task)
    assert state_of(told.result) == "CANCELED"
    assert (await speaker.ask(operation, {"id": "nothing"})).reason == "TASK_NOT_FOUND"


@proves("SubscribeToTask")
async def subscribe(speaker: Speaker, operation: str) -> None:
    task = await begun(speaker)
    first, *updates = await speaker.follow(operation, {"id": task["id"]}, begun=lambda: steps.allow(10))
    assert first["task"]["id"] == task["id"]
    assert state_of(updates[-1]["statusUpdate"]) == "COMPLETED"
    assert (await speaker.ask(operation, {"id": task["id"]})).reason == "UNSUPPORTED_OPERATION"


HOOK = {"url": "https://hooks.invalid/a", "token": "secret", "authentication": {"scheme": "Basic", "credentials": "s"}}


async def hooked(speaker: Speaker) -> JSON:
    """The webhook of an ended task, which is never called."""
    steps.allow(10)
    task = (await speaker.ask("SendMessage", {"message": message("1")})).result["task"]
    params = {"taskId": task["id"], "id": "c"} | HOOK
    return (await speaker.ask("CreateTaskPushNotificationConfig", params)).result


@proves("CreateTaskPushNotificationConfig")
async def create_webhook(speaker: Speaker, operation: str) -> None:
    made = await hooked(speaker)
    strictly_parsed(made, a2a.TaskPushNotificationConfig)
    assert (made["id"], made["url"]) == ("c", HOOK["url"])
    assert "secret" not in str(made)
    inside = {"taskId": made["taskId"], "id": "d", "url": "http://127.0.0.1/"}
    assert not (await speaker.ask(operation, inside)).result


@proves("GetTaskPushNotificationConfig")
async def get_webhook(speaker: Speaker, operation: str) -> None:
    made = await hooked(speaker)
    assert (await speaker.ask(operation, {"taskId": made["taskId"], "id": "c"})).result == made
    assert (await speaker.ask(operation, {"taskId": made["taskId"], "id": "d"})).reason == "TASK_NOT_FOUND"


@proves("ListTaskPushNotificationConfigs")
async def list_webhooks(speaker: Speaker, operation: str) -> None:
    made = await hooked(speaker)
    assert (await speaker.ask(operation, {"taskId": made["taskId"]})).result["configs"] == [made]


@proves("DeleteTaskPushNotificationConfig")
async def delete_webhook(speaker: Speaker, operation: str) -> None:
    made = await hooked(speaker)
    for _ in range(2):
        assert not (await speaker.ask(operation, {"taskId": made["taskId"], "id": "c"})).reason
    assert not (await speaker.ask("ListTaskPushNotificationConfigs", {"taskId": made["taskId"]})).result.get("configs")


@proves("GetExtendedAgentCard")
async def extended_card(speaker: Speaker, operation: str) -> None:
    assert (await speaker.ask(operation, {})).reason == "UNSUPPORTED_OPERATION"
    skill = {"id": "more", "name": "More", "description": "For known callers.", "tags": ["hidden"]}
    await Agent.objects.filter(slug=operation.lower()).aupdate(extended_card={"skills": [skill]})
    told = await speaker.ask(operation, {})
    assert (told.result["name"], told.result["skills"][-1]["id"]) == ("Stepping", "more")


@pytest.mark.parametrize("binding", SPEAKERS)
async def test_operation(worker, ada_key, binding, subtests):
    """Each has its own agent, whose tasks go on after its proof."""
    for operation in OPERATIONS:
        with subtests.test(operation):
            steps.reset()
            slug = operation.lower()
            await db.run(register_hosted, slug, "tests.a2a.agents:Stepping")
            speaker = SPEAKERS[binding](slug, ada_key)
            if (operation, binding) in NOT_THERE:
                assert (await speaker.ask(operation, {})).reason == UNKNOWN
            else:
                await PROOFS[operation](speaker)
            await until(lambda: steps.allow(100) or not Task.objects.unfinished().exists())


def test_the_table_is_what_is_proved():
    section = TABLE.read_text()
    head, *_ = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    assert [cell.strip() for cell in head[1:]] == list(SPEAKERS)
    assert [re.sub("[` ]", "", row[0]) for row in rows] == list(OPERATIONS)
    assert all(cell.strip() for row in rows for cell in row[1:])
