"""What steps ask reaches whoever started the plan, or is answered for them; people do steps, agree and decide."""

import base64
import datetime

import pytest
from django.utils import timezone

import bridge
from apps.conversations import canceling
from apps.conversations.lifecycle import TaskState
from apps.conversations.models import Artifact, Event, Task
from apps.orchestration import listening, sweeping
from apps.orchestration.executing import UNHEARD
from apps.orchestration.models import Step
from apps.runtime.sending import accept_and_publish
from tests.orchestration.plan_agents import DONE
from tests.orchestration.test_plans_run import the_record_holds
from tests.runtime.delegating import done, ended, sent, until, words

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("worker")]


async def answered(ada, agent, said, task, text="", **fields):
    """The plan's task after an answer, as it stands when it has ended or asks again."""
    fields = {"taskId": str(task.pk), **fields}
    return await ended(await sent(ada.principal, agent, said(text, **fields)))


def data(value):
    return {"parts": [{"data": value}]}


async def test_the_question_of_a_step_is_the_plans_and_the_answer_goes_down(ada, plan, said):
    steps = {
        "colour": {"agent": "curious", "message": "the wall"},
        "after": {"agent": "loud", "message": "{{ steps.colour.data.colour }}"},
    }
    agent = await bridge.run(lambda: plan(steps))
    task = await done(ada.principal, agent, said())
    assert (task.state, words(task)) == ("input-required", "Which colour for the wall?")
    assert task.slot["name"] == "colour"
    assert await bridge.run(lambda: Step.objects.get(key="colour").state) == "asking"
    task = await answered(ada, agent, said, task, "blue")
    assert (task.state, DONE["loud:blue"], DONE["curious"]) == ("completed", 1, 1)
    await the_record_holds()


async def test_several_questions_are_asked_one_after_the_other(ada, plan, said):
    steps = {"ask": {"agent": "curious", "message": "{{ item }}", "for_each": "['door', 'wall', 'roof']"}}
    agent = await bridge.run(lambda: plan(steps))
    task = await done(ada.principal, agent, said())
    asked = set()
    for _ in range(3):
        assert task.state == "input-required"
        asked.add(task.status_message["parts"][0]["text"])
        task = await answered(ada, agent, said, task, "red")
    assert task.state == "completed"
    assert asked == {f"Which colour for {what}?" for what in ("door", "wall", "roof")}
    await the_record_holds()


async def test_a_question_that_somebody_answers_where_it_was_asked_is_the_plans_no_more(ada, plan, said):
    agent = await bridge.run(lambda: plan({"ask": {"agent": "curious", "message": "it"}}))
    task = await done(ada.principal, agent, said())

    def answer():
        child = Task.objects.select_related("agent").get(parent=task.pk)
        accept_and_publish(ada.principal, child.agent, said("pink", taskId=str(child.pk)))

    await bridge.run(answer)
    await until(lambda: Task.objects.get(pk=task.pk).state == "completed")


async def test_an_answering_agent_answers_in_the_owners_place(ada, plan, said):
    steps = {"colour": {"agent": "curious", "message": "it"}}
    agent = await bridge.run(lambda: plan(steps, answering="knowing"))
    task = await done(ada.principal, agent, said())
    assert task.state == "completed"
    assert DONE["knowing"] == 1
    child = await bridge.run(lambda: Task.objects.get(parent=task.pk, agent__slug="curious"))
    assert "green" in words(child)


async def test_what_an_answering_agent_cannot_answer_the_owner_is_asked(ada, plan, said):
    steps = {"colour": {"agent": "curious", "message": "it", "time_limit": 600}}
    agent = await bridge.run(lambda: plan(steps, answering="curious"))
    task = await done(ada.principal, agent, said())
    assert (task.state, words(task)) == ("input-required", "Which colour for it?")
    step = await bridge.run(Step.objects.get)
    assert (step.due_at - step.asked_at).total_seconds() == pytest.approx(600, abs=60)
    assert (await answered(ada, agent, said, task, "grey")).state == "completed"


