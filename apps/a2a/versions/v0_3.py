"""A2A 0.3: `upgrade_…` turns its requests into those of 1.0, `downgrade_…` turns answers back.

It checks only fields that differ from 1.0. 0.3 has two forms (`Form`): JSON-RPC, and ProtoJSON over HTTP.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from a2a.compat.v0_3.conversions import to_compat_agent_card
from a2a.types import a2a_pb2
from a2a.utils.errors import VersionNotSupportedError
from google.protobuf import json_format
from pydantic.alias_generators import to_snake

from apps.a2a.errors import JSON
from apps.a2a.protojson import MAX_VIOLATIONS
from apps.a2a.tasks import Updates, closes_at_question
from apps.agents.models import AgentNotFound
from apps.record.errors import InvalidFields, InvalidParams, Refusal, TaskNotFound
from apps.record.models import TaskState


@dataclass(frozen=True, slots=True)
class Form:
    """The names of one form."""

    has_kinds: bool  # objects have a `kind`
    user: str
    agent: str
    states: Mapping[str, str]  # by 1.0's names
    parts: str  # of a message
    bytes: str  # of a file
    uri: str
    webhook: str  # of a send's configuration
    encode: Callable[[str], str]  # of a file's base64
    decode: Callable[[Any], Any]
    blocks_by_default: bool  # if `blocking` is missing


def _unchanged(content: Any) -> Any:
    return content


def _encode_again(content: str) -> str:
    return base64.b64encode(content.encode()).decode()


def _decode_once(content: Any) -> Any:
    """Decode content that was base64-encoded twice."""
    try:
        inner = base64.b64decode(content, validate=True).decode("ascii")
        base64.b64decode(inner, validate=True)
    except (TypeError, ValueError, binascii.Error):
        return content
    return inner


JSON_RPC = Form(
    has_kinds=True,
    user="user",
    agent="agent",
    states=MappingProxyType({state.wire: state.value for state in TaskState}),
    parts="parts",
    bytes="bytes",
    uri="uri",
    webhook="pushNotificationConfig",
    encode=_unchanged,
    decode=_unchanged,
    blocks_by_default=True,
)

# ProtoJSON encodes bytes in base64, and the SDK encodes a file's content itself: twice in all.
HTTP_JSON = Form(
    has_kinds=False,
    user="ROLE_USER",
    agent="ROLE_AGENT",
    states=MappingProxyType({state.wire: state.wire.replace("CANCELED", "CANCELLED") for state in TaskState}),
    parts="content",
    bytes="fileWithBytes",
    uri="fileWithUri",
    webhook="pushNotification",
    encode=_encode_again,
    decode=_decode_once,
    blocks_by_default=False,
)


class OldFields:
    """The fields of an object of 0.3."""

    def __init__(self, value: JSON, path: str = "", violations: list[tuple[str, str]] | None = None) -> None:
        self._value = value
        self._path = path
        self._violations: list[tuple[str, str]] = [] if violations is None else violations

    def check(self) -> None:
        """Raises InvalidFields if a field was refused."""
        if self._violations:
            raise InvalidFields(self._violations[:MAX_VIOLATIONS])

    def refuse(self, name: str, sentence: str) -> None:
        """Refuse a field, or with "" the object."""
        self._violations.append((self._path_of(name), sentence))

    def raw(self, name: str) -> Any:
        """The field, in camelCase or snake_case, or None."""
        found = [self._value[spelling] for spelling in {name, to_snake(name)} if spelling in self._value]
        if len(found) > 1:
            self.refuse(name, "Comes twice, in camelCase and in snake_case.")
        return found[0] if found else None

    def object(self, name: str) -> OldFields | None:
        """A nested object; None if absent or invalid."""
        value = self.raw(name)
        if value is not None and not isinstance(value, dict):
            self.refuse(name, "Must be an object.")
        return OldFields(value, self._path_of(name), self._violations) if isinstance(value, dict) else None

    def objects(self, name: str) -> list[OldFields]:
        """The objects of a list."""
        values = self.raw(name)
        if not isinstance(values, list) or not values:
            self.refuse(name, "Must be a list of at least one.")
            return []
        found = []
        for position, value in enumerate(values):
            path = f"{self._path_of(name)}[{position}]"
            if isinstance(value, dict):
                found.append(OldFields(value, path, self._violations))
            else:
                self._violations.append((path, "Must be an object."))
        return found

    def _path_of(self, name: str) -> str:
        return ".".join(filter(None, (self._path, name)))


USER_BY_NUMBER = 1  # ProtoJSON writes an enum by name or by number
PART_KINDS = ("text", "file", "data")
CONFIG_FIELD = "pushNotificationConfig"  # in JSON-RPC's form


def upgrade_send(params: Any, form: Form) -> JSON:
    """MessageSendParams. Raises InvalidParams."""
    fields = _param_fields(params)
    # `Message request = 1 [json_name = "message"]`: ProtoJSON takes both names, and the SDK's client sends the first.
    message = fields.object("message" if form.has_kinds or "message" in params else "request")
    configuration = fields.object("configuration")
    sent: JSON = {
        "message": _upgrade_message(message, form) if message else None,
        "configuration": _upgrade_configuration(configuration, form) if configuration else None,
        **_copy(fields, "metadata", "tenant"),
    }
    fields.check()
    return sent


def upgrade_task_request(params: Any, form: Form) -> JSON:
    """TaskQueryParams, TaskIdParams. Raises InvalidParams."""
    fields = _param_fields(params)
    asked = _copy(fields, "id", "metadata", "tenant") | {"historyLength": _upgrade_history_length(fields)}
    fields.check()
    return asked


def upgrade_empty(params: Any, form: Form) -> JSON:
    """For methods without parameters; null is allowed. Raises InvalidParams."""
    return _copy(_param_fields({} if params is None else params), "tenant")


def upgrade_webhook_create(params: Any, form: Form) -> JSON:
    """A TaskPushNotificationConfig to set. Raises InvalidParams.

    Over HTTP+JSON the path names the task; the body is the config or the SDK's object around it.
    """
    fields = _param_fields(params)
    task = fields.raw("taskId" if form.has_kinds else "id")
    holder = fields if form.has_kinds else fields.object("config") or fields
    if holder.raw(CONFIG_FIELD) is None:
        holder.refuse(CONFIG_FIELD, "Is required.")
    config = holder.object(CONFIG_FIELD)
    webhook = _upgrade_webhook(config) if config else {}
    fields.check()
    # As in the SDK: setting a webhook without an id changes the existing one.
    return {"taskId": task, **webhook, "id": webhook.get("id") or task} | _copy(fields, "tenant")


def upgrade_webhook_request(params: Any, form: Form) -> JSON:
    """The parameters to get or delete a webhook. Raises InvalidParams."""
    fields = _param_fields(params)
    upgraded = {"taskId": fields.raw("id"), "id": fields.raw(f"{CONFIG_FIELD}Id")} | _copy(fields, "tenant")
    fields.check()
    return upgraded


def upgrade_webhook_list(params: Any, form: Form) -> JSON:
    """ListTaskPushNotificationConfigParams. Raises InvalidParams."""
    fields = _param_fields(params)
    return {"taskId": fields.raw("id")} | _copy(fields, "tenant")


def _param_fields(params: Any) -> OldFields:
    if not isinstance(params, dict):
        raise InvalidParams("params must be an object.", "params")
    return OldFields(params)


def _copy(fields: OldFields, *names: str) -> JSON:
    """Fields that are as in 1.0."""
    return {name: value for name in names if (value := fields.raw(name)) is not None}


def _upgrade_history_length(fields: OldFields) -> Any:
    """0 means no limit in 0.3, no history in 1.0."""
    length = fields.raw("historyLength")
    return None if length in (0, "0") and length is not False else length


def _upgrade_configuration(fields: OldFields, form: Form) -> JSON:
    blocking = fields.raw("blocking")
    if not isinstance(blocking, bool | None):
        fields.refuse("blocking", "Must be true or false.")
    config = fields.object(form.webhook)
    return {
        "returnImmediately": not (form.blocks_by_default if blocking is None else blocking),
        "historyLength": _upgrade_history_length(fields),
        "taskPushNotificationConfig": _upgrade_webhook(config) if config else None,
        **_copy(fields, "acceptedOutputModes"),
    }


def _upgrade_webhook(fields: OldFields) -> JSON:
    """A PushNotificationConfig. As in the SDK, its first scheme is used."""
    config = _copy(fields, "id", "url", "token")
    if authentication := fields.object("authentication"):
        schemes = authentication.raw("schemes")
        if not isinstance(schemes, list | None):
            authentication.refuse("schemes", "Must be a list.")
        scheme = {"scheme": schemes[0]} if isinstance(schemes, list) and schemes else {}
        config["authentication"] = _copy(authentication, "credentials") | scheme or None
    return config


def _upgrade_message(fields: OldFields, form: Form) -> JSON:
    kind = fields.raw("kind")
    if form.has_kinds and kind not in (None, "message"):
        fields.refuse("kind", "Must be message.")
    role = fields.raw("role")
    by_number = not form.has_kinds and not isinstance(role, bool) and role == USER_BY_NUMBER
    if role != form.user and not by_number:
        fields.refuse("role", f"Must be {form.user}: that is how a client speaks.")
    copied = ("messageId", "contextId", "taskId", "metadata", "extensions", "referenceTaskIds")
    parts = [_upgrade_part(part, form) for part in fields.objects(form.parts)]
    return {"role": "ROLE_USER", "parts": parts} | _copy(fields, *copied)


def _upgrade_part(part: OldFields, form: Form) -> JSON:
    new = _copy(part, "metadata")
    match _kind_of(part, form):
        case "text":
            new |= {"text": part.raw("text")}
        case "file":
            new |= _upgrade_file(part, form)
        case "data":
            new |= _upgrade_data(part, form, new.get("metadata"))
    return new


def _kind_of(part: OldFields, form: Form) -> str:
    """The stated kind, whose content must be present; over HTTP that of the content."""
    has = [kind for kind in PART_KINDS if part.raw(kind) is not None]
    stated = part.raw("kind")
    if not form.has_kinds:
        if len(has) == 1:
            return has[0]
        part.refuse("", "Must have exactly one of text, file and data.")
    elif stated not in PART_KINDS:
        part.refuse("kind", "Must be text, file or data.")
    elif stated not in has:
        part.refuse(stated, "Is required.")
    else:
        return str(stated)
    return ""


def _upgrade_file(part: OldFields, form: Form) -> JSON:
    file = part.object("file") or OldFields({})
    content, uri = file.raw(form.bytes), file.raw(form.uri)
    if (content is None) == (uri is None):
        file.refuse("", f"Must have exactly one of {form.bytes} and {form.uri}.")
    new = {"raw": form.decode(content)} if uri is None else {"url": uri}
    return new | {"filename": file.raw("name"), "mediaType": file.raw("mimeType")}


def _upgrade_data(part: OldFields, form: Form, metadata: Any) -> JSON:
    """An object; a value that the SDK wrapped in one is unwrapped."""
    holder = part if form.has_kinds else part.object("data") or OldFields({})
    data = holder.raw("data")
    if not isinstance(data, dict):
        holder.refuse("data", "Must be an object.")
    elif isinstance(metadata, dict) and metadata.get(WRAPPED_DATA) is True and data.keys() == {"value"}:
        return {
            "data": data["value"],
            "metadata": {key: metadata[key] for key in metadata if key != WRAPPED_DATA} or None,
        }
    return {"data": data}


WRAPPED_DATA = "data_part_compat"  # the SDK's mark of a wrapped value, in metadata
NOT_IN_PROTOBUF = ("referenceTaskIds",)  # message fields that 0.3's protobuf lacks


def downgrade_response(new: JSON, form: Form) -> JSON:
    """A SendMessageResponse or StreamResponse; in JSON-RPC's form only the object in it."""
    [(name, value)] = new.items()
    shown = DOWNGRADES[name](value, form)
    return shown if form.has_kinds else {name: shown}


