"""Conversion to and from 0.3 matches the SDK's."""

from contextlib import suppress
from typing import Any

from a2a.compat.v0_3 import a2a_v0_3_pb2 as old_proto
from a2a.compat.v0_3 import conversions, proto_utils
from a2a.compat.v0_3 import types as old
from a2a.types import a2a_pb2 as a2a
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.a2a.versions import v0_3
from apps.a2a.versions.v0_3 import HTTP_JSON, JSON_RPC, METHODS
from apps.record.errors import InvalidParams
from apps.record.models import TaskState
from tests.a2a.calling import strictly_parsed
from tests.a2a.old_calling import strictly_read

JSON = dict[str, Any]

words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
ids = st.text("abc-123", min_size=1, max_size=6)
scalars = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-1e9, 1e9) | words
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ids, inner, max_size=3), max_leaves=5
)
objects = st.dictionaries(ids, values, min_size=1, max_size=3)
base64s = st.sampled_from(["aGk=", "AAEC", "//79"])
media_types = st.sampled_from(["image/png", "text/csv"])


def shaped(required: dict[str, Any], **optional: Any) -> st.SearchStrategy[JSON]:
    return st.fixed_dictionaries(required, optional=optional)


named = {"filename": ids, "mediaType": media_types, "metadata": objects}
parts = st.lists(
    shaped({"text": words}, metadata=objects)
    | shaped({"data": values}, metadata=objects)
    | shaped({"raw": base64s}, **named)
    | shaped({"url": st.just("https://example.com/a")}, **named),
    min_size=1,
    max_size=3,
)
messages = shaped(
    {"messageId": ids, "role": st.sampled_from(["ROLE_USER", "ROLE_AGENT"]), "parts": parts},
    contextId=ids,
    taskId=ids,
    metadata=objects,
    extensions=st.lists(ids, min_size=1, max_size=2),
    referenceTaskIds=st.lists(ids, min_size=1, max_size=2),
)
statuses = shaped(
    {"state": st.sampled_from([state.wire for state in TaskState]), "timestamp": st.just("2026-01-31T12:00:00.120Z")},
    message=messages,
)
artifacts = shaped(
    {"artifactId": ids, "parts": parts}, name=ids, description=ids, metadata=objects, extensions=st.just(["a"])
)
tasks = shaped(
    {"id": ids, "contextId": ids, "status": statuses},
    artifacts=st.lists(artifacts, min_size=1, max_size=2),
    history=st.lists(messages, min_size=1, max_size=2),
    metadata=objects,
)
of_a_task = {"taskId": ids, "contextId": ids}
responses = (
    st.fixed_dictionaries({"task": tasks})
    | st.fixed_dictionaries({"message": messages})
    | st.fixed_dictionaries({"statusUpdate": shaped({**of_a_task, "status": statuses}, metadata=objects)})
    | st.fixed_dictionaries(
        {
            "artifactUpdate": shaped(
                {**of_a_task, "artifact": artifacts, "append": st.booleans(), "lastChunk": st.booleans()},
                metadata=objects,
            )
        }
    )
)


def by_the_sdk(new: JSON) -> Any:
    """A StreamResponse as the SDK's 0.3 object; there a question does not end a stream."""
    said = conversions.to_compat_stream_response(strictly_parsed(new, a2a.StreamResponse)).result
    if isinstance(said, old.TaskStatusUpdateEvent) and said.status.state == old.TaskState.input_required:
        said.final = True
    return said


@given(responses)
def test_json_rpc_responses_are_those_of_the_sdk(new):
    said = by_the_sdk(new)
    shown = v0_3.downgrade_response(new, JSON_RPC)
    strictly_read(shown, type(said))
    assert shown == said.model_dump(mode="json", by_alias=True, exclude_none=True)


@given(responses)
def test_http_responses_are_those_of_the_sdk(new):
    shown = strictly_parsed(v0_3.downgrade_response(new, HTTP_JSON), old_proto.StreamResponse)
    assert shown == proto_utils.ToProto.stream_response(by_the_sdk(new))


