"""An artifact that is begun again under its id replaces what was there: in one turn, in the next, and after a crash."""

import pytest

from agentkit import Artifact as Made
from agentkit import Completed, InputRequired
from apps.conversations import intake, replay, wire
from apps.conversations.models import Artifact, Task
from tests.working import begin, chunk, end, let_the_lease_run_out, say

pytestmark = [pytest.mark.django_db, pytest.mark.services("the ledger writes each database's own SQL")]


@pytest.fixture
def sent(ada, echo, said):
    echo.retry_safe = True
    echo.save()
    return intake.accept(ada.principal, echo, said())


def assert_delivered(sent, expected):
    shown = wire.load_task(Task.objects.select_related("context").get(pk=sent.task))
    assert {one["artifactId"]: [part["text"] for part in one["parts"]] for one in shown["artifacts"]} == expected
    assert replay.differences(sent.context) == []


def test_within_a_turn_and_twice_in_one_transaction(sent):
    run = begin(sent.run)
    say(run, chunk("a", "first", last=False), chunk("a", "more", append=True))
    say(run, chunk("a", "second"), chunk("b", "other"))
    say(run, chunk("c", "first"), chunk("c", "second", last=False), chunk("c", "and more", append=True))
    end(run, Completed("done"))
    assert_delivered(sent, {"a": ["second"], "b": ["other"], "c": ["second", "and more"]})


def test_by_the_outcome(sent):
    run = begin(sent.run)
    say(run, chunk("a", "draft"))
    end(run, Completed("done", [Made([{"text": "final"}], artifact_id="a")]))
    assert_delivered(sent, {"a": ["final"]})


def test_by_a_second_attempt(sent):
    first = begin(sent.run)
    say(first, chunk("a", "half", last=False))
    let_the_lease_run_out(first.hold)
    second = begin(sent.run)
    say(second, chunk("a", "whole"))
    end(second, Completed("done"))
    assert_delivered(sent, {"a": ["whole"]})
    assert Artifact.objects.count() == 1


def test_by_the_next_turn(sent, ada, echo, said):
    run = begin(sent.run)
    say(run, chunk("a", "draft"))
    end(run, InputRequired("Like this?"))
    run = begin(intake.accept(ada.principal, echo, said("shorter", taskId=str(sent.task))).run)
    say(run, chunk("a", "final"))
    end(run, Completed("done"))
    assert_delivered(sent, {"a": ["final"]})
