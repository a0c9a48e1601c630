"""At every address, what another workspace has is answered like what never was; nothing is told or changed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from django.test import override_settings

from tests.isolation.addresses import FIXED, OPEN_TO_ALL, OPERATORS, WITHOUT_IDS, Address, ids_of, made_up
from tests.isolation.asking import API, MAY_LESS, Caller, methods_at, strangers
from tests.isolation.world import World

TOO_MANY = 429
DONE = (200, 201, 202)
SAID = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "a"}]}
PLAN = {"name": "P", "description": "P.", "steps": {"one": {"agent": "echo", "message": "x"}}}
NOBODY = "8c1c6a3e-5b0e-4b0a-9d4e-0f5f0f0f0f0f"
FORM = {"message": NOBODY, "text": "a", "do": "pause", "answer": "decline", "agent": "echo", "step": "one"}
"""What any form of a page may ask for."""
BODIES: dict[tuple[str, str], Any] = {
    ("POST", "prompts/{prompt}/act"): {"do": "copy"},
    ("POST", "a2a/{slug}"): {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}},
    ("PATCH", "api/v1/sessions/{session}"): {"title": "Ours"},
    ("PUT", "api/v1/sessions/{session}/mark"): {"pinned": True},
    ("PUT", "api/v1/sessions/{session}/leaf"): {"leafId": NOBODY},
    ("POST", "api/v1/sessions/{session}/messages"): {"text": "a"},
    ("PUT", "api/v1/sessions/{session}/messages/{message}"): {"text": "a"},
    ("POST", "api/v1/sessions/{session}/queue"): {"text": "a"},
    ("POST", "api/v1/projects/{project}/files"): {"filename": "a", "text": "a"},
    ("POST", "projects/{project}/act"): {"do": "share"},
    ("POST", "api/v1/collections/{collection}/sources"): {"filename": "a", "text": "a"},
    ("PUT", "api/v1/collections/{collection}/agents/{slug}"): {},
    ("PATCH", "api/v1/collections/{collection}/sources/{source}"): {"watchHours": None},
    ("POST", "knowledge/{collection}/act"): {"do": "share"},
    ("POST", "knowledge/{collection}/sources/{source}/act"): {"do": "reindex"},
    ("PATCH", "api/v1/sessions/{session}/queue/{message}"): {"text": "a"},
    ("PUT", "api/v1/comparisons/{comparison}/choice"): {"choice": "both"},
    ("POST", "api/v1/tasks/{task}/answer"): {"text": "a"},
    ("POST", "api/v1/tasks/{task}/feedback"): {"rating": 1},
    ("POST", "api/v1/approvals/{task}"): {"decision": "approve", "asked": 1},
    ("PATCH", "api/v1/notifications/channels/{channel}"): {"name": "Ours"},
    ("PUT", "api/v1/plans/{slug}"): {"definition": PLAN},
    ("PATCH", "api/v1/workspaces/{workspace}"): {"name": "Ours"},
    ("PUT", "api/v1/agents/{slug}/secrets/{name}"): {"value": "a"},
    ("DELETE", "api/v1/workspaces/{workspace}"): {"name": "Ours"},
    ("POST", "api/v1/workspaces/{workspace}/transfer"): {"member": 1},
    ("POST", "api/v1/workspaces/{workspace}/members"): {"email": "a@example.org", "role": "viewer"},
    ("PATCH", "api/v1/workspaces/{workspace}/members/{member}"): {"role": "viewer"},
    ("POST", "langgraph/threads/{thread_id}/runs/stream"): {"assistant_id": "echo", "command": {"resume": "a"}},
    ("POST", "langgraph/threads/{thread_id}/runs/wait"): {"assistant_id": "echo", "command": {"resume": "a"}},
}


def body_of(address: Address, method: str) -> Any:
    if address.template.endswith(("message:send", "message:stream")):
        return {"message": SAID, "configuration": {"returnImmediately": True, "blocking": False}}
    is_page = not API.match(f"/{address.template}")
    body = BODIES.get((method, address.template))
    return FORM | (body or {}) if is_page and method == "POST" else body


TOLD_TO_SIGN_IN = "credentials/{token}"
"""Nobody in particular is asked to sign in there, by a credential's link."""
SHARED_FILE = "shared/{token}/files/{branch}/{kind}/{index}/{number}"
SAME_FOR_ALL = {
    SHARED_FILE: "the world has no sample that is found yet; tests/conversations/api/test_shares.py",
    f"api/v1/{SHARED_FILE}": "the world has no sample that is found yet; tests/conversations/api/test_shares.py",
    "api/v1/exports/{export}": "a key of a shared workspace has no exports; tests/accounts/test_api.py",
    "api/v1/exports/{export}/file": "a key of a shared workspace has no exports; tests/accounts/test_api.py",
    "settings/security/passkeys/{pk}/remove": "it asks for the password first; tests/accounts/test_second_factors.py",
    "settings/security/passkeys/{pk}/name": "it asks for the password first; tests/accounts/test_second_factors.py",
    "sessions/{session}/pictures/named/{name}": "the world has no picture; tests/conversations/pages/test_files.py",
    "sessions/{session}/pictures/remote": "it needs a signed query; tests/conversations/pages/test_files.py",
    "shared/{token}/picture": "it needs a signed query; tests/conversations/pages/test_files.py",
    "api/v1/deployments/{deployment}": "operators alone; tests/deployments/test_api.py",
    "api/v1/agents/{slug}/secrets": "operators alone; tests/deployments/test_api.py",
    "api/v1/agents/{slug}/secrets/{name}": "operators alone; tests/deployments/test_api.py",
    "agents/{slug}/credentials": "a remote agent's alone; tests/agents/test_catalogue.py",
    "sessions/{session}/comparison": "the world has no rerun; tests/automation/test_reruns.py",
    "api/v1/sessions/{session}/comparison": "the world has no rerun; tests/automation/test_reruns.py",
    "sessions/{session}/earlier": "it needs a query; tests/conversations/pages/test_sessions.py",
    "sessions/{session}/branches": "it needs a query; tests/conversations/pages/test_sessions.py",
    "hooks/{key}": "it needs the secret; tests/automation/test_hooks.py",
    "hooks/chats/{key}": "it needs the secret; tests/channels/test_contract.py",
    "gateway/notifications/{run_id}": "a remote agent has the token; tests/remote/test_webhooks.py",
    ".well-known/oauth-protected-resource/{resource}": "it says nothing of whether there is such an agent",
    "confirm-address/{token}": "a signed link; tests/accounts/test_signing_in.py",
    "welcome/{uidb64}/{token}": "a signed link; tests/accounts/test_signing_in.py",
}
"""Addresses where the owner, too, is answered as if there were nothing, and why."""