def downgrade_task(new: JSON, form: Form) -> JSON:
    shown = {**new, "status": _downgrade_status(new["status"], form)} | _kind_field("task", form)
    if "artifacts" in new:
        shown["artifacts"] = [_downgrade_artifact(one, form) for one in new["artifacts"]]
    if "history" in new:
        shown["history"] = [downgrade_message(one, form) for one in new["history"]]
    return shown


def downgrade_message(new: JSON, form: Form) -> JSON:
    kept = {
        name: value
        for name, value in new.items()
        if name != "parts" and (form.has_kinds or name not in NOT_IN_PROTOBUF)
    }
    role = form.user if new["role"] == "ROLE_USER" else form.agent
    return kept | {"role": role, form.parts: _downgrade_parts(new, form)} | _kind_field("message", form)


def downgrade_webhook(new: JSON, form: Form) -> JSON:
    """A TaskPushNotificationConfig; 0.3 separates task and config."""
    config: JSON = {name: new[name] for name in ("id", "url", "token") if name in new}
    if authentication := new.get("authentication"):
        scheme = authentication.get("scheme")
        config["authentication"] = {
            "schemes": [scheme] if scheme else [],
            **{name: value for name, value in authentication.items() if name == "credentials"},
        }
    if form.has_kinds:
        return {"taskId": new["taskId"], "pushNotificationConfig": config}
    return {"name": f"tasks/{new['taskId']}/pushNotificationConfigs/{new['id']}", "pushNotificationConfig": config}


