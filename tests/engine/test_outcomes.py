"""The parts of each outcome, and what ends of handlers become."""

import pytest

from agentkit import AgentFailure, Artifact, AuthRequired, Completed, Failed, InputRequired, Rejected, TaskContext
from apps.engine import accept, cancel
from apps.engine.finish import Ending, finish
from apps.record import projection, wire
from apps.record.execution import Run
from apps.record.models import Artifact as ArtifactRow
from apps.record.models import Event, Task
from parley import db
from tests.engine.delegating import run_of, take_turn, until
from tests.working import begin, chunk, end, say, types_of

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("the ledger writes each database's own SQL"),
]


@pytest.fixture
def sent(ada, echo, said):
    return accept.accept(ada.principal, echo, said())


def shown(sent):
    return wire.load_task(Task.objects.select_related("context").get(pk=sent.task))


def test_completed_task_has_message_and_artifacts(sent):
    held = begin(sent.run)
    say(held, chunk("lines", "1\n", last=False), chunk("lines", "2\n", append=True))
    assert shown(sent)["artifacts"] == [], "what is streamed is provisional"
    end(held, Completed("done", [Artifact.text("report", "all of it")]))
    task = shown(sent)
    assert task["status"]["message"]["parts"] == [{"text": "done"}]
    assert [[part["text"] for part in one["parts"]] for one in task["artifacts"]] == [["1\n", "2\n"], ["all of it"]]
    assert all(artifact.digest for artifact in ArtifactRow.objects.all())


@pytest.mark.parametrize("outcome", [Completed(), Completed("words alone")])
def test_completed_task_never_lacks_artifact_or_message(sent, outcome):
    held = begin(sent.run)
    finish(held.task, held.message, Ending(held.lease, outcome))
    task = shown(sent)
    assert task["artifacts"][0]["parts"] == task["history"][-1]["parts"] != []


@pytest.mark.parametrize(("name", "said_then"), [("answer", "**Yes.**"), ("notes.md", "Here is notes.md.")])
def test_only_text_is_the_answer(sent, name, said_then):
    end(begin(sent.run), Completed(artifacts=[Artifact.text(name, "**Yes.**", "text/markdown")]))
    assert shown(sent)["history"][-1]["parts"] == [{"text": said_then}]


FILE = {"raw": "eA==", "filename": "x.bin"}


@pytest.mark.parametrize(
    ("outcome", "is_repeated"),
    [
        (Completed("Yes.", [Artifact.text("notes.md", " Yes.\n", "text/markdown")]), True),
        (Completed("Yes.", [Artifact([{"text": "Yes."}, FILE]), Artifact.text("more", "More.")]), True),
        (Completed([{"text": "Yes."}, FILE]), True),
        (Completed("Yes.", [Artifact.text("report", "Yes. And why.")]), False),
        (Completed([{"text": "Yes."}, FILE], [Artifact.text("answer", "Yes.")]), False),
    ],
)
def test_message_in_artifacts_is_no_status_message(sent, outcome, is_repeated):
    held = begin(sent.run)
    finish(held.task, held.message, Ending(held.lease, outcome))
    assert ("message" not in shown(sent)["status"]) is is_repeated
    assert shown(sent)["history"][-1]["parts"] == outcome.parts
    assert projection.differences(sent.context) == []


def test_streamed_answer_is_no_status_message(sent):
    held = begin(sent.run)
    say(held, chunk("a", "Yes, ", last=False), chunk("a", "all of it.", append=True))
    end(held, Completed("Yes, all of it."))
    assert "message" not in shown(sent)["status"]


@pytest.mark.parametrize(
    ("outcome", "state", "code"),
    [(Failed("no", "broken"), "FAILED", "broken"), (Rejected("no"), "REJECTED", "rejected")],
)
def test_failed_task_has_message_and_discarded_artifacts(sent, outcome, state, code):
    held = begin(sent.run)
    say(held, chunk("half", "half", last=False))
    end(held, outcome)
    task = shown(sent)
    assert task["status"]["state"] == f"TASK_STATE_{state}"
    assert task["status"]["message"]["parts"] == [{"text": "no"}]
    assert task["artifacts"] == []
    assert ArtifactRow.objects.get().state == ArtifactRow.State.DISCARDED
    failed = Event.objects.get(type="agent_failed")
    assert failed.payload == {"code": code, "discarded": ["half"]}
    assert "artifact_update" in types_of(sent.task), "the log keeps it"


@pytest.mark.parametrize("outcome", [InputRequired("which?", slot="word"), AuthRequired("who?", slot="word")])
def test_question_is_a_message_and_a_slot(sent, outcome):
    held = begin(sent.run)
    say(held, chunk("half", "half"))
    end(held, outcome)
    task = shown(sent)
    assert task["artifacts"] == []
    assert task["status"]["message"]["parts"]
    assert Task.objects.get().slot == {"name": "word"}
    assert ArtifactRow.objects.get().state == ArtifactRow.State.PROVISIONAL


