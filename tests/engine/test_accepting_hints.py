"""What of a message had no effect is a hint in its task's metadata."""

import pytest

from apps.agents.models import Agent
from apps.engine import accept
from apps.record.models import Task

pytestmark = pytest.mark.django_db


def test_unknown_references_are_named_as_hints(ada, bob, echo, said):
    own = str(accept.accept(ada.principal, echo, said("one")).task)
    theirs = str(accept.accept(bob.principal, echo, said("two")).task)
    named = [own, theirs, "none"]
    task = Task.objects.get(pk=accept.accept(ada.principal, echo, said("three", referenceTaskIds=named)).task)
    assert task.references == [own]
    assert [hint.split(" that ")[0] for hint in task.metadata["hints"]] == [
        f"There is no task {theirs}",
        "There is no task none",
    ]
    assert accept.hints_for(echo, said("four", referenceTaskIds=[own]), [own]) == []


@pytest.mark.parametrize("skills", [[], [{"id": "count"}]])
def test_an_unknown_skill_is_named_as_a_hint(said, skills):
    agent = Agent(name="Counter", skills=skills)
    [hint] = accept.hints_for(agent, said("x", metadata={"skillId": "cuont"}), [])
    assert hint.startswith("Counter has no skill cuont. It has ")
    assert accept.hints_for(agent, said("x"), []) == []
