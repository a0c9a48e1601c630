"""Edit, retry and fork by the client API, and the tree of forks."""

import uuid

import pytest

from apps.accounts.requests import quotas
from apps.agents.models import Agent
from apps.record import projection
from apps.record.execution import Run
from apps.record.models import Context, Task
from parley import db
from tests.working import carry_out

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("echo")]


async def begun(calls, *texts):
    made = await calls.post("/sessions", {"agent": "echo", "message": {"text": texts[0]}})
    address = await settled(made)
    for text in texts[1:]:
        await say(calls, address, text)
    return address


async def say(calls, address, text):
    sent = await calls.post(f"{address}/messages", {"text": text})
    assert sent.status == 202, sent.body
    await settled(sent)


async def settled(answer):
    """The address of the session that was answered, once all runs are carried out."""
    while run := await Run.objects.filter(state="queued").afirst():
        await carry_out(run.pk)
    return f"/sessions/{answer.body['session']['id']}"


async def messages(calls, address):
    return (await calls.get(f"{address}/messages")).body["items"]


async def words(calls, address):
    return [one["content"] for one in await messages(calls, address)]


async def find(calls, address, text, role="user"):
    return next(one["id"] for one in await messages(calls, address) if (one["content"], one["role"]) == (text, role))


async def edit(calls, address, old, new, **more):
    headers = {name: more.pop(name) for name in ("Idempotency_Key",) if name in more}
    return await calls.put(f"{address}/messages/{await find(calls, address, old)}", {"text": new, **more}, **headers)


async def test_edit_makes_a_fork_before_the_message(ada_calls):
    address = await begun(ada_calls, "one", "two")
    made = await edit(ada_calls, address, "two", "zwei")
    assert made.status == 201
    told = made.body
    assert made.headers["location"] == f"/api/v1/sessions/{told['session']['id']}"
    assert told["session"]["parentId"] == address.removeprefix("/sessions/")
    assert told["session"]["metadata"]["forkReason"] == "edit"
    assert (told["message"]["content"], told["task"]["agent"], told["repeated"]) == ("zwei", "echo", False)
    child = await settled(made)
    assert await words(ada_calls, child) == ["one", "one", "zwei", "zwei"]
    assert await words(ada_calls, address) == ["one", "one", "two", "two"]
    edited = {one["content"]: one["metadata"] for one in await messages(ada_calls, address) if one["role"] == "user"}
    assert (edited["one"]["isEdited"], edited["two"]["isEdited"]) == (False, True)
    assert [one["sessionId"] for one in edited["two"]["editHistory"]] == [told["session"]["id"]]
    third = await settled(await edit(ada_calls, child, "one", "eins"))
    for one in (address, child, third):
        assert await db.run(projection.differences, uuid.UUID(one.removeprefix("/sessions/"))) == []


async def test_edit_keeps_files_on_request(ada_calls):
    table = {"text": "a;b", "filename": "table.csv", "mediaType": "text/csv"}
    message = {"text": "look at this", "parts": [table, {"data": {"not": "a file"}}]}
    address = await settled(await ada_calls.post("/sessions", {"agent": "echo", "message": message}))
    kept = await edit(ada_calls, address, "look at this", "and at that", keepFiles=True)
    left = await edit(ada_calls, address, "look at this", "and at that")
    assert kept.body["message"]["parts"] == [{"text": "and at that"}, table]
    assert left.body["message"]["parts"] == [{"text": "and at that"}]