def test_canceled_is_a_change_of_state_alone(sent):
    held = begin(sent.run)
    say(held, chunk("half", "half"))
    cancel.cancel_task(Task.objects.get())
    task = shown(sent)
    assert task["status"]["state"] == "TASK_STATE_CANCELED"
    assert "message" not in task["status"]
    assert task["artifacts"] == []
    assert ArtifactRow.objects.get().state == ArtifactRow.State.DISCARDED
    assert types_of(sent.task)[-2:] == ["agent_cancelled", "agent_status"]


def test_refinement_is_a_new_task_that_references(sent, ada, echo, said):
    end(begin(sent.run), Completed("done", [Artifact.text("report", "all of it")]))
    context_id = shown(sent)["contextId"]
    refined = accept.accept(ada.principal, echo, said("shorter", contextId=context_id))
    assert (refined.context, refined.task != sent.task) == (sent.context, True)
    assert Task.objects.get(pk=refined.task).references == [str(sent.task)]
    held = begin(refined.run)
    [reference] = held.references
    assert (reference.task_id, reference.artifacts[0].parts[0]["text"]) == (str(sent.task), "all of it")
    assert [message.text for message in held.history] == ["hello", "done"]


def test_newest_version_of_an_artifact_is_delivered(sent, ada, echo, said):
    run = begin(sent.run)
    say(run, chunk("a", "first", last=False), chunk("a", "more", append=True))
    say(run, chunk("a", "second"), chunk("b", "draft"), chunk("turns", "draft"))
    say(run, chunk("c", "first"), chunk("c", "second", last=False), chunk("c", "and more", append=True))
    end(run, InputRequired("Like this?"))
    run = begin(accept.accept(ada.principal, echo, said("shorter", taskId=str(sent.task))).run)
    say(run, chunk("turns", "final"))
    end(run, Completed("done", [Artifact([{"text": "final"}], artifact_id="b")]))
    delivered = {one["artifactId"]: [part["text"] for part in one["parts"]] for one in shown(sent)["artifacts"]}
    assert delivered == {"a": ["second"], "b": ["final"], "c": ["second", "and more"], "turns": ["final"]}
    assert projection.differences(sent.context) == []


KIND = {"kind": "test"}
ENDS = {
    "completed": (Completed("done", [Artifact.text("a", "x")], metadata=KIND), "COMPLETED", "done", KIND, None),
    "asking": (InputRequired("which?", "word", metadata=KIND), "INPUT_REQUIRED", "which?", KIND, None),
    "failed": (Failed("no", "broken", metadata=KIND), "FAILED", "no", KIND, "broken"),
    "rejected": (Rejected("never", metadata=KIND), "REJECTED", "never", KIND, "rejected"),
    "raises failure": (AgentFailure("no", "broken"), "FAILED", "no", {}, "broken"),
    "raises error": (RuntimeError("boom"), "FAILED", "because of an internal error", {}, "agent_error"),
    "wrong type": (object(), "FAILED", "", {}, "invalid_agent_response"),
    "text": ("words", "COMPLETED", "words", {}, None),
    "state": ({"state": "input-required", "prompt": "which?"}, "INPUT_REQUIRED", "which?", {"prompt": "which?"}, None),
    "nothing": (None, "COMPLETED", "Completed without an answer.", {}, None),
}


@pytest.mark.parametrize(("ends", "state", "words", "metadata", "code"), ENDS.values(), ids=ENDS.keys())
async def test_every_end_is_recorded(ada, agent, said, caplog, ends, state, words, metadata, code):
    def ending(text):
        if isinstance(ends, Exception):
            raise ends
        return ends

    row = await take_turn(ada.principal, await agent(ending), said())
    task, run = await db.run(wire.load_task, row), await run_of(row)
    message = task["status"].get("message") or task["history"][-1]
    assert task["status"]["state"] == f"TASK_STATE_{state}"
    assert words in message["parts"][0]["text"]
    told = message["metadata"]
    assert ("slot" in told) is state.endswith("_REQUIRED")
    error = {"error": {"code": code}} if code else {}
    assert {**told, "slot": None} == metadata | {"agent": "ending", "slot": None} | error
    assert bool(task["artifacts"]) is (state == "COMPLETED")
    assert state == "REJECTED" or (run.error or {}).get("code") == code
    if ends is None:
        await until(lambda: "lack a return" in str(Run.objects.get().notes))
        assert "ending returned no answer" in caplog.text


async def test_streamed_text_is_the_answer(ada, agent, said):
    async def streaming(task: TaskContext) -> None:
        for word in task.message.text.split():
            await task.token(f"{word} ")
        async with task.artifact("log.txt") as log:
            await log.append("1 line")

    row = await take_turn(ada.principal, await agent(streaming), said("Good day"))
    task = await db.run(wire.load_task, row)
    assert task["history"][-1]["parts"] == [{"text": "Good day"}]
    assert [one["name"] for one in task["artifacts"]] == ["answer", "log.txt"]
    assert (await run_of(row)).notes == []
