"""The strict reading of answers finds errors."""

import json

import pytest
from a2a.client.transports import jsonrpc, rest
from a2a.types import a2a_pb2 as a2a

from apps.a2a.operations import EXTENSION_METHODS, OPERATIONS
from tests.a2a.strictness import ANSWERS, read_strictly, strict_clients

TASK = {"id": "a", "contextId": "b", "status": {"state": "TASK_STATE_WORKING"}}
SAID = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": ""}]}
WRONG = (
    (a2a.Task, {**TASK, "kind": "task"}),
    (a2a.Task, {**TASK, "artifacts": [{"artifactId": "a"}]}),
    (a2a.Task, {"id": "a", "contextId": "b"}),
    (a2a.StreamResponse, {"task": TASK, "message": SAID}),
    (a2a.StreamResponse, {}),
)


def test_wrong_answers_are_found():
    assert ANSWERS.keys() == OPERATIONS.keys() | EXTENSION_METHODS.keys()
    assert read_strictly({**TASK, "metadata": {"unknown": [{"id": None}]}}, a2a.Task)
    for kind, value in WRONG:
        with pytest.raises(AssertionError):
            read_strictly(value, kind)
    with strict_clients(), pytest.raises(AssertionError):
        jsonrpc.parse_lenient({**TASK, "kind": "task"}, a2a.Task())
    with strict_clients():
        assert rest.parse_lenient(json.dumps(TASK), a2a.Task()) == jsonrpc.parse_lenient(TASK, a2a.Task())
