"""How each protocol tells each error."""

import importlib
import json
import pkgutil
from typing import NamedTuple

import pytest
from a2a.utils import errors as sdk

import apps
from apps.a2a import errors
from apps.accounts.errors import Refusal
from apps.api.framework import problems
from apps.limits.current import LimitExceeded
from apps.limits.models import Kind, Whose
from apps.optional.archive.file_format import DamagedArchive
from apps.optional.mcp.protocol import failure
from apps.optional.openai.errors import error_response
from apps.record import errors as record_errors
from apps.record.error_table import OTHER_ERRORS, codes_of, plain_response

NAMES = {kind: kind.__name__.removesuffix("Error") for kind in sdk.JSON_RPC_ERROR_CODE_MAP}
ERRORS = {kind: getattr(record_errors, name) for kind, name in NAMES.items() if hasattr(record_errors, name)}
EXCEEDED = LimitExceeded(Kind.REQUESTS, Whose.WORKSPACE, 1, 1, 30)
FIELDS = {
    "exceeded": EXCEEDED,
    "scope": "tasks:read",
    "allowed": ["GET"],
    "offset": 5,
    "violations": [],
    "field": "",
    "metadata": {},
    "retry_after": 1,
}
"""What some errors have."""


INVALID, MEDIA_TYPE = "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED"
REQUEST, NOWHERE = "invalid_request_error", (404, "not_found_error")
MISSING, UNREADABLE, CONFLICT = (404, "not_found"), (400, "unreadable"), (409, "conflict")
PARAMS = (200, -32602)


class Told(NamedTuple):
    """HTTP status and code, in each dialect."""

    api: tuple[int, str]
    rpc: tuple[int, int]
    rest: tuple[int, str]
    brief: str
    openai: tuple[int, str]
    mcp: tuple[int, int]


def of_platform(status: int, code: str, grpc: str, reason: str, openai: str) -> Told:
    return Told((status, code), (status, status), (status, grpc), reason, (status, openai), (status, status))


def invalid(code: int, api: tuple[int, str], brief: str = INVALID, mcp: tuple[int, int] = PARAMS) -> Told:
    return Told(api, (200, code), (400, INVALID), brief, (400, REQUEST), mcp)


def of(names: str, told: Told) -> dict[str, Told]:
    return dict.fromkeys(names.split(), told)


def precondition(code: int, reason: str) -> Told:
    told = (400, "FAILED_PRECONDITION")
    return Told(CONFLICT, (200, code), told, reason, (400, REQUEST), PARAMS)


