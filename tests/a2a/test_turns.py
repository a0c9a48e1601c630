"""Turns of a task: history, questions, answers, references, credentials, switched agents and payments."""

import asyncio
import json
from contextlib import aclosing

import pytest
from django.test import AsyncClient

from apps.a2a.models import PushConfig
from apps.a2a.webhooks import delivery_body, is_delivered
from apps.agents.models import Agent
from apps.agents.registration import register_hosted
from apps.record.execution import Run
from apps.record.models import Event, Task
from parley import db
from tests.a2a.calling import message, text_of
from tests.a2a.conftest import hosted
from tests.a2a.old_calling import told
from tests.payments.facilitating import facilitating, payment
from tests.working import begin

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("messages meet turns in the database")]


async def sent(caller, text="hi", **fields):
    return (await caller.send(message(text, **fields))).result["task"]


async def test_history_shows_the_newest_in_order(worker, ada_at, asking):
    def history(task):
        return [text_of(one) for one in task.get("history", [])]

    task = (await ada_at("asking").send(message("hi"), historyLength=1)).result["task"]
    assert history(task) == ["Which word?"]
    answer = message("blue", taskId=task["id"])
    assert "history" not in (await ada_at("asking").send(answer, historyLength=0)).result["task"]
    whole = ["hi", "Which word?", "blue", "It was blue."]
    for length in (1, 3, 4, 100, 0, None):
        shown = (await ada_at("asking").call("GetTask", {"id": task["id"], "historyLength": length})).result
        assert history(shown) == (whole[-length:] if length else [] if length == 0 else whole), length
    streamed = {"message": message("hi"), "configuration": {"historyLength": 0}}
    responses = [response async for _, response in ada_at("asking").stream("SendStreamingMessage", streamed)]
    assert "history" not in responses[0]["task"]


@pytest.mark.parametrize(("text", "state"), [("hi", "INPUT_REQUIRED"), ("sign in", "AUTH_REQUIRED")])
async def test_send_returns_at_a_question(worker, ada_at, asking, text, state):
    asked, other = [await sent(ada_at("asking"), text) for _ in range(2)]
    assert asked["status"]["state"] == f"TASK_STATE_{state}"
    assert text_of(asked["status"]["message"])
    assert asked.get("artifacts", []) == []
    answered = await sent(ada_at("asking"), "blue", taskId=asked["id"])
    assert answered["status"]["state"] == "TASK_STATE_COMPLETED"
    assert answered["contextId"] == asked["contextId"]
    canceled = (await ada_at("asking").call("CancelTask", {"id": other["id"]})).result
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
    assert (await ada_at("asking").send(message("late", taskId=other["id"]))).code == -32004


async def test_canceling_with_metadata_only_asks_for_a_stop(ada_at, asking):
    uri = "https://parley.example/ext/steering/v1"
    await Agent.objects.filter(pk=asking.pk).aupdate(capabilities={"steerable": True})
    params = {"message": message("hi"), "configuration": {"returnImmediately": True}}
    task = (await ada_at("asking").call("SendMessage", params)).result["task"]["id"]
    stop = {"id": task, "metadata": {uri: {"afterStep": True}}}
    assert (await ada_at("asking").call("CancelTask", stop)).code == -32004, "no turn runs"
    await db.run(lambda: begin(Run.objects.get(task=task).pk))
    working = (await ada_at("asking").call("CancelTask", stop)).result
    assert working["status"]["state"] == "TASK_STATE_WORKING"
    assert await Event.objects.filter(task=task, type="stop_requested").acount() == 1


async def test_task_refers_to_own_named_tasks(worker, ada_at, bob_at, echo):
    async def references_of(task):
        return await db.run(lambda: Task.objects.get(pk=task["id"]).references)

    first, second = [await sent(ada_at("echo")) for _ in range(2)]
    bobs = await sent(bob_at("echo"))
    named = [second["id"], bobs["id"], "no id", "00000000-0000-0000-0000-000000000000", first["id"]]
    refining = await sent(ada_at("echo"), referenceTaskIds=named)
    assert await references_of(refining) == [second["id"], first["id"]]
    assert refining["history"][0]["referenceTaskIds"] == named, "what was said stays as it was said"
    following = await sent(ada_at("echo"), contextId=first["contextId"])
    assert await references_of(following) == [first["id"]]


async def test_task_starts_when_its_dependency_ends(worker, ada_at, asking, echo):
    first = (await sent(ada_at("asking")))["id"]
    after = {"message": message("go", metadata={"dependsOn": [first]}), "configuration": {"returnImmediately": True}}
    second = (await ada_at("echo").call("SendMessage", after)).result["task"]
    assert (second["status"]["state"], second["metadata"]) == ("TASK_STATE_SUBMITTED", {"dependsOn": [first]})
    stream = ada_at("echo").stream("SubscribeToTask", {"id": second["id"]})
    await anext(stream)
    await sent(ada_at("asking"), "blue", taskId=first)
    states = [one["statusUpdate"]["status"]["state"] async for _, one in stream if "statusUpdate" in one]
    assert states == ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]


