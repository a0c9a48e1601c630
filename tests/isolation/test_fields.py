"""In every field of a query or a body, what another workspace has is answered like what never was."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest

from apps.a2a.operations import OPERATIONS
from apps.accounts.requests.authentication import WORKSPACE_HEADER
from tests.isolation import features
from tests.isolation.addresses import Address, ids_of, made_up
from tests.isolation.asking import Answer, Caller, strangers
from tests.isolation.doors import MCP, DoorField, ask_door, door_fields
from tests.isolation.fields import PLACES, Field, a2a_fields, openapi_fields, put
from tests.isolation.test_addresses import BODIES, PLAN, check
from tests.isolation.world import World

FIELDS = openapi_fields()
METHODS = a2a_fields()
AT_DOORS = door_fields()
MORE_BODIES: dict[str, Any] = {
    "POST /api/v1/imports": {"agent": "echo", "uploadId": "00000000-0000-0000-0000-000000000001"},
    "POST /api/v1/deployments": {"slug": "ours", "uploadId": "00000000-0000-0000-0000-000000000001"},
    "POST /api/v1/keys": {"name": "k", "scopes": ["tasks:read"]},
    "POST /api/v1/notifications/channels": {"type": "webhook", "url": "https://192.0.43.8/"},
    "PATCH /api/v1/notifications/channels/{channel}": {"agents": [{"kinds": ["asks"]}]},
    "POST /api/v1/collections/{collection}/sources": {"filename": "a"},
    "POST /api/v1/projects/{project}/files": {},
    "POST /api/v1/plans": {"definition": PLAN},
    "POST /api/v1/plans/check": {"definition": PLAN},
    "POST /api/v1/plans/runs": {"text": "a"},
    "POST /api/v1/schedules": {"name": "s", "agent": "echo", "text": "a", "kind": "interval", "everySeconds": 86400},
    "POST /api/v1/webhooks": {"name": "w", "scheme": "bearer"},
    "POST /api/v1/webhooks/preview": {"body": {}},
    "POST /api/v1/sessions": {"agent": "echo", "message": {"text": "a"}},
    "POST /api/v1/sessions/{session}/fork": {"title": "Ours"},
    **{f"POST /api/v1{features.address_of(one)}": features.body_of(one) for one in features.viewsets()},
}
MORE_QUERIES = {
    "GET /api/v1/artifacts": {"session": "session"},
    "GET /api/v1/search": {"q": "universe"},
    "GET /api/v1/knowledge/search": {"query": "universe"},
}
SAID = {"role": "ROLE_USER", "parts": [{"text": "a"}]}
PARAMS: dict[str, Any] = {
    "SendMessage": {"message": SAID, "configuration": {"returnImmediately": True}},
    "SendStreamingMessage": {"message": SAID},
    "CreateTaskPushNotificationConfig": {"taskId": "task of session", "url": "https://example.org/"},
    "ListTasks": {},
    "GetExtendedAgentCard": {},
    "GetTask": {"id": "task of session"},
    "CancelTask": {"id": "task of session"},
    "SubscribeToTask": {"id": "task of session"},
    "GetTaskPushNotificationConfig": {"taskId": "task of session", "id": "webhook"},
    "ListTaskPushNotificationConfigs": {"taskId": "task of session"},
    "DeleteTaskPushNotificationConfig": {"taskId": "task of session", "id": "webhook"},
}
"""Of each method, with what ours is named by."""
FRONT, ECHO = "/a2a", "/a2a/echo"
Ask = Callable[[Caller, Any, dict[str, Any], Any], Answer]
"""Asks with a field that has the value; its other fields name what is one's own."""


def test_each_field_is_described():
    unknown = [str(field) for field in (*FIELDS, *METHODS) if not field.is_known]
    assert unknown == [], "Say in tests/isolation/fields.py what each names, or that it names nothing."


def test_each_field_of_a_door_is_described():
    unknown = [str(field) for field in AT_DOORS if not field.is_known]
    assert unknown == [], "Say in tests/isolation/doors.py what each names, or that it names nothing."


def test_each_operation_of_a2a_is_asked():
    assert OPERATIONS.keys() - PARAMS.keys() == set(), "Say in PARAMS what each is asked with."