async def test_retry_says_again_and_fork_goes_on(ada_calls):
    address = await begun(ada_calls, "one", "two")
    for named, expected in (
        ({}, ["one", "one", "two", "two"]),
        ({"messageId": await find(ada_calls, address, "one", "agent")}, ["one", "one"]),
    ):
        retried = await ada_calls.post(f"{address}/fork", {"retry": True, **named})
        assert await words(ada_calls, await settled(retried)) == expected
    answer = await find(ada_calls, address, "one", "agent")
    made = await ada_calls.post(f"{address}/fork", {"messageId": answer, "title": "Another way"})
    assert (made.status, made.body["session"]["title"], made.body["message"]) == (201, "Another way", None)
    child = f"/sessions/{made.body['session']['id']}"
    assert await words(ada_calls, child) == ["one", "one"]
    await say(ada_calls, child, "three")
    assert await words(ada_calls, child) == ["one", "one", "three", "three"]
    assert await words(ada_calls, address) == ["one", "one", "two", "two"]


async def test_fork_begins_at_any_event_or_the_newest(ada_calls):
    address = await begun(ada_calls, "one")
    whole = await ada_calls.post(f"{address}/fork", {}, Idempotency_Key="k1")
    again = await ada_calls.post(f"{address}/fork", {}, Idempotency_Key="k1")
    nothing = await ada_calls.post(f"{address}/fork", {"at": 0})
    assert (whole.status, again.status, again.body["repeated"]) == (201, 200, True)
    await say(ada_calls, address, "two")
    later = await ada_calls.post(f"{address}/fork", {}, Idempotency_Key="k1")
    assert (later.status, later.body["session"]["id"]) == (200, whole.body["session"]["id"])
    assert whole.body["session"]["id"] == again.body["session"]["id"]
    counts = [one.body["session"]["metadata"]["messageCount"] for one in (whole, nothing)]
    assert counts == [2, 0]


async def test_tree_starts_at_root_and_keeps_the_leaf(ada_calls):
    address = await begun(ada_calls, "one", "two")
    root = address.removeprefix("/sessions/")
    made = await edit(ada_calls, address, "two", "zwei")
    child = made.body["session"]["id"]
    tree = (await ada_calls.get(f"/sessions/{child}/tree")).body
    assert (tree["rootId"], tree["leafId"]) == (root, child)
    assert [(one["id"], one["parentId"], one["forkReason"], one["agent"]) for one in tree["items"]] == [
        (root, None, "", "echo"),
        (child, root, "edit", "echo"),
    ]
    chosen = await ada_calls.put(f"{address}/leaf", {"leafId": root})
    assert (chosen.status, chosen.body) == (200, {"leafId": root})
    assert (await ada_calls.get(f"{address}/tree")).body["leafId"] == root
    assert (await ada_calls.delete(address)).status == 204
    left = (await ada_calls.get(f"/sessions/{child}/tree")).body
    assert [(one["isDeleted"], one["title"]) for one in left["items"]] == [(True, ""), (False, "zwei")]
    assert left["leafId"] is None


async def test_wrong_forks_are_refused_and_make_nothing(ada_calls):
    address = await begun(ada_calls, "one")
    other = await begun(ada_calls, "elsewhere")
    own, answer = await find(ada_calls, address, "one"), await find(ada_calls, address, "one", "agent")
    there = await find(ada_calls, other, "elsewhere")
    before = await db.run(Context.objects.count)
    rows = [
        ("PUT", f"{address}/messages/{answer}", {"text": "x"}, 409),
        ("PUT", f"{address}/messages/{there}", {"text": "x"}, 404),
        ("PUT", f"{address}/messages/{own}", {}, 422),
        ("PUT", f"{address}/messages/{own}", {"text": "x", "running": "wait"}, 422),
        ("PUT", f"{address}/messages/{own}", {"parts": [{"raw": "aGk=", "text": "both"}]}, 422),
        ("POST", f"{address}/fork", {"at": 10_000}, 422),
        ("POST", f"{address}/fork", {"at": 2**70}, 422),
        ("POST", f"{address}/fork", {"at": 1, "messageId": own}, 422),
        ("POST", f"{address}/fork", {"at": 1, "retry": True}, 422),
        ("POST", f"{address}/fork", {"messageId": there}, 404),
        ("POST", f"{address}/fork", {"agent": "nobody"}, 422),
        ("GET", f"{address}/messages/{there}/siblings", None, 404),
        ("PUT", f"{address}/leaf", {"leafId": other.removeprefix("/sessions/")}, 422),
    ]
    for method, path, body, status in rows:
        refused = await ada_calls.ask(method, path, body)
        assert (refused.status, bool(refused.code)) == (status, True), (method, path, body, refused.body)
    assert await db.run(Context.objects.count) == before
    await db.run(lambda: Agent.objects.update(is_enabled=False))
    closed = await edit(ada_calls, address, "one", "eins")
    assert (closed.status, closed.code) == (409, "conflict")


