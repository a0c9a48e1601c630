"""The JSON text of a task says what its rows say."""

import json
import uuid

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentkit import Artifact, Completed, InputRequired
from apps.engine import accept
from apps.record import task_json, wire
from apps.record.errors import TaskNotFound
from apps.record.models import Artifact as ArtifactRow
from apps.record.sql import TASK
from tests.working import begin, end

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services("PostgreSQL reads a task by one statement")]
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
NUMBER = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)
VALUE = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner)
)
OBJECT = st.dictionaries(TEXT, VALUE, max_size=3)
OUTCOME = st.builds(
    lambda said, made: Completed(said, [Artifact.text(f"{n} {name}", name) for n, name in enumerate(made)]),
    TEXT.filter(str.strip),
    st.lists(TEXT.filter(str.strip), max_size=3),
) | st.just(InputRequired("which?"))


def shown(task, length=None):
    return json.loads(task_json.find(task, length).json)


def check(task, *lengths):
    for length in lengths:
        assert shown(task, length) == json.loads(json.dumps(wire.load_task(TASK.one(task), history_length=length)))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(text=TEXT, data=VALUE, metadata=OBJECT, signature=OBJECT, extensions=st.lists(TEXT, max_size=2), outcome=OUTCOME)
def test_whatever_was_said_and_made(ada, echo, said, text, data, metadata, signature, extensions, outcome):
    parts = [{"text": text or "-"}, {"data": data, "metadata": metadata}]
    sent = accept.accept(ada.principal, echo, said() | {"parts": parts, "metadata": metadata, "extensions": extensions})
    held = begin(sent.run)
    check(sent.task, None)
    end(held, outcome)
    ArtifactRow.objects.filter(task=sent.task).update(
        signature=signature, metadata=metadata, extensions=extensions, description=text
    )
    check(sent.task, None, 0, 1, 2)


def test_the_newest_messages_in_their_order_of_this_task_alone(ada, echo, said):
    sent = accept.accept(ada.principal, echo, said("0"))
    for n in range(1, 4):
        end(begin(sent.run), InputRequired(f"{n}?"))
        sent = accept.accept(ada.principal, echo, said(str(n)) | {"taskId": str(sent.task)})
    end(begin(sent.run), InputRequired("4?"))
    end(begin(accept.accept(ada.principal, echo, said("another")).run), Completed("done"))
    found = shown(sent.task, 3)
    assert [message["parts"][0]["text"] for message in found["history"]] == ["3?", "3", "4?"]
    check(sent.task, None, 1, 3, 100)


def test_a_task_that_is_not_settled_or_not_there(ada, echo, said):
    sent = accept.accept(ada.principal, echo, said("hi"))
    assert len(shown(sent.task)["history"]) == 1
    assert task_json.find_settled(sent.task) is None
    assert task_json.find(uuid.uuid4()) is None
    with pytest.raises(TaskNotFound):
        task_json.find_settled(uuid.uuid4())
