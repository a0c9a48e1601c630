"""A text answer is on the wire once: as an artifact. The message is in the history."""

import json

import pytest

import db
from apps.a2a.models import PushConfig
from apps.a2a.webhooks import delivery_body, is_delivered
from apps.record.models import Event, Task
from tests.a2a.agents import steps
from tests.a2a.calling import message, text_of
from tests.a2a.old_calling import said, told

pytestmark = pytest.mark.django_db(transaction=True)

WORD = "heliotrope"


def count(events) -> int:
    """How often the word is there, without histories."""
    shown = json.loads(json.dumps(events), object_hook=lambda one: {**one, "history": None})
    return json.dumps(shown).count(WORD)


async def of(stream):
    return [event async for _, event in stream]


@pytest.fixture
def answers(ada_at, ada_rests, old_at, old_rests):
    """Every way to ask for an answer, by name."""
    new, old = {"message": message(WORD)}, {"message": said(WORD)}
    return {
        "1.0": lambda: ada_at("echo").call("SendMessage", new),
        "0.3": lambda: old_at("echo").call("message/send", old),
        "HTTP 1.0": lambda: ada_rests("echo").ask("POST", "message:send", new),
        "HTTP 0.3": lambda: old_rests("echo").sent(told(WORD), configuration={"blocking": True}),
        "stream of 1.0": lambda: of(ada_at("echo").stream("SendStreamingMessage", new)),
        "stream of 0.3": lambda: of(old_at("echo").stream("message/stream", old)),
        "stream of HTTP": lambda: of(ada_rests("echo").stream("POST", "message:stream", new)),
    }


@pytest.mark.parametrize(
    "way", ["1.0", "0.3", "HTTP 1.0", "HTTP 0.3", "stream of 1.0", "stream of 0.3", "stream of HTTP"]
)
async def test_a_text_answer_is_there_once(worker, echo, answers, way):
    answer = await answers[way]()
    assert count(getattr(answer, "body", answer)) == 1


async def test_the_message_stays_in_the_history(worker, echo, ada_at):
    task = (await ada_at("echo").send(message(WORD))).result["task"]
    assert [text_of(one) for one in (*task["history"], *task["artifacts"])] == [WORD] * 3
    assert task["history"][-1]["role"] == "ROLE_AGENT"
    assert "message" not in task["status"]
    [listed] = (await ada_at("echo").call("ListTasks", {"includeArtifacts": True})).result["tasks"]
    assert listed == task == (await ada_at("echo").call("GetTask", {"id": task["id"]})).result


async def test_a_resumed_stream_has_it_once(worker, echo, ada_at):
    events = [pair async for pair in ada_at("echo").stream("SendStreamingMessage", {"message": message(WORD)})]
    task, after = events[0][1]["task"]["id"], {"Last-Event-ID": str(events[0][0])}
    assert count(await of(ada_at("echo").stream("SubscribeToTask", {"id": task}, after))) == 1


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_webhooks_have_it_once(worker, echo, ada_at, version):
    key = (await ada_at("echo").send(message(WORD))).result["task"]["id"]
    task = await Task.objects.select_related("context").aget(pk=key)
    told = [event async for event in Event.objects.filter(task=task).order_by("index") if is_delivered(event)]
    config = PushConfig(task=task, version=version)
    bodies = [json.loads(await db.run(delivery_body, event, task.context, config)) for event in told]
    assert count(bodies if version == "1.0" else bodies[-1]) == 1


async def test_words_beside_the_deliverable_are_its_status_message(worker, stepping, ada_at):
    steps.allow(9)
    task = (await ada_at("stepping").send(message("1"))).result["task"]
    assert text_of(task["status"]["message"]) == "end"
