"""Questions of steps reach the plan's owner, or are answered automatically or by people's steps."""

import base64
import datetime

import pytest
from django.utils import timezone

from apps.engine import cancel
from apps.plans import jobs
from apps.plans.models import Step
from apps.plans.running import engine
from apps.plans.running.runs import NOTHING_ASKED
from apps.record.models import Artifact, Event, Task
from tests.plans.plan_agents import DONE
from tests.plans.playing import data, rows, words

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.services("what waits is counted in the database's own time"),
]


def test_a_steps_question_is_the_plans(play):
    steps = {
        "colour": {"agent": "curious", "message": "the wall"},
        "after": {"agent": "loud", "message": "{{ steps.colour.data.colour }}"},
    }
    task = play(steps)
    assert (task.state, words(task), task.slot["name"]) == ("input-required", "Which colour for the wall?", "colour")
    assert rows(task, "state") == ["waiting", "asking"]
    assert jobs.RUNS_TO_ADVANCE.sweep() == 0, "what only waits is not swept"
    task = play.answer(task, "blue")
    assert (task.state, DONE["loud:blue"], DONE["curious"]) == ("completed", 1, 1)


def test_an_answering_agent_answers_in_the_owners_place(play):
    task = play({"colour": {"agent": "curious", "message": "it"}}, answering="knowing")
    assert (task.state, DONE["knowing"]) == ("completed", 1)
    assert "green" in words(Task.objects.get(parent=task.pk, agent__slug="curious"))


def test_the_owner_is_asked_what_no_agent_answers(play):
    task = play({"colour": {"agent": "curious", "message": "it", "time_limit": 600}}, answering="curious")
    assert (task.state, words(task)) == ("input-required", "Which colour for it?")
    step = Step.objects.get()
    assert (step.due_at - step.asked_at).total_seconds() == pytest.approx(600, abs=60)
    assert play.answer(task, "grey").state == "completed"


def test_an_agents_answer_gives_no_more_time(play):
    play.held.add("knowing")
    task = play({"slow": {"agent": "hesitant", "message": "x", "time_limit": 600}}, answering="knowing")
    assert rows(task, "state", "phase") == [("running", "answering")]
    play.held = {"hesitant"}
    task = play.on(task.pk)
    assert rows(task, "state", "phase") == [("running", "work")]
    Step.objects.update(due_at=timezone.now())
    task = play.on(task.pk)
    assert task.state == "failed"
    assert "longer than its limit of 600 seconds" in words(task)


ONE = {"one": {"agent": "loud", "message": "{{ inputs.city }} {{ inputs.days }} {{ inputs.text }}"}}
TRIP = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
}


def test_missing_or_unfit_inputs_are_asked_for(play):
    task = play(ONE, "go", inputs=TRIP)
    assert (task.state, set(task.slot["schema"]["properties"])) == ("input-required", {"city", "days"})
    task = play.answer(task, **data({"city": "Rome", "days": "many"}))
    assert "'many' is not of type 'integer'" in words(task)
    assert (task.state, set(task.slot["schema"]["properties"])) == ("input-required", {"days"})
    task = play.answer(task, "3")
    assert (task.state, DONE["loud:Rome 3 go"]) == ("completed", 1)
    assert play(ONE, '{"city": "Bern", "days": 2}', inputs=TRIP).state == "completed"
    assert DONE["loud:Bern 2"] == 1, "inputs may be JSON text"


@pytest.mark.parametrize(
    ("schema", "wrong", "right"),
    [
        ({"type": "number"}, ["NaN", "-1e999"], "2.5"),
        ({"type": "array", "items": {}}, [r'["\u0000"]', "[-Infinity]", '[{"a": 1, "a": 2}]'], "[1]"),
    ],
)
def test_an_unkeepable_answer_is_asked_for_again(play, schema, wrong, right):
    inputs = {"type": "object", "properties": {"given": schema}, "required": ["given"]}
    task = play({"one": {"agent": "loud", "message": "{{ inputs.given }}"}}, "go", inputs=inputs)
    for text in wrong:
        task = play.answer(task, text)
        assert task.state == "input-required", text
        assert f"is not of type '{schema['type']}'" in words(task)
    task = play.answer(task, right)
    assert (task.state, DONE[f"loud:{right}"]) == ("completed", 1)


UPLOAD = {
    "screen": {
        "person": {"ask": "Upload the screening data for {{ inputs.text }}.", "upload": True},
        "output": {"artifact": "screening.csv", "media_type": "text/csv", "columns": ["compound", "effect"]},
    },
    "after": {"agent": "loud", "message": "{{ steps.screen.artifacts[0].text }}"},
}


def file(text, media_type="text/csv", name="mine.csv"):
    raw = base64.b64encode(text.encode()).decode()
    return {"parts": [{"raw": raw, "filename": name, "mediaType": media_type}]}


def test_a_person_uploads_what_a_step_wants(play):
    task = play(UPLOAD, "assay 1")
    assert (task.state, words(task)) == ("input-required", "Upload the screening data for assay 1.")
    assert task.slot["schema"]["properties"]["file"]["format"] == "binary"
    for wrong, told in (
        ({"text": "here you are"}, "Please attach a file"),
        (file("compound;dose\na;1"), "has no column `effect`"),
        (file("x", "image/png", "x.png"), "it has to be `text/csv`"),
    ):
        task = play.answer(task, **wrong)
        assert (task.state, told in words(task)) == ("input-required", True), words(task)
    task = play.answer(task, **file("compound,effect\na,1"))
    assert (task.state, DONE["loud:compound,effect\na,1"]) == ("completed", 1), words(task)