OTHER_SESSIONS = ("shared session", "deleted session", "fork")
"""What else a session of theirs may be."""


Told = tuple[int, str, str]
"""Status, headers and body of an answer."""
Pair = tuple[dict[str, Any], dict[str, Any]]
"""Parameters of an address that name something of theirs, and such that name what never was."""


def part_of(address: Address) -> str:
    return address.template.partition("/")[0]


def combinations(address: Address, world: World) -> list[Pair]:
    """Pairs of parameters to compare: each id of theirs, among theirs and among ours, and one that is made up."""
    kinds = {name: kind for name, kind in address.kinds().items() if kind not in FIXED}
    ours, theirs = ids_of(world.ours), ids_of(world.theirs)
    whole = {name: ours[kind] for name, kind in address.kinds().items()}
    there = whole | {name: theirs[kind] for name, kind in kinds.items()}
    pairs = [(there, whole | {name: made_up(theirs[kind]) for name, kind in kinds.items()})] if kinds else []
    if len(whole) > 1:
        inner = list(kinds)[1:]  # what the first names is looked for first
        pairs += [(whole | {name: there[name]}, whole | {name: made_up(there[name])}) for name in inner]
    return pairs


def of_another_session(address: Address, world: World, pair: Pair, turn: int) -> list[Pair]:
    """The same with what else a session of theirs may be, by turns."""
    session, theirs = OTHER_SESSIONS[turn % len(OTHER_SESSIONS)], ids_of(world.theirs)
    named = {name: kind.replace("session", session) for name, kind in address.kinds().items()}
    other = {name: theirs[kind] for name, kind in named.items() if kind in theirs and session in kind}
    return [(pair[0] | other, pair[1])] if other else []


