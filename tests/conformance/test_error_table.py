"""Errors match the SDK's table."""

from a2a.utils import errors as sdk

from apps.a2a import errors
from apps.features.archive.file_format import DamagedArchive
from apps.record import errors as record_errors
from apps.record.error_table import codes_of

OURS = vars(record_errors)
NAMES = {kind: kind.__name__.removesuffix("Error") for kind in sdk.JSON_RPC_ERROR_CODE_MAP}
ERRORS = {kind: OURS[name] for kind, name in NAMES.items() if name in OURS}


def test_an_error_has_the_code_the_status_and_the_reason_of_the_protocol():
    assert len(ERRORS) >= 10
    for kind, ours in ERRORS.items():
        codes = codes_of(ours)
        assert codes.rpc == sdk.JSON_RPC_ERROR_CODE_MAP[kind], kind
        if mapping := sdk.A2A_ERROR_MAPPING.get(kind):
            assert (codes.a2a, codes.grpc) == (mapping.http_code, mapping.grpc_status), kind
            assert codes.rpc <= -32099 or codes.reason == mapping.reason, kind


def test_an_archive_that_cannot_be_read_is_no_mistake_of_the_server():
    codes = codes_of(DamagedArchive)
    assert (codes.a2a, codes.http) == (503, 503)
    message = errors.problem(DamagedArchive("secret")).message
    assert "Ask an operator" in message
    assert "secret" not in message