def downgrade_webhooks(new: JSON, form: Form) -> JSON | list[JSON]:
    shown = [downgrade_webhook(one, form) for one in new.get("configs", ())]
    return shown if form.has_kinds else {"configs": shown}


def downgrade_first_webhook(new: JSON, form: Form) -> JSON:
    """The first of a list. Raises TaskNotFound if it is empty."""
    if not new.get("configs"):
        raise TaskNotFound("There is no such webhook.")
    return downgrade_webhook(new["configs"][0], form)


def downgrade_empty(new: JSON, form: Form) -> JSON | None:
    """An empty answer."""
    return None if form.has_kinds else {}


def is_last_response(new: JSON) -> bool:
    """Whether this StreamResponse ends a stream of 0.3 (`final`)."""
    return "statusUpdate" in new and _is_final(new["statusUpdate"])


def _is_final(update: JSON) -> bool:
    return closes_at_question(TaskState.from_wire(update["status"]["state"]))


def _downgrade_status_update(new: JSON, form: Form) -> JSON:
    changed = {"status": _downgrade_status(new["status"], form), "final": _is_final(new)}
    return {**new, **changed} | _kind_field("status-update", form)


def _downgrade_artifact_update(new: JSON, form: Form) -> JSON:
    return {**new, "artifact": _downgrade_artifact(new["artifact"], form)} | _kind_field("artifact-update", form)


