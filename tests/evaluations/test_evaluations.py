"""An agent's examples are sent to it, and its answers compared with what is expected."""

import datetime

import pytest
from django.core.exceptions import ValidationError
from django.urls import reverse
from django.utils import timezone

from agentkit import Artifact, Completed, Failed, InputRequired
from apps.agents.registration import register_hosted
from apps.conversations.sessions import commands, deletion
from apps.engine import accept
from apps.optional.evaluations import checks, evaluating
from apps.optional.evaluations.models import Evaluation, Example, Result
from apps.record.execution import Run
from apps.record.models import Context, Feedback, Task
from tests.work.hand import worked_off
from tests.working import begin, end

pytestmark = [pytest.mark.django_db(transaction=True)]


@pytest.fixture
def example(ada, echo):
    def add(text="hello", agent=echo, **expected):
        row = Example(agent=agent, text=text, **expected)
        row.full_clean()
        row.save()
        return row

    return add


def work():
    worked_off(evaluating.EVALUATIONS_TO_RUN)


def answer(*outcomes):
    """Let a worker end the runs that wait, in the order of their tasks, and compare."""
    for run, outcome in zip(Run.objects.filter(state="queued").order_by("queued_at"), outcomes, strict=True):
        end(begin(run.pk), outcome)
    work()


def started(agent, person):
    made = evaluating.start(agent, person)
    work()
    return made


def overdue():
    Evaluation.objects.update(started_at="2020-01-01T00:00Z")
    work()


def delivered(text):
    return Completed("Done.", [Artifact.text("answer", text)])


def results(evaluation):
    return list(Result.objects.filter(evaluation=evaluation).order_by("example").values_list("state", flat=True))


def test_answers_pass_or_fail_and_sessions_are_archived(ada, echo, example):
    example("greet", contains="hello\nADA")
    example("greet again", contains="bye")
    example("fail")
    example("ask")
    made = started(echo, ada)
    assert results(made) == ["waiting"] * 4
    answer(delivered("Hello Ada"), delivered("Hello Ada"), Failed("No."), InputRequired("Which?"))
    assert results(made) == ["passed", "failed", "failed", "failed"]
    made.refresh_from_db()
    assert made.finished_at
    assert not Context.objects.filter(archived_at=None).exists()
    assert not Task.objects.unfinished().exists()
    assert "bye" in made.results.get(example__text="greet again").problems[0]


def test_one_job_at_a_time_sends_each_once(ada, echo, example):
    example()
    made = evaluating.start(echo, ada)
    assert evaluating.start(echo, ada) == made
    Evaluation.objects.update(lease_until=timezone.now() + datetime.timedelta(minutes=1))
    work()
    assert not Task.objects.exists()
    Evaluation.objects.update(lease_until=timezone.now())
    work()
    Result.objects.update(task=None)  # the process ended before it noted the task
    work()
    assert made.results.get().task == Task.objects.get().pk


def test_deleted_or_late_example_fails(ada, echo, example):
    example()
    made = started(echo, ada)
    deletion.delete_session(ada.principal, Context.objects.get().pk)
    work()
    assert results(made) == ["failed"]
    late = started(echo, ada)
    overdue()
    assert (results(late), Task.objects.unfinished().exists()) == (["failed"], False)


def test_new_version_is_evaluated_and_compared(ada, example):
    agent = register_hosted("counted", "examples.agents.echo:Echo")
    example("greet", agent=agent, contains="hello")
    first = started(agent, ada)
    answer(delivered("hello"))
    evaluating.start_for_new_versions()
    assert Evaluation.objects.count() == 1, "the version was evaluated"
    changed = register_hosted("counted", "examples.agents.countdown:Countdown")
    assert changed.current_version_id != first.version_id
    for _ in range(2):
        evaluating.start_for_new_versions()
    second = Evaluation.objects.exclude(pk=first.pk).get()
    work()
    answer(delivered("bye"))
    assert second.previous == first
    [(_, now, before)] = evaluating.comparison(second)
    assert (now.state, before.state) == ("failed", "passed")


@pytest.mark.parametrize(
    ("expected", "parts", "passes"),
    [
        ({"equals": {"a": [1]}}, [{"data": {"a": [1]}}], True),
        ({"equals": {"a": [1]}}, [{"text": '```json\n{"a": [1]}\n```'}], True),
        ({"equals": {"a": [1]}}, [{"text": '{"a": [2]}'}], False),
        ({"equals": {}}, [{"text": "no JSON"}], False),
        ({"schema": {"type": "object", "required": ["a"]}}, [{"data": {"a": 1}}], True),
        ({"schema": {"type": "object", "required": ["a"]}}, [{"data": {}}], False),
        ({"contains": "straße"}, [{"text": "STRASSE 1"}], True),
        ({}, [{"text": ""}], True),
    ],
)
def test_expectations(expected, parts, passes):
    assert (not checks.problems_of(Example(**expected), parts)) == passes


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"$ref": "#/nope"}, {"$ref": "http://127.0.0.1:1/schema"}])
def test_invalid_schema_is_refused(example, schema):
    with pytest.raises(ValidationError):
        example(schema=schema)


def test_bad_rating_becomes_an_example(admin_client, ada, echo, said):
    receipt = accept.accept(ada.principal, echo, said("What is 2 + 2?"))
    end(begin(receipt.run), Completed("5"))
    task = Task.objects.select_related("context").get(pk=receipt.task)
    commands.give_feedback(ada.principal, echo, str(task.pk), {"rating": 1, "feedback": "It is wrong."})
    button = reverse("admin:record_feedback_add_example", args=[Feedback.objects.get().pk])
    for _ in range(2):
        pressed = admin_client.post(button, {"_form_submitted": "True"})
        row = Example.objects.get()
        assert pressed["HX-Redirect"] == reverse("admin:evaluations_example_change", args=[row.pk])
    assert (row.text, row.agent, row.source) == ("What is 2 + 2?", echo, task.pk)
    assert "It is wrong." in row.judged_by


def test_only_operators_evaluate(admin_client, client, bob, echo, example):
    example(contains="hello")
    button = reverse("admin:agents_agent_evaluate", args=[echo.pk])
    shown = admin_client.post(button, {"_form_submitted": "True"})["HX-Redirect"]
    work()
    answer(delivered("hello"))
    assert "passed" in admin_client.get(shown).content.decode()
    for rows in ("evaluation", "example"):
        assert admin_client.get(reverse(f"admin:evaluations_{rows}_changelist")).status_code == 200
    bob.is_staff = True
    bob.save()
    client.force_login(bob)
    assert client.post(button, {"_form_submitted": "True"}).status_code in (302, 403)
    assert Evaluation.objects.count() == 1
