"""The requests of A2A 0.3 as those of 1.0. Only what 0.3 says otherwise is checked here: the rest is 1.0's business."""

from __future__ import annotations

from typing import Any

from apps.a2a.errors import JSON
from apps.a2a.fields import Fields
from apps.a2a.old.answers import WRAPPED
from apps.a2a.old.forms import Form
from apps.record.errors import InvalidParams

USER_BY_NUMBER = 1  # ProtoJSON writes an enum by name or by number
KINDS = ("text", "file", "data")


def sending(params: Any, form: Form) -> JSON:
    """MessageSendParams. Raises InvalidParams."""
    fields = _fields(params)
    described = fields.message("message", required=True)
    configuration = fields.message("configuration")
    sent: JSON = {
        "message": _message(described, form) if described else None,
        "configuration": _configuration(configuration, form) if configuration else None,
        **_copied(fields, "metadata", "tenant"),
    }
    fields.check()
    return sent


def asking(params: Any, form: Form) -> JSON:
    """TaskQueryParams, TaskIdParams. Raises InvalidParams."""
    fields = _fields(params)
    asked = _copied(fields, "id", "metadata", "tenant") | {"historyLength": _history_length(fields)}
    fields.check()
    return asked


def nothing(params: Any, form: Form) -> JSON:
    """The parameters of a method that has none; null is as good. Raises InvalidParams."""
    return _copied(_fields({} if params is None else params), "tenant")


def webhook(params: Any, form: Form) -> JSON:
    """A TaskPushNotificationConfig that is to be set. Raises InvalidParams.

    Over HTTP+JSON the task stands in the address, and the body is either the config or what the SDK puts around it.
    """
    fields = _fields(params)
    task = fields.text("taskId" if form.has_kinds else "id", required=True)
    holder = fields if form.has_kinds else fields.message("config") or fields
    config = holder.message("pushNotificationConfig", required=True)
    described = _webhook(config) if config else {}
    fields.check()
    # As in the SDK, so that to set a webhook without an id once more is to change it.
    return {"taskId": task, **described, "id": described.get("id") or task} | _copied(fields, "tenant")


def webhook_of_task(params: Any, form: Form) -> JSON:
    """GetTaskPushNotificationConfigParams, and those to delete one. Raises InvalidParams."""
    fields = _fields(params)
    task, config = fields.text("id", required=True), fields.text("pushNotificationConfigId", required=True)
    fields.check()
    return {"taskId": task, "id": config} | _copied(fields, "tenant")


def webhooks_of_task(params: Any, form: Form) -> JSON:
    """ListTaskPushNotificationConfigParams. Raises InvalidParams."""
    fields = _fields(params)
    task = fields.text("id", required=True)
    fields.check()
    return {"taskId": task} | _copied(fields, "tenant")


def _fields(params: Any) -> Fields:
    if not isinstance(params, dict):
        raise InvalidParams("params must be an object.", "params")
    return Fields(params)


def _copied(fields: Fields, *names: str) -> JSON:
    """Fields that 1.0 calls and takes as 0.3 does."""
    return {name: value for name in names if (value := fields.raw(name)) is not None}


def _history_length(fields: Fields) -> Any:
    """In 0.3 a length of 0 is no limit; in 1.0 it is no history."""
    length = fields.raw("historyLength")
    return None if length in (0, "0") and length is not False else length


def _configuration(fields: Fields, form: Form) -> JSON:
    asked = fields.flag("blocking")
    is_blocking = asked or (form.waits_unasked and fields.raw("blocking") is None)
    config = fields.message(form.webhook)
    return {
        "returnImmediately": not is_blocking,
        "historyLength": _history_length(fields),
        "taskPushNotificationConfig": _webhook(config) if config else None,
        **_copied(fields, "acceptedOutputModes"),
    }


def _webhook(fields: Fields) -> JSON:
    """A PushNotificationConfig. Of the schemes that it names, the first is the one that is used, as in the SDK."""
    config = _copied(fields, "id", "url", "token")
    if authentication := fields.message("authentication"):
        schemes = authentication.lines("schemes")
        named = {"scheme": schemes[0]} if schemes else {}
        config["authentication"] = _copied(authentication, "credentials") | named or None
    return config


def _message(fields: Fields, form: Form) -> JSON:
    kind = fields.raw("kind")
    if form.has_kinds and kind not in (None, "message"):
        fields.refuse("kind", "Must be message.")
    role = fields.raw("role")
    by_number = not form.has_kinds and not isinstance(role, bool) and role == USER_BY_NUMBER
    if role != form.user and not by_number:
        fields.refuse("role", f"Must be {form.user}: that is how a client speaks.")
    if fields.raw(form.parts) in (None, []):
        fields.refuse(form.parts, "At least one part is required.")
    copied = ("messageId", "contextId", "taskId", "metadata", "extensions", "referenceTaskIds")
    parts = [_part(part, form) for part in fields.messages(form.parts)]
    return {"role": "ROLE_USER", "parts": parts} | _copied(fields, *copied)


def _part(part: Fields, form: Form) -> JSON:
    new = _copied(part, "metadata")
    match _kind(part, form):
        case "text":
            new |= {"text": part.raw("text")}
        case "file":
            new |= _file(part, form)
        case "data":
            new |= _data(part, form, new.get("metadata"))
    return new


def _kind(part: Fields, form: Form) -> str:
    """What a part is: what it says, or else what it has. Whatever it says, it must have that."""
    has = [kind for kind in KINDS if part.raw(kind) is not None]
    stated = part.raw("kind") if form.has_kinds else None
    if stated is None:
        if len(has) == 1:
            return has[0]
        part.refuse("", "Must have exactly one of text, file and data.")
    elif stated not in KINDS:
        part.refuse("kind", "Must be text, file or data.")
    elif stated not in has:
        part.refuse(stated, "Is required.")
    else:
        return str(stated)
    return ""


def _file(part: Fields, form: Form) -> JSON:
    file = part.message("file") or Fields({})
    content, uri = file.raw(form.bytes), file.raw(form.uri)
    if (content is None) == (uri is None):
        file.refuse("", f"Must have exactly one of {form.bytes} and {form.uri}.")
    new = {"raw": form.decode(content)} if uri is None else {"url": uri}
    return new | {"filename": file.raw("name"), "mediaType": file.raw("mimeType")}


def _data(part: Fields, form: Form, metadata: Any) -> JSON:
    """Data is an object; one that the SDK made of something else becomes that again."""
    holder = part if form.has_kinds else part.message("data") or Fields({})
    data = holder.raw("data")
    if not isinstance(data, dict):
        holder.refuse("data", "Must be an object.")
    elif isinstance(metadata, dict) and metadata.get(WRAPPED) is True and data.keys() == {"value"}:
        return {"data": data["value"], "metadata": {key: metadata[key] for key in metadata if key != WRAPPED} or None}
    return {"data": data}