def _downgrade_status(new: JSON, form: Form) -> JSON:
    said = {"message": downgrade_message(new["message"], form)} if "message" in new else {}
    return {**new, "state": form.states[new["state"]], **said}


def _downgrade_artifact(new: JSON, form: Form) -> JSON:
    return {**new, "parts": _downgrade_parts(new, form)}


def _downgrade_parts(new: JSON, form: Form) -> list[JSON]:
    return [_downgrade_part(one, form) for one in new["parts"]]


def _downgrade_part(new: JSON, form: Form) -> JSON:
    """Fields that 0.3 lacks go into metadata."""
    metadata = new.get("metadata", {})
    shown: JSON
    if "raw" in new or "url" in new:
        shown = {"file": _downgrade_file(new, form)} | _kind_field("file", form)
    else:
        metadata = _name_metadata(new) | metadata
        if "text" in new:
            shown = {"text": new["text"]} | _kind_field("text", form)
        else:
            data = new["data"]
            if not isinstance(data, dict):
                data, metadata = {"value": data}, {**metadata, WRAPPED_DATA: True}
            shown = {"data": data if form.has_kinds else {"data": data}} | _kind_field("data", form)
    return shown | ({"metadata": metadata} if metadata else {})


def _name_metadata(new: JSON) -> JSON:
    """The name and media type of text or data, where they are more than what goes without saying."""
    named = {name: new[name] for name in ("filename", "mediaType") if name in new}
    return {name: value for name, value in named.items() if value not in ("text/plain", "application/json")}


