"""Errors match the SDK's table."""

from a2a.utils import errors as sdk

from apps.a2a import errors
from apps.api.framework import problems
from apps.features.archive.file_format import DamagedArchive
from apps.record import errors as record_errors
from apps.record.errors import Kind

OURS = vars(record_errors) | vars(errors)
NAMES = {kind: kind.__name__.removesuffix("Error") for kind in sdk.JSON_RPC_ERROR_CODE_MAP}
ERRORS = {kind: OURS[name] for kind, name in NAMES.items() if name in OURS}


def test_an_error_has_the_code_the_status_and_the_reason_of_the_protocol():
    assert len(ERRORS) >= 10
    for kind, ours in ERRORS.items():
        row = errors.row_of(ours)
        assert row.code == sdk.JSON_RPC_ERROR_CODE_MAP[kind], kind
        if mapping := sdk.A2A_ERROR_MAPPING.get(kind):
            assert (row.http, row.status) == (mapping.http_code, mapping.grpc_status), kind
            assert row.code <= -32099 or row.reason == mapping.reason, kind


def test_every_kind_of_error_can_be_said_at_each_edge():
    assert [kind for kind in Kind if kind not in errors.TABLE or kind not in problems.TABLE] == []


def test_only_errors_of_http_have_codes_of_http():
    for row in errors.TABLE.values():
        assert row.code == row.http if row.code > 0 else row.code < -32000


def test_an_archive_that_cannot_be_read_is_no_mistake_of_the_server():
    assert errors.row_of(DamagedArchive).http == 503
    assert problems.problem(DamagedArchive("for operators")).row.status == 503
    message = errors.problem(DamagedArchive("secret")).message
    assert "Ask an operator" in message
    assert "secret" not in message