TAKEN = "POST /api/v1/plans slug"  # by another workspace, as a name of an agent may be: that is told
NOTED = ("references[]", "referenceTaskIds[]", "contextId")  # these name what is the caller's own, or are only noted
LAST = "transfer"  # afterwards somebody else owns the workspace
NAMING_AT_DOORS = [one for one in AT_DOORS if one.kind]
NAMING, NAMING_IN_A2A = ([one for one in all_of_them if one.kind] for all_of_them in (FIELDS, METHODS))


def compare(two: World, callers: list[Caller], field: Field | DoorField, ask: Ask, *, is_done: bool) -> None:
    """Each caller is told the same of theirs and of what never was, or of theirs what another is told of that."""
    theirs = ids_of(two.theirs)[field.kind or ""]
    named, ours, never = (theirs, made_up(theirs)), ids_of(two.ours), None
    for caller in callers:
        told = ask(caller, field, ours, theirs).without(named)
        if told != never:
            never = ask(caller, field, ours, named[1]).without(named)
            check(two, f"{caller.name}: {field}", told, never, is_done=is_done)


def test_lists_of_a2a_show_nothing_of_theirs(two, everybody, their_owner):
    for method, at in (("ListTasks", FRONT), ("ListTasks", ECHO), ("contexts/list", ECHO)):
        shown = [one.name for one in everybody if two.theirs.mark in call(one, method, {}, "1.0", at).body]
        assert shown == []
        assert two.theirs.mark in call(their_owner, method, {}, "1.0", at).body


def test_field_of_the_api_names_nothing_of_theirs(two, everybody, theirs_unchanged):
    for turn, field in enumerate(one for one in NAMING if str(one) != TAKEN):
        compare(two, strangers(everybody, turn), field, ask_api, is_done=field.name in NOTED)


def test_field_of_a2a_names_nothing_of_theirs(two, everybody, theirs_unchanged):
    for turn, field in enumerate(NAMING_IN_A2A):
        compare(two, strangers(everybody[:-1], turn), field, ask_a2a, is_done=field.name in NOTED)


def test_field_of_a_door_names_nothing_of_theirs(two, everybody, theirs_unchanged):
    for turn, field in enumerate(NAMING_AT_DOORS):
        is_same = SAME_AT_DOORS.search(str(field)) is not None
        compare(two, strangers(everybody[:-1], turn), field, ask_door, is_done=is_same)


UNSERVED = '"code":-32601'
ENDS_IT = re.compile("clear|delete|cancel")
"""What the owner does last, because it ends what others ask for."""
SAME_AT_DOORS = re.compile(
    "reference|message.contextId|session$|user$|threadId|conversation|pushNotificationConfig/delete pushN"
)
"""Where the owner, too, is answered alike: what is only noted, a new name of a session, and deleting what is gone."""
NEEDED_BELOW = "pushNotificationConfig/delete"  # of A2A 0.3: `DeleteTaskPushNotificationConfig` is asked at the end
LASTING_FIRST = sorted(
    [one for one in NAMING_AT_DOORS if NEEDED_BELOW not in one.method],
    key=lambda one: ENDS_IT.search(one.method) is not None,
)


def test_owner_gets_another_answer_by_a_door(two, their_owner):
    for field in LASTING_FIRST:
        answer, is_alike = answered(two, their_owner, field, ask_door)
        is_unserved = field.door == MCP and UNSERVED in answer.body
        assert is_unserved or SAME_AT_DOORS.search(str(field)) or not is_alike, f"{field}: {answer}"


def answered(two: World, their_owner: Caller, field: Any, ask: Ask) -> tuple[Answer, bool]:
    """What their owner is told of theirs, and whether it is the same as of what never was."""
    theirs = ids_of(two.theirs)[field.kind]
    named = (theirs, made_up(theirs))
    answers = [ask(their_owner, field, ids_of(two.theirs), one) for one in named]
    return answers[0], answers[0].without(named) == answers[1].without(named)


SAME_FOR_ALL = {
    "POST /api/v1/plans/check slug": "it is asked whether the plan would call itself",
    "GET /api/v1/tasks parent": "the world has no task with children; tests/conversations/api/test_tasks.py",
    "POST /api/v1/deployments uploadId": "operators alone; tests/deployments/test_api.py",
    "POST /api/v1/comparisons answerers[].agent": "two of them are needed; tests/comparing",
    "POST /api/v1/comparisons sessionId": "with two answerers; tests/comparing",
    "POST /api/v1/comparisons project": "with two answerers; tests/comparing",
    "POST /api/v1/comparisons answerId": "with two answerers; tests/comparing",
    "references[]": "noted as it was sent",
    "message.referenceTaskIds[]": "noted as it was sent",
    "message.contextId": "a new one begins a session; a2a/test_scoping.py",
    "configuration.taskPushNotificationConfig.tenant": "of the task that the message begins",
    "configuration.taskPushNotificationConfig.taskId": "of the task that the message begins",
    "DeleteTaskPushNotificationConfig id": "what is gone already is no error",
    "GET /api/v1/sessions agent": "their sessions are with an agent that is everybody's",
    "GET /api/v1/knowledge/search project": "no passage is there; tests/knowledge/test_faces.py",
    "GET /api/v1/search project": "no word is found there; tests/projects/test_projects.py",
    "GET /api/v1/search agent": "their sessions are with an agent that is everybody's",
}
"""Fields where their owner, too, is answered as if there were nothing, and why."""


