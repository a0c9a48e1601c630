"""Two versions of an agent are compared by its examples, and by checks of real answers."""

import pytest
from django.urls import reverse
from django.utils import timezone

from agentkit import Artifact, Completed
from apps.agents.models import Agent
from apps.agents.registration import define
from apps.agents.rollouts.models import Rollout
from apps.agents.rollouts.releasing import ROLLOUTS
from apps.conversations.sessions import deletion
from apps.engine.accept import accept
from apps.optional.evaluations import evaluating, sampling
from apps.optional.evaluations.models import Evaluation, Example, Sample, Sampling
from apps.record.execution import Run
from apps.record.models import Context
from tests.agents.definitions import clerk, definition
from tests.work.hand import worked_off
from tests.working import begin, end

pytestmark = [pytest.mark.django_db(transaction=True)]


@pytest.fixture
def agent(ada):
    clerk()
    Agent.objects.update(workspace=ada.personal_workspace, owner=ada)
    version = define(Agent.objects.get(), definition(instructions="Answer in two sentences."), as_candidate=True)
    ROLLOUTS.store(ada.principal, Rollout(candidate=version, percent=0))
    return Agent.objects.get()


def answered(text):
    return Completed("Done.", [Artifact.text("answer", text)])


def answer_each(say):
    for run in Run.objects.filter(state="queued").order_by("queued_at"):
        assignment = begin(run.pk)
        end(assignment, answered(say(assignment.agent.current_version.number)))


def test_both_versions_get_all_examples(client, ada, agent):
    for text in ("greet", "say bye"):
        Example.objects.create(agent=agent, text=text, contains="hello" if text == "greet" else "", created_by=ada)
    client.force_login(ada)
    client.post(reverse("web:evaluate-versions", args=["clerk"]))
    worked_off(evaluating.EVALUATIONS_TO_RUN)
    answer_each(lambda number: "hello" if number == 1 else "good day")
    worked_off(evaluating.EVALUATIONS_TO_RUN)
    found = evaluating.compare([agent.current_version, agent.rollout.candidate])
    assert [(one.passed, one.all) for one in found.evaluations] == [(2, 2), (1, 2)]
    [(example, results)] = found.cases
    assert (example.text, [one.state for one in results]) == ("greet", ["passed", "failed"])
    shown = client.get(reverse("web:agent-versions", args=["clerk"])).content.decode()
    assert "2 of 2" in shown
    assert "1 of 2" in shown
    worked_off(evaluating.EVALUATIONS_TO_RUN)
    assert Evaluation.objects.count() == 2, "the current version was evaluated"


@pytest.fixture
def turn(said):
    def turn(agent, person, text):
        receipt = accept(person.principal, agent, said())
        end(begin(receipt.run), answered(text))
        Run.objects.update(finished_at=timezone.now() - sampling.SETTLING)
        return receipt

    return turn


@pytest.fixture
def sampled(ada, agent):
    long_ago = timezone.now() - timezone.timedelta(hours=1)
    return Sampling.objects.create(agent=agent, percent=100, contains="hello", owner=ada, chosen_until=long_ago)


def checked():
    worked_off(sampling.SAMPLES_TO_CHECK)
    return list(Sample.objects.order_by("finished_at").values_list("version", "state"))


def test_real_answers_are_checked_once(ada, agent, sampled, turn):
    turn(agent, ada, "hello")
    turn(agent, ada, "good day")
    assert sorted(checked()) == [(1, "failed"), (1, "passed")]
    assert len(checked()) == 2
    since = timezone.now() - timezone.timedelta(days=1)
    assert sampling.counts_by_version(agent, since) == {1: (2, 1)}
    assert [one[1:] for one in sampling.counts_by_day(agent, since)] == [(2, 1)]


def test_no_answer_is_checked_unless_switched_on(ada, agent, sampled, turn):
    Sampling.objects.update(percent=0)
    turn(agent, ada, "hello")
    assert checked() == []


def test_sessions_of_others_are_not_checked(ada, bob, agent, sampled, turn):
    Agent.objects.update(access="authenticated")
    turn(agent, bob, "hello")
    assert checked() == []


def test_checks_go_with_their_session(ada, agent, sampled, turn):
    receipt = turn(agent, ada, "hello")
    assert checked() == [(1, "passed")]
    deletion.delete_session(ada.principal, receipt.context)
    assert Context.objects.get(pk=receipt.context).deleted_at
    assert Sample.objects.count() == 0