@pytest.fixture
def few_forks(settings, monkeypatch):
    settings.FORKS_PER_MINUTE = 2
    monkeypatch.setattr(quotas, "fork_counter", quotas.RequestCounter(f"forks-{uuid.uuid4()}"))
    monkeypatch.setattr(quotas, "time", lambda: 30.0)  # stay within one minute


async def test_forks_and_edits_have_their_own_limit(ada_calls, bob_calls, few_forks):
    address = await begun(ada_calls, "one")
    answers = [await ada_calls.post(f"{address}/fork", {}) for _ in range(3)]
    answers.append(await edit(ada_calls, address, "one", "eins"))
    assert [one.status for one in answers] == [201, 201, 429, 429]
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 60
    assert (await ada_calls.post(f"{address}/messages", {"text": "more"})).status == 202, "messages are none"
    assert (await bob_calls.post(f"{await begun(bob_calls, 'two')}/fork", {})).status == 201


async def test_edited_message_keeps_its_earlier_texts(ada_calls):
    address = await begun(ada_calls, "one")
    first = await settled(await edit(ada_calls, address, "one", "two"))
    second = await settled(await edit(ada_calls, first, "two", "three"))
    [shown] = [one for one in await messages(ada_calls, second) if one["role"] == "user"]
    assert (shown["content"], shown["metadata"]["isEdited"]) == ("three", True)
    assert [one["content"] for one in shown["metadata"]["editHistory"]] == ["one", "two"]
    assert [one["sessionId"] for one in shown["metadata"]["editHistory"]] == [address[-36:], first[-36:]]
    retried = await settled(await ada_calls.post(f"{second}/fork", {"retry": True}))
    assert (await messages(ada_calls, retried))[0]["metadata"]["editHistory"] == shown["metadata"]["editHistory"]
    for session in (first, second, retried):
        context = await Context.objects.aget(pk=session[-36:])
        assert await db.run(projection.differences, context.pk) == []


async def test_saved_edit_makes_a_fork_without_a_run(ada_calls):
    address = await begun(ada_calls, "one")
    message = await find(ada_calls, address, "one")
    asked, key = {"text": "two", "run": False}, str(uuid.uuid4())
    tasks = await Task.objects.acount()
    saved = await ada_calls.put(f"{address}/messages/{message}", asked, Idempotency_Key=key)
    assert (saved.status, saved.body["message"]["content"], saved.body["task"]) == (201, "two", None)
    assert saved.body["message"]["metadata"]["editHistory"][0]["content"] == "one"
    fork = f"/sessions/{saved.body['session']['id']}"
    assert await words(ada_calls, fork) == ["two"]
    repeated = await ada_calls.put(f"{address}/messages/{message}", asked, Idempotency_Key=key)
    assert (repeated.status, repeated.body["session"]["id"]) == (200, fork[-36:])
    refused = await ada_calls.put(f"{address}/messages/{message}", {"text": "two"}, Idempotency_Key=key)
    assert refused.status == 422, refused.body
    assert await Task.objects.acount() == tasks
    assert await words(ada_calls, fork) == ["two"]
    answered = await settled(await ada_calls.post(f"{fork}/fork", {"retry": True}))
    assert await words(ada_calls, answered) == ["two", "two"]
    assert await db.run(projection.differences, uuid.UUID(fork[-36:])) == []
