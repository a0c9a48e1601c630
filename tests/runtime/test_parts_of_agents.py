"""Parts that an agent makes are checked like those of anybody: a name of a file opens nobody else's."""

import base64

import pytest

import bridge
from apps.conversations import intake
from apps.conversations.models import Artifact, Blob, Event, Message, Run, Task
from apps.runtime.cleaning import clean_parts
from apps.runtime.sending import send
from tests.working import carry_out

pytestmark = pytest.mark.django_db(transaction=True)

LARGE = base64.b64encode(b"a secret" * 50_000).decode()
WRONG = {
    "nothing": {},
    "labels alone": {"filename": "a.txt"},
    "two kinds": {"text": "a", "url": "https://example.com"},
    "raw that is no base64": {"raw": "secret!"},
    "raw of an odd length": {"raw": "AAAAA"},
    "raw that is no string": {"raw": 5},
    "text that is no string": {"text": 5},
    "a link that is no string": {"url": None},
    "a name that is no string": {"text": "a", "filename": ["b"]},
    "metadata that is no object": {"text": "a", "metadata": "b"},
    "stored content of nobody": {"stored": {"sha256": "0" * 64, "size": 1, "kind": "raw"}},
    "stored content without a digest": {"stored": "x"},
}


@pytest.fixture
async def adas_file(ada, agent, said):
    """The stored form of a file that Ada sent to some agent."""
    sent = said(parts=[{"raw": LARGE, "filename": "secret.txt"}])
    receipt = await bridge.run(intake.accept, ada.principal, await agent("Large"), sent)
    [part] = await bridge.run(lambda: Message.objects.get(context=receipt.context).parts)
    assert "stored" in part
    return part


async def forwarded(sender, agent, message):
    """What became of a task whose agent was asked to pass parts on."""
    receipt = await bridge.run(intake.accept, sender.principal, agent, message)
    await carry_out(receipt.run)
    return await bridge.run(lambda: (Task.objects.get(pk=receipt.task), Run.objects.get(pk=receipt.run)))


@pytest.mark.parametrize("word", ["streamed", "whole"])
async def test_the_name_of_somebody_elses_file_fails_the_task(ada, bob, agent, said, adas_file, word):
    thief = await agent("Forwarding")
    parts = [{"text": word}, {"data": [adas_file]}]
    task, run = await forwarded(bob, thief, said(parts=parts))
    assert task.state == "failed"
    assert run.error["code"] == ("agent_error" if word == "streamed" else "invalid_agent_response")
    artifacts = Artifact.objects.filter(task=task, state=Artifact.State.DELIVERED)
    assert not await bridge.run(artifacts.exists)
    assert not await bridge.run(Event.objects.filter(task=task, type="artifact_update").exists)
    assert await bridge.run(Blob.objects.count) == 1


async def test_a_file_that_came_with_the_message_may_be_passed_on_as_it_is(ada, agent, said):
    parts = [{"raw": LARGE, "filename": "mine.txt", "mediaType": "text/plain"}]
    task, _ = await forwarded(ada, await agent("Forwarding"), said(parts=parts))
    assert task.state == "completed"
    [part] = await bridge.run(lambda: Artifact.objects.get(task=task).parts)
    assert part["filename"] == "mine.txt"
    assert await bridge.run(lambda: Blob.objects.get().uses) == 2


async def test_what_an_agent_says_of_a_file_it_was_given_changes_nothing_about_it(ada, agent, said, adas_file):
    lied = {"stored": {"sha256": adas_file["stored"]["sha256"], "size": 1, "kind": "data"}}
    parts = [{"raw": LARGE}, {"data": [lied]}]
    task, _ = await forwarded(ada, await agent("Forwarding"), said(parts=parts))
    [part] = await bridge.run(lambda: Artifact.objects.get(task=task).parts)
    assert part == {"stored": adas_file["stored"]}


async def test_an_answer_names_no_files_either(bob, agent, said, adas_file):
    thief = await agent("ForwardingAtOnce")
    answer = (await send(bob.principal, thief, said(parts=[{"data": [adas_file]}]))).answer
    assert answer["metadata"]["error"] == {"code": "invalid_agent_response"}
    assert adas_file["stored"]["sha256"] not in str(answer)


def test_a_part_that_is_none_is_refused(subtests):
    for what, part in WRONG.items():
        with subtests.test(what), pytest.raises(ValueError, match=r"part|Stored"):
            clean_parts([part])


def test_a_part_keeps_what_a2a_knows_and_nothing_else():
    part = {"raw": "-_8", "filename": "a", "mediaType": "b/c", "metadata": {"d": 1}, "kind": "file", "secret": 1}
    assert clean_parts([part]) == [{"raw": "+/8=", "filename": "a", "mediaType": "b/c", "metadata": {"d": 1}}]
    assert clean_parts([{"data": None}, {"text": "nul \0"}]) == [{"data": None}, {"text": "nul \ufffd"}]