def test_owner_gets_another_answer_by_a_field(two, their_owner):
    for field in sorted([*NAMING, *NAMING_IN_A2A], key=lambda one: LAST in one.operation):
        if not SAME_FOR_ALL.keys() & {str(field).replace("?", ""), field.path}:
            answer, is_alike = answered(two, their_owner, field, ask_api if field in NAMING else ask_a2a)
            assert not is_alike, f"{field}: {answer}"


def ask_api(caller: Caller, field: Field, own: dict[str, Any], value: Any) -> Answer:
    method, path = field.operation.split()
    address = Address(path.lstrip("/"), "")
    body = MORE_BODIES.get(field.operation, BODIES.get((method, address.template)))
    if field.operation == "PUT /api/v1/notifications":
        body = {"choices": [{"channel": str(own["channel"])}]}
    path = address.path({name: own[kind] for name, kind in address.kinds().items()})
    if field.where == "query":
        more = {name: own.get(one, one) for name, one in MORE_QUERIES.get(field.operation, {}).items()}
        return caller.ask(method, f"{path}?{urlencode({**more, field.path: value})}", body)
    return caller.ask(method, path, put(body, field.path, value if isinstance(value, int) else str(value)))


def ask_a2a(caller: Caller, field: Field, own: dict[str, Any], value: Any) -> Answer:
    params = {name: own.get(one, one) if isinstance(one, str) else one for name, one in PARAMS[field.operation].items()}
    return call(
        caller,
        field.operation,
        put(params, field.path, str(value)),
        "1.0",
        at=FRONT if field.path == "tenant" else ECHO,
    )


def call(caller: Caller, method: str, params: dict[str, Any], version: str, at: str = ECHO) -> Answer:
    params = {name: str(one) if isinstance(one, uuid.UUID) else one for name, one in params.items()}
    if "message" in params:
        params["message"] = {"messageId": str(uuid.uuid4()), **params["message"]}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return caller.ask("POST", at, body, **{"A2A-Version": version})


def test_their_page_tokens_lead_to_nothing_of_theirs(two, everybody, their_owner):
    for turn, field in enumerate(one for one in FIELDS if one.path in PLACES):
        place = their_next_place(field, two, their_owner)
        for caller in strangers(everybody[:-1], turn):
            answer = ask_api(caller, field, ids_of(two.ours), place)
            assert answer.status in (200, 400, 401, 403, 404, 422), (field, caller.name)
            assert two.theirs.mark not in answer.body, (field, caller.name)


def their_next_place(field: Field, two: World, their_owner: Caller) -> str:
    """A page token of their owner's list; of a list that has no second page, that of another list."""
    for path in (field.operation.split()[1], "/api/v1/sessions"):
        if "{" not in path:
            answer = their_owner.ask("GET", f"{path}?limit=1")
            found = json.loads(answer.body or "{}") if answer.status == 200 else {}
            if place := found.get("nextCursor") or found.get("syncToken"):
                return str(place)
    pytest.fail("The owner's lists have one page.")


def test_their_workspace_cannot_be_chosen(two, everybody, theirs_unchanged):
    """Neither by a key nor by the cookie of a browser."""
    workspace = two.theirs.workspace.pk
    body = {"agent": "echo", "message": {"text": "a"}}
    for method in ("GET", "POST"):
        for one in (*everybody, *(Caller(f"{one.name} in a browser", one.browser) for one in everybody)):
            named = (workspace, made_up(workspace))
            answers = [one.ask(method, "/api/v1/sessions", body, **{WORKSPACE_HEADER: str(name)}) for name in named]
            check(two, f"{one.name}: {method}", *(answer.without(named) for answer in answers))
            assert answers[0].status in (401, 403), one.name
