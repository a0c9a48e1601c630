"""Whatever follows the description of HTTP+JSON, or nearly, gets an answer or an error of the described shape."""

import hypothesis
import schemathesis
from schemathesis import checks
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from tests.conformance.openapi import ADDRESSES, description
from tests.stack import Stack

schema = schemathesis.openapi.from_dict(description())


def test_every_address_is_described():
    described = {(verb.upper(), path[1:]) for path, verbs in description()["paths"].items() for verb in verbs}
    ours = {("POST", "negotiation")}
    assert described == {(verb, address) for address, verbs in ADDRESSES.items() for verb in verbs} | ours


@schema.parametrize()
@hypothesis.settings(max_examples=40, derandomize=True)
def test_answers_are_as_described(case: schemathesis.Case, server: Stack) -> None:
    case.call_and_validate(
        base_url=f"{server.url}/a2a/echo",
        headers={"Authorization": f"Bearer {server.demo_key}", "A2A-Version": "1.0"},
        checks=[checks.not_a_server_error, content_type_conformance, response_schema_conformance],
        timeout=30,
    )