@pytest.mark.parametrize("part", sorted({part_of(one) for one in OPEN_TO_ALL}))
def test_theirs_is_answered_like_what_never_was(part, two, everybody, theirs_unchanged):
    """The owner of ours, who may most, asks for each combination, and some by each method."""
    for turn, address in enumerate(OPEN_TO_ALL):
        if part_of(address) == part:
            asking = [one for one in strangers(everybody, turn) if is_compared(one, address)]
            compare_all(two, asking, address, turn)


BY_EACH_METHOD = ("operator", "limited key", "nobody")
"""Besides the owner: each is refused in a place of its own. The others differ from the owner by their role alone."""


def compare_all(two: World, asking: list[Caller], address: Address, turn: int = 0) -> None:
    try:
        pairs = combinations(address, two)
    except KeyError as missing:
        pytest.fail(f"Say in tests/isolation/addresses.py what {missing} of {address.template} names.")
    methods = methods_at(address, asking[0], pairs[0][0]) if pairs else []
    for method in methods:
        never: set[Told] = set()
        is_first = method == methods[0]
        for pair in pairs + (of_another_session(address, two, pairs[0], turn) if is_first else []):
            compare(two, asking[0], address, method, pair, never)
        for caller in asking[1:]:
            if is_first or caller.name in BY_EACH_METHOD:
                compare(two, caller, address, method, pairs[0], never)


def compare(two: World, caller: Caller, address: Address, method: str, pair: Pair, never: set[Told]) -> None:
    """`never`: what callers were told of what never was, at this address; who is told that of theirs need not ask."""
    named = [value for ids in pair for value in ids.values()]
    body = body_of(address, method)
    told = caller.ask(method, address.path(pair[0]), body).without(named)
    if told not in never:
        other = caller.ask(method, address.path(pair[1]), body).without(named)
        check(two, f"{caller.name}: {method} {address.path(pair[0])}", told, other)
        never.add(other)


OPERATORS_TOO = re.compile(
    "approvals/{task}|^credentials/{token}|^agents/{slug}/(edit|delete|picture)|v1/deployments/"
    "|^(api/v1/)?agents/{slug}/(versions|release|rollout)"
)
"""Operators decide a call that needs two people, which their inbox has, and requests for credentials. They edit and
deploy agents, and choose their versions, too."""


def is_compared(caller: Caller, address: Address) -> bool:
    if caller.name == "nobody":
        return address.template != TOLD_TO_SIGN_IN
    if caller.name == "operator":
        return not OPERATORS_TOO.search(address.template)
    return caller.name not in ("limited key", "wrong key") or API.match(f"/{address.template}") is not None


NO_LISTS = {"api/v1/events": "a stream; test_sockets.py", "metrics": "its own networks and token read it"}
USED_UP = re.compile("^api/v1/shared|^shared|samples|approvals|picture$|^agents/{slug}/versions")
"""Their owner uses these first: what the owner does later ends them."""
AT_THE_FRONT_DOOR = re.compile("^a2a/(v1/)?tasks")
"""Without a tenant, these have the tasks of the router alone."""
FOR_THEIR_OWNER = sorted(
    (one for one in OPEN_TO_ALL if one.kinds_or_none() and not AT_THE_FRONT_DOOR.match(one.template)),
    key=lambda one: not USED_UP.search(one.template),
)


