"""An agent's examples are sent to it, and its answers compared with what is expected."""

import datetime

import pytest
from django.core.exceptions import ValidationError
from django.urls import reverse
from django.utils import timezone

from agentkit import Artifact, Completed, Failed, InputRequired
from apps.agents.registration import register_hosted
from apps.engine import accept
from apps.features.evaluations import checks, evaluating
from apps.features.evaluations.models import Evaluation, Example, Result
from apps.features.sessions import commands, deletion
from apps.record.execution import Run
from apps.record.models import Context, Feedback, Task
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


def answer_all(*outcomes):
    """Let a worker end the runs that wait, in the order of their tasks."""
    for run, outcome in zip(Run.objects.filter(state="queued").order_by("queued_at"), outcomes, strict=True):
        end(begin(run.pk), outcome)


def delivered(text):
    return Completed("Done.", [Artifact.text("answer", text)])


def results(evaluation):
    return list(Result.objects.filter(evaluation=evaluation).order_by("example").values_list("state", flat=True))


def test_answers_pass_or_fail_and_their_sessions_are_archived(ada, echo, example):
    example("greet", contains="hello\nADA")
    example("greet again", contains="bye")
    example("fail")
    example("ask")
    made = evaluating.start(echo, ada)
    evaluating.go_on()
    assert results(made) == ["waiting"] * 4
    answer_all(delivered("Hello Ada"), delivered("Hello Ada"), Failed("No."), InputRequired("Which?"))
    evaluating.go_on()
    assert results(made) == ["passed", "failed", "failed", "failed"]
    made.refresh_from_db()
    assert made.finished_at
    assert not Context.objects.filter(archived_at=None).exists()
    assert not Task.objects.unfinished().exists()
    assert "bye" in made.results.get(example__text="greet again").problems[0]


def test_a_crash_in_between_sends_no_example_twice(ada, echo, example):
    example()
    made = evaluating.start(echo, ada)
    evaluating.go_on()
    Result.objects.update(task=None)  # the process ended before it noted the task
    evaluating.go_on()
    assert Task.objects.count() == 1
    assert made.results.get().task == Task.objects.get().pk


def test_what_was_deleted_or_is_late_fails(ada, echo, example):
    example()
    made = evaluating.start(echo, ada)
    evaluating.go_on()
    deletion.delete_session(ada.principal, Context.objects.get().pk)
    evaluating.go_on()
    assert results(made) == ["failed"]
    late = evaluating.start(echo, ada)
    evaluating.go_on()
    Evaluation.objects.filter(pk=late.pk).update(started_at="2020-01-01T00:00Z")
    evaluating.go_on()
    assert results(late) == ["failed"]
    assert not Task.objects.unfinished().exists()


def test_without_examples_there_is_nothing_to_evaluate(ada, echo, example):
    row = example()
    Example.objects.filter(pk=row.pk).update(is_active=False)
    with pytest.raises(evaluating.NothingToEvaluate):
        evaluating.start(echo, ada)
    assert not Evaluation.objects.exists()


def test_a_new_version_is_evaluated_by_itself_and_compared(ada, example):
    agent = register_hosted("counted", "examples.agents.echo:Echo")
    example("greet", agent=agent, contains="hello")
    first = evaluating.start(agent, ada)
    evaluating.go_on()
    answer_all(delivered("hello"))
    evaluating.go_on()
    evaluating.start_for_new_versions()
    assert Evaluation.objects.count() == 1, "the version was evaluated"
    changed = register_hosted("counted", "examples.agents.countdown:Countdown")
    assert changed.current_version_id != first.version_id
    evaluating.start_for_new_versions()
    evaluating.start_for_new_versions()
    second = Evaluation.objects.exclude(pk=first.pk).get()
    evaluating.go_on()
    answer_all(delivered("bye"))
    evaluating.go_on()
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
def test_an_invalid_schema_is_refused(example, schema):
    with pytest.raises(ValidationError):
        example(schema=schema)


def test_an_example_that_cannot_be_checked_ends_its_evaluation_after_an_hour(ada, echo, example, monkeypatch):
    example()
    made = evaluating.start(echo, ada)
    evaluating.go_on()
    answer_all(delivered("hello"))

    def broken(*_):
        raise RuntimeError

    monkeypatch.setattr(checks, "problems_of", broken)
    evaluating.go_on()
    assert results(made) == ["waiting"]
    Evaluation.objects.update(started_at="2020-01-01T00:00Z")
    evaluating.go_on()
    assert results(made) == ["failed"]


def test_one_job_at_a_time_works_on_an_evaluation(ada, echo, example):
    example()
    made = evaluating.start(echo, ada)
    assert evaluating.start(echo, ada) == made
    Evaluation.objects.update(taken_until=timezone.now() + datetime.timedelta(minutes=1))
    evaluating.go_on()
    assert not Task.objects.exists()
    Evaluation.objects.update(taken_until=timezone.now())
    evaluating.go_on()
    assert Task.objects.count() == 1


def test_a_bad_rating_becomes_an_example_with_one_press(admin_client, ada, echo, said):
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


def test_operators_evaluate_on_the_agent_s_page(admin_client, client, bob, echo, example):
    example(contains="hello")
    button = reverse("admin:agents_agent_evaluate", args=[echo.pk])
    shown = admin_client.post(button, {"_form_submitted": "True"})["HX-Redirect"]
    evaluating.go_on()
    answer_all(delivered("hello"))
    evaluating.go_on()
    assert "passed" in admin_client.get(shown).content.decode()
    assert admin_client.get(reverse("admin:evaluations_evaluation_changelist")).status_code == 200
    assert admin_client.get(reverse("admin:evaluations_example_changelist")).status_code == 200
    bob.is_staff = True
    bob.save()
    client.force_login(bob)
    assert client.post(button, {"_form_submitted": "True"}).status_code in (302, 403)
    assert Evaluation.objects.count() == 1