async def test_inputs_that_are_missing_are_asked_for(ada, plan, said):
    inputs = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city", "days"],
    }
    steps = {"one": {"agent": "loud", "message": "{{ inputs.city }} {{ inputs.days }} {{ inputs.text }}"}}
    agent = await bridge.run(lambda: plan(steps, inputs=inputs))
    task = await done(ada.principal, agent, said("go"))
    assert task.state == "input-required"
    assert set(task.slot["schema"]["properties"]) == {"city", "days"}
    task = await answered(ada, agent, said, task, **data({"city": "Rome"}))
    assert (task.state, set(task.slot["schema"]["properties"])) == ("input-required", {"days"})
    task = await answered(ada, agent, said, task, "3")
    assert (task.state, DONE["loud:Rome 3 go"]) == ("completed", 1)
    await the_record_holds()


async def test_inputs_of_the_wrong_shape_are_asked_for_again(ada, plan, said):
    inputs = {"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days"]}
    agent = await bridge.run(lambda: plan({"one": {"agent": "loud", "message": "{{ inputs.days }}"}}, inputs=inputs))
    task = await done(ada.principal, agent, said(**data({"days": "many"})))
    assert task.state == "input-required"
    assert "'many' is not of type 'integer'" in words(task)
    task = await answered(ada, agent, said, task, **data({"days": 2}))
    assert task.state == "completed"


@pytest.mark.parametrize(
    ("schema", "wrong", "right"),
    [
        ({"type": "number"}, ["NaN", "1e999", "-1e999"], "2.5"),
        ({"type": "array", "items": {}}, [r'["\u0000"]', "[-Infinity]", '[{"a": 1, "a": 2}]'], "[1]"),
    ],
)
async def test_an_answer_that_cannot_be_kept_is_asked_for_again(ada, plan, said, schema, wrong, right):
    inputs = {"type": "object", "properties": {"given": schema}, "required": ["given"]}
    agent = await bridge.run(lambda: plan({"one": {"agent": "loud", "message": "{{ inputs.given }}"}}, inputs=inputs))
    task = await done(ada.principal, agent, said("go"))
    for text in wrong:
        task = await answered(ada, agent, said, task, text)
        assert task.state == "input-required", text
        assert f"is not of type '{schema['type']}'" in words(task)
    task = await answered(ada, agent, said, task, right)
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


async def test_a_person_uploads_what_a_step_wants_and_the_wrong_shape_is_asked_for_again(ada, plan, said):
    agent = await bridge.run(lambda: plan(UPLOAD))
    task = await done(ada.principal, agent, said("assay 1"))
    assert (task.state, words(task)) == ("input-required", "Upload the screening data for assay 1.")
    assert task.slot["schema"]["properties"]["file"]["format"] == "binary"
    task = await answered(ada, agent, said, task, "here you are")
    assert (task.state, "Please send the file" in words(task)) == ("input-required", True)
    task = await answered(ada, agent, said, task, **file("compound;dose\na;1"))
    assert task.state == "input-required"
    assert "has no column `effect`" in words(task)
    task = await answered(ada, agent, said, task, **file("x", "image/png", "x.png"))
    assert "it has to be `text/csv`" in words(task)
    task = await answered(ada, agent, said, task, **file("compound,effect\na,1"))
    assert task.state == "completed", words(task)
    assert DONE["loud:compound,effect\na,1"] == 1
    await the_record_holds()


async def test_a_person_fills_in_a_form(ada, plan, said):
    schema = {"type": "object", "properties": {"dose": {"type": "number"}}, "required": ["dose"]}
    steps = {
        "form": {"person": {"ask": "Which dose?", "schema": schema}},
        "after": {"agent": "loud", "message": "{{ steps.form.data.dose }}"},
    }
    agent = await bridge.run(lambda: plan(steps))
    task = await done(ada.principal, agent, said())
    assert task.slot["schema"]["properties"] == schema["properties"]
    task = await answered(ada, agent, said, task, "a lot")
    assert task.state == "input-required"
    task = await answered(ada, agent, said, task, **data({"dose": 1.5}))
    assert (task.state, DONE["loud:1.5"]) == ("completed", 1)


async def test_a_step_begins_once_a_person_approves(ada, plan, said):
    steps = {"one": {"agent": "loud", "message": "hello", "approve": "before"}}
    agent = await bridge.run(lambda: plan(steps))
    task = await done(ada.principal, agent, said())
    assert task.state == "input-required"
    assert "hello" in words(task)
    assert not DONE
    task = await answered(ada, agent, said, task, **data({"approved": True}))
    assert (task.state, DONE["loud:hello"]) == ("completed", 1)
    task = await done(ada.principal, agent, said())
    task = await answered(ada, agent, said, task, **data({"approved": False, "comment": "Too dear."}))
    assert (task.state, words(task)) == ("failed", "The step “one” failed: It was not approved: Too dear.")
    assert DONE["loud:hello"] == 1