def test_owner_gets_another_answer(two, their_owner):
    """So that a wrong sample, or a body that is refused before anything is looked for, is noticed."""
    asked = [one for one in FOR_THEIR_OWNER if one.template not in SAME_FOR_ALL]
    alike = [one.template for one in asked if is_alike(two, their_owner, one)]
    assert alike == [], "The owner is answered as if there were nothing"


def is_alike(two: World, their_owner: Caller, address: Address) -> bool:
    theirs = ids_of(two.theirs) | {"agent of the task": "echo"}
    there = {name: theirs[kind] for name, kind in address.kinds().items()}
    nowhere = {name: made_up(value) for name, value in there.items()}
    for method in methods_at(address, their_owner, nowhere):
        body, named = body_of(address, method), [*there.values(), *nowhere.values()]
        found = their_owner.ask(method, address.path(there), body)
        if two.theirs.mark in "".join(found.without(named)[1:]):
            return False
        if found.without(named) != their_owner.ask(method, address.path(nowhere), body).without(named):
            return False
    return True


def shows_theirs(two: World, caller: Caller) -> Iterator[str]:
    """The addresses without ids, such as lists, where the caller reads anything of theirs."""
    lists = [one for one in WITHOUT_IDS if one.template.strip("/") not in NO_LISTS and is_compared(caller, one)]
    if caller.name in MAY_LESS:  # their pages are those of an owner
        lists = [one for one in lists[MAY_LESS.index(caller.name) :: 3] if API.match(f"/{one.template}")]
    yield from (path for path in (one.path({}) for one in lists) if two.theirs.mark in caller.ask("GET", path).body)


def test_lists_show_nothing_of_theirs(two, everybody, their_owner):
    shown = {caller.name: list(shows_theirs(two, caller)) for caller in everybody}
    assert shown == {**{name: [] for name in shown}, "operator": ["/api/v1/approvals", "/inbox", "/inbox/items"]}
    assert len(list(islice(shows_theirs(two, their_owner), 10))) == 10, "the same addresses show it to its owner"


def test_the_operators_pages_are_theirs_alone(two, everybody):
    """An operator without the second factor is led to it everywhere; what is open to others is open to them, too."""
    operator = next(one for one in everybody if one.name == "operator")
    paths = [one.path(dict.fromkeys(one.parameters, two.theirs.ids["session"])) for one in OPERATORS]
    with override_settings(MFA_FOR_OPERATORS=True):
        wrong = [path for path in paths if is_let_in(operator, path, two)]
        others = [one.name for one in everybody if one is not operator and is_let_in(one, "/admin/", two)]
    assert (wrong, others) == ([], [])


def is_let_in(caller: Caller, path: str, two: World) -> bool:
    """To a page of the operators; one without a second factor is led to where they add it."""
    answer = caller.ask("GET", path)
    is_led = "login" in path or "/settings/security" in answer.header("Location")
    is_refused = answer.status in (302, 403, 404) or "jsi18n" in path or "login" in path
    return not is_refused or two.theirs.mark in answer.body or (caller.name == "operator" and not is_led)


def check(two: World, about: str, theirs: Told, never: Told, *, is_done: bool = False) -> None:
    """`is_done`: the field is only noted, so the request may succeed, each time."""
    assert theirs[0] != TOO_MANY, about
    assert two.theirs.mark not in f"{theirs}", about
    if is_done and theirs[0] in DONE:  # and what was done is in the answers
        assert never[0] == theirs[0], about
    else:
        assert theirs == never, f"{about} differs from what never was: {difference(theirs, never)}"


def difference(one: Told, other: Told) -> str:
    """What is different, shortly."""
    lines = [[f"{answer[0]} {answer[1]}", *answer[2].splitlines()] for answer in (one, other)]
    return "\n".join(line[:300] for line in difflib.unified_diff(*lines, lineterm="", n=0))
