"""At every address, others find nothing of Ada's, and read-only keys change nothing."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.api.uploads import PIECE
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
NARROWED = ("/artifacts?session=", "/tasks?session=", "/events?session_ids[]=", "/search?q=a&session=")
NOBODY = {"slug": "nobody", "workspace": 987654321, "member": 987654321}
FOR_NOBODY = ("/events", "/agents", "/agents/echo", "/agents/search")
LISTS = ("/sessions?archived=all", "/tasks", "/plans", "/plans/runs", "/plans/questions", "/search?q=hello")


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
    ids |= {"workspace": ada.membership.workspace_id, "member": ada.pk}
    return {**ids, "artifact": "one", "run": done.run, "plans": {"run": plan}, "queue": of_queue}


async def test_somebody_else_finds_nothing(ada_calls: Caller, bob_calls: Caller, anybody: Caller, ids: JSON) -> None:
    before = await Event.objects.acount()
    nowhere: JSON = {name: str(uuid.uuid4()) for name in ids if name not in ("plans", "queue")} | NOBODY
    nothing = list(addresses({**nowhere, "queue": {}}))
    assert len(nothing) > 40
    for (name, method, path), (_, _, elsewhere) in zip(addresses(ids), nothing, strict=True):
        theirs = await ask(bob_calls, name, method, path)
        assert (theirs.status, theirs.code) == (404, "not_found"), (method, path)
        assert theirs.body == (await ask(bob_calls, name, method, elsewhere)).body, (method, path)
        assert (await ask(anybody, name, method, path)).code == "unauthenticated", (method, path)
    for path in NARROWED:
        assert (await bob_calls.get(f"{path}{ids['session']}")).code == "not_found", path
        assert (await anybody.get(f"{path}{ids['session']}")).status == 401, path
    assert (await bob_calls.get(f"/plans/questions?run={ids['plans']['run']}")).code == "not_found"
    for path in LISTS:
        assert (await bob_calls.get(path)).body["items"] == [], path
        assert (await anybody.get(path)).status == 401, path
    for path in FOR_NOBODY:
        assert (await anybody.get(path)).status == 401, path
    assert (await ada_calls.get(f"/uploads/{ids['key']}")).body["offset"] == 0
    assert await Event.objects.acount() == before


async def test_who_may_only_read_changes_nothing(reads: Caller, ids: JSON) -> None:
    before = await Event.objects.acount()
    for name, method, path in addresses(ids):
        needs_more = method != "GET" or name.startswith("keys_")  # keys have a scope of their own
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