def test_one_value_completes_a_question_by_every_way(play):
    asked = {"person": {"ask": "Really?", "schema": {"type": "string", "enum": ["yes", "no"]}}}
    steps = {"one": asked, "after": {"agent": "loud", "message": "{{ steps.one.data }}"}}
    for given in ({"text": "yes"}, data("yes"), data({"answer": "yes"})):
        assert play.answer(play(steps), **given).state == "completed", given
    assert DONE["loud:yes"] == 3
    assert "'perhaps' is not one of" in words(play.answer(play(steps), "perhaps"))


def test_a_step_begins_once_a_person_approves(play):
    steps = {"one": {"agent": "loud", "message": "hello", "approve": "before"}}
    task = play(steps)
    assert (task.state, "hello" in words(task), sum(DONE.values())) == ("input-required", True, 0)
    task = play.answer(task, **data({"approved": True}))
    assert (task.state, DONE["loud:hello"]) == ("completed", 1)
    task = play.answer(play(steps), **data({"approved": False, "comment": "Too dear."}))
    assert (task.state, words(task)) == ("failed", "The step “one” failed: It was not approved: Too dear.")
    assert DONE["loud:hello"] == 1


def test_an_unapproved_step_does_not_begin_by_retrying(play):
    task = play({"one": {"agent": "loud", "message": "hello", "approve": "before", "on_failure": "ask"}})
    for _ in range(2):
        assert "May the step" in words(task)
        task = play.answer(task, **data({"approved": False}))
        assert "It was not approved." in words(task)
        task = play.answer(task, **data({"decision": "try again"}))
    assert not DONE
    task = play.answer(task, **data({"approved": True}))
    assert (task.state, DONE["loud:hello"]) == ("completed", 1)


@pytest.mark.parametrize("given", [5, {"parleyRequest": {}, "dose": "lethal"}])
def test_whoever_approves_sees_all_that_is_sent(play, given):
    steps = {
        "form": {"person": {"ask": "What?", "schema": {}}},
        "one": {"agent": "loud", "message": "x", "attach": ["steps.form"], "approve": "before"},
    }
    task = play.answer(play(steps), **data(given))
    assert (task.state, "May the step" in words(task)) == ("input-required", True), words(task)
    assert [part["data"] for part in task.status_message["parts"] if "data" in part] == [given]


def test_a_delivery_counts_once_a_person_approves(play):
    task = play({"one": {"agent": "loud", "message": "hello", "approve": "after", "retries": 1}})
    assert "HELLO" in words(task)
    task = play.answer(task, **data({"approved": False}))
    assert (task.state, DONE["loud:hello"]) == ("input-required", 2)
    task = play.answer(task, **data({"approved": True}))
    assert task.state == "completed"
    assert Artifact.objects.delivered().get(task=task).parts[0]["text"] == "HELLO"


@pytest.mark.parametrize(
    ("decision", "state", "step"),
    [
        ("try again", "completed", "done"),
        ("go on without it", "completed", "skipped"),
        ("end the plan", "failed", "failed"),
    ],
)
def test_a_person_decides_about_a_failure(play, decision, state, step):
    task = play({"one": {"agent": "brittle", "message": "1", "on_failure": "ask"}})
    assert task.state == "input-required"
    assert "failed: The glass is broken." in words(task)
    task = play.answer(task, **data({"decision": decision}))
    assert (task.state, rows(task, "state")) == (state, [step])


def test_a_message_during_work_changes_nothing(play):
    task = play.answer(play({"one": {"agent": "patient", "message": "x"}}), "Hurry!")
    assert Event.objects.filter(task=task, payload__message__parts__0__text=NOTHING_ASKED).exists()
    assert play.release(task).state == "completed"
    assert Task.objects.filter(parent=task.pk).count() == 1


def test_a_cancel_stops_all(play):
    steps = {
        "one": {"agent": "patient", "message": "x"},
        "ask": {"agent": "curious", "message": "y"},
        "then": {"agent": "loud", "message": "z", "depends_on": ["one"]},
    }
    task = play(steps)
    assert rows(task, "state") == ["asking", "running", "waiting"]
    cancel.cancel_by_id(play.ada.principal, task.agent, str(task.pk))
    task = play.release(task)
    assert (task.state, set(rows(task, "state"))) == ("canceled", {"canceled"})
    assert not Task.objects.unfinished().exists()
    assert not DONE["loud:z"]


def test_the_time_that_people_take_is_not_counted(play):
    task = play({"ask": {"agent": "curious", "message": "it", "time_limit": 1000}})
    hour = datetime.timedelta(hours=1)
    step = Step.objects.get()
    Step.objects.update(asked_at=step.asked_at - hour, due_at=step.due_at - hour)
    assert (step.due_at - hour < timezone.now(), jobs.RUNS_TO_ADVANCE.sweep()) == (True, 0)
    play.held.add("curious")
    play.answer(task, "red")
    engine.advance(task.pk)
    later = Step.objects.get().due_at - (step.due_at - hour)
    assert hour <= later < hour * 1.1
    assert play.release(task).state == "completed"