async def test_client_pays_or_declines_a_task(worker, settings, ada_at):
    """As the x402 extension says."""
    with facilitating() as facilitator:
        settings.PAYMENTS_FACILITATOR = facilitator.url
        caller = ada_at((await db.run(register_hosted, "selling", "tests.payments.facilitating:Selling")).slug)
        asked, other = [await sent(caller, "Sell!") for _ in range(2)]
        metadata = asked["status"]["message"]["metadata"]
        assert metadata["x402.payment.required"]["accepts"] == [metadata["slot"]["payment"]]
        wrong = await caller.send(message("Here.", taskId=asked["id"], metadata=payment(value="1")))
        assert (wrong.code, wrong.fields) == (-32602, ["metadata.x402.payment.payload"])
        assert (await caller.send(message("I paid!", taskId=asked["id"]))).code == -32004
        paid = await sent(caller, "Here.", taskId=asked["id"], metadata=payment())
        assert text_of(paid["status"]["message"]) == "Paid by 0xBuyer."
        rejected = {"x402.payment.status": "payment-rejected"}
        declined = await sent(caller, "No.", taskId=other["id"], metadata=rejected)
        assert declined["status"]["state"] == "TASK_STATE_CANCELED"
        assert len(facilitator.settled) == 1


WORD = "heliotrope"


def count(events) -> int:
    """How often the word is there, without histories."""
    shown = json.loads(json.dumps(events), object_hook=lambda one: {**one, "history": None})
    return json.dumps(shown).count(WORD)


async def of(stream):
    return [event async for _, event in stream]


async def test_text_answer_is_there_once(worker, echo, ada_at, ada_rests, old_at, old_rests):
    def new():
        return {"message": message(WORD)}

    for way, asking in {
        "1.0": ada_at("echo").call("SendMessage", new()),
        "0.3": old_rests("echo").sent(told(WORD), configuration={"blocking": True}),
        "stream of 1.0": of(ada_at("echo").stream("SendStreamingMessage", new())),
        "stream of HTTP": of(ada_rests("echo").stream("POST", "message:stream", new())),
    }.items():
        answer = await asking
        assert count(getattr(answer, "body", answer)) == 1, way


async def test_answers_are_once_everywhere_else(worker, echo, ada_at):
    events = [pair async for pair in ada_at("echo").stream("SendStreamingMessage", {"message": message(WORD)})]
    key, after = events[0][1]["task"]["id"], {"Last-Event-ID": str(events[0][0])}
    assert count(await of(ada_at("echo").stream("SubscribeToTask", {"id": key}, after))) == 1
    shown = (await ada_at("echo").call("GetTask", {"id": key})).result
    assert [text_of(one) for one in (*shown["history"], *shown["artifacts"])] == [WORD] * 3
    assert (shown["history"][-1]["role"], "message" in shown["status"]) == ("ROLE_AGENT", False)
    [listed] = (await ada_at("echo").call("ListTasks", {"includeArtifacts": True})).result["tasks"]
    assert listed == shown
    task = await Task.objects.select_related("context").aget(pk=key)
    told = [event async for event in Event.objects.filter(task=task).order_by("index") if is_delivered(event)]
    for version in ("1.0", "0.3"):
        config = PushConfig(task=task, version=version)
        bodies = [json.loads(await db.run(delivery_body, event, task.context, config)) for event in told]
        assert count(bodies if version == "1.0" else bodies[-1]) == 1, f"webhooks of {version}"


SECRET = "k-5f1d2a90-secret"

calendar = hosted("calendar", "tests.engine.agents:Calendar", access=Agent.Access.PUBLIC)


def link_of(task):
    return "/credentials/" + task["status"]["message"]["metadata"]["url"].rpartition("/")[2]


async def give(link, user=None):
    browser = AsyncClient()
    if user is not None:
        await browser.aforce_login(user)
    assert (await browser.post(link, {"answer": "give", "secret": SECRET})).status_code == 302


def status_of(event):
    return (event.get("task") or event.get("statusUpdate") or {}).get("status")


async def test_followers_see_the_task_continue_without_secret(worker, calendar, ada, ada_at):
    async with aclosing(ada_at("calendar").stream("SendStreamingMessage", {"message": message("open it")})) as events:
        seen = []
        while not seen or status_of(seen[-1])["state"] != "TASK_STATE_AUTH_REQUIRED":
            seen.append((await anext(events))[1])
        task = {"id": seen[0]["task"]["id"], "status": status_of(seen[-1])}
        following = ada_at("calendar").stream("SubscribeToTask", {"id": task["id"]})
        assert (await anext(following))[1]["task"]["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"
        await give(link_of(task), ada)
        async with asyncio.timeout(60):
            rest = [event async for _, event in events]
            assert [event async for _, event in following] == rest
    states = [status_of(event)["state"] for event in rest if status_of(event)]
    assert states == ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]
    again = ada_at("calendar").stream("SubscribeToTask", {"id": task["id"]}, {"Last-Event-ID": "1"})
    assert SECRET not in json.dumps([seen, rest, [event async for event in again]])
