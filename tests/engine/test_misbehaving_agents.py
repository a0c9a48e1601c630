"""A misbehaving agent's task ends with a clear message and a correct record."""

import base64

import pytest

import db
from apps.engine import accept
from apps.engine.output import clean_parts
from apps.engine.recorder import Recorder
from apps.engine.send import send
from apps.record import projection, wire
from apps.record.execution import Run
from apps.record.models import Artifact, Blob, Event, Message, Task
from tests.engine.agents import SlowerThanUsual
from tests.working import carry_out, types_of

pytestmark = pytest.mark.django_db(transaction=True)


async def outcome_of(ada, agent, message):
    receipt = await db.run(accept.accept, ada.principal, agent, message)
    await carry_out(receipt.run)
    assert await db.run(projection.differences, receipt.context) == []

    def read():
        task = Task.objects.select_related("context").get(pk=receipt.task)
        return wire.load_task(task), Run.objects.get(pk=receipt.run)

    return await db.run(read)


async def test_an_agent_that_raises_fails_without_telling_why(ada, agent, said):
    raising = await agent("Raising")
    for kind in ("RuntimeError", "TimeoutError", "OSError"):
        task, run = await outcome_of(ada, raising, said(kind))
        assert task["status"]["state"] == "TASK_STATE_FAILED"
        assert "boom" not in str(task)
        assert task["artifacts"] == []
        assert (run.state, run.error["code"]) == (Run.State.FAILED, "agent_error")
        assert "boom" in run.error["message"]
        assert "Traceback" in run.error["traceback"]
    states = await db.run(lambda: list(Artifact.objects.values_list("state", flat=True)))
    assert states == [Artifact.State.DISCARDED] * 3


async def test_what_is_no_json_fails_the_task_and_text_that_no_database_takes_is_mended(ada, agent, said):
    nonsense = await agent("Nonsense")
    for kind in ("object", "nan", "unserialisable", "memory", "chunk"):
        task, run = await outcome_of(ada, nonsense, said(kind))
        assert task["status"]["state"] == "TASK_STATE_FAILED", kind
        assert run.error["code"] == ("agent_error" if kind == "chunk" else "invalid_agent_response"), kind
        assert task["artifacts"] == [], kind
    task, _ = await outcome_of(ada, nonsense, said("something"))
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert task["artifacts"][0]["parts"][0]["text"] == "nul \ufffd and half a pair \ufffd of something"


async def test_slower_turn_than_declared_is_told_once(ada, agent, said, monkeypatch):
    slow = await agent("SlowerThanUsual")
    record = Recorder.record

    async def record_and_tell(recorder, waiting):
        await record(recorder, waiting)
        SlowerThanUsual.told.set()

    monkeypatch.setattr(Recorder, "record", record_and_tell)
    task, _ = await outcome_of(ada, slow, said())
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    notices = await db.run(lambda: list(Event.objects.filter(payload__has_key="progress")))
    told = [one.payload["message"]["parts"][0]["text"] for one in notices]
    assert told == ["SlowerThanUsual usually takes less than a second. It is still working."]


async def test_an_agent_that_takes_too_long_is_stopped(ada, agent, said):
    task, run = await outcome_of(ada, await agent("Slow"), said())
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert "0.2 seconds" in task["status"]["message"]["parts"][0]["text"]
    assert run.error["code"] == "time_limit"
    assert task["artifacts"] == []


@pytest.mark.timeout(60)
async def test_an_agent_whose_words_cannot_be_recorded_is_not_left_waiting(ada, agent, said):
    task, run = await outcome_of(ada, await agent("Flooding"), said())
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert run.error["code"] == "agent_error"


async def test_an_agent_that_cannot_be_loaded_fails_its_tasks(ada, agent, said):
    broken = await agent("Large")
    broken.handler = "tests.engine.agents:Gone"
    await db.run(broken.save)
    task, run = await outcome_of(ada, broken, said())
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert run.error["code"] == "agent_unavailable"
    assert "Gone" not in task["status"]["message"]["parts"][0]["text"]
    ada.is_staff = True  # operators are told why
    await db.run(ada.save)
    task, _ = await outcome_of(ada, broken, said())
    assert "has no 'Gone'" in task["status"]["message"]["parts"][0]["text"]


