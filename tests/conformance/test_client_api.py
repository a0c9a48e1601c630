"""Requests that follow the API descriptions, or nearly, get the promised answers."""

import os
import zlib
from typing import Any

import httpx
import hypothesis
import pytest
import requests
import schemathesis
from schemathesis import Response, checks
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.stack import ROOT, running

pytestmark = pytest.mark.slow("requests by the hundred to a Parley of its own")

JSON = dict[str, Any]

EXAMPLES = int(os.environ.get("SCHEMA_EXAMPLES", "8"))
"""How much is tried at each operation. A few hundred take a quarter of an hour, and find what hides."""

PROMISES = [checks.not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
ENDLESS = "text/event-stream"
"""What is answered so streams for as long as somebody listens: of that the beginning is looked at here."""

described = schemathesis.openapi.from_path(ROOT / "docs" / "client-api" / "openapi.yaml")


def is_endless(context: Any) -> bool:
    answers = context.operation.definition.raw["responses"].values()
    return any(ENDLESS in answer.get("content", {}) for answer in answers)


schema, streams = described.exclude(is_endless), described.include(is_endless)


@pytest.fixture(scope="module")
def parley():
    """With quotas off."""
    with running(ACTS_PER_MINUTE="1000000", FORKS_PER_MINUTE="1000000") as stack:
        yield stack


@pytest.fixture(scope="module")
def client(parley):
    headers = {"Authorization": f"Bearer {parley.demo_key}"}
    with httpx.Client(base_url=f"{parley.url}/api/v1", headers=headers, timeout=60) as client:
        yield client


@pytest.fixture
def there(client):
    """Existing objects by parameter name: first finished ones, then waiting ones."""
    return [begun(client, "echo", "hello"), begun(client, "report", "A report, please.")]


def begun(client: httpx.Client, agent: str, words: str) -> JSON:
    told = client.post("/sessions", json={"agent": agent, "message": {"text": words}, "wait": True}).json()
    session, task, answer = told["session"]["id"], told["task"], told["answer"]
    artifacts = [name.partition("/")[2] for name in task["artifacts"]]
    known = {"session": session, "slug": agent, "agent": agent, "message": told["message"]["id"]}
    known |= {"task": task["id"], "run": answer["metadata"]["agentRunId"]}
    return known | ({"artifact": artifacts[0]} if artifacts else {})


often = hypothesis.settings(max_examples=EXAMPLES, suppress_health_check=list(hypothesis.HealthCheck))


@schema.parametrize()
@often
def test_answers_are_as_promised(case, parley, there):
    ask_for_some_of(there, case)
    headers = {"Authorization": f"Bearer {parley.demo_key}"}
    case.call_and_validate(base_url=parley.url, headers=headers, checks=PROMISES, timeout=60)


@streams.parametrize()
@often
def test_streams_begin_as_promised(case, parley, there):
    ask_for_some_of(there, case)
    headers = {"Authorization": f"Bearer {parley.demo_key}"}
    asked = case.as_transport_kwargs(base_url=parley.url, headers=headers)
    with requests.request(**asked, stream=True, timeout=60) as answer:
        if answer.headers["Content-Type"].startswith(ENDLESS):
            assert answer.status_code == 200
            assert next(answer.iter_content(1), b":") in b":eidr"  # a comment, or a field of an event
        else:
            case.validate_response(Response.from_any(answer), checks=PROMISES)


def ask_for_some_of(there: list[JSON], case: schemathesis.Case) -> None:
    """Replace generated ids by existing ones, except in one case of four."""
    chosen = zlib.crc32(repr((case.path_parameters, case.query, case.body)).encode()) % 4
    known = there[chosen % len(there)] if chosen else {}
    for given in (case.path_parameters, case.query, case.body):
        if isinstance(given, dict):
            given.update({name: known[name] for name in given if name in known})