NAMES = [
    "message", "messageId", "message_id", "role", "parts", "content", "kind", "text", "file", "bytes", "uri", "data",
    "fileWithBytes", "mimeType", "metadata", "data_part_compat", "value", "configuration", "blocking", "historyLength",
    "pushNotificationConfig", "pushNotification", "pushNotificationConfigId", "authentication", "schemes", "config",
    "id", "taskId", "url", "tenant",
]  # fmt: skip
anything = st.recursive(
    scalars | st.sampled_from(["user", "ROLE_USER", "message", "text", "file", "data", "aGk=", 0, 1, "0"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=20,
)


@st.composite
def nearly_right(draw):
    """Parameters of a send with one odd value."""
    part = {"kind": "text", "text": "x"}
    message = {"kind": "message", "messageId": "m", "role": "user", "parts": [part], "content": [part]}
    authentication = {"schemes": ["Bearer"]}
    webhook = {"url": "https://example.com/hook", "authentication": authentication}
    configuration = {"pushNotificationConfig": webhook, "pushNotification": webhook}
    sent = {"message": message, "configuration": configuration}
    odd = draw(st.sampled_from([sent, message, part, configuration, webhook, authentication]))
    odd[draw(st.sampled_from([*odd]) | st.sampled_from(NAMES))] = draw(anything)
    return sent


of_methods = st.tuples(anything, st.sampled_from(sorted(METHODS))) | st.tuples(nearly_right(), st.just("message/send"))


@given(of_methods, st.sampled_from([JSON_RPC, HTTP_JSON]))
@settings(max_examples=8 * settings().max_examples)
def test_whatever_comes_is_read_or_refused(sent, form):
    params, method = sent
    with suppress(InvalidParams):
        assert isinstance(METHODS[method].upgrade(params, form), dict)


configurations = shaped(
    {},
    acceptedOutputModes=st.lists(media_types, min_size=1, max_size=2),
    historyLength=st.integers(0, 100),
    blocking=st.booleans(),
    pushNotificationConfig=shaped(
        {"url": st.just("https://example.com/hook")},
        id=ids,
        token=ids,
        authentication=shaped({"schemes": st.lists(ids, min_size=1, max_size=2)}, credentials=ids),
    ),
)


@st.composite
def sends(draw: st.DrawFn) -> old.MessageSendParams:
    """Parameters of a send, as the SDK's 0.3 object."""
    core = strictly_parsed({**draw(messages), "role": "ROLE_USER"}, a2a.Message)
    return old.MessageSendParams(
        message=conversions.to_compat_message(core),
        configuration=draw(configurations | st.none()),
        metadata=draw(objects | st.none()),
    )


@given(sends())
def test_json_rpc_send_is_understood_as_by_sdk(params):
    sent = v0_3.upgrade_send(params.model_dump(mode="json", by_alias=True, exclude_none=True), JSON_RPC)
    understood = conversions.to_core_send_message_request(old.SendMessageRequest(id=1, params=params))
    assert strictly_parsed(sent, a2a.SendMessageRequest) == understood


@given(sends())
def test_http_send_is_the_same_send(params):
    params.message.reference_task_ids = None  # HTTP+JSON has no field for them
    proto = old_proto.SendMessageRequest(
        request=proto_utils.ToProto.message(params.message),
        configuration=params.configuration and proto_utils.ToProto.message_send_configuration(params.configuration),
        metadata=proto_utils.ToProto.metadata(params.metadata),
    )
    over_http = v0_3.upgrade_send(json_format.MessageToDict(proto), HTTP_JSON)
    if params.configuration and params.configuration.blocking is None:
        params.configuration.blocking = False  # nor for null
    in_json_rpc = v0_3.upgrade_send(params.model_dump(mode="json", by_alias=True, exclude_none=True), JSON_RPC)
    request = strictly_parsed(over_http, a2a.SendMessageRequest)
    assert request == strictly_parsed(in_json_rpc, a2a.SendMessageRequest)