def _downgrade_file(new: JSON, form: Form) -> JSON:
    content = {form.bytes: form.encode(new["raw"])} if "raw" in new else {form.uri: new["url"]}
    named = {"name": new.get("filename"), "mimeType": new.get("mediaType")}
    return content | {name: value for name, value in named.items() if value}


def _kind_field(name: str, form: Form) -> JSON:
    return {"kind": name} if form.has_kinds else {}


DOWNGRADES = {
    "task": downgrade_task,
    "message": downgrade_message,
    "statusUpdate": _downgrade_status_update,
    "artifactUpdate": _downgrade_artifact_update,
}
"""By the names of StreamResponse's fields."""


PROTOCOL_VERSION = "0.3.0"


def downgrade_card(card: JSON) -> JSON:
    """The card in 0.3, without signatures, which cover another text.

    Raises AgentNotFound for a card without an interface of 0.3.
    """
    unsigned = {name: value for name, value in card.items() if name != "signatures"}
    try:
        converted = to_compat_agent_card(json_format.ParseDict(unsigned, a2a_pb2.AgentCard()))
    except VersionNotSupportedError:
        raise AgentNotFound("No agent is to be reached here by A2A 0.3. Ask for the card of one agent.") from None
    shown = converted.model_dump(mode="json", by_alias=True, exclude_none=True)
    main = {"url": shown["url"], "transport": shown["preferredTransport"]}
    return shown | {
        "protocolVersion": PROTOCOL_VERSION,
        "additionalInterfaces": [main, *shown.get("additionalInterfaces", ())],
    }


def with_old_fields(card: JSON) -> JSON:
    """The card of 1.0 with the fields of 0.3 beside its own; unchanged if it has no interface of 0.3.

    A security scheme has the fields of both in one object: the SDK's client of 1.0 reads one with a `type` as old.
    """
    try:
        old = downgrade_card(card)
    except AgentNotFound:
        return card
    schemes = old.get("securitySchemes", {})
    shared = {
        "skills": [before | skill for before, skill in zip(old["skills"], card["skills"], strict=True)],
        "securitySchemes": {
            name: schemes.get(name, {}) | next(iter(new.values())) | new
            for name, new in card.get("securitySchemes", {}).items()
        },
    }
    return old | card | {name: value for name, value in shared.items() if value}


FieldPath = Callable[[str, Form], str]

SCHEME_PATH = re.compile(r"\bauthentication\.scheme$")


def send_field_path(path: str, form: Form) -> str:
    """Of a message and its configuration."""
    if part := re.fullmatch(r"message\.parts(?:(\[\d+\])(?:\.(\w+))?)?(.*)", path):
        position, name, rest = part.groups(default="")
        return f"message.{form.parts}{position}{_part_field_path(name, form)}{rest}"
    path = re.sub(r"^configuration\.taskPushNotificationConfig", f"configuration.{form.webhook}", path)
    return SCHEME_PATH.sub("authentication.schemes", path)


def task_field_path(path: str, form: Form) -> str:
    """Of a request that names only a task; the names are as in 1.0."""
    return path


def webhook_field_path(path: str, form: Form) -> str:
    """Of a webhook to set."""
    if path == "taskId":
        return path
    return f"{CONFIG_FIELD}.{SCHEME_PATH.sub('authentication.schemes', path)}"


