"""At every address, read-only keys change nothing."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

import db
from apps.accounts.models import User
from apps.agents.models import Agent
from apps.api.uploads import PIECE
from apps.automation import incoming
from apps.automation.models import IncomingWebhook
from apps.plans.definitions import PlanDefinition
from apps.plans.registry import register_plan
from apps.record.models import Event
from tests.api import promises
from tests.api.calling import JSON, Answer, Caller
from tests.api.delivering import Making

pytestmark = pytest.mark.django_db(transaction=True)

PLAN = {"name": "P", "description": "P.", "steps": {"one": {"agent": "echo", "message": "x"}}}
BODIES: dict[str, Any] = {
    "approvals_decide": {"asked": 1, "decision": "approve"},
    "messages_create": {"text": "a"},
    "messages_edit": {"text": "a"},
    "plans_runs_again": {},
    "notification_channels_update": {"name": "Theirs"},
    "schedules_update": {"name": "Theirs"},
    "incoming_webhooks_update": {"name": "Theirs"},
    "plans_update": {"definition": {**PLAN, "name": "Theirs"}},
    "queue_add": {"text": "a"},
    "queue_update": {"text": "a"},
    "sessions_choose_leaf": {"leafId": str(uuid.uuid4())},
    "sessions_fork": {},
    "sessions_mark": {"pinned": True},
    "sessions_update": {"title": "Theirs"},
    "shares_create": {},
    "tasks_answer": {"text": "a"},
    "tasks_feedback": {"rating": 1},
    "uploads_append": b"x",
}


def addresses(ids: JSON) -> Iterator[tuple[str, str, str]]:
    """All operations with an id: name, method and address."""
    for path, verbs in promises.schema()["paths"].items():
        if "{" in path and "/shared/" not in path and "/agents/" not in path:
            kind = path.removeprefix("/api/v1/").partition("/")[0]
            known = {**ids, **ids.get(kind, {}), **(ids["queue"] if "/queue/" in path else {})}
            for method, operation in verbs.items():
                yield operation["operationId"], method.upper(), path.removeprefix("/api/v1").format(**known)


async def ask(caller: Caller, name: str, method: str, path: str) -> Answer:
    headers = {"content-type": PIECE, "upload-offset": "0"} if name == "uploads_append" else {}
    return await caller.ask(method, path, BODIES.get(name), headers)


@pytest.fixture
def _plan(echo: Agent, ada: User) -> Agent:
    return register_plan("mine", PlanDefinition.read(PLAN), author=ada)


@pytest.fixture
async def ids(ada_calls: Caller, made: Making, _plan: Agent, ada: User) -> JSON:
    done, asked = await made.delivered(), await made.asking()
    address = f"/sessions/{done.context}"
    waits = (await ada_calls.post(f"/sessions/{asked.context}/queue", {"text": "later"})).body["items"][0]["id"]
    said = (await ada_calls.get(f"{address}/messages")).body["items"][0]["id"]
    share = (await ada_calls.post(f"{address}/shares", {})).body["id"]
    upload = (await ada_calls.post("/uploads", {"filename": "a", "size": 2})).body["id"]
    plan = (await ada_calls.post("/plans/runs", {"plan": "mine"})).body["run"]["id"]
    ids = {"session": done.context, "message": said, "share": share, "slug": "mine", "key": upload, "task": done.task}
    of_queue = {"session": asked.context, "message": waits}
    daily = {"name": "Daily", "agent": "echo", "text": "a", "kind": "cron", "cron": "0 9 * * *"}
    ids["export"] = (await ada_calls.post("/exports")).body["id"]
    ids["schedule"] = (await ada_calls.post("/schedules", daily)).body["id"]
    hook = {"name": "Events", "agent": "echo", "scheme": "bearer"}
    ids["webhook"] = (await ada_calls.post("/webhooks", hook)).body["id"]
    received = await db.run(incoming.receive, await IncomingWebhook.objects.aget(), {}, {})
    ids["event"] = str(received.pk)
    hook = {"type": "webhook", "url": "https://192.0.43.8/"}  # it is not called
    ids["channel"] = (await ada_calls.post("/notifications/channels", hook)).body["id"]
    ids |= {"workspace": ada.membership.workspace_id, "member": ada.pk}
    return {**ids, "artifact": "one", "run": done.run, "plans": {"run": plan}, "queue": of_queue}


async def test_who_may_only_read_changes_nothing(reads: Caller, ids: JSON) -> None:
    before = await Event.objects.acount()
    for name, method, path in addresses(ids):
        needs_more = method != "GET" or name.startswith(("keys_", "exports_"))  # these ask for further scopes
        assert ((await ask(reads, name, method, path)).status == 403) == needs_more, (method, path)
    creating = {
        "/sessions": {"agent": "echo"},
        "/plans": {"slug": "a", "definition": PLAN},
        "/plans/runs": {"plan": "mine"},
    }
    for path, body in {**creating, "/uploads": {"filename": "a", "size": 1}}.items():
        assert (await reads.post(path, body)).code == "forbidden", path
    assert (await reads.post("/plans/check", {"definition": PLAN})).status == 200
    assert await Event.objects.acount() == before
