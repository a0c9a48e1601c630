"""The error table says each error as the protocol's own SDK says it."""

from collections.abc import Iterator

import pytest
from a2a.utils import errors as sdk

from apps.a2a import errors
from apps.conversations.errors import Refusal

ERRORS = [kind for kind in sdk.JSON_RPC_ERROR_CODE_MAP if kind.__name__.removesuffix("Error") in dir(errors)]


def refusals(kind: type[Exception] = Refusal) -> Iterator[type[Exception]]:
    for each in kind.__subclasses__():
        yield each
        yield from refusals(each)


def test_most_errors_of_the_sdk_are_known_here():
    assert len(ERRORS) >= 10


@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_has_the_code_the_status_and_the_reason_of_the_protocol(kind):
    row = errors.TABLE[getattr(errors, kind.__name__.removesuffix("Error"))]
    assert row.code == sdk.JSON_RPC_ERROR_CODE_MAP[kind]
    mapping = sdk.A2A_ERROR_MAPPING.get(kind)
    if mapping and row.code > -32099:
        assert (row.http, row.status, row.reason) == (mapping.http_code, mapping.grpc_status, mapping.reason)
    elif mapping:
        assert (row.http, row.status) == (mapping.http_code, mapping.grpc_status)


def is_of_another_edge(kind: type[Exception]) -> bool:
    return kind.__module__.startswith(("apps.api.", "apps.web.", "apps.conversations.queued"))  # A2A has no queue


@pytest.mark.parametrize(
    "kind", sorted({kind for kind in refusals() if not is_of_another_edge(kind)}, key=lambda kind: kind.__name__)
)
def test_every_refusal_of_the_house_can_be_said_in_the_protocol(kind):
    row = next((errors.TABLE[one] for one in kind.__mro__ if one in errors.TABLE), None)
    assert row is not None


def test_only_errors_of_http_have_codes_of_http():
    for row in errors.TABLE.values():
        assert row.code == row.http if row.code > 0 else row.code < -32000
