"""What A2A 1.0 answers, as 0.3 writes it."""

from __future__ import annotations

from apps.a2a.errors import JSON
from apps.a2a.old.cards import old_card
from apps.a2a.old.forms import Form
from apps.a2a.streams import at_a_question
from apps.record.errors import TaskNotFound
from apps.record.lifecycle import TaskState

WRAPPED = "data_part_compat"  # the SDK's mark, in a part's metadata, of data that is no object and stands in one
UNTOLD = ("referenceTaskIds",)  # fields of a message that the protocol buffers of 0.3 have no place for


def response(new: JSON, form: Form) -> JSON:
    """A SendMessageResponse or StreamResponse. In JSON-RPC's form it is the object itself, which says what it is."""
    [(name, value)] = new.items()
    shown = SHOWN[name](value, form)
    return shown if form.has_kinds else {name: shown}


def task(new: JSON, form: Form) -> JSON:
    shown = {**new, "status": _status(new["status"], form)} | _kind("task", form)
    if "artifacts" in new:
        shown["artifacts"] = [_artifact(one, form) for one in new["artifacts"]]
    if "history" in new:
        shown["history"] = [message(one, form) for one in new["history"]]
    return shown


def message(new: JSON, form: Form) -> JSON:
    kept = {name: value for name, value in new.items() if name != "parts" and (form.has_kinds or name not in UNTOLD)}
    role = form.user if new["role"] == "ROLE_USER" else form.agent
    return kept | {"role": role, form.parts: _parts(new, form)} | _kind("message", form)


def webhook(new: JSON, form: Form) -> JSON:
    """A TaskPushNotificationConfig, in which 0.3 keeps the task apart from the config."""
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


def webhooks(new: JSON, form: Form) -> JSON | list[JSON]:
    shown = [webhook(one, form) for one in new.get("configs", ())]
    return shown if form.has_kinds else {"configs": shown}


def first_webhook(new: JSON, form: Form) -> JSON:
    """The first of a list. Raises TaskNotFound where there is none."""
    if not new.get("configs"):
        raise TaskNotFound("There is no such webhook.")
    return webhook(new["configs"][0], form)


def card(new: JSON, form: Form) -> JSON:
    """An AgentCard, which both forms write alike."""
    return old_card(new)


def nothing(new: JSON, form: Form) -> JSON | None:
    """The answer of what has none."""
    return None if form.has_kinds else {}


def ends_here(new: JSON) -> bool:
    """Is this StreamResponse the last one of a stream of 0.3? A task that asks or has ended says so by `final`."""
    return "statusUpdate" in new and _is_final(new["statusUpdate"])


def _is_final(update: JSON) -> bool:
    return at_a_question(TaskState.from_wire(update["status"]["state"]))


def _status_update(new: JSON, form: Form) -> JSON:
    changed = {"status": _status(new["status"], form), "final": _is_final(new)}
    return {**new, **changed} | _kind("status-update", form)


def _artifact_update(new: JSON, form: Form) -> JSON:
    return {**new, "artifact": _artifact(new["artifact"], form)} | _kind("artifact-update", form)


def _status(new: JSON, form: Form) -> JSON:
    said = {"message": message(new["message"], form)} if "message" in new else {}
    return {**new, "state": form.states[new["state"]], **said}


def _artifact(new: JSON, form: Form) -> JSON:
    return {**new, "parts": _parts(new, form)}


def _parts(new: JSON, form: Form) -> list[JSON]:
    return [_part(one, form) for one in new["parts"]]


def _part(new: JSON, form: Form) -> JSON:
    """A part. What 0.3 has no field for goes into its metadata."""
    metadata = new.get("metadata", {})
    shown: JSON
    if "raw" in new or "url" in new:
        shown = {"file": _file(new, form)} | _kind("file", form)
    else:
        metadata = _named(new) | metadata
        if "text" in new:
            shown = {"text": new["text"]} | _kind("text", form)
        else:
            data = new["data"]
            if not isinstance(data, dict):
                data, metadata = {"value": data}, {**metadata, WRAPPED: True}
            shown = {"data": data if form.has_kinds else {"data": data}} | _kind("data", form)
    return shown | ({"metadata": metadata} if metadata else {})


def _named(new: JSON) -> JSON:
    """The name and media type of text or data, where they are more than what goes without saying."""
    named = {name: new[name] for name in ("filename", "mediaType") if name in new}
    return {name: value for name, value in named.items() if value not in ("text/plain", "application/json")}


def _file(new: JSON, form: Form) -> JSON:
    content = {form.bytes: form.encode(new["raw"])} if "raw" in new else {form.uri: new["url"]}
    named = {"name": new.get("filename"), "mimeType": new.get("mediaType")}
    return content | {name: value for name, value in named.items() if value}


def _kind(name: str, form: Form) -> JSON:
    return {"kind": name} if form.has_kinds else {}


SHOWN = {"task": task, "message": message, "statusUpdate": _status_update, "artifactUpdate": _artifact_update}
"""By the names of StreamResponse's fields."""