TOLD: dict[str, Told] = {
    "TaskNotFound": Told(MISSING, (200, -32001), (404, "NOT_FOUND"), "TASK_NOT_FOUND", NOWHERE, PARAMS),
    "AgentNotFound": of_platform(404, "not_found", "NOT_FOUND", "AGENT_NOT_FOUND", "not_found_error"),
    "MethodNotFound": Told(MISSING, (200, -32601), (404, "NOT_FOUND"), "NOT_FOUND", NOWHERE, (200, -32601)),
    "TaskNotCancelable": precondition(-32002, "TASK_NOT_CANCELABLE"),
    "PushNotificationNotSupported": precondition(-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    "ExtendedAgentCardNotConfigured": precondition(-32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
    "ExtensionSupportRequired": precondition(-32008, "EXTENSION_SUPPORT_REQUIRED"),
    "VersionNotSupported": precondition(-32009, "VERSION_NOT_SUPPORTED"),
    "ContentTypeNotSupported": invalid(-32005, (422, "media_type_not_taken"), MEDIA_TYPE),
    "UnsupportedMediaType": Told(
        (415, "media_type_not_supported"), (415, -32005), (415, INVALID), MEDIA_TYPE, (415, REQUEST), (415, -32005)
    ),
    "TaskGenerationMismatch": Told(
        CONFLICT, (200, -32010), (409, "ABORTED"), "TASK_GENERATION_MISMATCH", (409, "conflict_error"), PARAMS
    ),
    "InvalidRequest": invalid(-32600, UNREADABLE, mcp=(400, -32600)),
    "MethodNotAllowed": of_platform(405, "method_not_allowed", "UNIMPLEMENTED", "METHOD_NOT_ALLOWED", REQUEST),
    "NoAnswer": Told(
        (503, "no_answer"), (200, -32603), (500, "INTERNAL"), "INTERNAL", (500, "server_error"), (500, -32603)
    ),
    **of("MultiPartParserError ParseError TooManyFieldsSent", invalid(-32700, UNREADABLE, mcp=(400, -32700))),
    **of(
        "AddressTaken CheckFailed InvalidFields InvalidParams KeyUsed PairingRefused RequestAborted SessionBusy "
        "TestFailed",
        invalid(-32602, (422, "invalid")),
    ),
    **of(
        "ArtifactNotFound CollectionNotFound ContextNotFound DoesNotExist EntryNotFound ExportNotFound Http404 "
        "MessageNotFound NoMember NoWorkspace NotFound NotGiven ObjectNotUpdated ProjectNotFound QueuedNotFound "
        "ShareNotFound SourceNotFound UploadNotFound",
        invalid(-32602, MISSING),
    ),
    **of(
        "CannotTry Conflict ErasedAlready LastOperator LinkClosed NoAccount NotConfirmed OneVersionOnly "
        "TooManyPrograms UnderLegalHold Unusable WorkspaceRefused WrongName WrongOffset",
        invalid(-32602, CONFLICT),
    ),
    **of(
        "AlreadyAnswered AlreadyApproved ApproverUnknown BeingSent CredentialRequired ExportRunning "
        "FollowsProject MemoryFull NoAgentFits NoSteps NotBegun NotReady NotRunning NotYourSession NotYourTask "
        "NothingToPlan PaymentMissing PaymentUnderWay PaymentUsed PlanChanged QueueFull ReadOnlySession TaskBusy "
        "TaskFinished TaskWaits TooManyBudgets TooManyChannels TooManyCollections TooManyFiles TooManyOfAgent "
        "TooManyProjects TooManyPrompts TooManyRails TooManySchedules TooManySources TooManyWaiting "
        "TooManyWebhooks Unreachable UnsupportedOperation",
        precondition(-32004, "UNSUPPORTED_OPERATION"),
    ),
    **of(
        "BodyTooLarge FileTooLarge RequestDataTooBig StorageFull TooLarge",
        of_platform(413, "too_large", "INVALID_ARGUMENT", "REQUEST_TOO_LARGE", REQUEST),
    ),
    **of(
        "BadCredentials NotSigned Unauthenticated",
        of_platform(401, "unauthenticated", "UNAUTHENTICATED", "UNAUTHENTICATED", "authentication_error"),
    ),
    **of(
        "ForeignOrigin KeyRefused ManagersDecide MissingRight MissingRole MissingScope NeedsKey NoRelease "
        "NotByThem NotEditable NotForCallers NotPermitted NotWholeAccount NotYours OnlyYourAgents "
        "PermissionDenied ScopesRefused",
        of_platform(403, "forbidden", "PERMISSION_DENIED", "PERMISSION_DENIED", "permission_error"),
    ),
    **of(
        "BudgetSpent LimitReached QuotaExceeded TooManyExports",
        of_platform(429, "too_much", "RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED", "rate_limit_error"),
    ),
    **of(
        "CannotDecrypt FacilitatorUnreachable InterfaceError NoKeys NotAccepting NotPaid OperationalError "
        "SessionUnreadable",
        of_platform(503, "unavailable", "UNAVAILABLE", "UNAVAILABLE", "service_unavailable_error"),
    ),
}
OF_A_DOOR = {"AddressNotFound", "NothingToCancel", "ResponseNotFound", "McpError"}
"""Their door tells them itself."""


def classes(kind: type[Refusal] = Refusal) -> list[type[Exception]]:
    found = [one for one in kind.__subclasses__() if one.__module__.startswith("apps.")]
    return [*found, *(below for one in found for below in classes(one))]


@pytest.fixture(scope="module")
def every_error():
    """One of each class, by its name."""
    for module in pkgutil.walk_packages(apps.__path__, "apps."):
        if not {"migrations", "management"} & set(module.name.split(".")):
            importlib.import_module(module.name)
    made = {}
    for kind in [*classes(), *OTHER_ERRORS]:
        made[kind.__name__] = kind.__new__(kind, "It cannot be done.")
        vars(made[kind.__name__]).update(FIELDS)
    return {name: error for name, error in made.items() if name not in OF_A_DOOR}


def test_every_error_is_told_in_every_protocol(every_error):
    assert every_error.keys() == TOLD.keys()
    for name, told in TOLD.items():
        error = every_error[name]
        problem, refused = problems.problem(error), errors.problem(error)
        assert (problem.document["status"], problem.document["code"]) == told.api, name
        codes = refused.codes
        assert (codes.a2a if codes.keeps_status else 200, codes.rpc) == told.rpc, name
        status = refused.status["error"]
        assert (status["code"], status["status"]) == told.rest, name
        assert refused.brief["error"]["code"] == told.brief, name
        answer = error_response(error)
        assert (answer.status_code, json.loads(answer.content)["error"]["type"]) == told.openai, name
        failed = failure(error, "2025-11-25")
        assert (failed.status, failed.response["error"]["code"]) == told.mcp, name
        assert plain_response(error).status_code == told.api[0], name


def test_what_is_not_foreseen_reveals_nothing(caplog):
    error = RuntimeError("secret of the house")
    told = [problems.problem(error).document, errors.problem(error).status, failure(error, "2025-11-25").response]
    assert "secret" not in json.dumps([*told, plain_response(error).content.decode()])
    assert "secret of the house" in caplog.text


def test_an_error_has_the_protocols_codes():
    assert len(ERRORS) >= 10
    for kind, ours in ERRORS.items():
        codes = codes_of(ours)
        assert codes.rpc == sdk.JSON_RPC_ERROR_CODE_MAP[kind], kind
        if mapping := sdk.A2A_ERROR_MAPPING.get(kind):
            assert (codes.a2a, codes.grpc) == (mapping.http_code, mapping.grpc_status), kind
            assert codes.rpc <= -32099 or codes.reason == mapping.reason, kind


def test_unreadable_archive_hides_its_reason():
    message = errors.problem(DamagedArchive("secret")).message
    assert "Ask an operator" in message
    assert "secret" not in message