async def test_what_a_step_delivered_counts_once_a_person_approves(ada, plan, said):
    steps = {"one": {"agent": "loud", "message": "hello", "approve": "after", "retries": 1}}
    agent = await bridge.run(lambda: plan(steps))
    task = await done(ada.principal, agent, said())
    assert "HELLO" in words(task)
    task = await answered(ada, agent, said, task, **data({"approved": False}))
    assert (task.state, DONE["loud:hello"]) == ("input-required", 2)
    task = await answered(ada, agent, said, task, **data({"approved": True}))
    assert task.state == "completed"
    made = await bridge.run(lambda: Artifact.objects.delivered().get(task=task))
    assert made.parts[0]["text"] == "HELLO"
    await the_record_holds()


@pytest.mark.parametrize(
    ("decision", "state", "step"),
    [
        ("try again", "completed", "done"),
        ("go on without it", "completed", "skipped"),
        ("end the plan", "failed", "failed"),
    ],
)
async def test_a_person_decides_about_a_failure(ada, plan, said, decision, state, step):
    steps = {"one": {"agent": "brittle", "message": "1", "on_failure": "ask"}}
    agent = await bridge.run(lambda: plan(steps))
    task = await done(ada.principal, agent, said())
    assert task.state == "input-required"
    assert "failed: The glass is broken." in words(task)
    task = await answered(ada, agent, said, task, **data({"decision": decision}))
    assert task.state == state
    await until(lambda: Step.objects.get(run=task.pk).state == step)


async def test_a_message_to_a_plan_at_work_changes_nothing(ada, plan, said):
    from tests.orchestration.plan_agents import GATE

    agent = await bridge.run(lambda: plan({"one": {"agent": "patient", "message": "x"}}))
    receipt = await sent(ada.principal, agent, said())
    await until(lambda: DONE["patient"])
    await until(lambda: Task.objects.get(pk=receipt.task).runs.filter(state="done").exists())
    await sent(ada.principal, agent, said("Hurry!", taskId=str(receipt.task)))
    await until(lambda: Task.objects.get(pk=receipt.task).runs.filter(state="done").count() == 2)
    unheard = Event.objects.filter(task=receipt.task, payload__message__parts__0__text=UNHEARD)
    await until(unheard.exists)
    GATE.set()
    assert (await ended(receipt)).state == "completed"
    assert await bridge.run(Task.objects.filter(parent=receipt.task).count) == 1
    await the_record_holds()


async def test_a_cancel_stops_all(ada, plan, said):
    steps = {
        "one": {"agent": "patient", "message": "x"},
        "ask": {"agent": "curious", "message": "y"},
        "then": {"agent": "loud", "message": "z", "depends_on": ["one"]},
    }
    agent = await bridge.run(lambda: plan(steps))
    receipt = await sent(ada.principal, agent, said())
    await until(lambda: DONE["patient"] and Step.objects.filter(state="asking").exists())
    await bridge.run(canceling.cancel, ada.principal, agent, str(receipt.task))
    await until(lambda: set(Step.objects.values_list("state", flat=True)) == {"canceled"})
    await until(lambda: not Task.objects.unfinished().exists())
    assert not DONE["loud:z"]
    await the_record_holds()


async def test_the_time_that_people_take_is_not_counted(ada, plan, said):
    agent = await bridge.run(lambda: plan({"ask": {"agent": "curious", "message": "it", "time_limit": 1000}}))
    task = await done(ada.principal, agent, said())
    hour = datetime.timedelta(hours=1)

    def an_hour_passes():
        step = Step.objects.get()
        Step.objects.update(asked_at=step.asked_at - hour, due_at=step.due_at - hour)
        assert step.due_at - hour < timezone.now()

    await bridge.run(an_hour_passes)
    assert await bridge.run(sweeping.sweep) == 0
    due = await bridge.run(lambda: Step.objects.get().due_at)
    child = await bridge.run(lambda: Task.objects.get(parent=task.pk).pk)
    await bridge.run(listening._mark, child, TaskState.WORKING)
    later = await bridge.run(lambda: Step.objects.get().due_at - due)
    assert hour <= later < hour * 1.1
    await bridge.run(lambda: Step.objects.update(state="asking"))
    assert (await answered(ada, agent, said, task, "red")).state == "completed"
