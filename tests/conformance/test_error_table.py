"""The error table says each error as the protocol's own SDK says it."""

from collections.abc import Iterator

from a2a.utils import errors as sdk

from apps.a2a import errors
from apps.record.errors import Refusal

ERRORS = [kind for kind in sdk.JSON_RPC_ERROR_CODE_MAP if kind.__name__.removesuffix("Error") in dir(errors)]


def refusals(kind: type[Exception] = Refusal) -> Iterator[type[Exception]]:
    for each in kind.__subclasses__():
        yield each
        yield from refusals(each)


def is_of_another_edge(kind: type[Exception]) -> bool:
    return kind.__module__.startswith(("apps.api.", "apps.web.", "apps.features.queue.messages"))  # A2A has no queue


def test_an_error_has_the_code_the_status_and_the_reason_of_the_protocol():
    assert len(ERRORS) >= 10
    for kind in ERRORS:
        row = errors.TABLE[getattr(errors, kind.__name__.removesuffix("Error"))]
        assert row.code == sdk.JSON_RPC_ERROR_CODE_MAP[kind], kind
        if mapping := sdk.A2A_ERROR_MAPPING.get(kind):
            assert (row.http, row.status) == (mapping.http_code, mapping.grpc_status), kind
            assert row.code <= -32099 or row.reason == mapping.reason, kind


def test_every_refusal_of_the_house_can_be_said_in_the_protocol():
    unsaid = [kind for kind in refusals() if not any(one in errors.TABLE for one in kind.__mro__)]
    assert [kind for kind in unsaid if not is_of_another_edge(kind)] == []


def test_only_errors_of_http_have_codes_of_http():
    for row in errors.TABLE.values():
        assert row.code == row.http if row.code > 0 else row.code < -32000
