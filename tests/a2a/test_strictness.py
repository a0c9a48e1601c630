"""The reading by which all of the suite's answers are checked finds what is wrong with one."""

import json

import pytest
from a2a.client.transports import jsonrpc, rest
from a2a.types import a2a_pb2 as a2a

from apps.a2a.operations import OPERATIONS, OWN_METHODS
from tests.strictness import ANSWERS, read_strictly, strict_clients, strict_operations

TASK = {"id": "a", "contextId": "b", "status": {"state": "TASK_STATE_WORKING"}}
SAID = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": ""}]}
RIGHT = {
    "a task": (a2a.Task, TASK),
    "a list of none": (a2a.ListTasksResponse, {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}),
    "an answer": (a2a.SendMessageResponse, {"message": SAID}),
    "metadata of any shape": (a2a.Task, {**TASK, "metadata": {"unknown": [{"id": None}]}}),
    "data of any shape": (a2a.Message, {**SAID, "parts": [{"data": {"parts": [{}]}}]}),
}
WRONG = {
    "an unknown field": (a2a.Task, {**TASK, "kind": "task"}),
    "an unknown field, deep inside": (
        a2a.Task,
        {**TASK, "history": [{**SAID, "parts": [{"text": "", "kind": "text"}]}]},
    ),
    "a required field that is not there": (a2a.Task, {"id": "a", "contextId": "b"}),
    "one in a list": (a2a.Task, {**TASK, "artifacts": [{"artifactId": "a"}]}),
    "no token of a last page": (a2a.ListTasksResponse, {"tasks": [], "pageSize": 50, "totalSize": 0}),
    "two of a choice": (a2a.StreamResponse, {"task": TASK, "message": SAID}),
    "none of a choice": (a2a.StreamResponse, {}),
    "a part of nothing": (a2a.Message, {**SAID, "parts": [{}]}),
    "a state that is none": (a2a.Task, {**TASK, "status": {"state": "working"}}),
    "a value of another type": (a2a.Task, {**TASK, "id": 5}),
}


@pytest.mark.parametrize(("kind", "value"), RIGHT.values(), ids=RIGHT)
def test_what_is_right_is_read(kind, value):
    assert read_strictly(value, kind)


@pytest.mark.parametrize(("kind", "value"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_found(kind, value):
    with pytest.raises(AssertionError):
        read_strictly(value, kind)


def test_every_operation_says_what_it_answers():
    assert ANSWERS.keys() == OPERATIONS.keys() | OWN_METHODS.keys()


async def test_a_wrong_answer_fails_the_test_in_which_it_is_given(monkeypatch):
    async def answers(call):
        return {"id": "a"}

    async def streams(call):
        async def updates():
            yield [(1, {"unknown": {}})]

        return updates()

    monkeypatch.setitem(OPERATIONS, "GetTask", answers)
    monkeypatch.setitem(OPERATIONS, "SubscribeToTask", streams)
    with pytest.raises(AssertionError, match=r"missing: Task\.status"), strict_operations():
        assert await OPERATIONS["GetTask"](None) == {"id": "a"}
    with pytest.raises(AssertionError, match="unknown"), strict_operations():
        assert [batch async for batch in await OPERATIONS["SubscribeToTask"](None)]


def test_the_sdks_clients_refuse_what_they_would_pass_over():
    with strict_clients(), pytest.raises(AssertionError):
        jsonrpc.parse_lenient({**TASK, "kind": "task"}, a2a.Task())
    with strict_clients():
        assert rest.parse_lenient(json.dumps(TASK), a2a.Task()) == jsonrpc.parse_lenient(TASK, a2a.Task())