def webhook_request_field_path(path: str, form: Form) -> str:
    """Of a request that names a webhook."""
    return {"taskId": "id", "id": f"{CONFIG_FIELD}Id"}.get(path, path)


def _part_field_path(name: str, form: Form) -> str:
    """The end of the path of a part's field."""
    of_files = {"raw": form.bytes, "url": form.uri, "filename": "name", "mediaType": "mimeType"}
    if name in of_files:
        return f".file.{of_files[name]}"
    return f".{name}" if name else ""


@dataclass(frozen=True, slots=True)
class Method:
    """A method of 0.3."""

    operation: str  # of 1.0
    upgrade: Callable[[Any, Form], JSON]  # request to 1.0
    downgrade: Callable[[JSON, Form], Any]  # answer, or response of a stream, to 0.3
    field_path: FieldPath = task_field_path  # 1.0's field path to 0.3's


METHODS: dict[str, Method] = {
    "message/send": Method("SendMessage", upgrade_send, downgrade_response, send_field_path),
    "message/stream": Method("SendStreamingMessage", upgrade_send, downgrade_response, send_field_path),
    "tasks/get": Method("GetTask", upgrade_task_request, downgrade_task),
    "tasks/cancel": Method("CancelTask", upgrade_task_request, downgrade_task),
    "tasks/resubscribe": Method("SubscribeToTask", upgrade_task_request, downgrade_response),
    "tasks/pushNotificationConfig/set": Method(
        "CreateTaskPushNotificationConfig", upgrade_webhook_create, downgrade_webhook, webhook_field_path
    ),
    "tasks/pushNotificationConfig/get": Method(
        "GetTaskPushNotificationConfig", upgrade_webhook_request, downgrade_webhook, webhook_request_field_path
    ),
    "tasks/pushNotificationConfig/list": Method(
        "ListTaskPushNotificationConfigs", upgrade_webhook_list, downgrade_webhooks, webhook_request_field_path
    ),
    "tasks/pushNotificationConfig/delete": Method(
        "DeleteTaskPushNotificationConfig", upgrade_webhook_request, downgrade_empty, webhook_request_field_path
    ),
    "agent/getAuthenticatedExtendedCard": Method(
        "GetExtendedAgentCard", upgrade_empty, lambda card, _: downgrade_card(card)
    ),
}

FIRST_WEBHOOK = Method(
    "ListTaskPushNotificationConfigs", upgrade_webhook_list, downgrade_first_webhook, webhook_request_field_path
)
"""What asking for a webhook without saying which comes to: 0.3 speaks of *the* configuration of a task."""

OLD_METHOD_NAMES = {method.operation: name for name, method in METHODS.items()}


async def downgrade_stream(updates: Updates, method: Method, form: Form) -> Updates:
    """A stream of 0.3, which closes after its final update."""
    key = method.downgrade, form.parts
    async with aclosing(updates):
        async for batch in updates:
            last = next((at for at, (_, new) in enumerate(batch) if is_last_response(new.value)), None)
            whole = batch if last is None else batch[: last + 1]
            yield [(index, new.in_form(key, lambda value: method.downgrade(value, form))) for index, new in whole]
            if last is not None:
                return


def downgrade_refusal(error: Refusal, method: Method, form: Form) -> Refusal:
    match error:
        case InvalidFields():
            return InvalidFields(
                [(method.field_path(path, form), description) for path, description in error.violations]
            )
        case InvalidParams() if error.field:
            field = method.field_path(error.field, form)
            return InvalidParams(_with_old_method_names(str(error)).replace(error.field, field, 1), field)
        case _:
            error.args = (_with_old_method_names(str(error)),)
            return error


def _with_old_method_names(text: str) -> str:
    return re.sub(r"\b[A-Z][A-Za-z]+\b", lambda word: OLD_METHOD_NAMES.get(word[0], word[0]), text)
