"""The parts of each outcome."""

import pytest

from agentkit import Artifact, AuthRequired, Completed, Failed, InputRequired, Rejected
from apps.engine import accept, cancel
from apps.engine.finish import Ending, finish
from apps.record import projection, wire
from apps.record.models import Artifact as ArtifactRow
from apps.record.models import Event, Task
from tests.working import begin, chunk, end, let_the_lease_run_out, say, types_of

pytestmark = [pytest.mark.django_db, pytest.mark.services("the ledger writes each database's own SQL")]


@pytest.fixture
def sent(ada, echo, said):
    return accept.accept(ada.principal, echo, said())


def shown(sent):
    return wire.load_task(Task.objects.select_related("context").get(pk=sent.task))


def test_a_completed_task_has_a_message_and_its_artifacts(sent):
    held = begin(sent.run)
    say(held, chunk("lines", "1\n", last=False), chunk("lines", "2\n", append=True))
    assert shown(sent)["artifacts"] == [], "what is streamed is provisional"
    end(held, Completed("done", [Artifact.text("report", "all of it")]))
    task = shown(sent)
    assert task["status"]["message"]["parts"] == [{"text": "done"}]
    assert [[part["text"] for part in one["parts"]] for one in task["artifacts"]] == [["1\n", "2\n"], ["all of it"]]
    assert all(artifact.digest for artifact in ArtifactRow.objects.all())


@pytest.mark.parametrize("outcome", [Completed(), Completed("words alone")])
def test_a_completed_task_has_an_artifact_and_a_message_though_the_agent_gave_none(sent, outcome):
    held = begin(sent.run)
    finish(held.task, held.message, Ending(held.lease, outcome))
    task = shown(sent)
    assert task["artifacts"][0]["parts"] == task["history"][-1]["parts"] != []


@pytest.mark.parametrize(("name", "said_then"), [("answer", "**Yes.**"), ("notes.md", "Here is notes.md.")])
def test_an_only_text_is_the_answer_and_a_file_is_not(sent, name, said_then):
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


def test_a_streamed_answer_is_no_status_message(sent):
    held = begin(sent.run)
    say(held, chunk("a", "Yes, ", last=False), chunk("a", "all of it.", append=True))
    end(held, Completed("Yes, all of it."))
    assert "message" not in shown(sent)["status"]


@pytest.mark.parametrize(
    ("outcome", "state", "code"),
    [(Failed("no", "broken"), "FAILED", "broken"), (Rejected("no"), "REJECTED", "rejected")],
)
def test_a_failed_task_has_a_message_and_what_was_begun_is_marked_discarded(sent, outcome, state, code):
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
def test_a_question_is_a_message_and_a_slot_without_artifacts(sent, outcome):
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


def test_a_refinement_is_a_new_task_of_the_context_that_references_the_old_one(sent, ada, echo, said):
    end(begin(sent.run), Completed("done", [Artifact.text("report", "all of it")]))
    context_id = shown(sent)["contextId"]
    refined = accept.accept(ada.principal, echo, said("shorter", contextId=context_id))
    assert refined.context == sent.context
    assert refined.task != sent.task
    assert Task.objects.get(pk=refined.task).references == [str(sent.task)]
    held = begin(refined.run)
    assert [reference.task_id for reference in held.references] == [str(sent.task)]
    assert [artifact.parts[0]["text"] for artifact in held.references[0].artifacts] == ["all of it"]
    assert [message.text for message in held.history] == ["hello", "done"]


def test_what_failed_is_not_refined_unless_the_message_says_so(sent, ada, echo, said):
    end(begin(sent.run), Failed("no"))
    context_id = shown(sent)["contextId"]
    new = accept.accept(ada.principal, echo, said(contextId=context_id))
    assert Task.objects.get(pk=new.task).references == []
    named = accept.accept(ada.principal, echo, said(contextId=context_id, referenceTaskIds=[str(sent.task)]))
    assert Task.objects.get(pk=named.task).references == [str(sent.task)]


@pytest.fixture
def begun(ada, echo, said):
    echo.retry_safe = True
    echo.save()
    return accept.accept(ada.principal, echo, said())


def assert_delivered(begun, expected):
    shown = wire.load_task(Task.objects.select_related("context").get(pk=begun.task))
    assert {one["artifactId"]: [part["text"] for part in one["parts"]] for one in shown["artifacts"]} == expected
    assert projection.differences(begun.context) == []


def test_an_artifact_is_begun_anew_within_a_turn_and_twice_in_one_transaction(begun):
    run = begin(begun.run)
    say(run, chunk("a", "first", last=False), chunk("a", "more", append=True))
    say(run, chunk("a", "second"), chunk("b", "other"))
    say(run, chunk("c", "first"), chunk("c", "second", last=False), chunk("c", "and more", append=True))
    end(run, Completed("done"))
    assert_delivered(begun, {"a": ["second"], "b": ["other"], "c": ["second", "and more"]})


def test_an_artifact_is_begun_anew_by_the_outcome(begun):
    run = begin(begun.run)
    say(run, chunk("a", "draft"))
    end(run, Completed("done", [Artifact([{"text": "final"}], artifact_id="a")]))
    assert_delivered(begun, {"a": ["final"]})


def test_an_artifact_is_begun_anew_by_a_second_attempt(begun):
    first = begin(begun.run)
    say(first, chunk("a", "half", last=False))
    let_the_lease_run_out(first.lease)
    second = begin(begun.run)
    say(second, chunk("a", "whole"))
    end(second, Completed("done"))
    assert_delivered(begun, {"a": ["whole"]})
    assert ArtifactRow.objects.count() == 1


def test_an_artifact_is_begun_anew_by_the_next_turn(begun, ada, echo, said):
    run = begin(begun.run)
    say(run, chunk("a", "draft"))
    end(run, InputRequired("Like this?"))
    run = begin(accept.accept(ada.principal, echo, said("shorter", taskId=str(begun.task))).run)
    say(run, chunk("a", "final"))
    end(run, Completed("done"))
    assert_delivered(begun, {"a": ["final"]})