async def test_tokens_are_joined_and_chunks_are_not_and_thoughts_are_kept_on_request_only(ada, agent, said):
    counted = {}
    for keep in (False, True):
        task, _ = await outcome_of(ada, await agent("Talking", keep_thoughts=keep), said())
        types = await db.run(types_of, task["id"])
        counted[keep] = {kind: types.count(kind) for kind in set(types)}
        texts = [artifact["parts"] for artifact in task["artifacts"]]
        assert texts[0] == [{"text": "".join(f"{n} " for n in range(200)), "mediaType": "text/plain"}]
        assert "".join(part.get("text", "") for part in texts[1]) == "".join(f"{n}\n" for n in range(50))
    for keep, types in counted.items():
        assert types["agent_token"] < 20
        assert types["artifact_update"] == 51
        assert types.get("agent_thought", 0) == keep
        assert types["agent_tool_call"] == types["agent_tool_result"] == 1


async def test_large_content_is_kept_in_files_and_loaded_for_the_next_task(ada, agent, said):
    large = await agent("Large")
    task, _ = await outcome_of(ada, large, said())
    stored = await db.run(lambda: Artifact.objects.get().parts[0])
    assert stored["stored"]["size"] == 500_000
    assert base64.b64decode(task["artifacts"][0]["parts"][0]["raw"]) == b"x" * 500_000
    measuring = await agent("Measuring")
    refined, _ = await outcome_of(ada, measuring, said("y" * 300_000, referenceTaskIds=[task["id"]]))
    assert refined["history"][-1]["parts"][0]["text"] == "300000 500000"


async def test_memory_goes_from_turn_to_turn_and_is_gone_at_the_end(ada, agent, said):
    remembering = await agent("Remembering")
    receipt = await db.run(accept.accept, ada.principal, remembering, said("a"))
    task = receipt.task
    await carry_out(receipt.run)
    assert await db.run(lambda: Run.objects.get().memory) == {"seen": ["a"], "large": 2**60}
    for text in "bc":
        receipt = await db.run(accept.accept, ada.principal, remembering, said(text, taskId=str(task)))
        await carry_out(receipt.run)
    ended = await db.run(lambda: Task.objects.get(pk=task))
    assert ended.status_message["parts"] == [{"text": "a, b, c"}]
    runs = await db.run(lambda: list(Run.objects.order_by("turn")))
    assert [run.memory for run in runs] == [{}, {}, {}]
    assert all("seen" not in str(run.input) for run in runs), "a snapshot must not keep what is to be erased"
    assert len({run.input["memory"] for run in runs}) == 3


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
    """The stored form of Ada's file at another agent."""
    sent = said(parts=[{"raw": LARGE, "filename": "secret.txt"}])
    receipt = await db.run(accept.accept, ada.principal, await agent("Large"), sent)
    [part] = await db.run(lambda: Message.objects.get(context=receipt.context).parts)
    assert "stored" in part
    return part


async def forwarded(sender, agent, message):
    """A task whose agent passes parts on."""
    receipt = await db.run(accept.accept, sender.principal, agent, message)
    await carry_out(receipt.run)
    return await db.run(lambda: (Task.objects.get(pk=receipt.task), Run.objects.get(pk=receipt.run)))


@pytest.mark.parametrize("word", ["streamed", "whole"])
async def test_the_name_of_somebody_elses_file_fails_the_task(ada, bob, agent, said, adas_file, word):
    thief = await agent("Forwarding")
    parts = [{"text": word}, {"data": [adas_file]}]
    task, run = await forwarded(bob, thief, said(parts=parts))
    assert task.state == "failed"
    assert run.error["code"] == ("agent_error" if word == "streamed" else "invalid_agent_response")
    artifacts = Artifact.objects.filter(task=task, state=Artifact.State.DELIVERED)
    assert not await db.run(artifacts.exists)
    assert not await db.run(Event.objects.filter(task=task, type="artifact_update").exists)
    assert await db.run(Blob.objects.count) == 1


async def test_a_file_that_came_with_the_message_may_be_passed_on_as_it_is(ada, agent, said):
    parts = [{"raw": LARGE, "filename": "mine.txt", "mediaType": "text/plain"}]
    task, _ = await forwarded(ada, await agent("Forwarding"), said(parts=parts))
    assert task.state == "completed"
    [part] = await db.run(lambda: Artifact.objects.get(task=task).parts)
    assert part["filename"] == "mine.txt"
    assert await db.run(lambda: Blob.objects.get().uses) == 2


async def test_what_an_agent_says_of_a_file_it_was_given_changes_nothing_about_it(ada, agent, said, adas_file):
    lied = {"stored": {"sha256": adas_file["stored"]["sha256"], "size": 1, "kind": "data"}}
    parts = [{"raw": LARGE}, {"data": [lied]}]
    task, _ = await forwarded(ada, await agent("Forwarding"), said(parts=parts))
    [part] = await db.run(lambda: Artifact.objects.get(task=task).parts)
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
